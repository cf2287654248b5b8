"""Study `operands`: does binding depend on how many values are looked up?"""

from __future__ import annotations

from assignadd.studies.study import Cell, Hypothesis, Study, study_base
from assignadd.verdicts import AtLeast

PAPER = "2 operands"
CELLS = (
    Cell(PAPER),
    # The prefix stays 12 positions long; one operand has no second slot.
    Cell("1 operand", {"task.operands": 1, "task.length": 15}),
    Cell("3 operands", {"task.operands": 3, "task.length": 17}),
)

OPERANDS = Study(
    name="operands",
    title="One to three operands",
    question="Does the share of seeds that bind depend on the number of operands? One operand is lookup alone.",
    method=(
        "The paper's network, and its task with one, two or three numbers to add: `+ v =`, `+ v w =` and `+ u v w =` "
        "after twelve positions of assignments. A share of .7 of the numbers, pairs or triples is in training; the "
        "third slot has no banned variables. With one operand a held-out number is the answer of no training sequence. "
        "Networks with three operands that do not answer held-out triples have not learned the sums either, so their "
        "share that binds is not about binding alone."
    ),
    base=study_base(steps=15_000),
    cells=CELLS,
    seeds=32,
    outcomes=("adds", "binds", "refines"),
    numbers=("addition at", "binding at", "refinement at"),
    hypotheses=(
        Hypothesis(
            "study-operands-one-binds",
            "With one operand, at least 80 % of the seeds bind.",
            "binds", "1 operand", AtLeast(0.8),
        ),
        Hypothesis(
            "study-operands-three-adds",
            "With three operands, at least 80 % of the seeds add held-out triples of literals.",
            "adds", "3 operands", AtLeast(0.8),
        ),
        Hypothesis(
            "study-operands-three-binds",
            "With three operands, at least half of the seeds bind by the end of training.",
            "binds", "3 operands", AtLeast(0.5),
        ),
    ),
)  # fmt: skip
