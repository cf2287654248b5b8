"""Study `again`: do the changes after which every seed bound in other studies do the same on fresh seeds?"""

from __future__ import annotations

from assignadd.studies.study import Cell, Hypothesis, Study, slug, study_base
from assignadd.verdicts import AtLeast

PAPER, LARGER = "the paper's", "initial scale 1.2"
UNTIL = 2000
FROZEN = {f"{part} until {UNTIL:,}": part for part in ("W_E", "QK1", "OV1", "MLP2")}

AGAIN = Study(
    name="again",
    title="Larger initial weights, or one part frozen at first, on fresh seeds",
    question="Do the changes after which all 32 seeds bound in `parts` and `training` do the same on other seeds?",
    method=(
        "The paper's task, network and settings with one change: initial weights of scale 1.2 in place of 0.8, or one "
        f"part frozen for the first {UNTIL:,} steps. The 48 seeds, 3000 to 3047, are used nowhere else."
    ),
    base=study_base(steps=15_000),
    cells=(
        Cell(PAPER),
        Cell(LARGER, {"model.init_scale": 1.2}),
        *(Cell(name, {"optim.frozen": part, "optim.frozen_until": UNTIL}) for name, part in FROZEN.items()),
    ),
    seeds=48,
    first_seed=3000,
    outcomes=("adds", "binds", "refines"),
    numbers=("addition at", "binding at"),
    hypotheses=tuple(
        Hypothesis(
            f"study-again-{slug(cell)}",
            f"With {cell}, more seeds bind than with the paper's settings, by at least .05.",
            "binds", cell, AtLeast(0.05), versus=PAPER,
        )
        for cell in (LARGER, *FROZEN)
    ),
)  # fmt: skip
