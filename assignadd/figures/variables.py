"""Figure `variables` (ours): accuracy by variable and slot along training, with every late variable marked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke

from assignadd.config import Task
from assignadd.dynamics.onsets import first_lasting
from assignadd.dynamics.phases import Phases
from assignadd.figures.heatmap import bar, draw_heat
from assignadd.figures.record import FigureData, FigureRecord
from assignadd.figures.style import SMALLEST
from assignadd.figures.training_axis import name_phases, phase_ends, rule_phases
from assignadd.measures.accuracies import SLOTS
from assignadd.measures.columns import HALF
from assignadd.palette import INK, ORANGE, RED, SHARES

COLUMNS = 600  # cells along the steps: about as many as the paper has pixels there

LATER = 1000  # steps behind the first spike, by which most variables have come
LATE: dict[str, Any] = {
    "color": ORANGE,
    "marker": "D",
    "markersize": 4,
    "markeredgecolor": INK,
    "markeredgewidth": 0.6,
    "linestyle": "none",
    "zorder": 5,
    "label": "late: half of its sums right from here on",
}


@dataclass(frozen=True)
class VariablesData(FigureData):
    steps: np.ndarray  # (checkpoints,)
    letters: list[str]
    accuracy: np.ndarray  # (2, V, checkpoints): slot, variable
    banned: np.ndarray  # (2, V)
    onsets: np.ndarray  # (2, V): the step from which half of the sums are right to last; NaN where that never comes
    late: np.ndarray  # (2, V): whether that is `LATER` than the first spike
    phases: list[str]
    ends: np.ndarray
    summary: str


def variables_data(columns: Mapping[str, np.ndarray], phases: Phases, task: Task) -> VariablesData:
    """Accuracy and onset of every variable in every slot, from the columns of a measured trajectory."""
    steps = columns["step"]
    accuracy = np.stack([[columns[f"accuracy {v} {slot}"] for v in task.variables] for slot in SLOTS])
    banned = np.array([[v in letters for v in task.variables] for letters in (task.banned_first, task.banned_second)])
    onsets = np.array([[_onset(steps, curve) for curve in of_slot] for of_slot in accuracy])
    late = onsets > (phases.first_spike.after + LATER if phases.first_spike else np.inf)
    return VariablesData(
        steps, list(task.variables), accuracy, banned, onsets, late, *phase_ends(phases), phases.summary
    )


def variables_caption(data: VariablesData) -> str:
    """How many variables come late, and how many of these are banned, in words."""
    late, banned = int(data.late.sum()), int((data.late & data.banned).sum())
    return (
        f"Rows that come more than {LATER:,} steps after the first spike: {late}; of these, {banned} are ones that "
        "training never had."
    )


def _onset(steps: np.ndarray, curve: np.ndarray) -> float:
    at = first_lasting(steps, curve >= HALF)
    return np.nan if at is None else float(steps[at])


def draw_variables(data: VariablesData, made: Figure) -> None:
    axes = made.add_subplot()
    V, last = len(data.letters), max(1, int(data.steps[-1]))
    gap = np.full((1, len(data.steps)), np.nan)  # between the slots
    rows = np.concatenate([data.accuracy[0], gap, data.accuracy[1]])
    image = draw_heat(axes, rows[:, nearest(data.steps, last)], SHARES, (0, 1))
    image.set_extent((0, last, len(rows) - 0.5, -0.5))
    at = np.concatenate([np.arange(V), V + 1 + np.arange(V)])
    axes.plot(np.where(data.late, data.onsets, np.nan).ravel(), at, **LATE)
    _name_rows(axes, data, at)
    axes.set(xlabel="training step", xlim=(0, last))
    axes.tick_params(axis="x", length=3)
    bar(image, axes, "accuracy")
    rule_phases(axes, data.ends, zorder=4, path_effects=[withStroke(linewidth=2, foreground="white")])
    name_phases(axes, data.phases, data.ends, data.summary)
    banned = Line2D([], [], color=RED, marker="$×$", markersize=5, linestyle="none", label="never trained in this slot")
    handles = [banned, Line2D([], [], **LATE)] if data.late.any() else [banned]
    made.legend(handles=handles, loc="outside lower center", ncols=2)


def _name_rows(axes: Axes, data: VariablesData, at: np.ndarray) -> None:
    axes.set_yticks(
        at,
        [f"{'× ' * bool(b)}{v}" for v, b in zip(data.letters * 2, data.banned.ravel(), strict=True)],
        fontsize=SMALLEST,
    )
    for label, banned in zip(axes.get_yticklabels(), data.banned.ravel(), strict=True):
        label.set(color=RED if banned else INK, fontweight="bold" if banned else "normal")
    for slot, rows in zip(SLOTS, np.split(at, 2), strict=True):
        axes.text(
            -0.065,
            rows.mean(),
            f"{slot} slot",
            transform=axes.get_yaxis_transform(),
            ha="right",
            va="center",
            rotation=90,
        )


def nearest(steps: np.ndarray, last: int) -> np.ndarray:
    """For every cell from 0 to `last`, the checkpoint nearest to its middle."""
    middles = (np.arange(COLUMNS) + 0.5) * last / COLUMNS
    return np.abs(steps[:, None] - middles).argmin(0)


VARIABLES_FIGURE = FigureRecord(
    "variables", "Every variable in every slot",
    "Each row is a variable in a slot. A light bar that continues after (a) is a variable not yet looked up "
    "there; a red cross marks a variable that training never put in that slot.",
    lambda s: variables_data(s.model.trajectory, s.model.phases, s.model.config.task), draw_variables, height=4.0,
    found=variables_caption, along_training=True,
)  # fmt: skip
