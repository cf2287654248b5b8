"""Study `order`: do networks bind without literal sums at first, and does it matter when a part is frozen?"""

from __future__ import annotations

from functools import partial

from assignadd.dynamics.phases import BINDING_SET, binds
from assignadd.stats import wilson
from assignadd.studies.study import Cell, ComputedHypothesis, Hypothesis, Study, slug, study_base
from assignadd.studies.table import Estimate, StudyTable, early_column
from assignadd.verdicts import AtLeast

PAPER = "as in the paper"
LITERALS_FROM = (500, 2000, 8000)
# In the study `parts` the same two are frozen in the first 2,000 steps.
FROZEN = ("QK1", "MLP2")
WINDOWS = ((2000, 4000), (4000, 6000))


def withheld(until: int) -> str:
    """The name of a cell, such as "no literal sums until 2,000"."""
    return f"no literal sums until {until:,}"


def window(part: str, first: int, last: int) -> str:
    """The name of a cell, such as "QK1 frozen from 2,000 until 4,000"."""
    return f"{part} frozen from {first:,} until {last:,}"


def bound_without_literals(until: int, table: StudyTable) -> Estimate | None:
    """The share of networks that bind at the step at which literal sums come, in the evaluation then."""
    accuracies = table.values(withheld(until), early_column(BINDING_SET, until))
    if len(accuracies) < 2:
        return None
    bound = int(binds(accuracies).sum())
    ends = wilson(bound, len(accuracies))
    return Estimate(bound / len(accuracies), ends.low, ends.high, len(accuracies))


ORDER = Study(
    name="order",
    title="Literal sums later, and parts frozen later",
    question="Does the ability to add literals block binding, can binding come first, and must a part be frozen early?",
    method=(
        "The paper's task, network and settings. In three cells training has no sequences without variables until a "
        "step, from which on the mix is the paper's. In four, as controls for the study `parts`, QK1 or the MLP keep "
        "the weights that they have at one step until 2,000 steps later, and are trained before and after. The "
        "seeds are those of `parts`."
    ),
    base=study_base(steps=15_000),
    cells=(
        Cell(PAPER),
        *(Cell(withheld(step), {"optim.literals_from": step}) for step in LITERALS_FROM),
        *(
            Cell(window(part, a, b), {"optim.frozen": part, "optim.frozen_from": a, "optim.frozen_until": b})
            for part in FROZEN for a, b in WINDOWS
        ),
    ),
    seeds=32,
    early_steps=LITERALS_FROM,
    early=(BINDING_SET, "0-var train", "0-var add-restricted"),
    outcomes=("adds", "binds", "refines"),
    numbers=("addition at", "binding at"),
    hypotheses=(
        *(
            Hypothesis(
                f"study-order-literals-{step}",
                f"Without literal sums until step {step:,}, more seeds bind than with them.",
                "binds", withheld(step), AtLeast(0), versus=PAPER,
            )
            for step in LITERALS_FROM
        ),
        ComputedHypothesis(
            "study-order-reversed",
            f"Without any literal sums, at least half of the seeds bind by step {LITERALS_FROM[-1]:,}.",
            AtLeast(0.5), partial(bound_without_literals, LITERALS_FROM[-1]),
        ),
        *(
            Hypothesis(
                f"study-order-{slug(part)}-{a}",
                f"With {part} frozen from step {a:,} until {b:,}, more seeds bind than with nothing frozen.",
                "binds", window(part, a, b), AtLeast(0), versus=PAPER,
            )
            for part in FROZEN for a, b in WINDOWS
        ),
    ),
)  # fmt: skip
