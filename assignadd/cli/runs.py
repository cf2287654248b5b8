"""assignadd runs: list, show, verify, import and publish runs; the tables that come with the package"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from assignadd.cli import options
from assignadd.cli.options import Measuring, OneRun, positional
from assignadd.cli.screen import Column, Output, Printing, Table, by_model, columns, console, facts, note, say
from assignadd.config import ConfigError, require_built_in
from assignadd.config.errors import RunError

if TYPE_CHECKING:
    from assignadd.ledger.claim import Record
    from assignadd.runs.folder import Run
    from assignadd.sweeps.results import ShippedTable


@dataclass(frozen=True, kw_only=True)
class List(Printing):
    """List the runs in runs/; `runs` alone does the same.

    --json prints {"runs": [{"run", "models", "step", ...}], "problems"}.
    """

    def main(self) -> Output:
        from assignadd.runs.folder import find_runs

        runs, problems = find_runs("runs")
        summaries = []
        for run in runs:
            try:
                summaries.append(_summary(run))
            except (RunError, OSError) as error:  # damaged metrics
                problems.append(str(error))
        table_columns = [
            *columns("run", "models", "step"), Column("steps", "of"), Column("finished", only="data"),
            *columns("checkpoints", "diverged"), Column("wall_seconds", "wall time, s", ",.0f"),
        ]  # fmt: skip
        table = Table("runs", table_columns, [tuple(summary.values()) for summary in summaries])
        lines = [f"bad: {problem}" for problem in problems]
        if not runs and not problems:
            lines = ["no runs under runs/; `assignadd train` makes one"]
        parts: list[Table | str] = [table] if summaries else []
        parts += lines
        return Output(parts, {"runs": summaries, "problems": problems}, csv=table)


def _summary(run: Run) -> dict[str, Any]:
    """A run in a few numbers, in the order of the columns of `runs list`; a RunError if its metrics are damaged."""
    return {
        "run": run.name,
        "models": len(run.members),
        "step": run.step,
        "steps": run.config.optim.steps,
        "finished": run.finished,
        "checkpoints": len(run.steps),
        "diverged": sum(step is not None for step in run.diverged_at),
        "wall_seconds": run.wall_seconds,
    }


@dataclass(frozen=True, kw_only=True)
class Show(OneRun, Printing):
    """The settings of a run, what made it, and the accuracies at its last evaluation.

    --json prints {"run", "models", "step", ..., "provenance", "config", "last"}.
    """

    def main(self) -> Output:
        from assignadd.runs.folder import open_run
        from assignadd.task.evalsets import all_sets

        run = open_run(self.run)
        summary = _summary(run)
        last_row_of_model = {row["model"]: row for row in run.metrics()}  # a later row replaces an earlier one
        last_rows = list(last_row_of_model.values())
        document = summary | {"provenance": run.provenance, "config": run.document, "last": last_rows}
        shown = summary | run.provenance | {"task": run.config.task.file, "network": run.config.model.file}
        # The name is the title of the table; what is empty or None does not concern this run.
        present = {name: value for name, value in shown.items() if value not in (run.name, {}, None)}
        parts = [facts(run.name, present)]
        if run.observed:
            document["observed"] = msgspec.to_builtins(run.observed)
            meanings = list(run.observed.columns.items())
            parts.append(Table(f"columns of {run.observed.name}", columns("column", "meaning"), meanings))
        if not last_rows:
            return Output([*parts, "no evaluation yet"], document)
        labels = {evalset.name: evalset.label for evalset in all_sets(run.config.task)}
        sets = dict.fromkeys(name for row in last_rows for name in row["accuracy"])  # each once, in order
        accuracies = {}
        for name in sets:
            accuracies[labels.get(name, name)] = [row["accuracy"].get(name) for row in last_rows]
        seeds = [row["seed"] for row in last_rows]
        return Output([*parts, by_model("accuracy at the last evaluation", accuracies, seeds)], document)


@dataclass(frozen=True, kw_only=True)
class Verify(OneRun, Printing):
    """Check every committed byte of a run; exit code 1 if something is wrong.

    --json prints {"run", "problems"}.
    """

    def main(self) -> Output:
        from assignadd.runs.folder import open_run

        run = open_run(self.run)
        problems = run.verify()
        lines = [f"bad: {problem}" for problem in problems] or [f"{run.name}: every committed file is whole"]
        table = Table("", columns("problem"), [(problem,) for problem in problems])
        return Output(lines, {"run": run.name, "problems": problems}, csv=table, code=1 if problems else 0)


@dataclass(frozen=True, kw_only=True)
class Import:
    """Convert state dicts of TransformerLens 2 or 3 (FILE.pth) to one run, a checkpoint each.

    Only tensors are read (weights_only); shapes, names and zero biases are checked.
    """

    files: tuple[Path, ...] = positional()
    """checkpoint_step_N.pth holds the weights after N updates; model_state_dict.pth the last ones, after 40,000. A
    folder stands for all such files in it."""
    preset: str = "authors"
    """The configuration the weights belong to."""
    out: Path | None = None
    """The run folder. If None, runs/imported-PRESET."""

    def main(self) -> None:
        config = options.base_config(self.preset)
        from assignadd.runs.transformer_lens import import_state_dicts, state_dicts_in

        files = [file for path in self.files for file in state_dicts_in(path)]
        run = import_state_dicts(files, config, self.out or Path("runs") / f"imported-{self.preset}")
        say(f"{run.path}: {len(run.steps)} checkpoints, steps {run.steps[0]:,} to {run.steps[-1]:,}")


@dataclass(frozen=True, kw_only=True)
class Publish(OneRun, Measuring):
    """Publish a run on the Hugging Face Hub: weights, settings, claims, and a card that says how to load them.

    Needs `pip install 'assignadd[hub]'` and a login (`hf auth login`, or HF_TOKEN); --dry-run needs neither.
    """

    repo: str
    """The repository, OWNER/NAME; it is made where it does not exist."""
    steps: tuple[str, ...] = ()
    """Which checkpoints, such as 0 1000 20000, or all. If none are given, the last."""
    dry_run: bool = False
    """Write the folder and upload nothing."""
    out: Path | None = None
    """Where the folder is written. If None, published/RUN."""
    private: bool = False
    """Make the repository private where it does not exist."""
    license: str = "mit"
    """The licence that the card names, by its identifier on the Hub."""
    claims: bool = True
    """Test the claims on these networks and put them into the card."""

    def main(self) -> None:
        from assignadd.report.hub_folder import write_hub_folder
        from assignadd.runs.folder import open_run
        from assignadd.runs.hub import check_repository, client, upload

        check_repository(self.repo)
        if not re.fullmatch("[a-z0-9.-]+", self.license):
            raise ConfigError("license", self.license, "an identifier such as mit, apache-2.0 or cc-by-4.0")
        if not self.dry_run:
            client()  # an error, before anything is written, where it is not installed
        run = open_run(self.run)
        require_built_in(run.config, "runs publish")
        steps = _steps(run, self.steps)
        last_step = steps[-1]
        for why in run.unsound(last_step, run.checkpoint(last_step)).values():
            note(f"{why}; it is published unchanged, and the card says so")
        records = _records(self, last_step) if self.claims else []
        folder = self.out or Path("published") / run.name
        files = write_hub_folder(run, folder, self.repo, steps, records, self.license)
        size = f"{len(files)} files, {sum(file.stat().st_size for file in files) / 1e6:.1f} MB"
        if self.dry_run:
            say(f"{folder}: {size}; nothing was uploaded")
            return
        address = upload(folder, self.repo, self.private, f"assignadd publish {run.name}")
        say(f"{address}: {size}")


def _steps(run: Run, words: tuple[str, ...]) -> list[int]:
    """The steps whose checkpoints are published, in order: those of the `words` of --steps, or the last without any."""
    if not words:
        last_step, _ = run.at()
        return [last_step]
    if words == ("all",):
        return run.steps
    if wrong := [word for word in words if word not in map(str, run.steps)]:
        raise ConfigError("steps", wrong[0], f"all, or steps of the {len(run.steps)} checkpoints of {run.name}")
    return sorted({int(word) for word in words})


def _records(args: Publish, step: int) -> list[Record]:
    """Every claim of the paper that is about trained networks, judged on the networks of the run at this step."""
    from assignadd.cli.measure import read_networks
    from assignadd.ledger.claim import is_about_networks, judge
    from assignadd.network import measure_ahead
    from assignadd.paper.ledger import CLAIMS

    networks = read_networks((args.run,), step, args.n)
    about_networks = [claim for claim in CLAIMS if is_about_networks(claim)]
    with console.status("measuring"):
        measure_ahead(networks, args.cores)
        return [judge(claim, networks, f"assignadd claims {args.run} --only {claim.id}") for claim in about_networks]


@dataclass(frozen=True, kw_only=True)
class Tables(Printing):
    """The tables that come with the package: all of them, the columns of one explained, or one as CSV.

    --csv prints the table itself, --json {"tables": [...]} or
    {"name", "about", "columns": [{"name", "meaning", "sample"}], ...}.
    """

    name: str | None = positional(None)
    """A table, such as census; without one, all tables are listed."""

    def main(self) -> Output:
        from assignadd.sweeps.results import TABLES, columns_of, shipped_table

        if self.name is None:
            tables = [_about(table) for table in TABLES.values()]
            rows = [(table["name"], table["rows"], table["about"]) for table in tables]
            caption = "`assignadd runs tables NAME` explains the columns; with --csv it prints the table"
            listed = Table("tables that come with the package", columns("table", "rows", "about"), rows, caption)
            return Output([listed], {"tables": tables})
        table = shipped_table(self.name)
        about = _about(table)
        explained = [asdict(column) for column in columns_of(table)]
        caption = f"a row is one model at one evaluation; made at commit {about['commit'][:7]} by `{about['command']}`"
        table_columns = [Column("name", "column"), Column("meaning"), Column("sample", "counted on")]
        rows = [tuple(column.values()) for column in explained]
        csv_text = table.frame().write_csv() if self.csv else None
        shown = Table(f"{table.name}: {table.about}", table_columns, rows, caption)
        return Output([shown], about | {"columns": explained}, csv_text)


def _about(table: ShippedTable) -> dict[str, Any]:
    """A table as --json describes it: its name, subject, number of rows, and the command and commit that made it."""
    command, commit = table.made_by
    return {
        "name": table.name, "about": table.about, "rows": table.frame().height, "command": command, "commit": commit,
    }  # fmt: skip
