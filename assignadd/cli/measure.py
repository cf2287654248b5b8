"""assignadd measure"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from assignadd.cli import options

if TYPE_CHECKING:
    import polars

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


def main(arguments: list[str]) -> int:
    args = options.read(Measure, arguments, "measure")
    from assignadd.runs.folder import open_run

    measure_on_screen(open_run(args.run), options.resolve_threads(args.threads), args.out, args.again)
    return 0


def measure_on_screen(run: Run, threads: int, out: Path | None = None, again: bool = False) -> None:
    from assignadd.cli.screen import say
    from assignadd.dynamics.trajectory import FILE, write_measures

    table = measured_table(run, threads, again)
    path = write_measures(run, table, out) if out else run.path / FILE
    say(f"{path}: {len(table):,} rows, {len(table.columns)} columns")


def measured_table(run: Run, threads: int, again: bool = False) -> polars.DataFrame:
    """The run's table, read where it is stored, else measured with a bar on the screen, and stored."""
    from assignadd.cli.screen import counting
    from assignadd.dynamics.trajectory import measured_run, read_measures, write_measures
    from assignadd.model.table import require_covered
    from assignadd.training.trainer import prepare

    require_covered(run.config)
    table = None if again else read_measures(run)
    if table is None:
        prepare("cpu", 1, run.config)  # every process has one thread, so that their number changes no digit
        with counting(f"measuring {run.name}", "checkpoints") as listener:
            table = measured_run(run, listener, threads)
        write_measures(run, table)
    return table
