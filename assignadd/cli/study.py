"""assignadd study: trains the networks of a study and shows the results"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assignadd.cli.options import positional
from assignadd.cli.screen import Column, Output, Table, columns, say
from assignadd.cli.sweep import ManyModels, note_versions, plan_table
from assignadd.cli.train import showing_sweep
from assignadd.config.errors import UsageError, one_of, printable

if TYPE_CHECKING:
    from types import ModuleType

    from assignadd.study.study import Study as StatedStudy
    from assignadd.study.table import StudyTable
    from assignadd.sweeps.plan import Plan

FINDINGS = Path("findings")
MOST_README = 1 << 20  # bytes


@dataclass(frozen=True, kw_only=True)
class Study(ManyModels):
    """Train the networks of a study and show what came out; without a path, list the studies in findings/.

    PATH is a file of Python, or a folder with study.py, which is executed: yours or one of the repository's. The same
    command continues an interrupted study. OUT/NAME.parquet has a row per network, OUT/NAME.json says how it was made,
    OUT/figure.svg is the figure.

    --json prints a list of folders, plans for --dry-run, or results with "study", "cells", "statements", "table".
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
        from assignadd.study.files import save_figure
        from assignadd.user_file import user_module

        if self.path is None:
            return _listed()
        module = user_module(self.path)
        studies = self._chosen(self.path, module)
        folders = {name: self.out or Path("runs") / "studies" / name for name in studies}
        if self.show:
            tables = {name: self._stored_table(study, self.path, folders[name]) for name, study in studies.items()}
            figure = save_figure(module, tables, self.out) if self.out else None
            return _results(tables, {}, figure)  # no folders: nothing was trained
        if self.dry_run:
            return self._plans(studies, folders)
        tables = {name: self._train(study, folders[name]) for name, study in studies.items()}
        first_folder = next(iter(folders.values()))  # the figure shows all studies of the file
        return _results(tables, folders, save_figure(module, tables, first_folder))

    def _chosen(self, path: Path, module: ModuleType) -> dict[str, StatedStudy]:
        """The studies of a file by name: the one that the command line names, or all of them."""
        from assignadd.study.files import studies_in

        studies = studies_in(path, module)
        if self.name is not None and self.name not in studies:
            raise UsageError(f"no study {self.name} in {self.path}: expected {one_of(self.name, studies)}")
        if self.name is None and len(studies) > 1 and self.out and not self.show:
            raise UsageError(f"{self.path} has {len(studies)} studies: --out is for one of {', '.join(studies)}")
        return studies if self.name is None else {self.name: studies[self.name]}

    def _plan(self, study: StatedStudy, out: Path) -> Plan:
        """What remains to be trained of a study."""
        return self.plan(study.sweep(self.n_seeds, self.steps, self.tf32), out)

    def _plans(self, studies: Mapping[str, StatedStudy], folders: Mapping[str, Path]) -> Output:
        """What remains to be trained of each study in its folder, in numbers."""
        summaries = []
        for name, study in studies.items():
            plan_in_numbers = self._plan(study, folders[name]).dry_run()
            summaries.append(plan_in_numbers | {"out": str(folders[name]), "study": name})
        return Output([plan_table(f"study {summary['study']}", summary) for summary in summaries], summaries)

    def _train(self, study: StatedStudy, out: Path) -> StudyTable:
        """The table of a study, after training what is missing."""
        from assignadd.study.files import run_study

        planned = self._plan(study, out)
        if not self.quiet:
            sweep = planned.sweep
            say(f"{study.name}: {len(sweep.cells)} models of {sweep.config.optim.steps:,} steps each, into {out}")
        with showing_sweep(study.name, planned.jobs, self.quiet) as listener:
            table = run_study(study, planned.sweep, out, planned.machines, listener, self.typed, self.path)
        note_versions(table.provenance)
        return table

    def _stored_table(self, study: StatedStudy, path: Path, trained_in: Path) -> StudyTable:
        """The table of a study of the file `path`, in OUT or beside the file; without OUT also where it is trained."""
        from assignadd.study.files import read_study, table_file

        beside = path if path.is_dir() else path.parent
        folders = (self.out, beside) if self.out else (beside, trained_in)
        for folder in folders:
            if table_file(study, folder).exists():
                return read_study(study, folder)
        places = " or ".join(map(str, dict.fromkeys(folders)))
        train = f"assignadd study {path} {study.name}" + (f" -o {self.out}" if self.out else "")
        raise UsageError(f"no table of the study {study.name} in {places}: `{train}` trains its networks and makes it")


def _listed() -> Output:
    """The folders of studies in findings/, each with its question: the title of its README. Nothing is executed."""
    from assignadd.runs.files import read_input

    rows = []
    for file in sorted(FINDINGS.glob("*/study.py")):
        title = b""
        with suppress(OSError):  # there is no README, or it is no regular file
            title = read_input(file.with_name("README.md"), MOST_README, first=200).partition(b"\n")[0]
        rows.append((str(file.parent), printable(title.decode(errors="replace")).removeprefix("# ")))
    if not rows:
        raise UsageError(f"no studies in {FINDINGS}/ here; `assignadd study PATH` takes a file or a folder of yours")
    caption = "`assignadd study PATH --show` shows what came out of one"
    return Output([Table("studies", columns("path", "question"), rows, caption)])


def _results(tables: dict[str, StudyTable], folders: Mapping[str, Path], figure: Path | None) -> Output:
    """The results of studies, given their tables, and folders where they were trained now: of a single study all."""
    from assignadd.study.files import table_file

    documents = []
    rows = []
    parts: list[Table | str]
    for name, table in tables.items():
        cells, statements = cells_table(table), statements_table(table)
        file = str(table_file(table.study, folders[name])) if name in folders else None
        documents.append({"study": name, "cells": cells.records, "statements": statements.records, "table": file})
        verdicts = Counter(record["verdict"] for record in statements.records)
        counted = ", ".join(f"{n} {verdict}" for verdict, n in verdicts.items()) or "none"
        n_networks = table.frame.height
        rows.append((name, table.study.question, n_networks, counted))
    if len(tables) == 1:
        study = table.study  # `table`, `cells` and `statements` are those of this one study
        meanings = [
            f"{column}: {study.column_meanings.get(column, column)}" for column in (*study.outcomes, *study.numbers)
        ]
        parts = [cells, *meanings]
        if study.ask:
            parts.append(statements)
    else:
        caption = "`assignadd study PATH NAME --show` shows the cells and the statements of one"
        parts = [Table("studies", columns("study", "question", "networks", "statements"), rows, caption)]
    if figure is not None:
        parts.append(str(figure))
    return Output(parts, documents)


def cells_table(table: StudyTable) -> Table:
    """A row per cell of a study: networks, shares of outcomes, medians of numbers; intervals in the data alone."""
    study = table.study
    table_columns = [Column("cell"), Column("models", "nets"), Column("diverged")]
    for names, form in ((study.outcomes, ".2f"), (study.numbers, ".3g")):
        for name in names:
            ends = [Column(f"{name} {end}", only="data") for end in ("low", "high")]
            table_columns += [Column(name, form=form), *ends]
    rows = []
    for cell, frame in table.cells.items():  # `frame` has a row per network of the cell
        n_networks = frame.height
        row: list[Any] = [cell, n_networks, int(frame["diverged"].sum())]
        for name in study.outcomes:
            share = table.share(cell, name)
            row += [share.value, share.low, share.high] if share else [None, None, None]
        for name in study.numbers:
            median, interval = table.median(cell, name) or (None, None)
            row += [median, interval and interval.low, interval and interval.high]
        rows.append(row)
    return Table(study.name, table_columns, rows, study.question)


def statements_table(table: StudyTable) -> Table:
    """A table with a row per statement of a study: its verdict, its value and its interval."""
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
