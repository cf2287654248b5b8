"""The table of a sweep, read off its run folders: a row per cell and evaluation; and where it comes from."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from assignadd.config import Config, Member
from assignadd.config.errors import RunError
from assignadd.config.member import SHORT_NAMES
from assignadd.runs import atomic
from assignadd.runs.config_json import parse
from assignadd.runs.destination import claim_file
from assignadd.runs.files import read_input
from assignadd.runs.folder import Run
from assignadd.runs.manifest import Blob
from assignadd.runs.tables import (
    BLANK,
    PREFIX,
    decode_foreign,
    decode_sealed,
    encode_table,
    is_parquet_with,
    seal_problem,
    sealed,
)
from assignadd.sweeps.final_tests import end_sequences, sizes_of_tests
from assignadd.sweeps.settings import Sweep

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
    found = [pair for run in runs for pair in _rows(run, places, settings)]
    rows = [row for _, row in sorted(found, key=lambda pair: pair[0])]  # the same columns in any order of runs
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
    own = [*settings, "seed"]
    parts = table.sort(*own, "step").partition_by(*own, maintain_order=True)
    return [{name: part[name].to_numpy() for name in part.columns} for part in parts]


def column_of(name: str) -> str:
    """The column of a setting: its dotted name, or the short one that tables of the first version have."""
    return next((short for short, dotted in SHORT_NAMES.items() if dotted == name), name)


def setting_of(config: Config, name: str) -> Any:
    """The value of a setting for a cell of a table; a list as JSON text."""
    section, _, field = name.partition(".")
    value = getattr(getattr(config, section), field)
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
        own = {column: setting_of(config, name) for name, column in settings.items()}
        tests = measures.pop("tests", {})
        facts = {"seed": row["seed"], "step": row["step"], "loss": row["loss"], "diverged_at": row["diverged_at"]}
        yield place, own | facts | row["accuracy"] | tests | measures


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
    """The table at `path` and its provenance; one that is sealed only if both are as they were written."""
    document, data = (read_input(p, MOST_BYTES) for p in (path.with_suffix(".json"), path))
    about = parse(document, f"{path.stem}.json")
    if not isinstance(about, dict):
        raise RunError(f"{path.with_suffix('.json')} is not the provenance of a sweep")
    if "seal" not in about and PREFIX.encode() not in data:  # from before tables were sealed
        return decode_foreign(data, str(path)), about
    if (problem := seal_problem(document)) or about.get("table") != Blob.of(data).sha256:
        raise RunError(f"{path.with_suffix('.json')} {problem or f'is of another {path.name}'}")
    return decode_sealed(data, str(path))[0], about


def claim_results(path: Path, column: str = "diverged_at") -> None:
    """Refuses a place that holds anything but an earlier table with this column."""
    claim_file(path, lambda data: is_parquet_with(data, column))
    claim_file(path.with_suffix(".json"), lambda data: b'"sweep"' in data and b'"cells"' in data)
