"""assignadd study"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from assignadd.cli import options
from assignadd.cli.screen import SweepScreen, note, print_json, print_table, say
from assignadd.cli.sweep import print_plan, resolve_device
from assignadd.config.errors import UsageError

if TYPE_CHECKING:
    from assignadd.stats import Measured
    from assignadd.study.study import Study as OneStudy
    from assignadd.study.table import StudyTable


@dataclass(frozen=True)
class Study:
    """Train the networks of a study and show what came out; without a path, list the studies in findings/.

    PATH is a file of Python, or a folder with study.py, which is executed: yours or one of the repository's. The same
    command continues an interrupted study. OUT/NAME.parquet has a row per network, OUT/NAME.json says how it was made,
    OUT/figure.svg is the figure.
    """

    path: Annotated[Path | None, tyro.conf.Positional] = None
    """A file, or a folder with study.py."""
    name: Annotated[str | None, tyro.conf.Positional] = None
    """Which of its studies, if it has several; all of them unless given."""
    show: bool = False
    """Train nothing and show the table in OUT, or else that beside study.py. Writes nothing; with --out the figure."""
    dry_run: bool = False
    """Print the number of networks, stacks and updates and an estimate of the time, and train nothing."""
    seeds: int | None = None
    """Networks in each cell. If None, the study's."""
    steps: int | None = None
    """Updates. If None, the study's."""
    tf32: bool = False
    """Round matrix-product inputs to TF32 on a GPU; kept in the results."""
    device: str = "auto"
    """auto, cpu or cuda (every GPU of this machine, or with --engine ray of the cluster)."""
    threads: int | None = None
    """Models at a time on a CPU, one thread each. If None, every core."""
    per_gpu: int = 1
    """Stacks at a time on each GPU of this machine: small stacks leave parts of a GPU unused."""
    engine: str = "local"
    """local, or ray (pip install 'assignadd[ray]')."""
    address: str | None = None
    """The Ray cluster, as for `assignadd sweep`."""
    out: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """Where the run folders, the table and the figure go. If None, runs/studies/NAME."""
    json: bool = False
    """Print JSON: a list of studies, plans for --dry-run, or results with "study", "cells", "statements", "table"."""


def main(arguments: list[str]) -> None:
    args = options.read(Study, arguments, "study")
    from assignadd.study.files import read_study, save_figure, studies_in, table_file
    from assignadd.user_file import user_module

    if args.path is None:
        return _list(args.json)
    module = user_module(args.path)
    studies = _chosen(studies_in(args.path, module), args)
    beside = args.path if args.path.is_dir() else args.path.parent
    if args.show:
        tables = {}
        for name, study in studies.items():
            places = [*([args.out] if args.out else []), beside, Path("runs") / "studies" / name]
            at = next((place for place in places if table_file(study, place).exists()), beside)
            tables[name] = read_study(study, at)
        drawn = save_figure(module, tables, args.out) if args.out else None
        return _show(tables, args.json, None, drawn)
    threads, device = options.resolve_threads(args.threads), resolve_device(args.engine, args.device)
    options.within("per_gpu", args.per_gpu, 1, 64)
    folders = {name: args.out or Path("runs") / "studies" / name for name in studies}
    command = shlex.join(["assignadd", "study", *arguments])
    plans, tables = [], {}
    for name, study in studies.items():
        if args.dry_run:
            plans.append(_plan(study, args, folders[name], threads, device))
        else:
            tables[name] = _run(study, args, folders[name], threads, device, command)
    if args.dry_run:
        return print_json(plans) if args.json else None
    first = next(iter(folders.values()))
    _show(tables, args.json, folders, save_figure(module, tables, first))


def _chosen(studies: dict[str, OneStudy], args: Study) -> dict[str, OneStudy]:
    if args.name is None:
        if len(studies) > 1 and args.out and not args.show:
            raise UsageError(f"{args.path} has {len(studies)} studies: --out is for one of {', '.join(studies)}")
        return studies
    if args.name not in studies:
        raise UsageError(f"no study {args.name} in {args.path}; it has {', '.join(studies)}")
    return {args.name: studies[args.name]}


def _plan(study: OneStudy, args: Study, out: Path, threads: int, device: str) -> dict[str, Any]:
    from assignadd.sweeps.engine import plan

    sweep = study.sweep(args.seeds, args.steps, args.tf32)
    planned = plan(sweep, out, device, threads, per_gpu=args.per_gpu)
    about = planned.summary(sweep) | {"study": study.name, "engine": args.engine, "out": str(out)}
    if not args.json:
        print_plan(f"study {study.name}", about)
    return about


def _run(study: OneStudy, args: Study, out: Path, threads: int, device: str, command: str) -> StudyTable:
    from assignadd.study.files import run_study
    from assignadd.sweeps.engine import plan

    _plan(study, args, out, threads, device)
    sweep = study.sweep(args.seeds, args.steps, args.tf32)
    planned = plan(sweep, out, device, threads, per_gpu=args.per_gpu)
    with SweepScreen(study.name, planned.jobs, quiet=args.json) as screen:
        how: dict[str, Any] = {"device": device, "cores": threads, "engine": args.engine, "address": args.address}
        return run_study(study, sweep, out, command, screen, args.path, per_gpu=args.per_gpu, **how)


def _list(as_json: bool) -> None:
    from assignadd.study.files import FINDINGS, studies_in, study_folders, table_file

    folders = study_folders()
    if not folders:
        note(f"no folder {FINDINGS} here: `assignadd study FILE.py` runs a study of yours (docs/extend.md)")
    rows = []
    for folder in folders:
        for study in studies_in(folder).values():
            there = table_file(study, folder).exists()
            rows.append((str(folder), study.name, study.question, study.n_models, study.steps, there))
    columns = ("path", "study", "question", "networks", "steps", "table")
    if as_json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
    elif rows:
        shown = [(*row[:4], f"{row[4]:,}", "yes" if row[5] else "no") for row in rows]
        print_table("studies", columns, shown, "`assignadd study PATH --show` shows one")


def _show(tables: dict[str, StudyTable], as_json: bool, folders: dict[str, Path] | None, drawn: Path | None) -> None:
    """Prints the cells and the statements of each study."""
    from assignadd.study.figures import study_caption, study_data
    from assignadd.study.files import table_file
    from assignadd.study.table import study_records

    results = []
    for name, table in tables.items():
        study, records = table.study, study_records(table)
        if as_json:
            cells = [{k: _plain(v) for k, v in row.items()} for row in table.summary()]
            shown = ("id", "claim", "value", "low", "high", "n", "unit", "verdict")
            statements = [{name: getattr(record, name) for name in shown} for record in records]
            where = str(table_file(study, folders[name])) if folders else None
            results.append({"study": name, "cells": cells, "statements": statements, "table": where})
            continue
        print_table(study.name, *study_cells(table), study.question)
        for column in (*study.outcomes, *study.numbers):
            say(f"{column}: {study.labels.get(column, column)}")
        rows = [
            (f"{r.claim} ({r.id})", estimate(r.value, r.low, r.high), r.rule.partition(";")[0], r.verdict)
            for r in records
        ]
        if rows:
            print_table("statements", ("statement", "value", "rule", "verdict"), rows)
        say(study_caption(study_data(table)))
    if as_json:
        return print_json(results)
    if drawn:
        say(str(drawn))


def _plain(value: Any) -> Any:
    """A value of a summary for JSON."""
    if isinstance(value, tuple):
        median, ends = value
        return {"median": median, "low": ends.low if ends else None, "high": ends.high if ends else None}
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


def study_cells(table: StudyTable) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
    """Columns and rows of a table with a row per cell: its networks, shares of the outcomes, medians of the numbers.

    Networks that diverged are counted where there are any. Medians have their intervals with --json.
    """
    study, summary = table.study, table.summary()
    counts = ["models", *(["diverged"] if any(row["diverged"] for row in summary) else [])]
    rows = []
    for row in summary:
        shares = [_share(row[name]) for name in study.outcomes]
        medians = ["-" if row[name] is None else _plain_number(row[name][0]) for name in study.numbers]
        rows.append((row["cell"], *(row[name] for name in counts), *shares, *medians))
    return ("cell", *("nets" if c == "models" else c for c in counts), *study.outcomes, *study.numbers), rows


def _share(found: Measured | None) -> str:
    return "-" if found is None else f"{found.value:.2f} [{found.low:.2f}, {found.high:.2f}]"


def _plain_number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def estimate(value: float | None, low: float | None, high: float | None) -> str:
    """A number with its 95 % interval; a dash where there is none."""
    if value is None:
        return "-"
    return f"{value:.3g}" + ("" if low is None else f" [{low:.3g}, {high:.3g}]")
