"""Study `cure`: does a high learning rate at first make nearly all seeds bind, with the paper's final quality?"""

from __future__ import annotations

from dataclasses import replace

from assignadd.studies.rate import IN_THE_WINDOW, OF_THE_PAPER
from assignadd.studies.study import RECORD, Cell, Hypothesis, Study, study_base
from assignadd.verdicts import AtLeast

PAPER, CURE = "the paper's", "high rate first"
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
    outcomes=("adds", "binds", "refines"),
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
