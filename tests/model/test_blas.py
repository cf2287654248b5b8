"""Matrix products in compiled code against those of NumPy in double precision; threads that meet, and fail."""

from functools import partial

import numpy as np
import pytest

pytest.importorskip("numba")

from assignadd.model.kernels import blas
from assignadd.model.kernels.blas import add_dot, compiled, dot, gemm, on_threads, wait_for_all

pytestmark = pytest.mark.skipif(not blas.available(), reason="torch's BLAS library is not found (numba)")
needs_threads = pytest.mark.skipif(not blas.has_threads(), reason="products here do not keep to a thread each (numba)")


def matrix(rows, columns, seed, transposed=False, wider=0):
    """Random, with contiguous columns if `transposed`; a part of a matrix with `wider` more columns."""
    if transposed:
        return matrix(columns, rows, seed, wider=wider).T
    return np.random.default_rng(seed).normal(size=(rows, columns + wider)).astype(np.float32)[:, :columns]


@pytest.mark.parametrize("a_transposed", [False, True])
@pytest.mark.parametrize("b_transposed", [False, True])
@pytest.mark.parametrize("sizes", [(5, 7, 3), (1, 7, 3), (5, 1, 3), (5, 7, 1), (1, 1, 1)])
@pytest.mark.parametrize("wider", [0, 2])
def test_products_equal_numpys_and_write_nothing_else(a_transposed, b_transposed, sizes, wider):
    m, k, n = sizes
    a, b = matrix(m, k, 0, a_transposed, wider), matrix(k, n, 1, b_transposed, wider)
    exact, before = a.astype(float) @ b.astype(float), matrix(m, n + 4, 2)
    for product, kept, scale in ((dot, 0, 1), (add_dot, 1, 1), (lambda a, b, out: gemm(0.5, a, b, 2, out), 2, 0.5)):
        whole = before.copy()
        product(a, b, whole[:, 1 : n + 1])
        expected = before.copy()
        expected[:, 1 : n + 1] = kept * before[:, 1 : n + 1] + scale * exact
        np.testing.assert_allclose(whole, expected, rtol=1e-5, atol=1e-5)


def test_a_product_does_not_read_what_it_replaces():
    out = np.full((2, 2), np.nan, np.float32)
    dot(matrix(2, 3, 0), matrix(3, 2, 1), out)
    assert np.isfinite(out).all()


@pytest.mark.parametrize("shapes", [((2, 3), (4, 5), (2, 5)), ((2, 3), (3, 5), (5, 2)), ((2, 3), (3, 5), (2, 4))])
def test_matrices_that_do_not_fit_are_refused(shapes):
    with pytest.raises(ValueError, match="do not fit"):
        dot(*(np.zeros(shape, np.float32) for shape in shapes))


def test_products_are_compiled_once_for_all_orders_in_memory():
    if not blas.IN_PYTHON:
        assert [len(product.signatures) for product in (gemm, dot, add_dot)] == [1, 1, 1]
        with pytest.raises(TypeError):
            dot(*np.zeros((3, 2, 2)))  # in double precision


@partial(compiled, nogil=True)
def _fill(thread, seen, fails):
    for turn in range(seen.shape[0]):
        seen[turn, thread.number] = 1
        wait_for_all(thread)
        for other in range(thread.n_threads):  # written before the meeting
            if seen[turn, other] != 1:
                raise ValueError("a thread did not wait")
        if turn == fails and thread.number == thread.n_threads - 1:
            raise ValueError("as asked")


@needs_threads
@pytest.mark.parametrize("threads", [1, 2, 3, 5])
def test_threads_wait_for_each_other(threads):
    """Also more threads than processors: those that wait let others run."""
    seen = np.zeros((30, threads), np.float32)
    on_threads(_fill, [(seen, -1)] * threads)
    assert seen.all()


@needs_threads
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_an_error_of_a_thread_reaches_python_and_the_others_stop(threads):
    seen = np.zeros((60, threads), np.float32)
    with pytest.raises(ValueError, match="as asked"):
        on_threads(_fill, [(seen, 20)] * threads)
    assert not seen[-1].any()
    on_threads(_fill, [(seen, -1)] * threads)  # and the next call begins anew


@pytest.mark.parametrize(
    ("functions", "keeps"),
    [
        ({"MKL_Set_Num_Threads_Local": lambda threads: 0}, True),
        ({"openblas_get_parallel": lambda: 2}, True),  # OpenMP
        ({"openblas_get_parallel": lambda: 1}, False),  # threads of its own, which all callers wait for
        ({}, False),
    ],
)
def test_a_product_keeps_to_one_thread_with_mkl_and_with_openblas_on_openmp(functions, keeps, monkeypatch):
    monkeypatch.setattr(blas, "function_of_torch", functions.get)
    assert blas.has_threads() == keeps


def test_a_function_that_torch_does_not_have_is_not_found():
    assert blas.function_of_torch("no_such_function") is None
