"""Sums of rows and their gradients against products with all rows of the table, in double precision; transposes."""

import pytest
import torch

pytest.importorskip("numba")
from assignadd.model.kernels.numba_vectors import (
    MANY,
    SOME,
    SUMS,
    TABLE,
    WEIGHTS,
    add_rows,
    transpose,
)

# Whole vectors of both kinds, none, and rests; in the last two, sequences have most tokens several times.
SIZES = [(128, 16, 74), (192, 16, 74), (MANY + SOME + 3, 5, 20), (7, 11, 9), (SOME, 6, 1)]


@pytest.fixture(params=SIZES, ids="width {0[0]}, {0[1]} of {0[2]} tokens".format)
def drawn(request):
    """A table, tokens, weights in the middle of other columns, sums, and weights as a matrix of all rows."""
    width, T, K = request.param
    generator = torch.Generator().manual_seed(3)
    table, used, sums = (torch.randn(*size, generator=generator) for size in ((K, width), (9, T + 5), (9, width)))
    tokens = torch.randint(K, (9, T), generator=generator)
    dense = torch.zeros(9, K, dtype=torch.float64).scatter_add_(1, tokens, used[:, 2 : T + 2].double())
    return table, tokens, used, sums, dense


@pytest.mark.parametrize("to", [SUMS, TABLE, WEIGHTS])
def test_rows_are_added_and_nothing_else_is_written(drawn, to):
    """What follows from products with all rows; memory before and after each array, and what is only read, stays."""
    table, tokens, used, sums, dense = drawn
    expected = [x.double() for x in (table, used, sums)]
    if to == SUMS:
        expected[2] += dense @ table.double()
    elif to == TABLE:
        expected[0] += dense.mT @ sums.double()
    else:
        expected[1][:, 2:-3] += (sums.double() @ table.double().mT).gather(1, tokens)
    padded = [torch.full((x.numel() + 512,), 7.0) for x in (table, used, sums)]
    inside = [pad[256:-256].view_as(x).copy_(x) for pad, x in zip(padded, (table, used, sums), strict=True)]
    add_rows(to, inside[0].numpy(), tokens.numpy(), inside[1].numpy(), 2, inside[2].numpy())
    assert all((pad[:256] == 7).all() and (pad[-256:] == 7).all() for pad in padded)
    for i, (x, before, want) in enumerate(zip(inside, (table, used, sums), expected, strict=True)):
        torch.testing.assert_close(x.double(), want, rtol=1e-5, atol=1e-5)
        assert torch.equal(x, before) != (i == {TABLE: 0, WEIGHTS: 1, SUMS: 2}[to])


def test_rows_that_do_not_fit_are_refused():
    table, tokens, used, sums = (
        torch.zeros(5, 8),
        torch.zeros(3, 4, dtype=torch.int64),
        torch.zeros(3, 6),
        torch.zeros(3, 8),
    )
    for wrong in ((table[:, :7], used, 2, sums), (table, used, 3, sums), (table, used[:2], 2, sums)):
        arrays = [x.contiguous().numpy() if isinstance(x, torch.Tensor) else x for x in wrong]
        with pytest.raises(ValueError, match="do not fit"):
            add_rows(SUMS, arrays[0], tokens.numpy(), *arrays[1:])


def test_transposes_of_fewer_and_more_rows_and_columns_than_are_read_at_once():
    x = torch.randn(200, generator=torch.Generator().manual_seed(0))
    x[:3] = torch.tensor([torch.nan, -0.0, torch.inf])
    for matrix in (x.view(5, 40), x.view(20, 10), x.view(25, 8)):
        turned = torch.full(matrix.T.shape, 7.0)
        transpose(matrix.numpy(), turned.numpy())
        torch.testing.assert_close(turned, matrix.T, rtol=0, atol=0, equal_nan=True)
