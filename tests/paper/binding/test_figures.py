"""The paper's sequences, literally for its task and as the same kind of sum for any other; attention in them; the
scores of both layers, where outlines cover the blocks they name and row maxima are boxed."""

from itertools import pairwise

import numpy as np
import pytest
from matplotlib.colors import to_hex

from assignadd.config import PRESETS, Config, Task
from assignadd.figure.style import figure
from assignadd.model.handmade import handmade
from assignadd.model.stack import initial_stack
from assignadd.palette import ORANGE, RED, YELLOW
from assignadd.paper.binding.figures import (
    OUTLINES,
    QK0_FIGURE,
    WIDE,
    QK0Data,
    attention_data,
    draw_attention,
    draw_qk0,
    draw_qk0pos_and_qk1,
    draw_token_seqs,
    qk0_data,
    qk0pos_and_qk1_data,
    token_seqs_data,
)
from assignadd.task.examples import ATTENTION, TOKEN_SEQS, fitted, names
from assignadd.task.text import assignments
from assignadd.task.vocabulary import Vocabulary

TASKS = {
    **{name: config.task for name, config in PRESETS.items()},
    "two numbers": Task(modulus=2, n_vars=3, length=10, max_assignments=2, banned_first="a", banned_second="b"),
    "long": Task(modulus=97, n_vars=26, length=40, max_assignments=10),
    "one variable": Task(
        modulus=11, n_vars=1, length=6, max_assignments=1, banned_first="", banned_second="", two_var_ratio=0.0
    ),
}


def test_the_papers_rows_are_literal():
    data = token_seqs_data(Task())
    assert [" ".join(row) for row in data.tokens] == list(TOKEN_SEQS)
    assert data.answers.tolist() == [36, 49, 53]  # figure token-seqs


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
@pytest.mark.parametrize(("text", "n_vars"), [*zip(TOKEN_SEQS, (1, 0, 2), strict=True), (ATTENTION, 1)])
def test_any_task_gets_the_same_kind_of_sum(task, text, n_vars):
    tokens = fitted(text, task)
    if n_vars > task.max_assignments:
        assert tokens is None
        return
    vocabulary = Vocabulary(task)
    operands = tokens[-3:-1]
    assert len(tokens) == task.length and all(0 <= token < vocabulary.size for token in tokens)
    assert sum(map(vocabulary.is_variable, operands)) == n_vars
    assert {v for v in operands if vocabulary.is_variable(v)} <= set(assignments(tokens, task))


def test_names_write_pad_in_full():
    assert names(fitted(ATTENTION, Task()), Task()) == ATTENTION.split()


def test_the_answer_alone_is_tinted():
    data = token_seqs_data(Task())
    with figure() as made:
        axes = made.add_subplot()
        draw_token_seqs(data, axes)
        tinted = [patch.get_x() for patch in axes.patches if patch.get_facecolor() != (1, 1, 1, 1)]
        assert tinted == [16, 16, 16]
        assert [text.get_text() for text in axes.texts][16::17] == ["36", "49", "53"]


def edges(marked) -> set[tuple[int, int]]:
    return {(int(query), int(key)) for query, key in np.argwhere(marked)}


def test_the_papers_sequence_has_the_papers_edges():
    data = attention_data(handmade(Config()))
    assert " ".join(data.tokens) == "PAD PAD PAD b 7 PAD e 5 PAD d 2 PAD + b 9 ="
    assert edges(data.to_operands) == {(15, 13), (15, 14)}
    assert edges(data.to_previous) == {(4, 3), (7, 6), (10, 9)}
    assert edges(data.to_values) == {(15, 4), (15, 14)}


@pytest.mark.parametrize("preset", ["paper", "tiny", "smoke"])
def test_the_handmade_model_looks_into_every_box(preset):
    data = attention_data(handmade(PRESETS[preset]))
    first, second = data.patterns
    assert first[data.to_operands] == pytest.approx(0.5, abs=1e-3)
    assert first[data.to_previous] == pytest.approx(1, abs=1e-3)
    assert second[data.to_values] == pytest.approx(0.5, abs=1e-3)


def test_random_weights_look_everywhere():
    data = attention_data(initial_stack(Config(), [0]))
    assert data.patterns[0][data.to_previous].max() < 0.6
    assert np.nansum(data.patterns, -1) == pytest.approx(1, abs=1e-5)
    assert np.isnan(data.patterns[:, 0, 1:]).all()


def test_boxes_are_drawn_around_their_cells():
    data = attention_data(handmade(Config()))
    with figure() as made:
        draw_attention(data, made)
        boxes = [
            [(to_hex(p.get_edgecolor()), round(p.get_y() + 0.5), round(p.get_x() + 0.5)) for p in ax.patches]
            for ax in made.axes[:2]
        ]
    orange, red, yellow = (to_hex(color) for color in (ORANGE, RED, YELLOW))
    assert set(boxes[0]) == {(orange, *e) for e in edges(data.to_operands)} | {
        (red, *e) for e in edges(data.to_previous)
    }
    assert set(boxes[1]) == {(yellow, *e) for e in edges(data.to_values)}


def test_it_reads_the_first_model_alone():
    two = initial_stack(PRESETS["smoke"], [0, 1])
    first, second = (attention_data(two.models(i)).patterns for i in (0, 1))
    assert np.array_equal(attention_data(two).patterns, first, equal_nan=True)
    assert not np.allclose(first, second, equal_nan=True)


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


def test_no_name_of_a_row_or_column_covers_the_next_at_the_papers_size():
    task = Config().task
    size = task.modulus + 3 + task.n_vars + task.length
    with figure(QK0_FIGURE.width, QK0_FIGURE.height) as made:
        draw_qk0(QK0Data(np.eye(size), task.modulus, task.n_vars, task.prefix), made)
        made.draw_without_rendering()
        for labels in (made.axes[0].get_xticklabels(), made.axes[0].get_yticklabels()):
            extents = [label.get_window_extent() for label in labels]
            assert len(extents) > 25 and not any(one.overlaps(other) for one, other in pairwise(extents))


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
