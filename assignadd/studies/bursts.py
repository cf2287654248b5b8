"""Study `bursts`: which settings of the optimizer do bursts of the loss depend on?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assignadd.studies.spikes import BURSTS, SPIKES_STUDY, SpikeObserver, spike_columns
from assignadd.studies.study import Cell, Hypothesis, Study, study_base
from assignadd.verdicts import AtLeast, AtMost, Between, Rule

if TYPE_CHECKING:
    import polars

PAPER, LOWER = "the paper's", "a third of the rate from 8,000"
FAST, SLOW = "beta2 0.99", "beta2 0.9999"
EPS, LARGE_EPS, NO_DECAY = "eps 1e-6", "eps 1e-5", "no decay"
FROM = 8000
LATE = "late bursts"


def late_columns(rows: polars.DataFrame, n: int) -> dict[str, Any]:
    """The columns of the study `spikes`, and how many bursts come after step 8,000."""
    found = spike_columns(rows, n)
    return found | {LATE: float(sum(step > FROM for step in found["burst steps"]))}


def _statement(id: str, cell: str, words: str, rule: Rule) -> Hypothesis:
    return Hypothesis(
        f"study-bursts-{id}", f"With {cell}, networks that bind have {words} after step {FROM:,}, on average.",
        LATE, cell, rule, versus=PAPER, among="binds",
    )  # fmt: skip


FEWER, MORE = "at least 3 fewer bursts than with the paper's settings", "at least 3 more bursts than with the paper's"
BURSTS_STUDY = Study(
    name="bursts",
    title="Bursts of the loss and the optimizer",
    question="Are bursts of the loss late in training instabilities of AdamW?",
    method=(
        "The paper's network and task. AdamW divides by the root of the second moment of the gradient, which shrinks "
        "once the loss is small; if bursts come from updates that become too large in this way, there should be fewer "
        f"with a third of the learning rate (from step {FROM:,} on), with a longer memory of the second moment or a "
        "larger eps, and more with a shorter memory. Spikes and bursts as in the study `spikes`; bursts after step "
        f"{FROM:,} are compared. The seeds, 9100 to 9115, are used nowhere else."
    ),
    base=study_base(steps=15_000, record=SPIKES_STUDY.base.record),
    cells=(
        Cell(PAPER),
        Cell(LOWER, {"optim.later_lr": 1e-3 / 3, "optim.later_from": FROM}),
        Cell(FAST, {"optim.beta2": 0.99}),
        Cell(SLOW, {"optim.beta2": 0.9999}),
        Cell(EPS, {"optim.eps": 1e-6}),
        Cell(LARGE_EPS, {"optim.eps": 1e-5}),
        Cell(NO_DECAY, {"optim.weight_decay": 0.0}),
    ),
    seeds=16,
    first_seed=9100,
    outcomes=("adds", "binds", "refines"),
    numbers=(BURSTS, LATE),
    shown=(LATE,),
    shown_on="bursts of the loss after step 8,000",
    observe=SpikeObserver,
    of_curves=late_columns,
    hypotheses=(
        _statement("rate", LOWER, FEWER, AtMost(-3)),
        _statement("short-memory", FAST, MORE, AtLeast(3)),
        _statement("long-memory", SLOW, FEWER, AtMost(-3)),
        _statement("eps", EPS, FEWER, AtMost(-3)),
        _statement("large-eps", LARGE_EPS, FEWER, AtMost(-3)),
        _statement("decay", NO_DECAY, "as many bursts as with the paper's settings, up to 3", Between(-3, 3)),
    ),
)  # fmt: skip
