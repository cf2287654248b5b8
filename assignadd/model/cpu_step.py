"""Training and answers of one model on a CPU by compiled code (`kernels.numba_step`): memory, threads, checks."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from math import prod
from threading import get_ident
from typing import Any, get_type_hints

import numpy as np
import torch
from torch import Tensor

from assignadd.model.kernels import numba_arrays, numba_step
from assignadd.model.kernels.blas import has_threads, on_threads
from assignadd.model.kernels.numba_vectors import SOME
from assignadd.model.kernels.tensor import Moments
from assignadd.model.stack import Stack, views
from assignadd.model.table import TableForward, Weights
from assignadd.task.sampler import Batch

# Sequences that pass together. With fewer, a step of the paper's model takes longer; with more, as long or, in a small
# cache, longer.
CHUNK = 128
# Sequences that a thread has at least: small products are slow, and each thread's gradients are added to the first's.
FEWEST_SEQUENCES = 64
# Numbers of a line of the processor's cache, where each matrix begins: this saves 5 % of a step.
LINE = 16
# Only the loss and its gradient are asked for, of one batch.
NOTHING = np.zeros(0, np.float32)
NO_UPDATE = numba_arrays.Update(NOTHING, NOTHING, NOTHING, NOTHING, np.zeros(1), (0.0, 0.0, 0.0, 0.0), 0)


def threads_for(sequences: int) -> int:
    """On how many threads so many sequences pass: on as many as torch has, unless they are few."""
    return max(1, min(torch.get_num_threads(), sequences // FEWEST_SEQUENCES)) if has_threads() else 1


def chunk_size(sequences: int) -> int:
    """How many sequences pass together: with MKL a chunk, with other libraries, which gain little from it, all."""
    return min(sequences, CHUNK) if torch.backends.mkl.is_available() else sequences


class CompiledGradient:
    """Loss and gradient of one model, or several training steps, in the memory of its stack of one."""

    def __init__(self, stack: Stack):
        self.flat = torch.empty_like(stack.flat)
        """The gradient, (1, P)."""
        self._stack, self._table = stack, TableForward(stack.config)
        self._constants = numba_arrays.Constants(
            self._table.equals, self._table.scale, stack.config.numerics.loss_in_float64
        )
        self._weights, self._grads = _arrays_of_one(stack.weights), _arrays_of_one(views(stack.config, self.flat))
        self._memory: TrainingMemory | None = None

    def __call__(self, batch: Batch) -> Tensor:
        """The mean cross entropy of a batch, (1, B, T), as a tensor (1,); writes its gradient into `flat`."""
        loss, never = self.flat.new_empty(1), torch.full((1,), -1)
        self._run(batch, loss, never, NO_UPDATE)
        return loss

    def train(
        self, batches: Batch, loss: Tensor, diverged_at: Tensor, moments: Moments, rates: Tensor, first: int
    ) -> None:
        """An update for each of these batches, (n, 1, B, T), at its learning rate; the first follows `first` updates.

        Writes the last batch's loss. A loss that is not finite notes its step in `diverged_at`, and nothing more is
        trained.
        """
        (optim,) = moments.optims
        settings = optim.weight_decay, optim.beta1, optim.beta2, optim.eps
        update = numba_arrays.Update(
            weights=self._stack.flat[0].numpy(),
            grad=self.flat[0].numpy(),
            mean=moments.mean[0].numpy(),
            square=moments.square[0].numpy(),
            rates=rates.numpy(),
            settings=settings,
            first_step=first,
        )
        self._run(batches, loss, diverged_at, update)

    def _run(self, batches: Batch, loss: Tensor, diverged_at: Tensor, update: numba_arrays.Update) -> None:
        """Checks the shapes, which compiled code does not, and runs it on every thread."""
        B, T = batches.tokens.shape[-2:]
        n = len(update.rates) * B
        if T != self._table.T or batches.tokens.numel() != n * T:
            raise ValueError(f"tokens have shape {tuple(batches.tokens.shape)}: expected sequences of {self._table.T}")
        if batches.labels.numel() != n or batches.labels.shape[-1] != B:
            raise ValueError(f"labels have shape {tuple(batches.labels.shape)}: expected {B} for each batch")
        memory = self._memory_for(B)
        shared = numba_arrays.Shared(
            self._weights, self._grads, memory.tables, memory.g_tables, memory.sums[0], memory.all_sums
        )
        tokens, labels = _integers(batches.tokens).reshape(n, T), _integers(batches.labels).reshape(n)
        arrays = numba_arrays.Batches(tokens, labels, memory.losses, loss.numpy(), diverged_at.numpy())
        by_thread = zip(memory.chunks, memory.sums, strict=True)
        arguments = [(shared, chunk, sums, arrays, update, self._constants) for chunk, sums in by_thread]
        on_threads(numba_step.train, arguments)

    def _memory_for(self, batch_size: int) -> TrainingMemory:
        """Memory for batches of this size, made anew where the size or torch's number of threads has changed."""
        threads = threads_for(batch_size)
        if self._memory is None or (len(self._memory.losses), len(self._memory.chunks)) != (batch_size, threads):
            self._memory = TrainingMemory(self._weights, batch_size, threads)
        return self._memory


class TrainingMemory:
    """What a training step writes besides gradients and weights."""

    def __init__(self, w: numba_arrays.Weights, batch_size: int, threads: int):
        sizes = _sizes(w, chunk_size(-(-batch_size // threads)))
        self.losses = np.zeros(batch_size, np.float32)
        self.tables, self.g_tables = _matrices(numba_arrays.Tables, sizes), _matrices(numba_arrays.Tables, sizes)
        self.chunks = [_matrices(numba_arrays.Chunk, sizes) for _ in range(threads)]
        self.all_sums = torch.zeros(threads, _size(_shapes(numba_arrays.Sums, sizes))).numpy()
        """The memory of `sums`, (threads, numbers), so that they can be added up whatever they are."""
        self.sums = [_matrices(numba_arrays.Sums, sizes, memory) for memory in self.all_sums]


def answer_logits(w: Weights, tokens: Tensor, equals: int, scale: float) -> Tensor:
    """Logits (n, N) of any number of sequences, (n, T)."""
    if tokens.shape[1:] != (len(w.pos),):
        raise ValueError(f"tokens have shape {tuple(tokens.shape)}: expected sequences of {len(w.pos)} tokens")
    weights, logits = _arrays(w), np.empty((len(tokens), w.U.shape[1]), np.float32)
    threads = threads_for(len(tokens))
    sizes = _sizes(weights, max(1, chunk_size(-(-len(tokens) // threads))))
    tables, chunks = _answer_memory(tuple(sizes.items()), threads, get_ident())
    sequences = _integers(tokens)
    on_threads(numba_step.answer, [(weights, tables, chunk, sequences, logits, equals, scale) for chunk in chunks])
    return torch.from_numpy(logits)


@lru_cache(maxsize=4)
def _answer_memory(
    sizes: tuple[tuple[str, int], ...], threads: int, caller: int
) -> tuple[numba_arrays.Tables, list[numba_arrays.Chunk]]:
    """Memory for answers of weights of these sizes; every thread of Python that calls has its own."""
    by_name = dict(sizes)
    return _matrices(numba_arrays.Tables, by_name), [_matrices(numba_arrays.Chunk, by_name) for _ in range(threads)]


def _arrays(w: Weights) -> numba_arrays.Weights:
    """The weights as arrays, in their own memory where it is contiguous."""
    names = numba_arrays.Weights._fields
    return numba_arrays.Weights(*(getattr(w, name).detach().contiguous().numpy() for name in names))


def _arrays_of_one(stacked: Mapping[str, Tensor]) -> numba_arrays.Weights:
    """The arrays of a stack of one model, without the axis M."""
    return _arrays(Weights.of({name: weight[0] for name, weight in stacked.items()}))


def _integers(x: Tensor) -> np.ndarray:
    return x.to(torch.int64).contiguous().numpy()


def _sizes(w: numba_arrays.Weights, n: int) -> dict[str, int]:
    """The sizes in the shapes that `numba_arrays` declares, for `n` sequences that pass together."""
    K, d = w.E.shape
    T = len(w.pos)
    C = K + T
    spare = -2 * C % SOME  # columns of the scores of 2C rows, so that a row has whole vectors (`numba_vectors`)
    return {"K": K, "T": T, "C": C, "S": 2 * C + spare, "d": d, "dh": w.Q1.shape[1], "h": len(w.W_out),
            "N": w.U.shape[1], "n": n}  # fmt: skip


@cache
def _declared(kind: Any) -> dict[str, list[str]]:
    """The axes of each matrix of a class of `numba_arrays`, such as ["C", "2*T"]."""
    return {name: hint.dim_str.split() for name, hint in get_type_hints(kind).items()}


def _shapes(kind: Any, sizes: dict[str, int]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(_length(axis, sizes) for axis in axes) for name, axes in _declared(kind).items()}


def _length(axis: str, sizes: dict[str, int]) -> int:
    """The length of an axis such as "T", "n*T" or "4*C+1"."""
    product, _, more = axis.partition("+")
    return prod(sizes[factor] if factor in sizes else int(factor) for factor in product.split("*")) + int(more or 0)


def _size(shapes: Mapping[str, tuple[int, ...]]) -> int:
    """Numbers of matrices of these shapes, each from a line of the cache on."""
    return sum(-(-prod(shape) // LINE) * LINE for shape in shapes.values())


def _matrices(kind: Any, sizes: dict[str, int], memory: np.ndarray | None = None) -> Any:
    """Matrices by name, one after the other in memory, and 0: numbers below 1e-38 make products slow."""
    shapes = _shapes(kind, sizes)
    memory = torch.zeros(_size(shapes)).numpy() if memory is None else memory
    matrices, start = {}, 0
    for name, shape in shapes.items():
        matrices[name] = memory[start : start + prod(shape)].reshape(shape)
        start += -(-prod(shape) // LINE) * LINE
    return kind(**matrices)
