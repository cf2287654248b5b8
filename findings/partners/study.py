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
# The level and rules for copies were chosen on 64 other networks, seeds 31000 to 31063, before those here were trained.
COSINES = {(ban[0], ban[1]): f"cosine of copies, {ban[0]} and {ban[1]}" for ban in BASE.task.bans}
OPPOSITE_BELOW = -0.5
FAILING, ONLY_OPPOSITE, OPPOSITE_BUT_RIGHT = "fail on never meeting", "fail on opposite alone", "opposite but right"
MEANINGS = {
    final_column(NEVER): "accuracy on v + w, one in a banned slot, of variables that never meet in training",
    final_column(MEET): "accuracy on v + w, one in a banned slot, of variables that meet in training",
    final_column(DIFFERENCE): "the difference between these accuracies",
    ONLY: "answer 98 % of such sums of variables that meet in training, and not of those that never meet",
    FAILING: "answer less than 90 % of the sums of two variables that never meet, in both orders",
    ONLY_OPPOSITE: "do so, and the copies of every such pair have a cosine below -.5",
    OPPOSITE_BUT_RIGHT: "have such copies of two variables that never meet, and answer their sums",
    **{final_column(name): "the cosine of what layer 1 copies for both variables" for name in COSINES.values()},
}


def never_meet(task: Task, pair: str) -> bool:
    """Whether training never lets the two variables of a pair such as "a + b" meet, in neither order."""
    return any({pair[0], pair[4]} <= set(banned) for banned in task.bans)


def pair_accuracies(stack: Stack, configs: Sequence[Config], seen: Tensor) -> list[dict[str, float]]:
    """Accuracy on v + w for every v and w of which one is in a banned slot, and the means over two kinds of pairs.

    Of the variables of a ban, also the cosine of what layer 1 copies for them; the first study was before that.
    """
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
    copies = normalize(stack.W_E[:, -task.n_vars :] @ OV(stack, 1), dim=-1)  # (M, V, d)
    for pair, column in COSINES.items():
        of_pair = copies[:, [task.variables.index(v) for v in pair]]  # (M, 2, d)
        for row, cosine in zip(rows, of_pair.prod(1).sum(-1).tolist(), strict=True):
            row[column] = cosine
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


def opposite(evaluations: polars.DataFrame, _: int) -> dict[str, Any]:
    """Whether a network fails on a pair that never meets, and whether the copies of such a pair are opposite."""
    last, failing, right = evaluations.row(-1, named=True), list[bool](), list[bool]()
    for (v, w), column in COSINES.items():
        accuracy = max(last[final_column(f"{v} + {w}")], last[final_column(f"{w} + {v}")])
        is_opposite = last[final_column(column)] < OPPOSITE_BELOW
        (failing if accuracy < FAILS else right).append(is_opposite)
    return {FAILING: bool(failing), ONLY_OPPOSITE: bool(failing) and all(failing), OPPOSITE_BUT_RIGHT: any(right)}


HIGH_RATE = "128 neurons, decay .1, rate .002"
OPPOSITE = replace(
    STUDY,
    name="partners-opposite",
    question="Where two variables that never meet fail, does layer 1 copy them as opposite vectors?",
    cells=(Cell(HIGH_RATE, {"model.d_mlp": (None, 128), "optim.weight_decay": 0.1, "optim.lr": 0.002}),),
    first_seed=32_100,
    of_curves=opposite,
    outcomes=("binds", FAILING, ONLY_OPPOSITE, OPPOSITE_BUT_RIGHT),
    numbers=tuple(map(final_column, COSINES.values())),
    ask=(share(ONLY_OPPOSITE, among=FAILING).at_least(0.6), share(OPPOSITE_BUT_RIGHT, among="binds").at_most(0.1)),
)
STUDIES = (STUDY, OPPOSITE)

SIZE = (7.5, 2.9)


def draw(tables: Mapping[str, StudyTable], figure: Figure) -> None:
    """Left, how many networks fail on each pair; right, accuracy on pairs that never meet over the cosine of copies."""
    table, (left, right) = tables[STUDY.name], figure.subplots(1, 2, width_ratios=(2, 1))
    accuracies = {name: table.values(LOW_RATE, name, "binds") for name in table.frame.columns if " + " in name}
    fails = {name: int((values < FAILS).sum()) for name, values in accuracies.items()}
    ordered = sorted(fails, key=lambda name: -fails[name])
    for is_never, color, label in (
        (True, COLORS.vermilion, "variables that never meet in training"),
        (False, COLORS.grey, "variables that meet, in the other order"),
    ):
        places = [i for i, name in enumerate(ordered) if never_meet(BASE.task, name) is is_never]
        left.bar(places, [fails[ordered[i]] for i in places], color=color, label=label)
    left.set_xticks(range(len(ordered)), [name[:5] for name in ordered], rotation=90, fontsize=6)
    left.set_yticks(range(1 + max(fails.values())))
    left.set_xlabel("sum of two variables, one in a banned slot")
    left.set_ylabel(f"networks of {len(accuracies[ordered[0]])} that fail")
    left.legend()
    table = tables[OPPOSITE.name]
    for ((v, w), column), color in zip(COSINES.items(), (COLORS.vermilion, COLORS.blue), strict=True):
        cosines = table.values(HIGH_RATE, final_column(column), "binds")
        accuracy = table.values(HIGH_RATE, final_column(f"{v} + {w}"), "binds")
        right.plot(cosines, accuracy, "o", color=color, markersize=4, fillstyle="none", label=f"{v} + {w}")
    right.axvline(OPPOSITE_BELOW, color=COLORS.grey, linewidth=0.8)
    right.set(xlim=(-1.05, 1.05), ylim=(0, 1.05), xlabel="cosine of both variables' copies", ylabel="accuracy")
    right.legend(loc="lower right")
