"""Other operations: each cell has the operation of its label, and the figure counts networks."""

from pathlib import Path

import polars
import pytest

from assignadd.figure import figure
from assignadd.study.files import read_study
from assignadd.task import answer_of
from assignadd.user_file import user_module

FOLDER = Path(__file__).parents[2] / "findings" / "operations"
FINDING = user_module(FOLDER)


@pytest.mark.parametrize(
    ("operation", "answer"),
    [("add", (20 + 41) % 59), ("subtract", (20 - 41) % 59), ("multiply", 20 * 41 % 59), ("2 x + 3 y", (40 + 123) % 59)],
)
def test_cells_have_the_operation_and_the_fraction_of_their_labels(operation, answer):
    sweep = FINDING.STUDY.sweep(seeds=1)
    configs = {FINDING.STUDY.label_of(member): member.config(sweep.config) for member in sweep.cells}
    for fraction in FINDING.FRACTIONS:
        task = configs[FINDING.label(operation, fraction)].task
        assert answer_of(task, (20, 41)) == answer and task.seen_fraction == fraction


def test_the_figure_counts_networks():
    table = read_study(FINDING.STUDY, FOLDER)
    counts = polars.read_parquet(FOLDER / "operations.parquet").group_by("cell").agg(polars.col("adds", "binds").sum())
    of_cell = {row["cell"]: row for row in counts.rows(named=True)}
    with figure(*FINDING.SIZE) as made:
        FINDING.draw({"operations": table}, made)
        for axes, outcome in zip(made.axes, ("adds", "binds"), strict=True):
            expected = [f"{of_cell[cell.label][outcome]} of 32" for cell in FINDING.STUDY.cells]
            assert [text.get_text() for text in axes.texts] == expected
