"""Figures `circuit`, `circuit_only` and `interchange` (ours): what each path, the named parts and activations do."""

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
from assignadd.figure.style import DARK_FROM, draw_heat, write_cells
from assignadd.palette import BLUE, GREEN, GREY, INK, ORANGE, PALE, PURPLE, SHARES, VERMILION
from assignadd.paper.causes.circuit import REMOVED, SECTION_5, WHOLE, CircuitAlone, circuit_alone_of
from assignadd.paper.causes.interchange import Outcome, elsewhere_of, interchange_of, untrained_interchange
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
    path_answers,
)
from assignadd.stats import wilson
from assignadd.task.evalsets import LABELS

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
    effect: np.ndarray  # (paths,): accuracy lost without the path


def circuit_data(effects: Mapping[Path, float]) -> CircuitData:
    """The data of figure `circuit`, from the accuracy that is lost without each path."""
    paths = sorted(effects, key=lambda path: (path.sender, path.role, path.receiver, path.at))
    return CircuitData(
        [path.sender for path in paths],
        [path.role for path in paths],
        [path.receiver for path in paths],
        [path.at for path in paths],
        np.array([effects[path] for path in paths]),
    )


def circuit_caption(data: CircuitData) -> str:
    """The number of paths that matter, and the three that matter most, in words."""
    largest = [
        f"from {data.roles[i]} ({data.senders[i]}) to {data.receivers[i]} ({data.effect[i]:.2f})"
        for i in np.argsort(-np.abs(data.effect), kind="stable")[:3]
    ]
    drawn = int((np.abs(data.effect) >= LEAST).sum())
    return f"Here {drawn} of {len(data.effect)} paths are drawn; the largest effects are those {', '.join(largest)}."


def draw_circuit(data: CircuitData, axes: Axes) -> None:
    """Draws figure `circuit`: a box for each component, and an arrow for each path with a visible effect."""
    arrows = [
        _Arrow(_place(sender, role), _place(receiver, at), float(effect), COLOURS[receiver])
        for sender, role, receiver, at, effect in zip(
            data.senders, data.roles, data.receivers, data.at, data.effect, strict=True
        )
        if abs(effect) >= LEAST
    ]
    connected = {place for arrow in arrows for place in (arrow.start, arrow.end)}
    for role in TOKEN_ROLES:
        _draw_box(axes, _place(EMBEDDING, role), role, _place(EMBEDDING, role) in connected)
        if _place(LAYER_1, role) in connected:  # other boxes of this column would stand in the way of arrows past it
            _draw_box(axes, _place(LAYER_1, role), role, connected=True)
    for name, place in PORTS.items():
        if name != LAYER_2:
            _draw_box(axes, place, name, connected=True)
    _draw_box(axes, PORTS[LAYER_2], "attention\nof =", connected=True, height=7.0)
    for arrow, (x, y) in zip(arrows, _label_places(arrows), strict=True):
        _draw_arrow(axes, arrow)
        label: Any = {"bbox": {"facecolor": "white", "edgecolor": "none", "pad": 0.6, "alpha": 0.85}, "zorder": 5}
        axes.text(x, y, f"{arrow.effect:.2f}", ha="center", va="center", fontsize=6.5, color=arrow.color, **label)
    for x, title in TITLES.items():
        axes.text(x, -0.95, title, ha="center", va="bottom", fontsize=7.5, fontweight="bold")
    axes.set(xlim=(-0.32, 3.85), ylim=(8.9, -1.3), xticks=[], yticks=[])
    axes.set_axis_off()


def _place(component: str, role: str) -> tuple[float, float]:
    """The place of a component: embeddings and layer 1 are columns with a row for each role."""
    return PORTS[component] if component in PORTS else (float(component == LAYER_1), float(ORDER.index(role)))


def _half_width(x: float) -> float:
    """Half the width of a box in this column."""
    return 0.25 if x < 1.5 else 0.15


def _draw_box(axes: Axes, place: tuple[float, float], text: str, connected: bool, height: float = 0.6) -> None:
    """Draws the box of a component; pale if no arrow is drawn to or from it."""
    x, y = place
    half = _half_width(x)
    face, edge, width = ("white", INK, 0.9) if connected else (PALE, GREY, 0.5)
    patch = FancyBboxPatch(
        (x - half, y - height / 2), 2 * half, height, boxstyle="round,pad=0.02,rounding_size=0.06",
        facecolor=face, edgecolor=edge, linewidth=width, zorder=3,
    )  # fmt: skip
    axes.add_patch(patch)
    axes.text(x, y, text, ha="center", va="center", fontsize=6.8, color=INK if connected else GREY, zorder=4)


@dataclass(frozen=True)
class _Arrow:
    start: tuple[float, float]
    end: tuple[float, float]
    effect: float
    color: str

    def points(self, shares: np.ndarray) -> np.ndarray:
        """(n, 2): points between the edges of its two boxes, at these shares of the way."""
        tail = self.start[0] + _half_width(self.start[0]) + 0.02
        head = self.end[0] - _half_width(self.end[0]) - 0.02
        x = tail + shares * (head - tail)
        y = self.start[1] + shares * (self.end[1] - self.start[1])
        return np.stack([x, y], axis=1)


def _draw_arrow(axes: Axes, arrow: _Arrow) -> None:
    """Draws an arrow, the wider the larger its effect."""
    tail, head = arrow.points(np.array([0.0, 1.0]))
    patch = FancyArrowPatch(
        tail, head, arrowstyle="-|>,head_length=3.2,head_width=1.6", color=arrow.color,
        linewidth=0.6 + 3.2 * abs(arrow.effect), alpha=0.85, shrinkA=0, shrinkB=0, zorder=2,
    )  # fmt: skip
    axes.add_patch(patch)


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
        obstacles = np.concatenate([nowhere, *other_lines, *(place[None] for place in placed)])
        apart = np.linalg.norm((candidates[:, None] - obstacles) * scale, axis=-1).min(1)
        placed.append(candidates[int((np.minimum(apart, 0.6) - 0.1 * np.abs(shares - 0.45)).argmax())])
    return placed


KEPT_GROUP, REMOVED_GROUP = "parts together (+: added to section 5's)", "one part removed"


@dataclass(frozen=True)
class CircuitOnlyData(FigureData):
    groups: list[str]  # one for each row
    names: list[str]
    sets: list[str]
    accuracy: np.ndarray  # (rows, sets)
    relative: np.ndarray  # (rows,): mean accuracy as a part of the network's
    n: int


def circuit_only_data(circuit: CircuitAlone) -> CircuitOnlyData:
    """The data of figure `circuit_only`, from the answers with parts kept and removed."""
    groups = [REMOVED_GROUP if name in REMOVED else KEPT_GROUP for name in circuit.names]
    accuracy = np.stack([circuit.accuracy(name) for name in circuit.names])
    relative = np.array([circuit.relative(name) for name in circuit.names])
    return CircuitOnlyData(groups, circuit.names, circuit.sets, accuracy, relative, circuit.n)


def circuit_only_caption(data: CircuitOnlyData) -> str:
    """The best combination of parts, and the parts whose removal costs most and least, in words."""
    relative = dict(zip(data.names, data.relative, strict=True))
    in_words = {name: f"'{name}' ({share:.2f})" for name, share in relative.items()}
    combinations = [name for name in data.names if name not in REMOVED and name != WHOLE]
    removed = [name for name in data.names if name in REMOVED]
    return (
        f"As a share of the network's mean accuracy: section 5's parts alone have {relative[SECTION_5]:.2f}, the best "
        f"combination is {in_words[max(combinations, key=relative.__getitem__)]}; removing "
        f"{in_words[min(removed, key=relative.__getitem__)]} costs most and "
        f"{in_words[max(removed, key=relative.__getitem__)]} least."
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
            group, (0, start - 0.62), xycoords=("axes fraction", "data"), xytext=(-4, 0),
            textcoords="offset points", ha="right", va="bottom", fontweight="bold", fontsize=7, annotation_clip=False,
        )  # fmt: skip


# By what is exchanged: the marker and the words in the legend.
EXCHANGED: dict[str, dict[str, Any]] = {
    "whole": {"color": BLUE, "marker": "o", "label": "the activation"},
    "elsewhere": {"color": ORANGE, "marker": "X", "label": "another activation"},
    "untrained": {"color": VERMILION, "marker": "v", "label": "untrained network"},
}


@dataclass(frozen=True)
class InterchangeData(FigureData):
    alignments: list[str]  # one for each row; queries by the number of variables in the sum
    exchanged: list[str]
    accuracy: np.ndarray  # (alignments, exchanged)
    low: np.ndarray  # 95 % Wilson interval
    high: np.ndarray
    n: np.ndarray  # (alignments,): pairs of prompts


def interchange_data(
    whole: Mapping[str, Outcome], elsewhere: Mapping[str, Outcome], untrained: Mapping[str, Outcome]
) -> InterchangeData:
    """The data of figure `interchange`, from the outcomes of what is exchanged."""
    columns = [_split_queries(outcomes) for outcomes in (whole, elsewhere, untrained)]
    names = [name for name, outcome in columns[0].items() if outcome.n]
    n = np.array([columns[0][name].n for name in names])
    counts = np.array([[column[name].count for column in columns] for name in names])
    low, high = np.zeros(counts.shape), np.zeros(counts.shape)
    for (row, column), count in np.ndenumerate(counts):
        interval = wilson(count, int(n[row]))
        low[row, column] = interval.low
        high[row, column] = interval.high
    return InterchangeData(names, list(EXCHANGED), counts / n[:, None], low, high, n)


def _split_queries(outcomes: Mapping[str, Outcome]) -> dict[str, Outcome]:
    """The alignments by the name of their row: those of queries have a row for each number of variables."""
    rows: dict[str, Outcome] = {}
    for name, outcome in outcomes.items():
        if "query" in name:  # a literal beside the variable makes a difference
            rows[f"{name}, 1 variable"] = outcome.with_variables(1)
            rows[f"{name}, 2 variables"] = outcome.with_variables(2)
        else:
            rows[name] = outcome
    return rows


def interchange_caption(data: InterchangeData) -> str:
    """The lowest accuracy with the activation and the highest of a control, in words."""
    whole = data.accuracy[:, 0]
    lowest = int(whole.argmin())
    return (
        f"Here the activation reaches {whole.max():.2f} at best and {whole[lowest]:.2f} at worst "
        f"({data.alignments[lowest]}); no control is above {data.accuracy[:, 1:].max():.2f}."
    )


def draw_interchange(data: InterchangeData, axes: Axes) -> None:
    """Draws figure `interchange`: a row of markers for each alignment."""
    y = np.arange(len(data.alignments))
    for i, name in enumerate(data.exchanged):
        accuracy = data.accuracy[:, i]
        errors = np.stack([accuracy - data.low[:, i], data.high[:, i] - accuracy]).clip(0)
        look = EXCHANGED[name]
        axes.errorbar(accuracy, y + 0.13 * (i - 1), xerr=errors, linestyle="none", markersize=4, elinewidth=0.9, **look)
    axes.set_yticks(y, [f"{a}\n({n:,} pairs)" for a, n in zip(data.alignments, data.n, strict=True)])
    axes.set(xlim=(-0.03, 1.03), ylim=(len(y) - 0.5, -0.5), xlabel="interchange accuracy")
    axes.legend(loc="upper center", bbox_to_anchor=(0.4, -0.14), ncols=3, handletextpad=0.3, columnspacing=1.0)


CIRCUIT_FIGURE = FigureRecord(
    "circuit", "The whole circuit, path by path",
    "How much accuracy on sums with one variable is lost when a single path carries its mean over tokens of the "
    "same role. The wider an arrow, the more is lost; effects below .03 are not drawn, and embeddings without "
    "a drawn path are pale.",
    lambda s: circuit_data(path_answers(s.model).effects), on_axes(draw_circuit), height=4.4,
    width=7.0, found=circuit_caption,
)  # fmt: skip
CIRCUIT_ONLY_FIGURE = FigureRecord(
    "circuit_only", "The circuit alone",
    "Accuracy with the parts of section 5 and nothing else, and with the block of QK2 added that finds literal "
    "operands (section 7), requested by the last position alone or by the token `=` and its position. Below, with "
    "one part removed. A pale cell in the first group lacks something that the network uses; a dark row in the last "
    "group is a part that it can do without.",
    lambda s: circuit_only_data(circuit_alone_of(s.model)), on_axes(draw_circuit_only), height=4.2, width=6.4,
    found=circuit_only_caption,
)  # fmt: skip
INTERCHANGE_FIGURE = FigureRecord(
    "interchange", "Where the program's variables are held",
    "An activation is taken from another prompt: the share of pairs of prompts whose answer becomes what the program "
    "says, 1 where the activation holds the variable, about 0 where it does not (the controls).",
    lambda s: interchange_data(interchange_of(s.model), elsewhere_of(s.model), untrained_interchange(s.model)),
    on_axes(draw_interchange), height=4.4, found=interchange_caption,
)  # fmt: skip
