"""What do chains of assignments, and sums of one or three operands, need?"""

from dataclasses import replace
from typing import Any

from assignadd.study import BASE, Cell, Study, share

# Half the paper's, to keep the cost of four layers at every position low; cells are compared with each other.
WIDTH = 64


def label(hops: int, layers: int) -> str:
    """The label of a cell."""
    return f"{hops} hop{'s' * (hops != 1)}, {layers} layers"


def settings(hops: int, layers: int) -> dict[str, Any]:
    """Settings other than those of two layers without hops."""
    deeper = {"model.n_layers": layers, "model.d_mlp": (*[None] * (layers - 1), 4 * WIDTH)} if layers != 2 else {}
    return ({"task.hops": hops} if hops else {}) | deeper


HOPS = Study(
    "hops",
    "What depth does a chain of assignments such as `c=5, b=c, b+3=?` need, and do seeds learn to follow it?",
    tuple(Cell(label(hops, layers), settings(hops, layers)) for layers in (2, 3, 4) for hops in (0, 1, 2)),
    seeds=16,
    base=replace(BASE, model=replace(BASE.model, d_model=WIDTH, d_head=WIDTH, d_mlp=(None, 4 * WIDTH))),
    outcomes=("adds", "binds", "follows 1 link", "follows 2 links"),
    numbers=("binding at",),
    ask=(
        share("follows 1 link").of(label(1, 2)).at_most(0.2),
        share("follows 1 link").of(label(1, 3), label(1, 4)).at_least(0.5),
        share("follows 2 links").of(label(2, 3), label(2, 4)).at_least(0.5),
    ),
)

OPERANDS = Study(
    "operands",
    "Does the share of seeds that bind depend on the number of operands? One operand is lookup alone.",
    (
        Cell("2 operands"),
        # The prefix stays 12 positions long; one operand has no second slot.
        Cell("1 operand", {"task.operands": 1, "task.length": 15}),
        Cell("3 operands", {"task.operands": 3, "task.length": 17}),
    ),
    seeds=32,
    numbers=("addition at", "binding at", "refinement at"),
    ask=(
        share("binds").of("1 operand").at_least(0.8),
        share("adds").of("3 operands").at_least(0.8),
        share("binds").of("3 operands").at_least(0.5),
    ),
)

STUDIES = (HOPS, OPERANDS)
