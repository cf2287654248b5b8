"""assignadd measure"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from assignadd.cli import options
from assignadd.cli.screen import counting, note, say
from assignadd.errors import RunError

if TYPE_CHECKING:
    import polars

    from assignadd.config import Config
    from assignadd.dynamics.trajectory import Known
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
        from assignadd.runs.destination import claim_file
        from assignadd.runs.tables import is_parquet_with

        claim_file(args.out, lambda data: is_parquet_with(data, "checkpoints"))
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


def measured_table(run: Run, threads: int, again: bool = False, known: Known | None = None) -> polars.DataFrame:
    """The run's table, read where it is stored, else measured with a bar on the screen, and stored.

    `known` is what was measured already.
    """
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
            table = measured_run(run, listener, threads, known)
        try:
            write_measures(run, table)
        except RunError as error:  # a run that may only be read
            note(f"the measures are not stored: {error}")
    return table
