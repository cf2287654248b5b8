"""Do networks bind more often with several heads where the operation is not symmetric?"""

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure

from assignadd.figure import COLORS, draw_intervals
from assignadd.study import Cell, Study, StudyTable, mean, share

# Heads have a total width of 128, as in the paper.
HEADS: dict[str, dict[str, Any]] = {
    "1 head": {},
    "2 heads": {"model.n_heads": 2, "model.d_head": 64},
    "4 heads": {"model.n_heads": 4, "model.d_head": 32},
}
SEVERAL = ("2 heads", "4 heads")


def study(name: str, operation: str, words: str, first_seed: int, *more: Any) -> Study:
    """A study of one operation with 1, 2 and 4 heads; `more` are its questions besides whether it is learned."""
    return Study(
        name,
        f"Do networks bind more often, or sooner, with several heads where the operation is {words}?",
        tuple(Cell(label, {"task.operation": operation, **settings}) for label, settings in HEADS.items()),
        seeds=32,
        first_seed=first_seed,
        steps=50_000,
        outcomes=("adds", "binds", "learned"),
        numbers=("addition at", "binding at"),
        ask=(share("adds").at_least(0.8), *more),
    )


AFFINE = study(
    "heads-2x-3y", "affine 2 3", "2 x + 3 y", 28_000,
    share("binds").of(*SEVERAL).versus("1 head", at_least=0.3),
    share("binds").of(*SEVERAL).at_least(0.5),
)  # fmt: skip

SUBTRACTION = study(
    "heads-subtraction", "subtract", "subtraction", 28_100,
    share("binds").at_least(0.8),
    mean("binding at", among="binds").of(*SEVERAL).versus("1 head", at_most=-5000),
)  # fmt: skip

STUDIES = (AFFINE, SUBTRACTION)

SIZE = (6.5, 2.8)


def draw(tables: Mapping[str, StudyTable], figure: Figure) -> None:
    """The share of networks that bind for each number of heads, and the step at which each of them does."""
    shares, steps = figure.subplots(1, 2)
    for stated, color, label, shift in (
        (SUBTRACTION, COLORS.blue, "subtraction", -0.06),
        (AFFINE, COLORS.vermilion, "2 x + 3 y", 0.06),
    ):
        table = tables[stated.name]
        draw_intervals(shares, {cell: table.share(cell, "binds") for cell in HEADS}, color, label, shift, across=False)
        for column, cell in enumerate(HEADS):
            at = table.values(cell, "binding at", "binds")
            steps.plot([column + 2 * shift] * len(at), at, "o", color=color, markersize=3, fillstyle="none")
    steps.set_xticks(range(len(HEADS)), list(HEADS))
    shares.set(ylim=(-0.03, 1.03), ylabel="share that binds (95 % interval)")
    steps.set(ylim=(0, 50_000), ylabel="step of binding (circle: network)")
    shares.legend(loc="lower right")
