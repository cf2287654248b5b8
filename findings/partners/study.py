"""Which two-variable sums stay wrong in networks that answer nearly all others?

In training a, b are never the first operand and g, h never the second. So a and b never meet in a sum, nor do g and h,
although every other two variables do, in one order or in both.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from statistics import fmean
from typing import Any

import polars
from matplotlib.figure import Figure
from torch import Tensor
from torch.nn.functional import normalize

from assignadd import Config
from assignadd.figure import COLORS
from assignadd.model import OV, Exam, Stack
from assignadd.study import BASE, Cell, Study, StudyTable, final_column, mean, share
from assignadd.task import EvalSet, Task

DRAWS = range(10_000, 10_200)
# Sequences of each pair of variables.
SEQUENCES = 500
NEVER, MEET, DIFFERENCE = "variables that never meet", "variables that meet", "variables that meet minus others"
ONLY = "all but variables that never meet"
LEVEL = 0.98
# A pair of variables fails below this accuracy (chosen after training).
FAILS = 0.9
MEANINGS = {
    final_column(NEVER): "accuracy on v + w, one in a banned slot, of variables that never meet in training",
    final_column(MEET): "accuracy on v + w, one in a banned slot, of variables that meet in training",
    final_column(DIFFERENCE): "the difference between these accuracies",
    ONLY: "answer 98 % of such sums of variables that meet in training, and not of those that never meet",
}


def never_meet(task: Task, pair: str) -> bool:
    """Whether training never lets the two variables of a pair such as "a + b" meet, in neither order."""
    return any({pair[0], pair[4]} <= set(banned) for banned in task.bans)


def pair_accuracies(stack: Stack, configs: Sequence[Config], seen: Tensor) -> list[dict[str, float]]:
    """Accuracy on v + w for every v and w of which one is in a banned slot, and the means over two kinds of pairs."""
    task, sets = stack.config.task, []
    for first, second in permutations(range(task.n_vars), 2):
        v, w = task.variables[first], task.variables[second]
        if (v in task.banned_first) + (w in task.banned_second) == 1:
            sets.append(EvalSet(f"{v} + {w}", 2, "seen", 1, (first, second)))
    rows = []
    for row in Exam(configs, seen, sets, SEQUENCES, seen.device, DRAWS[0]).accuracies(stack):
        of_never = fmean(accuracy for pair, accuracy in row.items() if never_meet(task, pair))
        of_meet = fmean(accuracy for pair, accuracy in row.items() if not never_meet(task, pair))
        rows.append(row | {NEVER: of_never, MEET: of_meet, DIFFERENCE: of_meet - of_never})
    return rows


def only_those(evaluations: polars.DataFrame, _: int) -> dict[str, Any]:
    """Whether a network answers all sums with a variable in a banned slot but those of variables that never meet."""
    last = evaluations.row(-1, named=True)
    return {ONLY: last[final_column(MEET)] >= LEVEL > last[final_column(NEVER)]}


STEPS, LAST_RATE, LAST_FROM = 50_000, 1e-4, 40_000
LOW_RATE = "low rate at the end"
STUDY = Study(
    "partners",
    "Do networks fail on sums of variables that never meet in training?",
    (Cell(LOW_RATE),),
    seeds=64,
    steps=STEPS,
    first_seed=10_000,
    base=replace(
        BASE,
        optim=replace(BASE.optim, later_lr=LAST_RATE, later_from=LAST_FROM),
        record=replace(BASE.record, eval_every=500, checkpoint_every=STEPS),
    ),
    columns=MEANINGS,
    measure=pair_accuracies,
    of_curves=only_those,
    outcomes=("binds", "refines", ONLY),
    numbers=("binding at", final_column(NEVER), final_column(MEET)),
    ask=(
        mean(final_column(DIFFERENCE), among="binds").at_least(0.1),
        share(ONLY, among="binds").at_least(0.1),
        mean(final_column(MEET), among=ONLY).at_least(0.99),
    ),
)

# What layer 1 copies for the two variables of a pair, and whether these vectors are opposite. The level and the rules
# below were chosen on 64 other networks, seeds 31000 to 31063.
COPIES, OPPOSITE_BELOW = "cosine of copies, {}", -0.5
FAILING, ONLY_OPPOSITE, OPPOSITE_BUT_RIGHT = "fail on never meeting", "fail on opposite alone", "opposite but right"


def with_copies(stack: Stack, configs: Sequence[Config], seen: Tensor) -> list[dict[str, float]]:
    """Accuracies as `pair_accuracies` has them, and the cosine of the copies of the variables of each banned pair."""
    task, rows = stack.config.task, pair_accuracies(stack, configs, seen)
    copies = normalize(stack.W_E[:, -task.n_vars :] @ OV(stack, 1), dim=-1)  # (M, V, d)
    cosines = copies @ copies.mT
    for v, w in task.bans:
        for row, of_model in zip(rows, cosines, strict=True):
            row[COPIES.format(f"{v} and {w}")] = float(of_model[task.variables.index(v), task.variables.index(w)])
    return rows


def opposite(evaluations: polars.DataFrame, _: int) -> dict[str, Any]:
    """Whether a network fails on a pair that never meets, and whether the copies of such a pair are opposite."""
    last, failing, right = evaluations.row(-1, named=True), [], []
    for v, w in STUDY.base.task.bans:
        accuracy = max(last[final_column(f"{v} + {w}")], last[final_column(f"{w} + {v}")])
        is_opposite = last[final_column(COPIES.format(f"{v} and {w}"))] < OPPOSITE_BELOW
        (failing if accuracy < FAILS else right).append(is_opposite)
    return {FAILING: any(failing), ONLY_OPPOSITE: any(failing) and all(failing), OPPOSITE_BUT_RIGHT: any(right)}


HIGH_RATE = "128 neurons, decay .1, rate .002"
OPPOSITE = replace(
    STUDY,
    name="partners-opposite",
    question="Where two variables that never meet fail, does layer 1 copy them as opposite vectors?",
    cells=(Cell(HIGH_RATE, {"model.d_mlp": (None, 128), "optim.weight_decay": 0.1, "optim.lr": 0.002}),),
    first_seed=32_100,
    columns={
        FAILING: "answer less than 90 % of the sums of two variables that never meet, in both orders",
        ONLY_OPPOSITE: "do so, and the copies of every such pair have a cosine below -.5",
        OPPOSITE_BUT_RIGHT: "have such copies of two variables that never meet, and answer their sums",
        **{
            final_column(COPIES.format(f"{v} and {w}")): f"the cosine of what layer 1 copies for {v} and for {w}"
            for v, w in STUDY.base.task.bans
        },
    },
    measure=with_copies,
    of_curves=opposite,
    outcomes=("binds", FAILING, ONLY_OPPOSITE, OPPOSITE_BUT_RIGHT),
    numbers=tuple(final_column(COPIES.format(f"{v} and {w}")) for v, w in STUDY.base.task.bans),
    ask=(share(ONLY_OPPOSITE, among=FAILING).at_least(0.6), share(OPPOSITE_BUT_RIGHT, among="binds").at_most(0.1)),
)
STUDIES = (STUDY, OPPOSITE)

SIZE = (6.5, 2.8)


def draw(tables: Mapping[str, StudyTable], figure: Figure) -> None:
    """For every pair of variables of which one is in a banned slot, how many of the networks that bind fail on it."""
    table, axes = tables[STUDY.name], figure.subplots()
    accuracies = {name: table.values(LOW_RATE, name, "binds") for name in table.frame.columns if " + " in name}
    fails = {name: int((values < FAILS).sum()) for name, values in accuracies.items()}
    ordered = sorted(fails, key=lambda name: -fails[name])
    for is_never, color, label in (
        (True, COLORS.vermilion, "variables that never meet in training"),
        (False, COLORS.grey, "variables that meet, in the other order"),
    ):
        places = [i for i, name in enumerate(ordered) if never_meet(STUDY.base.task, name) is is_never]
        axes.bar(places, [fails[ordered[i]] for i in places], color=color, label=label)
    axes.set_xticks(range(len(ordered)), [name[:5] for name in ordered], rotation=90, fontsize=6)
    axes.legend()
    axes.set_ylabel(f"networks of {len(accuracies[ordered[0]])} that fail")
    axes.set_xlabel("sum of two variables, one in a banned slot")
    axes.set_yticks(range(1 + max(fails.values())))
