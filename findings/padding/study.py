"""How much do networks rely on positions if padding is not random?"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from matplotlib.figure import Figure
from torch import Tensor

from assignadd import Config
from assignadd.figure import COLORS
from assignadd.model import Exam, Stack
from assignadd.study import PAPER, Cell, Study, StudyTable, final_column, mean, share
from assignadd.task import EVAL_SETS

DRAWS = range(14_000, 14_100)
SEQUENCES = 5000
FRONT = "padding in front"
TRAINED, SETS = "1-var train", ("0-var train", "1-var train", "2-var train")
WITH_RANDOM, WITH_FRONT = "random padding", "padding in front"
LOST = "lost with the other padding"
MEANINGS = {
    final_column(f"{name}, {padding}"): f"accuracy ({name}), with {padding}"
    for name in SETS
    for padding in (WITH_RANDOM, WITH_FRONT)
} | {final_column(f"{name}, {LOST}"): f"accuracy ({name}) lost with the padding not trained on" for name in SETS}


def with_both(stack: Stack, configs: Sequence[Config], seen: Tensor) -> list[dict[str, float]]:
    """Accuracy on the same sequences with random padding and with padding in front, and what the other one costs."""
    sets = [evalset for evalset in EVAL_SETS if evalset.name in SETS]
    rows: list[dict[str, float]] = [{} for _ in configs]
    for padding, is_random in ((WITH_RANDOM, True), (WITH_FRONT, False)):
        tested = [replace(c, task=replace(c.task, random_padding=is_random)) for c in configs]
        exam = Exam(tested, seen, sets, SEQUENCES, seen.device, DRAWS[0])
        for row, accuracies in zip(rows, exam.accuracies(stack), strict=True):
            row |= {f"{name}, {padding}": accuracy for name, accuracy in accuracies.items()}
    own, other = (WITH_RANDOM, WITH_FRONT) if stack.config.task.random_padding else (WITH_FRONT, WITH_RANDOM)
    return [row | {f"{name}, {LOST}": row[f"{name}, {own}"] - row[f"{name}, {other}"] for name in SETS} for row in rows]


LOST_OF_TRAINED = mean(final_column(f"{TRAINED}, {LOST}"), among="binds")
STUDY = Study(
    "padding",
    "Does random padding prevent solutions that rely on positions?",
    cells=(Cell(PAPER), Cell(FRONT, {"task.random_padding": False})),
    seeds=32,
    first_seed=25_000,
    steps=30_000,
    columns=MEANINGS,
    measure=with_both,
    numbers=("addition at", "binding at", final_column(f"{TRAINED}, {LOST}")),
    ask=(
        LOST_OF_TRAINED.of(FRONT).at_least(0.2),
        LOST_OF_TRAINED.of(PAPER).at_most(0.02),
        LOST_OF_TRAINED.of(FRONT).versus(PAPER, at_least=0.1),
        share("binds").of(FRONT).versus(PAPER, between=(-0.2, 0.2)),
    ),
)

SIZE = (5.5, 1.9)


def draw(tables: Mapping[str, StudyTable], figure: Figure) -> None:
    """Accuracy of every network that binds: a row for each padding in training, a colour for each in the test."""
    table, axes = tables[STUDY.name], figure.subplots()
    for row, cell in enumerate(table.cells):
        for shift, padding, color in ((-0.12, WITH_RANDOM, COLORS.blue), (0.12, WITH_FRONT, COLORS.vermilion)):
            accuracies = table.values(cell, final_column(f"{TRAINED}, {padding}"), "binds")
            label = f"tested with {padding}" if row == 0 else None
            axes.scatter(accuracies, [row + shift] * len(accuracies), s=14, color=color, alpha=0.5, label=label)
    axes.set_yticks(range(len(table.cells)), ["random padding", "padding in front"])
    axes.invert_yaxis()
    axes.set(xlim=(0, 1.03), ylabel="trained with", xlabel="accuracy on trained sums with one variable")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.3), ncols=2)
