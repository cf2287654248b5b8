"""Study `small-weights`: do networks with smaller weights answer held-out doubles n + n?"""

from __future__ import annotations

from assignadd.measures.doubles import HELD_OUT_DOUBLES, VOTE_HELD_OUT, WITHOUT_VOTES
from assignadd.studies.doubles import DIFFERENCE, VOTES
from assignadd.studies.study import Cell, Hypothesis, Study, slug, study_base
from assignadd.sweeps.final_tests import final_column
from assignadd.verdicts import AtLeast

PAPER, SMALLER = "the paper's", "scale 0.4"
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
    base=study_base(steps=15_000),
    cells=(
        Cell(PAPER),
        *(Cell(name, {"optim.weight_decay": decay}) for name, decay in DECAYED.items()),
        Cell(SMALLER, {"model.init_scale": 0.4}),
        *(Cell(name, {"model.init_scale": 0.4, "optim.weight_decay": decay}) for name, decay in BOTH.items()),
    ),
    seeds=32,
    first_seed=4000,
    outcomes=("adds", "binds", "refines"),
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
