"""The Triton programs that `triton_gpu` launches: large products, loss and update.

A program works on a block of numbers of one model, program_id(1); program_id(0) says which block. Its arguments are
addresses of tensors and sizes. `mask` says which numbers of a block are within the tensor: others are not read, but
taken as `other`, and not written.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def product(
    a, b, out, other, rows, columns, depth,
    a_model, a_row, a_k, b_model, b_k, b_column, out_model, out_row, out_column,
    END: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """A tile of a (rows, depth) @ b (depth, columns) of one model, and what follows in the same pass over memory.

    END is `relu`, `add` (plus `other`), `gate` (zero where `other` is not positive) or empty; `other` has the strides
    of `out`.

    Tensor cores multiply bfloat16 numbers. Each factor goes in as the sum of three, x0 + x1 + x2, which hold a float32;
    the products of small parts that a float32 would lose are left out. An infinite factor gives NaN. Tensor cores cut
    off digits where other units round, so only DEPTH terms are added up there.
    """
    m = tl.program_id(1).to(tl.int64)  # the model
    across = tl.cdiv(columns, COLUMNS)  # tiles beside one another
    i = (tl.program_id(0) // across * ROWS + tl.arange(0, ROWS))[:, None]
    j = (tl.program_id(0) % across * COLUMNS + tl.arange(0, COLUMNS))[None, :]
    k = tl.arange(0, DEPTH)
    # The addresses of the first DEPTH columns of a's rows i, and rows of b's columns j.
    a += m * a_model + i * a_row + k[None, :] * a_k
    b += m * b_model + k[:, None] * b_k + j * b_column
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for start in range(0, depth, DEPTH):
        x = tl.load(a, mask=(i < rows) & (start + k[None, :] < depth), other=0.0)
        y = tl.load(b, mask=(j < columns) & (start + k[:, None] < depth), other=0.0)
        x0, y0 = x.to(tl.bfloat16), y.to(tl.bfloat16)
        x, y = x - x0.to(tl.float32), y - y0.to(tl.float32)
        x1, y1 = x.to(tl.bfloat16), y.to(tl.bfloat16)
        x2, y2 = (x - x1.to(tl.float32)).to(tl.bfloat16), (y - y1.to(tl.float32)).to(tl.bfloat16)
        small = tl.dot(x0, y2, tl.dot(x1, y1, tl.dot(x2, y0)))
        total += tl.dot(x0, y0, tl.dot(x0, y1, tl.dot(x1, y0, small)))
        a += DEPTH * a_k
        b += DEPTH * b_k
    at = m * out_model + i * out_row + j * out_column
    there = (i < rows) & (j < columns)  # the part of the tile that is within the matrix
    if END == "relu":
        total = tl.where(total < 0, 0.0, total)  # keeps NaN, as torch does, and so does the gate
    elif END == "add":
        total += tl.load(other + at, mask=there, other=0.0)
    elif END == "gate":
        total = tl.where(tl.load(other + at, mask=there, other=0.0) <= 0, 0.0, total)
    tl.store(out + at, total, mask=there)


@triton.jit
def cross_entropy(logits, labels, losses, B, N: tl.constexpr, NP: tl.constexpr, BB: tl.constexpr):
    """Loss of each of BB sequences, and over their logits (B, N) the gradient of the mean of all B losses.

    NP is the power of 2 from N on.
    """
    m = tl.program_id(1).to(tl.int64)  # the model
    b = tl.program_id(0) * BB + tl.arange(0, BB)  # the sequences
    n = tl.arange(0, NP)[None, :]  # the answers
    there = (b[:, None] < B) & (n < N)
    at = logits + (m * B + b[:, None]) * N + n
    x = tl.load(at, mask=there, other=-float("inf"))
    x -= tl.where(b < B, tl.max(x, 1), 0.0)[:, None]
    label = tl.load(labels + m * B + b, mask=b < B, other=0)[:, None]
    e = tl.exp(x)
    total = tl.sum(e, 1)
    of_label = tl.sum(tl.where(n == label, x, 0.0), 1)
    tl.store(losses + m * B + b, tl.log(total) - of_label, mask=b < B)
    tl.store(at, (e / total[:, None] - tl.where(n == label, 1.0, 0.0)) / B, mask=there)


@triton.jit
def adamw(
    flat, grad, mean, square, rate, decay, averaging, betas, losses, diverged_at, count, P, BLOCK: tl.constexpr,
):  # fmt: skip
    """Update number `count` of BLOCK of one model's P weights, as `TensorKernels.adamw` says.

    The other arguments are the fields of `Moments`, which describes them.
    """
    m = tl.program_id(1).to(tl.int64)  # the model
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    trained, finite = tl.load(diverged_at + m) < 0, tl.abs(tl.load(losses + m)) < float("inf")
    if trained & (finite == 0) & (tl.program_id(0) == 0):
        tl.store(diverged_at + m, tl.load(count) - 1)  # programs that read it before and after do nothing either way
    if trained & finite:
        there, at = i < P, m * P + i
        g = tl.load(grad + at, mask=there, other=0.0)
        first = tl.load(mean + at, mask=there, other=0.0)
        second = tl.load(square + at, mask=there, other=0.0)
        w = tl.load(flat + at, mask=there, other=0.0)
        settings = averaging + 4 * m
        first += tl.load(settings) * (g - first)
        second = second * tl.load(settings + 1) + tl.load(settings + 2) * g * g
        steps = tl.load(count).to(tl.float64)  # 1 - 0.999 loses five digits in float32
        size = (tl.load(rate + m) / (1 - tl.exp(steps * tl.log(tl.load(betas + 2 * m))))).to(tl.float32)
        correction = tl.sqrt(1 - tl.exp(steps * tl.log(tl.load(betas + 2 * m + 1)))).to(tl.float32)
        update = first / (tl.sqrt(second) / correction + tl.load(settings + 3))
        w = w * (1 - tl.load(decay + m)) - update * size
        tl.store(mean + at, first, mask=there)
        tl.store(square + at, second, mask=there)
        tl.store(flat + at, w, mask=there)
