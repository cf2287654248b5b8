"""Loss and update of a stack on a GPU as Triton kernels, each one pass over memory."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def cross_entropy(logits, labels, losses, B, N: tl.constexpr, NP: tl.constexpr, BB: tl.constexpr):
    """Loss of every sequence, and in place of its logits the gradient of their mean."""
    m = tl.program_id(1).to(tl.int64)
    b = tl.program_id(0) * BB + tl.arange(0, BB)
    n = tl.arange(0, NP)[None, :]
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
    flat, grad, mean, square, decay, size, correction, alive, P,
    beta1: tl.constexpr, beta2: tl.constexpr, eps: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One update of one model's weights; `decay`, `size` and `alive` hold a number per model."""
    m = tl.program_id(1).to(tl.int64)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if tl.load(alive + m):
        there, at = i < P, m * P + i
        g = tl.load(grad + at, mask=there, other=0.0)
        first = tl.load(mean + at, mask=there, other=0.0)
        second = tl.load(square + at, mask=there, other=0.0)
        w = tl.load(flat + at, mask=there, other=0.0)
        first += (1 - beta1) * (g - first)
        second = second * beta2 + (1 - beta2) * g * g
        update = first / (tl.sqrt(second) / tl.load(correction) + eps)
        w = w * (1 - tl.load(decay + m)) - update * tl.load(size + m)
        tl.store(mean + at, first, mask=there)
        tl.store(square + at, second, mask=there)
        tl.store(flat + at, w, mask=there)
