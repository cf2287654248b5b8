"""assignadd measure: accuracies, phases and curves of trained models"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from rich.text import Text

from assignadd.cli import options
from assignadd.cli.options import ManyRuns, Measuring, OneRun, OwnFiles, Parallel
from assignadd.cli.screen import Column, Output, Printing, Table, by_model, columns, console, note
from assignadd.cli.train import note_undefined_measures
from assignadd.config import require_built_in
from assignadd.config.errors import RunError, UsageError
from assignadd.dynamics.curves import LASTING
from assignadd.dynamics.trajectory import (
    curves_of,
    late_variable_of,
    measured_run,
    onsets_of,
    phases_of,
    stored_or_measured,
    with_own_columns,
)
from assignadd.measures.accuracies import set_accuracies
from assignadd.network import SEQUENCES, Network, networks_of, runs_of
from assignadd.runs.folder import Run, check_files, open_run
from assignadd.runs.manifest import MEASURES
from assignadd.task.evalsets import all_sets
from assignadd.training.trainer import prepare

if TYPE_CHECKING:
    import polars


@dataclass(frozen=True, kw_only=True)
class Accuracies(ManyRuns, OwnFiles, Measuring, Printing):
    """Accuracy of every model on every evaluation set, with 95 % Wilson intervals; `measure` alone does the same.

    The intervals of the classes of held-out pairs are over the pairs of a class, the others over sequences. Of several
    models the intervals are in --csv and --json, which prints
    {"models": [{"run", "seed", "step", "sets": {name: {"label", "accuracy", "low", "high", "n", "pairs"}}}]}.
    """

    n: int = 4000
    """Sequences per set, drawn afresh from the evaluation stream."""
    step: int | None = None
    """The checkpoint. If None, the last one."""

    def main(self) -> Output:
        options.within("n", self.n)
        seeds = self.wanted_seeds
        threads = self.cores
        runs = [open_run(name) for name in self.runs]
        for run in runs:
            check_files(run, self.task_, self.network)
        models = [model for run in runs for model in _evaluated(run, self.step, seeds, self.n, threads)]
        caption = f"{self.n:,} sequences a set."
        table = _accuracy_table(models, caption)
        shown = table if len(models) == 1 else _many_models(models, caption)
        return Output([shown], {"models": models}, csv=table)


def _evaluated(run: Run, step: int | None, seeds: Sequence[int] | None, n: int, threads: int) -> list[dict[str, Any]]:
    """The accuracies of a run's models with these seeds (None: of all), `n` sequences a set, as --json prints them."""
    prepare("cpu", threads, run.config)
    step, stack = run.at(step)
    indices = list(range(len(run.members))) if seeds is None else [run.index_of(seed) for seed in seeds]
    reasons = run.unsound(step, stack)  # why a model cannot be evaluated, by its index
    note(*(f"{reason}; it is left out" for i, reason in reasons.items() if i in indices))
    indices = [i for i in indices if i not in reasons]
    if not indices:
        raise RunError(f"{run.name} has no model left to evaluate at step {step}")
    labels = {evalset.name: evalset.label for evalset in all_sets(run.config.task)}
    models = []
    for i in indices:
        sets = {}
        for name, measured in set_accuracies(stack.models(i), run.configs[i], run.seen[i], n).items():
            sets[name] = {
                "label": labels[name], "accuracy": measured.accuracy, "low": measured.interval.low,
                "high": measured.interval.high, "n": measured.n, "pairs": measured.pairs,
            }  # fmt: skip
        models.append({"run": run.name, "seed": run.members[i].seed, "step": step, "sets": sets})
    return models


def _accuracy_table(models: Sequence[dict[str, Any]], caption: str) -> Table:
    """A row for each model and evaluation set; `models` are those of `_evaluated`."""
    table_columns = [
        *(Column(name, only="data") for name in ("run", "seed", "step", "set")), Column("label", "set"),
        Column("accuracy", form=".4f"), Column("low", "from", ".4f"), Column("high", "to", ".4f"),
        Column("n", only="data"), Column("pairs", "over pairs", none=""),
    ]  # fmt: skip
    rows = []
    for model in models:
        for name, numbers in model["sets"].items():
            # `numbers` has the label, accuracy, low, high, n and pairs of the set, in the order of the columns.
            rows.append((model["run"], model["seed"], model["step"], name, *numbers.values()))
    title = f"{models[0]['run']}, seed {models[0]['seed']}, step {models[0]['step']:,}"
    return Table(title, table_columns, rows, f"With 95 % intervals; {caption}")


def _many_models(models: Sequence[dict[str, Any]], caption: str) -> Table:
    """The accuracies of several models, those of `_evaluated`: a row for each evaluation set."""
    # Each run and step once, though it may have several models.
    runs_and_steps = dict.fromkeys(f"{model['run']}, step {model['step']:,}" for model in models)
    labels = {name: numbers["label"] for model in models for name, numbers in model["sets"].items()}
    by_label: dict[str, list[float | None]] = {}
    no_such_set = {"accuracy": None}  # of a model whose task does not have the set
    for name, label in labels.items():
        by_label[label] = [model["sets"].get(name, no_such_set)["accuracy"] for model in models]
    return by_model(f"accuracy: {'; '.join(runs_and_steps)}", by_label, [model["seed"] for model in models], caption)


@dataclass(frozen=True, kw_only=True)
class Curves(OneRun, Parallel, Printing):
    """Every progress measure at every checkpoint of a run: a row per model and checkpoint.

    The table is measures.parquet in the run folder, where the other commands find it; --csv prints it.
    """

    def main(self) -> Output:
        run = open_run(self.run)
        require_built_in(run.config, "measure curves")
        note_undefined_measures(run.config)
        table = measured_table(run, self.cores)
        line = f"{run.path / MEASURES}: {len(table):,} rows, {len(table.columns)} columns"
        rows = with_own_columns(run, table).fill_nan(None)  # JSON has no NaN
        return Output([line], csv=Table("", columns(*rows.columns), rows.rows()))


def measured_table(run: Run, processes: int) -> polars.DataFrame:
    """Every progress measure at every checkpoint of a run: read where it is stored, else measured and stored."""
    return stored_or_measured(run, partial(_measured_on_screen, processes=processes), note)


def _measured_on_screen(run: Run, processes: int) -> polars.DataFrame:
    """Every progress measure at every checkpoint of a run, measured now, while the screen shows how far it is."""
    prepare("cpu", 1, run.config)  # every process has one thread, so that their number changes no digit
    for member, step in zip(run.members, run.diverged_at, strict=True):
        if step is not None:
            note(f"seed {member.seed} of {run.name} diverged at step {step}; from there on its measures are NaN")
    with console.status("measuring") as status:

        def listener(done: int, total: int) -> None:
            status.update(Text(f"measuring {run.name}: {done:,} of {total:,} checkpoints"))

        return measured_run(run, listener, processes)


@dataclass(frozen=True, kw_only=True)
class Phases(ManyRuns, Parallel, Printing):
    """The phases of training, both spikes, the variable learned last, and the onset of every curve.

    Reads what `assignadd measure curves RUN` stored in the run folder; else measures it, and stores it there. --csv
    prints the onsets, --json {"models": [{"run", "seed", "summary", ..., "onsets": [{"curve", "threshold", ...}]}]}.
    """

    def main(self) -> Output:
        seeds = self.wanted_seeds
        networks = with_seeds(read_networks(self.runs, None, SEQUENCES, "measure phases"), seeds)
        for network in networks:
            steps = curves_of(network).steps
            if len(steps) < 2:
                raise RunError(
                    f"{network.name} was evaluated once, at step {steps[-1]:,}, which shows no phases: "
                    "train with --record.eval-every 100, or import several checkpoints"
                )
        for run in runs_of(networks):
            measured_table(run, self.cores)  # on all cores; the tables below read what this stores
            if len(run.steps) < 2:
                note(f"{run.name} has one checkpoint: no onsets of measures; train with --record.checkpoint-every 100")
        onsets = _onset_table(networks)
        parts: list[Table | str] = [_phases_table(networks)]
        if len(networks) == 1:
            parts += [phases_of(networks[0]).summary, onsets]
        return Output(parts, {"models": [_phases_record(network) for network in networks]}, onsets)


def read_networks(runs: Sequence[str | Run], step: int | None, n: int, command: str = "claims") -> list[Network]:
    """The models of these runs at `step` (if None, the last), to be measured on `n` sequences of each set.

    A model that diverged is left out, with a note. A run with code of the user's is refused, naming `command`.
    """
    options.within("n", n)
    networks: list[Network] = []
    for run in [open_run(name) for name in runs]:
        require_built_in(run.config, command)
        prepare("cpu", 1, run.config)  # every process has one thread, so that their number changes no digit
        models, notes = networks_of(run, step, n)
        note(*notes)
        networks += models
    return networks


def with_seeds(networks: Sequence[Network], seeds: Sequence[int] | None) -> list[Network]:
    """The networks that have one of these seeds, in any of the runs; all networks if `seeds` is None."""
    available = sorted({network.seed for network in networks})
    if missing := [seed for seed in seeds or () if seed not in available]:
        raise UsageError(f"no seed {missing[0]} there; there are {', '.join(map(str, available))}")
    return [network for network in networks if seeds is None or network.seed in seeds]


def _phases_record(network: Network) -> dict[str, Any]:
    """The phases, spikes, late variable and onsets of a network, as --json prints them."""
    phases = phases_of(network)
    late = late_variable_of(network)
    return {
        "run": network.name,
        "seed": network.seed,
        "summary": phases.summary,
        **dataclasses.asdict(phases),
        "late_variable": None if late is None else dataclasses.asdict(late),
        "onsets": [dataclasses.asdict(onset) for onset in onsets_of(network)],
    }


def _phases_table(networks: Sequence[Network]) -> Table:
    """A row for each network: the steps at which it learned each skill, the ends of its spikes, its late variable."""
    rows = []
    for network in networks:
        phases = phases_of(network)
        late = late_variable_of(network)
        onsets = (phases.addition, phases.binding, phases.refinement)
        spikes = (phases.first_spike, phases.second_spike)
        steps = [None if onset is None else onset.step for onset in onsets]
        steps += [None if spike is None else spike.after for spike in spikes]
        late_and_slot = None if late is None else f"{late.variable}, {late.slot} slot"
        rows.append((network.name, network.seed, *steps, late_and_slot))
    names = ("run", "seed", "addition", "binding", "refinement", "first spike", "second spike", "late variable")
    caption = "The step from which each was there, - if it never was. For one network, as of --seeds, also its curves."
    return Table("phases of training", columns(*names), rows, caption)


def _onset_table(networks: Sequence[Network]) -> Table:
    """A row for each curve of each network: the step from which it stays at its threshold (`level`) or above."""
    table_columns = [
        *(Column(name, only="data") for name in ("run", "seed", "curve")), Column("label", "curve"),
        Column("threshold", "level", "g"), Column("lasting", only="data"), Column("onset", none="never"),
        *columns("low", "high"), Column("n", none="all"),
    ]  # fmt: skip
    rows = []
    for network in networks:
        for onset in onsets_of(network):
            curve_and_threshold = (onset.curve, onset.label, onset.threshold, onset.lasting)
            measured = (onset.onset, onset.low, onset.high, onset.n)
            rows.append((network.name, network.seed, *curve_and_threshold, *measured))
    title = f"onset: at its level or above from here on, for {LASTING:,} steps or to the end"
    caption = (
        "The onset is after low and not after high, given the noise of n sequences (95 %); - if it may never have "
        "come. n = all: nothing is sampled, and only the time between two checkpoints is open."
    )
    return Table(title, table_columns, rows, caption)
