"""Loss and gradient of models on a batch, by one of three ways.

A model alone on a CPU has compiled code (`model/cpu_step.py`); the table forward serves stacks, GPUs and double
precision; autograd serves the architectures that the tables do not cover.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
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
from assignadd.model.stack import Stack, initial_stack, views
from assignadd.model.table import Activations, TableForward, Weights, covers
from assignadd.task.sampler import Batch
from assignadd.training.schedule import SlotScores

if TYPE_CHECKING:
    from assignadd.model.cpu_step import CompiledGradient


class TableGradient:
    """Loss and gradient of a stack by tables; `slot_scores`, if there are any, are added to the scores of layer 1."""

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
        grads = Stack(stack.config, self.flat)
        self._weights = Weights.of(stack.of_model(0) if self._alone else stack.weights)
        self._grads = Weights.of(grads.of_model(0) if self._alone else grads.weights)

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

    def in_double_precision(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        loss, grad = cross_entropy(logits.double(), labels)
        return loss.to(logits.dtype), grad.to(logits.dtype)

    return in_double_precision if config.numerics.loss_in_float64 else kernels.cross_entropy


class AutogradGradient:
    """Loss and gradient of a stack by autograd; a subclass returns the logits of the answers by `_logits`."""

    def __init__(self, stack: Stack):
        self.flat = torch.empty_like(stack.flat)
        self.kernels = kernels_for(stack.config, stack.flat.device, stacked=True)
        self._config = stack.config
        # Tensors that autograd differentiates by, in the memory of the stack: an update of the stack changes them too.
        self._weights = {name: weight.detach().requires_grad_() for name, weight in stack.weights.items()}
        self._grads = list(views(stack.config, self.flat).values())

    def __call__(self, batch: Batch) -> Tensor:
        """The loss of each model, (M,); writes the gradients into `flat`, (M, P)."""
        losses = self._losses(batch)
        # No model's loss depends on another's weights, so the sum has the gradients of all.
        self._differentiate(losses.sum())
        return losses.detach()

    def _losses(self, batch: Batch) -> Tensor:
        """The mean cross entropy of each model, (M,)."""
        return mean_losses(self._config, self._logits(batch.tokens), batch.labels)

    def _logits(self, tokens: Tensor) -> Tensor:
        """The logits of the answers, (M, B, N), or (M, B, T, N) if answers are at every position."""
        raise NotImplementedError

    def _differentiate(self, output: Tensor, g_output: Tensor | None = None) -> None:
        """Writes the gradients of sum(output * g_output), or of a single number, into `flat`."""
        grads = torch.autograd.grad(output, list(self._weights.values()), g_output, materialize_grads=True)
        torch._foreach_copy_(self._grads, grads)


class NetworkGradient(AutogradGradient):
    """The gradient of networks of the user's own."""

    def _logits(self, tokens: Tensor) -> Tensor:
        return logits_of_weights(self._config, self._weights, tokens)


class AnswerGradient(AutogradGradient):
    """The gradient of one model of any architecture on a CPU, through `model/answer.py`."""

    def __init__(self, stack: Stack):
        super().__init__(stack)
        self._model = transformer_of(stack)
        self._weights = {name: self._model.get_parameter(name) for name in stack.weights}
        self._grads = [grad[0] for grad in self._grads]  # without the axis M, as the parameters

    def _logits(self, tokens: Tensor) -> Tensor:
        return logits_of_answers(self._model, tokens[0])[None]


class StackAnswerGradient(AutogradGradient):
    """The gradient of a stack of any architecture on a GPU, through `model/answer_gpu.py`."""

    def __init__(self, stack: Stack):
        super().__init__(stack)
        self._answer_logits = StackAnswer(stack.config, stack.flat.device)
        self._cross_entropy = cross_entropy_of(stack.config, self.kernels)

    def __call__(self, batch: Batch) -> Tensor:
        """The loss of each model, (M,); writes the gradients into `flat`, (M, P)."""
        logits = self._answer_logits(self._weights, batch.tokens)
        losses, g_logits = self._cross_entropy(logits.detach(), batch.labels)
        self._differentiate(logits, g_logits)
        return losses


class ReferenceGradient(AutogradGradient):
    """The gradient of a stack of any architecture, through the reference transformer, compiled by torch on a GPU.

    If torch cannot compile it, a line on stderr says so, and from then on it is computed without compiling.
    """

    def __init__(self, stack: Stack):
        super().__init__(stack)
        self._answer = AnswerFromRows(stack.config).to(stack.flat.device)
        # The names of the weights are those of the parameters of `AnswerFromRows`.
        self._weights = {f"model.{name}": weight for name, weight in self._weights.items()}
        self._vocabulary = torch.arange(stack["embed.W_E"].shape[1], device=stack.flat.device)
        self._loss: Callable[..., Tensor] = answer_losses
        if stack.flat.device.type == "cuda":
            torch.compiler.reset()  # torch compiles a function for a few shapes only, and a sweep has many
            self._loss = torch.compile(answer_losses, dynamic=False)

    def __call__(self, batch: Batch) -> Tensor:
        """The loss of each model, (M,); writes the gradients into `flat`, (M, P)."""
        try:
            return super().__call__(batch)
        except Exception as error:
            if self._loss is answer_losses:
                raise
            reason = " ".join(str(error).split())[:120]
            print(f"assignadd: torch.compile failed ({reason}); training goes on without it, slower", file=sys.stderr)
            self._loss = answer_losses
            return super().__call__(batch)

    def _losses(self, batch: Batch) -> Tensor:
        return self._loss(self._answer, self._weights, batch.tokens, batch.labels, self._vocabulary)


class AnswerFromRows(torch.nn.Module):
    """The reference transformer's logits, from one-hot rows (B, T, K) instead of tokens.

    As a matrix product, the gradient of W_E is added up in a fixed order, which a gather on a GPU does not do. Unless
    the task has answers at every position, the last layer is computed at `=` alone, without keys and values of its own
    for the other positions.
    """

    def __init__(self, config: Config):
        super().__init__()
        self._last = LastLayer(initial_stack(config, [0]))
        self.model = self._last.model  # `answer_losses` replaces its weights by those of each model

    def forward(self, rows: Tensor) -> Tensor:
        """The logits at `=`, (B, N), or at every position, (B, T, N), from one-hot rows (B, T, K)."""
        x = rows @ self.model.embed.W_E + self.model.pos_embed.W_pos  # (B, T, d)
        if self.model.sizes.everywhere:
            return self.model.from_residual(x)  # (B, T, N)
        for block in self.model.blocks[:-1]:
            x = block(x)
        return self._last.answer(x)  # (B, N)


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
    return mean_losses(answer.model.config, logits, labels)


def mean_losses(config: Config, logits: Tensor, labels: Tensor) -> Tensor:
    """The mean cross entropy of each model over its answers, (M,), in the precision that the settings ask for.

    Logits are (M, B, N) with labels (M, B), or (M, B, T, N) with labels (M, B, T), -1 where there is no answer.
    """
    if config.numerics.loss_in_float64:
        logits = logits.double()
    losses = F.cross_entropy(logits.flatten(0, -2), labels.flatten(), reduction="none", ignore_index=-1)
    losses = losses.view(len(labels), -1)  # (M, B) or (M, B T); 0 where there is no answer
    if labels.dim() == 2:  # (M, B): an answer for each sequence
        return losses.mean(1)
    n_answers = (labels >= 0).flatten(1).sum(1)  # (M,)
    return losses.sum(1) / n_answers


# The gradients after which `kernels` update the weights; `CompiledGradient` does both at once.
TensorGradient = TableGradient | AutogradGradient


def gradient_of(stack: Stack, slot_scores: SlotScores | None = None) -> CompiledGradient | TensorGradient:
    """The fastest gradient: a call with a batch returns losses, (M,), and writes the gradients into `flat`, (M, P)."""
    config, device = stack.config, stack.flat.device
    if slot_scores:
        require(config, "optim.slot_score")
        return TableGradient(stack, slot_scores)
    if covers(config):
        if len(stack) > 1 or not has_step(config, device):
            return TableGradient(stack)
        from assignadd.model.cpu_step import CompiledGradient  # here, as it needs Numba

        return CompiledGradient(stack)
    if config.model.file is not None:
        return NetworkGradient(stack)
    if serves(config, stack.flat):
        return StackAnswerGradient(stack)
    is_alone = len(stack) == 1 and device.type == "cpu"
    return AnswerGradient(stack) if is_alone else ReferenceGradient(stack)
