"""The split of tuples of numbers into those that training combines (seen) and held-out ones (paper, section 3)."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import torch
from jaxtyping import Bool
from torch import Tensor

from assignadd.config import Config, Task, UserError
from assignadd.task.evalsets import HELD_OUT_CLASSES, PairKind
from assignadd.task.randomness import Stream, words


def pair_split(task: Task, seed: int) -> Bool[Tensor, "..."]:
    """A mask of the seen tuples, (N, N) for two operands: the first floor(f N^k) of a random permutation.

    Splits of one seed are nested: a tuple that is seen at some fraction is seen at every larger one. With unordered
    pairs there may be one more: both orders count, and both take the random bits of the one with n < m.
    """
    zero, codes = torch.zeros((), dtype=torch.int64), torch.arange(math.prod(task.tuples))
    w = words(torch.tensor(seed), Stream.SPLIT, zero, codes, 2)
    bits = (w[0] << 31) | (w[1] >> 1)  # 63 random bits per tuple
    if task.unordered_split:
        bits = bits[torch.minimum(codes, codes.view(task.tuples).T.flatten())]
    seen = _seen(task, bits.argsort(stable=True)[: task.n_seen])
    if task.unordered_split:
        seen |= seen.T.clone()
    if task.seen_doubles is not None:
        places = bits.view(task.tuples).diagonal().argsort(stable=True).argsort()
        seen.diagonal().copy_(places < math.floor(task.seen_doubles * task.modulus + 1e-9))
    if task.held_out_distance is not None:
        numbers = torch.arange(task.modulus)
        if task.shuffled_distance:
            numbers = bits.view(task.tuples).diagonal().argsort(stable=True).argsort()
        apart = (numbers[:, None] - numbers) % task.modulus == task.held_out_distance
        seen &= ~(apart | apart.T)
    return seen


def splits_of(configs: Sequence[Config]) -> Bool[Tensor, "M ..."]:
    """The mask of the seen tuples of each model, from its own task and split seed; True for a task of the user's."""
    if configs[0].task.file is not None:
        return torch.ones(len(configs), dtype=torch.bool)
    return torch.stack([pair_split(c.task, c.seed.split or 0) for c in configs])


def authors_split(task: Task) -> Bool[Tensor, "..."]:
    """The split of the paper's own run: Python's `random.Random(42).sample` of the pairs in lexicographic order."""
    return _seen(task, torch.tensor(random.Random(42).sample(range(math.prod(task.tuples)), task.n_seen)))


def _seen(task: Task, codes: Tensor) -> Tensor:
    """The mask of the tuples with these codes."""
    seen = torch.zeros(math.prod(task.tuples), dtype=torch.bool)
    seen[codes] = True
    return seen.view(task.tuples)


class EmptySetError(UserError, ValueError):
    """Raised for an evaluation set without sequences in this task."""


def pair_mask(seen: Bool[Tensor, "..."], kind: PairKind) -> Bool[Tensor, "..."]:
    """A mask of the pairs of one kind, or of the tuples for another number of operands."""
    if kind not in HELD_OUT_CLASSES:
        return {"any": torch.ones_like(seen), "seen": seen, "held_out": ~seen}[kind]
    if seen.dim() != 2:
        raise EmptySetError(f"no tuple of numbers of the kind {kind}: it is defined for task.operands = 2 alone")
    different = ~torch.eye(len(seen), dtype=torch.bool, device=seen.device)
    return {
        "mirror_seen": ~seen & seen.T,
        "neither_order": ~seen & ~seen.T & different,
        "doubles": ~seen & ~different,
    }[kind]


def pair_codes(seen: Bool[Tensor, "..."], kind: PairKind) -> Tensor:
    """The pairs of one kind as codes N n + m, in increasing order."""
    return pair_mask(seen, kind).flatten().nonzero().flatten()


def distinct_sums(seen: Bool[Tensor, "..."], kind: PairKind) -> int:
    """The number of different sums among the pairs of one kind; if both orders are held out, they count once."""
    n = int(pair_mask(seen, kind).sum())
    return n // 2 if kind == "neither_order" else n
