"""Study `hops`: how many layers does a chain of assignments need?"""

from __future__ import annotations

from typing import Any

from assignadd.config import Model
from assignadd.studies.study import Cell, Hypothesis, Study, study_base
from assignadd.verdicts import AtLeast, AtMost

HOPS, LAYERS = (0, 1, 2), (2, 3, 4)
# Half the paper's, to keep the cost of four layers at every position low; cells are compared with each other.
WIDTH = 64


def label(hops: int, layers: int) -> str:
    """The name of a cell, such as "1 hop, 3 layers"."""
    return f"{hops} hop{'s' * (hops != 1)}, {layers} layers"


def _settings(hops: int, layers: int) -> dict[str, Any]:
    task = {"task.hops": hops} if hops else {}
    deeper = {"model.n_layers": layers, "model.d_mlp": (*[None] * (layers - 1), 4 * WIDTH)} if layers != 2 else {}
    return task | deeper


CELLS = tuple(Cell(label(hops, layers), _settings(hops, layers)) for layers in LAYERS for hops in HOPS)

HOPS_STUDY = Study(
    name="hops",
    title="Chains of assignments",
    question="What depth does a chain of assignments such as `c=5, b=c, b+3=?` need, and do seeds learn to follow it?",
    method=(
        "The paper's task, in which a variable may be assigned another variable: every variable of the sum is 0 to h "
        "links away from its number. The network is the paper's at half its width with two, three or four layers; the "
        "MLP comes after the last."
    ),
    base=study_base(steps=15_000, model=Model(d_model=WIDTH, d_head=WIDTH, d_mlp=(None, 4 * WIDTH))),
    cells=CELLS,
    seeds=16,
    outcomes=("adds", "binds", "follows 1 link", "follows 2 links"),
    numbers=("binding at",),
    hypotheses=(
        Hypothesis(
            "study-hops-two-layers",
            "With two layers, at most a fifth of the seeds follow one link.",
            "follows 1 link", label(1, 2), AtMost(0.2),
        ),
        *(
            Hypothesis(
                f"study-hops-{hops}-in-{layers}",
                f"With {layers} layers, at least half of the seeds follow chains of {links}.",
                f"follows {links}", label(hops, layers), AtLeast(0.5),
            )
            for hops, links in ((1, "1 link"), (2, "2 links")) for layers in (3, 4)
        ),
    ),
)  # fmt: skip
