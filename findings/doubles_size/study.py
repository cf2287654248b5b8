"""Do narrow MLPs answer held-out doubles because they have few neurons, or because their first output is small?"""

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure

from assignadd.figure import COLORS, draw_networks
from assignadd.study import Cell, Study, StudyTable, final_column, mean

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
    draw_networks(axes, {cell: table.values(cell, DOUBLES, "binds") for cell in table.cells}, COLORS.blue)
    axes.set(xlim=(-0.03, 1.03), xlabel="accuracy on held-out doubles (circle: network; line: mean)")
