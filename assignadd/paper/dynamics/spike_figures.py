"""Figures `early` and `late`: the first spike, and the variable that is learned last (paper, section 6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from assignadd.config import Task
from assignadd.dynamics.curves import Spike
from assignadd.dynamics.phases import LateVariable
from assignadd.dynamics.trajectory import checkpoints_around, curves_of, late_variable_of, phases_of, trajectory_of
from assignadd.figure.record import Absent, FigureData, FigureRecord
from assignadd.figure.style import DARK_FROM, bar, box, cells, dots, draw_heat, name_ticks, write_cells
from assignadd.measures.accuracies import SLOTS
from assignadd.measures.scores import qk1_equals_parts, qk1_equals_to_variables, qk2_ov1_var_scores, qk2_path_terms
from assignadd.network import Network
from assignadd.palette import BLUE, GREY, RED, SHARES, SPIKE, VERMILION
from assignadd.paper.binding.figures import attention_data
from assignadd.paper.dynamics.second_spike import around_late_spike
from assignadd.task import examples
from assignadd.task.positions import operand_slots
from assignadd.task.text import render_tokens
from assignadd.task.vocabulary import Vocabulary


@dataclass(frozen=True)
class EarlyData(FigureData):
    steps: np.ndarray  # (2,): before, after
    tokens: list[str]
    attention: np.ndarray  # (2, T, T): before and after, layer 1; query, key; NaN where the key is ahead of the query
    to_operands: np.ndarray  # (T, T): true in the two cells from `=` to the operands
    variables: np.ndarray  # (2, V, V): before and after, the QK2 scores between copied variables
    letters: list[str]


def early_data(network: Network) -> EarlyData | Absent:
    """Attention and scores at the last checkpoint before the first spike and at the first one after it."""
    spike = phases_of(network).first_spike
    task = network.config.task
    if spike is None:
        return Absent(f"seed {network.seed}: no first spike\n{phases_of(network).summary}")
    steps = checkpoints_around(network.steps, spike)
    stacks = [network.stack_at(step) for step in steps]
    text = render_tokens(allowed_example(task), task)
    before = attention_data(stacks[0], text)
    after = attention_data(stacks[1], text)
    return EarlyData(
        steps=np.array(steps),
        tokens=before.tokens,
        attention=np.stack([before.patterns[0], after.patterns[0]]),  # of layer 1
        to_operands=before.to_operands,
        variables=np.stack([_array(qk2_ov1_var_scores(stack)[0]) for stack in stacks]),
        letters=list(task.variables),
    )


def allowed_example(task: Task) -> list[int]:
    """The tokens of figure `attention`'s sequence, with a variable that is banned from no slot if the task has one.

    A variable in a banned slot may be looked up long after the first spike.
    """
    tokens = examples.fitted(examples.ATTENTION, task)
    vocabulary = Vocabulary(task)
    if tokens is None:
        raise ValueError("the task has no sums with one variable")
    variable = vocabulary.name(tokens[operand_slots(task)[0]])
    never_banned = [letter for letter in task.variables if letter not in task.banned_first + task.banned_second]
    if variable in never_banned or not never_banned:
        return tokens
    return examples.exchanged(tokens, vocabulary.variable(variable), vocabulary.variable(never_banned[0]))


def early_caption(data: EarlyData) -> str:
    """The values of the boxed cells and the number of matches before and after the spike, in words."""
    before, after = data.attention
    changes = [
        f"to {data.tokens[key]} from {before[query, key]:.2f} to {after[query, key]:.2f}"
        for query, key in np.argwhere(data.to_operands)
    ]
    matches_before, matches_after = matches(data)
    counts = f"{matches_before} of {len(data.letters)} variables match before it and {matches_after} after it"
    return f"Across this spike attention goes {' and '.join(changes)}; {counts}."


def matches(data: EarlyData) -> list[int]:
    """How many variables have their best score with themselves, before and after the spike."""
    own_index = np.arange(len(data.letters))
    return [int((scores.argmax(1) == own_index).sum()) for scores in data.variables]


def draw_early(data: EarlyData, figure: Figure) -> None:
    """Draws attention above and scores between variables below, before the spike on the left and after it right."""
    upper, lower = figure.subplots(2, 2, height_ratios=(1.12, 1))
    largest = float(np.abs(data.variables).max())
    for i, (when, matching) in enumerate(zip(("before", "after"), matches(data), strict=True)):
        attention_image = draw_heat(upper[i], data.attention[i], SHARES, (0, 1))
        _label_attention(upper[i], data, data.attention[i])
        upper[i].set_title(f"({'ab'[i]}) {when}: step {data.steps[i]:,}")
        scores_image = draw_heat(lower[i], data.variables[i], limits=(-largest, largest))
        name_ticks(lower[i], data.letters, data.letters)
        lower[i].set_title(f"({'cd'[i]}) step {data.steps[i]:,}: {matching} of {len(data.letters)} match")
        lower[i].set(xlabel="variable held by a number (key)", aspect="equal")
    upper[0].set_ylabel("attending (query)")
    lower[0].set_ylabel("variable held by = (query)")
    bar(attention_image, list(upper), "layer-1 attention")
    bar(scores_image, list(lower), "score under QK$_2$")


def _label_attention(ax: Axes, data: EarlyData, pattern: np.ndarray) -> None:
    """Names the tokens along both axes, and draws boxes around the cells from `=` to the operands.

    The values of these cells are written into the upper corner, which a causal pattern leaves empty.
    """
    name_ticks(ax, data.tokens, data.tokens)
    ax.tick_params(axis="x", rotation=90)
    cells(ax, data.to_operands, RED)
    values = [f"to {data.tokens[key]}: {pattern[query, key]:.2f}" for query, key in np.argwhere(data.to_operands)]
    ax.text(
        0.98, 0.95, "\n".join(["= attends", *values]), transform=ax.transAxes, ha="right", va="top", linespacing=1.4
    )
    ax.set(xlabel="attended to (key)", aspect="equal")


# Figure `late` shows checkpoints as far as AROUND steps from the spike, as scores move for a while before accuracy
# jumps; at least AT_LEAST checkpoints on either side, however far, and AT_MOST in all.
AROUND = 3000
AT_LEAST = 2
AT_MOST = 36
COMPARED = 5  # variables in (c)
MINUS = "\u2212"  # as wide as a digit, unlike the hyphen
TWICE_BANNED = "2-var var-restricted (2)"
# How the late variable in its slot is drawn, and below what it is compared with.
LATE_STYLE: dict[str, Any] = {"color": VERMILION, "linewidth": 1.6, "zorder": 3}
LEGEND_ABOVE: dict[str, Any] = {  # above the axes, where no curve can run through the legend
    "loc": "lower left", "bbox_to_anchor": (-0.02, 0.98), "ncols": 2, "handlelength": 1.6, "handletextpad": 0.5,
    "columnspacing": 1.0, "borderaxespad": 0,
}  # fmt: skip
OTHER_STYLE: dict[str, Any] = {"color": BLUE, "linewidth": 1.3, "linestyle": (0, (4, 1.5)), "zorder": 2.5}


@dataclass(frozen=True)
class LateData(FigureData):
    steps: np.ndarray  # (checkpoints,): the window
    variable: str
    slot: str
    letters: list[str]
    spike: np.ndarray  # (2,): the checkpoints just before and just after it
    ends: np.ndarray  # (2,): the checkpoints before and after the rise, which (c) compares
    asked: np.ndarray  # (checkpoints, V): the QK1 score of `=` for each variable, (E_= + P_=) QK1 E_v
    accuracy: np.ndarray  # (checkpoints,): sums with the variable in its slot
    twice_banned_steps: np.ndarray
    twice_banned: np.ndarray  # accuracy with both operands in banned slots
    compared: list[str]
    parts: np.ndarray  # (2, 2, compared): before and after; E_= and P_=; QK1 E_v
    path: np.ndarray  # (checkpoints, 2, V): the term of the QK2 score, by slot and variable


@torch.no_grad()
def late_data(network: Network) -> LateData | Absent:
    """Scores and accuracy of the variable that is learned last, at checkpoints after the first spike."""
    first = phases_of(network).first_spike
    late = late_variable_of(network)
    ends = around_late_spike(network)
    if first is None or late is None or late.spike is None or ends is None:
        return Absent(_why_absent(network, late))
    task = network.config.task
    columns = trajectory_of(network)
    all_steps = columns["step"]
    steps = window(all_steps[all_steps >= first.after], late.spike, ends)
    accuracy = columns[f"accuracy {late.variable} {late.slot}"][np.searchsorted(all_steps, steps)]
    curves = curves_of(network)
    in_window = (curves.steps >= steps[0]) & (curves.steps <= steps[-1])  # (evaluations,)
    if TWICE_BANNED in curves.accuracy:
        twice_banned_steps = curves.steps[in_window]
        twice_banned = curves.accuracy[TWICE_BANNED][in_window]
    else:  # the task has no such set, and the figure no such curve
        twice_banned_steps = curves.steps[:0]
        twice_banned = np.zeros(0)
    stack = network.checkpoints(steps.tolist())
    compared = companions(task, late)
    parts = _array(qk1_equals_parts(network.checkpoints(ends)))  # (2, 2, V)
    return LateData(
        steps=steps, variable=late.variable, slot=late.slot, letters=list(task.variables),
        spike=np.array([late.spike.before, late.spike.after]), ends=np.array(ends),
        asked=_array(qk1_equals_to_variables(stack)), accuracy=accuracy,
        twice_banned_steps=twice_banned_steps, twice_banned=twice_banned,
        compared=compared, parts=parts[..., [task.variables.index(letter) for letter in compared]],
        path=_array(qk2_path_terms(stack)),
    )  # fmt: skip


def _why_absent(network: Network, late: LateVariable | None) -> str:
    """Why a network has no spike of a late variable, in words."""
    if late is not None:
        never_jumps = f"{late.variable} in the {late.slot} slot comes last, and its accuracy never jumps"
        return f"seed {network.seed}: no second spike\n{never_jumps}"
    phases = phases_of(network)
    if phases.first_spike:
        reason = "half of the sums of every variable were right by the first spike"
    else:
        reason = phases.summary
    return f"seed {network.seed}: no late variable\n{reason}"


def window(steps: np.ndarray, spike: Spike, ends: tuple[int, int]) -> np.ndarray:
    """The checkpoints of `steps` that figure `late` shows: those around a spike, evenly thinned where there are many.

    The two checkpoints beside the spike and the two of (c), `ends`, are always among them.
    """
    before = int(np.searchsorted(steps, spike.before))  # the indices of the checkpoints beside the spike
    after = int(np.searchsorted(steps, spike.after))
    first_near = int(np.searchsorted(steps, spike.before - AROUND))
    last_near = int(np.searchsorted(steps, spike.after + AROUND, side="right")) - 1
    # As far as `AROUND` steps, but with at least `AT_LEAST` checkpoints on either side.
    first = min(first_near, max(0, before - AT_LEAST + 1))
    last = max(last_near, min(len(steps) - 1, after + AT_LEAST - 1))
    count = min(AT_MOST - 4, last - first + 1)  # four more are added below
    thinned = np.linspace(first, last, count).round().astype(int)
    return np.unique(np.concatenate([steps[thinned], [spike.before, spike.after], ends]))


def companions(task: Task, late: LateVariable) -> list[str]:
    """The letters that (c) compares: the late variable and four others, in alphabetical order.

    Those banned from its slot come first, then those that are never banned, then the rest.
    """
    banned_from_slot = {"first": task.banned_first, "second": task.banned_second}[late.slot]

    def rank(letter: str) -> int:
        """The place of a variable in this order, 0 for the late one itself."""
        if letter == late.variable:
            return 0
        if letter in banned_from_slot:
            return 1
        return 3 if letter in task.banned_first + task.banned_second else 2

    return sorted(sorted(task.variables, key=rank)[:COMPARED])


def _array(values: Tensor) -> np.ndarray:
    """The numbers of a tensor, which may have a gradient and be on a GPU, as an array."""
    return values.detach().cpu().numpy()


def late_caption(data: LateData) -> str:
    """Scores and accuracy of the late variable at the checkpoints that (c) compares, in words."""
    v = data.letters.index(data.variable)
    slot = SLOTS.index(data.slot)
    before, after = np.searchsorted(data.steps, data.ends)  # indices of the checkpoints that (c) compares
    other_scores = np.delete(data.asked, v, 1)[before]
    term = data.path[:, slot, v]  # (checkpoints,)
    term_in_other_slot = data.path[:, 1 - slot, v]
    caption = (
        f"Here it is {data.variable} in the {data.slot} slot. At step {data.ends[0]:,} its score is "
        f"{data.asked[before, v]:.2f}, those of the others {other_scores.min():.2f} to "
        f"{other_scores.max():.2f}. At step {data.ends[1]:,} its score is {data.asked[after, v]:.2f}; in "
        f"between its term goes from {term[before]:.2f} to {term[after]:.2f} (at least "
        f"{term_in_other_slot.min():.2f} in the other slot) and its accuracy from {data.accuracy[before]:.2f} to "
        f"{data.accuracy[after]:.2f}."
    )
    return caption.replace(" -", f" {MINUS}")  # negative numbers


def draw_late(data: LateData, figure: Figure) -> None:
    """Draws the panels: (a) scores of `=`, (b) accuracy, (c) the two parts of the scores, (d) the term of QK2."""
    grid = figure.add_gridspec(2, 2)
    scores = figure.add_subplot(grid[0, 0])
    accuracy = figure.add_subplot(grid[0, 1])
    path = figure.add_subplot(grid[1, 1])
    _draw_scores(scores, data)
    _draw_accuracy(accuracy, data)
    pair = grid[1, 0].subgridspec(2, 1)
    _draw_parts([figure.add_subplot(pair[i]) for i in range(2)], data)
    _draw_path(path, data)
    for axes in (scores, accuracy, path):
        axes.axvspan(*data.spike, color=SPIKE, linewidth=0, zorder=0)
        axes.set(xlim=(data.steps[0], data.steps[-1]), xlabel="training step")
        axes.locator_params(axis="x", nbins=4)
        axes.legend(**LEGEND_ABOVE)
        axes.set_title(axes.get_title("left"), pad=19)  # higher up, above the legend


def _draw_scores(axes: Axes, data: LateData) -> None:
    """Draws (a): the QK1 score of `=` for the late variable, and thin grey curves for all others."""
    v = data.letters.index(data.variable)
    axes.plot(data.steps, data.asked[:, v], label=data.variable, **LATE_STYLE, **dots(data.steps))
    _draw_others(axes, data.steps, np.delete(data.asked, v, 1), "every other variable")
    axes.set_title("(a) score of = for a variable")
    axes.set_ylabel("(E$_=$ + P$_=$) QK$_1$ E$_v$")


def _draw_accuracy(axes: Axes, data: LateData) -> None:
    """Draws (b): accuracy on the late variable's sums, and on sums with both operands in banned slots."""
    axes.plot(data.steps, data.accuracy, label=f"{data.variable} {data.slot}", **LATE_STYLE, **dots(data.steps))
    if len(data.twice_banned):
        steps = data.twice_banned_steps
        axes.plot(steps, data.twice_banned, label="both operands banned", **OTHER_STYLE, **dots(steps))
    axes.set_title("(b) sums of two variables")
    axes.set(ylabel="accuracy", ylim=(-0.03, 1.04))


def _draw_parts(panels: list[Axes], data: LateData) -> None:
    """Draws (c): heat maps of the two parts of the scores, before and after, on one scale; the late variable boxed."""
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


def _draw_path(axes: Axes, data: LateData) -> None:
    """Draws (d): the term of the QK2 score for the late variable in both slots, and for all others in its slot."""
    v = data.letters.index(data.variable)
    late_slot = SLOTS.index(data.slot)
    for slot, style in ((late_slot, LATE_STYLE), (1 - late_slot, OTHER_STYLE)):
        label = f"{data.variable} {SLOTS[slot]}"
        axes.plot(data.steps, data.path[:, slot, v], label=label, **style, **dots(data.steps))
    _draw_others(axes, data.steps, np.delete(data.path[:, late_slot], v, 1), None)
    axes.set_title(f"(d) = finds the value of {data.variable} in layer 2")
    axes.set_ylabel("term of the QK$_2$ score")


def _draw_others(axes: Axes, steps: np.ndarray, curves: np.ndarray, label: str | None) -> None:
    """Draws thin grey curves, (checkpoints, curves), of which the legend has only the first."""
    for i, curve in enumerate(curves.T):
        axes.plot(steps, curve, label=label if i == 0 else None, color=GREY, linewidth=0.6, alpha=0.8)


EARLY_FIGURE = FigureRecord(
    "early", "Across the first spike",
    "Above, the boxed cells are layer 1's attention from `=` to the two operands. Below, a dark diagonal means "
    "that each variable finds itself; `match` counts variables whose best score is with themselves.",
    lambda s: early_data(s.model), draw_early, height=5.3, found=early_caption, along_training=True,
)  # fmt: skip
LATE_FIGURE = FigureRecord(
    "late", "The variable that comes last",
    "The orange curve is the last variable that the network learned to look up, in its slot. Look whether the "
    "score of `=` for it is lower than for the others (a), whether the term of the QK2 score with its value is "
    "negative (d), and whether both rise before or with its accuracy (b).",
    lambda s: late_data(s.model), draw_late, height=4.6, found=late_caption, along_training=True,
)  # fmt: skip
