"""Compiled functions in series and in phases."""

import gc

import numpy as np
import pytest
import torch

pytest.importorskip("numba")

from numba import carray

from assignadd.model.kernels import calls
from assignadd.model.kernels import numba_elementwise as elementwise
from assignadd.model.kernels.calls import pointer

needs_threads = pytest.mark.skipif(not calls.has_threads(), reason="torch's threads are not found (numba)")


@calls.compiled_call
def multiply_and_add(n):
    x = carray(pointer(n[0]), (n[1],), np.float32)
    for i in range(len(x)):
        x[i] = x[i] * n[2] + n[3]


@calls.compiled_call
def count_up(n):
    number = carray(pointer(n[0]), (1,), np.int64)
    number[0] += 1


def changed(x, factor, added):
    return calls.bind(multiply_and_add, [x], len(x), factor, added)


def test_a_series_is_called_in_order_and_keeps_its_memory():
    x = torch.tensor([1.0, 2.0])
    twice = calls.series(changed(x, 2, 1), calls.series(changed(x, 3, 0), changed(x, 1, 4)))
    gc.collect()
    for expected in ([13.0, 19.0], [85.0, 121.0]):
        twice()
        assert x.tolist() == expected


@needs_threads
@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_calls_of_a_phase_are_each_made_once_on_threads_few_or_many(n):
    parts = [torch.full((1000,), float(i)) for i in range(n)]
    both = calls.phases([calls.series(changed(x, 2, 1), changed(x, 3, 0)) for x in parts])
    for threads in (2, 1):
        torch.set_num_threads(threads)
        both()
    for i, x in enumerate(parts):
        once = 3 * (2 * i + 1)
        assert (x == 3 * (2 * once + 1)).all()


@needs_threads
def test_a_phase_begins_when_all_calls_of_the_one_before_are_done():
    """The first phase has a long and a short call, and the thread of the short one reads what the long one writes."""
    long, short, read = torch.ones(3_000_000), torch.ones(1), torch.zeros(3_000_000)
    copied = calls.bind(elementwise.copy, [long, read], len(read))
    once = calls.phases(
        [changed(long, 2, 0), changed(short, 2, 0)], [changed(short, 3, 0), copied], [changed(read, 1, 1)]
    )
    torch.set_num_threads(2)
    for expected in (3, 5, 9, 17):
        once()
        assert (read == expected).all()
    torch.set_num_threads(1)
    assert short.item() == 6**4


@needs_threads
def test_phases_are_a_call_of_a_series_too():
    x, y = torch.ones(2, 5)
    calls.series(changed(x, 2, 0), calls.phases([changed(x, 3, 0), changed(y, 3, 0)]), changed(y, 1, 1))()
    assert x.tolist() == [6.0] * 5 and y.tolist() == [4.0] * 5


def test_a_repeated_call_reads_on_until_it_has_ended():
    """Rows of x are added to a sum one after the other; a third call ends it after the fourth."""
    x, total, ended = torch.arange(12.0).view(6, 2), torch.zeros(2), torch.tensor(-4)
    add, count = calls.bind(elementwise.add, [x, total, total], 2), calls.bind(count_up, [ended])
    some = calls.repeated(calls.series(add, count), 3, ended, [(add, 0, x[0].nbytes)])
    some()
    assert torch.equal(total, x[:3].sum(0)) and ended == -1
    some()
    assert torch.equal(total, x[:4].sum(0)) and ended == 0
    some()
    assert torch.equal(total, x[:4].sum(0)) and ended == 0


def test_what_ends_a_repeated_call_is_one_integer_of_a_kind():
    with pytest.raises(ValueError, match=r"cannot read torch\.int32"):
        calls.repeated(changed(torch.ones(2), 1, 1), 3, torch.tensor(-1, dtype=torch.int32), [])


def test_timed_calls_are_made_in_order_and_each_has_its_time():
    x, large = torch.ones(2), torch.ones(3_000_000)
    run, took = calls.timed([changed(x, 2, 0), changed(large, 2, 0), changed(x, 1, 1)])
    run()
    assert x.tolist() == [3.0, 3.0] and (large == 2).all()
    assert 0 <= took[0] < took[1] < 10**9 and took[2] < took[1]
    once = took.clone()
    run()
    assert x.tolist() == [7.0, 7.0] and (took >= once).all() and took[1] > once[1]


def test_threads_that_are_missing_are_said_to_be(monkeypatch):
    monkeypatch.setattr(calls, "function_of_torch", lambda name: None)
    x = torch.zeros(3)
    assert not calls.has_threads()
    with pytest.raises(RuntimeError, match="no threads"):
        calls.phases([changed(x, 1, 1), changed(x, 1, 1)])


def test_a_function_that_torch_does_not_have_is_not_found():
    assert calls.function_of_torch("no_such_function") is None


@pytest.mark.parametrize("x", [torch.zeros(4)[::2], torch.zeros(4).double(), torch.zeros(4, dtype=torch.int32)])
def test_tensors_that_would_be_read_wrongly_are_refused(x):
    with pytest.raises(ValueError, match="cannot read"):
        changed(x, 1, 1)
    with pytest.raises(ValueError, match="cannot read"):
        calls.bind(multiply_and_add, [], 2, doubles=[x.float()])


def call_of(function, *tensors, sizes):
    calls.bind(function, tensors, *sizes)()


def test_passes_over_arrays_are_those_of_torch():
    x, y = torch.randn(2, 5, 40, generator=torch.Generator().manual_seed(0))
    x[0, :3], y[0, :2] = torch.tensor([torch.nan, -0.0, torch.inf]), torch.tensor([1.0, torch.nan])
    out = torch.full_like(x, 7)
    call_of(elementwise.copy, x, out, sizes=[180])  # all but the last half of a row
    assert torch.equal(out.view(-1)[:180].nan_to_num(9), x.view(-1)[:180].nan_to_num(9)) and (out[4, 20:] == 7).all()
    integers, same = torch.arange(9), torch.full((9,), 7)
    call_of(elementwise.copy_integers, integers, same, sizes=[8])
    assert same.tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 7]
    average = torch.zeros(1)
    call_of(elementwise.mean, x[1:], average, sizes=[160])
    torch.testing.assert_close(average[0], x[1:].mean())
    for matrix in (x, x.view(20, 10), x.view(25, 8)):  # of fewer and more rows and columns than are read at once
        turned = torch.full(matrix.T.shape, 7.0)
        call_of(elementwise.transpose, matrix, turned, sizes=matrix.shape)
        torch.testing.assert_close(turned, matrix.T, rtol=0, atol=0, equal_nan=True)
    call_of(elementwise.add, x, y, out, sizes=[200])
    torch.testing.assert_close(out, x + y, rtol=0, atol=0, equal_nan=True)
    call_of(elementwise.clear, out, sizes=[180])
    assert not out.view(-1)[:180].any() and torch.equal(out.view(-1)[180:], (x + y).view(-1)[180:])
    expected = torch.where(x <= 0, 0, y)
    grad = y.clone()
    call_of(elementwise.gate, x, grad, sizes=[200])
    torch.testing.assert_close(grad, expected, rtol=0, atol=0, equal_nan=True)
    expected = x.relu()
    call_of(elementwise.relu, x, sizes=[200])
    torch.testing.assert_close(x, expected, rtol=0, atol=0, equal_nan=True)
