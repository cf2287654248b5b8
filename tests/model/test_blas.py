"""Series of products in fixed memory against those of NumPy in double precision."""

import numpy as np
import pytest
import torch

pytest.importorskip("numba")

from assignadd.model.kernels import blas
from assignadd.model.kernels.blas import product, products

pytestmark = pytest.mark.skipif(not blas.available(), reason="torch's BLAS library is not found (numba)")


def matrix(rows, columns, seed, transposed=False, wider=0):
    """Random, with contiguous columns if `transposed`; a part of a matrix with `wider` more columns."""
    generator = torch.Generator().manual_seed(seed)
    if transposed:
        return matrix(columns, rows, seed, wider=wider).mT
    return torch.randn(rows, columns + wider, generator=generator)[:, :columns]


@pytest.mark.parametrize("a_transposed", [False, True])
@pytest.mark.parametrize("b_transposed", [False, True])
@pytest.mark.parametrize("sizes", [(5, 7, 3), (1, 7, 3), (5, 1, 3), (5, 7, 1), (1, 1, 1)])
@pytest.mark.parametrize("wider", [0, 2])
def test_products_equal_numpys_and_write_nothing_else(a_transposed, b_transposed, sizes, wider):
    m, k, n = sizes
    a, b = matrix(m, k, 0, a_transposed, wider), matrix(k, n, 1, b_transposed, wider)
    whole = matrix(m, n + 4, 2)
    out, before = whole[:, 1 : n + 1], whole.clone()
    product(a, b, out, 0.5, 2)()
    before[:, 1 : n + 1] = torch.from_numpy(2 * out_of(before, n) + 0.5 * a.double().numpy() @ b.double().numpy())
    torch.testing.assert_close(whole, before, rtol=1e-5, atol=1e-5)


def out_of(whole, n):
    return whole[:, 1 : n + 1].double().numpy()


def test_a_series_is_computed_in_order_with_the_numbers_that_are_there_at_the_call():
    a, b, (between, square) = matrix(3, 3, 0), matrix(3, 3, 1), torch.full((2, 3, 3), torch.nan)
    series = products((a, b, between), (between, between, square))
    for _ in range(2):
        a.mul_(2)
        series()
        expected = np.linalg.matrix_power(a.double().numpy() @ b.double().numpy(), 2)
        torch.testing.assert_close(square.double(), torch.from_numpy(expected), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("a", "b", "out", "reason"),
    [
        (torch.zeros(2, 3), torch.zeros(4, 5), torch.zeros(2, 5), r"\(2, 3\) @ \(4, 5\)"),
        (torch.zeros(2, 3), torch.zeros(3, 5), torch.zeros(5, 2), r"written as \(5, 2\)"),
        (torch.zeros(2, 3), torch.zeros(3, 5), torch.zeros(5, 2).mT, r"written as \(2, 5\)"),
        (torch.zeros(2, 3).double(), torch.zeros(3, 5), torch.zeros(2, 5), "float64"),
        (torch.zeros(2, 6)[:, ::2], torch.zeros(3, 5), torch.zeros(2, 5), "strides"),
        (torch.zeros(1, 3).expand(2, 3), torch.zeros(3, 5), torch.zeros(2, 5), "strides"),
    ],
)
def test_matrices_that_do_not_fit_are_refused(a, b, out, reason):
    with pytest.raises(ValueError, match=reason):
        product(a, b, out)


@pytest.mark.parametrize(
    ("found", "keeps"),
    [
        ({"MKL_Set_Num_Threads_Local": lambda threads: 0}, True),
        ({"openblas_get_parallel": lambda: 2}, True),  # OpenMP
        ({"openblas_get_parallel": lambda: 1}, False),  # threads of its own, which all callers wait for
        ({}, False),
    ],
)
def test_a_product_keeps_to_one_thread_with_mkl_and_with_openblas_on_openmp(found, keeps, monkeypatch):
    monkeypatch.setattr(blas, "function_of_torch", found.get)
    assert blas.keeps_to_one_thread() == keeps
