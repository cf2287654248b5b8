"""Figure `progress_measures`: the seven measures of App. B against the training step, with the ends of the phases marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from assignadd.dynamics.phases import Phases
from assignadd.figures.arrays import FigureData
from assignadd.measures.columns import ADDING_AND_COPYING, MEASURES, ROUTING, Measure
from assignadd.palette import INK

SHOWN = {m.family: m for m in MEASURES if m.panel}
MARKERS_UP_TO = 25  # checkpoints: fewer are drawn as dots, joined by lines


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
    """From the columns of a measured trajectory."""
    types = [np.stack([columns[c] for c in m.columns(columns)]) for m in SHOWN.values()]
    measures, low, high = (np.stack([of(t, axis=0) for t in types]) for of in (np.mean, np.min, np.max))
    return ProgressMeasuresData(columns["step"], list(SHOWN), measures, low, high, *phase_ends(phases), phases.summary)


def progress_measures_caption(data: ProgressMeasuresData) -> str:
    """What to look for, and how far both groups of measures are where the first phase ends."""
    look_for = (
        "Above, measures of adding and of copying a variable into its number; below, of routing. Look whether those above are complete "
        "before those below rise, and whether that rise is a jump at (a). Thin lines are variants: without the two rows that cannot fail, "
        "and a probe trained for only four steps, whose rise is partly the probe's own."
    )
    before = int(np.searchsorted(data.steps, data.ends[0], side="right")) - 1 if "addition" in data.phases else -1
    if not 0 <= before < len(data.steps) - 1:
        return f"{look_for} In this run: {data.summary}."
    rows = {name: values for name, values in zip(data.names, data.measures, strict=True) if SHOWN[name].paper}
    first = {name: values for name, values in rows.items() if SHOWN[name].panel == ADDING_AND_COPYING}
    lowest = min(first, key=lambda name: first[name][before])
    routing = np.mean([values for name, values in rows.items() if SHOWN[name].panel == ROUTING], axis=0)
    return (
        f"{look_for} At step {data.steps[before]:,} the lowest of those above is '{SHOWN[lowest].label}', at "
        f"{SHOWN[lowest].text(first[lowest][before])}; the mean of those below is {routing[before]:.2f} there and {routing[before + 1]:.2f} at the next checkpoint, step {data.steps[before + 1]:,}."
    )


def phase_ends(phases: Phases) -> tuple[list[str], np.ndarray]:
    """Names and last steps of the phases that end."""
    return [name for name, _ in phases.boundaries], np.array([step for _, step in phases.boundaries], dtype=int)


def draw_progress_measures(data: ProgressMeasuresData, made: Figure) -> None:
    upper, lower = made.subplots(2, 1, sharex=True)
    for axes, title in ((upper, ADDING_AND_COPYING), (lower, ROUTING)):
        for row, name in enumerate(data.names):
            if SHOWN[name].panel == title:
                _draw_measure(axes, data, row, SHOWN[name])
        axes.set(ylabel="share or accuracy", ylim=(-0.02, 1.04), xlim=(0, 1.01 * max(1, data.steps[-1])))
        axes.legend(
            loc="center left",
            bbox_to_anchor=(1.0, 0.5),
            title=title,
            alignment="left",
            handlelength=2.2,
            labelspacing=0.5,
        )
        rule_phases(axes, data.ends)
    lower.set_xlabel("training step")
    lower.text(
        1.03,
        0.0,
        "looks at: mean over sums with\n0, 1, 2 variables; band: range",
        transform=lower.transAxes,
        fontsize=7,
    )
    name_phases(upper, data.phases, data.ends, data.summary)


def _draw_measure(axes: Axes, data: ProgressMeasuresData, row: int, measure: Measure) -> None:
    """A curve with the range of its types; thin for a variant of ours."""
    width, size, zorder = (1.4, 2.6, 2.5) if measure.paper else (0.8, 1.6, 2.6)
    axes.plot(
        data.steps,
        data.measures[row],
        label="\n".join(wrap(measure.label, 26)),
        color=measure.colour,
        linestyle=measure.line,
        linewidth=width,
        zorder=zorder,
        **dots(data.steps, size),
    )
    axes.fill_between(data.steps, data.low[row], data.high[row], color=measure.colour, alpha=0.13, linewidth=0)


def dots(steps: np.ndarray, size: float = 2.6) -> dict[str, Any]:
    """Markers for a trajectory of few checkpoints, whose lines would else look like measured curves."""
    return {"marker": "o", "markersize": size} if len(steps) <= MARKERS_UP_TO else {}


def rule_phases(axes: Axes, ends: Sequence[int] | np.ndarray, **style: Any) -> None:
    """A vertical line where each phase ends."""
    line: dict[str, Any] = {"color": INK, "linewidth": 0.8, "linestyle": (0, (4, 2)), "zorder": 1.5, **style}
    for step in ends:
        axes.axvline(step, **line)


def name_phases(axes: Axes, phases: Sequence[str], ends: Sequence[int] | np.ndarray, summary: str) -> None:
    """(a), (b), (c) on top of the lines, pushed apart where they would touch, and in the title what they stand for."""
    letters = [f"({letter})" for letter in "abc"[: len(phases)]]
    low, high = axes.get_xlim()
    for letter, x in zip(letters, spread([(step - low) / (high - low) for step in ends], 0.06), strict=True):
        axes.text(x, 1.01, letter, transform=axes.transAxes, ha="center", va="bottom", fontweight="bold")
    named = [f"{letter} {phase}, {step:,}" for letter, phase, step in zip(letters, phases, ends, strict=True)]
    lines = ["end of a phase:  " + "   ".join(named)] * bool(named) + [summary] * (len(named) < 3)
    axes.set_title("\n".join(lines), pad=14 if named else 6, fontsize=8, x=0)


def spread(places: Sequence[float], apart: float) -> list[float]:
    """The places, moved to the left and right as little as keeps neighbours `apart`."""
    order, moved = np.argsort(places, kind="stable"), np.sort(np.asarray(places, dtype=float))
    for _ in range(100):
        short = np.maximum(0, apart - np.diff(moved)) / 2
        moved[:-1] -= short
        moved[1:] += short
    found = np.empty_like(moved)
    found[order] = moved
    return found.tolist()
