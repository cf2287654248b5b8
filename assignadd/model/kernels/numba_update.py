"""The AdamW update, compiled for a CPU: one pass over the memory of weights, gradient and moments.

The numbers of each call are the addresses of its arrays, followed by sizes, and by addresses of doubles.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from assignadd.model.kernels.calls import compiled_call, doubles_at, floats_at, integers_at


@njit(cache=True, error_model="numpy")
def updated(weights, grad, mean, square, size, decay, old, averaging, eps):
    """`size`, the learning rate, and `eps` are corrected for moments that start at 0."""
    new, kept, added = averaging[0], averaging[1], averaging[2]
    for i in range(len(weights)):
        mean[i] = old * mean[i] + new * grad[i]
        square[i] = kept * square[i] + added * (grad[i] * grad[i])
        # Multiplied by 1 - decay, weights would always be rounded in the same direction.
        weights[i] -= decay * weights[i] + size * mean[i] / (np.sqrt(square[i]) + eps)


@compiled_call
def update(n):
    """The update of some weights of a model, if its loss has always been finite."""
    rate, decay, averaging, betas = floats_at(n[4], 1), floats_at(n[5], 1), floats_at(n[6], 4), doubles_at(n[11], 2)
    loss, diverged_at, count, P = floats_at(n[7], 1), integers_at(n[8], 1), integers_at(n[9], 1), n[10]
    if diverged_at[0] < 0 and np.isfinite(loss[0]):
        first, second = 1 - betas[0] ** (count[0] + 1), 1 - betas[1] ** (count[0] + 1)
        # The correction divides sqrt(square). To divide once per weight, size and eps are multiplied by it instead.
        root = np.sqrt(second)
        size, eps = np.float32(rate[0] / first * root), np.float32(averaging[3] * root)
        weights, grad, mean, square = floats_at(n[0], P), floats_at(n[1], P), floats_at(n[2], P), floats_at(n[3], P)
        updated(weights, grad, mean, square, size, decay[0], np.float32(betas[0]), averaging, eps)


@compiled_call
def count_update(n):
    """Notes at which update a loss was not finite for the first time, and adds one to their number."""
    losses, diverged_at, count = floats_at(n[0], n[3]), integers_at(n[1], n[3]), integers_at(n[2], 1)
    for i in range(n[3]):
        if diverged_at[i] < 0 and not np.isfinite(losses[i]):
            diverged_at[i] = count[0]
    count[0] += 1
