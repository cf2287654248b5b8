"""Tables: that of a sweep, with where it comes from; those that come with the package; the meaning of their columns."""

from __future__ import annotations

import json
import platform
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from assignadd.config import SHORT_NAMES, Config, Member
from assignadd.config.errors import ConfigError, RunError, one_of
from assignadd.dynamics.phases import Curves
from assignadd.measures.columns import STACK_SEQUENCES, VARIABLE_ACCURACY, column_label, measure_of
from assignadd.measures.routing import TRAINING_LAW
from assignadd.runs import atomic
from assignadd.runs.config_json import parse
from assignadd.runs.encoding import BLANK, check_seal, decode_sealed, encode_table, sealed
from assignadd.runs.files import read_input
from assignadd.runs.folder import Run
from assignadd.runs.manifest import Blob
from assignadd.sweeps.final_tests import (
    TWO_VAR,
    TWO_VAR_PARTS,
    ZERO_VAR,
    end_column,
    end_sequences,
    final_column,
    sizes_of_tests,
)
from assignadd.sweeps.settings import SECTIONS, Sweep
from assignadd.task.evalsets import LABELS

if TYPE_CHECKING:
    import polars

COMPRESSION_LEVEL = 19
TABLE = "table.parquet"
MOST_BYTES = 1 << 30


def results_table(runs: Sequence[Run], sweep: Sweep) -> polars.DataFrame:
    """Settings and seed of every cell, step, loss, where it diverged, and every accuracy and measure as a column.

    A model that diverged keeps the row it had then, to the last step.
    """
    import polars

    places = {cell.in_stack(sweep.config): i for i, cell in enumerate(sweep.cells)}
    settings = {name: column_of(name) for name in dict.fromkeys((*SHORT_NAMES.values(), *sweep.varied))}
    placed_rows = [placed for run in runs for placed in _rows(run, places, settings)]
    placed_rows.sort(key=lambda placed: placed[0])  # the same columns in any order of runs
    rows = [row for _, row in placed_rows]
    frame = polars.DataFrame(rows, infer_schema_length=None)
    narrow = [
        polars.col(polars.Float64).cast(polars.Float32),
        polars.col(polars.List(polars.Float64)).cast(polars.List(polars.Float32)),
    ]
    columns = list(settings.values())
    exact = frame.select(columns)  # settings are compared, not plotted
    return frame.with_columns(narrow).with_columns(exact).sort([*columns, "seed", "step"])


def by_network(table: polars.DataFrame, settings: Sequence[str]) -> list[dict[str, np.ndarray]]:
    """The columns of each network of a sweep over these settings and seeds, in the order of the steps."""
    network = [*settings, "seed"]
    parts = table.sort(*network, "step").partition_by(*network, maintain_order=True)
    return [{name: part[name].to_numpy() for name in part.columns} for part in parts]


def last_rows(table: polars.DataFrame, sweep: Sweep) -> polars.DataFrame:
    """The row of every model after its last step."""
    import polars

    cell = ["seed", *map(column_of, sweep.varied)]
    return table.filter(polars.col("step") == polars.col("step").max().over(cell))


def tally(table: polars.DataFrame, sweep: Sweep) -> dict[str, int]:
    """What became of the models: none is dropped."""
    networks = by_network(table, [column_of(name) for name in sweep.varied])
    diverged = [str(columns["diverged_at"][-1]) not in ("None", "nan") for columns in networks]
    n = sweep.config.record.eval_sequences
    bound = sum(
        Curves.of_columns(columns, n).binds
        for columns, has_diverged in zip(networks, diverged, strict=True)
        if not has_diverged
    )
    return {
        "models": len(networks),
        "diverged": sum(diverged),
        "bind": bound,
        "do_not_bind": len(networks) - sum(diverged) - bound,
    }


def column_of(name: str) -> str:
    """The column of a setting: its dotted name, or the short one that tables of the first version have."""
    return next((short for short, dotted in SHORT_NAMES.items() if dotted == name), name)


def setting_of(config: Config, name: str) -> Any:
    """The value of a setting for a cell of a table; a list as JSON text."""
    value = attrgetter(name)(config)
    return json.dumps(value) if isinstance(value, tuple) else value


def _rows(
    run: Run, places: Mapping[tuple[Config, Member], int], settings: Mapping[str, str]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Each row of the sweep's cells in a run, with the cell's place in the sweep."""
    configs = run.configs
    for row in run.metrics():
        if (place := places.get((run.config, run.members[row["model"]]))) is None:
            continue
        config, measures = configs[row["model"]], dict(row.get("measures", {}))
        values = {column: setting_of(config, name) for name, column in settings.items()}
        tests = measures.pop("tests", {})
        facts = {"seed": row["seed"], "step": row["step"], "loss": row["loss"], "diverged_at": row["diverged_at"]}
        yield place, values | facts | row["accuracy"] | tests | measures


def provenance(runs: Sequence[Run], sweep: Sweep, command: str) -> dict[str, Any]:
    """What made the table: the command, the code, the machine, the time, and how many sequences the tests have."""
    sessions = [session for run in runs for session in run.manifest.sessions]
    environments = {json.dumps(msgspec.to_builtins(s.environment), sort_keys=True): None for s in sessions}
    config = sweep.cells[0].config(sweep.config)
    return {
        "command": command,
        "sweep": sweep.name,
        "cells": len(sweep.cells),
        "steps": sweep.config.optim.steps,
        "varied": list(sweep.varied),
        "stacks": [len(run.members) for run in runs],
        "diverged": sum(step is not None for run in runs for step in run.diverged_at),
        "wall_seconds": round(sum(s.seconds for s in sessions), 1),
        "started": min((s.started for s in sessions), default=None),
        "made_with": [json.loads(e) for e in environments],
        "table_with": {"python": platform.python_version(), "platform": sys.platform},
        "sequences_per_set": sweep.config.record.eval_sequences,
        "sequences_in_final_exam": sweep.config.record.final_sequences,
        "sequences_in_end_exams": end_sequences(sweep.config),
        "sequences_in_tests_of_first_cell": sizes_of_tests(config, runs[0].seen[0]) if runs else {},
        "config": json.loads(msgspec.json.encode(sweep.config)),
    }


def write_results(frame: polars.DataFrame, about: dict[str, Any], path: Path) -> None:
    """`path` (Parquet, zstd) and beside it the provenance as JSON, each by one rename."""
    atomic.make_directory(path.parent)
    atomic.write(path, encode_table(frame, {}, COMPRESSION_LEVEL))
    document = json.dumps(about | {"table": Blob.of(path.read_bytes()).sha256, "seal": BLANK}, indent=2)
    atomic.write(path.with_suffix(".json"), sealed(document.encode() + b"\n"))


def read_results(path: Path) -> tuple[polars.DataFrame, dict[str, Any]]:
    """The table at `path` and its provenance, if both are as they were written."""
    beside = path.with_suffix(".json")
    document = read_input(beside, MOST_BYTES)
    data = read_input(path, MOST_BYTES)
    about = parse(document, beside.name)
    if not isinstance(about, dict):
        raise RunError(f"{beside} is not the provenance of a sweep")
    check_seal(document, str(beside))
    if about.get("table") != Blob.of(data).sha256:
        raise RunError(f"{beside} is of another {path.name}")
    return decode_sealed(data, str(path))[0], about


Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class ShippedTable:
    """A table of `assignadd/results`: NAME.parquet beside NAME.json, or NAME.json alone."""

    name: str
    row: str
    """What one row stands for."""
    about: str
    """What the table holds and what it is for."""
    rows: Callable[[Mapping[str, Any]], Rows] | None = None
    """The rows of a table that is a JSON file; None for a Parquet file."""
    meanings: Mapping[str, str] = field(default_factory=dict)
    """The meaning of each column of a table that is a JSON file; `data_dictionary` has those of sweeps and studies."""

    @property
    def document(self) -> dict[str, Any]:
        """The JSON file: how the table was made and, if there is no Parquet file, its contents."""
        return json.loads((files("assignadd") / "results" / f"{self.name}.json").read_text())

    @property
    def made_by(self) -> tuple[str, str]:
        """The command that made the table, or "" if the file does not have it, and the commit."""
        document = self.document
        environment = document.get("made_with", document)
        return document.get("command", ""), (environment if isinstance(environment, dict) else environment[0])["commit"]

    def frame(self) -> polars.DataFrame:
        """The table."""
        import polars

        if self.rows is not None:
            return polars.DataFrame(self.rows(self.document), infer_schema_length=None)
        with (files("assignadd") / "results" / f"{self.name}.parquet").open("rb") as file:
            return polars.read_parquet(file)


def shipped_table(name: str) -> ShippedTable:
    """The record of a table, by its name."""
    if name not in TABLES:
        raise ConfigError("table", name, one_of(name, TABLES))
    return TABLES[name]


def _ledger_rows(document: Mapping[str, Any]) -> Rows:
    """A row for each claim, and one for each further reading of it."""
    rows: Rows = []
    for record in document["records"]:
        claim = {"id": record["id"], "label": record["label"], "claim": record["claim"], "paper": record["paper"]}
        rows.append(claim | _numbers(record) | {"checkpoints": record["checkpoints"]})
        for line in record["readings"]:
            reading = {"id": f"{record['id']}:{line['id']}", "label": record["label"], "claim": line["says"]}
            rows.append(reading | {"paper": None} | _numbers(line) | {"checkpoints": None})
    return rows


def _numbers(line: Mapping[str, Any]) -> dict[str, Any]:
    return {name: line[name] for name in ("value", "low", "high", "n", "unit", "verdict")}


_MODEL_AND_EVALUATION = "one model at one evaluation"
TABLES: dict[str, ShippedTable] = {
    table.name: table
    for table in (
        ShippedTable(
            "census", _MODEL_AND_EVALUATION,
            "seeds 0 to 127 of preset `paper`, 50,000 steps, a row every 250: which seeds bind, and when",
        ),
        ShippedTable(
            "authors", _MODEL_AND_EVALUATION,
            "seeds 128 to 159 of preset `authors` (the same task but for the names of the variables and a mirror), "
            "50,000 steps, a row every 250: one population with the census",
        ),
        ShippedTable(
            "fraction", _MODEL_AND_EVALUATION,
            "16 values of f (`seen_fraction`) with 24 seeds each, 30,000 steps, a row every 1,000: how many pairs "
            "addition needs (the paper's figure generalization_combined, b)",
        ),
        ShippedTable(
            "two-var", _MODEL_AND_EVALUATION,
            "19 values of r (`two_var_ratio`) with 24 seeds each, 30,000 steps, a row every 1,000: how many "
            "two-variable sequences it needs (generalization_combined, a)",
        ),
        ShippedTable(
            "tf32", _MODEL_AND_EVALUATION,
            "seeds 0 to 31 of preset `paper` trained with TF32, 30,000 steps, a row every 250: whether conclusions "
            "depend on TF32 (compare with seeds 0 to 31 of the census)",
        ),
        ShippedTable(
            "paper-network", "one claim, or one further reading of it",
            "the ledger of the paper's own network: all 401 of its public checkpoints, imported",
            _ledger_rows,
            {
                "id": "the claim (`assignadd claims RUN --only ID` prints its sentence and rule), or CLAIM:READING",
                "label": "the figure or section of the paper",
                "claim": "what is claimed",
                "paper": "what the paper reports; null for a reading",
                "value": "what was measured",
                "low": "lower end of the 95 % interval; the value itself where nothing is sampled",
                "high": "upper end of the 95 % interval; the value itself where nothing is sampled",
                "n": "how many units the value was counted on; 0 where it is not counted",
                "unit": "the units, such as sequences, pairs or checkpoints",
                "verdict": "`holds`, `does not hold` or `undecided` (the interval contains the threshold)",
                "checkpoints": "the checkpoints that the claim was measured at, with their number from three on; "
                "empty for the theory, null for a reading",
            },
        ),
    )
}  # fmt: skip


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
_BOTH = "every pair of values with every pair of variables that the test allows, one sequence each"
TESTS = {
    ZERO_VAR: "accuracy on literal sums, every held-out pair once",
    **{s.name: f"accuracy, {s.label}: {_BOTH}" for s in TWO_VAR_PARTS},
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
    """The columns of a table that comes with the package, in its order."""
    names = table.frame().columns
    if table.meanings:
        return [Column(name, table.meanings[name]) for name in names]
    about = table.document
    n_end = about.get("sequences_in_end_exams", 0)  # tables of an earlier version have no such exams
    return sweep_columns(names, about["sequences_per_set"], about["sequences_in_final_exam"], n_end)


def sweep_columns(names: Iterable[str], n: int, n_final: int, n_end: int = 0) -> list[Column]:
    """The columns of a sweep with `n` sequences of each evaluation set and `n_final` in the final exam.

    The exams of the last ten evaluations have `n_end` each. Columns that differ only in variable and slot are one
    entry.
    """
    return list(dict.fromkeys(sweep_column(name, n, n_final, n_end=n_end) for name in names))


def sweep_column(name: str, n: int, n_final: int, n_rates: int = STACK_SEQUENCES, n_end: int = 0) -> Column:
    """The meaning of one column of a sweep; a ValueError if no column of a sweep has this name.

    Rates of attention patterns are counted on `n_rates` sequences.
    """
    if name in FACTS:
        return Column(name, FACTS[name])
    if name in TESTS:
        return Column(name, TESTS[name], LAST_ROW)
    if name.endswith(final_column("")):
        exam = sweep_column(name.removesuffix(final_column("")), n_final, n_final, n_final)
        return Column(name, exam.meaning, "; ".join(filter(None, (exam.sample, LAST_ROW))))
    if name.endswith(end_column("")):
        exam = sweep_column(name.removesuffix(end_column("")), n_end, n_final)
        return Column(name, f"{exam.meaning}, at this evaluation", f"{n_end:,} fresh sequences; {LAST_ROWS}")
    if name in LABELS:
        return Column(name, f"accuracy: {LABELS[name]}", f"{n:,} sequences")
    if match := re.fullmatch(r"\d-var (\d links?|rebound|once)", name):
        return Column(name, f"accuracy: {match[0]}, as docs/tasks.md defines it", f"{n:,} sequences")
    if name.partition(".")[0] in SECTIONS:
        return Column(name, f"the setting {name} (`assignadd train --help`)")
    measure = measure_of(name)
    if measure is VARIABLE_ACCURACY:
        meaning = "accuracy: two variables, {variable} in the {slot} slot, the other in no banned slot"
        return Column(measure.name, meaning, f"{measure.n} sequences")
    sample = f"{n_rates:,} sequences" if measure.n else ""
    sample += ", those of them that training could contain" if TRAINING_LAW in name else ""
    return Column(name, f"{column_label(name)} ({measure.unit})", sample)
