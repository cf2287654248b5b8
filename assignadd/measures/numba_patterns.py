"""Counts of attention patterns on a CPU: compiled functions that look at one query after the other.

`routing` has the same in tensor operations, and says what counts where keys have the same attention.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numba import njit
from torch import Tensor

compiled = njit(cache=True, error_model="numpy")


def to_each(from_equals: Float[Tensor, "rows T"], keys: Int[Tensor, "rows k"]) -> tuple[Tensor, Tensor]:
    """Whether the k keys with the most attention are these, (rows,), and the attention that these get, (rows,)."""
    hits, masses = np.empty(len(keys), dtype=np.bool_), np.empty(len(keys), dtype=np.float32)
    write_to_each(from_equals.contiguous().numpy(), keys.contiguous().numpy(), hits, masses)
    return torch.from_numpy(hits), torch.from_numpy(masses)


def to_previous(attention: Float[Tensor, "rows P P"], numbers: Bool[Tensor, "rows P"]) -> tuple[Tensor, Tensor]:
    """How many of the queries in `numbers` attend most to the position before them, (rows,), and their attention to it.

    No query attends to a later position, and the first position is no number.
    """
    hits, masses = np.empty(len(numbers), dtype=np.int64), np.empty(len(numbers), dtype=np.float32)
    write_to_previous(attention.numpy(), numbers.contiguous().numpy(), hits, masses)
    return torch.from_numpy(hits), torch.from_numpy(masses)


@compiled
def write_to_each(attention, keys, hits, masses):
    """Writes hits and masses of every row."""
    T, k = attention.shape[1], keys.shape[1]
    for i in range(len(keys)):
        row, own = attention[i], keys[i]
        hit, mass = True, np.float32(0)
        for j in range(k):
            at = own[j]
            mass += row[at]
            below = 0  # how many keys have less attention than this one
            for t in range(T):
                below += row[t] < row[at] or (row[t] == row[at] and t > at)
            hit = hit and below >= T - k
            for other in range(j):
                hit = hit and own[other] != at
        hits[i], masses[i] = hit, mass


@compiled
def write_to_previous(attention, numbers, hits, masses):
    """Writes hits and masses of every row."""
    T = attention.shape[1]
    for i in range(len(numbers)):
        hit, mass = 0, np.float32(0)
        for q in range(1, T):
            if numbers[i, q]:
                row = attention[i, q]
                value = row[q - 1]
                best = row[q] <= value
                for t in range(q - 1):
                    best = best and row[t] < value
                hit += best
                mass += value
        hits[i], masses[i] = hit, mass
