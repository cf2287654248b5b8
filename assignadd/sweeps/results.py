"""The table of a sweep, a row per model and evaluation, how it was made, what its columns mean; and the tables of the
package."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from assignadd.config import SHORT_NAMES, Config, Member, has_code_of_user
from assignadd.config.errors import ConfigError, RunError, one_of
from assignadd.dynamics.phases import BINDING_SET, Curves
from assignadd.measures.columns import STACK_SEQUENCES, VARIABLE_ACCURACY, column_label, measure_of
from assignadd.measures.routing import TRAINING_LAW
from assignadd.runs import atomic
from assignadd.runs.config_json import parse
from assignadd.runs.encoding import BLANK, check_seal, decode_sealed, sealed, sink_sealed
from assignadd.runs.files import MOST_SETTINGS, read_regular
from assignadd.runs.folder import Run
from assignadd.runs.manifest import Blob
from assignadd.sweeps.final_tests import TWO_VAR, TWO_VAR_PARTS, ZERO_VAR, end_column, end_sequences, final_column
from assignadd.sweeps.plan import SECTIONS, Sweep
from assignadd.task.evalsets import LABELS

if TYPE_CHECKING:
    import polars

COMPRESSION_LEVEL = 19  # of 22; tables are written once and shipped
TABLE = "table.parquet"
ROWS_AT_ONCE = 10_000  # as Python's objects a row takes ten times the memory of a row of a table


@contextmanager
def results_table(runs: Sequence[Run], sweep: Sweep, folder: Path) -> Iterator[polars.LazyFrame]:
    """A row per model and evaluation: settings and seed, step, loss, where it diverged, every accuracy and measure.

    Rows are in the order of the cells and of the steps. They are made a part at a time and stay in a file in `folder`
    that has no name and ends with the context, so that memory does not depend on the number of models.
    """
    import polars
    from polars.io.plugins import register_io_source

    columns = polars.DataFrame()  # of all parts, whose rows may have different measures
    ends = [0]  # of the parts in the file
    with tempfile.TemporaryFile(dir=folder) as file:
        for part in _parts(runs, sweep):
            columns = polars.concat([columns, part.clear()], how="diagonal_relaxed")
            part.write_ipc(file, compression="zstd")
            ends.append(file.tell())

        # Polars passes which columns and rows it wants, and gets all.
        def read_parts(*_: Any) -> Iterator[polars.DataFrame]:
            for start, end in pairwise(ends):
                file.seek(start)
                part = polars.read_ipc(io.BytesIO(file.read(end - start)))
                yield polars.concat([columns, part], how="diagonal_relaxed")

        yield register_io_source(read_parts, schema=columns.schema)


def _parts(runs: Sequence[Run], sweep: Sweep) -> Iterator[polars.DataFrame]:
    """The table of a sweep, some models at a time; a part has the columns of its rows."""
    settings = dict.fromkeys((*SHORT_NAMES.values(), *sweep.varied))  # each once, in order
    column_of_setting = {name: column_of(name) for name in settings}
    run_of_model: dict[Config, dict[Member, Run]] = {}  # for each model, the first run that has it
    for run in runs:
        of_config = run_of_model.setdefault(run.config, {})
        for member in run.members:
            of_config.setdefault(member, run)
    rows: list[dict[str, Any]] = []
    for config, members in sweep.members.items():
        # The rows of models whose run has been read and whose turn comes later.
        recorded: dict[Member, list[dict[str, Any]]] = {}
        for member in members:
            if member not in recorded:
                recorded |= _rows_by_member(run_of_model[config][member])
            config_of_model = member.config(config)
            rows += [_row(row, config_of_model, column_of_setting) for row in recorded.pop(member)]
            if len(rows) >= ROWS_AT_ONCE:
                yield _frame(rows, column_of_setting.values())
                rows = []
    if rows:
        yield _frame(rows, column_of_setting.values())


def _rows_by_member(run: Run) -> dict[Member, list[dict[str, Any]]]:
    """The recorded rows of each model of a run, in the order of the steps."""
    rows: dict[Member, list[dict[str, Any]]] = {member: [] for member in run.members}
    for row in run.metrics():
        rows[run.members[row["model"]]].append(row)
    return rows


def _frame(rows: list[dict[str, Any]], settings: Iterable[str]) -> polars.DataFrame:
    """Rows as a table; in single precision, except for the columns of settings."""
    import polars

    frame = polars.DataFrame(rows, infer_schema_length=None)
    in_single_precision = [
        polars.col(polars.Float64).cast(polars.Float32),
        polars.col(polars.List(polars.Float64)).cast(polars.List(polars.Float32)),
    ]
    exact_settings = frame.select(settings)  # they are compared, so they stay in double precision
    return frame.with_columns(in_single_precision).with_columns(exact_settings)


def _row(recorded: Mapping[str, Any], config: Config, column_of_setting: Mapping[str, str]) -> dict[str, Any]:
    """A row of the sweep's table, from one that a run recorded of a model with this configuration."""
    settings = {column: setting_of(config, name) for name, column in column_of_setting.items()}
    facts = {name: recorded[name] for name in ("seed", "step", "loss", "diverged_at")}
    measures = dict(recorded.get("measures", {}))
    tests = measures.pop("tests", {})  # the accuracies of tests and exams (`SweepObserver`)
    return settings | facts | recorded["accuracy"] | tests | measures


def by_network(table: polars.DataFrame, settings: Sequence[str]) -> list[dict[str, np.ndarray]]:
    """The columns of each network of a sweep over these settings and seeds, in the order of the steps."""
    key = [*settings, "seed"]
    parts = table.sort(*key, "step").partition_by(*key, maintain_order=True)  # a table per network
    return [{name: part[name].to_numpy() for name in part.columns} for part in parts]


def tally(table: polars.LazyFrame, sweep: Sweep) -> dict[str, int]:
    """Counts of the models of a sweep: all `models`, those that `diverged`, and others that `bind` or `do_not_bind`.

    For a task or a network of the user's own, binding has no meaning: the others are counted as `trained`.
    """
    is_own = has_code_of_user(sweep.config)
    counts = {"models": 0, "diverged": 0} | ({"trained": 0} if is_own else {"bind": 0, "do_not_bind": 0})
    settings = [column_of(name) for name in sweep.varied]
    columns_of_table = table.collect_schema().names()
    # Not all of the table's hundred columns, as it may have very many models.
    needed = [name for name in (*settings, "seed", "step", "diverged_at", BINDING_SET) if name in columns_of_table]
    for columns in by_network(table.select(needed).collect(), settings):
        counts["models"] += 1
        has_diverged = str(columns["diverged_at"][-1]) not in ("None", "nan")  # a column of integers has NaN for null
        if has_diverged:
            counts["diverged"] += 1
        elif is_own:
            counts["trained"] += 1
        elif Curves.of_columns(columns, sweep.config.record.eval_sequences).binds:
            counts["bind"] += 1
        else:
            counts["do_not_bind"] += 1
    return counts


def column_of(name: str) -> str:
    """The column of a setting, such as `lr` for `optim.lr`: the short name if there is one, or else the dotted name."""
    short_names = {dotted_name: short_name for short_name, dotted_name in SHORT_NAMES.items()}
    return short_names.get(name, name)


def setting_of(config: Config, name: str) -> Any:
    """The value of a setting for a cell of a table; a list as JSON text."""
    value = attrgetter(name)(config)
    return json.dumps(value) if isinstance(value, tuple) else value


def provenance(runs: Sequence[Run], sweep: Sweep, command: str) -> dict[str, Any]:
    """How the table was made: the command, the code, the device, the time, and how many sequences the tests have."""
    sessions = [session for run in runs for session in run.manifest.sessions]
    observed = getattr(sweep.observe, "observed", None)
    environments = dict.fromkeys(session.environment for session in sessions)  # each once
    return {
        "command": command,
        "sweep": sweep.name,
        "cells": len(sweep.cells),
        "steps": sweep.config.optim.steps,
        "varied": list(sweep.varied),
        "stacks": [len(run.members) for run in runs],
        "diverged": sum(step is not None for run in runs for step in run.diverged_at),
        "wall_seconds": round(sum(session.seconds for session in sessions), 1),
        "started": min((session.started for session in sessions), default=None),
        "made_with": [msgspec.to_builtins(environment) for environment in environments],
        "table_with": {"python": platform.python_version(), "platform": sys.platform},
        "sequences_per_set": sweep.config.record.eval_sequences,
        "sequences_in_final_exam": sweep.config.record.final_sequences,
        "sequences_in_end_exams": end_sequences(sweep.config),
        "config": json.loads(msgspec.json.encode(sweep.config)),
        **({"observed": msgspec.to_builtins(observed)} if observed else {}),
    }


def write_results(table: polars.LazyFrame, about: dict[str, Any], path: Path) -> None:
    """Writes a table to `path` (Parquet) and its provenance `about` beside it (JSON), each by one rename.

    Both are sealed, and the provenance has the hash of the table, so that neither can be exchanged.
    """
    import polars

    atomic.make_directory(path.parent)
    try:
        with tempfile.TemporaryFile(dir=path.parent) as file:
            sink_sealed(table, file, COMPRESSION_LEVEL)
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            file.seek(0)
            atomic.write(path, file)
    except (OSError, polars.exceptions.PolarsError) as error:
        raise RunError(f"{path} could not be written: {' '.join(str(error).split())[:200]}") from error
    document = json.dumps(about | {"table": sha256, "seal": BLANK}, indent=2)
    atomic.write(path.with_suffix(".json"), sealed(document.encode() + b"\n"))


def read_provenance(folder: Path) -> dict[str, Any]:
    """How the table of the sweep in a folder was made."""
    return json.loads(read_regular(folder, Path(TABLE).with_suffix(".json").name, most=MOST_SETTINGS))


def read_results(path: Path) -> tuple[polars.DataFrame, dict[str, Any]]:
    """The table at `path` and its provenance; a RunError unless both are as they were written."""
    json_path = path.with_suffix(".json")
    document = read_regular(json_path.parent, json_path.name, most=MOST_SETTINGS)
    data = read_regular(path.parent, path.name)
    about = parse(document, json_path.name)
    if not isinstance(about, dict):
        raise RunError(f"{json_path} is not the provenance of a sweep")
    check_seal(document, str(json_path))
    if about.get("table") != Blob.of(data).sha256:
        raise RunError(f"{json_path} is of another {path.name}")
    table, _ = decode_sealed(data, str(path))
    return table, about


@dataclass(frozen=True)
class ShippedTable:
    """The table of a sweep that comes with the package: NAME.parquet of `assignadd/results` and NAME.json beside it."""

    name: str
    about: str
    """What the table holds and what it is for."""

    @property
    def document(self) -> dict[str, Any]:
        """The JSON file, which says how the table was made."""
        return json.loads((files("assignadd") / "results" / f"{self.name}.json").read_text())

    @property
    def made_by(self) -> tuple[str, str]:
        """The command that made the table, and the commit of this package with which it did."""
        document = self.document
        return document["command"], document["made_with"][0]["commit"]

    def frame(self) -> polars.DataFrame:
        """The table, a row per model and evaluation."""
        import polars

        with (files("assignadd") / "results" / f"{self.name}.parquet").open("rb") as file:
            return polars.read_parquet(file)


ABOUT = {
    "census": "seeds 0 to 127 of preset `paper`, 50,000 steps, a row every 250: which seeds bind, and when",
    "authors": "seeds 128 to 159 of preset `authors` (the same task but for the names of the variables and a mirror), "
    "50,000 steps, a row every 250: one population with the census",
    "fraction": "16 values of f (`seen_fraction`) with 24 seeds each, 30,000 steps, a row every 1,000: how many pairs "
    "addition needs (the paper's figure generalization_combined, b)",
    "two-var": "19 values of r (`two_var_ratio`) with 24 seeds each, 30,000 steps, a row every 1,000: how many "
    "two-variable sequences it needs (generalization_combined, a)",
    "tf32": "seeds 0 to 31 of preset `paper` trained with TF32, 30,000 steps, a row every 250: whether conclusions "
    "depend on TF32 (compare with seeds 0 to 31 of the census)",
}
TABLES = {name: ShippedTable(name, about) for name, about in ABOUT.items()}


def shipped_table(name: str) -> ShippedTable:
    """A table that comes with the package, by its name."""
    if name not in TABLES:
        raise ConfigError("table", name, one_of(name, TABLES))
    return TABLES[name]


FACTS = {
    "lr": "learning rate of AdamW",
    "weight_decay": "weight decay of AdamW",
    "seen_fraction": "f: share of all ordered pairs of numbers that training may add",
    "one_var_ratio": "one-variable sequences for each literal one in training",
    "two_var_ratio": "r: two-variable sequences for each literal one in training",
    "seed": "seed of the initial weights, the split of pairs and the data",
    "step": "updates made",
    "loss": "cross entropy on the batch of the last update, before it; null at step 0",
    "diverged_at": "the step at which the loss was no longer finite; null if it always was",
}
"""Columns of a sweep that are not results of a test."""
EVERY_PAIR = "every pair of values with every pair of variables that the test allows, one sequence each"
TESTS = {
    ZERO_VAR: "accuracy on literal sums, every held-out pair once",
    **{s.name: f"accuracy, {s.label}: {EVERY_PAIR}" for s in TWO_VAR_PARTS},
    TWO_VAR: f"accuracy on the union of the three parts `{TWO_VAR} ...`, the two-variable test of the paper's sweeps",
}
"""The tests after the last update, which are the paper's in full."""
LAST_ROW = "in the row of the last step, null in others"
LAST_ROWS = "only at the last ten evaluations, null at others"


@dataclass(frozen=True)
class Column:
    """A column of a table, or all columns that differ in a field in braces such as `{variable}`."""

    name: str
    meaning: str
    sample: str = ""
    """What each value was counted on; empty where nothing is sampled."""


def columns_of(table: ShippedTable) -> list[Column]:
    """The columns of a table in its order; those that differ only in variable and slot are one entry."""
    about = table.document
    n = about["sequences_per_set"]
    n_final = about["sequences_in_final_exam"]
    n_end = about.get("sequences_in_end_exams", 0)  # tables of an earlier version have no such exams
    columns = [sweep_column(name, n, n_final, n_end=n_end) for name in table.frame().columns]
    return list(dict.fromkeys(columns))  # each once, as those that differ in variable and slot are equal


def sweep_column(name: str, n: int, n_final: int, n_rates: int = STACK_SEQUENCES, n_end: int = 0) -> Column:
    """The meaning of one column of a sweep's table; a ValueError if it has no column of this name.

    Accuracies are counted on `n` sequences, those of the final exam on `n_final`, those of the exams at the last ten
    evaluations on `n_end`, and rates of attention patterns on `n_rates`.
    """
    if name in FACTS:
        return Column(name, FACTS[name])
    if name in TESTS:
        return Column(name, TESTS[name], LAST_ROW)
    final_suffix, end_suffix = final_column(""), end_column("")
    if name.endswith(final_suffix):  # the meaning of the column without the suffix, on other sequences
        column = sweep_column(name.removesuffix(final_suffix), n_final, n_final, n_rates=n_final)
        return Column(name, column.meaning, f"{column.sample}; {LAST_ROW}" if column.sample else LAST_ROW)
    if name.endswith(end_suffix):
        column = sweep_column(name.removesuffix(end_suffix), n_end, n_final)
        return Column(name, f"{column.meaning}, at this evaluation", f"{n_end:,} fresh sequences; {LAST_ROWS}")
    if name in LABELS:
        return Column(name, f"accuracy: {LABELS[name]}", f"{n:,} sequences")
    if re.fullmatch(r"\d-var (\d links?|rebound|once)", name):  # the sets of chains, such as "1-var 2 links"
        return Column(name, f"accuracy: {name}, as docs/tasks.md defines it", f"{n:,} sequences")
    if name.partition(".")[0] in SECTIONS:
        return Column(name, f"the setting {name} (`assignadd train --help`)")
    measure = measure_of(name)
    if measure is VARIABLE_ACCURACY:
        meaning = "accuracy: two variables, {variable} in the {slot} slot, the other in no banned slot"
        return Column(measure.name, meaning, f"{measure.n} sequences")
    sample = f"{n_rates:,} sequences" if measure.n else ""
    sample += ", those of them that training could contain" if TRAINING_LAW in name else ""
    return Column(name, f"{column_label(name)} ({measure.unit})", sample)
