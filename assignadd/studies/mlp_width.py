"""Study `mlp-width`: are held-out doubles n + n answered with a narrow MLP, also after longer training?"""

from __future__ import annotations

from assignadd.studies.doubles import DIFFERENCE
from assignadd.studies.doubles_causes import DOUBLES, PAPER
from assignadd.studies.longer import LEARNED, learned_column
from assignadd.studies.study import Cell, Hypothesis, Study, slug, study_base
from assignadd.verdicts import AtLeast

WIDTHS = (16, 32, 64, 128, 256)
STEPS = 30_000


def label(width: int) -> str:
    """The name of a cell, such as "MLP of 64"."""
    return f"MLP of {width}"


MLP_WIDTH = Study(
    name="mlp-width",
    title="Held-out doubles and the width of the MLP",
    question="Do held-out sums n + n come out right if the MLP is narrow?",
    method=(
        "The paper's task, network and settings with 16 to 256 neurons in MLP2 in place of 512. In the study "
        "`doubles-causes` (15,000 steps) networks with 128 neurons answered more held-out doubles than with 512, and "
        "those with 2,048 fewer. As doubles depend on whether two-variable sums are learned (study `longer`), networks "
        "are compared that answer 95 % of the trained sums of one variable and of two. The seeds, 9500 to 9531, are "
        "used nowhere else."
    ),
    base=study_base(steps=STEPS),
    cells=(Cell(PAPER), *(Cell(label(width), {"model.d_mlp": (None, width)}) for width in WIDTHS)),
    seeds=32,
    first_seed=9500,
    outcomes=("adds", "binds", LEARNED),
    numbers=(DIFFERENCE, DOUBLES),
    shown=(DOUBLES,),
    shown_on="accuracy on held-out doubles",
    of_curves=learned_column,
    hypotheses=(
        *(
            Hypothesis(
                f"study-mlp-width-{slug(label(width))}-more",
                f"With an {label(width)}, networks that answer trained sums answer held-out doubles more often than "
                "with the paper's 512, by at least .1 on average.",
                DOUBLES, label(width), AtLeast(0.1), versus=PAPER, among=LEARNED,
            )
            for width in WIDTHS
        ),
        *(
            Hypothesis(
                f"study-mlp-width-{slug(label(width))}-right",
                f"With an {label(width)}, networks that answer trained sums answer at least 90 % of held-out doubles "
                "on average.",
                DOUBLES, label(width), AtLeast(0.9), among=LEARNED,
            )
            for width in (16, 32, 64)
        ),
    ),
)  # fmt: skip
