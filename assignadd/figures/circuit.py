"""Figure `circuit` (ours): the whole circuit as a graph of paths, each with what it is worth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from assignadd.figures.arrays import FigureData
from assignadd.interventions.paths import (
    EMBEDDING,
    KEY,
    LAYER_1,
    LAYER_2,
    LOGITS,
    MLP2,
    QUERY,
    TOKEN_ROLES,
    VALUE,
    Path,
)
from assignadd.palette import BLUE, GREEN, GREY, INK, PALE, PURPLE, VERMILION

SHOWN_VARS = 1  # sums with one variable use every path: one operand is looked up, the other is read off
LEAST = 0.03  # of the accuracy: smaller effects are not drawn
COLOURS = {LAYER_1: BLUE, QUERY: VERMILION, KEY: GREEN, VALUE: PURPLE, MLP2: INK, LOGITS: INK}
ORDER = ("other variable", "other number", "operand variable", "operand number", "PAD", "+", "first", "second", "=")
PORTS = {
    QUERY: (1.95, 7.6),
    KEY: (1.95, 4.4),
    VALUE: (1.95, 1.6),
    LAYER_2: (2.32, 4.6),
    MLP2: (3.0, 4.6),
    LOGITS: (3.65, 4.6),
}
TITLES = {0.0: "embeddings, by role", 1.0: "layer 1's output", 2.13: "layer 2", 3.0: "MLP2", 3.65: "logits"}


@dataclass(frozen=True)
class CircuitData(FigureData):
    senders: list[str]
    roles: list[str]
    receivers: list[str]
    at: list[str]
    effect: (
        np.ndarray
    )  # (paths, types): accuracy that the path is worth, by the number of variables; NaN where it is absent
    direct: (
        np.ndarray
    )  # (senders, types): what embedding, layer 1, layer 2 and MLP2 add to the right answer's logit themselves


def circuit_data(effects: Mapping[int, Mapping[Path, float]], direct: Mapping[int, Mapping[str, float]]) -> CircuitData:
    paths = sorted(
        {path for of_type in effects.values() for path in of_type}, key=lambda p: (p.sender, p.role, p.receiver, p.at)
    )
    effect = np.array([[of_type.get(path, np.nan) for of_type in effects.values()] for path in paths])
    logits = np.array([[of_type[name] for of_type in direct.values()] for name in (EMBEDDING, LAYER_1, LAYER_2, MLP2)])
    senders, roles, receivers, at = (
        [getattr(path, name) for path in paths] for name in ("sender", "role", "receiver", "at")
    )
    return CircuitData(senders, roles, receivers, at, effect, logits)


def draw_circuit(data: CircuitData, axes: Axes) -> None:
    shown = min(SHOWN_VARS, data.effect.shape[1] - 1)
    used: set[tuple[float, float]] = set()
    for sender, role, receiver, at, effect in zip(
        data.senders, data.roles, data.receivers, data.at, data.effect[:, shown], strict=True
    ):
        if np.isfinite(effect) and abs(effect) >= LEAST:
            start, end = _place(sender, role), _place(receiver, at)
            used |= {start, end}
            _arrow(axes, start, end, float(effect), COLOURS[receiver])
    for role in TOKEN_ROLES:
        for component in (EMBEDDING, LAYER_1):
            _box(axes, _place(component, role), role, _place(component, role) in used)
    for name, place in PORTS.items():
        if name != LAYER_2:
            _box(axes, place, name, on=True)
    _box(axes, PORTS[LAYER_2], "attention\nof `=`", on=True, height=7.0)
    for x, title in TITLES.items():
        axes.text(x, -0.95, title, ha="center", va="bottom", fontsize=7.5, fontweight="bold")
    total, mlp = data.direct[:, shown].sum(), data.direct[-1, shown]
    axes.text(
        3.8,
        8.0,
        f"MLP2 writes {mlp / total:.1%} of the\nright answer's logit itself",
        ha="right",
        va="center",
        fontsize=7,
        color=INK,
    )
    axes.set(xlim=(-0.32, 3.85), ylim=(8.9, -1.3), xticks=[], yticks=[])
    axes.set_axis_off()


def _place(component: str, role: str) -> tuple[float, float]:
    """Where a component stands: a column for each of embeddings and layer 1, in it a row for each role."""
    return PORTS[component] if component in PORTS else (float(component == LAYER_1), float(ORDER.index(role)))


def _half(x: float) -> float:
    """Half the width of a box in this column."""
    return 0.25 if x < 1.5 else 0.15


def _box(axes: Axes, place: tuple[float, float], text: str, on: bool, height: float = 0.6) -> None:
    (x, y), half = place, _half(place[0])
    patch = FancyBboxPatch((x - half, y - height / 2), 2 * half, height, boxstyle="round,pad=0.02,rounding_size=0.06", zorder=3,
                           facecolor="white" if on else PALE, edgecolor=INK if on else GREY, linewidth=0.9 if on else 0.5)  # fmt: skip
    axes.add_patch(patch)
    axes.text(x, y, text, ha="center", va="center", fontsize=6.8, color=INK if on else GREY, zorder=4)


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], effect: float, color: str) -> None:
    """As thick as the path is worth; the number stands where no box does, between the column of the sender and the next."""
    tail, head = (start[0] + _half(start[0]) + 0.02, start[1]), (end[0] - _half(end[0]) - 0.02, end[1])
    arrow = FancyArrowPatch(tail, head, arrowstyle="-|>,head_length=3.2,head_width=1.6", linewidth=0.6 + 3.2 * abs(effect), color=color,
                            alpha=0.85, shrinkA=0, shrinkB=0, zorder=2)  # fmt: skip
    axes.add_patch(arrow)
    share = min(0.42, 0.24 / (head[0] - tail[0]))
    x, y = tail[0] + share * (head[0] - tail[0]), tail[1] + share * (head[1] - tail[1])
    label = {"facecolor": "white", "edgecolor": "none", "pad": 0.6, "alpha": 0.85}
    axes.text(x, y, f"{effect:.2f}", ha="center", va="center", fontsize=6.5, color=color, bbox=label, zorder=5)
