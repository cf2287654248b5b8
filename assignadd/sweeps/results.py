"""The table of a sweep, a row per model and evaluation, how it was made, what its columns mean; and the tables of the
package."""

from __future__ import annotations

import json
import platform
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from assignadd.config import SHORT_NAMES, Config, has_code_of_user
from assignadd.config.errors import ConfigError, RunError, one_of
from assignadd.dynamics.phases import Curves
from assignadd.measures.columns import STACK_SEQUENCES, VARIABLE_ACCURACY, column_label, measure_of
from assignadd.measures.routing import TRAINING_LAW
from assignadd.runs import atomic
from assignadd.runs.config_json import parse
from assignadd.runs.encoding import BLANK, check_seal, decode_sealed, encode_table, sealed
from assignadd.runs.files import MOST_SETTINGS, read_regular
from assignadd.runs.folder import Run
from assignadd.runs.manifest import Blob
from assignadd.sweeps.final_tests import TWO_VAR, TWO_VAR_PARTS, ZERO_VAR, end_column, end_sequences, final_column
from assignadd.sweeps.plan import SECTIONS, Sweep
from assignadd.task.evalsets import LABELS

if TYPE_CHECKING:
    import polars

TABLE = "table.parquet"
PLACE = "place"  # the column with a model's place among the cells, while a table is made


def results_table(runs: Sequence[Run], sweep: Sweep) -> polars.DataFrame:
    """A row per model and evaluation: settings and seed, step, loss, where it diverged, every accuracy and measure.

    Rows are in the order of the cells and of the steps. Of a model that several runs have, the first run's count.
    """
    import polars

    names = dict.fromkeys((*SHORT_NAMES.values(), *sweep.varied))  # of settings, each once, in order
    models = [(config, member) for config, members in sweep.members.items() for member in members]
    place_of_model = {model: place for place, model in enumerate(models)}
    frames = []
    for run in runs:
        first_columns = {}  # of each model that counts, by its index in the run
        for index, member in enumerate(run.members):
            place = place_of_model.pop((run.config, member), None)
            if place is not None:
                config = member.config(run.config)
                first_columns[index] = {PLACE: place} | {column_of(name): setting_of(config, name) for name in names}
        rows = [first_columns[row["model"]] | _recorded(row) for row in run.metrics() if row["model"] in first_columns]
        if rows:
            frame = polars.DataFrame(rows, infer_schema_length=None)
            exact_settings = frame.select(map(column_of, names))  # they are compared, so they stay in double precision
            numbers = polars.col(polars.Float64).cast(polars.Float32)
            lists = polars.col(polars.List(polars.Float64)).cast(polars.List(polars.Float32))
            frames.append(frame.with_columns(numbers, lists).with_columns(exact_settings))
    frames.sort(key=lambda frame: frame[PLACE][0])  # so that the order of columns does not depend on that of the runs
    return polars.concat(frames, how="diagonal_relaxed").sort(PLACE, maintain_order=True).drop(PLACE)


def _recorded(row: Mapping[str, Any]) -> dict[str, Any]:
    """The facts, accuracies and measures of a row that a run recorded, by column."""
    facts = {name: row[name] for name in ("seed", "step", "loss", "diverged_at")}
    measures = dict(row.get("measures", {}))
    tests = measures.pop("tests", {})  # the accuracies of tests and exams (`SweepObserver`)
    return facts | row["accuracy"] | tests | measures


def by_network(table: polars.DataFrame, settings: Sequence[str]) -> list[dict[str, np.ndarray]]:
    """The columns of each network of a sweep over these settings and seeds, in the order of the steps."""
    key = [*settings, "seed"]
    parts = table.sort(*key, "step").partition_by(*key, maintain_order=True)  # a table per network
    return [{name: part[name].to_numpy() for name in part.columns} for part in parts]


def tally(table: polars.DataFrame, sweep: Sweep) -> dict[str, int]:
    """Counts of the models of a sweep: all `models`, those that `diverged`, and others that `bind` or `do_not_bind`.

    For a task or a network of the user's own, binding has no meaning: the others are counted as `trained`.
    """
    is_own = has_code_of_user(sweep.config)
    counts = {"models": 0, "diverged": 0} | ({"trained": 0} if is_own else {"bind": 0, "do_not_bind": 0})
    for columns in by_network(table, [column_of(name) for name in sweep.varied]):
        counts["models"] += 1
        if str(columns["diverged_at"][-1]) not in ("None", "nan"):  # a column of integers has NaN for null
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
    environments = dict.fromkeys(session.environment for session in sessions)  # each once
    observed = getattr(sweep.observe, "observed", None)
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


def write_results(table: polars.DataFrame, about: dict[str, Any], path: Path) -> None:
    """Writes a table to `path` (Parquet) and its provenance `about` beside it (JSON), each by one rename.

    Both are sealed, and the provenance has the hash of the table, so that neither can be exchanged.
    """
    atomic.make_directory(path.parent)
    data = encode_table(table, {})
    atomic.write(path, data)
    document = json.dumps(about | {"table": Blob.of(data).sha256, "seal": BLANK}, indent=2)
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
