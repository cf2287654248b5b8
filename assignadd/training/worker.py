"""A worker trains some of a stack's models together: one on each CPU thread, or all of them on a GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from assignadd.config import Config
from assignadd.model.stack import Stack
from assignadd.task.sampler import Batch, Sampler
from assignadd.training.adamw import AdamW, Placed
from assignadd.training.captured import Captured
from assignadd.training.objective import gradient_of
from assignadd.training.taped import Taped


class Worker:
    """Some models of one shape on one device: their weights, moments and data, and the step they are at."""

    def __init__(self, stack: Stack, configs: Sequence[Config], seen: Tensor, placed: Placed = lambda tensor: tensor):
        device = stack.flat.device
        self.stack, self.batch_size = Stack(stack.config, placed(stack.flat)), configs[0].optim.batch
        self.gradient = gradient_of(self.stack)
        self.optimizer = AdamW(self.stack.flat, [c.optim for c in configs], placed)
        self.sampler = Sampler([c.task for c in configs], seen, [c.seed.data or 0 for c in configs], device=device)
        self.step = placed(torch.zeros((), dtype=torch.int64, device=device))
        self.loss = placed(torch.full((len(stack),), torch.nan, dtype=stack.flat.dtype, device=device))
        self.diverged_at = placed(torch.full((len(stack),), -1, device=device))
        self._limit = placed(torch.full_like(self.loss, torch.inf))
        """What a model's loss must be below to go on, as `diverged_at` has it: minus infinity once it has diverged."""
        self._engine: Captured | Taped | None = None

    def advance(self, steps: int) -> None:
        if self._engine is None:
            self._engine = Captured(self) if self.stack.flat.device.type == "cuda" else Taped(self)
        self._engine.advance(steps)

    def update(self, batch: Batch) -> None:
        """One step: a model whose loss is not finite stops before its update and stays as it is."""
        self.loss.copy_(self.gradient(batch))
        alive = self.loss < self._limit
        # A tape must look at every fate before it changes what a step reads. A GPU would have to wait for them.
        fates = [bool(one) for one in alive] if self.step.device.type == "cpu" else [False]
        self.step += 1
        self.optimizer.update(self.gradient.flat, alive, self.step)
        if not all(fates):
            torch.where(alive | (self.diverged_at >= 0), self.diverged_at, self.step - 1, out=self.diverged_at)
            self._limit.masked_fill_(~alive, -torch.inf)

    def state(self) -> dict[str, Tensor]:
        """All that training needs to go on, by name; models along the first axis but for `step`."""
        return {
            "weights": self.stack.flat,
            "mean": self.optimizer.mean,
            "square": self.optimizer.square,
            "loss": self.loss,
            "diverged_at": self.diverged_at,
            "step": self.step,
        }

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        for name, tensor in self.state().items():
            tensor.copy_(state[name])
        self._limit.fill_(torch.inf).masked_fill_(self.diverged_at >= 0, -torch.inf)
