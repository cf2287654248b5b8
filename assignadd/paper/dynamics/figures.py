"""Figure `progress_measures`: the measures of both mechanisms along training, with the ends of the phases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from assignadd.dynamics.phases import Phases
from assignadd.dynamics.trajectory import phases_of, trajectory_of
from assignadd.figure.record import FigureData, FigureRecord
from assignadd.figure.style import dots, legend_beside, name_phases, phase_ends, rule_phases
from assignadd.measures.columns import ADDING_AND_COPYING, COLUMNS, ROUTING, Column

# The measures that the figure shows, by their names.
SHOWN = {column.family: column for column in COLUMNS if column.panel}


@dataclass(frozen=True)
class ProgressMeasuresData(FigureData):
    steps: np.ndarray  # (checkpoints,)
    names: list[str]
    measures: np.ndarray  # (names, checkpoints): the mean over the types of sequences, where a measure has types
    low: np.ndarray  # (names, checkpoints): the lowest and the highest type
    high: np.ndarray
    phases: list[str]
    ends: np.ndarray  # (phases,): the step where each one ends
    summary: str


def progress_measures_data(columns: Mapping[str, np.ndarray], phases: Phases) -> ProgressMeasuresData:
    """The measures of figure `progress_measures`, from the columns of a measured trajectory."""
    by_measure = {}  # (types, checkpoints) for each of the measures that the network has
    for name, measure in SHOWN.items():
        column_names = measure.columns(columns)  # one for each type of sequences
        if column_names:
            by_measure[name] = np.stack([columns[column_name] for column_name in column_names])
    phase_names, ends = phase_ends(phases)
    return ProgressMeasuresData(
        steps=columns["step"],
        names=list(by_measure),
        measures=np.stack([curves.mean(0) for curves in by_measure.values()]),
        low=np.stack([curves.min(0) for curves in by_measure.values()]),
        high=np.stack([curves.max(0) for curves in by_measure.values()]),
        phases=phase_names,
        ends=ends,
        summary=phases.summary,
    )


def progress_measures_caption(data: ProgressMeasuresData) -> str:
    """The paper's measures of both panels at the end of the first phase, in words.

    Where training has no such phase with a checkpoint behind it, or the architecture lacks the measures of a panel, it
    is the summary of the phases.
    """
    in_short = f"In this run: {data.summary}."
    if "addition" not in data.phases:
        return in_short
    before = int(np.searchsorted(data.steps, data.ends[0], side="right")) - 1  # the last checkpoint of the first phase
    if not 0 <= before < len(data.steps) - 1:
        return in_short
    upper: dict[str, np.ndarray] = {}
    lower: dict[str, np.ndarray] = {}
    for name, values in zip(data.names, data.measures, strict=True):
        if SHOWN[name].paper and SHOWN[name].panel == ADDING_AND_COPYING:
            upper[name] = values
        elif SHOWN[name].paper and SHOWN[name].panel == ROUTING:
            lower[name] = values
    if not upper or not lower:
        return in_short
    lowest = min(upper, key=lambda name: upper[name][before])
    routing = np.mean(list(lower.values()), axis=0)  # (checkpoints,)
    return (
        f"At step {data.steps[before]:,} the lowest of those above is '{SHOWN[lowest].label}', at "
        f"{SHOWN[lowest].text(upper[lowest][before])}; the mean of those below is {routing[before]:.2f} there and "
        f"{routing[before + 1]:.2f} at the next checkpoint, step {data.steps[before + 1]:,}."
    )


def draw_progress_measures(data: ProgressMeasuresData, figure: Figure) -> None:
    """Draws measures of adding and copying above and of routing below, with a line where each phase ends."""
    upper, lower = figure.subplots(2, 1, sharex=True)
    for axes, title in ((upper, ADDING_AND_COPYING), (lower, ROUTING)):
        shown = [(row, name) for row, name in enumerate(data.names) if SHOWN[name].panel == title]
        for row, name in shown:
            _draw_measure(axes, data, row, SHOWN[name])
        if not shown:
            axes.plot([], [], linestyle="none", label="none of these is defined\nfor this network")
        axes.set(ylabel="share or accuracy", ylim=(-0.02, 1.04), xlim=(0, 1.01 * max(1, data.steps[-1])))
        legend_beside(axes, title)
        rule_phases(axes, data.ends)
    lower.set_xlabel("training step")
    what = "attends to: mean over sums with\n0, 1, 2 variables; band: range"
    lower.text(1.03, 0.0, what, transform=lower.transAxes, fontsize=7)
    name_phases(upper, data.phases, data.ends, data.summary)


def _draw_measure(axes: Axes, data: ProgressMeasuresData, row: int, measure: Column) -> None:
    """Draws one measure, `data.measures[row]`: its curve, thin for a variant of ours, and the range of its types."""
    width, size, zorder = (1.4, 2.6, 2.5) if measure.paper else (0.8, 1.6, 2.6)
    line: Any = {"color": measure.colour, "linestyle": measure.line, "linewidth": width, "zorder": zorder}
    label = "\n".join(wrap(measure.label, 26))
    axes.plot(data.steps, data.measures[row], label=label, **line, **dots(data.steps, size))
    axes.fill_between(data.steps, data.low[row], data.high[row], color=measure.colour, alpha=0.13, linewidth=0)


PROGRESS_MEASURES_FIGURE = FigureRecord(
    "progress_measures", "Progress measures and phases",
    "Above, measures of adding and of copying a variable into its number; below, of routing. Look whether those "
    "above are complete before those below rise, and whether that rise is a jump at (a). Thin lines are "
    "other layers and variants: without the two rows that cannot fail, and a probe trained for only four steps, "
    "whose rise is partly the probe's own.",
    lambda s: progress_measures_data(trajectory_of(s.model), phases_of(s.model)), draw_progress_measures, height=4.4,
    found=progress_measures_caption, along_training=True,
)  # fmt: skip
