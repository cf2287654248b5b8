"""The figure of a study: a row per cell, with the shares of its networks that learn each skill, and when they do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure, FigureBase

from assignadd.figure.record import FigureData
from assignadd.palette import BLUE, GREEN, GREY, ORANGE, PURPLE, VERMILION
from assignadd.study.study import Study
from assignadd.study.table import ONSETS, StudyTable

COLORS = {
    "adds": BLUE, "binds": VERMILION, "refines": GREEN, "follows 1 link": PURPLE, "follows 2 links": ORANGE,
    "learned": ORANGE,
}  # fmt: skip
BINDING = list(ONSETS).index("binding at")
SKILLS = "adds", "binds", "refines"  # the outcomes that `ONSETS` has the steps of
# A caption names at most this many cells of a kind and counts the rest.
NAMED = 3


@dataclass(frozen=True)
class StudyData(FigureData):
    cells: list[str]
    outcomes: list[str]
    shares: np.ndarray  # (outcomes, cells, 3): share, low and high end of its interval; NaN where there is none
    models: np.ndarray  # (cells,)
    onsets: np.ndarray  # (3 skills, cells, models): steps; NaN where a skill never came
    steps: int
    """Updates of every model."""
    labels: dict[str, str]
    """What the outcomes mean."""


def study_data(table: StudyTable) -> StudyData:
    """Shares and onsets in every cell."""
    study, cells, steps = table.study, table.cells, int(table.provenance["steps"])
    models = np.array([frame.height for frame in cells.values()])
    onsets = np.full((len(ONSETS), len(cells), models.max()), np.nan)
    for i, name in enumerate(ONSETS):
        for j, frame in enumerate(cells.values()):
            onsets[i, j, : frame.height] = frame[name].cast(float).to_numpy()
    shares = np.full((len(study.outcomes), len(cells), 3), np.nan)
    for i, outcome in enumerate(study.outcomes):
        for j, cell in enumerate(cells):
            if share := table.share(cell, outcome):
                shares[i, j] = share.value, share.low, share.high
    labels = {name: study.labels.get(name, name) for name in study.outcomes}
    return StudyData(list(cells), list(study.outcomes), shares, models, onsets, steps, labels)


def study_caption(data: StudyData) -> str:
    """The cells with the highest and the lowest share of models that bind, and those where more steps may raise it."""
    shares = data.shares[data.outcomes.index("binds")]
    if np.isnan(shares[:, 0]).all():
        return "No cell has sequences on which binding could be tested."
    most, fewest = np.nanmax(shares[:, 0]), np.nanmin(shares[:, 0])

    def cells_with(end: float) -> str:
        return _named([
            f"{data.cells[i]} ({value:.2f} [{low:.2f}, {high:.2f}] of {data.models[i]} networks)"
            for i, (value, low, high) in enumerate(shares)
            if value == end
        ])  # fmt: skip

    if most == fewest:
        caption = f"The share of networks that bind within {data.steps:,} steps is {most:.2f} in all cells."
    else:
        caption = f"Within {data.steps:,} steps most networks bind with {cells_with(most)}, "
        caption += f"fewest with {cells_with(fewest)}."
    late = [cell for cell, onsets in zip(data.cells, data.onsets[BINDING], strict=True) if _is_late(onsets, data.steps)]
    if late:
        caption += (
            " Of the networks with a step of binding, half or more have it in the last third of training with "
            f"{_named(late)}: more steps may raise the share there."
        )
    return caption


def _named(cells: Sequence[str]) -> str:
    """The first cells by name, and the number of the others."""
    rest = len(cells) - NAMED
    counted = [f"{rest} other cell{'s' * (rest > 1)}"] if rest > 0 else []
    return "; ".join([*cells[:NAMED], *counted])


def _is_late(onsets: np.ndarray, steps: int) -> bool:
    """Whether half of the models that learned a skill did so in the last third of training."""
    came = onsets[np.isfinite(onsets)]
    return len(came) > 0 and float(np.median(came)) > 2 * steps / 3


def draw_study(data: StudyData, made: FigureBase) -> None:
    """Draws the shares and onsets of every cell."""
    left, right = made.subplots(1, 2, sharey=True)
    rows = np.arange(len(data.cells))
    for i, outcome in enumerate(data.outcomes):
        share, low, high = data.shares[i].T
        at, color = rows + 0.22 * (i - (len(data.outcomes) - 1) / 2), COLORS.get(outcome, GREY)
        left.errorbar(share, at, xerr=(share - low, high - share), fmt="o", color=color, markersize=3.5, linewidth=1,
                      label=data.labels[outcome])  # fmt: skip
    left.set(xlim=(-0.03, 1.03), xlabel="share of networks\n(95 % interval)")
    left.set_yticks(rows, data.cells)
    left.invert_yaxis()
    for i, skill in enumerate(SKILLS):
        if skill in data.outcomes:  # as the legend has no other colours
            at = np.broadcast_to(rows[:, None] + 0.22 * (i - 1), data.onsets[i].shape)
            right.plot(data.onsets[i].ravel(), at.ravel(), "|", color=COLORS[skill], markersize=4, alpha=0.8)
    right.set(xlim=(0, data.steps * 1.02), xlabel="step from which the skill lasts\n(a mark per network)")
    made.legend(loc="outside upper center", ncols=len(data.outcomes))


def draw_studies(tables: Mapping[str, StudyTable], made: Figure) -> None:
    """The figure of each study, one above the other."""
    heights = [figure_size([table.study])[1] for table in tables.values()]
    parts = made.subfigures(len(tables), squeeze=False, height_ratios=heights)[:, 0]
    for part, table in zip(parts, tables.values(), strict=True):
        draw_study(study_data(table), part)


def figure_size(studies: Sequence[Study]) -> tuple[float, float]:
    """Width and height of the figure in inches."""
    return 7.0, sum(1.1 + 0.27 * len(study.cells) for study in studies)
