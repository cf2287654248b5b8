"""Which settings make nearly every seed learn the whole task? Searches, fresh seeds, and what is missing."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import polars
from matplotlib.figure import Figure

from assignadd.figure import COLORS, draw_intervals
from assignadd.study import BASE, Cell, Study, StudyTable, final_column, grid, mean, share
from assignadd.task import EVAL_SETS

# A network has learned the whole task if its exam after the last step reaches a level on each of the six test sets, and
# one on held-out doubles.
TEST_SETS = [evalset.name for evalset in EVAL_SETS if evalset.pair == "held_out" or evalset.n_banned]
DOUBLES = "0-var doubles"
LEVEL, LEVEL_OF_DOUBLES = 0.98, 0.95
WHOLE, ALL_SETS, ALL_DOUBLES, LOWEST = "whole task", "all test sets", "held-out doubles", "lowest test set"
MEANINGS = {
    WHOLE: "answer 98 % of each of the six test sets and 95 % of held-out doubles",
    ALL_SETS: "answer 98 % of each of the six test sets",
    ALL_DOUBLES: "answer 95 % of held-out doubles of literals",
    LOWEST: "the lowest accuracy of the six test sets",
}
# In every cell the rate falls to a tenth of the paper's for the last fifth of training.
STEPS, LAST_RATE, LAST_FROM = 50_000, 1e-4, 40_000


def whole_task(evaluations: polars.DataFrame, _: int) -> dict[str, Any]:
    """Whether a network has learned the whole task, by its final exam, and the lowest of its six test sets."""
    last = evaluations.row(-1, named=True)
    # Without a variable that is never second, no sequence has two variables in banned slots.
    lowest = min(value for name in TEST_SETS if (value := last[final_column(name)]) is not None)
    sets, doubles = lowest >= LEVEL, last[final_column(DOUBLES)] >= LEVEL_OF_DOUBLES
    return {WHOLE: sets and doubles, ALL_SETS: sets, ALL_DOUBLES: doubles, LOWEST: lowest}


def study(name: str, seeds: int, first_seed: int, question: str, cells: Iterable[Cell], **more: Any) -> Study:
    """A study whose networks train with the low rate at the end and are judged by the whole task."""
    base = replace(
        BASE,
        optim=replace(BASE.optim, later_lr=LAST_RATE, later_from=LAST_FROM),
        record=replace(BASE.record, eval_every=500, checkpoint_every=STEPS),
    )
    outcomes, numbers = ("binds", ALL_SETS, ALL_DOUBLES, WHOLE), ("binding at", LOWEST, final_column(DOUBLES))
    return Study(
        name, question, tuple(cells), seeds, STEPS, first_seed=first_seed, base=base, columns=MEANINGS,
        of_curves=whole_task, outcomes=outcomes, numbers=numbers, **more,
    )  # fmt: skip


def width_256(neurons: Sequence[int], rates: Sequence[float], decays: Sequence[float]) -> Iterator[Cell]:
    """A cell with a residual stream of width 256 for every combination of these."""
    for n, rate, decay in product(neurons, rates, decays):
        width = {"model.d_model": 256, "model.d_head": 256, "model.d_mlp": (None, n)}
        settings = {**width, "optim.lr": rate, "optim.weight_decay": decay}
        yield Cell(f"width 256, {n} neurons, rate {rate:g}, decay {decay:g}", settings)


def earlier_fall() -> Iterator[Cell]:
    """A cell with 128 neurons and the high rate for every step from which the rate is low, decay and mix of data."""
    for fall, decay, ratio in product((20_000, 40_000), (0.1, 0.15, 0.2), (0.4, 10 / 12)):
        rate = {"optim.lr": 0.002, "optim.later_from": fall, "optim.weight_decay": decay}
        label = f"width 128, rate falls at {fall:,}, decay {decay:g}, r = {ratio:.2g}"
        yield Cell(label, {**NARROW_MLP, **rate, "task.two_var_ratio": ratio})


NARROW_MLP: dict[str, Any] = {"model.d_mlp": (None, 128)}
SEARCHES = (
    study(
        "recipe-search", 6, 6000, "Which width, rate, scale and decay make most seeds learn the whole task?",
        grid(d_mlp=[32, 64, 128], lr=[0.001, 0.002, 0.003], init_scale=[0.5, 0.8, 1.2], weight_decay=[0.02, 0.1, 0.3]),
    ),
    study(
        "recipe-second-search", 6, 7000, "Do more sequences with two variables help where decay has repaired doubles?",
        grid(d_mlp=[128, 256, 512], lr=[0.001, 0.002], weight_decay=[0.05, 0.1], two_var_ratio=[10 / 12, 2.5, 6.0]),
    ),
    study(
        "recipe-third-search", 8, 27_000, "Does a width of 256, an earlier fall of the rate or another mix help?",
        (*width_256((128, 512), (0.001, 0.002), (0.05, 0.1, 0.2)), *earlier_fall()),
    ),
    study(
        "recipe-fourth-search", 8, 27_100, "At width 256, do lower rates and few neurons help?",
        width_256((32, 64, 128), (0.0003, 0.0005), (0.05, 0.1, 0.3)),
    ),
    study(
        "recipe-fifth-search", 8, 27_200, "Do larger weights at first, the best cell of the first search, help?",
        grid(d_mlp=[32, 64, 128], lr=[0.0007, 0.001], init_scale=[1.0, 1.2, 1.5], weight_decay=[0.05, 0.1],
             beta2=[0.98, 0.999]),
    ),
    study(
        "recipe-sixth-search", 8, 27_300, "With these, do larger batches, another mix or smaller heads help?",
        grid(d_mlp=[128], init_scale=[1.2], d_head=[32, 128], weight_decay=[0.1, 0.2], two_var_ratio=[10 / 12, 3.0],
             batch=[512, 2048]),
    ),
    study(
        "recipe-seventh-search", 8, 27_400, "Do larger heads help?",
        grid(d_model=[128, 256], d_head=[256, 512], d_mlp=[128], init_scale=[0.8, 1.2], weight_decay=[0.05, 0.1]),
    ),
)  # fmt: skip

LOW_RATE, DECAY, NARROW, BOTH = "low rate at the end", "decay .1", "128 neurons", "128 neurons, decay .1"
HIGH = "128 neurons, decay .1, rate .002"
CONFIRM = study(
    "recipe-fresh",
    64,
    8000,
    "Do more decay and fewer neurons make held-out doubles right on fresh seeds, and how many learn the whole task?",
    (
        Cell(LOW_RATE),
        Cell(DECAY, {"optim.weight_decay": 0.1}),
        Cell(NARROW, NARROW_MLP),
        Cell(BOTH, {**NARROW_MLP, "optim.weight_decay": 0.1}),
        Cell(HIGH, {**NARROW_MLP, "optim.weight_decay": 0.1, "optim.lr": 0.002}),
    ),
    ask=(
        mean(final_column(DOUBLES), among="binds").of(DECAY).versus(LOW_RATE, at_least=0.05),
        mean(final_column(DOUBLES), among="binds").of(NARROW).versus(LOW_RATE, at_least=0.05),
        mean(final_column(DOUBLES), among="binds").of(BOTH).versus(DECAY, between=(-0.05, 0.05)),
        share(ALL_DOUBLES, among="binds").of(DECAY, BOTH, HIGH).at_least(0.8),
        share("binds").of(HIGH).at_least(0.9),
        share(WHOLE).of(HIGH).versus(LOW_RATE, at_least=0.2),
        share(WHOLE).of(HIGH).at_least(0.97),
    ),
)

LARGER, BATCH = "larger weights at first", "larger weights at first, batch 2,048"
LARGER_WEIGHTS: dict[str, Any] = {**NARROW_MLP, "optim.weight_decay": 0.1, "model.init_scale": 1.2}
CONFIRM_LARGER = study(
    "recipe-larger-weights",
    64,
    28_000,
    "Do larger weights at first, with decay and 128 neurons, make nearly every fresh seed learn the whole task?",
    (Cell(LARGER, LARGER_WEIGHTS), Cell(BATCH, {**LARGER_WEIGHTS, "optim.batch": 2048})),
    ask=(
        share(WHOLE).of(LARGER, BATCH).at_least(0.97),
        share(WHOLE).of(BATCH).versus(LARGER, at_least=0.1),
        share("binds").of(LARGER).at_least(0.9),
    ),
)
TWO_A_BAN, ONE_A_BAN = "two variables a ban", "one variable a ban"
MEETING = study(
    "recipe-meeting",
    64,
    28_200,
    "If every two variables meet in training, do most networks that bind answer all six test sets?",
    (
        Cell(TWO_A_BAN, LARGER_WEIGHTS),
        Cell(ONE_A_BAN, {**LARGER_WEIGHTS, "task.banned_first": "a", "task.banned_second": "g"}),
    ),
    ask=(
        share(ALL_SETS, among="binds").of(ONE_A_BAN).versus(TWO_A_BAN, at_least=0.2),
        share(ALL_SETS, among="binds").of(ONE_A_BAN).at_least(0.9),
    ),
)
ONE_BAN, TWO_BANS = "a and b never first", "a never first, g never second"
MATCHED = study(
    "recipe-meeting-matched",
    64,
    28_300,
    "With as many banned variables, does it matter whether they meet?",
    (
        Cell(ONE_BAN, {**LARGER_WEIGHTS, "task.banned_first": "ab", "task.banned_second": ""}),
        Cell(TWO_BANS, {**LARGER_WEIGHTS, "task.banned_first": "a", "task.banned_second": "g"}),
    ),
    ask=(share(ALL_SETS, among="binds").of(TWO_BANS).versus(ONE_BAN, at_least=0.2),),
)
STUDIES = (*SEARCHES, CONFIRM, CONFIRM_LARGER, MEETING, MATCHED)

SIZE = (7.5, 3.1)
ROWS = ((CONFIRM, LOW_RATE), (CONFIRM, HIGH), (CONFIRM_LARGER, LARGER), (CONFIRM_LARGER, BATCH), (MEETING, TWO_A_BAN),
        (MEETING, ONE_A_BAN), (MATCHED, ONE_BAN), (MATCHED, TWO_BANS))  # fmt: skip


def draw(tables: Mapping[str, StudyTable], figure: Figure) -> None:
    """For cells of fresh seeds: the lowest test set of each network that binds, and shares of networks."""
    left, right = figure.subplots(1, 2, sharey=True)
    for row, (of, cell) in enumerate(ROWS):
        lowest = tables[of.name].values(cell, LOWEST, "binds")
        heights = row + np.linspace(-0.3, 0.3, len(lowest))
        color = COLORS.blue if cell in (ONE_A_BAN, TWO_BANS) else COLORS.vermilion
        left.plot(lowest.clip(0.9), heights, "o", color=color, markersize=2.5, markerfacecolor="none")
    left.axvline(LEVEL, color=COLORS.grey, linewidth=0.8)
    left.set_xticks([0.9, 0.92, 0.94, 0.96, 0.98, 1], ["≤ .9", ".92", ".94", ".96", ".98", "1"])
    left.set_xlabel("accuracy on the lowest test set\n(networks that bind, blue: all variables meet)")
    for outcome, label, color, shift in (
        ("binds", "bind", COLORS.grey, -0.22),
        (ALL_SETS, "answer all six test sets", COLORS.blue, 0),
        (WHOLE, "and 95 % of doubles", COLORS.green, 0.22),
    ):
        draw_intervals(right, {cell: tables[of.name].share(cell, outcome) for of, cell in ROWS}, color, label, shift)
    right.set(xlim=(-0.03, 1.03), xlabel="share of 64 networks (95 % interval)")
    figure.legend(loc="outside upper right", ncols=3)
