"""The figure of a study: a row per cell, with the shares of its networks that learn each skill, when they do, and the
study's own numbers of networks that bind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, FigureBase

from assignadd.figure.record import FigureData
from assignadd.palette import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, VERMILION
from assignadd.study.study import Study
from assignadd.study.table import ONSETS, StudyTable

COLORS = {
    "adds": BLUE, "binds": VERMILION, "refines": GREEN, "follows 1 link": PURPLE, "follows 2 links": ORANGE,
    "learned": ORANGE,
}  # fmt: skip
BINDING = list(ONSETS).index("binding at")
SKILLS = "adds", "binds", "refines"  # the outcomes that `ONSETS` has the steps of
NUMBER_COLORS = (INK, PURPLE, ORANGE)
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
    shown: list[str]
    """Names of the study's own numbers, and the label of their axis."""
    shown_on: str
    labels: dict[str, str]
    """What the outcomes and the numbers mean."""
    values: np.ndarray  # (shown, cells, models); NaN where a model does not bind or has no such number


def study_data(table: StudyTable) -> StudyData:
    """Shares, onsets and the study's own numbers in every cell."""
    shares = [
        [(s.value, s.low, s.high) if (s := table.share(cell, outcome)) else (np.nan,) * 3 for cell in table.cells]
        for outcome in table.study.outcomes
    ]
    models = np.array([frame.height for frame in table.cells.values()])
    study, steps = table.study, int(table.provenance["steps"])
    onsets = _padded(
        [[frame[name].cast(float).to_numpy() for frame in table.cells.values()] for name in ONSETS], models
    )
    values = _padded([[table.values(cell, name, "binds") for cell in table.cells] for name in study.shown], models)
    labels = {name: study.labels.get(name, name) for name in (*study.outcomes, *study.shown)}
    return StudyData(list(table.cells), list(study.outcomes), np.array(shares), models, onsets, steps,
                     list(study.shown), study.shown_on, labels, values)  # fmt: skip


def _padded(rows: list[list[np.ndarray]], models: np.ndarray) -> np.ndarray:
    """Arrays by name and cell as one (names, cells, models), with NaN after the last value of each."""
    found = np.full((len(rows), len(models), models.max()), np.nan)
    for i, row in enumerate(rows):
        for j, values in enumerate(row):
            found[i, j, : len(values)] = values
    return found


def study_caption(data: StudyData) -> str:
    """The cells with the highest and the lowest share of models that bind, and those where more steps may raise it."""
    shares = data.shares[data.outcomes.index("binds")]
    if np.isnan(shares[:, 0]).all():
        return "No cell has sequences on which binding could be tested."
    ends = np.nanmax(shares[:, 0]), np.nanmin(shares[:, 0])

    def words(i: int) -> str:
        value, low, high = shares[i]
        return f"{data.cells[i]} ({value:.2f} [{low:.2f}, {high:.2f}] of {data.models[i]} networks)"

    if ends[0] == ends[1]:
        found = f"The share of networks that bind within {data.steps:,} steps is {ends[0]:.2f} in all cells."
    else:
        most, fewest = (_named([words(int(i)) for i in np.flatnonzero(shares[:, 0] == end)]) for end in ends)
        found = f"Within {data.steps:,} steps most networks bind with {most}, fewest with {fewest}."
    late = [cell for cell, onsets in zip(data.cells, data.onsets[BINDING], strict=True) if _is_late(onsets, data.steps)]
    if late:
        found += (
            " Of the networks with a step of binding, half or more have it in the last third of training with "
            f"{_named(late)}: more steps may raise the share there."
        )
    return found + _numbers_caption(data)


def _numbers_caption(data: StudyData) -> str:
    """The means of the study's own numbers over the models that bind, in the cells with the lowest and the highest."""
    found = ""
    for name, values in zip(data.shown, data.values, strict=True):
        means = {c: float(np.nanmean(v)) for c, v in zip(data.cells, values, strict=True) if np.isfinite(v).any()}
        if means:
            low, high = (pick(means, key=means.__getitem__) for pick in (min, max))
            found += f" Mean over the networks that bind of '{data.labels[name]}': from {means[low]:.2f} ({low}) to "
            found += f"{means[high]:.2f} ({high})."
    return found


def _named(cells: Sequence[str]) -> str:
    """The first cells by name, and the number of the others."""
    others = len(cells) - NAMED
    return "; ".join([*cells[:NAMED], *([f"{others} other cell{'s' * (others > 1)}"] if others > 0 else [])])


def _is_late(onsets: np.ndarray, steps: int) -> bool:
    """Whether half of the models that learned a skill did so in the last third of training."""
    came = onsets[np.isfinite(onsets)]
    return len(came) > 0 and float(np.median(came)) > 2 * steps / 3


def draw_study(data: StudyData, made: FigureBase) -> None:
    """Draws the shares and onsets of every cell, and the study's own numbers where it has them."""
    left, right, *own = made.subplots(1, 3 if data.shown else 2, sharey=True)
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
    for axes in own:
        _draw_numbers(data, axes)
    handles = [handle for axes in (left, *own) for handle in axes.get_legend_handles_labels()[0]]
    made.legend(handles=handles, loc="outside upper center", ncols=3 if own else len(data.outcomes))


def _draw_numbers(data: StudyData, axes: Axes) -> None:
    """The study's own numbers: an open circle per model that binds, and a line at the mean of each cell."""
    rows = np.arange(len(data.cells))
    for i, (name, values) in enumerate(zip(data.shown, data.values, strict=True)):
        at, color = rows + 0.3 * (i - (len(data.shown) - 1) / 2), NUMBER_COLORS[i]
        axes.plot(values.ravel(), np.broadcast_to(at[:, None], values.shape).ravel(), "o", color=color, markersize=3.5,
                  markerfacecolor="none", markeredgewidth=0.7, alpha=0.8, label=data.labels[name])  # fmt: skip
        for cell, y in zip(values, at, strict=True):
            if np.isfinite(cell).any():
                axes.plot([np.nanmean(cell)] * 2, [y - 0.14, y + 0.14], color=color, linewidth=2)
    axes.set(xlabel=f"{data.shown_on}\n(a circle per network that binds, line: mean)")


def draw_studies(tables: Mapping[str, StudyTable], made: Figure) -> None:
    """The figure of each study, one above the other."""
    heights = [figure_size([table.study])[1] for table in tables.values()]
    parts = made.subfigures(len(tables), squeeze=False, height_ratios=heights)[:, 0]
    for part, table in zip(parts, tables.values(), strict=True):
        draw_study(study_data(table), part)


def figure_size(studies: Sequence[Study]) -> tuple[float, float]:
    """Width and height of the figure in inches; a third panel has a longer legend."""
    width = 9.6 if any(study.shown for study in studies) else 7.0
    return width, sum((1.5 if study.shown else 1.1) + 0.27 * len(study.cells) for study in studies)
