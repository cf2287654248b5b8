"""Figures qk0 and qk0pos_and_qk1: the outlines cover the blocks they name, and row maxima are boxed where they are."""

import numpy as np
import pytest
from matplotlib.colors import to_hex

from assignadd.config import PRESETS, Config
from assignadd.figure.style import figure
from assignadd.model.handmade import handmade
from assignadd.model.stack import initial_stack
from assignadd.palette import RED
from assignadd.paper.binding.score_figures import (
    OUTLINES,
    WIDE,
    QK0Data,
    draw_qk0,
    draw_qk0pos_and_qk1,
    qk0_data,
    qk0pos_and_qk1_data,
)


def test_groups_are_the_papers_rows():
    data = qk0_data(initial_stack(Config(), [0]))
    assert data.scores.shape == (90, 90)
    groups = {name: data.rows(name) for name in ("numbers", "=", "variables", "positions", "prefix", "operands")}
    assert groups == {
        "numbers": (0, 58), "=": (60, 60), "variables": (62, 73), "positions": (74, 89), "prefix": (74, 85),
        "operands": (87, 88),
    }  # fmt: skip


@pytest.mark.parametrize("rows,columns", [(rows, columns) for rows, columns, *_ in OUTLINES])
def test_an_outline_holds_exactly_its_block(rows, columns):
    """A table that is 1 in the block and 0 elsewhere shows 1 everywhere in the outline and nowhere else."""
    task = PRESETS["tiny"].task
    data = qk0_data(initial_stack(PRESETS["tiny"], [0]))
    scores = np.zeros_like(data.scores)
    (top, bottom), (left, right) = data.rows(rows), data.rows(columns)
    scores[top : bottom + 1, left : right + 1] = 1
    color = next(c for r, k, c, _ in OUTLINES if (r, k) == (rows, columns))
    with figure() as made:
        draw_qk0(QK0Data(scores, task.modulus, task.n_vars, task.prefix), made)
        image = np.asarray(made.axes[0].images[0].get_array())
        outline = next(p for p in made.axes[0].patches if to_hex(p.get_edgecolor()) == to_hex(color))
    y, x = (round(v + 0.5) for v in (outline.get_y(), outline.get_x()))
    inside = np.zeros_like(image, dtype=bool)
    inside[y : y + round(outline.get_height()), x : x + round(outline.get_width())] = True
    assert (image[inside] == 1).all() and (image[~inside] == 0).all()
    assert image.shape == (task.modulus + WIDE * (len(scores) - task.modulus),) * 2


def test_the_handmade_model_shows_the_black_outline():
    data = qk0_data(handmade(Config()))
    (equals, _), (first, second) = data.rows("="), data.rows("operands")
    assert sorted(data.scores[equals].argsort()[-2:]) == [first, second]


@pytest.mark.parametrize("preset", ["paper", "tiny"])
def test_the_handmade_model_has_its_maxima_one_step_back(preset):
    data = qk0pos_and_qk1_data(handmade(PRESETS[preset]))
    prefix = PRESETS[preset].task.prefix
    assert boxed(data) == {(i, i - 1) for i in range(1, prefix)}
    assert (data.variables.argmax(1) == np.arange(len(data.letters))).all()


def test_boxes_follow_the_scores_and_never_an_excluded_cell():
    data = qk0pos_and_qk1_data(initial_stack(Config(), [3]))
    expected = {(i, max((j for j in range(i) if j != i - 2), key=lambda j: data.positions[i, j])) for i in range(1, 12)}
    assert boxed(data) == expected
    assert expected != {(i, i - 1) for i in range(1, 12)}


def boxed(data) -> set[tuple[int, int]]:
    """Cells (i, j) with a red box around them."""
    with figure() as made:
        draw_qk0pos_and_qk1(data, made)
        red = [p for p in made.axes[0].patches if to_hex(p.get_edgecolor()) == to_hex(RED)]
        return {(round(p.get_y() + 0.5), round(p.get_x() + 0.5)) for p in red}
