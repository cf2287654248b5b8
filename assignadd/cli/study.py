"""assignadd study: the networks of a study, and what came out"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assignadd.cli.options import positional
from assignadd.cli.progress import showing_sweep
from assignadd.cli.screen import Column, Output, Table, columns, note, say
from assignadd.cli.sweep import ManyModels, plan_table
from assignadd.config.errors import UsageError, did_you_mean, one_of

if TYPE_CHECKING:
    from assignadd.study.study import Study as StatedStudy
    from assignadd.study.table import StudyTable
    from assignadd.sweeps.plan import Plan


@dataclass(frozen=True, kw_only=True)
class Study(ManyModels):
    """Train the networks of a study and show what came out; without a path, list the studies in findings/.

    PATH is a file of Python, or a folder with study.py, which is executed: yours or one of the repository's. The same
    command continues an interrupted study. OUT/NAME.parquet has a row per network, OUT/NAME.json says how it was made,
    OUT/figure.svg is the figure.

    --json prints a list of studies, plans for --dry-run, or results with "study", "cells", "statements", "table".
    """

    path: Path | None = positional(None)  # noqa: RUF009 (makes a field)
    """A file, or a folder with study.py."""
    name: str | None = positional(None)
    """Which of its studies, if it has several; all of them unless given."""
    show: bool = False
    """Train nothing and show the table in OUT, or else that beside study.py. Writes nothing; with --out the figure."""
    n_seeds: int | None = None
    """Networks in each cell. If None, the study's."""
    out: Path | None = None
    """Where the run folders, the table and the figure go. If None, runs/studies/NAME."""

    def main(self) -> Output:
        from assignadd.study.files import save_figure, studies_in
        from assignadd.user_file import user_module

        if self.path is None:
            return _listed()
        _check_path(self.path)
        module = user_module(self.path)
        studies = self._chosen(studies_in(self.path, module))
        folders = {name: self.out or Path("runs") / "studies" / name for name in studies}
        if self.show:
            tables = {name: _stored_table(study, self.path, self.out) for name, study in studies.items()}
            figure = save_figure(module, tables, self.out) if self.out else None
            return _results(tables, {}, figure)
        if self.dry_run:
            summaries = {}
            for name, study in studies.items():
                _, summaries[name] = self._plan(study, folders[name])
            shown = [plan_table(f"study {name}", summary) for name, summary in summaries.items()]
            return Output(shown, list(summaries.values()))
        tables = {name: self._train(study, folders[name]) for name, study in studies.items()}
        first_folder = next(iter(folders.values()))  # the figure shows all studies of the file
        return _results(tables, folders, save_figure(module, tables, first_folder))

    def _chosen(self, studies: dict[str, StatedStudy]) -> dict[str, StatedStudy]:
        """Of the studies of a file, by name, the one called NAME; all of them if no name is given."""
        if self.name is None:
            if len(studies) > 1 and self.out and not self.show:
                raise UsageError(f"{self.path} has {len(studies)} studies: --out is for one of {', '.join(studies)}")
            return studies
        if self.name not in studies:
            raise UsageError(f"no study {self.name} in {self.path}: expected {one_of(self.name, studies)}")
        return {self.name: studies[self.name]}

    def _plan(self, study: StatedStudy, out: Path) -> tuple[Plan, dict[str, Any]]:
        """The plan of the sweep that trains a study, and a summary of it."""
        from assignadd.sweeps.plan import plan

        planned = plan(study.sweep(self.n_seeds, self.steps, self.tf32), out, self.machines)
        return planned, planned.dry_run() | {"study": study.name, "out": str(out)}

    def _train(self, study: StatedStudy, out: Path) -> StudyTable:
        """The table of a study, after training what is missing."""
        from assignadd.study.files import run_study

        planned, summary = self._plan(study, out)
        quiet = self.json or self.csv
        if not quiet:
            say(f"{study.name}: {summary['cells']} models of {summary['steps']:,} steps each, into {out}")
        with showing_sweep(study.name, planned.jobs, quiet) as listener:
            return run_study(study, planned.sweep, out, planned.machines, listener, self.typed, self.path)


def _check_path(path: Path) -> None:
    """Refuses a path that does not exist and is nearly the folder, or its name, of a study of the repository.

    Other paths that do not exist are refused where the file is read.
    """
    from assignadd.study.files import study_folders

    folders = study_folders()
    suggestion = did_you_mean(path, [*folders, *(folder.name for folder in folders)])
    if suggestion and not path.exists():
        raise UsageError(f"no study at {path}{suggestion} They are in {folders[0].parent}/")


def _stored_table(study: StatedStudy, path: Path, out: Path | None) -> StudyTable:
    """The table of a study, from the first of these folders that has it: `out`, that of its file, and its default one.

    `path` is that of the study's file or folder.
    """
    from assignadd.study.files import read_study, table_file

    beside_study = path if path.is_dir() else path.parent
    folders = [beside_study, Path("runs") / "studies" / study.name]
    if out is not None:
        folders.insert(0, out)
    for folder in folders:
        if table_file(study, folder).exists():
            return read_study(study, folder)
    return read_study(study, beside_study)  # raises the error that names the missing file


def _listed() -> Output:
    """A row for each study of the repository, and whether its table is there.

    Of another project, whose files nobody has named, a row for each folder alone: reading a study executes its file.
    """
    import assignadd
    from assignadd.study.files import FINDINGS, studies_in, study_folders, table_file

    is_ours = FINDINGS.resolve() == Path(assignadd.__file__).resolve().parents[1] / FINDINGS
    rows: list[tuple[Any, ...]] = []
    for folder in study_folders():
        if not is_ours:
            rows.append((str(folder), None, None, None, None, None))
            continue
        for study in studies_in(folder).values():
            has_table = table_file(study, folder).exists()
            rows.append((str(folder), study.name, study.question, study.n_models, study.steps, has_table))
    table_columns = [*columns("path", "study"), Column("question", only="data"), *columns("networks", "steps", "table")]
    executes = "" if is_ours else ", which executes its study.py"
    table = Table("studies", table_columns, rows, f"`assignadd study PATH [STUDY] --show` shows one{executes}")
    if not rows:
        note(f"no folder {FINDINGS} here: `assignadd study FILE.py` runs a study of yours (docs/extend.md)")
    return Output([table] if rows else [], table.records, table)


def _results(tables: dict[str, StudyTable], folders: Mapping[str, Path], figure: Path | None) -> Output:
    """What people and --json read of studies: of one its cells and statements, of several how many statements hold.

    `folders` has the folder of each study that was trained now, `figure` is the file of the figure.
    """
    from assignadd.study.files import table_file

    documents = []
    summaries = []
    parts: list[Table | str] = []
    for name, table in tables.items():
        study, cells, statements = table.study, _cells(table), _statements(table)
        file = str(table_file(study, folders[name])) if name in folders else None
        documents.append({"study": name, "cells": cells.records, "statements": statements.records, "table": file})
        verdicts = Counter(record["verdict"] for record in statements.records)
        counted = ", ".join(f"{n} {verdict}" for verdict, n in verdicts.items()) or "none"
        summaries.append((name, study.question, table.frame.height, counted))
        if len(tables) == 1:
            parts.append(cells)
            parts += [f"{column}: {study.labels.get(column, column)}" for column in (*study.outcomes, *study.numbers)]
            if statements.rows:
                parts.append(statements)
    if len(tables) > 1:
        caption = "`assignadd study PATH STUDY --show` shows the cells and the statements of one"
        parts.append(Table("studies", columns("study", "question", "networks", "statements"), summaries, caption))
    if figure:
        parts.append(str(figure))
    return Output(parts, documents)


def _cells(table: StudyTable) -> Table:
    """A row per cell of a study: networks, shares of the outcomes and medians of the numbers, with their intervals."""
    study = table.study
    table_columns = [Column("cell"), Column("models", "nets"), Column("diverged")]
    for name in study.outcomes:
        table_columns += [Column(name, form=".2f"), *_interval_columns(name)]
    for name in study.numbers:
        table_columns += [Column(name, form=".3g"), *_interval_columns(name)]
    rows = []
    for cell, frame in table.cells.items():
        row: list[Any] = [cell, frame.height, int(frame["diverged"].sum())]
        for name in study.outcomes:
            share = table.share(cell, name)
            row += [share.value, share.low, share.high] if share else [None, None, None]
        for name in study.numbers:
            median, interval = table.median(cell, name) or (None, None)
            row += [median, interval.low, interval.high] if interval else [median, None, None]
        rows.append(row)
    return Table(study.name, table_columns, rows, study.question)


def _interval_columns(name: str) -> list[Column]:
    """The columns with the ends of the interval of a number, for --json and --csv alone."""
    return [Column(f"{name} low", only="data"), Column(f"{name} high", only="data")]


def _statements(table: StudyTable) -> Table:
    """A row per statement of a study, with its value and its verdict."""
    from assignadd.study.table import study_records

    table_columns = [
        Column("id", "statement"), *columns("verdict"), Column("measured", "value", only="people"),
        Column("rule", only="detail"), Column("claim", only="detail"),
        *(Column(name, only="data") for name in ("value", "low", "high", "n", "unit")),
    ]  # fmt: skip
    rows = []
    for record in study_records(table):
        value, low, high = record.value, record.low, record.high
        measured = "-" if value is None else f"{value:.3g}"
        if low is not None:
            measured += f" [{low:.3g}, {high:.3g}]"
        rule = record.rule.partition(";")[0]  # what follows says how the interval decides, the same for all
        rows.append((record.id, record.verdict, measured, rule, record.claim, value, low, high, record.n, record.unit))
    return Table("statements", table_columns, rows)
