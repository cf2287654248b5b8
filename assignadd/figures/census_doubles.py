"""Figure `census_doubles` (ours): every seed's accuracy on the classes of held-out pairs, seeds that bind beside seeds that do not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from assignadd.figures.absent import Absent, absent_caption
from assignadd.figures.arrays import FigureData
from assignadd.figures.classes import CLASS_ROWS, class_panels, set_name
from assignadd.palette import BLUE, INK, ORANGE
from assignadd.sweeps.population import Populations
from assignadd.task.evalsets import VARIABLES

# Whether a seed binds: what the legend calls it, its colour, and where its dots lie in the row.
GROUPS = ((True, "seeds that bind", BLUE, -0.2), (False, "seeds that do not", ORANGE, 0.2))


@dataclass(frozen=True)
class CensusDoublesData(FigureData):
    """Accuracies of the final exam; NaN where a seed's split has no such pair."""

    accuracy: np.ndarray  # (numbers of variables, kinds of pairs, seeds)
    binds: np.ndarray  # (seeds,)


def census_doubles_data(populations: Populations) -> CensusDoublesData:
    names = [[set_name(n_vars, kind) for kind in CLASS_ROWS] for n_vars in VARIABLES]
    accuracy = [
        [[seed.final(name) if seed.has(name) else np.nan for seed in populations.seeds] for name in row]
        for row in names
    ]
    return CensusDoublesData(np.array(accuracy), np.array([seed.learned_binding for seed in populations.seeds]))


def _median(values: np.ndarray) -> float:
    """Of those that are there."""
    there = values[~np.isnan(values)]
    return float(np.median(there)) if len(there) else np.nan


def census_doubles_caption(data: CensusDoublesData | Absent) -> str:
    """What to look for, and the medians on sums of literals in words."""
    if isinstance(data, Absent):
        return absent_caption(data, "Accuracy on the classes of held-out pairs, seed by seed.")
    groups = [(words, data.binds == binds) for binds, words, _, _ in GROUPS if (data.binds == binds).any()]
    found = []
    for kind, (label, _), values in zip(CLASS_ROWS, CLASS_ROWS.values(), data.accuracy[0], strict=True):
        if kind != "seen" and not np.isnan(values).all():
            found.append(f"{label}: {' and '.join(f'{_median(values[chosen]):.3f}' for _, chosen in groups)}")
    who = " and ".join(f"{words} ({int(chosen.sum())})" for words, chosen in groups)
    return (
        "Every dot is a seed at the end of training, every tick the median of its group. Look for the class of held-out pairs on which "
        "the two groups differ most in sums of literals, which need no binding. There the medians of "
        f"{who} are, for {'; '.join(found)}."
    )


def draw_census_doubles(data: CensusDoublesData, made: Figure) -> None:
    jitter = np.random.default_rng(0).uniform(-0.13, 0.13, len(data.binds))
    handles = []
    panels = class_panels(made, list(VARIABLES))
    for binds, words, color, offset in GROUPS:
        chosen = data.binds == binds
        if not chosen.any():
            continue
        for axes, accuracy in zip(panels.values(), data.accuracy, strict=True):
            for y, values in enumerate(accuracy[:, chosen]):
                axes.plot(
                    values, y + offset + jitter[chosen], "o", color=color, markersize=2.2, alpha=0.55, markeredgewidth=0
                )
                axes.plot(
                    [_median(values)] * 2,
                    [y + offset - 0.19, y + offset + 0.19],
                    color=INK,
                    linewidth=1.4,
                    solid_capstyle="butt",
                )
        handles.append(
            Line2D([], [], marker="o", linestyle="", color=color, markersize=4, label=f"{words} ({int(chosen.sum())})")
        )
    handles.append(
        Line2D([], [], marker="|", linestyle="", color=INK, markersize=7, markeredgewidth=1.4, label="median")
    )
    made.legend(handles=handles, loc="outside lower center", ncols=3)
