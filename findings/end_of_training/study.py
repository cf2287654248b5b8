"""How much of "not all test sets over 98 %" is noise of the last steps?"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import polars
from matplotlib.figure import Figure

from assignadd.figure import COLORS
from assignadd.study import BASE, PAPER, Cell, Study, StudyTable, final_column, mean, share
from assignadd.task import EVAL_SETS

TEST_SETS = [evalset.name for evalset in EVAL_SETS if evalset.pair == "held_out" or evalset.n_banned]
LEVEL = 0.98
LAST, ALONG, LOWEST = "all test sets at the last step", "all test sets along the end", "lowest test set"
MEANINGS = {
    LAST: "answer 98 % of each of the six test sets after the last step",
    ALONG: "answer 98 % of each of the six test sets by the median of the last ten evaluations",
    LOWEST: "the lowest accuracy of the six test sets after the last step",
}
FALLS = "rate falls"
STEPS, FALLS_FROM, LAST_RATE = 50_000, 40_000, 1e-4


def all_sets(evaluations: polars.DataFrame, _: int) -> dict[str, Any]:
    """Whether all six test sets are over 98 %, in the exam after the last step and by the median of the last ten."""
    last = evaluations.row(-1, named=True)
    lowest = min(last[final_column(name)] for name in TEST_SETS)
    ends = evaluations.select(f"{name} (end)" for name in TEST_SETS).tail(10).median().row(0)
    return {LAST: lowest >= LEVEL, ALONG: min(ends) >= LEVEL, LOWEST: lowest}


STUDY = Study(
    "end-of-training",
    "How much of not reaching 98 % on all test sets is noise of the last steps?",
    cells=(Cell(PAPER), Cell(FALLS, {"optim.later_lr": LAST_RATE, "optim.later_from": FALLS_FROM})),
    seeds=128,
    first_seed=9000,
    steps=STEPS,
    base=replace(BASE, record=replace(BASE.record, eval_every=500, checkpoint_every=STEPS)),
    columns=MEANINGS,
    of_curves=all_sets,
    outcomes=("binds", LAST, ALONG),
    numbers=("binding at", LOWEST),
    ask=(
        share(LAST, among="binds").of(FALLS).versus(PAPER, at_least=0.2),
        share(ALONG, among="binds").of(FALLS).versus(PAPER, at_least=0.2),
        share(LAST, among="binds").of(FALLS).at_least(0.9),
        share("binds").of(FALLS).versus(PAPER, between=(-0.15, 0.15)),
        mean(final_column("0-var doubles"), among="binds").of(FALLS).versus(PAPER, at_least=0),
    ),
)

SIZE = (6.0, 2.6)


def draw(tables: Mapping[str, StudyTable], figure: Figure) -> None:
    """Among networks that bind, the share whose lowest test set is at most x, for both schedules of the rate."""
    table, axes = tables[STUDY.name], figure.subplots()
    for cell, color in ((PAPER, COLORS.blue), (FALLS, COLORS.vermilion)):
        lowest = np.sort(table.values(cell, LOWEST, "binds"))
        share_below = np.arange(1, len(lowest) + 1) / len(lowest)
        axes.step(lowest, share_below, where="post", color=color, label=f"{cell} ({len(lowest)} networks)")
    axes.axvline(LEVEL, color=COLORS.grey, linewidth=0.8, linestyle="--")
    axes.set(xlim=(0.9, 1.002), ylim=(0, 1.02))
    axes.set_xlabel("lowest accuracy of the six test sets after the last step (dashed: the rule)")
    axes.set_ylabel("share of networks at most so high")
    axes.legend(loc="upper left")
