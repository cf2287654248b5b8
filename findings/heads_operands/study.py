"""Do networks bind more often with two heads where the operation is not symmetric?"""

from typing import Any

from assignadd.study import Cell, Study, share

OPERATIONS = {"subtract": "subtract", "2 x + 3 y": "affine 2 3"}
# Heads have a total width of 128, as in the paper.
HEADS: dict[str, dict[str, Any]] = {"1 head": {}, "2 heads": {"model.n_heads": 2, "model.d_head": 64}}


def label(operation: str, heads: str) -> str:
    """The label of a cell."""
    return f"{operation}, {heads}"


STUDY = Study(
    "heads-operands",
    "Do networks bind more often with two heads where the operation is not symmetric?",
    tuple(
        Cell(label(name, heads), {"task.operation": operation, **settings})
        for name, operation in OPERATIONS.items()
        for heads, settings in HEADS.items()
    ),
    seeds=16,
    first_seed=12_300,
    steps=18_000,
    outcomes=("adds", "binds", "learned"),
    numbers=("addition at", "binding at"),
    ask=(
        *(share("binds").of(label(name, "2 heads")).versus(label(name, "1 head"), at_least=0.3) for name in OPERATIONS),
        share("binds").of(*(label(name, "2 heads") for name in OPERATIONS)).at_least(0.5),
        share("adds").at_least(0.8),
    ),
)
