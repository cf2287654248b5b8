"""The measured trajectories of a run as a table beside it: a row per model and checkpoint, in Parquet."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from assignadd.dynamics.trajectory import measured_trajectory
from assignadd.runs import atomic
from assignadd.runs.folder import Run

if TYPE_CHECKING:
    import polars

FILE = "measures.parquet"
MODEL, SEED = "model", "seed"
Columns = dict[str, np.ndarray]


def measured_run(run: Run, listener: Callable[[int, int], None] = lambda done, total: None) -> polars.DataFrame:
    """Every model of the run at every checkpoint."""
    import polars

    total, parts = len(run.members) * len(run.steps), []
    for i, member in enumerate(run.members):
        columns = measured_trajectory(run, i, listener=lambda done, _, i=i: listener(i * len(run.steps) + done, total))
        size = len(columns["step"])
        parts.append(polars.DataFrame({MODEL: np.full(size, i), SEED: np.full(size, member.seed), **columns}))
    return polars.concat(parts)


def store(run: Run, table: polars.DataFrame, path: Path | None = None) -> Path:
    """Writes the table with a mark of the checkpoints it was measured on; beside the run unless a path is given."""
    data, path = io.BytesIO(), path or run.path / FILE
    table.write_parquet(data, compression="zstd", metadata={"checkpoints": run.fingerprint})
    atomic.write(path, data.getvalue())
    return path


def stored(run: Run) -> polars.DataFrame | None:
    """The table beside the run, if it is there and was measured on the checkpoints the run has now."""
    import polars

    path = run.path / FILE
    try:
        if polars.read_parquet_metadata(path).get("checkpoints") != run.fingerprint:
            return None
        return polars.read_parquet(path)
    except (OSError, polars.exceptions.PolarsError):
        return None


def trajectory_of(run: Run, model: int) -> Columns:
    """One model's columns: read where they are stored, else measured now."""
    table = stored(run)
    if table is None:
        return measured_trajectory(run, model)
    own = table.filter(table[MODEL] == model)
    return {name: own[name].to_numpy() for name in own.columns if name not in (MODEL, SEED)}
