"""Study `doubles`: why do networks that bind fail on held-out doubles n + n?"""

from __future__ import annotations

from functools import partial

from assignadd.measures.doubles import (
    HELD_OUT_DOUBLES,
    OTHERS_WITHOUT_VOTES,
    VOTE_HELD_OUT,
    WITHOUT_VOTES,
    doubles_columns,
)
from assignadd.studies.study import Cell, FinalMeasures, Hypothesis, Study, study_base
from assignadd.sweeps.final_tests import final_column
from assignadd.verdicts import AtLeast, AtMost

PAPER, TWICE, UNORDERED = "as in the paper", "doubles twice as often", "unordered pairs held out"
NONE_SEEN, MOST_SEEN = "no doubles in training", "90 % of the doubles in training"
CELLS = (
    Cell(PAPER),
    Cell(TWICE, {"task.doubles_weight": 2}),
    Cell(UNORDERED, {"task.unordered_split": True}),
    Cell(NONE_SEEN, {"task.seen_doubles": 0.0}),
    Cell(MOST_SEEN, {"task.seen_doubles": 0.9}),
)
DIFFERENCE = "doubles minus others"
VOTES = partial(FinalMeasures, doubles_columns)
"""Measures the votes of the operands after the last step, and the accuracy without them."""


def fails_on_doubles(id: str, cell: str) -> Hypothesis:
    """Networks of this cell that bind answer held-out doubles less often than other held-out pairs."""
    return Hypothesis(
        id,
        f"{cell.capitalize()}: networks that bind answer held-out doubles less often than pairs held out in both "
        "orders, by at least .1 on average.",
        DIFFERENCE, cell, AtMost(-0.1), among="binds",
    )  # fmt: skip


def _votes(cell: str, slug: str) -> tuple[Hypothesis, ...]:
    return (
        Hypothesis(
            f"study-doubles-vote-{slug}",
            f"{cell.capitalize()}: in networks that bind, the vote of n for n + n is below that for other answers by "
            "at least one standard deviation of all votes, where n + n is held out.",
            final_column(VOTE_HELD_OUT), cell, AtMost(-1), among="binds",
        ),
        Hypothesis(
            f"study-doubles-cure-{slug}",
            f"{cell.capitalize()}: networks that bind answer at least 90 % of held-out doubles once the votes of n for "
            "n + n are removed.",
            final_column(WITHOUT_VOTES), cell, AtLeast(0.9), among="binds",
        ),
        Hypothesis(
            f"study-doubles-harmless-{slug}",
            f"{cell.capitalize()}: without these votes, networks that bind answer at least 99 % of the other pairs.",
            final_column(OTHERS_WITHOUT_VOTES), cell, AtLeast(0.99), among="binds",
        ),
    )  # fmt: skip


DOUBLES = Study(
    name="doubles",
    title="Held-out doubles",
    question="Networks that bind fail on held-out sums n + n and on no others. Why?",
    method=(
        "The paper's network and task. Pairs (n, n) are drawn twice as often in training; or pairs are held out in "
        "both orders, so that an unordered pair is as often seen as a double; or none or 90 % of the doubles are in "
        "training, and 70 % of the other pairs as before. At the end the vote of each operand n for the answer n + n "
        "(the part of its logit that is linear in the operand) is measured and removed. Votes are in standard "
        "deviations of all votes of a network."
    ),
    base=study_base(steps=15_000),
    cells=CELLS,
    seeds=32,
    outcomes=("adds", "binds", "refines"),
    numbers=(DIFFERENCE, final_column(VOTE_HELD_OUT), final_column(WITHOUT_VOTES)),
    shown=(final_column(HELD_OUT_DOUBLES), final_column(WITHOUT_VOTES)),
    shown_on="accuracy on held-out doubles",
    observe=VOTES,
    hypotheses=(
        fails_on_doubles("study-doubles-paper", PAPER),
        fails_on_doubles("study-doubles-twice", TWICE),
        fails_on_doubles("study-doubles-unordered", UNORDERED),
        fails_on_doubles("study-doubles-none-seen", NONE_SEEN),
        Hypothesis(
            "study-doubles-none-seen-lower",
            "With no doubles in training, networks that bind answer held-out doubles less often than in the paper's "
            "setting, by at least .1 on average.",
            DIFFERENCE, NONE_SEEN, AtMost(-0.1), versus=PAPER, among="binds",
        ),
        Hypothesis(
            "study-doubles-most-seen-higher",
            "With 90 % of the doubles in training, networks that bind answer held-out doubles more often than in the "
            "paper's setting, by at least .1 on average.",
            DIFFERENCE, MOST_SEEN, AtLeast(0.1), versus=PAPER, among="binds",
        ),
        *_votes(PAPER, "paper"),
        *_votes(NONE_SEEN, "none-seen"),
    ),
)  # fmt: skip
