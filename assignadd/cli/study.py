"""assignadd study"""

from __future__ import annotations

import shlex
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from assignadd.cli import options
from assignadd.cli.screen import SweepScreen, print_json, print_table, say
from assignadd.cli.sweep import print_plan, resolve_device
from assignadd.errors import UsageError

if TYPE_CHECKING:
    from assignadd.studies.table import StudyTable


@dataclass(frozen=True)
class Study:
    """Train the models of one of our studies and show what came out; without a name, list the studies.

    The same command continues an interrupted study. OUT/study-NAME.parquet has a row per model, OUT/study-NAME.json
    says how it was made, OUT/study-NAME.svg is the figure.
    """

    name: Annotated[str | None, tyro.conf.Positional] = None
    """Which study; `assignadd study` lists them."""
    show: bool = False
    """Train nothing: show the table in OUT or, without --out, the one that comes with the package or was made here, and
    draw its figure."""
    dry_run: bool = False
    """Print the number of models, stacks and updates and an estimate of the time, and train nothing."""
    seeds: int | None = None
    """Models in each cell, with seeds 0, 1, ... If None, the study's."""
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
    out: Path | None = None
    """Where the run folders, the table and the figure go. If None, runs/studies/NAME."""
    markdown: bool = False
    """Without a name: print docs/studies.md, with the results that come with the package."""
    json: bool = False
    """Print JSON: the list of studies, the plan for --dry-run, else {"study", "cells", "statements", "table"}."""


def main(arguments: list[str]) -> None:
    args = options.read(Study, arguments, "study")
    if args.markdown and args.name is None:
        from assignadd.report.studies_page import studies_page

        print(studies_page(), end="")
        return
    if args.name is None:
        return _list(args.json)
    from assignadd.studies.registry import study_named
    from assignadd.studies.table import file_of, read_study, shipped_study

    if args.markdown:
        raise UsageError("--markdown is for all studies: assignadd study --markdown")
    study = study_named(args.name)
    default = Path("runs") / "studies" / study.name
    if args.show:
        made_here = None if shipped_study(study) or not (default / file_of(study.name)).exists() else default
        return _show(read_study(study, args.out or made_here), args, args.out)
    threads, device = options.resolve_threads(args.threads), resolve_device(args.engine, args.device)
    options.within("per_gpu", args.per_gpu, 1, 64)
    out = args.out or default
    from assignadd.sweeps.engine import plan

    sweep = study.sweep(args.seeds, args.steps, args.tf32)
    planned = plan(sweep, out, device, threads, per_gpu=args.per_gpu)
    about = planned.summary(sweep) | {"engine": args.engine, "out": str(out)}
    if args.dry_run or not args.json:
        print_plan(f"study {study.name}", about, args.json)
    if args.dry_run:
        return
    from assignadd.studies.registry import run_study

    command = shlex.join(["assignadd", "study", *arguments])
    with SweepScreen(study.name, planned.jobs, quiet=args.json) as screen:
        how: dict[str, Any] = {"device": device, "cores": threads, "engine": args.engine, "address": args.address}
        how["per_gpu"] = args.per_gpu
        table = run_study(study, sweep, out, command, screen, **how)
    _show(table, args, out)


def _list(as_json: bool) -> None:
    from assignadd.studies.registry import STUDIES
    from assignadd.studies.table import shipped_study

    rows = [
        (s.name, s.question, len(s.cells), s.n_models, s.base.optim.steps, shipped_study(s) is not None)
        for s in STUDIES.values()
    ]
    columns = ("study", "question", "cells", "models", "steps", "result included")
    if as_json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        shown = [(*row[:4], f"{row[4]:,}", "yes" if row[5] else "no") for row in rows]
        print_table("studies", columns, shown, "`assignadd study NAME --dry-run` says what one takes")


def _show(table: StudyTable, args: Study, out: Path | None) -> None:
    """Prints the summary and the statements, and draws the figure into OUT, or into runs/studies/NAME."""
    from assignadd.claims.statements import study_records
    from assignadd.figures.studies import drawing_of, study_caption, study_data
    from assignadd.figures.style import figure, save
    from assignadd.report.studies_page import estimate_text, study_cells
    from assignadd.studies.table import Estimate, file_of

    study, records = table.study, study_records(table)
    folder = out or Path("runs") / "studies" / study.name
    drawing = drawing_of(study, table.frame.height)
    stem = (folder / file_of(study.name)).with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    with figure(drawing.width, drawing.height) as made:
        drawing.draw(drawing.data(table), made)
        save(made, stem)
    if args.json:
        cells = [{k: asdict(v) if isinstance(v, Estimate) else v for k, v in row.items()} for row in table.summary()]
        shown = ("id", "value", "low", "high", "verdict")
        statements = [{name: getattr(record, name) for name in shown} for record in records]
        where = None if out is None else str(out / file_of(study.name))
        return print_json({"study": study.name, "cells": cells, "statements": statements, "table": where})
    print_table(study.title, *study_cells(table), study.question)
    print_table(
        "statements", ("statement", "value", "rule", "verdict"),
        [(r.claim, estimate_text(r), r.rule.partition(";")[0], r.verdict) for r in records],
    )  # fmt: skip
    say(study_caption(study_data(table)))
    say(f"{stem}.svg")
