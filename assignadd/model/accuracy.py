"""Accuracy on evaluation sets: the share of sequences whose largest logit is the right answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from assignadd.config import Config, Task
from assignadd.model.forward import CHUNK, answer_logits
from assignadd.model.stack import Stack
from assignadd.task.evalsets import EvalSet
from assignadd.task.sampler import Batch, EmptySetError, Sampler

if TYPE_CHECKING:
    from jaxtyping import Int


class Exam:
    """Fixed sequences of several evaluation sets for every model of a stack, drawn from its own split and seed.

    A set that has no sequence for one of the models (no held-out pair, no banned slot) is left out for all.
    """

    def __init__(self, configs: Sequence[Config], seen: Tensor, sets: Sequence[EvalSet], n: int, device: str | torch.device = "cpu"):
        batches: list[Batch] = []
        self.names: list[str] = []
        tasks: list[Task] = [c.task for c in configs]
        seeds = [c.seed.data or 0 for c in configs]
        for index, evalset in enumerate(sets):
            try:
                sampler = Sampler(tasks, seen, seeds, evalset, device)
            except EmptySetError:
                continue
            batches.append(sampler.sample(index, n))
            self.names.append(evalset.name)
        self.n = n
        self.tokens = torch.cat([b.tokens for b in batches], -1)  # (M, T, sets * n)
        self.labels = torch.cat([b.labels for b in batches], -1)

    def count_correct(self, stack: Stack) -> Int[Tensor, "M sets"]:
        parts = zip(self.tokens.split(CHUNK, -1), self.labels.split(CHUNK, -1), strict=True)
        correct = torch.cat([answer_logits(stack, tokens).argmax(-1) == labels for tokens, labels in parts], -1)
        return correct.view(len(stack), len(self.names), self.n).sum(-1)
