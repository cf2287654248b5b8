"""Matrix products as calls of compiled code (`calls`), through the BLAS library that torch is linked with.

Of the products of a training step most are so small that a call of torch takes as long as the product itself.
"""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from numba import types
from torch import Tensor

from assignadd.model.kernels.calls import Call, compiled_call, function_of_torch, series

# The 13 arguments of BLAS's sgemm: all are addresses, of sizes and letters too.
_sgemm = types.ExternalFunction("assignadd_sgemm_", types.void(*[types.intp] * 13))
_set_threads = types.ExternalFunction("assignadd_MKL_Set_Num_Threads_Local", types.int32(types.int32))
LETTERS = (ctypes.c_char * 2)(*b"NT")  # not transposed, transposed
OPENMP = 2  # what OpenBLAS answers where its threads are OpenMP's


def available() -> bool:
    """Whether torch's library has such a product."""
    return function_of_torch("sgemm_") is not None


def products(*each: tuple[Any, ...]) -> Call:
    """Products one after the other; each has the arguments of `product`."""
    return series(*(product(*arguments) for arguments in each))


def product(a: Tensor, b: Tensor, out: Tensor, scale: float = 1.0, kept: float = 0.0) -> Call:
    """out = kept * out + scale * a @ b, in single precision, of matrices that stay where they are in memory.

    They may be transposed, but for `out`, and parts of others. Only where the library is `available`.
    """
    if not available():
        raise RuntimeError("torch's library has no matrix product that compiled code can call")
    (rows, inner), columns = a.shape, b.shape[1]
    (a_by_columns, a_apart), (b_by_columns, b_apart), (by_columns, apart) = map(_in_memory, (a, b, out))
    if b.shape[0] != inner or out.shape != (rows, columns) or by_columns:
        raise ValueError(f"{tuple(a.shape)} @ {tuple(b.shape)} cannot be written as {tuple(out.shape)}")
    # sgemm has matrices stored by columns, and so computes the transpose, b.T @ a.T. A library that has sizes of 32
    # bits reads the lower half of these.
    sizes = (ctypes.c_int64 * 6)(columns, rows, inner, b_apart, a_apart, apart)
    numbers = (ctypes.c_float * 2)(scale, kept)
    m, n, k, b_width, a_width, width = _addresses(sizes)
    scale_at, kept_at = _addresses(numbers)
    a_letter, b_letter = (_addresses(LETTERS)[by_columns] for by_columns in (a_by_columns, b_by_columns))
    arguments = (
        b_letter, a_letter, m, n, k, scale_at, b.data_ptr(), b_width, a.data_ptr(), a_width, kept_at, out.data_ptr(),
        width,
    )  # fmt: skip
    return Call(product_call, arguments, (a, b, out), kept=(sizes, numbers))


def keeps_to_one_thread() -> bool:
    """Whether a product within a phase of `calls` can be kept to the thread that computes it.

    MKL is told so (`on_one_thread`). OpenBLAS with OpenMP's threads starts no others there, unless it was asked for a
    number of threads by a function of its own, which nothing here calls.
    """
    kind = function_of_torch("openblas_get_parallel")
    return function_of_torch("MKL_Set_Num_Threads_Local") is not None or (kind is not None and kind() == OPENMP)


def on_one_thread(call: Call) -> Call:
    """The call, during which MKL does not start threads of its own; with another library, the call itself."""
    if function_of_torch("MKL_Set_Num_Threads_Local") is None:
        return call
    return series(Call(limit_threads, [1]), call, Call(limit_threads, [0]))  # 0: no limit


def _addresses(array: ctypes.Array[Any]) -> range:
    """The address of each element of an array."""
    first, size = ctypes.addressof(array), ctypes.sizeof(array)
    return range(first, first + size, size // len(array))


def _in_memory(matrix: Tensor) -> tuple[bool, int]:
    """Whether a matrix is stored by columns, and the distance between its stored columns, or else rows."""
    (height, width), (down, across) = matrix.shape, matrix.stride()
    by_columns = across != 1
    if by_columns:
        height, width, down, across = width, height, across, down
    if across != 1 or (down < width and height > 1) or matrix.dtype != torch.float32 or matrix.device.type != "cpu":
        raise ValueError(f"cannot multiply a matrix of {matrix.dtype} with strides {matrix.stride()} here")
    return by_columns, max(down, width)


@compiled_call
def product_call(n):
    _sgemm(n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7], n[8], n[9], n[10], n[11], n[12])


@compiled_call
def limit_threads(n):
    _set_threads(n[0])
