"""assignadd sweep, assignadd study: many networks, and tables of what came out"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assignadd.cli import options
from assignadd.cli.options import FromPreset, OnDevice, positional
from assignadd.cli.screen import Column, Output, Printing, SweepScreen, Table, columns, facts, note, say
from assignadd.cli.train import note_not_defined
from assignadd.config import Config
from assignadd.config.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from assignadd.study.study import Study as StatedStudy
    from assignadd.study.table import StudyTable
    from assignadd.sweeps.engine import Plan
    from assignadd.sweeps.settings import Sweep as SweepSettings

# The census wants to see when a circuit forms; of a sweep's point, where it ends is what counts.
EVERY = {"seeds": 250}
USUALLY_EVERY = 1000


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
    typed: str = options.as_typed()

    @property
    def where(self) -> tuple[str, int]:
        """The device, and the number of processes on a CPU."""
        options.within("per_gpu", self.per_gpu, 1, 64)
        return options.resolve_device(self.device, self.engine), self.cores


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
    out: Path | None = None
    """Where the run folders and the table go. If None, runs/sweeps/WHAT-PRESET."""

    def main(self) -> Output:
        options.within("n_seeds", self.n_seeds, 1, options.MOST_MODELS)
        if self.seeds and self.seeds.isdecimal():
            note(f"--seeds is a list: this is seed {self.seeds} alone; --n-seeds {self.seeds} takes as many seeds")
        device, threads = self.where
        table = cells(self, self.base)
        out = self.out or Path("runs") / "sweeps" / f"{table.name}-{self.preset}"
        from assignadd.sweeps.engine import plan

        planned = plan(table, out, device, threads, per_gpu=self.per_gpu)
        if self.dry_run:
            summary = planned.summary(table) | {"engine": self.engine, "out": str(out)}
            return Output([plan_table("sweep", summary)], summary)
        return _trained(self, table, out, planned, threads)


def cells(args: Sweep, base: Config) -> SweepSettings:
    """The sweep that the flags ask for."""
    from assignadd.sweeps.settings import NAMES, named_sweep, sweep_from_file

    every = EVERY.get(args.what, USUALLY_EVERY) if args.every is None else args.every
    record = replace(
        base.record, eval_every=every, measure_every=every, checkpoint_every=args.save_every, state_every=1 << 31,
        final_sequences=args.final_sequences,
    )  # fmt: skip
    optim = base.optim if args.steps is None else replace(base.optim, steps=args.steps)
    config = replace(base, optim=optim, record=record, numerics=replace(base.numerics, tf32=args.tf32))
    seeds = options.parse_seeds(args.seeds) if args.seeds else list(range(args.n_seeds))
    return (
        named_sweep(args.what, config, seeds) if args.what in NAMES else sweep_from_file(Path(args.what), config, seeds)
    )


def _trained(args: Sweep, table: SweepSettings, out: Path, planned: Plan, threads: int) -> Output:
    from assignadd.sweeps.engine import run_sweep
    from assignadd.sweeps.results import TABLE, tally

    note_not_defined(table.config)
    with SweepScreen(out.name, planned.jobs, quiet=args.json or args.csv) as screen:
        how: dict[str, Any] = {"command": args.typed, "per_gpu": args.per_gpu}
        results = run_sweep(table, out, planned.device, threads, args.engine, args.address, screen, **how)
    counts: dict[str, Any] = tally(results, table) | {"table": str(out / TABLE)}
    lines = [
        f"{counts['table']}: {counts['models']} models, {results.height:,} rows",
        f"{counts['bind']} learned to bind variables, {counts['do_not_bind']} did not, {counts['diverged']} diverged",
    ]
    return Output(lines, counts, Table("", columns(*counts), [tuple(counts.values())]))


def plan_table(title: str, planned: Mapping[str, Any]) -> Table:
    """What would be trained, and about how long it would take."""
    sizes, minutes = planned["stacks"], planned["estimated_seconds"] / 60
    models = str(max(sizes)) if min(sizes) == max(sizes) else f"{min(sizes)} to {max(sizes)}"
    if minutes < 1:
        estimate = "less than a minute"
    else:
        estimate = f"{minutes:.0f} min" if minutes <= 90 else f"{minutes / 60:.1f} h"
    return facts(
        title,
        {
            "models": planned["cells"],
            "steps each": planned["steps"],
            "updates to make": planned["model_steps"],
            "stacks": f"{len(sizes)}, {planned['finished_stacks']} of them finished",
            "models in a stack": models,
            "at a time": f"{planned['at_a_time']} on {planned['device']}",
            "estimated time": estimate,
            "into": planned["out"],
        },
        "The estimate is from times on one H200 and on one ARM core; see docs/scale.md.",
    )


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
        from assignadd.study.files import read_study, save_figure, studies_in, table_file
        from assignadd.user_file import user_module

        if self.path is None:
            return _listed()
        module = user_module(self.path)
        studies = _chosen(studies_in(self.path, module), self)
        folders = {name: self.out or Path("runs") / "studies" / name for name in studies}
        if self.show:
            beside = self.path if self.path.is_dir() else self.path.parent
            tables = {}
            for name, study in studies.items():
                places = [*([self.out] if self.out else []), beside, Path("runs") / "studies" / name]
                at = next((place for place in places if table_file(study, place).exists()), beside)
                tables[name] = read_study(study, at)
            return _results(tables, None, save_figure(module, tables, self.out) if self.out else None)
        if self.dry_run:
            plans = {name: self._plan(study, folders[name])[1] for name, study in studies.items()}
            return Output(
                [plan_table(f"study {name}", summary) for name, summary in plans.items()], list(plans.values())
            )
        tables = {name: self._train(study, folders[name]) for name, study in studies.items()}
        return _results(tables, folders, save_figure(module, tables, next(iter(folders.values()))))

    def _plan(self, study: StatedStudy, out: Path) -> tuple[Plan, dict[str, Any]]:
        """What would be trained, and its summary."""
        from assignadd.sweeps.engine import plan

        device, threads = self.where
        sweep = study.sweep(self.n_seeds, self.steps, self.tf32)
        planned = plan(sweep, out, device, threads, per_gpu=self.per_gpu)
        return planned, planned.summary(sweep) | {"study": study.name, "engine": self.engine, "out": str(out)}

    def _train(self, study: StatedStudy, out: Path) -> StudyTable:
        from assignadd.study.files import run_study

        planned, summary = self._plan(study, out)
        quiet = self.json or self.csv
        if not quiet:
            say(f"{study.name}: {summary['cells']} models of {summary['steps']:,} steps each, into {out}")
        device, threads = self.where
        sweep = study.sweep(self.n_seeds, self.steps, self.tf32)
        with SweepScreen(study.name, planned.jobs, quiet) as screen:
            how: dict[str, Any] = {"device": device, "cores": threads, "engine": self.engine, "address": self.address}
            return run_study(study, sweep, out, self.typed, screen, self.path, per_gpu=self.per_gpu, **how)


def _chosen(studies: dict[str, StatedStudy], args: Study) -> dict[str, StatedStudy]:
    if args.name is None:
        if len(studies) > 1 and args.out and not args.show:
            raise UsageError(f"{args.path} has {len(studies)} studies: --out is for one of {', '.join(studies)}")
        return studies
    if args.name not in studies:
        meant = did_you_mean(args.name, studies) or f"; it has {', '.join(studies)}"
        raise UsageError(f"no study {args.name} in {args.path}{meant}")
    return {args.name: studies[args.name]}


def _listed() -> Output:
    """The studies of the repository."""
    from assignadd.study.files import FINDINGS, studies_in, study_folders, table_file

    folders = study_folders()
    rows = [
        (str(folder), study.name, study.question, study.n_models, study.steps, table_file(study, folder).exists())
        for folder in folders
        for study in studies_in(folder).values()
    ]
    table_columns = [*columns("path", "study"), Column("question", only="data"), *columns("networks", "steps", "table")]
    table = Table("studies", table_columns, rows, "`assignadd study PATH [STUDY] --show` shows one")
    if not folders:
        note(f"no folder {FINDINGS} here: `assignadd study FILE.py` runs a study of yours (docs/extend.md)")
    return Output([table] if rows else [], table.records, table)


def _results(tables: dict[str, StudyTable], folders: Mapping[str, Path] | None, figure: Path | None) -> Output:
    """The cells and the statements of one study; of several, how many of their statements hold."""
    from assignadd.study.files import table_file
    from assignadd.study.table import study_records

    results, rows = [], []
    for name, table in tables.items():
        study, records = table.study, study_records(table)
        document = [{k: _plain(v) for k, v in row.items()} for row in table.summary()]
        names = ("id", "claim", "value", "low", "high", "n", "unit", "verdict")
        statements = [{name: getattr(record, name) for name in names} for record in records]
        where = str(table_file(study, folders[name])) if folders else None
        results.append({"study": name, "cells": document, "statements": statements, "table": where})
        verdicts = Counter(record.verdict for record in records)
        rows.append((name, study.question, table.frame.height, _counted(verdicts)))
    if len(tables) == 1:
        (table,) = tables.values()
        parts: list[Any] = _study_parts(table)
    else:
        caption = "`assignadd study PATH STUDY --show` shows the cells and the statements of one"
        parts = [Table("studies", columns("study", "question", "networks", "statements"), rows, caption)]
    return Output([*parts, *([str(figure)] if figure else [])], results)


def _counted(verdicts: Counter[str]) -> str:
    return ", ".join(f"{n} {verdict}" for verdict, n in verdicts.items()) or "none"


def _plain(value: Any) -> Any:
    """A value of a summary for JSON."""
    if isinstance(value, tuple):
        median, ends = value
        return {"median": median, "low": ends.low if ends else None, "high": ends.high if ends else None}
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


def _study_parts(table: StudyTable) -> list[Table | str]:
    """A row per cell (networks, shares of the outcomes, medians of the numbers), then a row per statement."""
    from assignadd.study.table import study_records

    study, summary = table.study, table.summary()
    table_columns = [Column("cell"), Column("models", "nets"), Column("diverged", only="data")]
    if any(row["diverged"] for row in summary):
        table_columns[2] = Column("diverged")
    for name in (*study.outcomes, *study.numbers):
        form = ".2f" if name in study.outcomes else ".3g"
        table_columns += [
            Column(name, form=form),
            Column(f"{name} low", only="data"),
            Column(f"{name} high", only="data"),
        ]
    rows = []
    for row in summary:
        shares = [x for name in study.outcomes for x in _value_and_ends(row[name])]
        medians = [x for name in study.numbers for x in _value_and_ends(row[name])]
        rows.append((row["cell"], row["models"], row["diverged"], *shares, *medians))
    labels = [f"{name}: {study.labels.get(name, name)}" for name in (*study.outcomes, *study.numbers)]
    records = study_records(table)
    statements = [
        (r.id, r.verdict, estimate(r.value, r.low, r.high), r.rule.partition(";")[0], r.claim) for r in records
    ]
    heads = [*columns("statement", "verdict", "value"), Column("rule", only="detail"), Column("claim", only="detail")]
    parts: list[Table | str] = [Table(study.name, table_columns, rows, study.question), *labels]
    return [*parts, Table("statements", heads, statements)] if statements else parts


def _value_and_ends(summary: Any) -> tuple[float | None, float | None, float | None]:
    """A share with its interval, or a median with its interval; both may be missing."""
    if summary is None:
        return None, None, None
    if isinstance(summary, tuple):
        median, ends = summary
        return (median, ends.low, ends.high) if ends else (median, None, None)
    return summary.value, summary.low, summary.high


def estimate(value: float | None, low: float | None, high: float | None) -> str:
    """A number with its 95 % interval; a dash where there is none."""
    if value is None:
        return "-"
    return f"{value:.3g}" + ("" if low is None else f" [{low:.3g}, {high:.3g}]")
