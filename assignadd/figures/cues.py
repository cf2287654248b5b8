"""Figure `cues` (ours): which number a variable has where name, place and order contradict each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from assignadd.claims.cues import on_layout
from assignadd.claims.evidence import Evidence
from assignadd.figures.record import Absent, FigureData, FigureRecord, on_axes
from assignadd.interventions.cues import LAYOUTS
from assignadd.palette import BLUE, ORANGE


@dataclass(frozen=True)
class CuesData(FigureData):
    layouts: list[str]
    names: list[str]  # of the layouts, in plain words
    answered: np.ndarray  # (networks, layouts, 2): how often the sum with x and with y is answered, NaN without y


def cues_data(models: Sequence[Evidence]) -> CuesData | Absent:
    able = [m for m in models if on_layout(m, next(iter(LAYOUTS))) is not None]
    if not able:
        return Absent("no network given here binds variables")
    answered = [[[_share(m.cues[layout].get(k)) for k in "xy"] for layout in LAYOUTS] for m in able]
    return CuesData(list(LAYOUTS), list(LAYOUTS.values()), np.array(answered))


def _share(answers: object) -> float:
    return float("nan") if answers is None else float(np.asarray(answers).mean())


def cues_caption(data: CuesData) -> str:
    """The medians over networks, in words."""
    medians = np.median(data.answered[..., 0], 0)
    words = "; ".join(f"`{layout}` {value:.2f}" for layout, value in zip(data.layouts, medians, strict=True))
    return f"{len(data.answered)} networks that bind; how often x is answered, the median: {words}."


def draw_cues(data: CuesData, ax: Axes) -> None:
    """A row for each layout, a dot for each network and number."""
    rows = np.arange(len(data.layouts))
    for k, (number, colour, shift) in enumerate((("x", BLUE, -0.14), ("y", ORANGE, 0.14))):
        shown = np.broadcast_to(rows + shift, data.answered.shape[:2])
        ax.scatter(data.answered[..., k], shown, s=12, color=colour, label=f"the sum with {number} is answered")
    ax.set_yticks(rows, [f"{name}: {layout}" for name, layout in zip(data.names, data.layouts, strict=True)])
    ax.invert_yaxis()
    ax.set(xlim=(-0.02, 1.02), xlabel="share of sequences")
    ax.legend(loc="upper center", bbox_to_anchor=(0.4, 1.14), ncols=2)


CUES_FIGURE = FigureRecord(
    "cues", "Bound by name, place or order",
    "Other sequences than in training: v is the variable that is asked for, w another one, x and y are numbers, a dot "
    "is PAD. Dots far to the right say what is bound; each is a network that binds.",
    lambda s: cues_data(s.models), on_axes(draw_cues), height=3.2, width=6.4, found=cues_caption,
)  # fmt: skip
