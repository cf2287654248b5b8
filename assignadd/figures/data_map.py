"""Figure of the study `data`: the share of networks with each skill at every share f of pairs and ratio r."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from matplotlib.figure import Figure

from assignadd.figures.heatmap import bar, draw_heat, write_cells
from assignadd.figures.record import FigureData
from assignadd.palette import SHARES
from assignadd.studies.data import FRACTIONS, RATIOS, label
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
        write_cells(panel, share, np.reshape(words, share.shape))
    axes[0].set_yticks(range(len(FRACTIONS)), [f"{f:g}" for f in FRACTIONS])
    axes[0].set_ylabel("share f of the pairs in training")
    bar(image, axes, "share of networks")
