"""Choices of operands and banned slots."""

from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assignadd.config import PRESETS, Task
from assignadd.task.evalsets import LITERAL, count_banned, operand_choices

ZERO, FIRST, SECOND, TWO = range(4)  # kinds: bit i for a variable in slot i


@pytest.mark.parametrize("preset", ["paper", "authors"])
def test_both_presets_have_92_36_and_4_ordered_pairs_of_variables(preset):
    task = PRESETS[preset].task
    assert [len(operand_choices(task, TWO, n)) for n in range(4)] == [92, 36, 4, 0]


@pytest.mark.parametrize(("preset", "first", "second"), [("paper", "ab", "gh"), ("authors", "kl", "ab")])
def test_the_twice_banned_pairs_are_the_product_of_the_bans(preset, first, second):
    task = PRESETS[preset].task
    letters = [(task.variables[a], task.variables[b]) for a, b in operand_choices(task, TWO, 2)]
    assert letters == [(a, b) for a in first for b in second]


@pytest.mark.parametrize(("preset", "first", "second"), [("paper", "ab", "gh"), ("authors", "kl", "ab")])
def test_one_variable_is_in_either_slot(preset, first, second):
    task = PRESETS[preset].task
    assert [task.variables[a] for a, b in operand_choices(task, FIRST, 1) if b == LITERAL] == [*first]
    assert [task.variables[b] for a, b in operand_choices(task, SECOND, 1) if a == LITERAL] == [*second]
    for kind in (FIRST, SECOND):
        assert [len(operand_choices(task, kind, n)) for n in range(3)] == [10, 2, 0]
    assert [operand_choices(task, ZERO, n) for n in range(2)] == [[(LITERAL, LITERAL)], []]


def test_a_slot_counts_only_its_own_ban():
    task = Task(n_vars=4, max_assignments=4, banned_first="ab", banned_second="bc")
    banned = {"aa": 1, "ab": 2, "ba": 1, "bc": 2, "cb": 1, "ca": 0, "dc": 1, "da": 0}
    for (first, second), n in banned.items():
        assert count_banned(task, "abcd".index(first), "abcd".index(second)) == n
    assert count_banned(task, LITERAL, 1) == count_banned(task, 1, LITERAL) == 1
    assert count_banned(task, LITERAL, LITERAL) == count_banned(task, LITERAL, 0) == 0


@settings(max_examples=200, deadline=None, derandomize=True)
@given(V=st.integers(1, 8), data=st.data())
def test_counts_for_any_ban_match_brute_force(V, data):
    letters = "abcdefgh"[:V]
    first, second = (data.draw(st.sets(st.sampled_from(letters))) for _ in range(2))
    task = Task(n_vars=V, banned_first="".join(first), banned_second="".join(second))
    for n in range(3):
        expected = {(a, b) for a, b in permutations(letters, 2) if [a in first, b in second].count(True) == n}
        choices = operand_choices(task, TWO, n)
        assert len(choices) == len(expected) and {(letters[a], letters[b]) for a, b in choices} == expected
        assert {letters[a] for a, _ in operand_choices(task, FIRST, n)} == {a for a in letters if (a in first) == n}
        assert {letters[b] for _, b in operand_choices(task, SECOND, n)} == {b for b in letters if (b in second) == n}
