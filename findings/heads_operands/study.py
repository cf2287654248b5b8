"""Do networks bind more often with two heads where the operation is not symmetric?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from assignadd.figure import COLORS, draw_interval
from assignadd.study import Cell, Study, StudyTable, share

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
    method=(
        "The paper's network and settings with subtraction and 2 x + 3 y, with one head of width 128 and with two of "
        "width 64. The 16 seeds, 12300 to 12315, are used nowhere else; the rules were stated before training."
    ),
    ask=(
        *(share("binds").of(label(name, "2 heads")).versus(label(name, "1 head"), at_least=0.3) for name in OPERATIONS),
        share("binds").of(*(label(name, "2 heads") for name in OPERATIONS)).at_least(0.5),
        share("adds").at_least(0.8),
    ),
)

SIZE = (5.5, 2.2)


def draw(tables: Mapping[str, StudyTable], figure: Figure) -> None:
    """The shares of networks that answer held-out literals and that bind."""
    table, axes = tables[STUDY.name], figure.subplots()
    outcomes = {"adds": ("answers held-out literals", COLORS.blue), "binds": ("binds", COLORS.vermilion)}
    for shift, (outcome, (meaning, color)) in zip((-0.12, 0.12), outcomes.items(), strict=True):
        for row, cell in enumerate(table.cells):
            if measured := table.share(cell, outcome):
                draw_interval(axes, measured, row + shift, color, across=True, label=meaning if row == 0 else None)
    axes.set_yticks(range(len(table.cells)), list(table.cells))
    axes.invert_yaxis()
    axes.set(xlim=(-0.03, 1.03), xlabel="share of networks (95 % interval)")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.25), ncols=2)
