"""Study `when`: until when does a higher learning rate make seeds bind that otherwise stay stuck?"""

from __future__ import annotations

from functools import partial

from assignadd.stats import wilson
from assignadd.studies.rate import IN_THE_WINDOW, OF_THE_PAPER
from assignadd.studies.study import Cell, ComputedHypothesis, Hypothesis, Study, study_base
from assignadd.studies.table import Estimate, StudyTable
from assignadd.verdicts import AtLeast, AtMost, Rule

NEVER, ALWAYS = "never raised", "raised from the start"
RAISED_AT, LOWERED_AT = (500, 1000, 2000, 4000, 8000, 16_000), (1000, 4000)


def raised(step: int) -> str:
    """The name of a cell, such as "raised at 4,000"."""
    return f"raised at {step:,}"


def lowered(step: int) -> str:
    """The name of a cell, such as "high until 4,000"."""
    return f"high until {step:,}"


def comes_to_bind(step: int, table: StudyTable) -> Estimate | None:
    """The share that binds in the end, of the networks that did not bind yet when the rate was raised."""
    frame = table.cells[raised(step)]
    left = frame.filter((frame["binding at"].is_null()) | (frame["binding at"] > step))["binds"].drop_nulls()
    if left.len() < 2:
        return None
    ends = wilson(int(left.sum()), left.len())
    return Estimate(int(left.sum()) / left.len(), ends.low, ends.high, left.len())


def _statement(step: int, rule: Rule, words: str) -> ComputedHypothesis:
    claim = f"Of the networks that do not bind by step {step:,}, {words} come to bind if the rate is raised then."
    return ComputedHypothesis(f"study-when-raised-{step}", claim, rule, partial(comes_to_bind, step))


WHEN = Study(
    name="when",
    title="The learning rate changed at one step",
    question="Until when does a higher learning rate make those seeds bind that otherwise stay stuck?",
    method=(
        f"The paper's task, network and settings. The learning rate is raised from {OF_THE_PAPER:g} to "
        f"{IN_THE_WINDOW:g} at one step of training, from which on it stays; in two cells it is the other way round. "
        "Cells have the same seeds and hence the same training until the rate changes, up to rounding."
    ),
    base=study_base(steps=24_000),
    cells=(
        Cell(NEVER),
        Cell(ALWAYS, {"optim.lr": IN_THE_WINDOW}),
        *(Cell(raised(s), {"optim.later_lr": IN_THE_WINDOW, "optim.later_from": s}) for s in RAISED_AT),
        *(
            Cell(lowered(s), {"optim.lr": IN_THE_WINDOW, "optim.later_lr": OF_THE_PAPER, "optim.later_from": s})
            for s in LOWERED_AT
        ),
    ),
    seeds=32,
    outcomes=("adds", "binds", "refines"),
    numbers=("addition at", "binding at"),
    hypotheses=(
        Hypothesis(
            "study-when-always", "Raised from the start, more seeds bind than if the rate is never raised.",
            "binds", ALWAYS, AtLeast(0), versus=NEVER,
        ),
        *(_statement(step, AtLeast(0.8), "at least 80 %") for step in (500, 1000)),
        *(_statement(step, AtLeast(0.5), "at least half") for step in (2000, 4000)),
        *(_statement(step, AtMost(0.5), "at most half") for step in (8000, 16_000)),
        *(
            Hypothesis(
                f"study-when-lowered-{step}",
                f"With a high rate for the first {step:,} steps alone, more seeds bind than without.",
                "binds", lowered(step), AtLeast(0), versus=NEVER,
            )
            for step in LOWERED_AT
        ),
    ),
)  # fmt: skip
