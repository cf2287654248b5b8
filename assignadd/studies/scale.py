"""Study `scale`: how does the share of seeds that bind depend on the size of the initial weights?"""

from __future__ import annotations

from assignadd.studies.study import Cell, Hypothesis, Study, study_base
from assignadd.verdicts import AtLeast

SCALES = (0.2, 0.3, 0.4, 0.6, 0.8, 1.0, 1.2, 1.6, 2.4)
OF_THE_PAPER = 0.8


def label(scale: float) -> str:
    """The name of a cell, such as "scale 0.8"."""
    return f"scale {scale:g}"


SCALE = Study(
    name="scale",
    title="Size of the initial weights",
    question="Is the paper's initial scale one at which few seeds bind, with larger shares on both sides?",
    method=(
        "The paper's task, network and settings, except for the scale of all initial weights (the paper's is 0.8). In "
        "the study `training` more seeds bound at 0.4 and at 1.2 than at 0.8; these seeds, 2000 to 2031, are others."
    ),
    base=study_base(steps=15_000),
    cells=tuple(
        Cell(label(scale), {} if scale == OF_THE_PAPER else {"model.init_scale": scale}) for scale in SCALES
    ),
    seeds=32,
    first_seed=2000,
    outcomes=("adds", "binds", "refines"),
    numbers=("addition at", "binding at", "frequencies"),
    hypotheses=tuple(
        Hypothesis(
            f"study-scale-{scale:g}", f"With initial scale {scale:g}, more seeds bind than with the paper's 0.8.",
            "binds", label(scale), AtLeast(0), versus=label(OF_THE_PAPER),
        )
        for scale in (0.4, 1.2)
    ),
)  # fmt: skip
