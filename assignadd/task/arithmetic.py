"""The operation of a task, and tuples of numbers encoded as single integers.

Values and codes are Python integers, or tensors that broadcast together. Only `theory/` has an addition of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from assignadd.config import Task
from assignadd.config.task import AFFINE

if TYPE_CHECKING:
    import torch

Number = TypeVar("Number", int, "torch.Tensor")  # a string: text is parsed without PyTorch


def answer_of(task: Task, values: Sequence[Number]) -> Number:
    """The answer to these values: the operation applied from left to right; a single value is the answer itself."""
    result = values[0]
    for value in values[1:]:
        result = _combined(task, result, value)
    return result


def _combined(task: Task, first: Number, second: Number) -> Number:
    """The result of the operation on two numbers; a new operation needs a case here."""
    N = task.modulus
    if task.operation == "add":
        return (first + second) % N
    if task.operation == "subtract":
        return (first - second) % N
    if task.operation == "multiply":
        return first * second % N
    if affine := AFFINE.fullmatch(task.operation):
        p, q = int(affine[1]), int(affine[2])
        return (p * first + q * second) % N
    if task.operation == "dihedral":
        return _dihedral_product(first, second, N // 2)
    # The operation is a table of answers.
    code = tuple_code((first, second), N)
    if isinstance(code, int):
        return task.table[code]
    import torch  # here, so that a typed sequence is read without torch

    return torch.tensor(task.table, device=code.device)[code]


def _dihedral_product(first: Number, second: Number, n: int) -> Number:
    """The product of two of the 2 n symmetries of a regular n-gon, each written as a number r + n f.

    f = 0 is the rotation by r n-ths of a turn, f = 1 the same rotation after a reflection.
    """
    rotation_1, reflected_1 = first % n, first // n
    rotation_2, reflected_2 = second % n, second // n
    direction = 1 - 2 * reflected_1  # a reflection (-1) reverses the other rotation
    rotation = (rotation_1 + direction * rotation_2) % n
    reflected = (reflected_1 + reflected_2) % 2
    return rotation + n * reflected


def tuple_code(values: Sequence[Number], modulus: int) -> Number:
    """The tuple of numbers as one integer, whose digits in base N they are: N n + m for the pair (n, m)."""
    code = values[0]
    for value in values[1:]:
        code = code * modulus + value
    return code


def tuple_values(code: Number, modulus: int, operands: int = 2) -> tuple[Number, ...]:
    """The tuple of numbers with this code, the inverse of `tuple_code`: its digits in base N, the highest first."""
    exponents = reversed(range(operands))
    return tuple((code // modulus**exponent) % modulus for exponent in exponents)
