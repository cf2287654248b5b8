"""The answers of the addition circuit to all pairs of numbers, for several filtered versions of it, on a CPU.

Compiled functions write the neurons of a few pairs at a time, and read their logits, while both are in the cache.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from numba import njit
from torch import Tensor

compiled = njit(cache=True, error_model="numpy")
PAIRS = 256
"""Pairs in one matrix product."""


def answers_of_versions(
    preactivations: Float[Tensor, "F N h"], readout: Float[Tensor, "h answers"]
) -> Int[Tensor, "F N N"]:
    """The answer with the largest logit relu(x_a + x_b) `readout` for all pairs (a, b), for each of F versions of x.

    All numbers are finite.
    """
    F, N, h = preactivations.shape
    answers = np.empty((F, N, N), dtype=np.int64)
    neurons, logits = readout.new_empty(PAIRS, h), readout.new_empty(PAIRS, readout.shape[1])
    written, read = neurons.numpy(), logits.numpy()  # the same memory
    first, second = np.tril_indices(N)  # the pair (b, a) has the answer of (a, b)
    parts = [(first[i : i + PAIRS], second[i : i + PAIRS]) for i in range(0, len(first), PAIRS)]
    for x, own in zip(preactivations.contiguous().numpy(), answers, strict=True):
        for a, b in parts:
            relu_of_sums(x, a, b, written)
            torch.mm(neurons, readout, out=logits)
            write_answers(read, a, b, own)
    return torch.from_numpy(answers)


@compiled
def relu_of_sums(x, first, second, neurons):
    """Writes relu(x_a + x_b) for some pairs, (pairs, h)."""
    zero = x.dtype.type(0)
    for i in range(len(first)):
        of_a, of_b, row = x[first[i]], x[second[i]], neurons[i]
        for j in range(len(row)):
            row[j] = max(of_a[j] + of_b[j], zero)


@compiled
def write_answers(logits, first, second, answers):
    """Writes the answer with the largest logit, the first of several, for some pairs and their mirror images."""
    for i in range(len(first)):
        best, value = 0, logits[i, 0]
        for answer in range(1, logits.shape[1]):
            if logits[i, answer] > value:
                best, value = answer, logits[i, answer]
        answers[first[i], second[i]] = answers[second[i], first[i]] = best
