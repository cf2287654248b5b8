"""Study `size`: how do the phases of training and the frequencies of addition depend on N, V and T?"""

from __future__ import annotations

from assignadd.studies.study import Cell, Hypothesis, Study, slug, study_base
from assignadd.verdicts import AtLeast

PAPER = "N = 59, V = 12, T = 16"
# As large a share of the variables is banned in each slot as in the paper, 2 of 12.
BANS = {6: ("a", "d"), 24: ("abcd", "mnop")}
CELLS = (
    Cell(PAPER),
    *(Cell(f"N = {n}", {"task.modulus": n}) for n in (29, 113, 199)),
    *(
        Cell(f"V = {v}", {"task.n_vars": v, "task.banned_first": first, "task.banned_second": second})
        for v, (first, second) in BANS.items()
    ),
    *(Cell(f"T = {length}", {"task.length": length}) for length in (24, 32)),
)


SIZE = Study(
    name="size",
    title="Numbers, variables and length",
    question="How do the phases of training and the number of frequencies depend on the size of the task?",
    method=(
        "The paper's network. One size of the task differs at a time: the numbers N, the variables V (with 2 of 12 "
        "banned from each slot throughout) or the length T (longer sequences have more padding, not more assignments)."
    ),
    base=study_base(steps=15_000),
    cells=CELLS,
    seeds=16,
    outcomes=("adds", "binds", "refines"),
    numbers=("addition at", "binding at", "refinement at", "frequencies"),
    hypotheses=(
        *(
            Hypothesis(
                f"study-size-adds-{slug(cell.label)}",
                f"With {cell.label}, at least 80 % of the seeds learn to add held-out pairs of literals.",
                "adds", cell.label, AtLeast(0.8),
            )
            for cell in CELLS
        ),
        *(
            Hypothesis(
                f"study-size-binds-{slug(cell.label)}",
                f"With {cell.label}, at least half of the seeds bind by the end of training.",
                "binds", cell.label, AtLeast(0.5),
            )
            for cell in CELLS
        ),
        Hypothesis(
            "study-size-frequencies-199",
            "Networks that learn to add with N = 199 use more frequencies than those with N = 59, by at least one.",
            "frequencies", "N = 199", AtLeast(1), versus=PAPER, among="adds",
        ),
        Hypothesis(
            "study-size-frequencies-29",
            "Networks that learn to add with N = 59 use more frequencies than those with N = 29, by at least one.",
            "frequencies", PAPER, AtLeast(1), versus="N = 29", among="adds",
        ),
    ),
)  # fmt: skip
