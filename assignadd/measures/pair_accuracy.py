"""Accuracy of every pair (n, m) of numbers, each in many contexts, and of the classes that held-out pairs form (section 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from assignadd.config import Config
from assignadd.model.forward import CHUNK, answer_logits
from assignadd.model.stack import Stack
from assignadd.task.enumeration import EveryPair
from assignadd.task.evalsets import PairKind, any_sums
from assignadd.task.randomness import EvalSteps
from assignadd.task.sampler import pair_codes

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

CONTEXTS = 24


def pair_accuracy(one: Stack, config: Config, n_vars: int, contexts: int = CONTEXTS) -> Float[Tensor, "N N"]:
    """Share of right answers for each pair of numbers, in `contexts` sequences with `n_vars` variables in any slot, of one model."""
    N = config.task.modulus
    everything = torch.ones(1, N, N, dtype=torch.bool)
    sampler = EveryPair([config.task], everything, [config.seed.data or 0], any_sums(n_vars), one.flat.device)
    right = torch.zeros(N * N, device=one.flat.device)
    for start in range(0, N * N * contexts, CHUNK):
        rows = torch.arange(start, min(start + CHUNK, N * N * contexts), device=right.device)
        batch = sampler.sample(EvalSteps.EVERY_PAIR[n_vars], len(rows), first_row=start)
        correct = answer_logits(one, batch.tokens).argmax(-1)[0] == batch.labels[0]
        right.index_add_(0, rows % (N * N), correct.float())
    return (right / contexts).view(N, N)


def class_pairs(seen: Bool[Tensor, "N N"], kind: PairKind) -> Bool[Tensor, "N N"]:
    """The pairs of one kind as a mask."""
    mask = torch.zeros_like(seen).flatten()
    mask[pair_codes(seen, kind)] = True
    return mask.view_as(seen)
