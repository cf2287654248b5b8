"""Studies of held-out doubles n + n, which networks that bind fail on: votes, smaller weights, longer training."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from assignadd.dynamics.phases import THRESHOLD
from assignadd.measures.doubles import (
    HELD_OUT_DOUBLES,
    OTHERS_WITHOUT_VOTES,
    VOTE_HELD_OUT,
    WITHOUT_VOTES,
    doubles_columns,
)
from assignadd.studies.study import PAPER, Cell, FinalMeasures, Hypothesis, Study, slug, study_base
from assignadd.studies.table import TRAINED_SETS
from assignadd.sweeps.final_tests import final_column
from assignadd.verdicts import AtLeast, AtMost

if TYPE_CHECKING:
    import polars

AS_IN_THE_PAPER, TWICE, UNORDERED = "as in the paper", "doubles twice as often", "unordered pairs held out"
NONE_SEEN, MOST_SEEN = "no doubles in training", "90 % of the doubles in training"
CELLS = (
    Cell(AS_IN_THE_PAPER),
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
    cells=CELLS,
    seeds=32,
    numbers=(DIFFERENCE, final_column(VOTE_HELD_OUT), final_column(WITHOUT_VOTES)),
    shown=(final_column(HELD_OUT_DOUBLES), final_column(WITHOUT_VOTES)),
    shown_on="accuracy on held-out doubles",
    observe=VOTES,
    hypotheses=(
        fails_on_doubles("study-doubles-paper", AS_IN_THE_PAPER),
        fails_on_doubles("study-doubles-twice", TWICE),
        fails_on_doubles("study-doubles-unordered", UNORDERED),
        fails_on_doubles("study-doubles-none-seen", NONE_SEEN),
        Hypothesis(
            "study-doubles-none-seen-lower",
            "With no doubles in training, networks that bind answer held-out doubles less often than in the paper's "
            "setting, by at least .1 on average.",
            DIFFERENCE, NONE_SEEN, AtMost(-0.1), versus=AS_IN_THE_PAPER, among="binds",
        ),
        Hypothesis(
            "study-doubles-most-seen-higher",
            "With 90 % of the doubles in training, networks that bind answer held-out doubles more often than in the "
            "paper's setting, by at least .1 on average.",
            DIFFERENCE, MOST_SEEN, AtLeast(0.1), versus=AS_IN_THE_PAPER, among="binds",
        ),
        *_votes(AS_IN_THE_PAPER, "paper"),
        *_votes(NONE_SEEN, "none-seen"),
    ),
)  # fmt: skip


SMALLER = "scale 0.4"
DECAYS = (0.1, 0.2)
DECAYED = {f"decay {decay:g}": decay for decay in DECAYS}
BOTH = {f"{SMALLER}, decay {decay:g}": decay for decay in DECAYS}
CHANGED = (*DECAYED, SMALLER, *BOTH)


SMALL_WEIGHTS = Study(
    name="small-weights",
    title="Held-out doubles with smaller weights",
    question="Is it the size of the weights on which held-out sums n + n depend, and do they come out right if small?",
    method=(
        "The paper's network and task with initial weights of scale 0.4 in place of 0.8, with a weight decay of 0.1 or "
        "0.2 in place of 0.02, or both. In the studies `scale` and `training`, held-out doubles were answered the more "
        "often the smaller the scale and the larger the decay; these seeds, 4000 to 4031, are others. Votes as in the "
        "study `doubles`."
    ),
    cells=(
        Cell(PAPER),
        *(Cell(name, {"optim.weight_decay": decay}) for name, decay in DECAYED.items()),
        Cell(SMALLER, {"model.init_scale": 0.4}),
        *(Cell(name, {"model.init_scale": 0.4, "optim.weight_decay": decay}) for name, decay in BOTH.items()),
    ),
    seeds=32,
    first_seed=4000,
    numbers=(DIFFERENCE, final_column(HELD_OUT_DOUBLES), final_column(VOTE_HELD_OUT), final_column(WITHOUT_VOTES)),
    shown=(final_column(HELD_OUT_DOUBLES), final_column(WITHOUT_VOTES)),
    shown_on="accuracy on held-out doubles",
    observe=VOTES,
    hypotheses=(
        *(
            Hypothesis(
                f"study-small-weights-{slug(cell)}",
                f"With {cell}, networks that bind answer held-out doubles more often than with the paper's settings, "
                "by at least .1 on average.",
                DIFFERENCE, cell, AtLeast(0.1), versus=PAPER, among="binds",
            )
            for cell in CHANGED
        ),
        *(
            Hypothesis(
                f"study-small-weights-right-{slug(cell)}",
                f"With {cell}, networks that bind answer at least 90 % of held-out doubles on average.",
                final_column(HELD_OUT_DOUBLES), cell, AtLeast(0.9), among="binds",
            )
            for cell in BOTH
        ),
        *(
            Hypothesis(
                f"study-small-weights-vote-{slug(cell)}",
                f"With {cell}, the vote of n for a held-out n + n is less negative in networks that bind than with the "
                "paper's settings, by at least half a standard deviation.",
                final_column(VOTE_HELD_OUT), cell, AtLeast(0.5), versus=PAPER, among="binds",
            )
            for cell in CHANGED
        ),
    ),
)  # fmt: skip


LONGER_STEPS = 40_000
SMALLER_DECAYED = f"{SMALLER}, decay 0.1"
LEARNED = "answers trained sums"


def learned_column(rows: polars.DataFrame, n: int) -> dict[str, bool]:
    """Whether a model answers 95 % of the trained sums of one variable and of two in its final exam."""
    last = rows.sort("step").row(-1, named=True)
    return {LEARNED: all((last[final_column(name)] or 0.0) >= THRESHOLD for name in TRAINED_SETS[:2])}


LONGER = Study(
    name="longer",
    title="Held-out doubles after longer training",
    question="With smaller initial weights, are held-out sums n + n still answered once two-variable sums are learned?",
    method=(
        f"Three cells of the study `small-weights`, with the same seeds, {LONGER_STEPS:,} steps in place of 15,000. "
        "There, many networks with smaller weights had not learned two-variable sums by the end; here networks are "
        f"compared that answer {THRESHOLD:.0%} of the trained sums of one variable and of two."
    ),
    base=study_base(steps=LONGER_STEPS),
    cells=tuple(cell for cell in SMALL_WEIGHTS.cells if cell.label in (PAPER, SMALLER, SMALLER_DECAYED)),
    seeds=SMALL_WEIGHTS.seeds,
    first_seed=SMALL_WEIGHTS.first_seed,
    outcomes=("adds", "binds", LEARNED),
    numbers=(DIFFERENCE, final_column(HELD_OUT_DOUBLES), final_column(VOTE_HELD_OUT), final_column(WITHOUT_VOTES)),
    shown=(final_column(HELD_OUT_DOUBLES), final_column(WITHOUT_VOTES)),
    shown_on="accuracy on held-out doubles",
    observe=VOTES,
    of_curves=learned_column,
    hypotheses=(
        *(
            Hypothesis(
                f"study-longer-{slug}",
                f"With {cell}, networks that answer trained sums answer held-out doubles more often than with the "
                "paper's settings, by at least .1 on average.",
                DIFFERENCE, cell, AtLeast(0.1), versus=PAPER, among=LEARNED,
            )
            for slug, cell in (("scale", SMALLER), ("both", SMALLER_DECAYED))
        ),
        *(
            Hypothesis(
                f"study-longer-right-{slug}",
                f"With {cell}, networks that answer trained sums answer at least 90 % of held-out doubles on average.",
                final_column(HELD_OUT_DOUBLES), cell, AtLeast(0.9), among=LEARNED,
            )
            for slug, cell in (("scale", SMALLER), ("both", SMALLER_DECAYED))
        ),
        Hypothesis(
            "study-longer-learned",
            f"With {SMALLER}, at least 80 % of the networks answer trained sums of one and of two variables.",
            LEARNED, SMALLER, AtLeast(0.8),
        ),
    ),
)  # fmt: skip
