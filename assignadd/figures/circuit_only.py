"""Figure `circuit_only` (ours): accuracy on the nine sets with the paper's parts together, kept one by one and removed one by one."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from textwrap import wrap

import numpy as np
from matplotlib.axes import Axes

from assignadd.figures.arrays import FigureData
from assignadd.figures.heat import draw_heat
from assignadd.interventions.circuit import CircuitAlone
from assignadd.palette import INK, SHARES
from assignadd.task.evalsets import LABELS

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


def circuit_only_data(found: CircuitAlone) -> CircuitOnlyData:
    groups, names = (list(part) for part in zip(*found.rows, strict=True))
    return CircuitOnlyData(
        groups, names, found.sets, found.accuracy, np.array([found.relative(*row) for row in found.rows]), found.n
    )


def draw_circuit_only(data: CircuitOnlyData, axes: Axes) -> None:
    """A row for each variant; the last column is its mean as a part of the network's, a gap between the groups."""
    sizes = [len(list(group)) for _, group in groupby(data.groups)]
    starts = np.cumsum([0, *(size + 1 for size in sizes)])[:-1]
    columns = len(data.sets) + 1
    cells = np.full((int(starts[-1]) + sizes[-1], columns), np.nan)
    rows = np.concatenate([start + np.arange(size) for start, size in zip(starts, sizes, strict=True)])
    cells[rows] = np.column_stack([data.accuracy, data.relative])
    draw_heat(axes, cells, SHARES, (0, 1.25))
    for row, column in zip(*np.nonzero(np.isfinite(cells)), strict=True):
        value = cells[row, column]
        weight = "bold" if column == columns - 1 else "normal"
        axes.text(
            column,
            row,
            f"{value:.2f}",
            ha="center",
            va="center",
            fontsize=6.5,
            color="white" if value > 0.6 else INK,
            fontweight=weight,
        )
    axes.axvline(columns - 1.5, color="white", linewidth=3)
    axes.set_yticks(rows, data.names)
    names = ["\n".join(wrap(LABELS[name], 16)) for name in data.sets]
    axes.set_xticks(range(columns), [*names, "mean, of the\nnetwork's"], rotation=90)
    axes.xaxis.tick_top()
    for start, (group, _) in zip(starts, groupby(data.groups), strict=True):
        axes.annotate(GROUPS[group], (0, start - 0.62), xycoords=("axes fraction", "data"), xytext=(-4, 0), textcoords="offset points",
                      ha="right", va="bottom", fontweight="bold", fontsize=7, annotation_clip=False)  # fmt: skip
