"""Figures `circuit` and `circuit_only` (ours): the effect of each path, and the accuracy of the paper's parts alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from assignadd.figure.record import FigureData, FigureRecord, on_axes
from assignadd.figure.style import (
    DARK_FROM,
    draw_heat,
    write_cells,
)
from assignadd.palette import BLUE, GREEN, GREY, INK, PALE, PURPLE, SHARES, VERMILION
from assignadd.paper.causes.circuit import SECTION_5, WHOLE, CircuitAlone, circuit_alone_of
from assignadd.paper.causes.paths import (  # fmt: skip
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
    direct_logits,
    path_effects,
)
from assignadd.task.evalsets import LABELS

SHOWN_VARS = 1  # sums with one variable use every path: one operand is looked up, the other is read off
LEAST = 0.03  # of the accuracy: smaller effects are not drawn
COLOURS = {LAYER_1: BLUE, QUERY: VERMILION, KEY: GREEN, VALUE: PURPLE, MLP2: INK, LOGITS: INK}
ORDER = ("other variable", "other number", "operand variable", "operand number", "PAD", "+", "first", "second", "=")
PORTS = {
    QUERY: (1.95, 7.6), KEY: (1.95, 1.6), VALUE: (1.95, 5.2), LAYER_2: (2.32, 4.6), MLP2: (3.0, 4.6),
    LOGITS: (3.65, 4.6),
}  # fmt: skip
TITLES = {0.0: "embeddings, by role", 1.0: "layer 1's output", 2.13: "layer 2", 3.0: "MLP2", 3.65: "logits"}


@dataclass(frozen=True)
class CircuitData(FigureData):
    senders: list[str]
    roles: list[str]
    receivers: list[str]
    at: list[str]
    effect: np.ndarray  # (paths, types): accuracy lost without the path, by the number of variables; NaN if absent
    direct: np.ndarray  # (senders, types): what embedding, layer 1, layer 2 and MLP2 add to the right answer's logit


def circuit_data(effects: Mapping[int, Mapping[Path, float]], direct: Mapping[int, Mapping[str, float]]) -> CircuitData:
    every_path = set().union(*effects.values())  # sums with fewer variables have fewer paths
    paths = sorted(every_path, key=lambda path: (path.sender, path.role, path.receiver, path.at))
    effect = np.array([[of_type.get(path, np.nan) for of_type in effects.values()] for path in paths])
    senders = (EMBEDDING, LAYER_1, LAYER_2, MLP2)
    logits = np.array([[of_type[sender] for of_type in direct.values()] for sender in senders])
    return CircuitData(
        [path.sender for path in paths],
        [path.role for path in paths],
        [path.receiver for path in paths],
        [path.at for path in paths],
        effect,
        logits,
    )


def circuit_caption(data: CircuitData) -> str:
    """The number of paths that matter, and the three that matter most, in words."""
    effect = np.nan_to_num(data.effect[:, min(SHOWN_VARS, data.effect.shape[1] - 1)])
    largest = [
        f"from {data.roles[i]} ({data.senders[i]}) to {data.receivers[i]} ({effect[i]:.2f})"
        for i in np.argsort(-np.abs(effect), kind="stable")[:3]
    ]
    drawn = int((np.abs(effect) >= LEAST).sum())
    return f"Here {drawn} of {len(effect)} paths are drawn; the largest effects are those {', '.join(largest)}."


def draw_circuit(data: CircuitData, axes: Axes) -> None:
    shown = min(SHOWN_VARS, data.effect.shape[1] - 1)
    arrows = [
        _Arrow(_place(sender, role), _place(receiver, at), float(effect), COLOURS[receiver])
        for sender, role, receiver, at, effect in zip(
            data.senders, data.roles, data.receivers, data.at, data.effect[:, shown], strict=True
        )
        if np.isfinite(effect) and abs(effect) >= LEAST
    ]
    used = {place for arrow in arrows for place in (arrow.start, arrow.end)}
    for role in TOKEN_ROLES:
        _box(axes, _place(EMBEDDING, role), role, _place(EMBEDDING, role) in used)
        if _place(LAYER_1, role) in used:  # other boxes of this column would stand in the way of arrows past it
            _box(axes, _place(LAYER_1, role), role, on=True)
    for name, place in PORTS.items():
        if name != LAYER_2:
            _box(axes, place, name, on=True)
    _box(axes, PORTS[LAYER_2], "attention\nof =", on=True, height=7.0)
    for arrow, (x, y) in zip(arrows, _label_places(arrows), strict=True):
        patch = FancyArrowPatch(
            *arrow.points(np.array([0.0, 1.0])), arrowstyle="-|>,head_length=3.2,head_width=1.6", color=arrow.color,
            linewidth=0.6 + 3.2 * abs(arrow.effect), alpha=0.85, shrinkA=0, shrinkB=0, zorder=2,
        )  # fmt: skip
        axes.add_patch(patch)
        label: Any = {"bbox": {"facecolor": "white", "edgecolor": "none", "pad": 0.6, "alpha": 0.85}, "zorder": 5}
        axes.text(x, y, f"{arrow.effect:.2f}", ha="center", va="center", fontsize=6.5, color=arrow.color, **label)
    for x, title in TITLES.items():
        axes.text(x, -0.95, title, ha="center", va="bottom", fontsize=7.5, fontweight="bold")
    total, mlp = data.direct[:, shown].sum(), data.direct[-1, shown]
    share = f"MLP2 writes {mlp / total:.1%} of the\nright answer's logit itself"
    axes.text(3.8, 8.0, share, ha="right", va="center", fontsize=7)
    axes.set(xlim=(-0.32, 3.85), ylim=(8.9, -1.3), xticks=[], yticks=[])
    axes.set_axis_off()


def _place(component: str, role: str) -> tuple[float, float]:
    """The place of a component: embeddings and layer 1 are columns with a row for each role."""
    return PORTS[component] if component in PORTS else (float(component == LAYER_1), float(ORDER.index(role)))


def _half(x: float) -> float:
    """Half the width of a box in this column."""
    return 0.25 if x < 1.5 else 0.15


def _box(axes: Axes, place: tuple[float, float], text: str, on: bool, height: float = 0.6) -> None:
    (x, y), half = place, _half(place[0])
    face, edge, width = ("white", INK, 0.9) if on else (PALE, GREY, 0.5)
    patch = FancyBboxPatch(
        (x - half, y - height / 2), 2 * half, height, boxstyle="round,pad=0.02,rounding_size=0.06",
        facecolor=face, edgecolor=edge, linewidth=width, zorder=3,
    )  # fmt: skip
    axes.add_patch(patch)
    axes.text(x, y, text, ha="center", va="center", fontsize=6.8, color=INK if on else GREY, zorder=4)


@dataclass(frozen=True)
class _Arrow:
    start: tuple[float, float]
    end: tuple[float, float]
    effect: float
    color: str

    def points(self, shares: np.ndarray) -> np.ndarray:
        """(n, 2): points between the edges of its two boxes, at these shares of the way."""
        tail = self.start[0] + _half(self.start[0]) + 0.02
        head = self.end[0] - _half(self.end[0]) - 0.02
        x, y = tail + shares * (head - tail), self.start[1] + shares * (self.end[1] - self.start[1])
        return np.stack([x, y], axis=1)


ASPECT = 4.0  # a unit of x is as long on paper as so many of y
HALF_LABEL = 0.13  # width of a number, in units of x


def _label_places(arrows: Sequence[_Arrow]) -> list[np.ndarray]:
    """A place on each arrow for its number, as far as possible from other arrows and from numbers placed before."""
    scale = np.array([ASPECT, 1.0])
    lines = [arrow.points(np.linspace(0, 1, 60)) for arrow in arrows]
    placed: list[np.ndarray] = []
    for i, arrow in enumerate(arrows):
        half = HALF_LABEL / float(np.ptp(lines[i][:, 0]))  # as a share of the way
        shares = np.linspace(min(half, 0.4), max(1 - 2 * half, 0.5), 40)  # neither on a box nor on the arrow's head
        candidates = arrow.points(shares)
        other_lines = [line for j, line in enumerate(lines) if j != i]
        nowhere = np.full((1, 2), np.inf)  # in case there is nothing else
        others = np.concatenate([nowhere, *other_lines, *(place[None] for place in placed)])
        apart = np.linalg.norm((candidates[:, None] - others) * scale, axis=-1).min(1)
        placed.append(candidates[int((np.minimum(apart, 0.6) - 0.1 * np.abs(shares - 0.45)).argmax())])
    return placed


GROUPS = {
    "together": "parts together (+: added to section 5's)",
    "kept alone": "one circuit reduced to",
    "removed alone": "one part removed",
}


@dataclass(frozen=True)
class CircuitOnlyData(FigureData):
    groups: list[str]  # one for each row
    names: list[str]
    sets: list[str]
    accuracy: np.ndarray  # (rows, sets)
    relative: np.ndarray  # (rows,): mean accuracy as a part of the network's
    n: int


def circuit_only_data(circuit: CircuitAlone) -> CircuitOnlyData:
    groups = [group for group, _ in circuit.rows]
    names = [name for _, name in circuit.rows]
    relative = np.array([circuit.relative(*row) for row in circuit.rows])
    return CircuitOnlyData(groups, names, circuit.sets, circuit.accuracy, relative, circuit.n)


def circuit_only_caption(data: CircuitOnlyData) -> str:
    """The best combination of parts, and the parts whose removal costs most and least, in words."""

    def named(group: str, best: bool) -> str:
        rows = [i for i, g in enumerate(data.groups) if g == group and data.names[i] != WHOLE]
        chosen = max(rows, key=lambda i: data.relative[i] if best else -data.relative[i])
        return f"'{data.names[chosen]}' ({data.relative[chosen]:.2f})"

    alone = data.relative[data.names.index(SECTION_5)] if SECTION_5 in data.names else np.nan
    return (
        f"As a share of the network's mean accuracy: section 5's parts alone have {alone:.2f}, the best combination is "
        f"{named('together', True)}; removing {named('removed alone', False)} costs most and "
        f"{named('removed alone', True)} least."
    )


def draw_circuit_only(data: CircuitOnlyData, axes: Axes) -> None:
    """A row for each variant, in groups; the last column is its mean as a share of the whole network's."""
    sizes = [len(list(group)) for _, group in groupby(data.groups)]
    starts = np.cumsum([0, *(size + 1 for size in sizes)])[:-1]
    columns = len(data.sets) + 1
    cells = np.full((int(starts[-1]) + sizes[-1], columns), np.nan)
    rows = np.concatenate([start + np.arange(size) for start, size in zip(starts, sizes, strict=True)])
    cells[rows] = np.column_stack([data.accuracy, data.relative])
    draw_heat(axes, cells, SHARES, (0, 1.25))
    words = ["" if np.isnan(value) else f"{value:.2f}" for value in cells.flat]
    for mean in write_cells(axes, words, cells > DARK_FROM)[columns - 1 :: columns]:
        mean.set_fontweight("bold")
    axes.axvline(columns - 1.5, color="white", linewidth=3)
    axes.set_yticks(rows, data.names)
    names = [fill(LABELS[name], 16) for name in data.sets]
    axes.set_xticks(range(columns), [*names, "mean, of the\nnetwork's"], rotation=90)
    axes.xaxis.tick_top()
    for start, (group, _) in zip(starts, groupby(data.groups), strict=True):
        axes.annotate(
            GROUPS[group], (0, start - 0.62), xycoords=("axes fraction", "data"), xytext=(-4, 0),
            textcoords="offset points", ha="right", va="bottom", fontweight="bold", fontsize=7, annotation_clip=False,
        )  # fmt: skip


CIRCUIT_FIGURE = FigureRecord(
    "circuit", "The whole circuit, path by path",
    "How much accuracy on sums with one variable is lost when a single path carries its mean over tokens of the "
    "same role. The wider an arrow, the more is lost; effects below .03 are not drawn, and embeddings without "
    "a drawn path are pale.",
    lambda s: circuit_data(path_effects(s.model), direct_logits(s.model)), on_axes(draw_circuit), height=4.4,
    width=7.0, found=circuit_caption,
)  # fmt: skip
CIRCUIT_ONLY_FIGURE = FigureRecord(
    "circuit_only", "The circuit alone",
    "Accuracy with the parts of section 5 and nothing else, and with blocks of QK2 added that find literal "
    "operands: those of section 7, requested by the last position alone or by the token `=` and its position "
    "(=), and what numbers that layer 1 copies into `=` request. Below, with one circuit reduced to its named "
    "part, and with one part removed. A pale cell in the first two groups lacks something that the network uses; "
    "a dark row in the last group is a part that it can do without.",
    lambda s: circuit_only_data(circuit_alone_of(s.model)), on_axes(draw_circuit_only), height=6.6, width=6.4,
    found=circuit_only_caption,
)  # fmt: skip
