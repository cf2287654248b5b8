"""Addition modulo N, and pairs of numbers encoded as single integers; outside `theory/` no other module adds modulo N.

Every function takes and returns Python integers, or tensors that broadcast together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import torch

Number = TypeVar("Number", int, "torch.Tensor")  # a string: text is parsed without PyTorch


def answer_of(first: Number, second: Number | int, modulus: int) -> Number:
    """The answer to a sequence that adds these two values: their sum mod N."""
    return (first + second) % modulus


def pair_code(first: Number, second: Number, modulus: int) -> Number:
    """The pair (n, m) encoded as N n + m."""
    return first * modulus + second


def pair_values(code: Number, modulus: int) -> tuple[Number, Number]:
    """The pair (n, m) that is encoded as N n + m."""
    return code // modulus, code % modulus
