"""Studies of held-out doubles n + n: do they fail for the votes against them, or with the width of the MLP?"""

from __future__ import annotations

from functools import partial

import numpy as np

from assignadd.measures.doubles import ASYMMETRY, asymmetry_columns
from assignadd.stats import Z_95
from assignadd.studies.doubles import DIFFERENCE, LEARNED, fails_on_doubles, learned_column
from assignadd.studies.study import PAPER, Cell, ComputedHypothesis, FinalMeasures, Hypothesis, Study, slug, study_base
from assignadd.studies.table import Estimate, StudyTable
from assignadd.sweeps.final_tests import final_column
from assignadd.verdicts import AtLeast, AtMost

NO_DIRECT, ABS, NOT_LINEAR = "no direct path", "abs", "abs, no direct path"
NARROW, WIDE, SMALL = "MLP of 128", "MLP of 2,048", "width 64, MLP of 512"
DOUBLES, OPERANDS_DIFFER = final_column("0-var doubles"), final_column(ASYMMETRY)


def rank_correlation(cell: str, table: StudyTable) -> Estimate | None:
    """Spearman's correlation between the difference of the operands and held-out doubles, of networks that bind.

    The interval is by Fisher's transformation with the variance of Bonett and Wright (2000).
    """
    import polars

    x, y = (polars.Series(table.values(cell, column, "binds")).rank() for column in (OPERANDS_DIFFER, DOUBLES))
    if len(x) < 5:
        return None
    r = float(np.corrcoef(x, y)[0, 1])
    low, high = (np.tanh(np.arctanh(r) + k * Z_95 * np.sqrt((1 + r * r / 2) / (len(x) - 3))) for k in (-1, 1))
    return Estimate(r, float(low), float(high), len(x))


def _compared(cell: str, rule: AtLeast | AtMost, words: str) -> Hypothesis:
    return Hypothesis(
        f"study-doubles-causes-{slug(cell)}-{words}",
        f"With {cell}, networks that bind answer held-out doubles {words} often than with the paper's settings, by at "
        "least .1 on average.",
        DOUBLES, cell, rule, versus=PAPER, among="binds",
    )  # fmt: skip


DOUBLES_CAUSES = Study(
    name="doubles-causes",
    title="Held-out doubles without votes, and with other MLPs",
    question="Do held-out sums n + n still fail in networks whose logits have no part that is linear in the operands?",
    method=(
        "The paper's task. The votes against n + n (study `doubles`) are in the part of the logits that is linear in "
        "the residual: the direct path around MLP2, and half of MLP2, as ReLU(x) = x/2 + |x|/2. MLP2 computes |x| in "
        "place of ReLU(x) (`model.activation abs`), or has no direct path around it (`model.direct_path`), or both: "
        "then there is no linear part and there can be no votes. In other cells MLP2 or the residual stream have "
        "another width. For each network, the difference of the operands is |A - B| / |A + B| with the mean residuals "
        "before MLP2 of literal sums with n first (A) and second (B). The seeds, 9400 to 9431, are used nowhere else; "
        "before the rules were written, 12 other seeds were trained for 8,000 steps with |x| and 12 with ReLU(x), and "
        "tested with and without the direct path; five networks of the package suggested the correlation."
    ),
    cells=(
        Cell(PAPER),
        Cell(NO_DIRECT, {"model.direct_path": False}),
        Cell(ABS, {"model.activation": "abs"}),
        Cell(NOT_LINEAR, {"model.activation": "abs", "model.direct_path": False}),
        Cell(NARROW, {"model.d_mlp": (None, 128)}),
        Cell(WIDE, {"model.d_mlp": (None, 2048)}),
        Cell(SMALL, {"model.d_model": 64, "model.d_head": 64}),
    ),
    seeds=32,
    first_seed=9400,
    numbers=(DIFFERENCE, DOUBLES, OPERANDS_DIFFER),
    shown=(DOUBLES,),
    shown_on="accuracy on held-out doubles",
    observe=partial(FinalMeasures, asymmetry_columns),
    hypotheses=(
        *(fails_on_doubles(f"study-doubles-causes-{slug(cell)}", cell) for cell in (NO_DIRECT, ABS, NOT_LINEAR)),
        _compared(NARROW, AtLeast(0.1), "more"),
        _compared(SMALL, AtLeast(0.1), "more"),
        _compared(WIDE, AtMost(-0.1), "less"),
        ComputedHypothesis(
            "study-doubles-causes-difference",
            "Networks that bind with the paper's settings answer the more held-out doubles, the more differently MLP2 "
            "reads the two operands (rank correlation).",
            AtLeast(0), partial(rank_correlation, PAPER),
        ),
    ),
)  # fmt: skip


WIDTHS = (16, 32, 64, 128, 256)
WIDTH_STEPS = 30_000


def width_label(width: int) -> str:
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
    base=study_base(steps=WIDTH_STEPS),
    cells=(Cell(PAPER), *(Cell(width_label(width), {"model.d_mlp": (None, width)}) for width in WIDTHS)),
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
                f"study-mlp-width-{slug(width_label(width))}-more",
                f"With an {width_label(width)}, networks that answer trained sums answer held-out doubles more often "
                "than with the paper's 512, by at least .1 on average.",
                DOUBLES, width_label(width), AtLeast(0.1), versus=PAPER, among=LEARNED,
            )
            for width in WIDTHS
        ),
        *(
            Hypothesis(
                f"study-mlp-width-{slug(width_label(width))}-right",
                f"With an {width_label(width)}, networks that answer trained sums answer at least 90 % of held-out "
                "doubles on average.",
                DOUBLES, width_label(width), AtLeast(0.9), among=LEARNED,
            )
            for width in (16, 32, 64)
        ),
    ),
)  # fmt: skip
