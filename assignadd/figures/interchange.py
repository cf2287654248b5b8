"""Figure `interchange` (ours): interchange accuracies of the program's variables at their places, with controls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from assignadd.figures.arrays import FigureData
from assignadd.interventions.interchange import QUERY_AND_TAG, Outcome
from assignadd.palette import BLUE, GREY, INK, ORANGE, SHARES, SKY, VERMILION
from assignadd.stats import wilson

LOOKS: dict[str, dict[str, Any]] = {
    "whole": {"color": BLUE, "marker": "o", "label": "all that is there"},
    "named": {"color": SKY, "marker": "s", "label": "the paper's directions alone"},
    "random": {"color": GREY, "marker": "D", "label": "as many random directions"},
    "elsewhere": {"color": ORANGE, "marker": "X", "label": "another place"},
    "untrained": {"color": VERMILION, "marker": "v", "label": "untrained network"},
}
# Shown by the number of variables in the sum: a literal beside the variable makes a difference.
QUERIES = {"operand query": (1, 2), "query in QK2": (1, 2), QUERY_AND_TAG: (1,)}
BY_TYPE = ("first value", "second value", "values")


@dataclass(frozen=True)
class InterchangeData(FigureData):
    alignments: list[str]  # one for each row; queries by the number of variables in the sum
    variants: list[str]
    accuracy: np.ndarray  # (alignments, variants)
    low: np.ndarray  # 95 % Wilson interval
    high: np.ndarray
    n: np.ndarray  # (alignments,): pairs of prompts
    by_types: np.ndarray  # (alignments, base, source) by numbers of variables; NaN where no pair counts


def interchange_data(trained: Mapping[str, Outcome], untrained: Mapping[str, Outcome]) -> InterchangeData:
    shown, control = _rows(trained), _rows(untrained)
    names = [name for name, outcome in shown.items() if outcome.n]
    counts = [[*(shown[a].count(v) for v in LOOKS if v != "untrained"), control[a].count()] for a in names]
    n = np.array([shown[a].n for a in names])
    intervals = [[wilson(k, m) for k in row] for row, m in zip(counts, n.tolist(), strict=True)]
    low, high = (np.array([[getattr(i, end) for i in row] for row in intervals]) for end in ("low", "high"))
    by_types = np.stack([shown[a].by_types().numpy() for a in names])
    return InterchangeData(names, list(LOOKS), np.array(counts) / n[:, None], low, high, n, by_types)


def _rows(outcomes: Mapping[str, Outcome]) -> dict[str, Outcome]:
    """The alignments by the name of their row, the queries in a row for each number of variables."""
    found: dict[str, Outcome] = {}
    for name, outcome in outcomes.items():
        split = {f"{name}, {k} variable{'s' * (k > 1)}": outcome.with_variables(k) for k in QUERIES.get(name, ())}
        found |= split or {name: outcome}
    return found


def draw_interchange(data: InterchangeData, made: Figure) -> None:
    grid = made.add_gridspec(len(BY_TYPE), 2, width_ratios=(2, 1))
    _draw_alignments(data, made.add_subplot(grid[:, 0]))
    for row, name in enumerate(BY_TYPE):
        _draw_types(data, name, made.add_subplot(grid[row, 1]), last=row == len(BY_TYPE) - 1)


def _draw_alignments(data: InterchangeData, axes: Axes) -> None:
    y = np.arange(len(data.alignments))
    for i, variant in enumerate(data.variants):
        value, look = data.accuracy[:, i], LOOKS[variant]
        errors = np.stack([value - data.low[:, i], data.high[:, i] - value]).clip(0)
        axes.errorbar(value, y + 0.13 * (i - 2), xerr=errors, linestyle="none", markersize=4, elinewidth=0.9, **look)
    axes.set_yticks(y, [f"{a}\n({n:,} pairs)" for a, n in zip(data.alignments, data.n, strict=True)])
    axes.set(
        xlim=(-0.03, 1.03),
        ylim=(len(y) - 0.5, -0.5),
        xlabel="interchange accuracy",
        title="(a) exchanged between prompts",
    )
    axes.legend(loc="upper center", bbox_to_anchor=(0.4, -0.14), ncols=2, handletextpad=0.3, columnspacing=1.0)


def _draw_types(data: InterchangeData, name: str, axes: Axes, last: bool) -> None:
    values = data.by_types[data.alignments.index(name)]
    axes.imshow(values, cmap=SHARES, vmin=0, vmax=2, aspect="auto")
    for (i, j), value in np.ndenumerate(values):
        if np.isfinite(value):
            axes.text(j, i, f"{value:.3f}", ha="center", va="center", fontsize=6.5, color=INK)
    axes.grid(False)
    axes.tick_params(length=0)
    axes.set_xticks(range(3), ["0", "1", "2"] if last else ["", "", ""])
    axes.set_yticks(range(3), ["0", "1", "2"])
    axes.set(ylabel="base", xlabel="source: variables in the sum" if last else "")
    axes.set_title(f"({'bcd'[BY_TYPE.index(name)]}) {name}")
