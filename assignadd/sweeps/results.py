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
from assignadd.sweeps.final_tests import end_sequences
from assignadd.sweeps.settings import Sweep

if TYPE_CHECKING:
    import polars

COMPRESSION_LEVEL = 19
TABLE = "table.parquet"


def results_table(runs: Sequence[Run], sweep: Sweep) -> polars.DataFrame:
    """A row per model and evaluation: settings and seed, step, loss, where it diverged, every accuracy and measure."""
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
    """How many models of a sweep diverged, bind in the end, or do neither."""
    counts = {"models": 0, "diverged": 0, "bind": 0, "do_not_bind": 0}
    for columns in by_network(table, [column_of(name) for name in sweep.varied]):
        has_diverged = str(columns["diverged_at"][-1]) not in ("None", "nan")
        if has_diverged:
            outcome = "diverged"
        else:
            binds = Curves.of_columns(columns, sweep.config.record.eval_sequences).binds
            outcome = "bind" if binds else "do_not_bind"
        counts["models"] += 1
        counts[outcome] += 1
    return counts


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
        place = places.get((run.config, run.members[row["model"]]))
        if place is None:
            continue
        config = configs[row["model"]]
        measures = dict(row.get("measures", {}))
        values = {column: setting_of(config, name) for name, column in settings.items()}
        tests = measures.pop("tests", {})
        facts = {"seed": row["seed"], "step": row["step"], "loss": row["loss"], "diverged_at": row["diverged_at"]}
        yield place, values | facts | row["accuracy"] | tests | measures


def provenance(runs: Sequence[Run], sweep: Sweep, command: str) -> dict[str, Any]:
    """What made the table: the command, the code, the device, the time, and how many sequences the tests have."""
    sessions = [session for run in runs for session in run.manifest.sessions]
    environments = {json.dumps(msgspec.to_builtins(s.environment), sort_keys=True): None for s in sessions}
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
        "config": json.loads(msgspec.json.encode(sweep.config)),
    }


def write_results(frame: polars.DataFrame, about: dict[str, Any], path: Path) -> None:
    """`path` (Parquet, zstd) and beside it the provenance as JSON, each by one rename."""
    atomic.make_directory(path.parent)
    data = encode_table(frame, {}, COMPRESSION_LEVEL)
    atomic.write(path, data)
    document = json.dumps(about | {"table": Blob.of(data).sha256, "seal": BLANK}, indent=2)
    atomic.write(path.with_suffix(".json"), sealed(document.encode() + b"\n"))


def read_results(path: Path) -> tuple[polars.DataFrame, dict[str, Any]]:
    """The table at `path` and its provenance, if both are as they were written."""
    beside = path.with_suffix(".json")
    document = read_regular(beside.parent, beside.name, most=MOST_SETTINGS)
    data = read_regular(path.parent, path.name)
    about = parse(document, beside.name)
    if not isinstance(about, dict):
        raise RunError(f"{beside} is not the provenance of a sweep")
    check_seal(document, str(beside))
    if about.get("table") != Blob.of(data).sha256:
        raise RunError(f"{beside} is of another {path.name}")
    return decode_sealed(data, str(path))[0], about
