"""Figure `late`: the variable that is learned last, around its spike (paper, section 6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from assignadd.claims.evidence import Evidence
from assignadd.config import Task
from assignadd.dynamics.late_variable import LateVariable, surrounding
from assignadd.dynamics.spikes import Spike
from assignadd.figures.heatmap import DARK_FROM, bar, box, draw_heat, name_ticks, write_cells
from assignadd.figures.record import Absent, FigureData, FigureRecord
from assignadd.figures.training_axis import dots
from assignadd.measures.accuracies import SLOTS
from assignadd.measures.scores import qk1_equals_parts, qk1_equals_to_variables, qk2_path_terms
from assignadd.model.stack import concatenate
from assignadd.palette import BLUE, GREY, SPIKE, VERMILION

AROUND = 3000  # steps before and after the spike: scores move for a while before accuracy jumps
AT_LEAST = 2  # checkpoints on either side, however far
AT_MOST = 36  # checkpoints in all
COMPARED = 5  # variables in (c)
TWICE_BANNED = "2-var var-restricted (2)"
# How the late variable in its slot is drawn, and what it is compared with.
OWN: dict[str, Any] = {"color": VERMILION, "linewidth": 1.6, "zorder": 3}
SECOND: dict[str, Any] = {"color": BLUE, "linewidth": 1.3, "linestyle": (0, (4, 1.5)), "zorder": 2.5}


@dataclass(frozen=True)
class LateData(FigureData):
    steps: np.ndarray  # (checkpoints,): the window
    variable: str
    slot: str
    banned: bool
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
def late_data(model: Evidence) -> LateData | Absent:
    """Scores and accuracy of the variable that is learned last, at checkpoints after the first spike."""
    first, late, task, columns = model.phases.first_spike, model.late_variable, model.config.task, model.trajectory
    if first is None or late is None or late.spike is None:
        return Absent(_why_absent(model, late))
    since = columns["step"][columns["step"] >= first.after]
    steps, ends = window(since, late.spike), surrounding(since, late.spike)
    stack = concatenate([model.stack_at(int(step)) for step in steps])
    compared = companions(task, late)
    accuracy, curves = columns[f"accuracy {late.variable} {late.slot}"], model.curves
    twice = curves.accuracy.get(TWICE_BANNED, np.zeros(0))
    inside = (curves.steps >= steps[0]) & (curves.steps <= steps[-1]) & (len(twice) > 0)
    return LateData(
        steps,
        late.variable,
        late.slot,
        late.banned,
        list(task.variables),
        np.array([late.spike.before, late.spike.after]),
        ends,
        _numbers(qk1_equals_to_variables(stack)),
        accuracy[np.searchsorted(columns["step"], steps)],
        curves.steps[inside],
        twice[inside[: len(twice)]],
        compared,
        _numbers(qk1_equals_parts(stack.models(np.searchsorted(steps, ends).tolist())))[
            ..., [task.variables.index(v) for v in compared]
        ],
        _numbers(qk2_path_terms(stack)),
    )


def _why_absent(model: Evidence, late: LateVariable | None) -> str:
    if late is not None:
        last = f"{late.variable} in the {late.slot} slot comes last, and its accuracy never jumps"
        return f"seed {model.seed}: no second spike\n{last}"
    early = "half of the sums of every variable were right by the first spike"
    why = early if model.phases.first_spike else model.phases.summary
    return f"seed {model.seed}: no late variable\n{why}"


def window(steps: np.ndarray, spike: Spike) -> np.ndarray:
    """Checkpoints around a spike, with its own two and those of (c); evenly thinned where there are many."""
    before, after = (int(np.searchsorted(steps, step)) for step in (spike.before, spike.after))
    first = min(int(np.searchsorted(steps, spike.before - AROUND)), max(0, before - AT_LEAST + 1))
    last = max(
        int(np.searchsorted(steps, spike.after + AROUND, side="right")) - 1, min(len(steps) - 1, after + AT_LEAST - 1)
    )
    kept = np.linspace(first, last, min(AT_MOST - 4, last - first + 1)).round().astype(int)
    return np.unique(np.concatenate([steps[kept], [spike.before, spike.after], surrounding(steps, spike)]))


def companions(task: Task, late: LateVariable) -> list[str]:
    """The late variable and a few others, in alphabetical order: rather banned from its slot, else never banned."""
    banned = {"first": task.banned_first, "second": task.banned_second}
    anywhere = task.banned_first + task.banned_second
    ranked = sorted(task.variables, key=lambda v: (v != late.variable, v not in banned[late.slot], v in anywhere))
    return sorted(ranked[:COMPARED])


def _numbers(values: Tensor) -> np.ndarray:
    return values.detach().cpu().numpy()


def late_caption(data: LateData) -> str:
    """Scores and accuracy of the late variable at the checkpoints that (c) compares, in words."""
    own, slot = data.letters.index(data.variable), SLOTS.index(data.slot)
    before, after = np.searchsorted(data.steps, data.ends)
    others, other_slot = np.delete(data.asked, own, 1)[before], data.path[:, 1 - slot, own]
    return (
        f"Here it is {data.variable} in the {data.slot} slot. At step {data.ends[0]:,} its score is "
        f"{data.asked[before, own]:.2f}, those of the others {others.min():.2f} to {others.max():.2f}. At step "
        f"{data.ends[1]:,} its score is {data.asked[after, own]:.2f}; in between its term goes from "
        f"{data.path[before, slot, own]:.2f} to {data.path[after, slot, own]:.2f} (at least {other_slot.min():.2f} in "
        f"the other slot) and its accuracy from {data.accuracy[before]:.2f} to {data.accuracy[after]:.2f}."
    ).replace(" -", " \u2212")


def draw_late(data: LateData, made: Figure) -> None:
    grid = made.add_gridspec(2, 2)
    asked, accuracy, path = (made.add_subplot(grid[at]) for at in ((0, 0), (0, 1), (1, 1)))
    _asked(asked, data)
    _accuracy(accuracy, data)
    pair = grid[1, 0].subgridspec(2, 1)
    _parts([made.add_subplot(pair[i]) for i in range(2)], data)
    _path(path, data)
    for axes in (asked, accuracy, path):
        axes.axvspan(*data.spike, color=SPIKE, linewidth=0, zorder=0)
        axes.set(xlim=(data.steps[0], data.steps[-1]), xlabel="training step")
        axes.locator_params(axis="x", nbins=4)
        # Above the axes, where no curve can run through it.
        axes.legend(
            loc="lower left",
            bbox_to_anchor=(-0.02, 0.98),
            ncols=2,
            handlelength=1.6,
            handletextpad=0.5,
            columnspacing=1.0,
            borderaxespad=0,
        )
        axes.set_title(axes.get_title("left"), pad=19)


def _asked(axes: Axes, data: LateData) -> None:
    own = data.letters.index(data.variable)
    _curve(axes, data.steps, data.asked[:, own], data.variable, OWN)
    _others(axes, data.steps, np.delete(data.asked, own, 1), "every other variable")
    axes.set_title("(a) score of = for a variable")
    axes.set_ylabel("(E$_=$ + P$_=$) QK$_1$ E$_v$")


def _accuracy(axes: Axes, data: LateData) -> None:
    _curve(axes, data.steps, data.accuracy, f"{data.variable} {data.slot}", OWN)
    if len(data.twice_banned):
        _curve(axes, data.twice_banned_steps, data.twice_banned, "both operands banned", SECOND)
    axes.set_title("(b) sums of two variables")
    axes.set(ylabel="accuracy", ylim=(-0.03, 1.04))


def _parts(panels: list[Axes], data: LateData) -> None:
    """A pair of heat maps on one scale, the late variable boxed."""
    most, own = float(np.abs(data.parts).max()), data.compared.index(data.variable)
    for axes, when, step, parts in zip(panels, ("before", "after"), data.ends, data.parts, strict=True):
        image = draw_heat(axes, parts, limits=(-most, most))
        name_ticks(axes, ["E$_=$", "P$_=$"], data.compared)
        axes.set_ylabel(f"{when}\n{step:,}")
        words = [f"{value:.1f}".replace("-", "\u2212") for value in parts.flat]
        write_cells(axes, np.reshape(words, parts.shape), abs(parts) > DARK_FROM * most)
        box(axes, (0, 1), (own, own), VERMILION)
    panels[0].tick_params(labelbottom=False)
    panels[0].set_title("(c) the two parts of (a)")
    panels[1].set_xlabel("variable $v$")
    bar(image, panels, "QK$_1$ E$_v$", aspect=22)


def _path(axes: Axes, data: LateData) -> None:
    own, slot = data.letters.index(data.variable), SLOTS.index(data.slot)
    for which, style in ((slot, OWN), (1 - slot, SECOND)):
        _curve(axes, data.steps, data.path[:, which, own], f"{data.variable} {SLOTS[which]}", style)
    _others(axes, data.steps, np.delete(data.path[:, slot], own, 1), None)
    axes.set_title(f"(d) = finds the value of {data.variable} in layer 2")
    axes.set_ylabel("term of the QK$_2$ score")


def _curve(axes: Axes, steps: np.ndarray, values: np.ndarray, label: str, style: dict[str, Any]) -> None:
    axes.plot(steps, values, label=label, **style, **dots(steps))


def _others(axes: Axes, steps: np.ndarray, curves: np.ndarray, label: str | None) -> None:
    for i, curve in enumerate(curves.T):
        axes.plot(steps, curve, label=None if i else label, color=GREY, linewidth=0.6, alpha=0.8)


LATE_FIGURE = FigureRecord(
    "late", "The variable that comes last",
    "The orange curve is the last variable that the network learned to look up, in its slot. Look whether the "
    "score of `=` for it is lower than for the others (a), whether the term of the QK2 score with its value is "
    "negative (d), and whether both rise before or with its accuracy (b).",
    lambda s: late_data(s.model), draw_late, height=4.6, found=late_caption, along_training=True,
)  # fmt: skip
