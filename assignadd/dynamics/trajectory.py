"""Measures over a training run: a row per checkpoint, read a few checkpoints at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from assignadd.dynamics.phases import Curves
from assignadd.measures.progress import Progress
from assignadd.model.accuracy import Exam
from assignadd.runs.folder import Run
from assignadd.task.evalsets import RECORDED_SETS

# Checkpoints in memory at once.
CHUNK = 8
Listener = Callable[[int, int], None]


def measured_trajectory(
    run: Run, model: int = 0, steps: Sequence[int] | None = None, listener: Listener = lambda done, total: None
) -> dict[str, np.ndarray]:
    """Every progress measure of one model at every checkpoint (or at these steps), by column; `step` is one of them."""
    steps = run.steps if steps is None else list(steps)
    progress = Progress([run.configs[model]], run.seen[model : model + 1])
    parts: list[dict[str, np.ndarray]] = []
    for start in range(0, len(steps), CHUNK):
        listener(start, len(steps))
        stack = run.trajectory(steps[start : start + CHUNK], model)
        parts.append({name: values.float().numpy() for name, values in progress(stack).items()})
    listener(len(steps), len(steps))
    return {"step": np.array(steps), **{name: np.concatenate([part[name] for part in parts]) for name in parts[0]}}


def accuracy_curves(run: Run, model: int = 0, n: int = 2000) -> Curves:
    """What training recorded; for imported weights, which come without, the accuracies of the checkpoints on `n` sequences."""
    rows = [row for row in run.metrics() if row["model"] == model]
    if rows:
        return Curves.of_rows(rows, run.config.record.eval_sequences)
    exam = Exam([run.configs[model]], run.seen[model : model + 1], RECORDED_SETS, n)
    steps = run.steps
    shares = np.concatenate([(exam.count_correct(run.trajectory([step], model)) / n).numpy() for step in steps])
    return Curves(np.array(steps), dict(zip(exam.names, shares.T, strict=True)), n)
