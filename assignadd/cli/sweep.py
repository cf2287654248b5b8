"""assignadd sweep, assignadd study: many models, and a table of what came out"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assignadd.cli import options
from assignadd.cli.options import FromPreset, OnDevice, positional
from assignadd.cli.screen import Column, Output, Printing, Table, columns, facts, note, say
from assignadd.cli.train import named_measure, note_not_defined, showing_sweep
from assignadd.config.errors import UsageError, did_you_mean, one_of

if TYPE_CHECKING:
    from types import ModuleType

    from assignadd.study.study import Study as StatedStudy
    from assignadd.study.table import StudyTable
    from assignadd.sweeps.engine import Plan
    from assignadd.sweeps.settings import Sweep as SweepSettings

# Steps between evaluations: a sweep over seeds shows when a circuit forms, of others the end of training counts.
EVERY = {"seeds": 250}
USUALLY_EVERY = 1000
# More steps than any training has: a sweep keeps the newest optimizer state alone, from which it is continued.
NEWEST_STATE_ALONE = 1 << 31


@dataclass(frozen=True, kw_only=True)
class ManyModels(OnDevice, Printing):
    """Where and how the models of a sweep or a study are trained."""

    steps: int | None = None
    """Updates. If None, the preset's (30,000 for paper), or the study's."""
    tf32: bool = False
    """Round matrix-product inputs to TF32 on a GPU; kept in the results."""
    device: str = "auto"
    """auto, cpu or cuda (every GPU of this machine, or with --engine ray of the cluster)."""
    per_gpu: int = 1
    """Stacks at a time on each GPU of this machine: small stacks leave parts of a GPU unused."""
    engine: str = "local"
    """local, or ray (pip install 'assignadd[ray]')."""
    address: str | None = None
    """The Ray cluster: auto for the one on this machine (make ray-up), else HOST:PORT. If None, one is started for this
    sweep."""
    dry_run: bool = False
    """Print cells, stacks and an estimate of the time, and train nothing."""
    typed: str = ""  # the whole command line, for the record of how a table was made

    def plan(self, sweep: SweepSettings, out: Path) -> tuple[Plan, dict[str, Any]]:
        """What remains to be trained of a sweep, and what --dry-run prints of it."""
        from assignadd.sweeps.engine import plan

        options.within("per_gpu", self.per_gpu, 1, 64)
        device = options.resolve_device(self.device, self.engine)
        planned = plan(sweep, out, device, self.cores, per_gpu=self.per_gpu)
        return planned, planned.summary(sweep) | {"engine": self.engine, "out": str(out)}

    @property
    def quiet(self) -> bool:
        return self.json or self.csv

    def where(self, planned: Plan) -> dict[str, Any]:
        """Where and how `run_sweep` trains what is planned."""
        return {
            "device": planned.device, "cores": self.cores, "engine": self.engine, "address": self.address,
            "per_gpu": self.per_gpu,
        }  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Sweep(ManyModels, FromPreset):
    """Train many models, a grid of settings times seeds, in stacks as large as the device's memory allows.

    The same command continues an interrupted sweep, and trains nothing that is finished. OUT/table.parquet has a row
    per model and evaluation; OUT/table.json says how it was made. --json prints the plan for --dry-run, else
    {"models", "diverged", "bind", "do_not_bind", "table"}.
    """

    what: str = positional()
    """fraction (16 values of f), two-var (19 values of r), seeds, or a file with a row of settings per model: any field
    of task, model, optim, seed, numerics and start by its dotted name (optim.lr, model.n_heads), and seed. CSV, a
    JSON list of rows, or a JSON grid {"optim.lr": [0.001, 0.003], "model.n_heads": [1, 2]}."""
    n_seeds: int = 10
    """Models per row of settings, with seeds from 0 on."""
    seeds: str | None = None
    """Instead, the seeds themselves: 0..127 or 0,4,7."""
    every: int | None = None
    """Steps between evaluations and measures; 250 for seeds, else 1000."""
    final_sequences: int = 20_000
    """Sequences per evaluation set in the last evaluation of every model; 0 for none."""
    save_every: int = 5000
    """Steps between checkpoints: the most that an interruption costs."""
    observe: str | None = None
    """FILE.py:FUNCTION, a measure of yours: its columns stand in the table. The file is executed (docs/extend.md)."""
    out: Path | None = None
    """Where the run folders and the table go. If None, runs/sweeps/WHAT-PRESET."""

    def main(self) -> Output:
        options.within("n_seeds", self.n_seeds, 1, options.MOST_MODELS)
        if self.seeds and self.seeds.isdecimal():
            note(f"--seeds is a list: this is seed {self.seeds} alone; --n-seeds {self.seeds} takes as many seeds")
        sweep = self.requested()
        if self.observe is not None:
            from assignadd.sweeps.jobs import SweepObserver

            first, of_first = sweep.cells[0].in_stack(sweep.config)
            sweep = replace(sweep, observe=named_measure(self.observe, first, of_first, SweepObserver))
        out = self.out or Path("runs") / "sweeps" / f"{sweep.name}-{self.preset}"
        from assignadd.sweeps.engine import run_sweep
        from assignadd.sweeps.results import TABLE, tally

        planned, summary = self.plan(sweep, out)
        if self.dry_run:
            return Output([plan_table("sweep", summary)], summary)
        note_not_defined(sweep.config)
        with showing_sweep(out.name, planned.jobs, self.quiet) as listener:
            results = run_sweep(sweep, out, report=listener, command=self.typed, **self.where(planned))
        counts: dict[str, Any] = tally(results, sweep) | {"table": str(out / TABLE)}
        lines = [
            f"{counts['table']}: {counts['models']} models, {results.height:,} rows",
            f"{counts['bind']} learned to bind variables, {counts['do_not_bind']} did not, "
            f"{counts['diverged']} diverged",
        ]
        return Output(lines, counts, Table("", columns(*counts), [tuple(counts.values())]))

    def requested(self) -> SweepSettings:
        """The sweep that the options ask for, named or in a file."""
        from assignadd.sweeps.settings import NAMES, named_sweep, sweep_from_file

        base = options.base_config(self.preset, self.config)
        every = EVERY.get(self.what, USUALLY_EVERY) if self.every is None else self.every
        record = replace(
            base.record, eval_every=every, measure_every=every, checkpoint_every=self.save_every,
            state_every=NEWEST_STATE_ALONE, final_sequences=self.final_sequences,
        )  # fmt: skip
        optim = base.optim if self.steps is None else replace(base.optim, steps=self.steps)
        config = replace(base, optim=optim, record=record, numerics=replace(base.numerics, tf32=self.tf32))
        seeds = options.parse_seeds(self.seeds) if self.seeds else list(range(self.n_seeds))
        if self.what in NAMES:
            return named_sweep(self.what, config, seeds)
        suggestion = did_you_mean(self.what, NAMES)
        if suggestion and not Path(self.what).exists():
            raise UsageError(f"no sweep and no file {self.what!r}{suggestion}")
        return sweep_from_file(Path(self.what), config, seeds)


def plan_table(title: str, summary: Mapping[str, Any]) -> Table:
    """What would be trained, and about how long it would take; `summary` is that of a plan, as --json prints it."""
    stack_sizes = summary["stacks"]
    minutes = summary["estimated_seconds"] / 60
    rows = {
        "models": summary["cells"],
        "steps each": summary["steps"],
        "updates to make": summary["model_steps"],
        "stacks": f"{len(stack_sizes)}, {summary['finished_stacks']} of them finished",
        "models in a stack": f"up to {max(stack_sizes)}",
        "at a time": f"{summary['at_a_time']} on {summary['device']}",
        "estimated time": f"{minutes:.1f} min" if minutes <= 90 else f"{minutes / 60:.1f} h",
        "into": summary["out"],
    }
    return facts(title, rows, "The estimate is from times on one H200 and on one ARM core; see docs/scale.md.")


@dataclass(frozen=True, kw_only=True)
class Study(ManyModels):
    """Train the networks of a study and show what came out.

    PATH is a file of Python, or a folder with study.py, which is executed: yours or one of the repository's. The same
    command continues an interrupted study. OUT/NAME.parquet has a row per network, OUT/NAME.json says how it was made,
    OUT/figure.svg is the figure.

    --json prints plans for --dry-run, else a list of results with "study", "cells", "statements", "table".
    """

    path: Path = positional()  # noqa: RUF009 (makes a field)
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

        module = user_module(self.path)
        studies = self._chosen(module)
        folders = {name: self.out or Path("runs") / "studies" / name for name in studies}
        if self.show:
            beside = self.path if self.path.is_dir() else self.path.parent
            places = {name: (self.out or beside, beside, folders[name]) for name in studies}
            tables = {name: _stored_table(study, places[name]) for name, study in studies.items()}
            figure = save_figure(module, tables, self.out) if self.out else None
            return _results(tables, {}, figure)
        if self.dry_run:
            summaries = [self._plan(study, folders[name])[2] for name, study in studies.items()]
            return Output([plan_table(f"study {summary['study']}", summary) for summary in summaries], summaries)
        tables = {name: self._train(study, folders[name]) for name, study in studies.items()}
        first_folder = next(iter(folders.values()))  # the figure shows all studies of the file
        return _results(tables, folders, save_figure(module, tables, first_folder))

    def _chosen(self, module: ModuleType) -> dict[str, StatedStudy]:
        """Of the studies of a file, by name, the one called NAME; all of them if no name is given."""
        from assignadd.study.files import studies_in

        studies = studies_in(self.path, module)
        if self.name is not None and self.name not in studies:
            raise UsageError(f"no study {self.name} in {self.path}: expected {one_of(self.name, studies)}")
        if self.name is None and len(studies) > 1 and self.out and not self.show:
            raise UsageError(f"{self.path} has {len(studies)} studies: --out is for one of {', '.join(studies)}")
        return studies if self.name is None else {self.name: studies[self.name]}

    def _plan(self, study: StatedStudy, out: Path) -> tuple[SweepSettings, Plan, dict[str, Any]]:
        """The sweep that trains a study, its plan, and what --dry-run prints of it."""
        sweep = study.sweep(self.n_seeds, self.steps, self.tf32)
        planned, summary = self.plan(sweep, out)
        return sweep, planned, summary | {"study": study.name}

    def _train(self, study: StatedStudy, out: Path) -> StudyTable:
        """The table of a study, after training what is missing."""
        from assignadd.study.files import run_study

        sweep, planned, summary = self._plan(study, out)
        if not self.quiet:
            say(f"{study.name}: {summary['cells']} models of {summary['steps']:,} steps each, into {out}")
        with showing_sweep(study.name, planned.jobs, self.quiet) as listener:
            return run_study(study, sweep, out, self.typed, listener, self.path, **self.where(planned))


def _stored_table(study: StatedStudy, folders: Sequence[Path]) -> StudyTable:
    """The table of a study in the first of these folders that has it."""
    from assignadd.study.files import read_study, table_file

    having = [folder for folder in folders if table_file(study, folder).exists()]
    return read_study(study, having[0] if having else folders[0])


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
            meanings = [f"{column}: {study.labels.get(column, column)}" for column in (*study.outcomes, *study.numbers)]
            parts = [cells, *meanings, *([statements] if statements.rows else [])]
    if len(tables) > 1:
        caption = "`assignadd study PATH STUDY --show` shows the cells and the statements of one"
        parts = [Table("studies", columns("study", "question", "networks", "statements"), summaries, caption)]
    return Output([*parts, *([str(figure)] if figure else [])], documents)


def _cells(table: StudyTable) -> Table:
    """A row per cell of a study: networks, shares of the outcomes and medians of the numbers, with their intervals."""
    study = table.study
    table_columns = [Column("cell"), Column("models", "nets"), Column("diverged")]
    for names, form in ((study.outcomes, ".2f"), (study.numbers, ".3g")):
        for name in names:
            ends = [Column(f"{name} {end}", only="data") for end in ("low", "high")]
            table_columns += [Column(name, form=form), *ends]
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
