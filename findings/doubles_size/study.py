"""Do narrow MLPs answer held-out doubles because they have few neurons, or because their first output is small?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from assignadd.figure import COLORS
from assignadd.study import Cell, Study, StudyTable, final_column, mean

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DOUBLES = final_column("0-var doubles")
# With all weights from one normal distribution, the output of h neurons has a size in proportion to the root of h.
RATIO = (512 / 32) ** 0.5
NARROW: dict[str, Any] = {"model.d_mlp": (None, 32)}
WIDE_CELL, NARROW_CELL = "512 neurons", "32 neurons"
SMALL, SMALL_BOTH = "512, first output as of 32 (W_out)", "512, first output as of 32 (W_in, W_out)"
LARGE, LARGE_BOTH = "32, first output as of 512 (W_out)", "32, first output as of 512 (W_in, W_out)"


def factors(output: float, both: bool = False) -> dict[str, float]:
    """Settings with which the first output of MLP2 is so many times as large."""
    if both:
        return {"start.mlp_in_factor": output**0.5, "start.mlp_out_factor": output**0.5}
    return {"start.mlp_out_factor": output}


STUDY = Study(
    "doubles-size",
    "Is it the number of neurons or the size of the first output that decides whether held-out doubles come out right?",
    cells=(
        Cell(WIDE_CELL),
        Cell(SMALL, factors(1 / RATIO)),
        Cell(SMALL_BOTH, factors(1 / RATIO, both=True)),
        Cell(NARROW_CELL, NARROW),
        Cell(LARGE, NARROW | factors(RATIO)),
        Cell(LARGE_BOTH, NARROW | factors(RATIO, both=True)),
    ),
    seeds=48,
    first_seed=12_000,
    steps=30_000,
    outcomes=("adds", "binds", "learned"),
    numbers=("binding at", DOUBLES, "doubles minus others"),
    method=(
        "The paper's settings with 512 or 32 neurons in MLP2. Its initial weights are multiplied so that its first "
        "output is as large as with the other number of neurons: W_out alone by 4 or 1/4, or W_in and W_out each by "
        "2 or 1/2. The 48 seeds, 12000 to 12047, are used nowhere else; the rules were stated before training."
    ),
    ask=(
        mean(DOUBLES, among="binds").of(NARROW_CELL).versus(WIDE_CELL, at_least=0.1),
        # the size of the first output, at the same number of neurons
        mean(DOUBLES, among="binds").of(SMALL, SMALL_BOTH).versus(WIDE_CELL, at_least=0.1),
        mean(DOUBLES, among="binds").of(LARGE, LARGE_BOTH).versus(NARROW_CELL, at_most=-0.1),
        # the number of neurons, at the same size of the first output
        mean(DOUBLES, among="binds").of(LARGE, LARGE_BOTH).versus(WIDE_CELL, at_least=0.1),
        mean(DOUBLES, among="binds").of(SMALL, SMALL_BOTH).versus(NARROW_CELL, at_most=-0.1),
    ),
)

SIZE = (6.5, 3.2)


def draw(tables: Mapping[str, StudyTable], figure: Figure) -> None:
    """Held-out doubles answered by each network that binds, and the mean of each cell."""
    table, axes = tables[STUDY.name], figure.subplots()
    for row, cell in enumerate(table.cells):
        values = np.sort(table.values(cell, DOUBLES, "binds"))
        color = COLORS.vermilion if cell.startswith("32") else COLORS.blue
        # Networks with nearly the same accuracy are drawn at different heights.
        heights = row + 0.09 * (np.arange(len(values)) % 5 - 2)
        axes.plot(values, heights, "o", color=color, markersize=2.8, markerfacecolor="none", alpha=0.6)
        axes.plot([values.mean()] * 2, [row - 0.35, row + 0.35], color=COLORS.ink, linewidth=1.5)
        axes.text(1.05, row, f"{values.mean():.2f}", verticalalignment="center")
    axes.set_yticks(range(len(table.cells)), list(table.cells))
    axes.invert_yaxis()
    axes.set(xlim=(-0.03, 1.03), xlabel="accuracy on held-out doubles (circle: network; line, number: mean)")
