"""Figure `early`: layer-1 attention and variable matching just before and after the first spike (paper, section 6)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from assignadd.claims.evidence import Evidence
from assignadd.config import Task
from assignadd.figures.attention import attention_data
from assignadd.figures.heatmap import bar, cells, draw_heat, name_ticks
from assignadd.figures.record import Absent, FigureData, FigureRecord
from assignadd.measures.scores import qk2_ov1_var_scores
from assignadd.palette import RED, SHARES
from assignadd.task import examples
from assignadd.task.roles import operand_slots
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


def early_data(model: Evidence) -> EarlyData | Absent:
    """Attention and scores at the last checkpoint before the first spike and at the first one after it."""
    spike, task = model.phases.first_spike, model.config.task
    if spike is None:
        return Absent(f"seed {model.seed}: no first spike\n{model.phases.summary}")
    steps = model.checkpoint_steps(spike)
    stacks = [model.stack_at(step) for step in steps]
    text = render_tokens(allowed_example(task), task)
    looks = [attention_data(stack, text) for stack in stacks]
    return EarlyData(
        np.array(steps),
        looks[0].tokens,
        np.stack([look.patterns[0] for look in looks]),
        looks[0].to_operands,
        np.stack([qk2_ov1_var_scores(stack)[0].detach().cpu().numpy() for stack in stacks]),
        list(task.variables),
    )


def allowed_example(task: Task) -> list[int]:
    """The sequence of figure `attention`, with a variable that may stand in both slots: a banned one may come later."""
    tokens, vocabulary = examples.fitted(examples.ATTENTION, task), Vocabulary(task)
    if tokens is None:
        raise ValueError("the task has no sums with one variable")
    variable = vocabulary.name(tokens[operand_slots(task)[0]])
    free = [v for v in task.variables if v not in task.banned_first + task.banned_second]
    if variable in free or not free:
        return tokens
    return examples.exchanged(tokens, vocabulary.variable(variable), vocabulary.variable(free[0]))


def early_caption(data: EarlyData) -> str:
    """The values of the boxed cells and the number of matches before and after the spike, in words."""
    (before, after), cells_of_equals = data.attention, np.argwhere(data.to_operands)
    moved = [f"to {data.tokens[k]} from {before[q, k]:.2f} to {after[q, k]:.2f}" for q, k in cells_of_equals]
    first, second = matches(data)
    counted = f"{first} of {len(data.letters)} variables match before it and {second} after it"
    return f"Across this spike attention goes {' and '.join(moved)}; {counted}."


def matches(data: EarlyData) -> list[int]:
    """How many variables have their best score with themselves, before and after."""
    return [int((scores.argmax(1) == np.arange(len(data.letters))).sum()) for scores in data.variables]


def draw_early(data: EarlyData, made: Figure) -> None:
    upper, lower = made.subplots(2, 2, height_ratios=(1.12, 1))
    most = float(np.abs(data.variables).max())
    for i, (when, found) in enumerate(zip(("before", "after"), matches(data), strict=True)):
        weights = draw_heat(upper[i], data.attention[i], SHARES, (0, 1))
        _attention(upper[i], data, data.attention[i], f"({'ab'[i]}) {when}: step {data.steps[i]:,}")
        scores = draw_heat(lower[i], data.variables[i], limits=(-most, most))
        name_ticks(lower[i], data.letters, data.letters)
        lower[i].set_title(f"({'cd'[i]}) step {data.steps[i]:,}: {found} of {len(data.letters)} match")
        lower[i].set(xlabel="variable held by a number (key)", aspect="equal")
    upper[0].set_ylabel("attending (query)")
    lower[0].set_ylabel("variable held by = (query)")
    bar(weights, list(upper), "layer-1 attention")
    bar(scores, list(lower), "score under QK$_2$")


def _attention(ax: Axes, data: EarlyData, pattern: np.ndarray, title: str) -> None:
    """Names the tokens along both axes; the values of the boxed cells stand in the empty corner."""
    name_ticks(ax, data.tokens, data.tokens)
    ax.tick_params(axis="x", rotation=90)
    cells(ax, data.to_operands, RED)
    held = [f"to {data.tokens[key]}: {pattern[query, key]:.2f}" for query, key in np.argwhere(data.to_operands)]
    ax.text(0.98, 0.95, "\n".join(["= attends", *held]), transform=ax.transAxes, ha="right", va="top", linespacing=1.4)
    ax.set_title(title)
    ax.set(xlabel="attended to (key)", aspect="equal")


EARLY_FIGURE = FigureRecord(
    "early", "Across the first spike",
    "Above, the boxed cells are layer 1's attention from `=` to the two operands. Below, a dark diagonal means "
    "that each variable finds itself; `match` counts variables whose best score is with themselves.",
    lambda s: early_data(s.model), draw_early, height=5.3, found=early_caption, along_training=True,
)  # fmt: skip
