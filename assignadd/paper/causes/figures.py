"""Figures `circuit`, `circuit_only` and `interchange` (ours): what each path, the named parts and activations do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from assignadd.paper.causes.paths import (
    EMBEDDING,
    KEY,
    LAYER_1,
    LAYER_2,
    LOGITS,
    MLP2,
    QUERY,
    VALUE,
    Path,
    path_answers,
)
from assignadd.stats import wilson
from assignadd.task.evalsets import LABELS

LEAST = 0.03  # of the accuracy: smaller effects are not drawn
# Of arrows, by their receivers.
COLOURS = {LAYER_1: BLUE, QUERY: VERMILION, KEY: GREEN, VALUE: PURPLE, MLP2: INK, LOGITS: INK}
# The roles of tokens, from the top of a column to its bottom.
ORDER = ("other variable", "other number", "operand variable", "operand number", "PAD", "+", "first", "second", "=")
# Where the components stand that have no row for each role, and where arrows to layer 2 end: (x, y), y downwards.
PORTS = {
    QUERY: (1.95, 7.6), KEY: (1.95, 1.6), VALUE: (1.95, 5.2), LAYER_2: (2.32, 4.6), MLP2: (3.0, 4.6),
    LOGITS: (3.65, 4.6),
}  # fmt: skip
# The titles of the columns, by their x.
TITLES = {0.0: "embeddings, by role", 1.0: "layer 1's output", 2.13: "layer 2", 3.0: "MLP2", 3.65: "logits"}


@dataclass(frozen=True)
class CircuitData(FigureData):
    senders: list[str]
    roles: list[str]
    receivers: list[str]
    at: list[str]
    effect: np.ndarray  # (paths,): accuracy lost without the path


def circuit_data(effects: Mapping[Path, float]) -> CircuitData:
    """The paths in a fixed order with the accuracy that is lost without each."""
    paths = sorted(effects, key=lambda path: (path.sender, path.role, path.receiver, path.at))
    return CircuitData(
        senders=[path.sender for path in paths],
        roles=[path.role for path in paths],
        receivers=[path.receiver for path in paths],
        at=[path.at for path in paths],
        effect=np.array([effects[path] for path in paths]),
    )


def circuit_caption(data: CircuitData) -> str:
    """The number of paths that are drawn, and the three with the largest effects, in words."""
    sizes = np.abs(data.effect)
    n_drawn = int((sizes >= LEAST).sum())
    largest = []
    for i in np.argsort(-sizes, kind="stable")[:3]:
        largest.append(f"from {data.roles[i]} ({data.senders[i]}) to {data.receivers[i]} ({data.effect[i]:.2f})")
    return f"Here {n_drawn} of {len(data.effect)} paths are drawn; the largest effects are those {', '.join(largest)}."


def draw_circuit(data: CircuitData, axes: Axes) -> None:
    """Draws a box for each component, and an arrow with its number for each path with a visible effect."""
    paths = zip(data.senders, data.roles, data.receivers, data.at, data.effect.tolist(), strict=True)
    arrows = []
    for sender, role, receiver, at, effect in paths:
        if abs(effect) >= LEAST:
            arrows.append(_Arrow(_place(sender, role), _place(receiver, at), effect, COLOURS[receiver]))
    connected = {arrow.start for arrow in arrows} | {arrow.end for arrow in arrows}
    for role in ORDER:
        embedding, layer_1 = _place(EMBEDDING, role), _place(LAYER_1, role)
        _draw_box(axes, embedding, role, connected=embedding in connected)
        if layer_1 in connected:  # other boxes of this column would stand in the way of arrows past it
            _draw_box(axes, layer_1, role)
    for name, place in PORTS.items():
        if name == LAYER_2:
            _draw_box(axes, place, "attention\nof =", height=7.0)
        else:
            _draw_box(axes, place, name)
    for arrow, (x, y) in zip(arrows, _label_places(arrows), strict=True):
        tail, head = arrow.points(np.array([0.0, 1.0]))
        line: Any = {"linewidth": 0.6 + 3.2 * abs(arrow.effect), "alpha": 0.85, "shrinkA": 0, "shrinkB": 0, "zorder": 2}
        tip = "-|>,head_length=3.2,head_width=1.6"
        axes.add_patch(FancyArrowPatch(tail, head, arrowstyle=tip, color=arrow.color, **line))
        label: Any = {"bbox": {"facecolor": "white", "edgecolor": "none", "pad": 0.6, "alpha": 0.85}, "zorder": 5}
        axes.text(x, y, f"{arrow.effect:.2f}", ha="center", va="center", fontsize=6.5, color=arrow.color, **label)
    for x, title in TITLES.items():
        axes.text(x, -0.95, title, ha="center", va="bottom", fontsize=7.5, fontweight="bold")
    axes.set(xlim=(-0.32, 3.85), ylim=(8.9, -1.3), xticks=[], yticks=[])
    axes.set_axis_off()


def _place(component: str, role: str) -> tuple[float, float]:
    """The place (x, y) of a component: embeddings and layer 1 are the columns 0 and 1, with a row for each role."""
    if component in PORTS:
        return PORTS[component]
    return (1.0 if component == LAYER_1 else 0.0), float(ORDER.index(role))


def _half_width(x: float) -> float:
    """Half the width of a box in the column at x; those of embeddings and layer 1, at 0 and 1, have long words."""
    return 0.25 if x < 1.5 else 0.15


def _draw_box(axes: Axes, place: tuple[float, float], text: str, connected: bool = True, height: float = 0.6) -> None:
    """Draws the box of a component; pale if no arrow is drawn to or from it."""
    x, y = place
    corner, width = (x - _half_width(x), y - height / 2), 2 * _half_width(x)
    face, edge, linewidth = ("white", INK, 0.9) if connected else (PALE, GREY, 0.5)
    look: Any = {"facecolor": face, "edgecolor": edge, "linewidth": linewidth, "zorder": 3}
    axes.add_patch(FancyBboxPatch(corner, width, height, boxstyle="round,pad=0.02,rounding_size=0.06", **look))
    axes.text(x, y, text, ha="center", va="center", fontsize=6.8, color=INK if connected else GREY, zorder=4)


@dataclass(frozen=True)
class _Arrow:
    start: tuple[float, float]  # (x, y) of the middle of a box
    end: tuple[float, float]
    effect: float
    color: str

    def points(self, shares: np.ndarray) -> np.ndarray:
        """The points at these shares of the way from the edge of the first box to that of the second, (n, 2)."""
        start_x, start_y = self.start
        end_x, end_y = self.end
        tail = np.array([start_x + _half_width(start_x) + 0.02, start_y])
        head = np.array([end_x - _half_width(end_x) - 0.02, end_y])
        return tail + shares[:, None] * (head - tail)


ASPECT = 4.0  # a unit of x is as long on paper as this many units of y
HALF_LABEL = 0.13  # half the width of a number, in units of x


def _label_places(arrows: Sequence[_Arrow]) -> list[np.ndarray]:
    """A place (x, y) on each arrow for its number, far from other arrows and from numbers placed before."""
    lines = [arrow.points(np.linspace(0, 1, 60)) for arrow in arrows]  # (60, 2) each
    placed: list[np.ndarray] = []
    for i, arrow in enumerate(arrows):
        half_label = HALF_LABEL / float(np.ptp(lines[i][:, 0]))  # as a share of the way
        # Neither on a box nor on the arrow's head; on a short arrow around its middle.
        shares = np.linspace(min(half_label, 0.4), max(1 - 2 * half_label, 0.5), 40)
        candidates = arrow.points(shares)  # (40, 2)
        nowhere = np.full((1, 2), np.inf)  # in case there is nothing else
        obstacles = np.concatenate([nowhere, *lines[:i], *lines[i + 1 :], *(place[None] for place in placed)])
        distances = np.linalg.norm((candidates[:, None] - obstacles) * (ASPECT, 1.0), axis=-1).min(1)
        # A distance of 0.6 is enough; among places with that, the one nearest to the middle of the arrow.
        score = np.minimum(distances, 0.6) - 0.1 * np.abs(shares - 0.45)
        placed.append(candidates[int(score.argmax())])
    return placed


KEPT_GROUP, REMOVED_GROUP = "parts together (+: added to section 5's)", "one part removed"


@dataclass(frozen=True)
class CircuitOnlyData(FigureData):
    groups: list[str]  # one for each row
    names: list[str]
    sets: list[str]
    accuracy: np.ndarray  # (rows, sets)
    relative: np.ndarray  # (rows,): mean accuracy divided by the whole network's
    n: int


def circuit_only_data(circuit: CircuitAlone) -> CircuitOnlyData:
    """The accuracy of every variant of the circuit on every set, and its mean divided by the whole network's."""
    groups = [REMOVED_GROUP if name in REMOVED else KEPT_GROUP for name in circuit.names]
    accuracy = np.stack([circuit.accuracy(name) for name in circuit.names])
    relative = np.array([circuit.relative(name) for name in circuit.names])
    return CircuitOnlyData(groups, circuit.names, circuit.sets, accuracy, relative, circuit.n)


def circuit_only_caption(data: CircuitOnlyData) -> str:
    """The best combination of parts, and the parts whose removal costs most and least, in words."""
    relative = dict(zip(data.names, data.relative, strict=True))
    combinations = [name for name in data.names if name not in REMOVED and name != WHOLE]
    removed = [name for name in data.names if name in REMOVED]
    best = max(combinations, key=lambda name: relative[name])
    costs_most = min(removed, key=lambda name: relative[name])
    costs_least = max(removed, key=lambda name: relative[name])
    return (
        f"As a share of the network's mean accuracy: section 5's parts alone have {relative[SECTION_5]:.2f}, the best "
        f"combination is '{best}' ({relative[best]:.2f}); removing '{costs_most}' ({relative[costs_most]:.2f}) costs "
        f"most and '{costs_least}' ({relative[costs_least]:.2f}) least."
    )


def draw_circuit_only(data: CircuitOnlyData, axes: Axes) -> None:
    """Draws a row for each variant, in groups; the last column is its mean as a share of the whole network's."""
    is_first = [i == 0 or group != data.groups[i - 1] for i, group in enumerate(data.groups)]
    rows = np.arange(len(data.names)) + np.cumsum(is_first) - 1  # where variants are drawn: a row is left out per group
    n_columns = len(data.sets) + 1
    cells = np.full((rows[-1] + 1, n_columns), np.nan)
    cells[rows] = np.column_stack([data.accuracy, data.relative])
    draw_heat(axes, cells, SHARES, (0, 1.25))
    words = ["" if np.isnan(value) else f"{value:.2f}" for value in cells.flat]
    texts = write_cells(axes, words, cells > DARK_FROM)  # row by row
    for mean in texts[n_columns - 1 :: n_columns]:
        mean.set_fontweight("bold")
    axes.axvline(n_columns - 1.5, color="white", linewidth=3)
    axes.set_yticks(rows, data.names)
    names = [fill(LABELS[name], 16) for name in data.sets]
    axes.set_xticks(range(n_columns), [*names, "mean, of the\nnetwork's"], rotation=90)
    axes.xaxis.tick_top()
    title: Any = {"ha": "right", "va": "bottom", "fontweight": "bold", "fontsize": 7, "annotation_clip": False}
    for row, group in zip(rows[is_first], np.array(data.groups)[is_first], strict=True):
        place = (0, row - 0.62)
        axes.annotate(group, place, (-4, 0), ("axes fraction", "data"), textcoords="offset points", **title)


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
    """The accuracies of the three kinds of exchange in `EXCHANGED`."""
    columns = [_split_queries(outcomes) for outcomes in (whole, elsewhere, untrained)]
    names = [name for name, outcome in columns[0].items() if outcome.n > 0]
    n = np.array([columns[0][name].n for name in names])  # (alignments,)
    intervals = [[wilson(column[name].count, column[name].n) for column in columns] for name in names]
    return InterchangeData(
        alignments=names,
        exchanged=list(EXCHANGED),
        accuracy=np.array([[column[name].accuracy for column in columns] for name in names]),
        low=np.array([[interval.low for interval in row] for row in intervals]),
        high=np.array([[interval.high for interval in row] for row in intervals]),
        n=n,
    )


def _split_queries(outcomes: Mapping[str, Outcome]) -> dict[str, Outcome]:
    """The outcomes of alignments (by name) by the label of their row in the figure.

    An alignment with a query has two rows, since its outcome depends on whether the other operand is a variable too.
    """
    rows: dict[str, Outcome] = {}
    for name, outcome in outcomes.items():
        if "query" in name:
            rows[f"{name}, 1 variable"] = outcome.with_variables(1)
            rows[f"{name}, 2 variables"] = outcome.with_variables(2)
        else:
            rows[name] = outcome
    return rows


def interchange_caption(data: InterchangeData) -> str:
    """The highest and the lowest accuracy with the activation, and the highest of a control, in words."""
    whole = data.accuracy[:, 0]  # the other columns are the controls
    lowest = int(whole.argmin())
    return (
        f"Here the activation reaches {whole.max():.2f} at best and {whole[lowest]:.2f} at worst "
        f"({data.alignments[lowest]}); no control is above {data.accuracy[:, 1:].max():.2f}."
    )


def draw_interchange(data: InterchangeData, axes: Axes) -> None:
    """Draws a row for each alignment: its accuracy with each kind of exchange, and the interval."""
    y = np.arange(len(data.alignments))
    for i, name in enumerate(data.exchanged):
        accuracy = data.accuracy[:, i]
        errors = np.stack([accuracy - data.low[:, i], data.high[:, i] - accuracy]).clip(0)
        look = EXCHANGED[name]
        axes.errorbar(accuracy, y + 0.22 * (i - 1), xerr=errors, linestyle="none", markersize=4, elinewidth=0.9, **look)
    labels = [f"{alignment}\n({n:,} pairs)" for alignment, n in zip(data.alignments, data.n, strict=True)]
    axes.set_yticks(y, labels)
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
