"""assignadd measure: accuracies, phases and curves of trained models"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assignadd.cli import options
from assignadd.cli.options import ManyRuns, Measuring, OneRun, Parallel
from assignadd.cli.screen import Column, Output, Printing, Table, by_model, columns, console, counting, facts, note
from assignadd.cli.train import note_not_defined
from assignadd.config.errors import RunError, UsageError
from assignadd.dynamics.trajectory import curves_of, late_variable_of, onsets_of, phases_of, trajectory_of

if TYPE_CHECKING:
    import polars

    from assignadd.dynamics.curves import Onset, Spike
    from assignadd.dynamics.phases import LateVariable
    from assignadd.measures.accuracies import Accuracy
    from assignadd.network import Network
    from assignadd.runs.folder import Run


@dataclass(frozen=True, kw_only=True)
class Accuracies(ManyRuns, Measuring, Printing):
    """Accuracy of every model on every evaluation set, with 95 % Wilson intervals; `measure` alone does the same.

    The intervals of the classes of held-out pairs are over the pairs of a class, the others over sequences. Of several
    models the intervals are in --csv and --json, which prints
    {"models": [{"run", "seed", "step", "sets": {name: {"accuracy", "n", "pairs", "low", "high"}}}]}.
    """

    n: int = 4000
    """Sequences per set, drawn afresh from the evaluation stream."""
    step: int | None = None
    """The checkpoint. If None, the last one."""

    def main(self) -> Output:
        options.check_count("n", self.n)
        seeds, threads = self.wanted_seeds, self.cores
        from assignadd.runs.folder import open_run
        from assignadd.task.evalsets import all_sets

        runs = [open_run(name) for name in self.runs]
        models = [model for run in runs for model in _evaluated(run, self.step, seeds, self.n, threads)]
        labels = {s.name: s.label for run in runs for s in all_sets(run.config.task)}
        rows = [
            (run, seed, step, name, labels[name], a.accuracy, a.interval.low, a.interval.high, a.n, a.pairs)
            for run, seed, step, sets in models
            for name, a in sets.items()
        ]
        names = ("run", "seed", "step", "set", "label", "accuracy", "low", "high", "n", "pairs")
        document = [
            {"run": run, "seed": seed, "step": step, "sets": {name: _facts(a) for name, a in sets.items()}}
            for run, seed, step, sets in models
        ]
        return Output([_accuracy_table(models, labels, self.n)], {"models": document}, Table("", columns(*names), rows))


Evaluated = tuple[str, int, int, "dict[str, Accuracy]"]


def _evaluated(run: Run, step: int | None, seeds: Sequence[int] | None, n: int, threads: int) -> list[Evaluated]:
    """Run, seed, step and accuracies of each model; one that diverged is left out with a note."""
    from assignadd.measures.accuracies import set_accuracies
    from assignadd.training.trainer import prepare

    prepare("cpu", threads, run.config)
    at, stack = run.at(step)
    indices = list(range(len(run.members)) if seeds is None else map(run.index_of, seeds))
    unsound = {i: why for i, why in run.unsound(at, stack).items() if i in indices}
    for why in unsound.values():
        note(f"{why}; it is left out")
    indices = [i for i in indices if i not in unsound]
    if not indices:
        raise RunError(f"{run.name} has no model left to evaluate at step {at}")
    configs = [run.configs[i] for i in indices]
    accuracies = set_accuracies(stack.models(indices), configs, run.seen[indices], n)
    return [(run.name, run.members[i].seed, at, sets) for i, sets in zip(indices, accuracies, strict=True)]


def _facts(a: Accuracy) -> dict[str, float | None]:
    return {"accuracy": a.accuracy, "n": a.n, "pairs": a.pairs, "low": a.interval.low, "high": a.interval.high}


def _accuracy_table(models: Sequence[Evaluated], labels: dict[str, str], n: int) -> Table:
    """A row for each set: of one model the accuracy with its interval, of several their accuracies."""
    run, seed, step, sets = models[0]
    caption = (
        f"{n:,} sequences a set. `assignadd measure phases {run}`: when each skill was learned; "
        f"`assignadd measure curves {run}`: every progress measure at every checkpoint."
    )
    if len(models) > 1:
        steps = {f"{name}, step {at:,}": None for name, _, at, _ in models}
        rows = {label: [s[name].accuracy if name in s else None for *_, s in models] for name, label in labels.items()}
        return by_model(f"accuracy: {'; '.join(steps)}", rows, [model[1] for model in models], caption)
    cells = [(labels[name], a.accuracy, a.interval.low, a.interval.high, a.pairs) for name, a in sets.items()]
    numbers = [Column("accuracy", form=".4f"), Column("from", form=".4f"), Column("to", form=".4f")]
    table_columns = [Column("set"), *numbers, Column("over pairs", none="")]
    return Table(f"{run}, seed {seed}, step {step:,}", table_columns, cells, f"With 95 % intervals; {caption}")


@dataclass(frozen=True, kw_only=True)
class Curves(OneRun, Parallel, Printing):
    """Every progress measure at every checkpoint of a run, as a Parquet table: a row per model and checkpoint."""

    out: Path | None = None
    """The file; measures.parquet in the run folder unless given, where the other commands find it."""
    again: bool = False
    """Measure even where the run's table is there and up to date."""

    def main(self) -> Output:
        from assignadd.dynamics.trajectory import with_own_columns, write_measures
        from assignadd.runs.folder import open_run
        from assignadd.runs.manifest import MEASURES

        run = open_run(self.run)
        if self.out is not None:
            from assignadd.runs.encoding import is_sealed_with
            from assignadd.runs.files import claim_file

            claim_file(self.out, lambda data: is_sealed_with(data, "checkpoints"))
        note_not_defined(run.config)
        table = measured_table(run, self.cores, self.again)
        if self.out is not None:
            write_measures(run, table, self.out)
        line = f"{self.out or run.path / MEASURES}: {len(table):,} rows, {len(table.columns)} columns"
        rows = with_own_columns(run, table).fill_nan(None)  # JSON has no NaN
        return Output([line], csv=Table("", columns(*rows.columns), rows.rows()))


def measured_table(run: Run, threads: int, again: bool = False) -> polars.DataFrame:
    """The run's table, read where it is stored, else measured with a bar on the screen, and stored."""
    from assignadd.dynamics.trajectory import measured_run, measures_problem, read_measures, write_measures
    from assignadd.training.trainer import prepare

    table = None if again else read_measures(run)
    if table is None:
        if problem := measures_problem(run):
            note(f"{problem}; it is measured again")
        prepare("cpu", 1, run.config)  # every process has one thread, so that their number changes no digit
        for member, at in zip(run.members, run.diverged_at, strict=True):
            if at is not None:
                note(f"seed {member.seed} of {run.name} diverged at step {at}; from there on its measures are NaN")
        with counting(f"measuring {run.name}", "checkpoints") as listener:
            table = measured_run(run, listener, threads)
        try:
            write_measures(run, table)
        except RunError as error:  # a run that may only be read
            note(f"the measures are not stored: {error}")
    return table


@dataclass(frozen=True, kw_only=True)
class Phases(ManyRuns, Parallel, Printing):
    """The phases of training, both spikes, the variable learned last, and the onset of every curve.

    Reads what `assignadd measure curves RUN` stored in the run folder; else measures it, and stores it there. --csv
    prints the onsets, --json {"models": [{"run", "seed", "summary", ..., "onsets": [{"curve", "threshold", ...}]}]}.
    """

    def main(self) -> Output:
        seeds = self.wanted_seeds
        from assignadd.network import SEQUENCES, runs_of

        networks = with_seeds(read_networks(self.runs, None, SEQUENCES), seeds)
        with console.status("evaluating"):  # the checkpoints of imported weights, whose training recorded nothing
            for network in networks:
                _check_evaluated(network)
        for run in runs_of(networks):
            measured_table(run, self.cores)
        shown = _of_one(networks[0]) if len(networks) == 1 else [_of_many(networks)]
        return Output(shown, {"models": [_record(network) for network in networks]}, _onset_table(networks))


def read_networks(runs: Sequence[str], step: int | None, n: int, threads: int = 1) -> list[Network]:
    """Every model of these runs, ready to be measured; notes on damaged checkpoints go to stderr.

    Processes that measure side by side have one thread each, so that their number changes no digit.
    """
    options.check_count("n", n)
    from assignadd.network import networks_of
    from assignadd.runs.folder import open_run
    from assignadd.training.trainer import prepare

    networks: list[Network] = []
    for run in [open_run(name) for name in runs]:
        prepare("cpu", threads, run.config)
        models, notes = networks_of(run, step, n)
        note(*notes)
        networks += models
    return networks


def with_seeds(networks: Sequence[Network], seeds: Sequence[int] | None) -> list[Network]:
    """The models with these seeds, of whichever run."""
    available = sorted({network.seed for network in networks})
    if missing := [seed for seed in seeds or () if seed not in available]:
        raise UsageError(f"no seed {missing[0]} there; there are {', '.join(map(str, available))}")
    return [network for network in networks if seeds is None or network.seed in seeds]


def _check_evaluated(network: Network) -> None:
    steps = curves_of(network).steps
    if len(steps) < 2:
        raise RunError(
            f"{network.name} was evaluated once, at step {steps[-1]:,}, which shows no phases: "
            "train with --record.eval-every 100, or import several checkpoints"
        )


def _record(network: Network) -> dict[str, Any]:
    late = late_variable_of(network)
    record = {"run": network.name, "seed": network.seed, "summary": phases_of(network).summary}
    record |= dataclasses.asdict(phases_of(network))
    onsets = [dataclasses.asdict(onset) for onset in onsets_of(network)]
    return record | {"late_variable": late and dataclasses.asdict(late), "onsets": onsets}


def _of_one(network: Network) -> list[Table]:
    """The phases of a network in words, and the onset of every curve."""
    phases = phases_of(network)
    words = {
        "addition": _onset(phases.addition),
        "binding": _onset(phases.binding),
        "refinement": _onset(phases.refinement),
        "first spike": f"{_spike(phases.first_spike)} on sets with variables, none banned",
        "second spike": f"{_spike(phases.second_spike)} on sets with banned slots",
        "late variable": _late(late_variable_of(network)),
    }
    if len(trajectory_of(network)["step"]) < 2:
        note(
            f"{network.name} has one checkpoint, and so no onsets of measures; train with --record.checkpoint-every 100"
        )
    return [facts(f"{network.name}, seed {network.seed}: {phases.summary}", words), _onset_table([network])]


def _of_many(networks: Sequence[Network]) -> Table:
    """A row for each network: the steps at which it learned what, and its spikes."""
    rows = []
    for network in networks:
        phases, late = phases_of(network), late_variable_of(network)
        steps = [onset and onset.step for onset in (phases.addition, phases.binding, phases.refinement)]
        spikes = [spike and spike.after for spike in (phases.first_spike, phases.second_spike)]
        rows.append((network.name, network.seed, *steps, *spikes, late and late.variable))
    table_columns = columns(
        "run", "seed", "addition", "binding", "refinement", "first spike", "second spike", "late variable"
    )
    caption = (
        "The step from which each was there, - if it never was. With --seeds one network is shown with its curves."
    )
    return Table("phases of training", table_columns, rows, caption)


def _onset_table(networks: Sequence[Network]) -> Table:
    """A row for each curve of each network: when it came to stay at its level."""
    table_columns = [
        Column("run", only="data"),
        Column("seed", only="data"),
        Column("curve", only="data"),
        Column("label", "curve"),
        Column("threshold", "level", "g"),
        Column("lasting", only="data"),
        Column("onset", none="never"),
        *columns("low", "high"),
        Column("n", none="all"),
    ]
    rows = [
        (network.name, network.seed, o.curve, o.label, o.threshold, o.lasting, o.onset, o.low, o.high, o.n)
        for network in networks
        for o in onsets_of(network)
    ]
    title = f"onset: at its level or above from here on, for {onsets_of(networks[0])[0].lasting:,} steps or to the end"
    caption = (
        "The onset is after low and not after high, given the noise of n sequences (95 %); - if it may never have "
        "come. n = all: nothing is sampled, and only the time between two checkpoints is open."
    )
    return Table(title, table_columns, rows, caption)


def _onset(onset: Onset | None) -> str:
    if onset is None:
        return "never"
    return f"step {onset.step:,} ({onset.low:,} " + ("or later)" if onset.high is None else f"to {onset.high:,})")


def _spike(spike: Spike | None) -> str:
    if spike is None:
        return "none"
    return f"steps {spike.before:,} to {spike.after:,}, accuracy {spike.low:.2f} to {spike.high:.2f}"


def _late(late: LateVariable | None) -> str:
    if late is None:
        return "none"
    slot = f"{late.variable} in the {late.slot} slot" + (", where training never put it" if late.banned else "")
    return f"{slot}; " + (
        "it never came" if late.onset is None else f"half of its sums are right from step {late.onset:,} on"
    )
