"""The answers of the addition circuit to all pairs of numbers, for several filtered versions of it, compiled for a CPU.

A product of all neurons with the readout multiplies many zeros: on a trained network a pair activates a quarter of the
neurons, and much the same ones whichever frequency is removed. Here the rows of the readout are added up for those
neurons alone that are active in one of two versions or in both, which is faster than one version at a time.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from numba import njit
from torch import Tensor
from torch.nn.functional import pad

# The order of sums is kept: one fused multiplication and addition for each neuron.
compiled = njit(cache=True, error_model="numpy", fastmath={"contract"})
# Versions whose logits are computed together; the functions below name each of them, so that it stays in registers.
TOGETHER = 2


def answers_of_versions(
    preactivations: Float[Tensor, "F N h"], readout: Float[Tensor, "h answers"]
) -> Int[Tensor, "F N N"]:
    """The answer with the largest logit relu(x_a + x_b) `readout` for all pairs (a, b), for each of F versions of x.

    All numbers are finite.
    """
    F, N, _ = preactivations.shape
    filled = torch.cat([preactivations, preactivations[-1:].expand(-F % TOGETHER, -1, -1)])
    groups = filled.unflatten(0, (-1, TOGETHER)).transpose(1, 2).contiguous()  # (F / 2, N, 2, h)
    n_answers = readout.shape[1]
    # Whole vectors of four, and a row of zeros for a neuron that is never active.
    rows = pad(readout, (0, -n_answers % 4, 0, 1)).contiguous()
    answers = np.empty((len(filled), N, N), dtype=np.int64)
    answer_all(groups.numpy(), rows.numpy(), n_answers, answers)
    return torch.from_numpy(answers[:F])


@compiled
def answer_all(groups, readout, n_answers, answers):
    """Writes the answers of every group to all pairs; the pair (b, a) has the answer of (a, b)."""
    n_groups, N, _, h = groups.shape
    neurons, total = np.zeros((TOGETHER, h + 1), groups.dtype), np.zeros(h, groups.dtype)
    active, logits = np.empty(h + 4, np.uint64), np.empty((TOGETHER, readout.shape[1]), groups.dtype)
    for group in range(n_groups):
        for a in range(N):
            for b in range(a + 1):
                relu_of_sum(groups[group, a], groups[group, b], neurons, total)
                n = positions_above_zero(total, active)
                add_rows(neurons, active, n, readout, logits)
                for version in range(TOGETHER):
                    best = largest(logits[version], n_answers)
                    answers[TOGETHER * group + version, a, b] = best
                    answers[TOGETHER * group + version, b, a] = best


@compiled
def relu_of_sum(x, y, neurons, total):
    """Writes relu(x + y) of two versions, (2, h), and its sum over them."""
    zero = x.dtype.type(0)
    for j in range(x.shape[1]):
        first, second = x[0, j] + y[0, j], x[1, j] + y[1, j]
        first, second = first if first > 0 else zero, second if second > 0 else zero
        neurons[0, j], neurons[1, j], total[j] = first, second, first + second


@compiled
def positions_above_zero(values, positions):
    """Writes the positions of values above zero, then three of the row of zeros; returns how many are above zero."""
    n, h = np.uint64(0), np.uint64(len(values))
    for j in range(h):
        positions[n] = j
        n += np.uint64(values[j] > 0)
    for i in range(np.uint64(3)):
        positions[n + i] = h
    return n


@compiled
def add_rows(neurons, active, n, readout, logits):
    """Writes the logits of two versions: the sum of the rows of the readout over active neurons, four at a time."""
    logits[:] = 0
    for i in range(np.uint64(0), n, np.uint64(4)):
        j, k = active[i], active[i + np.uint64(1)]
        p, q = active[i + np.uint64(2)], active[i + np.uint64(3)]
        j0, k0, p0, q0 = neurons[0, j], neurons[0, k], neurons[0, p], neurons[0, q]
        j1, k1, p1, q1 = neurons[1, j], neurons[1, k], neurons[1, p], neurons[1, q]
        for c in range(readout.shape[1]):
            of_j, of_k, of_p, of_q = readout[j, c], readout[k, c], readout[p, c], readout[q, c]
            logits[0, c] = logits[0, c] + j0 * of_j + k0 * of_k + p0 * of_p + q0 * of_q
            logits[1, c] = logits[1, c] + j1 * of_j + k1 * of_k + p1 * of_p + q1 * of_q


@compiled
def largest(values, n):
    """The position of the largest of the first n values."""
    best, value = 0, values[0]
    for i in range(1, n):
        if values[i] > value:
            best, value = i, values[i]
    return best
