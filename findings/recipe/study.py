"""Which settings make nearly every seed learn the whole task? A search on some seeds, and a test on fresh ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from assignadd.figure import COLORS, draw_interval
from assignadd.study import BASE, Cell, Study, StudyTable, final_column, grid, mean, share
from assignadd.task import EVAL_SETS

if TYPE_CHECKING:
    import polars
    from matplotlib.figure import Figure

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
    lowest = min(last[final_column(name)] for name in TEST_SETS)
    sets, doubles = lowest >= LEVEL, last[final_column(DOUBLES)] >= LEVEL_OF_DOUBLES
    return {WHOLE: sets and doubles, ALL_SETS: sets, ALL_DOUBLES: doubles, LOWEST: lowest}


def study(
    name: str, question: str, cells: tuple[Cell, ...], seeds: int, first_seed: int, method: str, **more: Any
) -> Study:
    """A study whose networks train with the low rate at the end and are judged by the whole task."""
    base = replace(
        BASE,
        optim=replace(BASE.optim, later_lr=LAST_RATE, later_from=LAST_FROM),
        record=replace(BASE.record, eval_every=500, checkpoint_every=STEPS),
    )
    outcomes, numbers = ("binds", ALL_SETS, ALL_DOUBLES, WHOLE), ("binding at", LOWEST, final_column(DOUBLES))
    return Study(
        name, question, cells, seeds, STEPS, method=method, first_seed=first_seed, base=base, columns=MEANINGS,
        of_curves=whole_task, outcomes=outcomes, numbers=numbers, **more,
    )  # fmt: skip


SEARCH = study(
    "recipe-search",
    "Which width, rate, scale and decay make most seeds learn the whole task?",
    grid(d_mlp=[32, 64, 128], lr=[0.001, 0.002, 0.003], init_scale=[0.5, 0.8, 1.2], weight_decay=[0.02, 0.1, 0.3]),
    seeds=6,
    first_seed=6000,
    method=(
        "The paper's task with every combination of three widths of the MLP, rates, scales and decays; "
        f"the rate falls to {LAST_RATE:g} at step {LAST_FROM:,} of {STEPS:,}. Exploratory: nothing is claimed of it."
    ),
)
SECOND = study(
    "recipe-second-search",
    "Do more sequences with two variables help where decay has repaired doubles?",
    grid(d_mlp=[128, 256, 512], lr=[0.001, 0.002], weight_decay=[0.05, 0.1], two_var_ratio=[10 / 12, 2.5, 6.0]),
    seeds=6,
    first_seed=7000,
    method=(
        "In the first search a decay of .1 made most networks answer held-out doubles, also with 128 neurons, and what "
        "failed were variables in banned slots, with two variables first of all. Exploratory."
    ),
)

LOW_RATE, DECAY, NARROW, BOTH = "low rate at the end", "decay .1", "128 neurons", "128 neurons, decay .1"
HIGH = "128 neurons, decay .1, rate .002"
NARROW_MLP: dict[str, Any] = {"model.d_mlp": (None, 128)}
CONFIRM = study(
    "recipe-fresh",
    "Do more decay and fewer neurons make held-out doubles right on fresh seeds, and how many learn the whole task?",
    (
        Cell(LOW_RATE),
        Cell(DECAY, {"optim.weight_decay": 0.1}),
        Cell(NARROW, NARROW_MLP),
        Cell(BOTH, {**NARROW_MLP, "optim.weight_decay": 0.1}),
        Cell(HIGH, {**NARROW_MLP, "optim.weight_decay": 0.1, "optim.lr": 0.002}),
    ),
    seeds=64,
    first_seed=8000,
    method=(
        "The settings of the paper with the low rate at the end; decay, width and first rate changed as the searches "
        "suggest. The 64 seeds, 8000 to 8063, are used nowhere else; the rules were stated before training."
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
WIDE: dict[str, Any] = {"model.d_model": 256, "model.d_head": 256}
THIRD = study(
    "recipe-third-search",
    "Does a wider residual stream, an earlier fall of the rate or another mix repair variables in banned slots?",
    (
        *(
            Cell(
                f"width 256, {neurons} neurons, rate {rate:g}, decay {decay:g}",
                {**WIDE, "model.d_mlp": (None, neurons), "optim.lr": rate, "optim.weight_decay": decay},
            )
            for neurons in (128, 512)
            for rate in (0.001, 0.002)
            for decay in (0.05, 0.1, 0.2)
        ),
        *(
            Cell(
                f"width 128, rate falls at {fall:,}, decay {decay:g}, r = {ratio:.2g}",
                {
                    **NARROW_MLP,
                    "optim.lr": 0.002,
                    "optim.weight_decay": decay,
                    "optim.later_from": fall,
                    "task.two_var_ratio": ratio,
                },
            )
            for fall in (20_000, 40_000)
            for decay in (0.1, 0.15, 0.2)
            for ratio in (0.4, 10 / 12)
        ),
    ),
    seeds=8,
    first_seed=27_000,
    method=(
        "In the best cell of recipe-fresh, nearly all networks that failed missed sums of two variables with "
        "one in a banned slot. More networks use banned slots at width 256 (architectures). Exploratory."
    ),
)
FOURTH = study(
    "recipe-fourth-search",
    "At width 256, do lower rates keep banned slots right while few neurons and decay keep doubles right?",
    tuple(
        Cell(
            f"width 256, {neurons} neurons, rate {rate:g}, decay {decay:g}",
            {**WIDE, "model.d_mlp": (None, neurons), "optim.lr": rate, "optim.weight_decay": decay},
        )
        for neurons in (32, 64, 128)
        for rate in (0.0003, 0.0005)
        for decay in (0.05, 0.1, 0.3)
    ),
    seeds=8,
    first_seed=27_100,
    method=(
        "In the third search a rate of .001 left more test sets right than .002, and less decay than more; held-out "
        "doubles want decay or few neurons. Exploratory."
    ),
)
STUDIES: tuple[Study, ...] = (SEARCH, SECOND, CONFIRM, THIRD, FOURTH)

SIZE = (7.5, 2.6)


def draw(tables: Mapping[str, StudyTable], figure: Figure) -> None:
    """For each cell of the fresh seeds: doubles of the networks that bind, and how many networks have learned what."""
    table = tables[CONFIRM.name]
    left, right = figure.subplots(1, 2, sharey=True)
    for row, cell in enumerate(table.cells):
        doubles = table.values(cell, final_column(DOUBLES), "binds")
        circles: dict[str, Any] = {"markersize": 3.2, "markerfacecolor": "none", "alpha": 0.5}
        left.plot(doubles, [row] * len(doubles), "o", color=COLORS.blue, **circles)
        left.plot([doubles.mean()] * 2, [row - 0.3, row + 0.3], color=COLORS.blue, linewidth=2)
        for outcome, color, shift in (("binds", COLORS.blue, -0.12), (WHOLE, COLORS.vermilion, 0.12)):
            if measured := table.share(cell, outcome):
                label = {"binds": "binds", WHOLE: "learns the whole task"}[outcome] if row == 0 else None
                draw_interval(right, measured, row + shift, color, across=True, label=label)
    left.set_yticks(range(len(table.cells)), list(table.cells))
    left.invert_yaxis()
    left.set_xlabel("accuracy on held-out doubles\n(networks that bind; line: mean)")
    right.set_xlabel("share of 64 networks (95 % interval)")
    right.set_xlim(-0.03, 1.03)
    right.legend(loc="upper center", bbox_to_anchor=(0.5, 1.22), ncols=2)
