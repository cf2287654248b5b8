"""Loss and gradient of models on a batch, by one of three ways.

A model alone on a CPU has compiled code (`model/cpu_step.py`); the table forward serves stacks, GPUs and double
precision; autograd serves every architecture that the tables do not cover, through `model/answer.py` on a CPU, through
`model/answer_gpu.py` on most NVIDIA GPUs, or through the reference transformer.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.func import functional_call, vmap

from assignadd.config import Config
from assignadd.model.answer import logits_of_answers, transformer_of
from assignadd.model.answer_gpu import StackAnswer, serves
from assignadd.model.architecture import require
from assignadd.model.forward import table_forward
from assignadd.model.kernels import has_step, kernels_for
from assignadd.model.kernels.tensor import TensorKernels, cross_entropy
from assignadd.model.last_layer import LastLayer
from assignadd.model.own import logits_of_weights
from assignadd.model.stack import Stack, views
from assignadd.model.table import Activations, TableForward, Weights, covers
from assignadd.model.transformer import Transformer
from assignadd.task.sampler import Batch
from assignadd.task.vocabulary import sizes_of
from assignadd.training.schedule import SlotScores

if TYPE_CHECKING:
    from assignadd.model.cpu_step import CompiledGradient


class TableGradient:
    """Loss and gradient of a stack by the table forward and its backward pass, in tensor operations or on a GPU.

    `slot_scores`, if there are any, are added to the scores of layer 1.
    """

    def __init__(self, stack: Stack, slot_scores: SlotScores | None = None):
        self.flat = torch.empty_like(stack.flat)
        # One model on a CPU has no axis M: plain matrix products are faster there than batched ones.
        self._alone = len(stack) == 1 and stack.flat.device.type == "cpu"
        self._table = table_forward(stack.config, stack.flat.device, stacked=True)
        self._forward: Callable[[Weights, Tensor], Activations] = self._table.forward
        if slot_scores:
            assert isinstance(self._table, TableForward)
            self._forward = partial(self._table.forward, edit_layer_1=slot_scores.add)
        self.kernels = self._table.kernels
        self._cross_entropy = cross_entropy_of(stack.config, self.kernels)
        weights, grads = stack.weights, views(stack.config, self.flat)
        if self._alone:
            weights = {name: weight[0] for name, weight in weights.items()}
            grads = {name: grad[0] for name, grad in grads.items()}
        self._weights, self._grads = Weights.of(weights), Weights.of(grads)

    @torch.inference_mode()
    def __call__(self, batch: Batch) -> Tensor:
        """The loss of each model, (M,); writes the gradients into `flat`, (M, P)."""
        tokens, labels = batch.tokens, batch.labels  # (M, B, T), (M, B)
        if self._alone:
            tokens, labels = tokens[0], labels[0]
        activations = self._forward(self._weights, tokens)
        losses, g_logits = self._cross_entropy(self._table.logits(activations), labels)
        self._table.backward(self._weights, activations, g_logits, self._grads)
        return losses.view(-1)


def cross_entropy_of(config: Config, kernels: TensorKernels) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """The function of logits and labels that returns mean cross entropy and its gradient by the logits.

    It is that of the kernels or, if the settings ask for it, one in double precision, whose results are rounded.
    """
    if not config.numerics.loss_in_float64:
        return kernels.cross_entropy

    def in_double_precision(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        loss, grad = cross_entropy(logits.double(), labels)
        return loss.to(logits.dtype), grad.to(logits.dtype)

    return in_double_precision


class AnswerFromRows(torch.nn.Module):
    """The reference transformer's logits, from one-hot rows (B, T, K) instead of tokens.

    As a matrix product, the gradient of W_E is added up in a fixed order, which a gather on a GPU does not do. Unless
    the task has answers at every position, the last layer is computed at `=` alone, without keys and values of its own
    for the other positions.
    """

    def __init__(self, config: Config):
        super().__init__()
        self.model = Transformer(config)  # `answer_losses` replaces its weights by those of each model
        self.loss_in_float64 = config.numerics.loss_in_float64
        self._everywhere = sizes_of(config.task).everywhere
        self._last = LastLayer(self.model)

    def forward(self, rows: Tensor) -> Tensor:
        """The logits at `=`, (B, N), or at every position, (B, T, N), from one-hot rows (B, T, K)."""
        x = rows @ self.model.embed.W_E + self.model.pos_embed.W_pos  # (B, T, d)
        if self._everywhere:
            return self.model.from_residual(x)  # (B, T, N)
        for block in self.model.blocks[:-1]:
            x = block(x)
        return self._last.answer(x)  # (B, N)


class ReferenceGradient:
    """Loss and gradient of a stack of any architecture by autograd, compiled by torch on a GPU."""

    def __init__(self, stack: Stack):
        self.flat = torch.empty_like(stack.flat)
        self.kernels = kernels_for(stack.config, stack.flat.device, stacked=True)
        # Tensors that autograd differentiates by, in the memory of the stack: an update of the stack changes them too.
        self._weights = {name: weight.detach().requires_grad_() for name, weight in stack.weights.items()}
        self._grads = list(views(stack.config, self.flat).values())
        self._prepare(stack)

    def _prepare(self, stack: Stack) -> None:
        """Makes what `_losses` needs: the network that reads one-hot rows, its weights by name, and the loss."""
        self._answer = AnswerFromRows(stack.config).to(stack.flat.device)
        # The names of the weights are those of the parameters of `AnswerFromRows`.
        self._weights = {f"model.{name}": weight for name, weight in self._weights.items()}
        self._vocabulary = torch.arange(stack["embed.W_E"].shape[1], device=stack.flat.device)
        self._loss: Callable[..., Tensor] = answer_losses
        if stack.flat.device.type == "cuda":
            torch.compiler.reset()  # torch compiles a function for a few shapes only, and a sweep has many
            self._loss = torch.compile(answer_losses, dynamic=False)

    def __call__(self, batch: Batch) -> Tensor:
        """The loss of each model, (M,); writes the gradients into `flat`, (M, P).

        If torch cannot compile the loss, a line on stderr says so, and from then on it is computed without compiling.
        """
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
        """The loss of each model, (M,), after one pass of autograd that writes the gradients."""
        losses = self._losses(batch)
        # No model's loss depends on another's weights, so the sum has the gradients of all.
        grads = torch.autograd.grad(losses.sum(), list(self._weights.values()), materialize_grads=True)
        torch._foreach_copy_(self._grads, grads)
        return losses.detach()

    def _losses(self, batch: Batch) -> Tensor:
        """The mean cross entropy of each model, (M,)."""
        return self._loss(self._answer, self._weights, batch.tokens, batch.labels, self._vocabulary)


class StackAnswerGradient(ReferenceGradient):
    """Loss and gradient of a stack of any architecture on a GPU, by autograd through `model/answer_gpu.py`."""

    def _prepare(self, stack: Stack) -> None:
        """Makes what `__call__` needs: functions that return logits, and losses with their gradient by the logits."""
        self._answer_logits = StackAnswer(stack.config, stack.flat.device)
        self._cross_entropy = cross_entropy_of(stack.config, self.kernels)

    def __call__(self, batch: Batch) -> Tensor:
        """The loss of each model, (M,); writes the gradients into `flat`, (M, P)."""
        logits = self._answer_logits(self._weights, batch.tokens)
        losses, g_logits = self._cross_entropy(logits.detach(), batch.labels)
        grads = torch.autograd.grad(logits, list(self._weights.values()), g_logits, materialize_grads=True)
        torch._foreach_copy_(self._grads, grads)
        return losses


class AnswerGradient(ReferenceGradient):
    """Loss and gradient of one model of any architecture on a CPU, by autograd through `model/answer.py`."""

    def _prepare(self, stack: Stack) -> None:
        """Makes what `_losses` needs: the network, whose parameters are in the memory of the stack."""
        self._model = transformer_of(stack)
        self._loss = answer_losses  # not called: for `__call__` it says that torch compiles nothing
        self._loss_in_float64 = stack.config.numerics.loss_in_float64
        self._weights = {name: self._model.get_parameter(name) for name in stack.weights}
        self._grads = [grad[0] for grad in self._grads]  # without the axis M, as the parameters

    def _losses(self, batch: Batch) -> Tensor:
        logits = logits_of_answers(self._model, batch.tokens[0])
        if self._loss_in_float64:
            logits = logits.double()
        return mean_losses(logits[None], batch.labels)


class NetworkGradient(ReferenceGradient):
    """Loss and gradient by autograd of a network of the user's own."""

    def _prepare(self, stack: Stack) -> None:
        """Keeps the settings, which `_losses` needs: they name the network."""
        self._config = stack.config
        self._loss = answer_losses  # not called: for `__call__` it says that torch compiles nothing

    def _losses(self, batch: Batch) -> Tensor:
        logits = logits_of_weights(self._config, self._weights, batch.tokens)
        if self._config.numerics.loss_in_float64:
            logits = logits.double()
        return mean_losses(logits, batch.labels)


def answer_losses(
    answer: AnswerFromRows, weights: dict[str, Tensor], tokens: Tensor, labels: Tensor, vocabulary: Tensor
) -> Tensor:
    """The mean cross entropy of each model of a stack, (M,), on its tokens (M, B, T) and labels (M, B).

    `weights` are those of `answer`, each with the axis M; `vocabulary` are all tokens, (K,).
    """

    # The sampler's tokens are in another order in memory on a GPU, and activations would inherit it.
    is_token = tokens.contiguous().unsqueeze(-1) == vocabulary  # (M, B, T, K)
    rows = is_token.to(weights["model.embed.W_E"].dtype)
    # The logits of each model, (M, B, N). A lambda: torch 2.11 does not compile a function with annotations that is
    # defined in here (Python 3.12).
    logits = vmap(lambda its_weights, its_rows: functional_call(answer, its_weights, (its_rows,)))(weights, rows)
    if answer.loss_in_float64:
        logits = logits.double()
    return mean_losses(logits, labels)


def mean_losses(logits: Tensor, labels: Tensor) -> Tensor:
    """The mean cross entropy of each model over its answers, (M,).

    Logits are (M, B, N) with labels (M, B), or (M, B, T, N) with labels (M, B, T), -1 where there is no answer.
    """
    losses = torch.nn.functional.cross_entropy(
        logits.flatten(0, -2), labels.flatten(), reduction="none", ignore_index=-1
    )
    losses = losses.view(len(labels), -1)  # (M, B) or (M, B T); 0 where there is no answer
    if labels.dim() == 2:  # (M, B): an answer for each sequence
        return losses.mean(1)
    n_answers = (labels >= 0).flatten(1).sum(1)  # (M,)
    return losses.sum(1) / n_answers


# The gradients after which `kernels` update the weights; `CompiledGradient` does both at once.
TensorGradient = TableGradient | ReferenceGradient


def gradient_of(stack: Stack, slot_scores: SlotScores | None = None) -> CompiledGradient | TensorGradient:
    """The fastest gradient: a call with a batch returns losses, (M,), and writes the gradients into `flat`, (M, P)."""
    if slot_scores:
        require(stack.config, "optim.slot_score")
        return TableGradient(stack, slot_scores)
    if stack.config.model.file is not None:
        return NetworkGradient(stack)
    if not covers(stack.config):
        alone = len(stack) == 1 and stack.flat.device.type == "cpu"
        if serves(stack.config, stack.flat):
            return StackAnswerGradient(stack)
        return AnswerGradient(stack) if alone else ReferenceGradient(stack)
    if len(stack) == 1 and has_step(stack.config, stack.flat.device):
        from assignadd.model.cpu_step import CompiledGradient  # here, as it needs Numba

        return CompiledGradient(stack)
    return TableGradient(stack)
