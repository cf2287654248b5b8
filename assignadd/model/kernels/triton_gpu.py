"""The kernels for a stack on a GPU: attention in CUDA (`cuda_attention`), large products, loss and update in Triton.

One pass over memory where tensor operations take ten. A GPU works on the commands of several streams at once. Two more
streams take what the first does not wait for before `join`: the second products aside, the third the gradient of layer
1's score table and what follows from it. `tensor.TensorKernels` says what each operation returns.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import torch
import triton
from torch import Tensor

from assignadd.model.kernels import triton_programs
from assignadd.model.kernels.cuda_attention import CudaAttention
from assignadd.model.kernels.tensor import Moments

# Measured on an H200: sequences in a program of the loss, and weights in one of the update.
LOSS_ROWS, UPDATE_BLOCK = 16, 1024
# On an H200, products of this many models with this many multiplications each are faster here than in cuBLAS, with
# these tiles. It takes tensor cores that are much faster than the units for float32, as GPUs for data centres have
# (A100, H100 and H200, B200): here their versions.
MANY_MODELS, LARGE = 8, 1 << 24
FAST_TENSOR_CORES = {(8, 0), (9, 0), (10, 0)}
PRODUCT_TILE = {"ROWS": 128, "COLUMNS": 64, "DEPTH": 32, "num_warps": 8, "num_stages": 3}


class TritonKernels(CudaAttention):
    """All operations for weights and tokens with the leading axis M."""

    name = "triton"

    def __init__(self, n_tokens: int, length: int, device: torch.device, tf32: bool = False):
        super().__init__(n_tokens, length, device)
        self._has_large = not tf32 and torch.cuda.get_device_capability(device) in FAST_TENSOR_CORES
        self._second, self._third = torch.cuda.Stream(device), torch.cuda.Stream(device)
        self._busy = set[torch.cuda.Stream]()
        """The streams for which `join` waits."""
        self._used = list[Tensor]()
        """The tensors that they read and write."""

    def product(self, a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor:
        return self._product(a, b, out) if self._is_large(a, b) else super().product(a, b, out)

    def plus_product(self, total: Tensor, a: Tensor, b: Tensor) -> Tensor:
        return self._product(a, b, total, total, "add") if self._is_large(a, b) else super().plus_product(total, a, b)

    def relu_product(self, a: Tensor, b: Tensor) -> Tensor:
        return self._product(a, b, end="relu") if self._is_large(a, b) else super().relu_product(a, b)

    def gated_product(self, a: Tensor, b: Tensor, neurons: Tensor) -> Tensor:
        if self._is_large(a, b):
            return self._product(a, b, None, neurons.contiguous(), "gate")
        return super().gated_product(a, b, neurons)

    def _is_large(self, a: Tensor, b: Tensor) -> bool:
        """Whether the product (M, rows, depth) @ (M, depth, columns) is faster here than in cuBLAS."""
        multiplications = math.prod(a.shape[1:]) * b.shape[-1]  # of one model
        return self._has_large and len(a) >= MANY_MODELS and multiplications >= LARGE

    def _product(
        self, a: Tensor, b: Tensor, out: Tensor | None = None, other: Tensor | None = None, end: str = ""
    ) -> Tensor:
        """a @ b, and what follows it in the same pass: nothing, or as `end` says "relu", "add" or "gate".

        `other` is the sum so far for "add", the neurons for "gate"; it has the strides of `out`.
        """
        (M, rows, depth), columns = a.shape, b.shape[-1]
        out = a.new_empty(M, rows, columns) if out is None else out
        tiles = triton.cdiv(rows, PRODUCT_TILE["ROWS"]) * triton.cdiv(columns, PRODUCT_TILE["COLUMNS"])
        triton_programs.product[tiles, M](
            a, b, out, out if other is None else other, rows, columns, depth, *a.stride(), *b.stride(), *out.stride(),
            END=end, **PRODUCT_TILE,
        )  # fmt: skip
        return out

    def product_aside(self, a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor:
        out = a.new_empty(*a.shape[:-1], b.shape[-1]) if out is None else out
        with self.aside(a, b, out):
            return self.product(a, b, out)

    def aside(self, *used: Tensor) -> AbstractContextManager[None]:
        return self._beside(self._second, *used)

    @contextmanager
    def _beside(self, stream: torch.cuda.Stream, *used: Tensor) -> Iterator[None]:
        """A context for work on another stream, for which the first waits at `join`: small products fill no device."""
        self._used += used  # their memory must not be freed before that
        self._busy.add(stream)
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            yield

    def after_layer_1_backward(self, *used: Tensor) -> AbstractContextManager[None]:
        return self._beside(self._third, *used)

    def join(self) -> None:
        for stream in self._busy:
            torch.cuda.current_stream().wait_stream(stream)
        self._busy.clear()
        self._used.clear()

    def cross_entropy(self, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        M, B, N = logits.shape
        losses = logits.new_empty(M, B)
        width = 1 << (N - 1).bit_length()  # the power of 2 from N on: Triton's ranges have no other length
        blocks = triton.cdiv(B, LOSS_ROWS)
        triton_programs.cross_entropy[blocks, M](logits, labels.contiguous(), losses, B, N=N, NP=width, BB=LOSS_ROWS)
        return losses.mean(1), logits

    def adamw(
        self, flat: Tensor, grad: Tensor, moments: Moments, loss: Tensor, diverged_at: Tensor, count: Tensor
    ) -> None:
        M, P = flat.shape
        triton_programs.adamw[triton.cdiv(P, UPDATE_BLOCK), M](
            flat, grad, moments.mean, moments.square, moments.rate, moments.decay, moments.averaging, moments.betas,
            loss, diverged_at, count, P, BLOCK=UPDATE_BLOCK,
        )  # fmt: skip
