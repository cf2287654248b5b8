"""Figures `circuit_only` and `interchange` (ours): what the parts of the circuit that the paper names do, and what its
activations hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from assignadd.figure.record import FigureData, FigureRecord, on_axes
from assignadd.figure.style import DARK_FROM, draw_heat, write_cells
from assignadd.palette import BLUE, ORANGE, SHARES, VERMILION
from assignadd.paper.causes.circuit import REMOVED, CircuitAlone, circuit_alone_of
from assignadd.paper.causes.interchange import Outcome, controls_of, interchange_of
from assignadd.stats import Measured
from assignadd.task.evalsets import LABELS

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


def draw_circuit_only(data: CircuitOnlyData, axes: Axes) -> None:
    """Draws a row for each variant, in groups; the last column is its mean as a share of the whole network's."""
    is_first = [i == 0 or group != data.groups[i - 1] for i, group in enumerate(data.groups)]
    rows = np.arange(len(data.names)) + np.cumsum(is_first) - 1  # of the drawing: one is empty between groups
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
        place = (0, row - 0.62)  # just above the group's first row
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
    rows = []  # (alignments, exchanged, 3): accuracy, and the ends of its interval
    for name in names:
        shares = [Measured.share(column[name].count, column[name].n, "pairs") for column in columns]
        rows.append([(share.value, share.low, share.high) for share in shares])
    accuracy, low, high = np.moveaxis(np.array(rows), -1, 0)
    n = np.array([columns[0][name].n for name in names])
    return InterchangeData(names, list(EXCHANGED), accuracy, low, high, n)


def _split_queries(outcomes: Mapping[str, Outcome]) -> dict[str, Outcome]:
    """The outcomes of alignments by the label of their row: that of a query has two, by the number of variables."""
    rows: dict[str, Outcome] = {}
    for name, outcome in outcomes.items():
        if "query" in name:
            rows[f"{name}, 1 variable"] = outcome.with_variables(1)
            rows[f"{name}, 2 variables"] = outcome.with_variables(2)
        else:
            rows[name] = outcome
    return rows


def draw_interchange(data: InterchangeData, axes: Axes) -> None:
    """Draws a row for each alignment: its accuracy with each kind of exchange, and the interval."""
    y = np.arange(len(data.alignments))
    for i, name in enumerate(data.exchanged):
        accuracy = data.accuracy[:, i]
        errors = np.stack([accuracy - data.low[:, i], data.high[:, i] - accuracy]).clip(0)
        look = EXCHANGED[name]
        offset = 0.22 * (i - 1)  # the three kinds stand around the middle of a row
        axes.errorbar(accuracy, y + offset, xerr=errors, linestyle="none", markersize=4, elinewidth=0.9, **look)
    labels = [f"{alignment}\n({n:,} pairs)" for alignment, n in zip(data.alignments, data.n, strict=True)]
    axes.set_yticks(y, labels)
    axes.set(xlim=(-0.03, 1.03), ylim=(len(y) - 0.5, -0.5), xlabel="interchange accuracy")
    axes.legend(loc="upper center", bbox_to_anchor=(0.4, -0.14), ncols=3, handletextpad=0.3, columnspacing=1.0)


CIRCUIT_ONLY_FIGURE = FigureRecord(
    "circuit_only", "The circuit alone",
    "Accuracy with the parts of section 5 and nothing else, and with the block of QK2 added that finds literal "
    "operands (section 7), requested by the last position alone or by the token `=` and its position. Below, with "
    "one part removed. A pale cell in the first group lacks something that the network uses; a dark row in the last "
    "group is a part that it can do without.",
    lambda s: circuit_only_data(circuit_alone_of(s.model)), on_axes(draw_circuit_only), height=4.2, width=6.4,
)  # fmt: skip
INTERCHANGE_FIGURE = FigureRecord(
    "interchange", "Where the program's variables are held",
    "An activation is taken from another prompt: the share of pairs of prompts whose answer becomes what the program "
    "says, 1 where the activation holds the variable, about 0 where it does not (the controls).",
    lambda s: interchange_data(interchange_of(s.model), *controls_of(s.model)),
    on_axes(draw_interchange), height=4.4,
)  # fmt: skip
