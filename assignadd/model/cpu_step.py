"""Training and answers of one model on a CPU by compiled code (`kernels.numba_step`): its memory, threads, checks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from assignadd.model.cpu_arrays import (
    Array,
    Batches,
    Gradients,
    Model,
    Update,
    kinds_of,
    lengths_of,
    matrices,
    numbers_of,
    zeros,
)
from assignadd.model.kernels import numba_step
from assignadd.model.kernels.blas import has_threads, on_threads
from assignadd.model.kernels.tensor import Moments
from assignadd.model.stack import Stack
from assignadd.model.table import Weights
from assignadd.task.sampler import Batch
from assignadd.task.vocabulary import Vocabulary

# Sequences that pass together. With fewer, a step of the paper's model takes longer; with more, as long or, in a small
# cache, longer.
CHUNK = 128
# Sequences that a thread has at least: small products are slow, and each thread's gradients are added to the first's.
FEWEST_SEQUENCES = 64


def threads_for(sequences: int) -> int:
    """The number of threads for this number of sequences: as many as torch has, unless each would have too few."""
    if not has_threads():
        return 1
    return max(1, min(torch.get_num_threads(), sequences // FEWEST_SEQUENCES))


def chunk_size(sequences: int) -> int:
    """How many of a thread's sequences pass together: CHUNK with MKL, all with other libraries, which gain little."""
    return min(sequences, CHUNK) if torch.backends.mkl.is_available() else sequences


class CompiledGradient:
    """Computes loss and gradient of the only model of a stack, or trains it for several steps."""

    def __init__(self, stack: Stack):
        self.flat = torch.empty_like(stack.flat)
        """The gradient, (1, P)."""
        self._stack = stack
        self._weights, self._grads = _arrays_of(stack), _arrays_of(Stack(stack.config, self.flat))
        self._memory: TrainingMemory | None = None

    def __call__(self, batch: Batch) -> Tensor:
        """The mean cross entropy of a batch, (1, B, T), as a tensor (1,); writes its gradient into `flat`."""
        loss, diverged_at = self.flat.new_empty(1), torch.full((1,), -1)  # -1: at no step
        self._run(batch, loss, diverged_at, Update())  # without weights: one step, which updates nothing
        return loss

    def train(
        self, batches: Batch, loss: Tensor, diverged_at: Tensor, moments: Moments, rates: Tensor, first: int
    ) -> None:
        """Takes a training step with each of n batches, tokens (n, 1, B, T), at its learning rate of `rates`, (n,).

        `first` updates were made before. Writes the last batch's loss into `loss`, (1,). At a loss that is not finite,
        its step is written into `diverged_at`, (1,), and nothing more is trained.
        """
        (optim,) = moments.optims  # of the only model
        update = Update(
            weights=self._stack.flat[0].numpy(),
            grad=self.flat[0].numpy(),
            mean=moments.mean[0].numpy(),
            square=moments.square[0].numpy(),
            rates=rates.numpy(),
            weight_decay=optim.weight_decay,
            beta1=optim.beta1,
            beta2=optim.beta2,
            eps=optim.eps,
            first_step=first,
        )
        self._run(batches, loss, diverged_at, update)

    def _run(self, batches: Batch, loss: Tensor, diverged_at: Tensor, update: Update) -> None:
        """Takes a step for each of the update's learning rates by compiled code, on every thread, as `train` says.

        Raises a ValueError for other shapes: compiled code would read past the end of an array.
        """
        config = self._stack.config
        T, B = config.task.length, batches.tokens.shape[-2]
        n_sequences = len(update.rates) * B
        if batches.tokens.shape[-1] != T or batches.tokens.numel() != n_sequences * T:
            raise ValueError(f"tokens have shape {tuple(batches.tokens.shape)}: expected sequences of {T} tokens")
        if batches.labels.numel() != n_sequences or batches.labels.shape[-1] != B:
            raise ValueError(f"labels have shape {tuple(batches.labels.shape)}: expected {B} for each batch")
        memory = self._memory_for(B)
        arrays = Batches(
            tokens=_integers(batches.tokens).reshape(n_sequences, T),
            labels=_integers(batches.labels).reshape(n_sequences),
            losses=memory.losses,
            loss=loss.numpy(),
            loss_in_double=config.numerics.loss_in_float64,
            diverged_at=diverged_at.numpy(),
        )
        scale = 1 / math.sqrt(config.model.d_head)
        model = Model(self._weights, memory.tables, Vocabulary(config.task).equals, scale)
        gradients = Gradients(self._grads, memory.g_tables, memory.sums_of_thread[0], memory.all_sums)
        of_threads = zip(memory.chunk_of_thread, memory.sums_of_thread, strict=True)
        on_threads(numba_step.train, [(model, gradients, chunk, sums, arrays, update) for chunk, sums in of_threads])

    def _memory_for(self, batch_size: int) -> TrainingMemory:
        """Memory for batches of this size, made anew where the size or torch's number of threads has changed."""
        memory, threads = self._memory, threads_for(batch_size)
        if memory is None or (memory.batch_size, memory.threads) != (batch_size, threads):
            memory = self._memory = TrainingMemory(self._weights, batch_size, threads)
        return memory


class TrainingMemory:
    """The arrays that a training step writes besides gradients and weights; every thread has its chunk and its sums."""

    def __init__(self, w: Weights, batch_size: int, threads: int):
        self.batch_size, self.threads = batch_size, threads
        lengths = lengths_of(w, chunk_size(math.ceil(batch_size / threads)))
        tables_class, chunk_class, sums_class = kinds_of(w)
        self.losses = np.zeros(batch_size, np.float32)
        self.tables = matrices(tables_class, lengths)
        self.g_tables = matrices(tables_class, lengths)
        self.chunk_of_thread = [matrices(chunk_class, lengths) for _ in range(threads)]
        self.all_sums = zeros(threads, numbers_of(sums_class, lengths))  # a row for each thread
        self.sums_of_thread = [matrices(sums_class, lengths, row) for row in self.all_sums]  # views of the rows


def answer_logits(w: Weights, tokens: Tensor, equals: int, scale: float) -> Tensor:
    """Logits (B, N) of one model for any number of sequences, (B, T), in compiled code.

    `equals` is the token `=`, `scale` is 1 / sqrt(d_head).
    """
    if tokens.shape[1:] != (len(w.pos),):
        raise ValueError(f"tokens have shape {tuple(tokens.shape)}: expected sequences of {len(w.pos)} tokens")
    weights, logits = _arrays(w), np.empty((len(tokens), w.U.shape[1]), np.float32)
    threads = threads_for(len(tokens))
    n_together = max(1, chunk_size(math.ceil(len(tokens) / threads)))  # 1 if there are no sequences
    lengths = lengths_of(weights, n_together)
    tables_class, chunk_class, _ = kinds_of(weights)
    model, sequences = Model(weights, matrices(tables_class, lengths), equals, scale), _integers(tokens)
    # Every thread gets all sequences: `answer` takes the thread's share of them, and writes their logits.
    arguments = [(model, matrices(chunk_class, lengths), sequences, logits) for _ in range(threads)]
    on_threads(numba_step.answer, arguments)
    return torch.from_numpy(logits)


def _arrays(w: Weights) -> Weights:
    """The weights as arrays, which are views of the tensors where these are contiguous."""
    arrays: list[Any] = [weight.detach().contiguous().numpy() for weight in w]
    return Weights(*arrays)


def _arrays_of(stack: Stack) -> Weights:
    """The weights of the only model of a stack as arrays without the axis M."""
    return _arrays(Weights.of(stack.of_model(0)))


def _integers(x: Tensor) -> Array:
    """The numbers as an array of 64-bit integers without gaps, which is what the compiled functions take."""
    return x.to(torch.int64).contiguous().numpy()
