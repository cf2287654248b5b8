"""The figure of a study: a row per cell, with the shares of its networks that learn each skill, and when they do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, FigureBase

from assignadd.palette import BLUE, GREEN, GREY, ORANGE, PURPLE, VERMILION
from assignadd.study.study import Study
from assignadd.study.table import ONSETS, StudyTable

COLORS = {
    "adds": BLUE, "binds": VERMILION, "refines": GREEN, "follows 1 link": PURPLE, "follows 2 links": ORANGE,
    "learned": ORANGE,
}  # fmt: skip
SKILLS = "adds", "binds", "refines"  # the outcomes that `ONSETS` has the steps of, in its order
LINE = 0.22  # between the lines of outcomes within a cell, whose row has the height 1


def draw_study(table: StudyTable, fig: FigureBase) -> None:
    """Draws the shares of the outcomes in every cell, and beside them the steps from which each skill lasts."""
    left, right = fig.subplots(1, 2, sharey=True)
    _draw_shares(table, left)
    _draw_onsets(table, right)
    if table.study.outcomes:
        fig.legend(loc="outside upper center", ncols=len(table.study.outcomes))


def _draw_shares(table: StudyTable, axes: Axes) -> None:
    """Draws a row for each cell, the first on top, with the share of its networks that has each outcome."""
    study = table.study
    rows = np.arange(len(table.cells))
    untested = (np.nan, np.nan, np.nan)
    for i, outcome in enumerate(study.outcomes):
        shares = [table.share(cell, outcome) for cell in table.cells]
        with_ends = [(share.value, share.low, share.high) if share else untested for share in shares]
        values, lows, highs = np.array(with_ends).T  # (cells,) each
        middle = (len(study.outcomes) - 1) / 2
        axes.errorbar(values, rows + LINE * (i - middle), xerr=(values - lows, highs - values), fmt="o",
                      color=COLORS.get(outcome, GREY), markersize=3.5, linewidth=1,
                      label=study.labels.get(outcome, outcome))  # fmt: skip
    axes.set(xlim=(-0.03, 1.03), xlabel="share of networks\n(95 % interval)")
    axes.set_yticks(rows, list(table.cells))
    axes.invert_yaxis()


def _draw_onsets(table: StudyTable, axes: Axes) -> None:
    """Draws in the same rows a mark for each network, at the step from which it has each skill."""
    for i, (skill, onset) in enumerate(zip(SKILLS, ONSETS, strict=True)):
        if skill not in table.study.outcomes:  # the legend would not explain its colour
            continue
        for row, cell in enumerate(table.cells):
            steps = table.values(cell, onset)
            heights = np.full(len(steps), row + LINE * (i - 1))  # the second skill is in the middle
            axes.plot(steps, heights, "|", color=COLORS[skill], markersize=4, alpha=0.8)
    last_step = int(table.provenance["steps"])
    axes.set(xlim=(0, last_step * 1.02), xlabel="step from which the skill lasts\n(a mark per network)")


def draw_studies(tables: Mapping[str, StudyTable], fig: Figure) -> None:
    """Draws the figure of each study, one above the other."""
    heights = [figure_size([table.study])[1] for table in tables.values()]
    parts = fig.subfigures(len(tables), squeeze=False, height_ratios=heights)[:, 0]  # (studies,): one column
    for part, table in zip(parts, tables.values(), strict=True):
        draw_study(table, part)


def figure_size(studies: Sequence[Study]) -> tuple[float, float]:
    """Width and height of the figure in inches: for each study, axes and legend and a row per cell."""
    height = sum(1.1 + 0.27 * len(study.cells) for study in studies)
    return 7.0, height
