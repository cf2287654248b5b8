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
    attention: np.ndarray  # (2, T, T): layer 1, query, key; NaN where the key is ahead of the query
    to_operands: np.ndarray  # (T, T): the two cells of `=`
    variables: np.ndarray  # (2, V, V)
    letters: list[str]


def early_data(network: Network) -> EarlyData | Absent:
    """Attention and scores at the last checkpoint before the first spike and at the first one after it."""
    spike, task = phases_of(network).first_spike, network.config.task
    if spike is None:
        return Absent(f"seed {network.seed}: no first spike\n{phases_of(network).summary}")
    steps = checkpoints_around(network.steps, spike)
    stacks = [network.stack_at(step) for step in steps]
    text = render_tokens(allowed_example(task), task)
    before = attention_data(stacks[0], text)
    after = attention_data(stacks[1], text)
    return EarlyData(
        np.array(steps),
        before.tokens,
        np.stack([before.patterns[0], after.patterns[0]]),
        before.to_operands,
        np.stack([_numbers(qk2_ov1_var_scores(stack)[0]) for stack in stacks]),
        list(task.variables),
    )


def allowed_example(task: Task) -> list[int]:
    """The sequence of figure `attention`, with a variable that may stand in both slots: a banned one may come later."""
    tokens = examples.fitted(examples.ATTENTION, task)
    vocabulary = Vocabulary(task)
    if tokens is None:
        raise ValueError("the task has no sums with one variable")
    variable = vocabulary.name(tokens[operand_slots(task)[0]])
    free = [v for v in task.variables if v not in task.banned_first + task.banned_second]
    if variable in free or not free:
        return tokens
    return examples.exchanged(tokens, vocabulary.variable(variable), vocabulary.variable(free[0]))


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
    """How many variables have their best score with themselves, before and after."""
    return [int((scores.argmax(1) == np.arange(len(data.letters))).sum()) for scores in data.variables]


def draw_early(data: EarlyData, made: Figure) -> None:
    upper, lower = made.subplots(2, 2, height_ratios=(1.12, 1))
    most = float(np.abs(data.variables).max())
    for i, (when, matching) in enumerate(zip(("before", "after"), matches(data), strict=True)):
        weights = draw_heat(upper[i], data.attention[i], SHARES, (0, 1))
        _attention(upper[i], data, data.attention[i])
        upper[i].set_title(f"({'ab'[i]}) {when}: step {data.steps[i]:,}")
        scores = draw_heat(lower[i], data.variables[i], limits=(-most, most))
        name_ticks(lower[i], data.letters, data.letters)
        lower[i].set_title(f"({'cd'[i]}) step {data.steps[i]:,}: {matching} of {len(data.letters)} match")
        lower[i].set(xlabel="variable held by a number (key)", aspect="equal")
    upper[0].set_ylabel("attending (query)")
    lower[0].set_ylabel("variable held by = (query)")
    bar(weights, list(upper), "layer-1 attention")
    bar(scores, list(lower), "score under QK$_2$")


def _attention(ax: Axes, data: EarlyData, pattern: np.ndarray) -> None:
    """Names the tokens along both axes; the values of the boxed cells stand in the empty corner."""
    name_ticks(ax, data.tokens, data.tokens)
    ax.tick_params(axis="x", rotation=90)
    cells(ax, data.to_operands, RED)
    values = [f"to {data.tokens[key]}: {pattern[query, key]:.2f}" for query, key in np.argwhere(data.to_operands)]
    ax.text(
        0.98, 0.95, "\n".join(["= attends", *values]), transform=ax.transAxes, ha="right", va="top", linespacing=1.4
    )
    ax.set(xlabel="attended to (key)", aspect="equal")


AROUND = 3000  # steps before and after the spike: scores move for a while before accuracy jumps
AT_LEAST = 2  # checkpoints on either side, however far
AT_MOST = 36  # checkpoints in all
COMPARED = 5  # variables in (c)
TWICE_BANNED = "2-var var-restricted (2)"
# How the late variable in its slot is drawn, and what it is compared with.
LATE_STYLE: dict[str, Any] = {"color": VERMILION, "linewidth": 1.6, "zorder": 3}
ABOVE: dict[str, Any] = {  # the axes, where no curve can run through a legend
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
    ends: np.ndarray  # (2,): those that (c) compares
    asked: np.ndarray  # (checkpoints, V): (E_= + P_=) QK1 E_v
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
    steps = window(columns["step"][columns["step"] >= first.after], late.spike, ends)
    accuracy = columns[f"accuracy {late.variable} {late.slot}"][np.searchsorted(columns["step"], steps)]
    curves = curves_of(network)
    in_window = (curves.steps >= steps[0]) & (curves.steps <= steps[-1])
    if TWICE_BANNED not in curves.accuracy:  # a set that the task lacks is not drawn
        in_window[:] = False
    stack = network.checkpoints(steps.tolist())
    compared = companions(task, late)
    parts = _numbers(qk1_equals_parts(network.checkpoints(ends)))  # (2, 2, V)
    return LateData(
        steps=steps, variable=late.variable, slot=late.slot, letters=list(task.variables),
        spike=np.array([late.spike.before, late.spike.after]), ends=np.array(ends),
        asked=_numbers(qk1_equals_to_variables(stack)), accuracy=accuracy,
        twice_banned_steps=curves.steps[in_window],
        twice_banned=curves.accuracy.get(TWICE_BANNED, np.zeros(len(in_window)))[in_window],
        compared=compared, parts=parts[..., [task.variables.index(v) for v in compared]],
        path=_numbers(qk2_path_terms(stack)),
    )  # fmt: skip


def _why_absent(network: Network, late: LateVariable | None) -> str:
    """Why a network has no spike of a late variable, in words."""
    if late is not None:
        last = f"{late.variable} in the {late.slot} slot comes last, and its accuracy never jumps"
        return f"seed {network.seed}: no second spike\n{last}"
    early = "half of the sums of every variable were right by the first spike"
    why = early if phases_of(network).first_spike else phases_of(network).summary
    return f"seed {network.seed}: no late variable\n{why}"


def window(steps: np.ndarray, spike: Spike, ends: tuple[int, int]) -> np.ndarray:
    """Checkpoints around a spike, with those beside it and those of (c); evenly thinned where there are many."""
    before = int(np.searchsorted(steps, spike.before))  # the indices of the checkpoints beside the spike
    after = int(np.searchsorted(steps, spike.after))
    first_near = int(np.searchsorted(steps, spike.before - AROUND))
    last_near = int(np.searchsorted(steps, spike.after + AROUND, side="right")) - 1
    # As far as `AROUND` steps, but with at least `AT_LEAST` checkpoints on either side.
    first = min(first_near, max(0, before - AT_LEAST + 1))
    last = max(last_near, min(len(steps) - 1, after + AT_LEAST - 1))
    thinned = np.linspace(first, last, min(AT_MOST - 4, last - first + 1)).round().astype(int)
    return np.unique(np.concatenate([steps[thinned], [spike.before, spike.after], ends]))


def companions(task: Task, late: LateVariable) -> list[str]:
    """The late variable and four others in alphabetical order: those banned from its slot, then those never banned."""
    banned = {"first": task.banned_first, "second": task.banned_second}

    def rank(v: str) -> int:
        if v == late.variable:
            return 0
        if v in banned[late.slot]:
            return 1
        return 3 if v in task.banned_first + task.banned_second else 2

    return sorted(sorted(task.variables, key=rank)[:COMPARED])


def _numbers(values: Tensor) -> np.ndarray:
    return values.detach().cpu().numpy()


def late_caption(data: LateData) -> str:
    """Scores and accuracy of the late variable at the checkpoints that (c) compares, in words."""
    v, slot = data.letters.index(data.variable), SLOTS.index(data.slot)
    before, after = np.searchsorted(data.steps, data.ends)
    others = np.delete(data.asked, v, 1)[before]
    other_slot = data.path[:, 1 - slot, v]
    return (
        f"Here it is {data.variable} in the {data.slot} slot. At step {data.ends[0]:,} its score is "
        f"{data.asked[before, v]:.2f}, those of the others {others.min():.2f} to {others.max():.2f}. At step "
        f"{data.ends[1]:,} its score is {data.asked[after, v]:.2f}; in between its term goes from "
        f"{data.path[before, slot, v]:.2f} to {data.path[after, slot, v]:.2f} (at least {other_slot.min():.2f} in "
        f"the other slot) and its accuracy from {data.accuracy[before]:.2f} to {data.accuracy[after]:.2f}."
    ).replace(" -", " \u2212")


def draw_late(data: LateData, made: Figure) -> None:
    grid = made.add_gridspec(2, 2)
    asked = made.add_subplot(grid[0, 0])
    accuracy = made.add_subplot(grid[0, 1])
    path = made.add_subplot(grid[1, 1])
    _asked(asked, data)
    _accuracy(accuracy, data)
    pair = grid[1, 0].subgridspec(2, 1)
    _parts([made.add_subplot(pair[i]) for i in range(2)], data)
    _path(path, data)
    for axes in (asked, accuracy, path):
        axes.axvspan(*data.spike, color=SPIKE, linewidth=0, zorder=0)
        axes.set(xlim=(data.steps[0], data.steps[-1]), xlabel="training step")
        axes.locator_params(axis="x", nbins=4)
        axes.legend(**ABOVE)
        axes.set_title(axes.get_title("left"), pad=19)


def _asked(axes: Axes, data: LateData) -> None:
    v = data.letters.index(data.variable)
    axes.plot(data.steps, data.asked[:, v], label=data.variable, **LATE_STYLE, **dots(data.steps))
    _others(axes, data.steps, np.delete(data.asked, v, 1), "every other variable")
    axes.set_title("(a) score of = for a variable")
    axes.set_ylabel("(E$_=$ + P$_=$) QK$_1$ E$_v$")


def _accuracy(axes: Axes, data: LateData) -> None:
    axes.plot(data.steps, data.accuracy, label=f"{data.variable} {data.slot}", **LATE_STYLE, **dots(data.steps))
    if len(data.twice_banned):
        x = data.twice_banned_steps
        axes.plot(x, data.twice_banned, label="both operands banned", **OTHER_STYLE, **dots(x))
    axes.set_title("(b) sums of two variables")
    axes.set(ylabel="accuracy", ylim=(-0.03, 1.04))


def _parts(panels: list[Axes], data: LateData) -> None:
    """A pair of heat maps on one scale, the late variable boxed."""
    most = float(np.abs(data.parts).max())
    v = data.compared.index(data.variable)
    for axes, when, step, parts in zip(panels, ("before", "after"), data.ends, data.parts, strict=True):
        image = draw_heat(axes, parts, limits=(-most, most))
        name_ticks(axes, ["E$_=$", "P$_=$"], data.compared)
        axes.set_ylabel(f"{when}\n{step:,}")
        words = [f"{value:.1f}".replace("-", "\u2212") for value in parts.flat]
        write_cells(axes, words, abs(parts) > DARK_FROM * most)
        box(axes, (0, 1), (v, v), VERMILION)
    panels[0].tick_params(labelbottom=False)
    panels[0].set_title("(c) the two parts of (a)")
    panels[1].set_xlabel("variable $v$")
    bar(image, panels, "QK$_1$ E$_v$", aspect=22)


def _path(axes: Axes, data: LateData) -> None:
    v, slot = data.letters.index(data.variable), SLOTS.index(data.slot)
    for which, style in ((slot, LATE_STYLE), (1 - slot, OTHER_STYLE)):
        label = f"{data.variable} {SLOTS[which]}"
        axes.plot(data.steps, data.path[:, which, v], label=label, **style, **dots(data.steps))
    _others(axes, data.steps, np.delete(data.path[:, slot], v, 1), None)
    axes.set_title(f"(d) = finds the value of {data.variable} in layer 2")
    axes.set_ylabel("term of the QK$_2$ score")


def _others(axes: Axes, steps: np.ndarray, curves: np.ndarray, label: str | None) -> None:
    for i, curve in enumerate(curves.T):
        axes.plot(steps, curve, label=None if i else label, color=GREY, linewidth=0.6, alpha=0.8)


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
