"""Study `architecture`: does binding depend on heads, depth, MLPs, normalisation and width?"""

from __future__ import annotations

from typing import Any

from assignadd.studies.study import Cell, Hypothesis, Study, slug, study_base
from assignadd.verdicts import AtLeast


def _width(d: int) -> dict[str, Any]:
    return {"model.d_model": d, "model.d_head": d, "model.d_mlp": (None, 4 * d)}


PAPER = "the paper's"
CELLS = (
    Cell(PAPER),
    Cell("2 heads", {"model.n_heads": 2, "model.d_head": 64}),
    Cell("4 heads", {"model.n_heads": 4, "model.d_head": 32}),
    Cell("3 layers", {"model.n_layers": 3, "model.d_mlp": (None, None, 512)}),
    Cell("MLP in both layers", {"model.d_mlp": (512, 512)}),
    Cell("layer norm", {"model.norm": "layer"}),
    Cell("width 32", _width(32)),
    Cell("width 64", _width(64)),
    Cell("width 256", _width(256)),
)


def _words(cell: Cell) -> str:
    return "the paper's architecture" if cell.label == PAPER else cell.label


ARCHITECTURE = Study(
    name="architecture",
    title="Binding in other architectures",
    question="The paper has one architecture. Does the share of seeds that learn to bind depend on it?",
    method=(
        "The paper's task. One thing about the network differs at a time: the number of heads (of width 128 / heads, "
        "so that the number of parameters stays), a third layer, an MLP after both layers, layer norm before every "
        "part, or the width (MLP four times as wide)."
    ),
    base=study_base(steps=15_000),
    cells=CELLS,
    seeds=16,
    outcomes=("adds", "binds", "refines"),
    numbers=("binding at",),
    hypotheses=(
        *(
            Hypothesis(
                f"study-architecture-binds-{slug(cell.label)}",
                f"With {_words(cell)}, at least half of the seeds bind by the end of training.",
                "binds", cell.label, AtLeast(0.5),
            )
            for cell in CELLS
        ),
        *(
            Hypothesis(
                f"study-architecture-adds-{slug(cell.label)}",
                f"With {_words(cell)}, at least 80 % of the seeds learn to add held-out pairs of literals.",
                "adds", cell.label, AtLeast(0.8),
            )
            for cell in CELLS
        ),
    ),
)  # fmt: skip
