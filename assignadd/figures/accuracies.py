"""Figure `accuracies` (and `accuracies2`, the same for another seed): nine accuracies against the training step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from assignadd.figures.arrays import FigureData
from assignadd.palette import BY_VARS
from assignadd.task.evalsets import EVAL_SETS, EvalSet


@dataclass(frozen=True)
class AccuraciesData(FigureData):
    steps: np.ndarray  # (evaluations,)
    sets: list[str]
    accuracy: np.ndarray  # (evaluations, sets)
    diverged_at: int | None = None

    def arrays(self) -> dict[str, np.ndarray]:
        return super().arrays() | {"diverged_at": np.array(-1 if self.diverged_at is None else self.diverged_at)}


def accuracies_data(rows: Sequence[Mapping[str, Any]]) -> AccuraciesData:
    """From one model's rows of metrics, in the order of the steps."""
    sets = [s.name for s in EVAL_SETS if s.name in rows[0]["accuracy"]]
    accuracy = np.array([[row["accuracy"][s] for s in sets] for row in rows])
    return AccuraciesData(np.array([row["step"] for row in rows]), sets, accuracy, rows[-1]["diverged_at"])


def draw_accuracies(data: AccuraciesData, axes: Axes) -> None:
    by_name = {s.name: s for s in EVAL_SETS}
    for name, curve in zip(data.sets, data.accuracy.T, strict=True):
        evalset = by_name[name]
        axes.plot(data.steps, curve, label=evalset.label, color=BY_VARS[evalset.n_vars], **_line(evalset))
    if data.diverged_at is not None:
        axes.axvline(data.diverged_at, color="black", linewidth=0.8, linestyle="--")
        axes.annotate(" diverged", (data.diverged_at, 0.02))
    axes.set(xlabel="training step", ylabel="accuracy", ylim=(-0.02, 1.02), xlim=(0, max(1, data.steps[-1])))
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.02), handlelength=2.6, labelspacing=0.7)


def _line(evalset: EvalSet) -> dict[str, Any]:
    """Training sets solid, held-out sums dashed, banned slots dotted (denser for two of them)."""
    if evalset.n_banned:
        return {"linestyle": (0, (1, 1.4)) if evalset.n_banned == 1 else (0, (3, 1, 1, 1)), "linewidth": 1.5}
    return {"linestyle": "-" if evalset.pair == "seen" else (0, (5, 2))}
