"""Studies of the learning rate: which one makes seeds bind, until when, and with the same final quality?"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from assignadd.studies.study import PAPER, RECORD, Cell, ComputedHypothesis, Hypothesis, Study, study_base
from assignadd.studies.table import Estimate, StudyTable
from assignadd.verdicts import AtLeast, AtMost, Rule

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
    cells=tuple(Cell(label(r), {} if r == OF_THE_PAPER else {"optim.lr": r}) for r in RATES),
    seeds=32,
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
    return Estimate.share(int(left.sum()), left.len()) if left.len() > 1 else None


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


CURE = "high rate first"
HIGH_UNTIL = 10_000
# Sets of the final evaluation on which a cured network must be as good as one of the paper's settings.
QUALITY = {
    "0-var add-restricted (final)": "held-out literal sums",
    "1-var train (final)": "one-variable sums as in training",
    "2-var add-restricted (final)": "held-out sums of two variables",
    "2-var var-restricted (1) (final)": "two-variable sums with one variable in a banned slot",
}


def _slug(column: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in column.removesuffix(" (final)")).replace("--", "-").strip("-")


CURE_STUDY = Study(
    name="cure",
    title="A high learning rate first",
    question="Does a schedule of the learning rate make nearly all seeds bind, with the same final quality?",
    method=(
        f"The paper's task, network and settings; in one cell the learning rate is {IN_THE_WINDOW:g} for the first "
        f"{HIGH_UNTIL:,} steps and then the paper's {OF_THE_PAPER:g} (`--optim.lr {IN_THE_WINDOW:g} --optim.later-lr "
        f"{OF_THE_PAPER:g} --optim.later-from {HIGH_UNTIL}`). The 128 seeds, 1000 to 1127, are used nowhere else."
    ),
    base=study_base(steps=30_000, record=replace(RECORD, eval_every=500, checkpoint_every=10_000)),
    cells=(
        Cell(PAPER),
        Cell(CURE, {"optim.lr": IN_THE_WINDOW, "optim.later_lr": OF_THE_PAPER, "optim.later_from": HIGH_UNTIL}),
    ),
    seeds=128,
    first_seed=1000,
    numbers=("addition at", "binding at", "refinement at"),
    hypotheses=(
        Hypothesis(
            "study-cure-binds",
            "With the high rate first, at least 93 % of all seeds bind, which 125 of 128 (97 %) would show.",
            "binds", CURE, AtLeast(0.93),
        ),
        Hypothesis(
            "study-cure-more", "With the high rate first, more seeds bind, by at least .05.",
            "binds", CURE, AtLeast(0.05), versus=PAPER,
        ),
        *(
            Hypothesis(
                f"study-cure-quality-{_slug(column)}",
                f"Networks that bind answer {words} as often as with the paper's settings, or at most .01 less.",
                column, CURE, AtLeast(-0.01), versus=PAPER, among="binds",
            )
            for column, words in QUALITY.items()
        ),
        Hypothesis(
            "study-cure-refines",
            "Of the networks that bind, no smaller share uses banned slots than with the paper's settings, up to .1.",
            "refines", CURE, AtLeast(-0.1), versus=PAPER, among="binds",
        ),
    ),
)  # fmt: skip
