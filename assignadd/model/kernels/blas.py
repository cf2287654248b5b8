"""Series of matrix products by one compiled call, through the BLAS library that torch is linked with.

Of the fifty products of a training step most are so small that a call of torch takes as long as the product itself.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any, NamedTuple

import llvmlite.binding
import numpy as np
import torch
from numba import njit, types
from torch import Tensor

# The 13 arguments of BLAS's sgemm: all are addresses, of sizes and letters too.
SGEMM = "assignadd_sgemm"
_sgemm = types.ExternalFunction(SGEMM, types.void(*[types.intp] * 13))
LETTERS = np.frombuffer(b"NT", np.uint8)  # not transposed, transposed


def available() -> bool:
    """Whether torch's library has such a product; compiled functions know its address from now on."""
    libraries = list((Path(torch.__file__).parent / "lib").glob("libtorch_cpu.*"))
    try:
        address = ctypes.cast(ctypes.CDLL(str(libraries[0])).sgemm_, ctypes.c_void_p).value
    except (IndexError, OSError, AttributeError):
        return False
    llvmlite.binding.add_symbol(SGEMM, address)
    return True


class Product(NamedTuple):
    """out = kept * out + scale * a @ b, in single precision. The matrices may be transposed, and parts of others."""

    a: Tensor
    b: Tensor
    out: Tensor
    scale: float = 1.0
    kept: float = 0.0


class Products:
    """Products, one after the other, of matrices that stay where they are in memory: each is (a, b, out, ...).

    Only where the library is `available`.
    """

    def __init__(self, *products: tuple[Tensor, Tensor, Tensor] | tuple[Tensor, Tensor, Tensor, *tuple[float, ...]]):
        self._products = [Product(*product) for product in products]  # keeps their memory
        self._numbers = np.array([(p.scale, p.kept) for p in self._products], np.float32)
        # A library that has sizes of 32 bits reads the lower half of these.
        self._sizes = np.array([_sizes(p) for p in self._products], np.int64)
        self._addresses = np.empty((len(products), 13), np.intp)
        for i, (a, b, out, *_) in enumerate(self._products):
            m, n, k, width_b, width_a, width = _addresses(self._sizes[i])
            scale, kept = _addresses(self._numbers[i])
            letter_a, letter_b = (_addresses(LETTERS)[int(_in_memory(matrix)[0])] for matrix in (a, b))
            self._addresses[i] = (
                letter_b, letter_a, m, n, k, scale, b.data_ptr(), width_b, a.data_ptr(), width_a, kept, out.data_ptr(),
                width,
            )  # fmt: skip

    def __call__(self) -> None:
        multiply(self._addresses)


def _sizes(product: Product) -> list[int]:
    """What sgemm is told of a product; as it has matrices stored by columns, it computes the transpose, b.T @ a.T."""
    a, b, out, *_ = product
    if (len(a), a.shape[1], b.shape[1]) != (len(out), len(b), out.shape[1]) or _in_memory(out)[0]:
        raise ValueError(f"{tuple(a.shape)} @ {tuple(b.shape)} cannot be written as {tuple(out.shape)}")
    return [out.shape[1], out.shape[0], a.shape[1], *(_in_memory(matrix)[1] for matrix in (b, a, out))]


def _addresses(array: Any) -> Any:
    """The address of each element of an array."""
    return array.ctypes.data + array.itemsize * np.arange(len(array))


def _in_memory(matrix: Tensor) -> tuple[bool, int]:
    """Whether a matrix is stored by columns, and the distance between its stored columns, or else rows."""
    by_columns = matrix.stride(1) != 1
    rows = matrix.mT if by_columns else matrix
    apart = rows.stride(0) >= rows.shape[1] or len(rows) == 1
    if rows.stride(1) != 1 or not apart or matrix.dtype != torch.float32 or matrix.device.type != "cpu":
        raise ValueError(f"cannot multiply a matrix of {matrix.dtype} with strides {matrix.stride()} here")
    return by_columns, max(rows.stride(0), rows.shape[1])


@njit(cache=True, nogil=True)
def multiply(addresses):
    for a in addresses:
        _sgemm(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12])
