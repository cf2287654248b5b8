"""Study `longer`: do networks with smaller initial weights answer held-out doubles n + n after longer training?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from assignadd.dynamics.phases import THRESHOLD
from assignadd.measures.doubles import HELD_OUT_DOUBLES, VOTE_HELD_OUT, WITHOUT_VOTES
from assignadd.studies.doubles import DIFFERENCE, VOTES
from assignadd.studies.small_weights import PAPER, SMALL_WEIGHTS, SMALLER
from assignadd.studies.study import Hypothesis, Study, study_base
from assignadd.studies.table import TRAINED_SETS
from assignadd.sweeps.final_tests import final_column
from assignadd.verdicts import AtLeast

if TYPE_CHECKING:
    import polars

STEPS = 40_000
DECAYED = f"{SMALLER}, decay 0.1"
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
        f"Three cells of the study `small-weights`, with the same seeds, {STEPS:,} steps in place of 15,000. There, "
        "many networks with smaller weights had not learned two-variable sums by the end; here networks are compared "
        f"that answer {THRESHOLD:.0%} of the trained sums of one variable and of two."
    ),
    base=study_base(steps=STEPS),
    cells=tuple(cell for cell in SMALL_WEIGHTS.cells if cell.label in (PAPER, SMALLER, DECAYED)),
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
            for slug, cell in (("scale", SMALLER), ("both", DECAYED))
        ),
        *(
            Hypothesis(
                f"study-longer-right-{slug}",
                f"With {cell}, networks that answer trained sums answer at least 90 % of held-out doubles on average.",
                final_column(HELD_OUT_DOUBLES), cell, AtLeast(0.9), among=LEARNED,
            )
            for slug, cell in (("scale", SMALLER), ("both", DECAYED))
        ),
        Hypothesis(
            "study-longer-learned",
            f"With {SMALLER}, at least 80 % of the networks answer trained sums of one and of two variables.",
            LEARNED, SMALLER, AtLeast(0.8),
        ),
    ),
)  # fmt: skip
