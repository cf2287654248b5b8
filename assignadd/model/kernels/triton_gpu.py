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
import triton.language as tl
from torch import Tensor

from assignadd.model.kernels.cuda_attention import CudaAttention
from assignadd.model.kernels.tensor import Moments

# Measured on an H200: sequences in a program of the loss, and weights in one of the update.
LOSS_ROWS, UPDATE_BLOCK = 16, 1024
# On an H200, products of at least this many models with at least this many multiplications each are faster here than in
# cuBLAS, with these tiles. That takes tensor cores much faster than the units for float32, as GPUs for data centres
# have (A100, H100 and H200, B200), whose versions these are.
MANY_MODELS, LARGE = 8, 1 << 24
# With TF32, products of at least so many multiplications, where something follows in the same pass over memory.
LARGE_TF32 = 1 << 28
FAST_TENSOR_CORES = {(8, 0), (9, 0), (10, 0)}
PRODUCT_TILE = {"ROWS": 128, "COLUMNS": 64, "DEPTH": 32, "num_warps": 8, "num_stages": 3}
TF32_TILE = {"ROWS": 128, "COLUMNS": 128, "DEPTH": 32, "num_warps": 4, "num_stages": 3}
TF32_TILES = {"gate": TF32_TILE | {"ROWS": 64}}  # by what follows the product


class TritonKernels(CudaAttention):
    """All operations for weights and tokens with the leading axis M."""

    name = "triton"

    def __init__(self, n_tokens: int, length: int, device: torch.device, n_heads: int = 1, tf32: bool = False):
        super().__init__(n_tokens, length, device, n_heads)
        self._tf32, self._is_fast = tf32, torch.cuda.get_device_capability(device) in FAST_TENSOR_CORES
        self._second, self._third = torch.cuda.Stream(device), torch.cuda.Stream(device)
        self._busy = set[torch.cuda.Stream]()
        """The streams for which `join` waits."""
        self._used = list[Tensor]()
        """The tensors that these streams read and write."""

    def product(self, a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor:
        """a @ b, by the program `product` if it is large; so are the next four."""
        return self._product(a, b, out) if self._is_large(a, b) else super().product(a, b, out)

    def plus_product(self, total: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """Adds a @ b to `total`, and returns it."""
        return self._product(a, b, total, total, "add") if self._is_large(a, b) else super().plus_product(total, a, b)

    def added_product(self, total: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """total + a @ b, in memory of its own."""
        if self._is_large(a, b, fused=True):
            return self._product(a, b, None, total.contiguous(), "add")
        return super().added_product(total, a, b)

    def relu_product(self, a: Tensor, b: Tensor) -> Tensor:
        """relu(a @ b)."""
        return self._product(a, b, end="relu") if self._is_large(a, b, fused=True) else super().relu_product(a, b)

    def gated_product(self, a: Tensor, b: Tensor, neurons: Tensor) -> Tensor:
        """a @ b where the neurons are greater than 0, and 0 elsewhere."""
        if self._is_large(a, b, fused=True):
            return self._product(a, b, None, neurons.contiguous(), "gate")
        return super().gated_product(a, b, neurons)

    def _is_large(self, a: Tensor, b: Tensor, fused: bool = False) -> bool:
        """Whether the product (M, rows, depth) @ (M, depth, columns) is faster here than in cuBLAS.

        `fused` says that what follows it is computed in the same pass over memory. With TF32, cuBLAS uses tensor cores
        too, so that only fused products are faster here.
        """
        if self._tf32 and not fused:
            return False
        multiplications = math.prod(a.shape[1:]) * b.shape[-1]  # of one model
        return self._is_fast and len(a) >= MANY_MODELS and multiplications >= (LARGE_TF32 if self._tf32 else LARGE)

    def _product(
        self, a: Tensor, b: Tensor, out: Tensor | None = None, other: Tensor | None = None, end: str = ""
    ) -> Tensor:
        """a @ b, and what follows it in the same pass: nothing, or as `end` says "relu", "add" or "gate".

        `other` is the sum so far for "add", the neurons for "gate"; it has the strides of `out`.
        """
        (M, rows, depth), columns = a.shape, b.shape[-1]
        out = a.new_empty(M, rows, columns) if out is None else out
        tile = PRODUCT_TILE
        if self._tf32:
            # Tensor cores take the second matrix of such a product by columns.
            tile, b = TF32_TILES.get(end, TF32_TILE), b.mT.contiguous().mT
        tiles = triton.cdiv(rows, tile["ROWS"]) * triton.cdiv(columns, tile["COLUMNS"])
        other = out if other is None else other  # the program needs an address, also where it does not read it
        product[tiles, M](
            a, b, out, other, rows, columns, depth, *a.stride(), *b.stride(), *out.stride(),
            END=end, TF32=self._tf32, **tile,
        )  # fmt: skip
        return out

    def product_aside(self, a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor:
        """a @ b, on the second stream."""
        out = a.new_empty(*a.shape[:-1], b.shape[-1]) if out is None else out
        with self.aside(a, b, out):
            return self.product(a, b, out)

    def aside(self, *used: Tensor) -> AbstractContextManager[None]:
        """A context for work on the second stream."""
        return self._beside(self._second, *used)

    @contextmanager
    def _beside(self, stream: torch.cuda.Stream, *used: Tensor) -> Iterator[None]:
        """A context for work on this stream, at the same time as on the first: small products do not fill a device."""
        self._used += used  # their memory must not be freed before `join`
        self._busy.add(stream)
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            yield

    def after_layer_1_backward(self, *used: Tensor) -> AbstractContextManager[None]:
        """A context for work on the third stream, on which the gradient of layer 1's score table is computed."""
        return self._beside(self._third, *used)

    def join(self) -> None:
        """Has the first stream wait for the other two."""
        for stream in self._busy:
            torch.cuda.current_stream().wait_stream(stream)
        self._busy.clear()
        self._used.clear()

    def cross_entropy(self, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """The mean loss of each model, and its gradient, which is written over the logits."""
        M, B, N = logits.shape
        losses = logits.new_empty(M, B)
        width = 1 << (N - 1).bit_length()  # the power of 2 from N on: Triton's ranges have no other length
        blocks = triton.cdiv(B, LOSS_ROWS)
        cross_entropy[blocks, M](logits, labels.contiguous(), losses, B, N=N, WIDTH=width, ROWS=LOSS_ROWS)
        return losses.mean(1), logits

    def adamw(
        self, flat: Tensor, grad: Tensor, moments: Moments, loss: Tensor, diverged_at: Tensor, count: Tensor
    ) -> None:
        """Makes the update of all models, by the program `adamw`."""
        M, P = flat.shape
        adamw[triton.cdiv(P, UPDATE_BLOCK), M](
            flat, grad, moments.mean, moments.square, moments.rate, moments.decay, moments.coefficients, moments.betas,
            loss, diverged_at, count, P, BLOCK=UPDATE_BLOCK,
        )  # fmt: skip


# The Triton programs that are launched above. A program works on a block of numbers of one model, program_id(1);
# program_id(0) says which block. Its arguments are addresses of tensors and sizes. `mask` says which numbers of a block
# are within the tensor: others are not read, but taken as `other`, and not written.


@triton.jit
def product(
    a, b, out, other, rows, columns, depth,
    a_model, a_row, a_k, b_model, b_k, b_column, out_model, out_row, out_column,
    END: tl.constexpr, TF32: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """Writes to `out` a tile of a (rows, depth) @ b (depth, columns) of one model, and what follows in the same pass.

    END is `relu`, `add` (plus `other`), `gate` (zero where `other` is not positive) or empty; `other` has the strides
    of `out`. `a_model`, `a_row`, `a_k` and the like are strides: by how many numbers the next model, row or column lies
    behind.

    With TF32 tensor cores multiply the factors cut to TF32. Without it they multiply bfloat16 numbers: each factor goes
    in as the sum of three, x0 + x1 + x2, which hold a float32; the products of small parts that a float32 would lose
    are left out, and an infinite factor gives NaN. Tensor cores cut off digits where other units round, so then only
    DEPTH terms are added up there.
    """
    m = tl.program_id(1).to(tl.int64)  # the model
    across = tl.cdiv(columns, COLUMNS)  # tiles beside one another
    i = (tl.program_id(0) // across * ROWS + tl.arange(0, ROWS))[:, None]
    j = (tl.program_id(0) % across * COLUMNS + tl.arange(0, COLUMNS))[None, :]
    k = tl.arange(0, DEPTH)
    # The addresses of rows i and the first DEPTH columns of a, and of the first DEPTH rows and columns j of b.
    a += m * a_model + i * a_row + k[None, :] * a_k
    b += m * b_model + k[:, None] * b_k + j * b_column
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for start in range(0, depth, DEPTH):
        x = tl.load(a, mask=(i < rows) & (start + k[None, :] < depth), other=0.0)
        y = tl.load(b, mask=(j < columns) & (start + k[:, None] < depth), other=0.0)
        if TF32:
            total = tl.dot(x, y, total, input_precision="tf32")
        else:
            x0, y0 = x.to(tl.bfloat16), y.to(tl.bfloat16)
            x, y = x - x0.to(tl.float32), y - y0.to(tl.float32)
            x1, y1 = x.to(tl.bfloat16), y.to(tl.bfloat16)
            x2, y2 = (x - x1.to(tl.float32)).to(tl.bfloat16), (y - y1.to(tl.float32)).to(tl.bfloat16)
            small = tl.dot(x0, y2, tl.dot(x1, y1, tl.dot(x2, y0)))
            total += tl.dot(x0, y0, tl.dot(x0, y1, tl.dot(x1, y0, small)))
        a += DEPTH * a_k
        b += DEPTH * b_k
    place = m * out_model + i * out_row + j * out_column
    inside = (i < rows) & (j < columns)  # the part of the tile that is within the matrix
    if END == "relu":
        total = tl.where(total < 0, 0.0, total)  # keeps NaN, as torch does, and so does the gate
    elif END == "add":
        total += tl.load(other + place, mask=inside, other=0.0)
    elif END == "gate":
        total = tl.where(tl.load(other + place, mask=inside, other=0.0) <= 0, 0.0, total)
    tl.store(out + place, total, mask=inside)


@triton.jit
def cross_entropy(logits, labels, losses, B, N: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr):
    """Writes the loss of ROWS sequences, and over their logits (B, N) the gradient of the mean of all B losses.

    WIDTH is the power of 2 from N on.
    """
    m = tl.program_id(1).to(tl.int64)  # the model
    sequence = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    answer = tl.arange(0, WIDTH)[None, :]
    is_sequence = sequence < B
    is_logit = is_sequence[:, None] & (answer < N)
    address = logits + (m * B + sequence[:, None]) * N + answer
    logit = tl.load(address, mask=is_logit, other=-float("inf"))
    logit -= tl.where(is_sequence, tl.max(logit, 1), 0.0)[:, None]  # beyond B the largest is -inf: -inf - -inf is NaN
    label = tl.load(labels + m * B + sequence, mask=is_sequence, other=0)[:, None]
    exponential = tl.exp(logit)
    total = tl.sum(exponential, 1)
    logit_of_label = tl.sum(tl.where(answer == label, logit, 0.0), 1)
    tl.store(losses + m * B + sequence, tl.log(total) - logit_of_label, mask=is_sequence)
    probability = exponential / total[:, None]
    tl.store(address, (probability - tl.where(answer == label, 1.0, 0.0)) / B, mask=is_logit)


@triton.jit
def adamw(
    flat, grad, mean, square, rate, decay, coefficients, betas, losses, diverged_at, count, P, BLOCK: tl.constexpr,
):  # fmt: skip
    """Makes update number `count` of BLOCK of one model's P weights, as `TensorKernels.adamw` says.

    `mean` to `betas` are fields of `Moments`, which describes them.
    """
    m = tl.program_id(1).to(tl.int64)  # the model
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    trained, finite = tl.load(diverged_at + m) < 0, tl.abs(tl.load(losses + m)) < float("inf")
    if trained & (finite == 0) & (tl.program_id(0) == 0):
        # Other blocks may read it before or after: they change nothing either way, as the loss is not finite.
        tl.store(diverged_at + m, tl.load(count) - 1)
    if trained & finite:
        inside, place = i < P, m * P + i
        gradient = tl.load(grad + place, mask=inside, other=0.0)
        new_mean = tl.load(mean + place, mask=inside, other=0.0)
        new_square = tl.load(square + place, mask=inside, other=0.0)
        weight = tl.load(flat + place, mask=inside, other=0.0)
        settings = coefficients + 4 * m  # the addresses of 1 - beta1, beta2, 1 - beta2 and eps
        new_mean += tl.load(settings) * (gradient - new_mean)
        new_square = new_square * tl.load(settings + 1) + tl.load(settings + 2) * gradient * gradient
        steps = tl.load(count).to(tl.float64)  # for beta ** steps, below: 1 - 0.999 loses five digits in float32
        step_size = (tl.load(rate + m) / (1 - tl.exp(steps * tl.log(tl.load(betas + 2 * m))))).to(tl.float32)
        correction = tl.sqrt(1 - tl.exp(steps * tl.log(tl.load(betas + 2 * m + 1)))).to(tl.float32)
        update = new_mean / (tl.sqrt(new_square) / correction + tl.load(settings + 3))
        weight = weight * (1 - tl.load(decay + m)) - update * step_size
        tl.store(mean + place, new_mean, mask=inside)
        tl.store(square + place, new_square, mask=inside)
        tl.store(flat + place, weight, mask=inside)
