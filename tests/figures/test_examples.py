"""The paper's sequences come out literally for the paper's task, and as the same kind of sum for any other."""

import pytest

from assignadd.config import PRESETS, Task
from assignadd.figures.style import figure
from assignadd.figures.token_seqs import draw_token_seqs, token_seqs_data
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
