"""Loss and gradient of models on a batch, by one of three ways.

A model alone on a CPU has compiled code (`model/cpu_step.py`); the table forward serves stacks, GPUs and double
precision; autograd through the reference transformer serves every architecture that the tables do not cover.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.func import functional_call, vmap

from assignadd.config import Config
from assignadd.model.architecture import require
from assignadd.model.forward import table_forward
from assignadd.model.kernels import kernels_for
from assignadd.model.kernels.tensor import TensorKernels, cross_entropy
from assignadd.model.last_layer import LastLayer
from assignadd.model.own import logits_of_weights
from assignadd.model.stack import Stack, views
from assignadd.model.table import Weights, covers
from assignadd.model.transformer import Transformer
from assignadd.task.sampler import Batch
from assignadd.task.vocabulary import sizes_of
from assignadd.training.schedule import SlotScores

if TYPE_CHECKING:
    from assignadd.model.cpu_step import CompiledGradient


class TableGradient:
    """Loss and gradient by the table forward and its backward pass, in tensor operations or on a GPU."""

    def __init__(self, stack: Stack, slot_scores: SlotScores | None = None):
        self.flat = torch.empty_like(stack.flat)
        self._edit_layer_1 = slot_scores.add if slot_scores else None
        self._alone = len(stack) == 1 and stack.flat.device.type == "cpu"  # plain matrix products beat batched ones
        self._table = table_forward(stack.config, stack.flat.device, stacked=True)
        self.kernels = self._table.kernels
        self._cross_entropy = cross_entropy_of(stack.config, self.kernels)
        weights, grads = stack.weights, views(stack.config, self.flat)
        if self._alone:
            weights = {name: weight[0] for name, weight in weights.items()}
            grads = {name: grad[0] for name, grad in grads.items()}
        self._weights, self._grads = Weights.of(weights), Weights.of(grads)

    @torch.inference_mode()
    def __call__(self, batch: Batch) -> Tensor:
        w = self._weights
        tokens, labels = (batch.tokens[0], batch.labels[0]) if self._alone else (batch.tokens, batch.labels)
        trace = self._table.forward(w, tokens, edit_layer_1=self._edit_layer_1)
        losses, grad = self._cross_entropy(self._table.logits(trace), labels)
        self._table.backward(w, trace, grad, self._grads)
        return losses.view(-1)


def cross_entropy_of(config: Config, kernels: TensorKernels) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """The cross entropy and its gradient by the kernels, or in double precision and rounded, as the settings say."""
    if not config.numerics.loss_in_float64:
        return kernels.cross_entropy

    def rounded(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        loss, grad = cross_entropy(logits.double(), labels)
        return loss.to(logits.dtype), grad.to(logits.dtype)

    return rounded


class AnswerFromRows(torch.nn.Module):
    """The reference transformer's logits at the last position, from one-hot rows (B, T, K) instead of tokens.

    As a matrix product, the gradient of W_E is added up in a fixed order, which a gather on a GPU does not do. The
    last layer is computed at `=` alone, without keys and values of its own for the other positions.
    """

    def __init__(self, config: Config):
        super().__init__()
        self.model, self.loss_in_float64 = Transformer(config), config.numerics.loss_in_float64
        self._last = LastLayer(self.model)

    def forward(self, rows: Tensor) -> Tensor:
        x = rows @ self.model.embed.W_E + self.model.pos_embed.W_pos
        for block in self.model.blocks[:-1]:
            x = block(x)
        return self._last.answer(x)


class AnswersFromRows(AnswerFromRows):
    """The same at every position, for a task of the user's own that has answers there."""

    def forward(self, rows: Tensor) -> Tensor:
        return self.model.from_residual(rows @ self.model.embed.W_E + self.model.pos_embed.W_pos)


class ReferenceGradient:
    """Loss and gradient by autograd, for every other architecture; compiled by torch on a GPU."""

    def __init__(self, stack: Stack):
        self.flat = torch.empty_like(stack.flat)
        self.kernels = kernels_for(stack.config, stack.flat.device, stacked=True)
        # Leaves of their own in the memory of the stack: an update of the stack is one of these.
        self._weights = {f"model.{name}": w.detach().requires_grad_() for name, w in stack.weights.items()}
        self._grads = list(views(stack.config, self.flat).values())
        kind = AnswersFromRows if sizes_of(stack.config.task).everywhere else AnswerFromRows
        self._answer = kind(stack.config).to(stack.flat.device)
        self._vocabulary = torch.arange(stack["embed.W_E"].shape[1], device=stack.flat.device)
        self._loss: Callable[..., Tensor] = answer_losses
        if stack.flat.device.type == "cuda":
            torch.compiler.reset()  # one function may be compiled for a few shapes only, and a sweep has many
            self._loss = torch.compile(answer_losses, dynamic=False)

    def __call__(self, batch: Batch) -> Tensor:
        try:
            return self._backward(batch)
        except Exception as error:
            if self._loss is answer_losses:
                raise
            reason = " ".join(str(error).split())[:120]
            print(f"assignadd: torch.compile failed ({reason}); training goes on without it, slower", file=sys.stderr)
            self._loss = answer_losses
            return self._backward(batch)

    def _backward(self, batch: Batch) -> Tensor:
        loss = self._loss(self._answer, self._weights, batch.tokens, batch.labels, self._vocabulary)
        torch._foreach_copy_(self._grads, torch.autograd.grad(loss.sum(), list(self._weights.values())))
        return loss.detach()


def answer_losses(
    answer: AnswerFromRows, weights: dict[str, Tensor], tokens: Tensor, labels: Tensor, vocabulary: Tensor
) -> Tensor:
    """The mean cross entropy of each model of a stack, (M,)."""
    # The sampler's tokens are in another order in memory on a GPU, and activations would inherit it.
    rows = (tokens.contiguous().unsqueeze(-1) == vocabulary).to(weights["model.embed.W_E"].dtype)  # (M, B, T, K)
    logits = vmap(lambda w, model_rows: functional_call(answer, w, (model_rows,)))(weights, rows)  # (M, B, N)
    return mean_losses(logits.double() if answer.loss_in_float64 else logits, labels)


def mean_losses(logits: Tensor, labels: Tensor) -> Tensor:
    """The mean cross entropy of each model over its answers, (M,); a label -1 is none."""
    losses = torch.nn.functional.cross_entropy(
        logits.flatten(0, -2), labels.flatten(), reduction="none", ignore_index=-1
    )
    losses = losses.view(len(labels), -1)
    return losses.mean(1) if labels.dim() == 2 else losses.sum(1) / (labels >= 0).flatten(1).sum(1)


class NetworkGradient(ReferenceGradient):
    """Loss and gradient by autograd of a network of the user's own."""

    def __init__(self, stack: Stack):
        self.flat = torch.empty_like(stack.flat)
        self.kernels = kernels_for(stack.config, stack.flat.device, stacked=True)
        self._config = stack.config
        self._weights = {name: w.detach().requires_grad_() for name, w in stack.weights.items()}
        self._grads = list(views(stack.config, self.flat).values())

    def __call__(self, batch: Batch) -> Tensor:
        logits = logits_of_weights(self._config, self._weights, batch.tokens)
        loss = mean_losses(logits.double() if self._config.numerics.loss_in_float64 else logits, batch.labels)
        grads = torch.autograd.grad(loss.sum(), list(self._weights.values()), materialize_grads=True)
        torch._foreach_copy_(self._grads, grads)
        return loss.detach()


# Those that leave the update of the weights to `kernels`; compiled code takes it with the gradient.
TensorGradient = TableGradient | ReferenceGradient


def gradient_of(stack: Stack, slot_scores: SlotScores | None = None) -> CompiledGradient | TensorGradient:
    """Returns the mean cross entropy of each model on a batch, (M,), and writes its gradient into `flat`, (M, P)."""
    if slot_scores:
        require(stack.config, "optim.slot_score")
        return TableGradient(stack, slot_scores)
    if stack.config.model.file is not None:
        return NetworkGradient(stack)
    if not covers(stack.config):
        return ReferenceGradient(stack)
    if len(stack) == 1 and kernels_for(stack.config, stack.flat.device, stacked=False).has_step:
        from assignadd.model.cpu_step import CompiledGradient  # which needs Numba

        return CompiledGradient(stack)
    return TableGradient(stack)
