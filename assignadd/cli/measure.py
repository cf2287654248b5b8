"""assignadd measure, assignadd eval"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from assignadd.cli import options
from assignadd.cli.screen import counting, note, print_json, print_table, say
from assignadd.config.errors import RunError

if TYPE_CHECKING:
    import polars

    from assignadd.config import Config
    from assignadd.measures.accuracies import Accuracy
    from assignadd.runs.folder import Run


@dataclass(frozen=True)
class Measure:
    """Every progress measure at every checkpoint of a run, as a Parquet table: a row per model and checkpoint."""

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """A run folder, or its name under runs/."""
    out: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """The file; measures.parquet in the run folder unless given, where the other commands find it."""
    threads: int | None = None
    """Processes that measure side by side. If None, one for each core."""
    again: bool = False
    """Measure even where the run's table is there and up to date."""


def main(arguments: list[str]) -> None:
    args = options.read(Measure, arguments, "measure")
    from assignadd.runs.folder import open_run

    run = open_run(args.run)
    if args.out is not None:
        from assignadd.runs.files import claim_file
        from assignadd.runs.tables import is_sealed_with

        claim_file(args.out, lambda data: is_sealed_with(data, "checkpoints"))
    measure_on_screen(run, options.resolve_threads(args.threads), args.out, args.again)


def measure_on_screen(run: Run, threads: int, out: Path | None = None, again: bool = False) -> None:
    from assignadd.dynamics.trajectory import write_measures
    from assignadd.runs.manifest import MEASURES

    note_not_defined(run.config)
    table = measured_table(run, threads, again)
    if out:
        write_measures(run, table, out)
    say(f"{out or run.path / MEASURES}: {len(table):,} rows, {len(table.columns)} columns")


def note_not_defined(config: Config) -> None:
    """One line on stderr for each reason why measures are not defined for this architecture, with their names."""
    from assignadd.measures.columns import not_defined

    by_reason: dict[str, list[str]] = {}
    for name, reason in not_defined(config).items():
        by_reason.setdefault(reason, []).append(name)
    for reason, names in by_reason.items():
        note(f"not defined for this network, and left out: {', '.join(names)} ({reason})")


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


@dataclass(frozen=True)
class Eval:
    """Accuracy of every model of a run on every evaluation set, with 95 % Wilson intervals.

    The intervals of the classes of held-out pairs are over the pairs of a class, the others over sequences.
    """

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """A run folder, or its name under runs/."""
    step: int | None = None
    """The checkpoint. If None, the last one."""
    seeds: str | None = None
    """Only these seeds."""
    n: int = 4000
    """Sequences per set, drawn afresh from the evaluation stream."""
    threads: int | None = None
    """CPU threads. If None, every core."""
    json: bool = False
    """Print {"models": [{"seed", "step", "sets": {...}}]}."""


def eval_main(arguments: list[str]) -> None:
    args = options.read(Eval, arguments, "eval")
    options.check_count("n", args.n)
    wanted = options.parse_seeds(args.seeds) if args.seeds else None
    threads = options.resolve_threads(args.threads)
    from assignadd.measures.accuracies import set_accuracies
    from assignadd.runs.folder import open_run
    from assignadd.task.evalsets import all_sets
    from assignadd.training.trainer import prepare

    run = open_run(args.run)
    prepare("cpu", threads, run.config)
    step, stack, notes = run.at(args.step)
    note(*notes)
    indices = list(range(len(run.members)) if wanted is None else map(run.index_of, wanted))
    unsound = {i: why for i, why in run.unsound(step, stack).items() if i in indices}
    for why in unsound.values():
        note(f"{why}; it is left out")
    indices = [i for i in indices if i not in unsound]
    if not indices:
        raise RunError(f"{run.name} has no model left to evaluate at step {step}")
    configs = [run.configs[i] for i in indices]
    found = set_accuracies(stack.models(indices), configs, run.seen[indices], args.n)
    results = [(run.members[i].seed, sets) for i, sets in zip(indices, found, strict=True)]
    if args.json:
        models = [
            {"seed": seed, "step": step, "sets": {name: _facts(a) for name, a in sets.items()}}
            for seed, sets in results
        ]
        return print_json({"models": models})
    labels = {s.name: s.label for s in all_sets(run.config.task)}
    columns, caption = ("set", "accuracy", "95 % interval", "over"), f"{args.n:,} sequences a set"
    for seed, sets in results:
        rows = [(labels[name], *_cells(a)) for name, a in sets.items()]
        print_table(f"{run.name}, seed {seed}, step {step:,}", columns, rows, caption)


def _facts(a: Accuracy) -> dict[str, float | None]:
    ends = {"low": a.interval.low, "high": a.interval.high}
    return {"accuracy": a.accuracy, "n": a.n, "pairs": a.pairs} | ends


def _cells(a: Accuracy) -> tuple[str, str, str]:
    interval = f"{a.interval.low:.4f} - {a.interval.high:.4f}"
    return f"{a.accuracy:.4f}", interval, f"{a.pairs:,} pairs" if a.pairs else "sequences"
