"""Figure `causes_over_time` (ours): interchange accuracies against the training step, above the paper's measures of the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from assignadd.dynamics.phases import Phases
from assignadd.figures.arrays import FigureData
from assignadd.figures.progress_measures import dots, name_phases, phase_ends, rule_phases
from assignadd.interventions.interchange import ALIGNMENTS, MEASURES, onset_steps
from assignadd.measures.columns import column_label
from assignadd.palette import BLUE, GREEN, GREY, INK, PURPLE, SKY, VERMILION

# A measure has the colour of the cause that it stands for.
LOOKS: dict[str, tuple[str, Any]] = {
    "binding tag": (GREEN, "-"),
    "operand query": (VERMILION, "-"),
    "query in QK2": (PURPLE, "-"),
    "first value": (SKY, (0, (4, 1.5))),
    "second value": (SKY, (0, (1, 1.2))),
    "values": (BLUE, "-"),
    "sum": (INK, "-"),
}


@dataclass(frozen=True)
class CausesOverTimeData(FigureData):
    steps: np.ndarray  # (checkpoints,)
    causes: np.ndarray  # (alignments, checkpoints)
    onsets: np.ndarray  # (alignments,): above one half to last from here on; -1 for never
    measures: np.ndarray  # (measures, checkpoints)
    measure_onsets: np.ndarray
    phases: list[str]
    ends: np.ndarray
    summary: str


def causes_over_time_data(
    causes: Mapping[str, np.ndarray], measured: Mapping[str, np.ndarray], phases: Phases
) -> CausesOverTimeData:
    """From the columns of interchange accuracies, and of a trajectory measured at these checkpoints at least."""
    steps = causes["step"]
    measures = {column: measured[column][np.isin(measured["step"], steps)] for column in MEASURES.values()}

    def onsets(columns: Mapping[str, np.ndarray]) -> np.ndarray:
        return np.array([-1 if step is None else step for step in onset_steps({"step": steps, **columns}).values()])

    chosen = {name: causes[name] for name in ALIGNMENTS}
    return CausesOverTimeData(
        steps, np.stack(list(chosen.values())), onsets(chosen), np.stack(list(measures.values())), onsets(measures),
        *phase_ends(phases), phases.summary,
    )  # fmt: skip


def draw_causes_over_time(data: CausesOverTimeData, made: Figure) -> None:
    upper, lower = made.subplots(2, 1, sharex=True)
    for name, values, onset in zip(ALIGNMENTS, data.causes, data.onsets, strict=True):
        _draw(upper, data.steps, values, name, name, onset)
    for (name, column), values, onset in zip(MEASURES.items(), data.measures, data.measure_onsets, strict=True):
        _draw(lower, data.steps, values, name, column_label(column), onset)
    for axes, title, ylabel in (
        (upper, "causes", "interchange accuracy"),
        (lower, "the paper's measures", "share or accuracy"),
    ):
        axes.set(ylabel=ylabel, ylim=(-0.02, 1.04), xlim=(0, max(1, data.steps[-1])))
        axes.axhline(0.5, color=GREY, linewidth=0.7, zorder=1)
        axes.legend(
            loc="center left",
            bbox_to_anchor=(1.0, 0.5),
            title=f"{title}\n(step from which above ½)",
            alignment="left",
            labelspacing=0.5,
        )
        rule_phases(axes, data.ends)
    lower.set_xlabel("training step")
    name_phases(upper, data.phases, data.ends, data.summary)


def _draw(axes: Axes, steps: np.ndarray, values: np.ndarray, name: str, label: str, onset: int) -> None:
    color, line = LOOKS[name]
    when = f"{onset:,}" if onset >= 0 else "never"
    axes.plot(
        steps, values, color=color, linestyle=line, label=chr(10).join(wrap(f"{label}: {when}", 30)), **dots(steps)
    )
