"""Figure `scaling` (ours): what a training step costs per model when one setting changes (docs/scale.md)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from assignadd.figures.arrays import FigureData
from assignadd.palette import BLUE, VERMILION

PRECISIONS = {"fp32": BLUE, "TF32": VERMILION}
LABELS = {
    "M": "models in the stack",
    "batch": "batch",
    "d": "width d (MLP 4d)",
    "N": "numbers N",
    "V": "variables V",
    "T": "tokens T",
}


@dataclass(frozen=True)
class ScalingData(FigureData):
    setting: np.ndarray  # (points,): what differs from the paper's settings and 128 models
    precision: np.ndarray
    value: np.ndarray
    microseconds: np.ndarray
    """Per model and step."""


def scaling_data() -> ScalingData:
    """What `assignadd bench --scaling --device cuda --json` printed, with and without `--tf32`, as it comes with the package."""
    measured = {
        p: json.loads((files("assignadd") / "results" / f"scaling-{p.lower()}.json").read_text())["points"]
        for p in PRECISIONS
    }
    points = [(point["setting"], p, point["value"], point["us"]) for p, some in measured.items() for point in some]
    return ScalingData(*(np.array(column) for column in zip(*points, strict=True)))


def draw_scaling(data: ScalingData, made: Figure) -> None:
    """One panel a setting, logarithmic both ways."""
    axes = made.subplots(2, 3)
    for setting, ax in zip(LABELS, axes.flat, strict=True):
        _panel(data, setting, ax)
    for ax in axes[:, 0]:
        ax.set_ylabel("us per model and step")
    axes[0, 0].legend()


def _panel(data: ScalingData, setting: str, ax: Axes) -> None:
    here = data.setting == setting
    for precision, color in PRECISIONS.items():
        shown = here & (data.precision == precision)
        ax.plot(data.value[shown], data.microseconds[shown], "o-", color=color, label=precision, markersize=3)
    ax.set_xscale("log", base=2)
    ax.set_yscale("log", base=2)
    ticks = np.unique(data.value[here])
    ticks = ticks[::2] if len(ticks) > 6 else ticks
    ax.set_xticks(ticks, [str(v) for v in ticks], minor=False)
    low, high = data.microseconds[here].min(), data.microseconds[here].max()
    marks = [2**k for k in range(3, 11) if low / 2 < 2**k < high * 2]
    ax.set_yticks(marks, [str(v) for v in marks], minor=False)
    ax.set_title(LABELS[setting])
