"""Measures along training: figures `progress_measures`, `onsets` and `variables`, every variable in every slot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import zip_longest
from textwrap import wrap
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke

from assignadd.config import Task
from assignadd.dynamics.curves import first_lasting
from assignadd.dynamics.phases import Phases
from assignadd.dynamics.trajectory import curves_of, onsets_of, phases_of, trajectory_of
from assignadd.figure.record import Absent, FigureData, FigureRecord
from assignadd.figure.style import SMALLEST, bar, dots, draw_heat, legend_beside, name_phases, phase_ends, rule_phases
from assignadd.measures.accuracies import SLOTS
from assignadd.measures.columns import ADDING_AND_COPYING, COLUMNS, HALF, ROUTING, Column, measure_of
from assignadd.network import Network
from assignadd.palette import BY_VARS, INK, ORANGE, RED, SHARES
from assignadd.task.evalsets import ALL_SETS, LABELS, VARIABLES

SHOWN = {m.family: m for m in COLUMNS if m.panel}


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
    by_type = {}  # (types, checkpoints) for each of the measures that the network has
    for name, measure in SHOWN.items():
        if names := measure.columns(columns):
            by_type[name] = np.stack([columns[column] for column in names])
    mean = np.stack([curves.mean(0) for curves in by_type.values()])
    low = np.stack([curves.min(0) for curves in by_type.values()])
    high = np.stack([curves.max(0) for curves in by_type.values()])
    return ProgressMeasuresData(columns["step"], list(by_type), mean, low, high, *phase_ends(phases), phases.summary)


def progress_measures_caption(data: ProgressMeasuresData) -> str:
    """The values of both groups of measures where the first phase ends, in words."""
    before = int(np.searchsorted(data.steps, data.ends[0], side="right")) - 1 if "addition" in data.phases else -1
    if not 0 <= before < len(data.steps) - 1:
        return f"In this run: {data.summary}."
    rows = {name: values for name, values in zip(data.names, data.measures, strict=True) if SHOWN[name].paper}
    first = {name: values for name, values in rows.items() if SHOWN[name].panel == ADDING_AND_COPYING}
    below = [values for name, values in rows.items() if SHOWN[name].panel == ROUTING]
    if not first or not below:  # not defined for this architecture
        return f"In this run: {data.summary}."
    lowest = min(first, key=lambda name: first[name][before])
    routing = np.mean(below, axis=0)
    return (
        f"At step {data.steps[before]:,} the lowest of those above is '{SHOWN[lowest].label}', at "
        f"{SHOWN[lowest].text(first[lowest][before])}; the mean of those below is {routing[before]:.2f} there and "
        f"{routing[before + 1]:.2f} at the next checkpoint, step {data.steps[before + 1]:,}."
    )


def draw_progress_measures(data: ProgressMeasuresData, made: Figure) -> None:
    upper, lower = made.subplots(2, 1, sharex=True)
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
    """A curve with the range of its types; thin for a variant of ours."""
    width, size, zorder = (1.4, 2.6, 2.5) if measure.paper else (0.8, 1.6, 2.6)
    line: Any = {"color": measure.colour, "linestyle": measure.line, "linewidth": width, "zorder": zorder}
    label = "\n".join(wrap(measure.label, 26))
    axes.plot(data.steps, data.measures[row], label=label, **line, **dots(data.steps, size))
    axes.fill_between(data.steps, data.low[row], data.high[row], color=measure.colour, alpha=0.13, linewidth=0)


# For curves that are not about sums with some number of variables.
NO_TYPE = -1
# Between the three types of a measure in its row.
APART = 0.24
NEVER = 1.15  # times the last step


@dataclass(frozen=True)
class OnsetsData(FigureData):
    """A row per evaluation set or measure; a measure with types (0, 1, 2 variables in the sum) has a curve for each."""

    rows: list[str]
    row: np.ndarray  # (curves,)
    n_vars: np.ndarray  # (curves,): NO_TYPE where a curve is of no type
    threshold: np.ndarray  # (curves,)
    onset: np.ndarray  # (curves,): NaN where it never came
    low: np.ndarray
    high: np.ndarray  # NaN where it may never have come
    sampled: np.ndarray  # (curves,)
    last: int
    ends: np.ndarray  # of the phases
    summary: str


def onsets_data(network: Network) -> OnsetsData | Absent:
    """The onsets of all curves but those of single variables, which figure `variables` shows."""
    last, phases = int(curves_of(network).steps[-1]), phases_of(network)
    if len(curves_of(network).steps) < 2:
        return Absent(f"seed {network.seed}: no onsets\nevaluated once, at step {last:,}")
    shown = [o for o in onsets_of(network) if not o.curve.endswith(SLOTS)]
    names = [o.curve if o.curve in LABELS else measure_of(o.curve).family for o in shown]
    rows = list(dict.fromkeys(names))
    types = [_n_vars(o.curve) for o in shown]
    onset, low, high = np.array([(o.onset, o.low, o.high) for o in shown], dtype=float).T  # None becomes NaN
    levels = np.array([o.threshold for o in shown])
    sampled = np.array([o.n is not None for o in shown])
    row = np.array([rows.index(name) for name in names])
    return OnsetsData(
        rows, row, np.array(types), levels, onset, low, high, sampled, last, phase_ends(phases)[1], phases.summary
    )


def onsets_caption(data: OnsetsData) -> str:
    never = int(np.isnan(data.onset).sum())
    return f"In this run: {data.summary}; {never} of {len(data.onset)} curves never reached their level to stay."


def _n_vars(curve: str) -> int:
    """The number of variables in the sums behind a curve."""
    if curve in LABELS:
        return next(s.n_vars for s in ALL_SETS if s.name == curve)
    return int((measure_of(curve).fields(curve) or {}).get("n_vars", NO_TYPE))


def draw_onsets(data: OnsetsData, made: Figure) -> None:
    axes = made.add_subplot()
    first = max(data.last / 1000, min([*data.low[data.low > 0], data.last / 10]) / 1.3)
    axes.set(xscale="log", xlim=(first, 1.4 * data.last), ylim=(len(data.rows) - 0.4, -0.6), xlabel="training step")
    alone = np.bincount(data.row)[data.row] == 1
    heights = data.row + np.where(alone, 0.0, APART * (data.n_vars - 1))  # types of a measure one above the other
    for i, y in enumerate(heights):
        _draw_onset(axes, data, i, y, first)
    rule_phases(axes, data.ends)
    levels = [data.threshold[data.row == row][0] for row in range(len(data.rows))]
    labels = {m.family: m.label for m in reversed(COLUMNS)} | LABELS
    names = [f"{labels[name]}  {level:g}" for name, level in zip(data.rows, levels, strict=True)]
    axes.set_yticks(range(len(names)), names, fontsize=SMALLEST)
    made.suptitle(data.summary, fontsize=8, x=0.01, ha="left")
    made.legend(handles=_onset_legend(data), loc="outside lower center", ncols=3)


def _draw_onset(axes: Axes, data: OnsetsData, i: int, y: float, first: float) -> None:
    color = BY_VARS.get(int(data.n_vars[i]), INK)
    if np.isnan(data.onset[i]):
        axes.plot(NEVER * data.last, y, marker="x", color=color, markersize=3.5)
        return
    high = NEVER * data.last if np.isnan(data.high[i]) else data.high[i]
    axes.plot([max(first, data.low[i]), high], [y, y], color=color, linewidth=1.0, solid_capstyle="butt")
    axes.plot(max(first, data.onset[i]), y, marker="o" if data.sampled[i] else "D", color=color, markersize=3.2)


def _onset_legend(data: OnsetsData) -> list[Line2D]:
    types = [
        Line2D([], [], color=color, linewidth=2, label=VARIABLES[n]) for n, color in BY_VARS.items() if n in data.n_vars
    ]
    names = {"o": "onset, share of sequences", "D": "onset, weights alone", "x": "never"}
    marks = [
        Line2D([], [], color=INK, marker=mark, markersize=3.5, linestyle="none", label=name)
        for mark, name in names.items()
    ]
    # A legend fills column by column.
    return [handle for column in zip_longest(types, marks) for handle in column if handle]


MAP_COLUMNS = 600  # cells along the steps: about as many as the paper has pixels there

LATER = 1000  # steps behind the first spike, by which most variables have come
LATE: dict[str, Any] = {
    "color": ORANGE, "marker": "D", "markersize": 4, "markeredgecolor": INK, "markeredgewidth": 0.6,
    "linestyle": "none", "zorder": 5, "label": "late: half of its sums right from here on",
}  # fmt: skip


@dataclass(frozen=True)
class VariablesData(FigureData):
    steps: np.ndarray  # (checkpoints,)
    letters: list[str]
    accuracy: np.ndarray  # (2, V, checkpoints): slot, variable
    banned: np.ndarray  # (2, V)
    onsets: np.ndarray  # (2, V): the step from which half of the sums are right to last; NaN where that never comes
    late: np.ndarray  # (2, V): whether that is `LATER` than the first spike
    phases: list[str]
    ends: np.ndarray
    summary: str


def variables_data(columns: Mapping[str, np.ndarray], phases: Phases, task: Task) -> VariablesData:
    """Accuracy and onset of every variable in every slot, from the columns of a measured trajectory."""
    steps = columns["step"]
    accuracy = np.stack([[columns[f"accuracy {v} {slot}"] for v in task.variables] for slot in SLOTS])
    banned = np.array([[v in letters for v in task.variables] for letters in (task.banned_first, task.banned_second)])
    lasting = [[first_lasting(steps, curve >= HALF) for curve in of_slot] for of_slot in accuracy]
    onsets = np.array([[np.nan if at is None else float(steps[at]) for at in of_slot] for of_slot in lasting])
    late = onsets > (phases.first_spike.after + LATER if phases.first_spike else np.inf)
    return VariablesData(
        steps, list(task.variables), accuracy, banned, onsets, late, *phase_ends(phases), phases.summary
    )


def variables_caption(data: VariablesData) -> str:
    """How many variables come late, and how many of these are banned, in words."""
    late, banned = int(data.late.sum()), int((data.late & data.banned).sum())
    return (
        f"Rows that come more than {LATER:,} steps after the first spike: {late}; of these, {banned} are ones that "
        "training never had."
    )


def draw_variables(data: VariablesData, made: Figure) -> None:
    axes = made.add_subplot()
    V, last = len(data.letters), max(1, int(data.steps[-1]))
    gap = np.full((1, len(data.steps)), np.nan)  # between the slots
    rows = np.concatenate([data.accuracy[0], gap, data.accuracy[1]])
    image = draw_heat(axes, rows[:, nearest(data.steps, last)], SHARES, (0, 1))
    image.set_extent((0, last, len(rows) - 0.5, -0.5))
    at = np.concatenate([np.arange(V), V + 1 + np.arange(V)])
    axes.plot(np.where(data.late, data.onsets, np.nan).ravel(), at, **LATE)
    _name_rows(axes, data, at)
    axes.set(xlabel="training step", xlim=(0, last))
    axes.tick_params(axis="x", length=3)
    bar(image, axes, "accuracy")
    rule_phases(axes, data.ends, zorder=4, path_effects=[withStroke(linewidth=2, foreground="white")])
    name_phases(axes, data.phases, data.ends, data.summary)
    banned = Line2D([], [], color=RED, marker="$×$", markersize=5, linestyle="none", label="never trained in this slot")
    handles = [banned, Line2D([], [], **LATE)] if data.late.any() else [banned]
    made.legend(handles=handles, loc="outside lower center", ncols=2)


def _name_rows(axes: Axes, data: VariablesData, at: np.ndarray) -> None:
    names = [f"{'× ' * bool(b)}{v}" for v, b in zip(data.letters * 2, data.banned.ravel(), strict=True)]
    axes.set_yticks(at, names, fontsize=SMALLEST)
    for label, banned in zip(axes.get_yticklabels(), data.banned.ravel(), strict=True):
        label.set(color=RED if banned else INK, fontweight="bold" if banned else "normal")
    beside: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "ha": "right", "va": "center", "rotation": 90}
    for slot, rows in zip(SLOTS, np.split(at, 2), strict=True):
        axes.text(-0.065, rows.mean(), f"{slot} slot", **beside)


def nearest(steps: np.ndarray, last: int) -> np.ndarray:
    """For every cell from 0 to `last`, the checkpoint nearest to its middle."""
    middles = (np.arange(MAP_COLUMNS) + 0.5) * last / MAP_COLUMNS
    return np.abs(steps[:, None] - middles).argmin(0)


PROGRESS_MEASURES_FIGURE = FigureRecord(
    "progress_measures", "Progress measures and phases",
    "Above, measures of adding and of copying a variable into its number; below, of routing. Look whether those "
    "above are complete before those below rise, and whether that rise is a jump at (a). Thin lines are "
    "other layers and variants: without the two rows that cannot fail, and a probe trained for only four steps, "
    "whose rise is partly the probe's own.",
    lambda s: progress_measures_data(trajectory_of(s.model), phases_of(s.model)), draw_progress_measures, height=4.4,
    found=progress_measures_caption, along_training=True,
)  # fmt: skip
ONSETS_FIGURE = FigureRecord(
    "onsets", "What is learned when",
    "Each mark is when a curve reached its level (the number after its name) and stayed there for 1,000 steps; "
    "the line is what the noise of evaluation and the time between checkpoints leave open. Dashed lines are the "
    "ends of the phases.",
    lambda s: onsets_data(s.model), draw_onsets, height=4.9, width=6.4, found=onsets_caption,
)  # fmt: skip
VARIABLES_FIGURE = FigureRecord(
    "variables", "Every variable in every slot",
    "Each row is a variable in a slot. A light bar that continues after (a) is a variable not yet looked up "
    "there; a red cross marks a variable that training never put in that slot.",
    lambda s: variables_data(trajectory_of(s.model), phases_of(s.model), s.model.config.task),
    draw_variables, height=4.0, found=variables_caption, along_training=True,
)  # fmt: skip
