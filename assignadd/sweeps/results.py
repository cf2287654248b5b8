"""The table of a sweep, a row per model and evaluation, and the file beside it that says how it was made."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from assignadd.config import SHORT_NAMES, Config, Member
from assignadd.config.errors import RunError
from assignadd.dynamics.phases import Curves
from assignadd.runs import atomic
from assignadd.runs.config_json import parse
from assignadd.runs.encoding import BLANK, check_seal, decode_sealed, encode_table, sealed
from assignadd.runs.files import MOST_SETTINGS, read_regular
from assignadd.runs.folder import Run
from assignadd.runs.manifest import Blob
from assignadd.runs.own_files import is_own
from assignadd.sweeps.final_tests import end_sequences
from assignadd.sweeps.settings import Sweep

if TYPE_CHECKING:
    import polars

COMPRESSION_LEVEL = 19  # of 22; tables are written once and shipped
TABLE = "table.parquet"


def results_table(runs: Sequence[Run], sweep: Sweep) -> polars.DataFrame:
    """A row per model and evaluation: settings and seed, step, loss, where it diverged, every accuracy and measure."""
    import polars

    place_of_cell = {cell.in_stack(sweep.config): place for place, cell in enumerate(sweep.cells)}
    settings = dict.fromkeys((*SHORT_NAMES.values(), *sweep.varied))  # each once, in order
    column_of_setting = {name: column_of(name) for name in settings}
    rows_with_places: list[tuple[int, dict[str, Any]]] = []
    for run in runs:
        rows_with_places += _rows(run, place_of_cell, column_of_setting)
    rows_with_places.sort(key=lambda row_with_place: row_with_place[0])  # the same columns in any order of runs
    frame = polars.DataFrame([row for _, row in rows_with_places], infer_schema_length=None)
    in_single_precision = [
        polars.col(polars.Float64).cast(polars.Float32),
        polars.col(polars.List(polars.Float64)).cast(polars.List(polars.Float32)),
    ]
    setting_columns = list(column_of_setting.values())
    exact_settings = frame.select(setting_columns)  # they are compared, so they stay in double precision
    frame = frame.with_columns(in_single_precision).with_columns(exact_settings)
    return frame.sort([*setting_columns, "seed", "step"])


def by_network(table: polars.DataFrame, settings: Sequence[str]) -> list[dict[str, np.ndarray]]:
    """The columns of each network of a sweep over these settings and seeds, in the order of the steps."""
    key = [*settings, "seed"]
    parts = table.sort(*key, "step").partition_by(*key, maintain_order=True)  # a table per network
    return [{name: part[name].to_numpy() for name in part.columns} for part in parts]


def last_rows(table: polars.DataFrame, sweep: Sweep) -> polars.DataFrame:
    """The row of every model after its last step."""
    import polars

    key = ["seed", *map(column_of, sweep.varied)]
    last_step_of_model = polars.col("step").max().over(key)
    return table.filter(polars.col("step") == last_step_of_model)


def tally(table: polars.DataFrame, sweep: Sweep) -> dict[str, int]:
    """How many models of a sweep diverged, bind in the end, or do neither; what is the user's own does not bind."""
    counts = {"models": 0, "diverged": 0, "bind": 0, "do_not_bind": 0}
    if is_own(sweep.config):
        counts = {"models": 0, "diverged": 0, "trained": 0}
    for columns in by_network(table, [column_of(name) for name in sweep.varied]):
        has_diverged = str(columns["diverged_at"][-1]) not in ("None", "nan")  # by the type of the column
        if has_diverged:
            outcome = "diverged"
        elif is_own(sweep.config):
            outcome = "trained"
        else:
            binds = Curves.of_columns(columns, sweep.config.record.eval_sequences).binds
            outcome = "bind" if binds else "do_not_bind"
        counts["models"] += 1
        counts[outcome] += 1
    return counts


def column_of(name: str) -> str:
    """The column of a setting: its dotted name, or the short one that tables of the first version have."""
    for short_name, dotted_name in SHORT_NAMES.items():
        if dotted_name == name:
            return short_name
    return name


def setting_of(config: Config, name: str) -> Any:
    """The value of a setting for a cell of a table; a list as JSON text."""
    value = attrgetter(name)(config)
    return json.dumps(value) if isinstance(value, tuple) else value


def _rows(
    run: Run, place_of_cell: Mapping[tuple[Config, Member], int], column_of_setting: Mapping[str, str]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Each row of the sweep's table that a run has, after the place of its cell in the sweep.

    A cell is known by the configuration of its stack and its member.
    """
    configs = run.configs
    for row in run.metrics():
        place = place_of_cell.get((run.config, run.members[row["model"]]))
        if place is None:  # a model of the run that is not in the sweep
            continue
        config = configs[row["model"]]
        settings = {column: setting_of(config, name) for name, column in column_of_setting.items()}
        facts = {"seed": row["seed"], "step": row["step"], "loss": row["loss"], "diverged_at": row["diverged_at"]}
        measures = dict(row.get("measures", {}))
        tests = measures.pop("tests", {})
        yield place, settings | facts | row["accuracy"] | tests | measures


def provenance(runs: Sequence[Run], sweep: Sweep, command: str) -> dict[str, Any]:
    """What made the table: the command, the code, the device, the time, and how many sequences the tests have."""
    sessions = [session for run in runs for session in run.manifest.sessions]
    observed = getattr(sweep.observe, "observed", None)
    environments = [json.dumps(msgspec.to_builtins(session.environment), sort_keys=True) for session in sessions]
    different_environments = [json.loads(text) for text in dict.fromkeys(environments)]
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
        "made_with": different_environments,
        "table_with": {"python": platform.python_version(), "platform": sys.platform},
        "sequences_per_set": sweep.config.record.eval_sequences,
        "sequences_in_final_exam": sweep.config.record.final_sequences,
        "sequences_in_end_exams": end_sequences(sweep.config),
        "config": json.loads(msgspec.json.encode(sweep.config)),
        **({"observed": msgspec.to_builtins(observed)} if observed else {}),
    }


def write_results(frame: polars.DataFrame, about: dict[str, Any], path: Path) -> None:
    """Writes a table to `path` (Parquet) and its provenance `about` beside it (JSON), each by one rename.

    Both are sealed, and the provenance has the hash of the table, so that neither can be exchanged.
    """
    atomic.make_directory(path.parent)
    data = encode_table(frame, {}, COMPRESSION_LEVEL)
    atomic.write(path, data)
    document = json.dumps(about | {"table": Blob.of(data).sha256, "seal": BLANK}, indent=2)
    atomic.write(path.with_suffix(".json"), sealed(document.encode() + b"\n"))


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
