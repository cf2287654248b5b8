"""One training step: loss and gradient of some models on a batch, then their AdamW update.

A group is what trains together: one model on a CPU, the whole stack on a GPU. Loss and gradient come from the table
forward where it covers the architecture, and from autograd through the reference transformer elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from assignadd.config import Config
from assignadd.model.forward import table_forward
from assignadd.model.kernels import kernels_for
from assignadd.model.kernels.tensor import Moments, Placed
from assignadd.model.stack import Stack, views
from assignadd.model.table import covers
from assignadd.model.trace import Weights
from assignadd.model.transformer import reference_logits
from assignadd.task.sampler import Batch, Sampler
from assignadd.training.cuda_graph import CapturedStep

# Sequences drawn at once on a CPU: without Numba a draw is some hundred tensor operations, whatever its size.
SEQUENCES_AHEAD = 131_072
MOST_STEPS_AHEAD = 256


class TableGradient:
    """Loss and gradient by the table forward and its backward pass."""

    def __init__(self, stack: Stack):
        self.flat = torch.empty_like(stack.flat)
        self._alone = len(stack) == 1 and stack.flat.device.type == "cpu"  # plain matrix products beat batched ones
        self._table = table_forward(stack.config, stack.flat.device, stacked=True)
        weights, grads = stack.weights, views(stack.config, self.flat)
        if self._alone:
            weights, grads = ({name: t[0] for name, t in named.items()} for named in (weights, grads))
        self._weights, self._grads = Weights.of(weights), Weights.of(grads)

    @torch.no_grad()
    def __call__(self, batch: Batch) -> Tensor:
        tokens, labels = (batch.tokens[0], batch.labels[0]) if self._alone else (batch.tokens, batch.labels)
        trace = self._table.forward(self._weights, tokens)
        loss, grad = self._table.kernels.cross_entropy(trace.logits, labels)
        self._table.backward(self._weights, trace, grad, self._grads)
        return loss.view(-1)


class ReferenceGradient:
    """Loss and gradient by autograd, for every other architecture."""

    def __init__(self, stack: Stack):
        self.flat = torch.empty_like(stack.flat)
        self._stack = stack
        self._grads = views(stack.config, self.flat)

    def __call__(self, batch: Batch) -> Tensor:
        weights = {name: w.detach().requires_grad_() for name, w in self._stack.weights.items()}
        logits = reference_logits(self._stack, batch.tokens, weights)
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch.labels.flatten(), reduction="none")
        loss = loss.view(len(self._stack), -1).mean(1)
        for name, grad in zip(weights, torch.autograd.grad(loss.sum(), list(weights.values())), strict=True):
            self._grads[name].copy_(grad)
        return loss.detach()


def gradient_of(stack: Stack) -> TableGradient | ReferenceGradient:
    """Returns the mean cross entropy of each model (M,) on a batch, and writes its gradient into `flat` (M, P)."""
    return TableGradient(stack) if covers(stack.config) else ReferenceGradient(stack)


class Group:
    """Models of one shape on one device: their weights, moments and data, and the step they are at."""

    def __init__(self, stack: Stack, configs: Sequence[Config], seen: Tensor, placed: Placed = lambda tensor: tensor):
        device, optims = stack.flat.device, [c.optim for c in configs]
        self.stack, self.batch_size = Stack(stack.config, placed(stack.flat)), optims[0].batch
        self.gradient = gradient_of(self.stack)
        self.moments = Moments.zeros(self.stack.flat, optims, placed)
        self.sampler = Sampler([c.task for c in configs], seen, [c.seed.data or 0 for c in configs], device=device)
        self.step = placed(torch.zeros((), dtype=torch.int64, device=device))
        self.loss = placed(torch.full((len(stack),), torch.nan, dtype=stack.flat.dtype, device=device))
        self.diverged_at = placed(torch.full((len(stack),), -1, device=device))
        self._kernels = kernels_for(stack.config, device, stacked=True)
        self._captured: CapturedStep | None = None
        self._drawn: tuple[int, Batch] | None = None
        """The first step whose sequences are drawn ahead, and the sequences, (steps, M, B, T)."""

    def advance(self, steps: int) -> None:
        """Takes this many training steps."""
        if self.stack.flat.device.type == "cuda":
            self._captured_step().replay(steps)
            return
        first = int(self.step)
        for step in range(first, first + steps):
            if (self.diverged_at >= 0).all():
                self.step += 1  # nothing is left to train
            else:
                self.update(self._batch(step))

    def update(self, batch: Batch) -> None:
        """One step. A model whose loss is not finite stops before its update and keeps its weights."""
        self.loss.copy_(self.gradient(batch))
        alive = self.loss.isfinite() & (self.diverged_at < 0)
        torch.where(alive | (self.diverged_at >= 0), self.diverged_at, self.step, out=self.diverged_at)
        self.step += 1
        self._kernels.adamw(self.stack.flat, self.gradient.flat, self.moments, alive, self.step)

    def state(self) -> dict[str, Tensor]:
        """All that training needs to go on, by name; models along the first axis except for `step`."""
        return {
            "weights": self.stack.flat,
            "mean": self.moments.mean,
            "square": self.moments.square,
            "loss": self.loss,
            "diverged_at": self.diverged_at,
            "step": self.step,
        }

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        for name, tensor in self.state().items():
            tensor.copy_(state[name])

    @property
    def steps_ahead(self) -> int:
        """How many steps' sequences are drawn at once on a CPU."""
        return max(1, min(MOST_STEPS_AHEAD, SEQUENCES_AHEAD // (self.batch_size * len(self.stack))))

    def _batch(self, step: int) -> Batch:
        start = step - step % self.steps_ahead
        if self._drawn is None or self._drawn[0] != start:
            steps = torch.arange(start, start + self.steps_ahead).view(-1, 1, 1)
            self._drawn = start, self.sampler.sample(steps, self.batch_size)
        ahead = self._drawn[1]
        return Batch(ahead.tokens[step - start], ahead.labels[step - start])

    def _captured_step(self) -> CapturedStep:
        if self._captured is None:
            before = {name: t.clone() for name, t in self.state().items()}
            dtype = self._kernels.token_dtype
            self._captured = CapturedStep(self.step, self.sampler, self.batch_size, dtype, self.update)
            self.load_state(before)  # capturing takes a few steps
        return self._captured
