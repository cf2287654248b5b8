"""The figure of a study: a row per cell, with the shares of its networks that learn each skill, and when they do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure, FigureBase

from assignadd.palette import BLUE, GREEN, GREY, ORANGE, PURPLE, VERMILION
from assignadd.study.study import Study
from assignadd.study.table import ONSETS, StudyTable

COLORS = {
    "adds": BLUE, "binds": VERMILION, "refines": GREEN, "follows 1 link": PURPLE, "follows 2 links": ORANGE,
    "learned": ORANGE,
}  # fmt: skip
SKILLS = "adds", "binds", "refines"  # the outcomes that `ONSETS` has the steps of


def draw_study(table: StudyTable, made: FigureBase) -> None:
    """Draws the shares of the outcomes in every cell, and the steps from which each skill lasts."""
    study = table.study
    left, right = made.subplots(1, 2, sharey=True)
    rows = np.arange(len(table.cells))
    for i, outcome in enumerate(study.outcomes):
        shares = [table.share(cell, outcome) for cell in table.cells]
        value, low, high = np.array([(s.value, s.low, s.high) if s else (np.nan,) * 3 for s in shares]).T
        at, color = rows + 0.22 * (i - (len(study.outcomes) - 1) / 2), COLORS.get(outcome, GREY)
        left.errorbar(value, at, xerr=(value - low, high - value), fmt="o", color=color, markersize=3.5, linewidth=1,
                      label=study.labels.get(outcome, outcome))  # fmt: skip
    left.set(xlim=(-0.03, 1.03), xlabel="share of networks\n(95 % interval)")
    left.set_yticks(rows, list(table.cells))
    left.invert_yaxis()
    for i, (skill, onset) in enumerate(zip(SKILLS, ONSETS, strict=True)):
        if skill not in study.outcomes:  # the legend would not explain its colour
            continue
        for row, cell in zip(rows, table.cells, strict=True):
            onsets = table.values(cell, onset)
            at = np.full(len(onsets), row + 0.22 * (i - 1))
            right.plot(onsets, at, "|", color=COLORS[skill], markersize=4, alpha=0.8)
    steps = int(table.provenance["steps"])
    right.set(xlim=(0, steps * 1.02), xlabel="step from which the skill lasts\n(a mark per network)")
    made.legend(loc="outside upper center", ncols=len(study.outcomes))


def draw_studies(tables: Mapping[str, StudyTable], made: Figure) -> None:
    """The figure of each study, one above the other."""
    heights = [figure_size([table.study])[1] for table in tables.values()]
    parts = made.subfigures(len(tables), squeeze=False, height_ratios=heights)[:, 0]
    for part, table in zip(parts, tables.values(), strict=True):
        draw_study(table, part)


def figure_size(studies: Sequence[Study]) -> tuple[float, float]:
    """Width and height of the figure in inches."""
    return 7.0, sum(1.1 + 0.27 * len(study.cells) for study in studies)
