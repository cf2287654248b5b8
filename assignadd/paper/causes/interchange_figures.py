"""Figures `interchange` and `causes_over_time` (ours): where the program's variables are held, and since which step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from assignadd.dynamics.phases import Phases
from assignadd.dynamics.trajectory import phases_of, trajectory_of
from assignadd.figure.record import FigureData, FigureRecord
from assignadd.figure.style import (
    dots,
    draw_heat,
    legend_beside,
    name_phases,
    phase_ends,
    rule_phases,
    write_cells,
)
from assignadd.measures.columns import column_label
from assignadd.palette import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, SHARES, SKY, VERMILION
from assignadd.paper.causes.interchange import (
    ALIGNMENTS,
    PAPER_MEASURES,
    QUERY_AND_TAG,
    Outcome,
    causes_over_time,
    interchange_of,
    onset_steps,
    untrained_interchange,
)
from assignadd.stats import wilson

VARIANTS: dict[str, dict[str, Any]] = {
    "whole": {"color": BLUE, "marker": "o", "label": "the whole activation"},
    "named": {"color": SKY, "marker": "s", "label": "the paper's directions alone"},
    "random": {"color": GREY, "marker": "D", "label": "as many random directions"},
    "elsewhere": {"color": ORANGE, "marker": "X", "label": "another place"},
    "untrained": {"color": VERMILION, "marker": "v", "label": "untrained network"},
}
# Shown by the number of variables in the sum, as a literal beside the variable makes a difference.
QUERIES = {"operand query": (1, 2), "query in QK2": (1, 2), QUERY_AND_TAG: (1,)}
BY_TYPE = ("first value", "second value", "values")


@dataclass(frozen=True)
class InterchangeData(FigureData):
    alignments: list[str]  # one for each row; queries by the number of variables in the sum
    variants: list[str]
    accuracy: np.ndarray  # (alignments, variants)
    low: np.ndarray  # 95 % Wilson interval
    high: np.ndarray
    n: np.ndarray  # (alignments,): pairs of prompts
    by_types: np.ndarray  # (alignments, base, source) by numbers of variables; NaN where no pair counts


def interchange_data(trained: Mapping[str, Outcome], untrained: Mapping[str, Outcome]) -> InterchangeData:
    shown, control = _split_queries(trained), _split_queries(untrained)
    names = [name for name, outcome in shown.items() if outcome.n]
    variants = [v for v in VARIANTS if v == "untrained" or v in shown[names[0]].hits]
    counts, low, high = (np.zeros((len(names), len(variants))) for _ in range(3))
    n = np.array([shown[name].n for name in names])
    for i, name in enumerate(names):
        for j, variant in enumerate(variants):
            counts[i, j] = control[name].count() if variant == "untrained" else shown[name].count(variant)
            interval = wilson(counts[i, j], int(n[i]))
            low[i, j] = interval.low
            high[i, j] = interval.high
    by_types = np.stack([shown[name].by_types().numpy() for name in names])
    return InterchangeData(names, variants, counts / n[:, None], low, high, n, by_types)


def _split_queries(outcomes: Mapping[str, Outcome]) -> dict[str, Outcome]:
    """The alignments by the name of their row, the queries in a row for each number of variables."""
    rows: dict[str, Outcome] = {}
    for name, outcome in outcomes.items():
        split = {f"{name}, {k} variable{'s' * (k > 1)}": outcome.with_variables(k) for k in QUERIES.get(name, ())}
        rows |= split or {name: outcome}
    return rows


def interchange_caption(data: InterchangeData) -> str:
    """The lowest accuracy with the whole activation and the highest of a control, in words."""
    whole = data.accuracy[:, data.variants.index("whole")]
    lowest = int(whole.argmin())
    controls = [i for i, v in enumerate(data.variants) if v not in ("whole", "named")]
    highest = data.accuracy[:, controls].max()
    return (
        f"Here the whole activation reaches {whole.max():.2f} at best and {whole[lowest]:.2f} at worst "
        f"({data.alignments[lowest]}); no control is above {highest:.2f}."
    )


def draw_interchange(data: InterchangeData, made: Figure) -> None:
    grid = made.add_gridspec(len(BY_TYPE), 2, width_ratios=(2, 1))
    _draw_alignments(data, made.add_subplot(grid[:, 0]))
    for row, name in enumerate(BY_TYPE):
        _draw_types(data, name, made.add_subplot(grid[row, 1]), last=row == len(BY_TYPE) - 1)


def _draw_alignments(data: InterchangeData, axes: Axes) -> None:
    y = np.arange(len(data.alignments))
    for i, variant in enumerate(data.variants):
        value, look = data.accuracy[:, i], VARIANTS[variant]
        errors = np.stack([value - data.low[:, i], data.high[:, i] - value]).clip(0)
        axes.errorbar(value, y + 0.13 * (i - 2), xerr=errors, linestyle="none", markersize=4, elinewidth=0.9, **look)
    axes.set_yticks(y, [f"{a}\n({n:,} pairs)" for a, n in zip(data.alignments, data.n, strict=True)])
    axes.set(xlim=(-0.03, 1.03), ylim=(len(y) - 0.5, -0.5), xlabel="interchange accuracy")
    axes.set_title("(a) exchanged between prompts")
    axes.legend(loc="upper center", bbox_to_anchor=(0.4, -0.14), ncols=2, handletextpad=0.3, columnspacing=1.0)


def _draw_types(data: InterchangeData, name: str, axes: Axes, last: bool) -> None:
    values = data.by_types[data.alignments.index(name)]
    draw_heat(axes, values, SHARES, (0, 2))
    words = ["" if np.isnan(value) else f"{value:.3f}" for value in values.flat]
    write_cells(axes, words, np.zeros_like(values))
    axes.set_xticks(range(3), list("012") if last else [""] * 3)
    axes.set_yticks(range(3), list("012"))
    axes.set(ylabel="base", xlabel="variables in the source" if last else "")
    axes.set_title(f"({'bcd'[BY_TYPE.index(name)]}) {name}")


# Colour and line of each cause, and of the measure that should tell it.
CAUSES: dict[str, tuple[str, Any]] = {
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
    names: list[str]  # of the alignments
    causes: np.ndarray  # (alignments, checkpoints)
    onsets: np.ndarray  # (alignments,): above one half to last from here on; -1 for never
    measured: list[str]  # the alignments whose measures the network has
    measures: np.ndarray  # (measures, checkpoints)
    measure_onsets: np.ndarray
    phases: list[str]
    ends: np.ndarray
    summary: str


def causes_over_time_data(
    causes: Mapping[str, np.ndarray], measured: Mapping[str, np.ndarray], phases: Phases
) -> CausesOverTimeData:
    """From the columns of interchange accuracies, and of a trajectory that was measured at these checkpoints too."""
    steps = causes["step"]
    defined = {name: column for name, column in PAPER_MEASURES.items() if column in measured}
    measures = {column: measured[column][np.isin(measured["step"], steps)] for column in defined.values()}

    def onsets(columns: Mapping[str, np.ndarray]) -> np.ndarray:
        return np.array([-1 if step is None else step for step in onset_steps({"step": steps, **columns}).values()])

    chosen = {name: causes[name] for name in ALIGNMENTS if name in causes}
    return CausesOverTimeData(
        steps, list(chosen), np.stack(list(chosen.values())), onsets(chosen),
        list(defined), np.stack(list(measures.values())), onsets(measures),
        *phase_ends(phases), phases.summary,
    )  # fmt: skip


def causes_over_time_caption(data: CausesOverTimeData) -> str:
    """The measures that are above one half before their cause is, in words."""
    when = dict(zip(data.names, data.onsets.tolist(), strict=True))
    ahead = [
        f"{name} (the measure from step {onset:,}, the cause {f'from {when[name]:,}' if when[name] >= 0 else 'never'})"
        for name, onset in zip(data.measured, data.measure_onsets.tolist(), strict=True)
        if name in when and onset >= 0 and not 0 <= when[name] <= onset
    ]
    return f"Above one half before their cause here: {'; '.join(ahead) or 'none'}."


def draw_causes_over_time(data: CausesOverTimeData, made: Figure) -> None:
    upper, lower = made.subplots(2, 1, sharex=True)
    for name, values, onset in zip(data.names, data.causes, data.onsets, strict=True):
        _draw_curve(upper, data.steps, values, name, name, onset)
    for name, values, onset in zip(data.measured, data.measures, data.measure_onsets, strict=True):
        _draw_curve(lower, data.steps, values, name, column_label(PAPER_MEASURES[name]), onset)
    for axes, title, ylabel in (
        (upper, "causes", "interchange accuracy"),
        (lower, "the paper's measures", "share or accuracy"),
    ):
        axes.set(ylabel=ylabel, ylim=(-0.02, 1.04), xlim=(0, max(1, data.steps[-1])))
        axes.axhline(0.5, color=GREY, linewidth=0.7, zorder=1)
        legend_beside(axes, f"{title}\n(step from which above ½)")
        rule_phases(axes, data.ends)
    lower.set_xlabel("training step")
    name_phases(upper, data.phases, data.ends, data.summary)


def _draw_curve(axes: Axes, steps: np.ndarray, values: np.ndarray, name: str, label: str, onset: int) -> None:
    color, line = CAUSES[name]
    when = f"{onset:,}" if onset >= 0 else "never"
    axes.plot(steps, values, color=color, linestyle=line, label=fill(f"{label}: {when}", 30), **dots(steps))


INTERCHANGE_FIGURE = FigureRecord(
    "interchange", "Where the program's variables are held",
    "(a) An activation is taken from another prompt: the share of pairs of prompts whose answer becomes what the "
    "program says, 1 where the activation holds the variable, about 0 where it does not (the controls). `query "
    "and tag` also exchanges layer 1's output at the second operand slot. (b) to (d) By the numbers of variables "
    "in both prompts: off the diagonal, operands of one kind replace operands of another.",
    lambda s: interchange_data(interchange_of(s.model), untrained_interchange(s.model)), draw_interchange, height=4.8,
    width=6.4, found=interchange_caption,
)  # fmt: skip
CAUSES_OVER_TIME_FIGURE = FigureRecord(
    "causes_over_time", "When the causes appear",
    "Interchange accuracies (above) and the paper's measures in the same colours (below). A measure that rises "
    "before its cause reads something that the network does not use yet.",
    lambda s: causes_over_time_data(causes_over_time(s.model), trajectory_of(s.model), phases_of(s.model)),
    draw_causes_over_time, height=4.4, width=6.4, found=causes_over_time_caption, along_training=True,
)  # fmt: skip
