"""The training loss of a stack and its gradient: by the tables where they cover the architecture, else by autograd."""

from __future__ import annotations

from functools import partial
from typing import Protocol

import torch
from torch import Tensor

from assignadd.model.forward import table_forward
from assignadd.model.fused import fits
from assignadd.model.stack import Stack, views
from assignadd.model.table import Weights, covers
from assignadd.model.transformer import reference_logits
from assignadd.task.sampler import Batch
from assignadd.training.fused import fused_cross_entropy

# A probability above this is a float32 with all its digits.
LEAST_LIKELY = 1e-37


class Gradient(Protocol):
    """Mean cross entropy of each model (M,) on a batch; its gradient lands in `flat` (M, P)."""

    flat: Tensor

    def __call__(self, batch: Batch) -> Tensor: ...


def gradient_of(stack: Stack) -> Gradient:
    return TableGradient(stack) if covers(stack.config) else ReferenceGradient(stack)


class TableGradient:
    def __init__(self, stack: Stack):
        self.flat = torch.empty_like(stack.flat)
        self._alone = len(stack) == 1 and stack.flat.device.type == "cpu"  # plain matrix products beat batched ones
        self._table = table_forward(stack.config, stack.flat.device, stacked=True)
        self._loss = fused_cross_entropy if fits(stack.config, stack.flat.device) else cross_entropy
        weights, grads = stack.weights, views(stack.config, self.flat)
        if self._alone:
            weights, grads = ({name: t[0] for name, t in named.items()} for named in (weights, grads))
        self._weights, self._grads = Weights.of(weights), Weights.of(grads)

    @torch.no_grad()
    def __call__(self, batch: Batch) -> Tensor:
        tokens, labels = (batch.tokens[0], batch.labels[0]) if self._alone else (batch.tokens, batch.labels)
        trace = self._table.forward(self._weights, tokens)
        loss, grad = self._loss(trace.logits, labels)
        self._table.backward(self._weights, trace, grad, self._grads)
        return loss.view(-1)


class ReferenceGradient:
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


def cross_entropy(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Mean cross entropy over the sequences (..., B, N), and its gradient."""
    target, B = labels.unsqueeze(-1), logits.shape[-2]
    full = partial(
        torch.full, dtype=logits.dtype, device=logits.device
    )  # in the middle of a step a number costs twice a tensor
    share, taken, least = full(target.shape, 1 / B), full(target.shape, -1 / B), full((), LEAST_LIKELY)
    answers = logits.softmax(-1)
    of_target = answers.gather(-1, target)
    if logits.device.type == "cpu" and of_target.amin() > least:
        log_of_target = of_target.log_()
    else:  # beyond what a probability can say, or a GPU, which would have to wait for the answer
        log_of_target = logits.log_softmax(-1).gather(-1, target)
    return log_of_target.mul_(taken).sum((-2, -1)), answers.mul_(share).scatter_add_(-1, target, taken)
