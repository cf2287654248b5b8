"""The tests' check of signatures finds wrong types and sizes, in arguments, results and fields."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import torch
from beartype.roar import BeartypeCallHintViolation
from jaxtyping import Float, TypeCheckError
from torch import Tensor

from assignadd.config import PRESETS
from assignadd.model.forward import answer_logits
from assignadd.model.stack import initial_stack
from tests.shapes import check, checked

WRONG = (BeartypeCallHintViolation, TypeCheckError)


def with_checks(function):
    return checked(function, typechecker=check)


@with_checks
def product(one: Float[Tensor, "a b"], other: "Float[Tensor, 'b c']", rows: int = 0) -> Float[Tensor, "a c"]:
    return (one @ other)[rows:]


@with_checks
def first(row: Float[Tensor, " a"]) -> float:
    return product(row[None], torch.ones(len(row), 2)).sum().item() + row[0].item()


@with_checks
def cut(row: Float[Tensor, " a"], n: int) -> Float[Tensor, "{n}"]:  # noqa: F821 (a size)
    return row[:n]


@with_checks
def rows(matrix: Float[Tensor, "a b"]) -> Iterator[Float[Tensor, " b"]]:
    yield from matrix


@with_checks
@dataclass
class Pair:
    one: Float[Tensor, " a"]
    other: Float[Tensor, " a"]


def test_compiled_functions_are_not_checked():
    """torch.compile cannot follow the check; networks of other architectures are compiled on a GPU."""
    compiled = torch.compile(product, backend="eager", fullgraph=True)
    assert torch.equal(compiled(torch.ones(2, 3), torch.ones(3, 4)), torch.full((2, 4), 3.0))


def test_what_fits_passes():
    assert product(torch.ones(2, 3), torch.ones(3, 4)).shape == (2, 4)
    assert first(torch.ones(3)) == 7  # an axis of the same name has another size in a function that is called
    assert len(cut(torch.ones(5), 2)) == 2 and len(list(rows(torch.ones(2, 3)))) == 2
    assert len(Pair(torch.ones(2), torch.ones(2)).one) == 2


@pytest.mark.parametrize(
    "call",
    [
        lambda: product(torch.ones(2, 3), torch.ones(4, 3)),
        lambda: product(torch.ones(2, 3), torch.ones(3, 4), rows=1),  # the result has a row less
        lambda: product(torch.ones(2, 3), torch.ones(3, 4), rows="0"),
        lambda: product(torch.ones(2, 3), torch.ones(3, 4).long()),
        lambda: cut(torch.ones(5), 6),
        lambda: rows(torch.ones(2)),
        lambda: Pair(torch.ones(2), torch.ones(3)),
        lambda: answer_logits(initial_stack(PRESETS["smoke"], [0]), torch.zeros(1, 4)),
    ],
)
def test_what_does_not_fit_is_an_error(call):
    with pytest.raises(WRONG):
        call()
    test_what_fits_passes()  # and leaves no sizes behind


def test_checks_can_be_switched_off(unchecked):
    assert product(torch.ones(2, 3), torch.ones(3, 4), rows=1).shape == (1, 4)
