"""Sums of rows and their gradients against products with all rows of the table, in double precision."""

import pytest
import torch

pytest.importorskip("numba")
from assignadd.model.kernels import numba_rows as rows
from assignadd.model.kernels.calls import bind

# Whole vectors of both kinds, none, and rests; in the last two, sequences have most tokens several times.
SIZES = [(128, 16, 74), (192, 16, 74), (rows.MANY + rows.SOME + 3, 5, 20), (7, 11, 9), (rows.SOME, 6, 1)]


@pytest.fixture(params=SIZES, ids="width {0[0]}, {0[1]} of {0[2]} tokens".format)
def given(request):
    """A table, tokens, weights in the middle of other columns, sums, and weights as a matrix of all rows."""
    width, T, K = request.param
    generator = torch.Generator().manual_seed(3)
    table, used, sums = (torch.randn(*size, generator=generator) for size in ((K, width), (9, T + 5), (9, width)))
    tokens = torch.randint(K, (9, T), generator=generator)
    dense = torch.zeros(9, K, dtype=torch.float64).scatter_add_(1, tokens, used[:, 2 : T + 2].double())
    return table, tokens, used, sums, dense


def call(function, table, tokens, used, sums):
    bind(function, [table, tokens, used, sums], *tokens.shape, table.shape[1], used.shape[1], 2)()


def close(found, expected):
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)


def test_rows_are_added_to_sums(given):
    table, tokens, used, sums, dense = given
    expected = sums.double() + dense @ table.double()
    call(rows.add_rows, table, tokens, used, sums)
    close(sums, expected)


def test_sums_are_added_to_rows(given):
    table, tokens, used, sums, dense = given
    expected = table.double() + dense.mT @ sums.double()
    call(rows.add_rows_to_table, table, tokens, used, sums)
    close(table, expected)


def test_inner_products_are_added_to_the_weights_and_to_no_other_column(given):
    table, tokens, used, sums, _ = given
    expected = used.double()
    expected[:, 2:-3] += (sums.double() @ table.double().mT).gather(1, tokens)
    call(rows.add_to_weights, table, tokens, used, sums)
    close(used, expected)
    assert torch.equal(used[:, :2].double(), expected[:, :2]) and torch.equal(used[:, -3:].double(), expected[:, -3:])


@pytest.mark.parametrize("function", [rows.add_rows, rows.add_rows_to_table, rows.add_to_weights])
def test_nothing_else_is_written(given, function):
    """Memory before and after each array, and what a call only reads."""
    table, tokens, used, sums, _ = given
    kept = {rows.add_rows: sums, rows.add_rows_to_table: table, rows.add_to_weights: used}[function]
    padded = [torch.full((x.numel() + 512,), 7.0) for x in (table, used, sums)]
    inside = [pad[256:-256].view_as(x).copy_(x) for pad, x in zip(padded, (table, used, sums), strict=True)]
    call(function, inside[0], tokens, inside[1], inside[2])
    assert all((pad[:256] == 7).all() and (pad[-256:] == 7).all() for pad in padded)
    for x, before in zip(inside, (table, used, sums), strict=True):
        assert torch.equal(x, before) != (before is kept)
