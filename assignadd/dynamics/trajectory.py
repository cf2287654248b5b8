"""Measures over a training run: a row per checkpoint, read a few checkpoints at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from torch import Tensor

from assignadd.config import Config
from assignadd.dynamics.phases import Curves
from assignadd.measures.progress import Progress
from assignadd.model.accuracy import Exam
from assignadd.model.stack import Stack
from assignadd.runs.folder import Run
from assignadd.task.evalsets import RECORDED_SETS

# Checkpoints in memory at once.
CHUNK = 8
Listener = Callable[[int, int], None]
# The checkpoints of one model at these steps, as a stack.
Read = Callable[[Sequence[int]], Stack]


def measured_trajectory(
    run: Run, model: int = 0, steps: Sequence[int] | None = None, listener: Listener = lambda done, total: None
) -> dict[str, np.ndarray]:
    """Every progress measure of one model at every checkpoint (or at these steps), by column; `step` is one of them."""
    steps = run.steps if steps is None else list(steps)
    return measured_at(run.configs[model], run.seen[model], steps, lambda some: run.trajectory(some, model), listener)


def measured_at(
    config: Config, seen: Tensor, steps: Sequence[int], read: Read, listener: Listener = lambda done, total: None
) -> dict[str, np.ndarray]:
    """Every progress measure of one model at these steps, by column; `read` returns the checkpoints."""
    progress = Progress([config], seen[None])
    parts: list[dict[str, np.ndarray]] = []
    for start in range(0, len(steps), CHUNK):
        listener(start, len(steps))
        stack = read(steps[start : start + CHUNK])
        parts.append({name: values.float().numpy() for name, values in progress(stack).items()})
    listener(len(steps), len(steps))
    return {"step": np.array(steps), **{name: np.concatenate([part[name] for part in parts]) for name in parts[0]}}


def accuracy_curves(run: Run, model: int = 0, n: int = 2000) -> Curves:
    """What training recorded; for imported weights, which come without, the accuracies of the checkpoints on `n` sequences."""
    rows = [row for row in run.metrics() if row["model"] == model]
    if rows:
        return Curves.of_rows(rows, run.config.record.eval_sequences)
    return accuracies_at(run.configs[model], run.seen[model], run.steps, lambda some: run.trajectory(some, model), n)


def accuracies_at(config: Config, seen: Tensor, steps: Sequence[int], read: Read, n: int) -> Curves:
    """The accuracies of one model at these steps, on `n` sequences of each evaluation set; `read` returns the checkpoints."""
    exam = Exam([config], seen[None], RECORDED_SETS, n)
    shares = np.concatenate([(exam.count_correct(read([step])) / n).numpy() for step in steps])
    return Curves(np.array(steps), dict(zip(exam.names, shares.T, strict=True)), n)
