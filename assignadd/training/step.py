"""Training steps: loss and gradient of some models on a batch, then their AdamW update.

A group is what trains together: one model on a CPU, the whole stack on a GPU. Loss and gradient come from the table
forward where it covers the architecture, and from autograd through the reference transformer elsewhere.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.func import functional_call, vmap

from assignadd.config import Config
from assignadd.model.forward import table_forward
from assignadd.model.kernels import kernels_for
from assignadd.model.kernels.tensor import Moments, Placed, TensorKernels, cross_entropy
from assignadd.model.last_layer import LastLayer
from assignadd.model.stack import Stack, views
from assignadd.model.table import Tables, Weights, covers
from assignadd.model.transformer import Transformer
from assignadd.task.sampler import Batch
from assignadd.training.cuda_graph import CapturedStep
from assignadd.training.schedule import Rates, frozen_of, rates_of, training_sampler

if TYPE_CHECKING:
    from assignadd.model.cpu_step import TrainingMemory

# Sequences drawn at once on a CPU: without Numba a draw is some hundred tensor operations, whatever its size.
SEQUENCES_AHEAD = 131_072
MOST_STEPS_AHEAD = 256


class CompiledGradient:
    """Loss and gradient of one model on a CPU by compiled code (`model.cpu_step`), several steps at once if asked."""

    def __init__(self, stack: Stack):
        self.flat = torch.empty_like(stack.flat)
        self._table = table_forward(stack.config, stack.flat.device)
        self.kernels = self._table.kernels
        self._loss_in_float64 = stack.config.numerics.loss_in_float64
        weights, grads = stack.weights, views(stack.config, self.flat)
        self._weights, self._grads = (Weights.of({name: t[0] for name, t in x.items()}) for x in (weights, grads))
        self._memory: TrainingMemory | None = None

    def __call__(self, batch: Batch, loss: Tensor | None = None) -> Tensor:
        loss = self.flat.new_empty(1) if loss is None else loss
        self.memory(batch).gradient(batch.tokens, batch.labels, loss)
        return loss

    def memory(self, batch: Batch) -> TrainingMemory:
        """What trains on batches of this size."""
        B, table = batch.tokens.shape[-2], self._table
        if self._memory is None or not self._memory.fits(B):
            from assignadd.model.cpu_step import TrainingMemory  # which needs Numba

            sizes = B, table.equals, table.scale
            self._memory = TrainingMemory(self._weights, self._grads, *sizes, self._loss_in_float64)
        return self._memory


class TableGradient:
    """Loss and gradient by the table forward and its backward pass, in tensor operations or on a GPU."""

    def __init__(self, stack: Stack):
        self.flat = torch.empty_like(stack.flat)
        self._alone = len(stack) == 1 and stack.flat.device.type == "cpu"  # plain matrix products beat batched ones
        self._table = table_forward(stack.config, stack.flat.device, stacked=True)
        self.kernels = self._table.kernels
        self._cross_entropy = cross_entropy_of(stack.config, self.kernels)
        weights, grads = stack.weights, views(stack.config, self.flat)
        if self._alone:
            weights, grads = ({name: t[0] for name, t in named.items()} for named in (weights, grads))
        self._weights, self._grads = Weights.of(weights), Weights.of(grads)
        self._tables: Tables | None = None

    @torch.inference_mode()
    def __call__(self, batch: Batch, loss: Tensor | None = None) -> Tensor:
        loss = self.flat.new_empty(len(self.flat)) if loss is None else loss
        w = self._weights
        tokens, labels = (batch.tokens[0], batch.labels[0]) if self._alone else (batch.tokens, batch.labels)
        if self._tables is None:
            self._tables = Tables.empty(w)
        trace = self._table.forward(w, tokens, self._table.begin_tables(w, self._tables))
        losses, grad = self._cross_entropy(self._table.logits(trace), labels)
        loss.copy_(losses.view(-1))
        self._table.backward(w, trace, grad, self._grads)
        return loss


def cross_entropy_of(config: Config, kernels: TensorKernels) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """The cross entropy and its gradient by the kernels, or in double precision and rounded, as the settings say."""
    if not config.numerics.loss_in_float64:
        return kernels.cross_entropy

    def rounded(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        loss, grad = cross_entropy(logits.double(), labels)
        return loss.to(logits.dtype), grad.to(logits.dtype)

    return rounded


class AnswerFromRows(torch.nn.Module):
    """The reference transformer's logits at the last position, from one-hot rows (B, T, K) in place of tokens.

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


class ReferenceGradient:
    """Loss and gradient by autograd, for every other architecture; compiled by torch on a GPU."""

    def __init__(self, stack: Stack):
        self.flat = torch.empty_like(stack.flat)
        self.kernels = kernels_for(stack.config, stack.flat.device, stacked=True)
        # Leaves of their own in the memory of the stack: an update of the stack is one of these.
        self._weights = {f"model.{name}": w.detach().requires_grad_() for name, w in stack.weights.items()}
        self._grads = list(views(stack.config, self.flat).values())
        self._answer = AnswerFromRows(stack.config).to(stack.flat.device)
        self._vocabulary = torch.arange(stack["embed.W_E"].shape[1], device=stack.flat.device)
        self._loss: Callable[..., Tensor] = answer_losses
        if stack.flat.device.type == "cuda":
            torch.compiler.reset()  # one function may be compiled for a few shapes only, and a sweep has many
            self._loss = torch.compile(answer_losses, dynamic=False)

    def __call__(self, batch: Batch, loss: Tensor | None = None) -> Tensor:
        try:
            found = self._backward(batch)
        except Exception as error:
            if self._loss is answer_losses:
                raise
            reason = " ".join(str(error).split())[:120]
            print(f"assignadd: torch.compile failed ({reason}); training goes on without it, slower", file=sys.stderr)
            self._loss = answer_losses
            found = self._backward(batch)
        return found if loss is None else loss.copy_(found)

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
    logits = vmap(lambda own, own_rows: functional_call(answer, own, (own_rows,)))(weights, rows)  # (M, B, N)
    logits = logits.double() if answer.loss_in_float64 else logits
    losses = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none")
    return losses.view(len(labels), -1).mean(1)


Gradient = CompiledGradient | TableGradient | ReferenceGradient


def gradient_of(stack: Stack) -> Gradient:
    """Returns the mean cross entropy of each model on a batch, (M,), and writes its gradient into `flat`, (M, P).

    The loss is written into the second argument, if there is one.
    """
    if not covers(stack.config):
        return ReferenceGradient(stack)
    if len(stack) == 1 and kernels_for(stack.config, stack.flat.device, stacked=False).has_step:
        return CompiledGradient(stack)
    return TableGradient(stack)


class Group:
    """Models of one shape on one device: their weights, moments and data, and the step they are at."""

    def __init__(self, stack: Stack, configs: Sequence[Config], seen: Tensor, placed: Placed = lambda tensor: tensor):
        device, optims = stack.flat.device, [c.optim for c in configs]
        self.stack, self.batch_size = Stack(stack.config, placed(stack.flat)), optims[0].batch
        self.gradient = gradient_of(self.stack)
        self.moments = Moments.zeros(self.stack.flat, optims, placed)
        self._rates, self._frozen = rates_of(configs, device), frozen_of(configs, device)
        self.sampler = training_sampler(configs, seen, device)
        self.step = placed(torch.zeros((), dtype=torch.int64, device=device))
        self.loss = placed(torch.full((len(stack),), torch.nan, dtype=stack.flat.dtype, device=device))
        self.diverged_at = placed(torch.full((len(stack),), -1, device=device))
        self.adamw = self.gradient.kernels.adamw_of(
            self.stack.flat, self.gradient.flat, self.moments, self.loss, self.diverged_at, self.step
        )
        self._captured: CapturedStep | None = None
        self.steps_ahead = max(1, min(MOST_STEPS_AHEAD, SEQUENCES_AHEAD // (self.batch_size * len(stack))))
        """How many steps' sequences are drawn at once on a CPU."""
        self._drawn: tuple[int, Batch] | None = None
        """The first step whose sequences are drawn ahead, and those of the steps from there on."""

    def advance(self, steps: int) -> None:
        """Takes this many training steps."""
        if self.stack.flat.device.type == "cuda":
            self._captured_step().replay(steps)
            return
        step, last = int(self.step), int(self.step) + steps
        while step < last and not self._all_diverged():
            batches = self._batches(step, last)
            if isinstance(self.gradient, CompiledGradient) and self._frozen is None:
                self._train(self.gradient, batches)
            else:
                for batch in zip(batches.tokens, batches.labels, strict=True):
                    self.update(Batch(*batch))
                    if self._all_diverged():
                        break
            step += len(batches.tokens)
            self.step.fill_(step)
        self.step.fill_(last)  # also where nothing is left to train

    def _all_diverged(self) -> bool:
        return bool((self.diverged_at >= 0).all())

    def update(self, batch: Batch) -> None:
        """One step. A model whose loss is not finite stops before its update and keeps its weights."""
        before = self.stack.flat.clone() if self._frozen else None
        if isinstance(self.gradient, CompiledGradient):
            self._train(self.gradient, Batch(batch.tokens.unsqueeze(0), batch.labels.unsqueeze(0)))
            self.step.add_(1)
        else:
            if self._rates:
                self._rates.write(self.step, self.moments)
            self.gradient(batch, self.loss)
            self.adamw()
        if self._frozen and before is not None:
            self._frozen.restore(self.step, self.stack.flat, before)

    def _train(self, gradient: CompiledGradient, batches: Batch) -> None:
        """Takes a step with each of these batches, (n, 1, B, T), in one call of compiled code."""
        first, n = int(self.step), len(batches.tokens)
        rates = Rates(self.moments.optims, self.step.device)(torch.arange(first, first + n))[0]
        memory = gradient.memory(batches)
        memory.train(batches, self.loss, self.diverged_at, self.stack.flat, gradient.flat, self.moments, rates, first)

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

    def _batches(self, first: int, last: int) -> Batch:
        """The sequences of the steps from `first` on, (n, M, B, T), for as many before `last` as are drawn at once."""
        start = first - first % self.steps_ahead
        if self._drawn is None or self._drawn[0] != start:
            steps = torch.arange(start, start + self.steps_ahead).view(-1, 1, 1)
            self._drawn = start, self.sampler.sample(steps, self.batch_size)
        ahead, wanted = self._drawn[1], slice(first - start, last - start)
        return Batch(ahead.tokens[wanted], ahead.labels[wanted])

    def _captured_step(self) -> CapturedStep:
        if self._captured is None:
            before = {name: t.clone() for name, t in self.state().items()}
            dtype = self.gradient.kernels.token_dtype
            self._captured = CapturedStep(self.step, self.sampler, self.batch_size, dtype, self.update)
            self.load_state(before)  # capturing takes a few steps
        return self._captured
