"""The operation of a task, and tuples of numbers encoded as single integers.

Values and codes are Python integers, or tensors that broadcast together. Only `theory/` has an addition of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, reduce
from typing import TYPE_CHECKING, TypeVar

from assignadd.config import Task
from assignadd.config.task import AFFINE

if TYPE_CHECKING:
    import torch

Number = TypeVar("Number", int, "torch.Tensor")  # a string: text is parsed without PyTorch


def answer_of(task: Task, values: Sequence[Number]) -> Number:
    """The answer to a sequence with these values of the operands: the operation applied from left to right.

    With one operand it is its value. A new operation is a line of `_combined`, a sign in `SIGNS` of config/task.py.
    """
    return reduce(lambda first, second: _combined(task, first, second), values)


def _combined(task: Task, first: Number, second: Number) -> Number:
    """The result of the operation on two numbers."""
    N = task.modulus
    if task.operation == "add":
        return (first + second) % N
    if task.operation == "subtract":
        return (first - second) % N
    if task.operation == "multiply":
        return first * second % N
    if affine := AFFINE.fullmatch(task.operation):
        p, q = map(int, affine.groups())
        return (p * first + q * second) % N
    if task.operation == "dihedral":
        return _dihedral_product(first, second, N // 2)
    return _looked_up(task, first * N + second)


def _dihedral_product(first: Number, second: Number, n: int) -> Number:
    """The product of two symmetries of an n-gon: r + n f is the rotation by r after (f = 1) or without a reflection."""
    turned_back = 1 - 2 * (first // n)  # a reflection reverses the rotation that follows it
    return (first % n + turned_back * (second % n)) % n + n * ((first // n + second // n) % 2)


def _looked_up(task: Task, code: Number) -> Number:
    """The answer in the task's table to the pair with this code."""
    if isinstance(code, int):
        return task.table[code]
    return _table(task.table).to(code.device)[code]


@cache
def _table(table: tuple[int, ...]) -> torch.Tensor:
    import torch

    return torch.tensor(table)


def tuple_code(values: Sequence[Number], modulus: int) -> Number:
    """The tuple of numbers as one number in base N: N n + m for the pair (n, m)."""
    return reduce(lambda code, value: code * modulus + value, values)


def tuple_values(code: Number, modulus: int, operands: int = 2) -> tuple[Number, ...]:
    """The tuple of numbers with this code."""
    return tuple(code // modulus**i % modulus for i in reversed(range(operands)))
