"""Compiled functions that are called one after the other, without Python between them, on one thread or on several.

A call is a compiled function and the numbers that it reads: addresses of arrays, which have to stay where they are, and
sizes. Several threads are those of torch's own operations (OpenMP), which spin while they wait for the next operation;
other threads would compete with them for the cores.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from functools import cache, cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import llvmlite.binding
import numpy as np
import torch
from llvmlite import ir
from numba import carray, cfunc, njit, types
from numba.extending import intrinsic
from torch import Tensor

_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_WORD = ctypes.sizeof(ctypes.c_ssize_t)
_thread = types.ExternalFunction("assignadd_omp_get_thread_num", types.int32())
_threads = types.ExternalFunction("assignadd_omp_get_num_threads", types.int32())
_on_threads = types.ExternalFunction(
    "assignadd_GOMP_parallel", types.void(types.intp, types.intp, types.uint32, types.uint32)
)
_wait_for_all = types.ExternalFunction("assignadd_GOMP_barrier", types.void())
_read_clock = types.ExternalFunction("clock_gettime", types.int32(types.intp, types.intp))


@cache
def function_of_torch(name: str) -> Any:
    """A function of torch's library or of one it is linked with, or None; compiled code has it as `assignadd_`name."""
    libraries = list((Path(torch.__file__).parent / "lib").glob("libtorch_cpu.*"))
    try:
        function = getattr(ctypes.CDLL(str(libraries[0])), name)
    except (IndexError, OSError, AttributeError):
        return None
    llvmlite.binding.add_symbol(f"assignadd_{name}", ctypes.cast(function, ctypes.c_void_p).value)
    return function


def has_threads() -> bool:
    """Whether calls can be made side by side, on the threads of torch."""
    needed = ("GOMP_parallel", "GOMP_barrier", "omp_get_thread_num", "omp_get_num_threads")
    return all(function_of_torch(name) for name in needed)


class compiled_call:
    """A function that takes the address of such numbers, compiled when it is first needed.

    Code that calls functions of torch cannot be loaded before they are found. An error is printed and does not reach
    Python.
    """

    def __init__(self, function: Callable[[Any], None]):
        self._function = function

    @property
    def name(self) -> str:
        return self._function.__name__.removesuffix("_call")

    @cached_property
    def compiled(self) -> Any:
        return cfunc(types.void(types.CPointer(types.intp)), cache=True)(self._function)


@intrinsic
def pointer(typing, address):
    """An address as `numba.carray` takes it."""

    def generate(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], context.get_value_type(types.voidptr))

    return types.voidptr(types.intp), generate


@njit
def floats_at(address, shape):
    """The array at an address, in a compiled function."""
    return carray(pointer(address), shape, np.float32)


@njit
def doubles_at(address, shape):
    return carray(pointer(address), shape, np.float64)


@njit
def integers_at(address, shape):
    return carray(pointer(address), shape, np.int64)


class Call:
    """A compiled function with the numbers it reads.

    Among these may be addresses: of `tensors`, of other `calls`, and of objects that are only `kept`.
    """

    def __init__(
        self,
        function: compiled_call,
        numbers: Sequence[int],
        tensors: Sequence[Tensor] = (),
        calls: Sequence[Call] = (),
        kept: object = None,
    ):
        self.function, self.tensors, self.calls, self._kept = function, tuple(tensors), tuple(calls), kept
        self.numbers = (ctypes.c_ssize_t * len(numbers))(*numbers)
        self.addresses = function.compiled.address, ctypes.addressof(self.numbers)
        self._compiled = _FUNCTION(self.addresses[0])

    def __call__(self) -> None:
        self._compiled(self.addresses[1])


def bind(function: compiled_call, tensors: Sequence[Tensor], *sizes: int, doubles: Sequence[Tensor] = ()) -> Call:
    """The function with the addresses of these contiguous tensors, then the sizes, then the addresses of `doubles`."""
    _require_readable(tensors, torch.float32, torch.int64)
    _require_readable(doubles, torch.float64)
    addresses, last = ([x.data_ptr() for x in some] for some in (tensors, doubles))
    return Call(function, [*addresses, *sizes, *last], [*tensors, *doubles])


def _require_readable(tensors: Sequence[Tensor], *dtypes: torch.dtype) -> None:
    for x in tensors:
        if not (x.is_contiguous() and x.device.type == "cpu" and x.dtype in dtypes):
            raise ValueError(f"a compiled function cannot read {x.dtype} on {x.device} with strides {x.stride()}")


def series(*calls: Call) -> Call:
    """The calls one after the other."""
    return Call(in_order, _listed(calls), calls=calls)


def phases(*each: Sequence[Call]) -> Call:
    """Phases one after the other: the calls of a phase at once, on as many threads as torch has.

    Only where torch `has_threads`, and not within another phase.
    """
    if not has_threads():
        raise RuntimeError("torch has no threads that compiled functions can run on")
    numbers = [len(each), *(number for phase in each for number in _listed(phase))]
    on_a_thread = Call(in_phases, numbers, calls=[call for phase in each for call in phase])
    return Call(on_all_threads, on_a_thread.addresses, calls=[on_a_thread])


def repeated(call: Call, times: int, ended: Tensor, moving: Sequence[tuple[Call, int, int]]) -> Call:
    """The call so many times, as long as the integer `ended` is below 0.

    After each time some numbers grow: `moving` has the call that reads one, its place there, and by how much.
    """
    _require_readable([ended], torch.int64)
    of_number = [(reader.addresses[1] + place * _WORD, by) for reader, place, by in moving]
    numbers = [times, ended.data_ptr(), *call.addresses, len(moving), *chain(*of_number)]
    return Call(repeat, numbers, [ended], [call], [reader for reader, *_ in moving])


def timed(calls: Sequence[Call]) -> tuple[Call, Tensor]:
    """The calls one after the other, and the nanoseconds that each of them has taken up to now."""
    took, clock = torch.zeros(len(calls), dtype=torch.int64), torch.zeros(2, dtype=torch.int64)
    numbers = [len(calls), took.data_ptr(), time.CLOCK_MONOTONIC, clock.data_ptr()]
    return Call(in_order_timed, numbers + _listed(calls)[1:], (took, clock), calls), took


def _listed(calls: Sequence[Call]) -> list[int]:
    return [len(calls), *(address for each in calls for address in each.addresses)]


@intrinsic
def _invoke(typing, function, numbers):
    """Calls the function at an address with the numbers at another."""

    def generate(context, builder, signature, arguments):
        word = context.get_value_type(types.intp).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [word])
        function, numbers = builder.inttoptr(arguments[0], kind.as_pointer()), builder.inttoptr(arguments[1], word)
        builder.call(function, [numbers])
        return context.get_dummy_value()

    return types.void(types.intp, types.intp), generate


@compiled_call
def in_order(numbers):
    for i in range(numbers[0]):
        _invoke(numbers[1 + 2 * i], numbers[2 + 2 * i])


@njit
def _nanoseconds(clock, at):
    _read_clock(clock, at)
    read = integers_at(at, 2)
    return read[0] * 1_000_000_000 + read[1]


@compiled_call
def in_order_timed(n):
    took, before = integers_at(n[1], n[0]), _nanoseconds(n[2], n[3])
    for i in range(n[0]):
        _invoke(n[4 + 2 * i], n[5 + 2 * i])
        now = _nanoseconds(n[2], n[3])
        took[i] += now - before
        before = now


@compiled_call
def in_phases(numbers):
    at = 1
    for _ in range(numbers[0]):
        n_calls = numbers[at]
        for i in range(_thread(), n_calls, _threads()):
            _invoke(numbers[at + 1 + 2 * i], numbers[at + 2 + 2 * i])
        at += 1 + 2 * n_calls
        _wait_for_all()


@compiled_call
def on_all_threads(numbers):
    # Without a number of threads (0) they are torch's: for another number libgomp would end some and start others.
    _on_threads(numbers[0], numbers[1], 0, 0)


@compiled_call
def repeat(n):
    ended = integers_at(n[1], 1)
    for _ in range(n[0]):
        if ended[0] >= 0:
            break
        _invoke(n[2], n[3])
        for i in range(n[4]):
            number = integers_at(n[5 + 2 * i], 1)
            number[0] += n[6 + 2 * i]
