"""What compiled code needs of its surroundings: matrix products of torch's BLAS library, and threads that meet.

With the compiler switched off (NUMBA_DISABLE_JIT=1) the same code runs in Python on one thread, with NumPy's products:
a breakpoint or `print` works. NumPy's products make a training step half as long again on an x86 processor.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import llvmlite.binding
import numpy as np
import torch
from llvmlite import ir
from numba import types
from numba.core.cgutils import alloca_once_value, get_or_insert_function
from numba.extending import intrinsic

from assignadd.compiler_cache import IN_PYTHON, with_stored_code

OPENMP = 2  # what OpenBLAS's `openblas_get_parallel` answers where its threads are OpenMP's
BYTES = 4  # of a number in single precision
AS_STORED, TRANSPOSED = b"NT"  # letters of BLAS: a matrix as it is stored, or its transpose
ANY_ORDER = types.Array(types.float32, 2, "A")  # a matrix in single precision, in any order in memory
# Places in the memory in which threads meet: how many have arrived, how often all had, whether one failed. Each has a
# line of the processor's cache, of 8 integers, to itself.
LINE = 8
ARRIVED, TURN, FAILED = 0, LINE, 2 * LINE
# How often a waiting thread looks whether all have arrived before it sleeps: for some 20 microseconds.
SPINS_BEFORE_SLEEP, MICROSECONDS_OF_SLEEP = 2000, 20


@cache
def function_of_torch(name: str) -> Any:
    """A function of torch's library or of one it is linked with; None where there is no such function.

    Compiled code can call it too, by the name `assignadd_NAME`.
    """
    libraries = list((Path(torch.__file__).parent / "lib").glob("libtorch_cpu.*"))
    try:
        function = getattr(ctypes.CDLL(str(libraries[0])), name)
    except (IndexError, OSError, AttributeError):
        return None
    llvmlite.binding.add_symbol(f"assignadd_{name}", ctypes.cast(function, ctypes.c_void_p).value)
    return function


def available() -> bool:
    """Whether there are matrix products that compiled code can call."""
    return IN_PYTHON or function_of_torch("sgemm_") is not None


def compiled(function: Callable[..., Any], signature: Any = None, **options: Any) -> Any:
    """The function compiled by Numba: now for this signature, or else when it is first called.

    The result is stored on disk, and made again when any file of compiled code has changed.
    """
    # Without these options compiling takes half as long again.
    result = with_stored_code(function, _sources(), error_model="numpy", _nrt=False, no_cfunc_wrapper=True, **options)
    if IN_PYTHON:
        return result
    if signature is not None:
        result.compile(signature)
        result.disable_compile()  # arguments of other types are an error
    return result


@cache
def _sources() -> list[Path]:
    """The files of compiled code, any of whose functions may call those of others."""
    folder = Path(__file__).parent
    arguments = [folder.parent / "cpu_arrays.py", folder.parent / "table.py"]  # these define the types of arguments
    return [folder / "blas.py", *sorted(folder.glob("numba_*.py")), *arguments]


@intrinsic
def _sgemm(typing, b_order, a_order, columns, rows, inner, scale, b, b_stride, a, a_stride, beta, out, out_stride):
    """Calls BLAS's sgemm with its arguments in its order (why b is before a, see `gemm`); strides are in numbers.

    `b`, `a` and `out` are addresses of matrices, and the only arguments of Numba's type for addresses, `uintp`.
    An intrinsic of Numba gets types, and returns its signature and a function that writes the LLVM code of a call.
    """
    kinds = (b_order, a_order, columns, rows, inner, scale, b, b_stride, a, a_stride, beta, out, out_stride)

    def generate(context, builder, signature, values):
        pointer = ir.IntType(8).as_pointer()
        addresses = []  # BLAS takes every argument by its address
        for kind, value in zip(kinds, values, strict=True):
            if kind == types.uintp:  # a matrix: this is its address
                addresses.append(builder.inttoptr(value, pointer))
            else:  # a value, which is copied to memory first
                addresses.append(builder.bitcast(alloca_once_value(builder, value), pointer))
        function_type = ir.FunctionType(ir.VoidType(), [pointer] * len(addresses))
        builder.call(get_or_insert_function(builder.module, function_type, "assignadd_sgemm_"), addresses)
        return context.get_dummy_value()

    return types.void(*kinds), generate


def gemm(scale, a, b, beta, out):
    """out = scale * a @ b + beta * out, for matrices with contiguous rows; `a` and `b` may also be transposed."""
    rows, inner = a.shape
    columns = b.shape[1]
    if b.shape[0] != inner or out.shape != (rows, columns):
        raise ValueError("the shapes of a matrix product do not fit")
    if IN_PYTHON:
        out[:] = scale * (a @ b) + (beta * out if beta else 0)  # beta 0: what memory holds is not read, it may be NaN
        return
    # A matrix whose neighbours in a row are not neighbours in memory is a transpose: its columns are contiguous.
    a_transposed, b_transposed = a.strides[1] != BYTES, b.strides[1] != BYTES
    # Strides are bytes from one row in memory to the next; a row in memory is a column of a transpose. sgemm demands at
    # least the length of a row, and NumPy's stride of a matrix with a single row may be anything.
    a_stride = max(a.strides[1], BYTES * rows) if a_transposed else max(a.strides[0], BYTES * inner)
    b_stride = max(b.strides[1], BYTES * inner) if b_transposed else max(b.strides[0], BYTES * columns)
    # sgemm expects matrices stored by columns. Those stored by rows are, to it, their transposes, so it computes
    # out.T = b.T @ a.T: b comes first, and `columns` before `rows`. A library that has sizes of 32 bits reads the lower
    # half of these.
    _sgemm(
        np.int8(TRANSPOSED if b_transposed else AS_STORED), np.int8(TRANSPOSED if a_transposed else AS_STORED),
        columns, rows, inner, scale, b.ctypes.data, b_stride // BYTES, a.ctypes.data, a_stride // BYTES,
        beta, out.ctypes.data, max(out.strides[0] // BYTES, columns),
    )  # fmt: skip


def dot(a, b, out):
    """out = a @ b"""
    gemm(1, a, b, 0, out)


def add_dot(a, b, out):
    """out += a @ b"""
    gemm(1, a, b, 1, out)


if available():
    _number = types.float32
    gemm = compiled(gemm, types.void(_number, ANY_ORDER, ANY_ORDER, _number, ANY_ORDER))
    dot = compiled(dot, types.void(ANY_ORDER, ANY_ORDER, ANY_ORDER))
    add_dot = compiled(add_dot, types.void(ANY_ORDER, ANY_ORDER, ANY_ORDER))


class Thread(NamedTuple):
    """One of the threads that run the same function, each on its share of the work."""

    number: int
    n_threads: int
    meeting: np.ndarray
    """The memory in which they meet (`wait_for_all`)."""


@intrinsic
def _atomic_add(typing, address, amount):
    """Adds to the integer at an address, so that no other thread comes between; returns what the integer was."""

    def generate(context, builder, signature, values):
        address, amount = values
        pointer = builder.inttoptr(address, ir.IntType(64).as_pointer())
        return builder.atomic_rmw("add", pointer, amount, "seq_cst")

    return types.int64(types.uint64, types.int64), generate


@intrinsic
def _atomic_read(typing, address):
    """The integer at an address; what other threads wrote before they wrote it is then visible to this one too."""

    def generate(context, builder, signature, values):
        (address,) = values
        pointer = builder.inttoptr(address, ir.IntType(64).as_pointer())
        return builder.load_atomic(pointer, "acquire", 8)

    return types.int64(types.uint64), generate


_sleep = types.ExternalFunction("usleep", types.int32(types.uint32))


@compiled
def wait_for_all(thread):
    """Returns once all threads have called it.

    The last one to arrive sets the number of arrivals back to 0 and counts a turn, which is what the others wait for.
    They look again and again for a while, then sleep between two looks: on a busy machine, a waiting thread that never
    sleeps may hold the very processor that the last thread needs.
    """
    if thread.n_threads == 1:
        return
    meeting = thread.meeting
    arrived, turn = meeting[ARRIVED:].ctypes.data, meeting[TURN:].ctypes.data  # addresses
    turn_before = _atomic_read(turn)
    if _atomic_add(arrived, 1) == thread.n_threads - 1:
        _atomic_add(arrived, -thread.n_threads)
        _atomic_add(turn, 1)
    spins = 0
    while _atomic_read(turn) == turn_before:
        if meeting[FAILED]:
            raise RuntimeError("another thread has failed")
        spins += 1
        if spins > SPINS_BEFORE_SLEEP:
            _sleep(np.uint32(MICROSECONDS_OF_SLEEP))


def has_threads() -> bool:
    """Whether a matrix product can keep to the thread that calls it, so that several threads can multiply at once.

    MKL can be told so, and OpenBLAS where its threads are OpenMP's; its threads of other kinds serve all callers.
    """
    if IN_PYTHON:
        return False
    if function_of_torch("MKL_Set_Num_Threads_Local") is not None:
        return True
    kind = function_of_torch("openblas_get_parallel")
    return kind is not None and kind() == OPENMP


def on_threads(function: Callable[..., None], arguments: Sequence[tuple[Any, ...]]) -> None:
    """Calls function(Thread(...), *arguments[i]) for all i at once, each on a thread; raises the first error."""
    threads = len(arguments)
    meeting = np.zeros(3 * LINE, np.int64)
    errors: list[BaseException] = []

    def run(number: int) -> None:
        try:
            function(Thread(number, threads, meeting), *arguments[number])
        except BaseException as error:
            errors.append(error)
            meeting[FAILED] = 1  # the others wait no longer

    if threads == 1:
        run(0)
    else:
        pool, lock = _pool(threads)
        with lock:
            wait([pool.submit(run, number) for number in range(threads)])
    if errors:
        raise errors[0]


@cache
def _pool(threads: int) -> tuple[ThreadPoolExecutor, Lock]:
    """This many threads that wait for work, and a lock: whoever gives them work needs all of them at once."""
    return ThreadPoolExecutor(threads, initializer=_keep_to_one_thread), Lock()


def _keep_to_one_thread() -> None:
    """From now on the products of the thread that calls this run on it alone."""
    for name in ("MKL_Set_Num_Threads_Local", "omp_set_num_threads"):
        limit = function_of_torch(name)
        if limit is not None:
            limit(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # a forked process does not have these threads
