"""Figures `mirror` and `doubly_held_out` (ours): how far the held-out accuracies go, set by set and seed by seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from assignadd.figures.arrays import FigureData
from assignadd.figures.style import BLUE, GREY, INK, ORANGE, VERMILION
from assignadd.measures.accuracies import Accuracy

# Evaluation set, what the figure calls it, and its colour.
Rows = Sequence[tuple[str, str, str]]
MIRROR: Rows = (
    ("0-var train", "seen pairs", GREY),
    ("0-var add-restricted", "held-out pairs, all", INK),
    ("0-var mirror seen", "held out, mirror (m, n) seen", BLUE),
    ("0-var mirror held out", "held out, mirror held out too", VERMILION),
)
DOUBLY_HELD_OUT: Rows = (
    ("1-var add-restricted", "1-var, held-out pair", BLUE),
    ("1-var var-restricted", "1-var, banned slot", ORANGE),
    ("1-var doubly held out", "1-var, pair and slot", VERMILION),
    ("2-var add-restricted", "2-var, held-out pair", BLUE),
    ("2-var var-restricted (1)", "2-var, one banned slot", ORANGE),
    ("2-var doubly held out (1)", "2-var, pair and one slot", VERMILION),
    ("2-var var-restricted (2)", "2-var, two banned slots", ORANGE),
    ("2-var doubly held out (2)", "2-var, pair and two slots", VERMILION),
)


@dataclass(frozen=True)
class HeldOutData(FigureData):
    """NaN where a model has no such set."""

    sets: list[str]
    seeds: list[int]
    accuracy: np.ndarray  # (sets, models)
    low: np.ndarray  # 95 % Wilson interval
    high: np.ndarray


def held_out_data(rows: Rows, seeds: Sequence[int], models: Sequence[Mapping[str, Accuracy]]) -> HeldOutData:
    sets = [name for name, _, _ in rows if any(name in model for model in models)]
    found = [[model.get(name) for model in models] for name in sets]
    values = [[(a.accuracy, a.interval.low, a.interval.high) if a else (np.nan,) * 3 for a in row] for row in found]
    accuracy, low, high = np.moveaxis(np.array(values).reshape(len(sets), len(models), 3), 2, 0)
    return HeldOutData(sets, list(seeds), accuracy, low, high)


def mirror_data(seeds: Sequence[int], models: Sequence[Mapping[str, Accuracy]]) -> HeldOutData:
    """Additions of two literals, the held-out pairs (n, m) parted by whether (m, n) was seen."""
    return held_out_data(MIRROR, seeds, models)


def doubly_held_out_data(seeds: Sequence[int], models: Sequence[Mapping[str, Accuracy]]) -> HeldOutData:
    """Held-out pair and banned slot at once, below each of the two alone."""
    return held_out_data(DOUBLY_HELD_OUT, seeds, models)


def draw_mirror(data: HeldOutData, axes: Axes) -> None:
    _draw(data, MIRROR, axes)


def draw_doubly_held_out(data: HeldOutData, axes: Axes) -> None:
    _draw(data, DOUBLY_HELD_OUT, axes)
    for y, name in enumerate(data.sets):
        if y and name in ("2-var add-restricted", "2-var var-restricted (2)"):
            axes.axhline(y - 0.5, color=GREY, linewidth=0.6)


def _draw(data: HeldOutData, rows: Rows, axes: Axes) -> None:
    """A row for each set, in it a dot with its interval for each model, in the order given from the top."""
    if not data.sets:
        axes.set_axis_off()
        axes.text(0.5, 0.5, "this task has no such sets", transform=axes.transAxes, ha="center")
        return
    looks = {name: (label, color) for name, label, color in rows}
    spread = (np.arange(len(data.seeds)) - (len(data.seeds) - 1) / 2) * min(0.2, 0.7 / len(data.seeds))
    size = 4.5 if len(data.seeds) <= 8 else 3
    for y, name in enumerate(data.sets):
        mid, low, high = data.accuracy[y], data.low[y], data.high[y]
        error = np.maximum(0, [mid - low, high - mid])
        axes.errorbar(mid, y + spread, xerr=error, fmt="o", color=looks[name][1], markersize=size, elinewidth=1, capsize=0)
    axes.set_yticks(range(len(data.sets)), [looks[name][0] for name in data.sets])
    room = 1 - float(np.nanmin(data.low, initial=1 - 1e-3))
    axes.set(xlabel="accuracy (95 % interval)", ylim=(len(data.sets) - 0.45, -0.55), xlim=(1 - 1.04 * room, 1 + 0.04 * room))
    axes.grid(False, axis="y")
    axes.tick_params(axis="y", length=0)
    if len(data.seeds) > 1:
        order = f"seeds {', '.join(map(str, data.seeds))}" if len(data.seeds) <= 8 else f"{len(data.seeds)} seeds"
        dot = Line2D([], [], marker="o", linestyle="-", color=GREY, markersize=size, label=f"from top to bottom: {order}")
        axes.legend(handles=[dot], loc="upper left", bbox_to_anchor=(0, -0.16 if len(data.sets) > 5 else -0.28), borderaxespad=0)
