"""The split of pairs of numbers into those that training adds (seen) and held-out ones (paper, section 3)."""

from __future__ import annotations

import random

import torch
from jaxtyping import Bool
from torch import Tensor

from assignadd.config import Task
from assignadd.task.randomness import Stream, words


def pair_split(task: Task, seed: int) -> Bool[Tensor, "N N"]:
    """A mask of the seen pairs (n, m): the first floor(f N^2) of a random permutation.

    Splits of one seed are nested: a pair that is seen at some fraction is seen at every larger one.
    """
    zero = torch.zeros((), dtype=torch.int64)
    w = words(torch.tensor(seed), Stream.SPLIT, zero, torch.arange(task.modulus**2), 2)
    order = torch.argsort((w[0] << 31) | (w[1] >> 1), stable=True)  # 63 random bits per pair
    return _seen(task, order[: task.n_seen])


def authors_split(task: Task) -> Bool[Tensor, "N N"]:
    """The split of the paper's own run: Python's `random.Random(42).sample` of the pairs in lexicographic order."""
    return _seen(task, torch.tensor(random.Random(42).sample(range(task.modulus**2), task.n_seen)))


def _seen(task: Task, codes: Tensor) -> Tensor:
    """The mask of the pairs with these codes."""
    seen = torch.zeros(task.modulus**2, dtype=torch.bool)
    seen[codes] = True
    return seen.view(task.modulus, task.modulus)
