"""Figures of the studies `data` and `fate`, whose networks are on a grid of settings.

`data`: the share of networks with each skill at every share f of pairs and ratio r. `fate`: which combinations bind,
how repeats of a combination differ, and how well the fate is predicted.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from matplotlib.figure import Figure

from assignadd.figures.heatmap import DARK_FROM, bar, draw_heat, write_cells
from assignadd.figures.record import FigureData
from assignadd.palette import BLUE, GREY, SHARES
from assignadd.studies.data import FRACTIONS, RATIOS, label
from assignadd.studies.fate import FACTORIAL, KNOWN, REPEATED, STEPS_OF_PREDICTION, auc, fates, repeats
from assignadd.studies.table import StudyTable

PANELS = ("answer held-out\npairs of literals", "bind variables", "use banned slots,\nof those that bind")


@dataclass(frozen=True)
class DataMap(FigureData):
    counts: np.ndarray  # (3 panels, 7 shares f, 7 ratios r): networks that have the skill
    networks: np.ndarray  # the same shape: networks that are counted


def data_map(table: StudyTable) -> DataMap:
    """How many networks add, bind, and use banned slots among those that bind, at every setting."""
    counts, networks = (np.zeros((len(PANELS), len(FRACTIONS), len(RATIOS)), int) for _ in range(2))
    for (i, f), (j, r) in product(enumerate(FRACTIONS), enumerate(RATIOS)):
        frame = table.cells[label(f, r)]
        bound = frame.filter(frame["binds"])
        counts[:, i, j] = frame["adds"].sum(), bound.height, bound["refines"].sum()
        networks[:, i, j] = frame.height, frame.height, bound.height
    return DataMap(counts, networks)


def _count(n: int, of: int, differs: bool) -> str:
    """Networks with a skill, and of how many where that differs between settings; nothing where there is none."""
    return "" if of == 0 else f"{n}/{of}" if differs else f"{n}"


def draw_data_map(data: DataMap, made: Figure) -> None:
    axes = made.subplots(1, len(PANELS), sharey=True)
    with np.errstate(invalid="ignore"):
        shares = data.counts / data.networks  # NaN where no network binds
    for panel, title, share, counts, networks in zip(axes, PANELS, shares, data.counts, data.networks, strict=True):
        image = draw_heat(panel, share, SHARES, (0.0, 1.0))
        panel.set_title(title if networks.max() > networks.min() else f"{title}, of {networks.max()}")
        panel.set_xticks(range(len(RATIOS)), [f"{r:.2g}" for r in RATIOS])
        panel.set_xlabel("two-variable sequences\nper literal one, r")
        words = [
            _count(n, of, networks.max() > networks.min()) for n, of in zip(counts.flat, networks.flat, strict=True)
        ]
        write_cells(panel, np.reshape(words, share.shape), share >= DARK_FROM)
    axes[0].set_yticks(range(len(FRACTIONS)), [f"{f:g}" for f in FRACTIONS])
    axes[0].set_ylabel("share f of the pairs in training")
    bar(image, axes, "share of networks")


@dataclass(frozen=True)
class FateMap(FigureData):
    fates: np.ndarray  # (initialisations, orders of the data, splits): whether the network binds
    repeats: np.ndarray  # (combinations, repeats): whether each repeat binds
    auc: np.ndarray  # (steps of prediction, 3): area under the curve, low and high end; NaN where there is none


def fate_map(table: StudyTable) -> FateMap:
    """The fates of all combinations and repeats, and the areas under the curve of their predictions."""
    found = [auc(FACTORIAL, KNOWN, step, table) for step in STEPS_OF_PREDICTION]
    areas = np.array([(a.value, a.low, a.high) if a else (np.nan,) * 3 for a in found])
    return FateMap(fates(table, FACTORIAL), repeats(table, FACTORIAL, REPEATED), areas)


def draw_fate_map(data: FateMap, made: Figure) -> None:
    levels = range(len(data.fates))
    _, orders, splits = data.fates.shape
    maps = (
        (f"of {splits} splits", data.fates.sum(2), splits, "order of the data", range(orders)),
        (f"of {orders} orders of the data", data.fates.sum(1), orders, "split", range(splits)),
        ("repeats", data.repeats.sum(1, keepdims=True), data.repeats.shape[1], "all equal", range(0)),
    )
    *panels, right = made.subplots(1, 4, width_ratios=(8, 8, 1.4, 5))
    for panel, (title, counts, most, below, ticks) in zip(panels, maps, strict=True):
        draw_heat(panel, counts / most, SHARES, (0.0, 1.0))
        panel.set_title(title)
        panel.set_xlabel(below)
        panel.set_xticks(ticks, [str(i) for i in ticks])
        panel.set_yticks(levels, [str(i) for i in levels])
        words = [f"{n:.0f}" if ticks else f"{n:.0f}/{most}" for n in counts.flat]
        write_cells(panel, np.reshape(words, counts.shape), counts / most >= DARK_FROM)
    panels[0].set_ylabel("initialisation")
    value, low, high = data.auc.T
    at = range(len(STEPS_OF_PREDICTION))
    right.errorbar(at, value, yerr=(value - low, high - value), fmt="o", color=BLUE, markersize=3.5, linewidth=1)
    right.axhline(0.5, color=GREY, linewidth=0.8, linestyle="--")
    right.set_title("prediction")
    right.set(
        ylim=(0.45, 1.02), xlim=(-0.5, len(at) - 0.5), ylabel="AUC (95 % interval)", xlabel="from measures at step"
    )
    right.set_xticks(at, [f"{step:,}" for step in STEPS_OF_PREDICTION])
