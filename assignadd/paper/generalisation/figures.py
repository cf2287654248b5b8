"""Figure `accuracies`: accuracy by evaluation set along training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from assignadd.figure.record import FigureData, FigureRecord, on_axes
from assignadd.palette import BY_VARS
from assignadd.task.evalsets import EVAL_SETS, LABELS, VARIABLES, EvalSet

NEVER = -1  # in place of a step, of what did not come in training
REACHED = 0.9  # the accuracy that the caption looks for


@dataclass(frozen=True)
class AccuraciesData(FigureData):
    steps: np.ndarray  # (evaluations,)
    sets: list[str]
    accuracy: np.ndarray  # (evaluations, sets)
    diverged_at: int = NEVER  # the step


def accuracies_data(rows: Sequence[Mapping[str, Any]]) -> AccuraciesData:
    """The accuracies of one model along training, from its rows of metrics in the order of the steps."""
    sets = [evalset.name for evalset in EVAL_SETS if evalset.name in rows[0]["accuracy"]]
    steps = np.array([row["step"] for row in rows])
    accuracy = np.array([[row["accuracy"][name] for name in sets] for row in rows])
    diverged_at = rows[-1]["diverged_at"]
    return AccuraciesData(steps, sets, accuracy, NEVER if diverged_at is None else diverged_at)


def accuracies_caption(data: AccuraciesData) -> str:
    """When sums with each number of variables, as trained, are first right nine times in ten; and the lowest set."""
    first_times = []
    for evalset in EVAL_SETS:
        as_trained = evalset.pair == "seen" and not evalset.n_banned
        if as_trained and evalset.name in data.sets:
            curve = data.accuracy[:, data.sets.index(evalset.name)]  # (evaluations,)
            reached = np.flatnonzero(curve >= REACHED)
            when = f"at step {data.steps[reached[0]]:,}" if len(reached) else "never"
            first_times.append(f"{VARIABLES[evalset.n_vars]} {when}")
    lowest = int(data.accuracy[-1].argmin())
    return (
        f"Sums as trained are first right nine times in ten: {', '.join(first_times)}. At the end, step "
        f"{data.steps[-1]:,}, the lowest set is '{LABELS[data.sets[lowest]]}' at {data.accuracy[-1, lowest]:.3f}."
    )


def draw_accuracies(data: AccuraciesData, axes: Axes) -> None:
    """Draws a curve for each evaluation set, and a vertical line where training diverged."""
    evalsets = {evalset.name: evalset for evalset in EVAL_SETS}
    for name, curve in zip(data.sets, data.accuracy.T, strict=True):
        evalset = evalsets[name]
        axes.plot(data.steps, curve, label=evalset.label, color=BY_VARS[evalset.n_vars], **_line_style(evalset))
    if data.diverged_at != NEVER:
        axes.axvline(data.diverged_at, color="black", linewidth=0.8, linestyle="--")
        axes.annotate(" diverged", (data.diverged_at, 0.02))
    axes.set(xlabel="training step", ylabel="accuracy", ylim=(-0.02, 1.02), xlim=(0, max(1, data.steps[-1])))
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.02), handlelength=2.6, labelspacing=0.7)


def _line_style(evalset: EvalSet) -> dict[str, Any]:
    """The line of a set: solid as trained, dashed for held-out pairs, dotted or dash-dotted for banned slots."""
    # Lengths of dashes and gaps, in matplotlib's notation (offset, (on, off, ...)).
    dotted, dash_dotted, dashed = (0, (1, 1.4)), (0, (3, 1, 1, 1)), (0, (5, 2))
    if evalset.n_banned:
        return {"linestyle": dotted if evalset.n_banned == 1 else dash_dotted, "linewidth": 1.5}
    return {"linestyle": "-" if evalset.pair == "seen" else dashed}


ACCURACIES_FIGURE = FigureRecord(
    "accuracies", "Accuracies by evaluation set",
    "Are sums of literals (blue) learned before sums with variables, and do these come in jumps? Colour is the number "
    "of variables in the sum; dashed lines are pairs held out from training, dotted lines are variables in slots "
    "where training never put them.",
    lambda s: accuracies_data(s.model.rows), on_axes(draw_accuracies), height=3.2, width=6.4, found=accuracies_caption,
)  # fmt: skip
