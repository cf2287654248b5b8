"""Figures of section 6: `progress_measures`, both mechanisms along training; `early` and `late`, the two spikes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from assignadd.dynamics.curves import Spike
from assignadd.dynamics.phases import Phases
from assignadd.dynamics.trajectory import checkpoints_around, curves_of, late_variable_of, phases_of, trajectory_of
from assignadd.figure.record import Absent, FigureData, FigureRecord
from assignadd.figure.style import (
    DARK_FROM,
    bar,
    box,
    box_cells,
    dots,
    draw_heat,
    name_phases,
    name_ticks,
    write_cells,
)
from assignadd.measures.accuracies import SLOTS
from assignadd.measures.columns import ADDING_AND_COPYING, MEASURES, ROUTING
from assignadd.measures.scores import qk1_equals_parts, qk1_equals_to_variables, qk2_ov1_var_scores, qk2_path_terms
from assignadd.network import Network
from assignadd.palette import BLUE, GREY, INK, RED, SPIKE, VERMILION
from assignadd.paper.binding.figures import attention_data, draw_pattern, draw_variable_scores, n_matching
from assignadd.paper.dynamics.spikes import around_late_spike
from assignadd.task import examples

# The measures that figure `progress_measures` shows, by name without the number of variables.
SHOWN = {column.family: column for column in MEASURES if column.panel}


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
    """The measures in `SHOWN` along training: their mean and range over the types of sequences at each checkpoint."""
    by_measure = {}  # (types, checkpoints)
    for name, measure in SHOWN.items():
        of_types = [columns[column] for column in measure.columns(columns)]
        if of_types:
            by_measure[name] = np.stack(of_types)
    end_of_phase = dict(phases.boundaries)
    return ProgressMeasuresData(
        steps=columns["step"],
        names=list(by_measure),
        measures=np.stack([curves.mean(0) for curves in by_measure.values()]),
        low=np.stack([curves.min(0) for curves in by_measure.values()]),
        high=np.stack([curves.max(0) for curves in by_measure.values()]),
        phases=list(end_of_phase),
        ends=np.array(list(end_of_phase.values()), dtype=int),
        summary=phases.summary,
    )


def draw_progress_measures(data: ProgressMeasuresData, figure: Figure) -> None:
    """Draws measures of adding and copying above and of routing below, with a line where each phase ends."""
    upper, lower = figure.subplots(2, 1, sharex=True)
    first_step = data.steps[data.steps > 0].min(initial=data.steps[-1])  # 0 if there is no other step
    linear_to = 10.0 ** np.floor(np.log10(max(1, first_step)))  # so that step 0 is on the axis
    for axes, panel in ((upper, ADDING_AND_COPYING), (lower, ROUTING)):
        for row, name in enumerate(data.names):
            measure = SHOWN[name]
            if measure.panel != panel:
                continue
            width, marker_size, zorder = (1.4, 2.6, 2.5) if measure.paper else (0.8, 1.6, 2.6)
            line: Any = {"color": measure.colour, "linestyle": measure.line, "linewidth": width, "zorder": zorder}
            label = "\n".join(wrap(measure.label, 26))
            axes.plot(data.steps, data.measures[row], label=label, **line, **dots(data.steps, marker_size))
            axes.fill_between(data.steps, data.low[row], data.high[row], color=measure.colour, alpha=0.13, linewidth=0)
        if not axes.lines:
            axes.plot([], [], linestyle="none", label="none of these is defined\nfor this network")
        axes.set_xscale("symlog", linthresh=linear_to, linscale=0.3)
        axes.set(ylabel="share or accuracy", ylim=(-0.02, 1.04), xlim=(0, 1.25 * max(1, data.steps[-1])))
        beside_axes: Any = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5), "alignment": "left"}
        axes.legend(title=panel, handlelength=2.2, labelspacing=0.5, **beside_axes)
        for step in data.ends:
            axes.axvline(step, color=INK, linewidth=0.8, linestyle=(0, (4, 2)), zorder=1.5)
    lower.set_xlabel("training step (log scale)")
    explanation = "attends to: mean over sums with\n0, 1, 2 variables; band: range"
    lower.text(1.03, 0.0, explanation, transform=lower.transAxes, fontsize=7)
    name_phases(upper, data.phases, data.ends, data.summary)


# The sequence of figure `attention` with c instead of b, which the paper and the presets ban from a slot.
SUM_WITH_C = examples.ATTENTION.replace("b", "c")


@dataclass(frozen=True)
class EarlyData(FigureData):
    steps: np.ndarray  # (2,): before, after
    tokens: list[str]
    attention: np.ndarray  # (2, T, T): before and after, layer 1; query, key; NaN where the key is ahead of the query
    to_operands: np.ndarray  # (T, T): true in the two cells from `=` to the operands
    variables: np.ndarray  # (2, V, V): before and after, the QK2 scores between copied variables
    letters: list[str]


def early_data(network: Network) -> EarlyData | Absent:
    """Attention and scores at the last checkpoint before the first spike and the first after it; else why not."""
    spike = phases_of(network).first_spike
    if spike is None:
        return Absent(f"seed {network.seed}: no first spike\n{phases_of(network).summary}")
    steps = checkpoints_around(network.steps, spike)
    before = attention_data(network.stack_at(steps[0]), SUM_WITH_C)
    after = attention_data(network.stack_at(steps[1]), SUM_WITH_C)
    return EarlyData(
        steps=np.array(steps),
        tokens=before.tokens,
        attention=np.stack([before.patterns[0], after.patterns[0]]),  # of layer 1
        to_operands=before.to_operands,
        variables=qk2_ov1_var_scores(network.checkpoints(steps)).numpy(force=True),
        letters=list(network.config.task.variables),
    )


def draw_early(data: EarlyData, figure: Figure) -> None:
    """Draws attention above and scores between variables below, before the spike on the left and after it right."""
    upper, lower = figure.subplots(2, 2, height_ratios=(1.12, 1))
    largest = float(np.abs(data.variables).max())
    for i, when in enumerate(("before", "after")):
        pattern, step = data.attention[i], data.steps[i]
        attention_image = draw_pattern(upper[i], pattern, data.tokens)
        box_cells(upper[i], data.to_operands, RED)
        values = [f"to {data.tokens[key]}: {pattern[query, key]:.2f}" for query, key in np.argwhere(data.to_operands)]
        corner: Any = {"transform": upper[i].transAxes, "ha": "right", "va": "top", "linespacing": 1.4}
        upper[i].text(0.98, 0.95, "\n".join(["= attends", *values]), **corner)
        upper[i].set_title(f"({'ab'[i]}) {when}: step {step:,}")
        scores_image = draw_variable_scores(lower[i], data.variables[i], data.letters, (-largest, largest))
        matching = f"{n_matching(data.variables[i])} of {len(data.letters)} match"
        lower[i].set_title(f"({'cd'[i]}) step {step:,}: {matching}")
    upper[0].set_ylabel("attending (query)")
    lower[0].set_ylabel("variable held by = (query)")
    bar(attention_image, list(upper), "layer-1 attention")
    bar(scores_image, list(lower), "score under QK$_2$")


AROUND, AT_MOST = 3000, 32  # figure `late` shows these steps around a spike, thinned to this many checkpoints
MINUS = "\u2212"  # as wide as a digit, unlike the hyphen
TWICE_BANNED = "2-var var-restricted (2)"
# Of the late variable in its slot, of what it is compared with, and of all other variables.
LATE_STYLE: dict[str, Any] = {"color": VERMILION, "linewidth": 1.6, "zorder": 3}
OTHER_STYLE: dict[str, Any] = {"color": BLUE, "linewidth": 1.3, "linestyle": (0, (4, 1.5)), "zorder": 2.5}
THIN_STYLE: dict[str, Any] = {"color": GREY, "linewidth": 0.6, "alpha": 0.8}
LEGEND_ABOVE: dict[str, Any] = {  # above the axes, where no curve can run through the legend
    "loc": "lower left", "bbox_to_anchor": (-0.02, 0.98), "ncols": 2, "handlelength": 1.6, "handletextpad": 0.5,
    "columnspacing": 1.0, "borderaxespad": 0,
}  # fmt: skip


@dataclass(frozen=True)
class LateData(FigureData):
    steps: np.ndarray  # (checkpoints,): the window
    variable: str
    slot: str
    letters: list[str]
    spike: np.ndarray  # (2,): the checkpoints just before and just after it
    ends: np.ndarray  # (2,): the checkpoints before and after the rise, which panel (c) compares
    asked: np.ndarray  # (checkpoints, V): the QK1 score of `=` for each variable, (E_= + P_=) QK1 E_v
    accuracy: np.ndarray  # (checkpoints,): sums with the variable in its slot
    twice_banned_steps: np.ndarray
    twice_banned: np.ndarray  # accuracy with both operands in banned slots
    compared: list[str]
    parts: np.ndarray  # (2, 2, compared): before and after; E_= and P_=; QK1 E_v
    path: np.ndarray  # (checkpoints, 2, V): the term of the QK2 score, by slot and variable


@torch.no_grad()
def late_data(network: Network) -> LateData | Absent:
    """Scores and accuracy of the variable that is learned last, at checkpoints after the first spike; else why not."""
    first_spike = phases_of(network).first_spike
    late = late_variable_of(network)
    ends = around_late_spike(network)
    if first_spike is None or late is None or late.spike is None or not ends:
        reason = phases_of(network).summary if late is None else f"{late.variable} comes last, and its sums never jump"
        return Absent(f"seed {network.seed}: no second spike\n{reason}")
    task = network.config.task
    columns = trajectory_of(network)
    all_steps = columns["step"]
    steps = window(all_steps[all_steps >= first_spike.after], late.spike, ends)
    accuracy = columns[f"accuracy {late.variable} {late.slot}"][np.searchsorted(all_steps, steps)]
    curves = curves_of(network)
    in_window = (curves.steps >= steps[0]) & (curves.steps <= steps[-1])  # (evaluations,)
    if TWICE_BANNED in curves.accuracy:
        twice_banned_steps, twice_banned = curves.steps[in_window], curves.accuracy[TWICE_BANNED][in_window]
    else:  # the task has no such sums, and the figure no such curve
        twice_banned_steps, twice_banned = curves.steps[:0], np.zeros(0)
    stack = network.checkpoints(steps.tolist())
    other_letters = [letter for letter in task.variables if letter != late.variable]
    compared = sorted([late.variable, *other_letters[:4]])  # the variables in panel (c)
    parts = qk1_equals_parts(network.checkpoints(ends)).numpy(force=True)  # (2, 2, V)
    return LateData(
        steps=steps, variable=late.variable, slot=late.slot, letters=list(task.variables),
        spike=np.array([late.spike.before, late.spike.after]), ends=np.array(ends),
        asked=qk1_equals_to_variables(stack).numpy(force=True), accuracy=accuracy,
        twice_banned_steps=twice_banned_steps, twice_banned=twice_banned,
        compared=compared, parts=parts[..., [task.variables.index(letter) for letter in compared]],
        path=qk2_path_terms(stack).numpy(force=True),
    )  # fmt: skip


def window(steps: np.ndarray, spike: Spike, ends: Sequence[int]) -> np.ndarray:
    """The steps that figure `late` shows: those of `steps` around a spike, thinned, and the `ends` of its panel (c)."""
    # Within AROUND of the spike's own two checkpoints, and in any case one more on either side.
    i_before, i_after = np.searchsorted(steps, [spike.before, spike.after])
    first = min(spike.before - AROUND, steps[max(0, i_before - 1)])
    last = max(spike.after + AROUND, steps[min(len(steps) - 1, i_after + 1)])
    near = steps[(steps >= first) & (steps <= last)]
    i_thinned = np.linspace(0, len(near) - 1, min(AT_MOST, len(near))).round().astype(int)
    return np.union1d(near[i_thinned], [spike.before, spike.after, *ends])


def late_caption(data: LateData) -> str:
    """How score, term and accuracy of the late variable change between the two checkpoints of panel (c), in words."""
    v = data.letters.index(data.variable)
    i_ends = np.searchsorted(data.steps, data.ends)  # the indices of the two checkpoints
    score, accuracy = data.asked[i_ends, v], data.accuracy[i_ends]  # (2,) each
    term = data.path[i_ends, SLOTS.index(data.slot), v]
    caption = (
        f"Here it is {data.variable} in the {data.slot} slot. From step {data.ends[0]:,} to {data.ends[1]:,} its score "
        f"goes from {score[0]:.2f} to {score[1]:.2f}, its term from {term[0]:.2f} to {term[1]:.2f} and its accuracy "
        f"from {accuracy[0]:.2f} to {accuracy[1]:.2f}."
    )
    return caption.replace(" -", f" {MINUS}")


def draw_late(data: LateData, figure: Figure) -> None:
    """Draws the panels: (a) scores of `=`, (b) accuracy, (c) the two parts of the scores, (d) the term of QK2."""
    grid = figure.add_gridspec(2, 2)
    # The axes of (a), (b) and (d); those of (c) are drawn at once.
    scores = figure.add_subplot(grid[0, 0])
    accuracy = figure.add_subplot(grid[0, 1])
    path = figure.add_subplot(grid[1, 1])
    parts = grid[1, 0].subgridspec(2, 1)
    _draw_parts([figure.add_subplot(parts[i]) for i in range(2)], data)
    v = data.letters.index(data.variable)
    slot = SLOTS.index(data.slot)
    other_slot = 1 - slot
    late_style = LATE_STYLE | dots(data.steps)
    other_style = OTHER_STYLE | dots(data.steps)

    scores.plot(data.steps, data.asked[:, v], label=data.variable, **late_style)
    scores.plot(data.steps, np.delete(data.asked, v, 1), **THIN_STYLE)[0].set_label("every other variable")
    scores.set_title("(a) score of = for a variable")
    scores.set_ylabel("(E$_=$ + P$_=$) QK$_1$ E$_v$")

    accuracy.plot(data.steps, data.accuracy, label=f"{data.variable} {data.slot}", **late_style)
    if len(data.twice_banned):
        twice = OTHER_STYLE | dots(data.twice_banned_steps)
        accuracy.plot(data.twice_banned_steps, data.twice_banned, label="both operands banned", **twice)
    accuracy.set_title("(b) sums of two variables")
    accuracy.set(ylabel="accuracy", ylim=(-0.03, 1.04))

    path.plot(data.steps, data.path[:, slot, v], label=f"{data.variable} {data.slot}", **late_style)
    path.plot(data.steps, data.path[:, other_slot, v], label=f"{data.variable} {SLOTS[other_slot]}", **other_style)
    path.plot(data.steps, np.delete(data.path[:, slot], v, 1), **THIN_STYLE)
    path.set_title(f"(d) = finds the value of {data.variable} in layer 2")
    path.set_ylabel("term of the QK$_2$ score")

    for axes in (scores, accuracy, path):
        axes.axvspan(*data.spike, color=SPIKE, linewidth=0, zorder=0)
        axes.set(xlim=(data.steps[0], data.steps[-1]), xlabel="training step")
        axes.locator_params(axis="x", nbins=4)
        axes.legend(**LEGEND_ABOVE)
        axes.set_title(axes.get_title("left"), pad=19)  # higher up, above the legend


def _draw_parts(panels: list[Axes], data: LateData) -> None:
    """Draws panel (c): heat maps of both parts of the scores, before and after, on one scale; late variable boxed."""
    largest = float(np.abs(data.parts).max())
    v = data.compared.index(data.variable)
    for axes, when, step, parts in zip(panels, ("before", "after"), data.ends, data.parts, strict=True):
        image = draw_heat(axes, parts, limits=(-largest, largest))
        name_ticks(axes, ["E$_=$", "P$_=$"], data.compared)
        axes.set_ylabel(f"{when}\n{step:,}")
        words = [f"{value:.1f}".replace("-", MINUS) for value in parts.flat]
        write_cells(axes, words, abs(parts) > DARK_FROM * largest)
        box(axes, (0, 1), (v, v), VERMILION)
    panels[0].tick_params(labelbottom=False)
    panels[0].set_title("(c) the two parts of (a)")
    panels[1].set_xlabel("variable $v$")
    bar(image, panels, "QK$_1$ E$_v$", aspect=22)


PROGRESS_MEASURES_FIGURE = FigureRecord(
    "progress_measures", "Progress measures and phases",
    "Above, measures of adding and of copying a variable into its number; below, of routing. Look whether those "
    "above are complete before those below rise, and whether that rise is a jump at (a). Thin lines are "
    "other layers and variants: without the two rows that cannot fail, and a probe trained for only four steps, "
    "whose rise is partly the probe's own.",
    lambda s: progress_measures_data(trajectory_of(s.model), phases_of(s.model)), draw_progress_measures, height=4.4,
    found=lambda data: f"In this run: {data.summary}.", along_training=True,
)  # fmt: skip
EARLY_FIGURE = FigureRecord(
    "early", "Across the first spike",
    "Above, the boxed cells are layer 1's attention from `=` to the two operands. Below, a dark diagonal means "
    "that each variable finds itself; `match` counts variables whose best score is with themselves.",
    lambda s: early_data(s.model), draw_early, height=5.3, along_training=True,
)  # fmt: skip
LATE_FIGURE = FigureRecord(
    "late", "The variable that comes last",
    "The orange curve is the last variable that the network learned to look up, in its slot. Look whether the "
    "score of `=` for it is lower than for the others (a), whether the term of the QK2 score with its value is "
    "negative (d), and whether both rise before or with its accuracy (b).",
    lambda s: late_data(s.model), draw_late, height=4.6, found=late_caption, along_training=True,
)  # fmt: skip
