"""The measures of a run at every checkpoint: measured now, or read from the table that `assignadd measure` wrote."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from assignadd.config import Config
from assignadd.dynamics.phases import Curves
from assignadd.measures.progress import Progress
from assignadd.model.accuracy import Exam
from assignadd.model.stack import Stack
from assignadd.runs import atomic
from assignadd.runs.folder import Run
from assignadd.task.evalsets import RECORDED_SETS
from assignadd.training.processes import in_parallel

if TYPE_CHECKING:
    import polars

FILE = "measures.parquet"
MODEL, SEED = "model", "seed"
Columns = dict[str, np.ndarray]
# Checkpoints in memory at once.
CHUNK = 8
Listener = Callable[[int, int], None]
# The checkpoints of one model at these steps, as a stack.
Read = Callable[[Sequence[int]], Stack]


def measured_trajectory(
    run: Run, model: int = 0, steps: Sequence[int] | None = None, listener: Listener = lambda done, total: None
) -> Columns:
    """Every progress measure of one model at every checkpoint (or at these steps), by column; `step` is one of them."""
    steps = run.steps if steps is None else list(steps)
    return measured_at(run.configs[model], run.seen[model], steps, lambda some: run.trajectory(some, model), listener)


def measured_at(
    config: Config, seen: Tensor, steps: Sequence[int], read: Read, listener: Listener = lambda done, total: None
) -> Columns:
    """Every progress measure of one model at these steps, by column; `read` returns the checkpoints."""
    progress = Progress([config], seen[None])
    parts: list[Columns] = []
    for start in range(0, len(steps), CHUNK):
        listener(start, len(steps))
        some = steps[start : start + CHUNK]
        parts.append(_measured(progress, some, read(some)))
    listener(len(steps), len(steps))
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def measured_run(run: Run, listener: Listener = lambda done, total: None, processes: int = 1) -> polars.DataFrame:
    """Every progress measure of every model at every checkpoint: a table with a row per model and checkpoint."""
    import polars

    models = range(len(run.members))
    chunks = [(i, run.steps[start : start + CHUNK]) for i in models for start in range(0, len(run.steps), CHUNK)]
    progress = [Progress([run.configs[i]], run.seen[i : i + 1]) for i in models]

    def measure(chunk: tuple[int, list[int]]) -> Columns:
        i, steps = chunk
        return _measured(progress[i], steps, run.trajectory(steps, i))

    parts: dict[int, polars.DataFrame] = {}
    done, total = 0, len(models) * len(run.steps)
    listener(0, total)
    for at, columns in in_parallel(measure, chunks, processes):
        i, steps = chunks[at]
        own = {MODEL: np.full(len(steps), i), SEED: np.full(len(steps), run.members[i].seed)}
        parts[at] = polars.DataFrame({**own, **columns})
        done += len(steps)
        listener(done, total)
    return polars.concat([parts[at] for at in range(len(chunks))])


def _measured(progress: Progress, steps: Sequence[int], stack: Stack) -> Columns:
    """Every measure of the checkpoints at these steps."""
    return {"step": np.array(steps), **{name: values.float().numpy() for name, values in progress(stack).items()}}


def write_measures(run: Run, table: polars.DataFrame, path: Path | None = None) -> Path:
    """Writes the table, with a fingerprint of its checkpoints, to `path` or beside the run, and returns its path."""
    data, path = io.BytesIO(), path or run.path / FILE
    table.write_parquet(data, compression="zstd", metadata={"checkpoints": run.fingerprint})
    atomic.write(path, data.getvalue())
    return path


def read_measures(run: Run) -> polars.DataFrame | None:
    """The table beside the run; None unless it is there and was measured on the checkpoints that the run has now."""
    import polars

    path = run.path / FILE
    try:
        if polars.read_parquet_metadata(path).get("checkpoints") != run.fingerprint:
            return None
        return polars.read_parquet(path)
    except (OSError, polars.exceptions.PolarsError):
        return None


def trajectory_of(run: Run, model: int) -> Columns:
    """One model's columns: read from the table beside the run, or measured now if there is none."""
    table = read_measures(run)
    if table is None:
        return measured_trajectory(run, model)
    own = table.filter(table[MODEL] == model)
    return {name: own[name].to_numpy() for name in own.columns if name not in (MODEL, SEED)}


def accuracy_curves(run: Run, model: int = 0, n: int = 2000) -> Curves:
    """The accuracies that training recorded; for imported weights, those of the checkpoints on `n` sequences."""
    rows = [row for row in run.metrics() if row["model"] == model]
    if rows:
        return Curves.of_rows(rows, run.config.record.eval_sequences)
    return accuracies_at(run.configs[model], run.seen[model], run.steps, lambda some: run.trajectory(some, model), n)


def accuracies_at(config: Config, seen: Tensor, steps: Sequence[int], read: Read, n: int) -> Curves:
    """The accuracies of one model at these steps, on `n` sequences a set; `read` returns the checkpoints."""
    exam = Exam([config], seen[None], RECORDED_SETS, n)
    shares = np.concatenate([(exam.count_correct(read([step])) / n).numpy() for step in steps])
    return Curves(np.array(steps), dict(zip(exam.names, shares.T, strict=True)), n)
