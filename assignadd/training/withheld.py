"""The training sequences of a stack, where some models have none without variables at first."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from assignadd.config import Config
from assignadd.task.sampler import Batch, Sampler


class LiteralsLater:
    """Draws as `Sampler` does, for each model from the step on from which it has sequences without variables.

    Before that step a row has the numbers, variables and assignments of a sampler without such sequences. Both are
    drawn at every step, so that a CUDA graph can be replayed.
    """

    def __init__(self, always: Sampler, at_first: Sampler, literals_from: Sequence[int]):
        self.task, self.seeds = always.task, always.seeds
        self._always, self._at_first = always, at_first
        self._from = torch.tensor(literals_from, device=always.seeds.device)[:, None]  # (M, 1)

    def sample(self, step: Tensor | int, rows: int) -> Batch:
        """`rows` sequences for each model and step, with the axes of `Sampler.sample`."""
        late, early = (sampler.sample(step, rows) for sampler in (self._always, self._at_first))
        withheld = torch.as_tensor(step, device=self._from.device) < self._from  # (..., M, 1)
        tokens = torch.where(withheld.unsqueeze(-1), early.tokens, late.tokens)
        return Batch(tokens, torch.where(withheld, early.labels, late.labels))


def training_sampler(configs: Sequence[Config], seen: Tensor, device: torch.device) -> Sampler | LiteralsLater:
    """What draws the training sequences of these models."""
    tasks, seeds = [c.task for c in configs], [c.seed.data or 0 for c in configs]
    always = Sampler(tasks, seen, seeds, device=device)
    literals_from = [c.optim.literals_from for c in configs]
    if not any(literals_from):
        return always
    at_first = Sampler(tasks, seen, seeds, device=device, literals=[first == 0 for first in literals_from])
    return LiteralsLater(always, at_first, literals_from)
