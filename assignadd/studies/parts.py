"""Study `parts`: what becomes of seeds if one part of the network keeps its initial weights at first?"""

from __future__ import annotations

from assignadd.studies.study import Cell, Hypothesis, Study, slug, study_base
from assignadd.verdicts import AtLeast

PAPER = "nothing frozen"
PARTS = ("W_E", "QK1", "OV1", "QK2", "OV2", "MLP2")
UNTIL = 2000
# Addition is learned in the first thousand steps with the paper's settings, binding most often after four thousand.
OF_MLP2 = (500, 8000)


def label(part: str, until: int = UNTIL) -> str:
    """The name of a cell, such as "QK1 until 2,000"."""
    return f"{part} until {until:,}"


def _cell(part: str, until: int = UNTIL) -> Cell:
    return Cell(label(part, until), {"optim.frozen": part, "optim.frozen_until": until})


PARTS_STUDY = Study(
    name="parts",
    title="One part frozen at first",
    question="Which part must not learn early, or must, for a seed to bind? Does the ability to add block binding?",
    method=(
        f"The paper's task, network and settings. One part keeps its initial weights for the first {UNTIL:,} steps "
        "(the MLP also for 500 and 8,000) and is trained like the rest from then on."
    ),
    base=study_base(steps=15_000),
    cells=(Cell(PAPER), *map(_cell, PARTS), *(_cell("MLP2", until) for until in OF_MLP2)),
    seeds=32,
    outcomes=("adds", "binds", "refines"),
    numbers=("addition at", "binding at"),
    hypotheses=(
        *(
            Hypothesis(
                f"study-parts-mlp2-{until}",
                f"With the MLP frozen until step {until:,}, more seeds bind than with nothing frozen.",
                "binds", label("MLP2", until), AtLeast(0), versus=PAPER,
            )
            for until in (500, UNTIL, 8000)
        ),
        *(
            Hypothesis(
                f"study-parts-{slug(part)}",
                f"With {part} frozen until step {UNTIL:,}, at least half of the seeds bind.",
                "binds", label(part), AtLeast(0.5),
            )
            for part in PARTS if part != "MLP2"
        ),
    ),
)  # fmt: skip
