"""Which two-variable sums stay wrong in networks that answer nearly all others?

In training a, b are never the first operand and g, h never the second. So a and b never meet in a sum, nor do g and h,
although every other two variables do, in one order or in both.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any

import polars
import torch
from matplotlib.figure import Figure
from torch import Tensor

from assignadd import Config
from assignadd.figure import COLORS
from assignadd.model import Exam, Stack
from assignadd.study import BASE, Cell, Study, StudyTable, final_column, mean, share
from assignadd.task import EvalSet

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


def pair_accuracies(stack: Stack, configs: Sequence[Config], seen: Tensor) -> list[dict[str, float]]:
    """Accuracy on v + w for every v and w of which one is in a banned slot, and the means over two kinds of pairs."""
    task = stack.config.task
    sets, never = [], []
    for first, second in permutations(range(task.n_vars), 2):
        v, w = task.variables[first], task.variables[second]
        if (v in task.banned_first) + (w in task.banned_second) == 1:
            sets.append(EvalSet(f"{v} + {w}", 2, "seen", 1, (first, second)))
            never.append({v, w} <= set(task.banned_first) or {v, w} <= set(task.banned_second))
    accuracies = Exam(configs, seen, sets, SEQUENCES, seen.device, DRAWS[0]).accuracies(stack)
    is_never = torch.tensor(never)
    rows = []
    for row in accuracies:
        values = torch.tensor(list(row.values()), dtype=torch.float64)
        never_meet, meet = float(values[is_never].mean()), float(values[~is_never].mean())
        rows.append(row | {NEVER: never_meet, MEET: meet, DIFFERENCE: meet - never_meet})
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

SIZE = (6.5, 2.8)


def draw(tables: Mapping[str, StudyTable], figure: Figure) -> None:
    """For every pair of variables of which one is in a banned slot, how many of the networks that bind fail on it."""
    table = tables[STUDY.name]
    pairs = [name for name in table.frame.columns if " + " in name]
    fails = {name: int((table.values(LOW_RATE, name, "binds") < FAILS).sum()) for name in pairs}
    ordered = sorted(pairs, key=lambda name: -fails[name])
    task = STUDY.base.task
    never = [any({name[0], name[4]} <= set(banned) for banned in task.bans) for name in ordered]
    axes = figure.subplots()
    colors = [COLORS.vermilion if never_meet else COLORS.grey for never_meet in never]
    axes.bar(range(len(ordered)), [fails[name] for name in ordered], color=colors)
    axes.set_xticks(range(len(ordered)), [name[:5] for name in ordered], rotation=90, fontsize=6)
    axes.bar([0], [0], color=COLORS.vermilion, label="variables that never meet in training")
    axes.bar([0], [0], color=COLORS.grey, label="variables that meet, in the other order")
    axes.legend()
    networks = len(table.values(LOW_RATE, pairs[0], "binds"))
    axes.set_ylabel(f"networks of {networks} that fail")
    axes.set_xlabel("sum of two variables, one in a banned slot")
    axes.set_yticks(range(1 + max(fails.values())))
