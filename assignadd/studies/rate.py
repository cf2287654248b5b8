"""Study `rate`: how does the share of seeds that bind depend on the learning rate?"""

from __future__ import annotations

from assignadd.studies.study import Cell, Hypothesis, Study, study_base
from assignadd.studies.table import StudyTable
from assignadd.verdicts import AtLeast, AtMost

OF_THE_PAPER = 1e-3
RATES = (3e-4, 6e-4, OF_THE_PAPER, 1.5e-3, 2e-3, 3e-3, 4e-3, 6e-3, 1e-2)
# The rate that the studies `when` and `cure` use, which `best_rate` chooses from this study's table.
IN_THE_WINDOW = 0.002


def label(rate: float) -> str:
    """The name of a cell, such as "rate 0.001"."""
    return f"rate {rate:g}"


def best_rate(table: StudyTable) -> float:
    """The rate at which most seeds both bind and add; of several such the middle one, of an even number the lower."""
    cells = {rate: table.cells[label(rate)] for rate in RATES}
    succeeded = {rate: (cell["binds"] & cell["adds"]).sum() for rate, cell in cells.items()}
    best = [rate for rate, n in succeeded.items() if n == max(succeeded.values())]
    return best[(len(best) - 1) // 2]


RATE = Study(
    name="rate",
    title="The learning rate",
    question="How does the share of seeds that learn to bind depend on the learning rate?",
    method=(
        "The paper's task, network and settings with nine learning rates from 0.0003 to 0.01; the paper's is 0.001. "
        "All networks make the same number of updates, so a low rate also means less training."
    ),
    base=study_base(steps=15_000),
    cells=tuple(Cell(label(r), {} if r == OF_THE_PAPER else {"optim.lr": r}) for r in RATES),
    seeds=32,
    outcomes=("adds", "binds", "refines"),
    numbers=("addition at", "binding at"),
    hypotheses=(
        Hypothesis(
            "study-rate-slow", "At a rate of 0.0003, fewer seeds bind than at the paper's.",
            "binds", label(3e-4), AtMost(0), versus=label(OF_THE_PAPER),
        ),
        *(
            Hypothesis(
                f"study-rate-window-{rate:g}", f"At a rate of {rate:g}, more seeds bind than at the paper's.",
                "binds", label(rate), AtLeast(0), versus=label(OF_THE_PAPER),
            )
            for rate in (1.5e-3, 2e-3, 3e-3, 4e-3)
        ),
        *(
            Hypothesis(
                f"study-rate-nearly-all-{rate:g}", f"At a rate of {rate:g}, at least 80 % of the seeds bind.",
                "binds", label(rate), AtLeast(0.8),
            )
            for rate in (2e-3, 3e-3, 4e-3)
        ),
        Hypothesis(
            "study-rate-too-fast-adds", "At a rate of 0.01, at most half of the seeds add held-out pairs of literals.",
            "adds", label(1e-2), AtMost(0.5),
        ),
        Hypothesis(
            "study-rate-too-fast-binds", "At a rate of 0.01, at most a fifth of the seeds bind.",
            "binds", label(1e-2), AtMost(0.2),
        ),
    ),
)  # fmt: skip
