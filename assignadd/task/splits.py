"""The split of tuples of numbers into those that training combines (seen) and held-out ones (paper, section 3)."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from assignadd.config import Config, Task, UserError
from assignadd.task.evalsets import PairKind
from assignadd.task.randomness import Stream, words


def pair_split(task: Task, seed: int) -> Bool[Tensor, "..."]:
    """A mask of the seen tuples, (N, N) for two operands: the first floor(f N^k) of a random permutation.

    Splits of one seed are nested: a tuple that is seen at some fraction f is seen at every larger one.
    """
    codes = torch.arange(math.prod(task.tuples))
    high, low = words(seed, Stream.SPLIT, step=0, row=codes, n=2)  # 32 bits each
    bits = (high << 31) | (low >> 1)  # 63 for each tuple, so that int64 keeps them positive
    if task.unordered_split:
        mirrored = codes.view(task.tuples).T.flatten()  # the code of (m, n) for each (n, m)
        bits = bits[torch.minimum(codes, mirrored)]
    seen = _mask_of(task, bits.argsort(stable=True)[: task.n_seen])
    if task.unordered_split:
        # Both orders of a pair are neighbours in the permutation. Where it ends between them, the second is seen too.
        seen |= seen.T.clone()
    if task.seen_doubles is not None:
        # The small addend keeps a product that floats put just below a whole number, such as 0.29 * 100, whole.
        n_doubles = math.floor(task.seen_doubles * task.modulus + 1e-9)
        seen.diagonal().copy_(_ranks_of_numbers(task, bits) < n_doubles)
    if task.held_out_distance is not None:
        numbers = _ranks_of_numbers(task, bits) if task.shuffled_distance else torch.arange(task.modulus)
        is_apart = (numbers[:, None] - numbers) % task.modulus == task.held_out_distance  # (N, N)
        seen &= ~(is_apart | is_apart.T)
    return seen


def _ranks_of_numbers(task: Task, bits: Int[Tensor, " codes"]) -> Int[Tensor, " N"]:
    """The place of each number n in a random order of the numbers, the order of the bits of the pairs (n, n)."""
    order = bits.view(task.tuples).diagonal().argsort(stable=True)
    return order.argsort()  # the inverse permutation


def splits_of(configs: Sequence[Config]) -> Bool[Tensor, "M ..."]:
    """The mask of the seen tuples of each model, from its task and split seed; True for a task of the user's own."""
    if configs[0].task.file is not None:
        return torch.ones(len(configs), dtype=torch.bool)
    return torch.stack([pair_split(config.task, config.seed.split or 0) for config in configs])


def authors_split(task: Task) -> Bool[Tensor, "..."]:
    """The split of the paper's own run: Python's `random.Random(42).sample` of the pairs in lexicographic order."""
    codes = random.Random(42).sample(range(math.prod(task.tuples)), task.n_seen)
    return _mask_of(task, torch.tensor(codes))


def _mask_of(task: Task, codes: Int[Tensor, " n"]) -> Bool[Tensor, "..."]:
    """The mask of the tuples with these codes, with an axis N for each operand."""
    mask = torch.zeros(math.prod(task.tuples), dtype=torch.bool)
    mask[codes] = True
    return mask.view(task.tuples)


class EmptySetError(UserError, ValueError):
    """Raised for an evaluation set without sequences in this task."""


def pair_mask(seen: Bool[Tensor, "..."], kind: PairKind) -> Bool[Tensor, "..."]:
    """A mask of the pairs (n, m) of one kind, as `EvalSet` explains it; `seen` is the mask of the seen pairs."""
    return pair_masks(seen[None], kind)[0]


def pair_masks(seen: Bool[Tensor, "M ..."], kind: PairKind) -> Bool[Tensor, "M ..."]:
    """The `pair_mask` of each of M models, whose seen pairs are `seen`."""
    if kind == "any":
        return torch.ones_like(seen)
    if kind == "seen":
        return seen
    if kind == "held_out":
        return ~seen
    if seen.dim() != 3:
        raise EmptySetError(f"no tuple of numbers of the kind {kind}: it is defined for task.operands = 2 alone")
    if kind == "mirror_seen":
        return ~seen & seen.mT
    is_double = torch.eye(seen.shape[-1], dtype=torch.bool, device=seen.device)  # the pairs (n, n)
    if kind == "doubles":
        return ~seen & is_double
    return ~seen & ~seen.mT & ~is_double  # neither_order
