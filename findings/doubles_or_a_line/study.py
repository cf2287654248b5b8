"""Do networks fail on held-out doubles because the two numbers are equal, or on any line of pairs that is held out?"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from matplotlib.figure import Figure
from torch import Tensor

from assignadd import Config
from assignadd.figure import COLORS, draw_networks
from assignadd.measures import every_pair
from assignadd.model import Stack, answers
from assignadd.study import Cell, Study, StudyTable, final_column, mean
from assignadd.task import pair_split

DISTANCE = 7
HELD_OUT, OTHERS, LACK = "pairs of the class", "other pairs held out in both orders", "class minus others"
MEANINGS = {
    final_column(HELD_OUT): "accuracy on the pairs of the class that is held out",
    final_column(OTHERS): "accuracy on all other pairs that are held out in both orders",
    final_column(LACK): "the difference between these accuracies",
}
CONTEXTS = 4
CLASSES: dict[str, dict[str, Any]] = {
    "doubles": {"task.held_out_distance": 0},
    "a line": {"task.seen_doubles": 1.0, "task.held_out_distance": DISTANCE},
    "random pairs": {"task.seen_doubles": 1.0, "task.held_out_distance": DISTANCE, "task.shuffled_distance": True},
}
WIDTHS = (512, 32)


def label(pairs: str, width: int) -> str:
    """The label of a cell."""
    return f"{pairs}, {width} neurons"


def class_accuracies(stack: Stack, configs: Sequence[Config], seen: Tensor) -> list[dict[str, float]]:
    """Accuracy of each network on literal sums of the class that is held out, and of other pairs held out in both
    orders."""
    drawn, rows = every_pair(configs, seen, 0, CONTEXTS), []
    correct = (answers(stack, drawn.tokens) == drawn.labels).view(len(stack), CONTEXTS, *seen.shape[1:])
    for config, right, split in zip(configs, correct.double().mean(1), seen, strict=True):
        all_but_class = replace(config.task, seen_fraction=1.0, seen_doubles=1.0)
        of_class = ~pair_split(all_but_class, config.seed.split or 0).to(split.device)
        others = ~split & ~split.T & ~of_class
        others.fill_diagonal_(False)
        of, rest = float(right[of_class].mean()), float(right[others].mean())
        rows.append({HELD_OUT: of, OTHERS: rest, LACK: of - rest})
    return rows


def asked(width: int) -> tuple[Any, ...]:
    """The rules for one number of neurons."""
    doubles, line, random = (label(pairs, width) for pairs in CLASSES)
    number = mean(final_column(HELD_OUT), among="binds")
    return (
        number.of(doubles).versus(line, at_most=-0.1),
        number.of(line).versus(random, between=(-0.05, 0.05)),
        mean(final_column(LACK), among="binds").of(line, random).between(-0.05, 0.05),
    )


STUDY = Study(
    "doubles-or-a-line",
    "Do networks fail on any line of pairs that is held out, or on doubles alone?",
    tuple(
        Cell(label(pairs, width), settings | ({} if width == 512 else {"model.d_mlp": (None, width)}))
        for width in WIDTHS
        for pairs, settings in CLASSES.items()
    ),
    seeds=48,
    first_seed=12_100,
    steps=30_000,
    columns=MEANINGS,
    measure=class_accuracies,
    outcomes=("adds", "binds", "learned"),
    numbers=("binding at", final_column(HELD_OUT), final_column(OTHERS)),
    ask=tuple(question for width in WIDTHS for question in asked(width)),
)

SIZE = (6.5, 3.2)


def draw(tables: Mapping[str, StudyTable], figure: Figure) -> None:
    """Accuracy on the class that is held out of each network that binds, and the mean of each cell."""
    table, axes = tables[STUDY.name], figure.subplots()
    rows = {cell: table.values(cell, final_column(HELD_OUT), "binds") for cell in table.cells}
    draw_networks(axes, rows, COLORS.blue)
    axes.set(xlim=(-0.03, 1.03), xlabel="accuracy on the pairs held out (circle: network; line: mean)")
