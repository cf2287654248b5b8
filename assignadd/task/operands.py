"""All choices of operands, by the number of variables in slots that are banned for them (paper, section 3)."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from itertools import product

from assignadd.config import Task

LITERAL = -1


class Kind(IntEnum):
    """What the two operand slots hold."""

    ZERO = 0
    FIRST = 1
    SECOND = 2
    TWO = 3

    @property
    def n_vars(self) -> int:
        return (0, 1, 1, 2)[self]


def operand_choices(task: Task, kind: Kind, n_banned: int | None) -> list[tuple[int, int]]:
    """All operands (first, second) of this kind, as variable numbers or LITERAL.

    Exactly `n_banned` of them are in a slot that is banned for them (None: any number).
    """
    return [choice for choice in _choices(task, kind) if n_banned in (None, count_banned(task, *choice))]


def count_banned(task: Task, first: int, second: int) -> int:
    """The number of operands in a slot that is banned for them; LITERAL is never banned."""
    return (first in _numbers(task, task.banned_first)) + (second in _numbers(task, task.banned_second))


def _choices(task: Task, kind: Kind) -> Iterator[tuple[int, int]]:
    variables, literal = range(task.n_vars), [LITERAL]
    first = variables if kind in (Kind.FIRST, Kind.TWO) else literal
    second = variables if kind in (Kind.SECOND, Kind.TWO) else literal
    return ((a, b) for a, b in product(first, second) if a != b or a == LITERAL)


def _numbers(task: Task, letters: str) -> set[int]:
    return {task.variables.index(letter) for letter in letters}
