"""Training and answers of one model on a CPU by compiled code (`kernels.numba_step`): memory, threads, checks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache, lru_cache
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
# For the loss and gradient of one batch alone: no weight is updated, and one learning rate makes it one step.
NO_WEIGHTS = np.zeros(0, np.float32)
NO_UPDATE = numba_arrays.Update(
    weights=NO_WEIGHTS,
    grad=NO_WEIGHTS,
    mean=NO_WEIGHTS,
    square=NO_WEIGHTS,
    rates=np.zeros(1),
    settings=(0.0, 0.0, 0.0, 0.0),
    first_step=0,
)


def threads_for(sequences: int) -> int:
    """On how many threads so many sequences pass: as many as torch has, unless each would have too few of them."""
    if not has_threads():
        return 1
    return max(1, min(torch.get_num_threads(), sequences // FEWEST_SEQUENCES))


def chunk_size(sequences: int) -> int:
    """How many of so many sequences pass together: a chunk with MKL, all with other libraries, which gain little."""
    return min(sequences, CHUNK) if torch.backends.mkl.is_available() else sequences


class CompiledGradient:
    """Computes loss and gradient of one model, or trains it for several steps, in the memory of its stack of one."""

    def __init__(self, stack: Stack):
        self.flat = torch.empty_like(stack.flat)
        """The gradient, (1, P)."""
        self._stack, self._table = stack, TableForward(stack.config)
        self._constants = numba_arrays.Constants(
            self._table.equals, self._table.scale, stack.config.numerics.loss_in_float64
        )
        self._weights = _arrays_of_one(stack.weights)
        self._grads = _arrays_of_one(views(stack.config, self.flat))
        self._memory: TrainingMemory | None = None

    def __call__(self, batch: Batch) -> Tensor:
        """The mean cross entropy of a batch, (1, B, T), as a tensor (1,); writes its gradient into `flat`."""
        loss = self.flat.new_empty(1)
        self._run(batch, loss, torch.full((1,), -1), NO_UPDATE)  # -1: it has not diverged
        return loss

    def train(
        self, batches: Batch, loss: Tensor, diverged_at: Tensor, moments: Moments, rates: Tensor, first: int
    ) -> None:
        """Takes a training step with each of these batches, (n, 1, B, T), at its learning rate of `rates`, (n,).

        `first` updates were made before. Writes the last batch's loss into `loss`, (1,). At a loss that is not finite,
        its step is written into `diverged_at`, (1,), and nothing more is trained.
        """
        (optim,) = moments.optims  # of the only model
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
        """Takes a step for each of the update's learning rates by compiled code, on every thread.

        The shapes are checked here: compiled code would read past the end of an array.
        """
        B, T = batches.tokens.shape[-2:]
        n_sequences = len(update.rates) * B
        if T != self._table.T or batches.tokens.numel() != n_sequences * T:
            raise ValueError(f"tokens have shape {tuple(batches.tokens.shape)}: expected sequences of {self._table.T}")
        if batches.labels.numel() != n_sequences or batches.labels.shape[-1] != B:
            raise ValueError(f"labels have shape {tuple(batches.labels.shape)}: expected {B} for each batch")
        memory = self._memory_for(B)
        shared = numba_arrays.Shared(
            self._weights, self._grads, memory.tables, memory.g_tables, memory.sums[0], memory.all_sums
        )
        arrays = numba_arrays.Batches(
            tokens=_integers(batches.tokens).reshape(n_sequences, T),
            labels=_integers(batches.labels).reshape(n_sequences),
            losses=memory.losses,
            loss=loss.numpy(),
            diverged_at=diverged_at.numpy(),
        )
        arguments = []  # of `train` on each thread
        for chunk, sums in zip(memory.chunks, memory.sums, strict=True):
            arguments.append((shared, chunk, sums, arrays, update, self._constants))
        on_threads(numba_step.train, arguments)

    def _memory_for(self, batch_size: int) -> TrainingMemory:
        """Memory for batches of this size, made anew where the size or torch's number of threads has changed."""
        memory, threads = self._memory, threads_for(batch_size)
        if memory is None or len(memory.losses) != batch_size or len(memory.chunks) != threads:
            memory = self._memory = TrainingMemory(self._weights, batch_size, threads)
        return memory


class TrainingMemory:
    """What a training step writes besides gradients and weights; chunks and sums are one for each thread."""

    def __init__(self, w: numba_arrays.Weights, batch_size: int, threads: int):
        sizes = _sizes(w, chunk_size(math.ceil(batch_size / threads)))
        self.losses = np.zeros(batch_size, np.float32)
        self.tables = _matrices(numba_arrays.Tables, sizes)
        self.g_tables = _matrices(numba_arrays.Tables, sizes)
        self.chunks = [_matrices(numba_arrays.Chunk, sizes) for _ in range(threads)]
        self.all_sums = torch.zeros(threads, _size(_shapes(numba_arrays.Sums, sizes))).numpy()
        """The memory of all `sums`, (threads, numbers): those of two threads are added without asking what they are."""
        self.sums = [_matrices(numba_arrays.Sums, sizes, memory) for memory in self.all_sums]


def answer_logits(w: Weights, tokens: Tensor, equals: int, scale: float) -> Tensor:
    """Logits (n, N) of one model for any number of sequences, (n, T), in compiled code.

    `equals` is the token `=`, `scale` is 1 / sqrt(d_head).
    """
    if tokens.shape[1:] != (len(w.pos),):
        raise ValueError(f"tokens have shape {tuple(tokens.shape)}: expected sequences of {len(w.pos)} tokens")
    weights, logits = _arrays(w), np.empty((len(tokens), w.U.shape[1]), np.float32)
    threads = threads_for(len(tokens))
    sizes = _sizes(weights, max(1, chunk_size(math.ceil(len(tokens) / threads))))
    tables, chunks = _answer_memory(tuple(sizes.items()), threads, get_ident())
    sequences = _integers(tokens)
    # Each thread has the same arguments but a chunk of its own.
    on_threads(numba_step.answer, [(weights, tables, chunk, sequences, logits, equals, scale) for chunk in chunks])
    return torch.from_numpy(logits)


@lru_cache(maxsize=4)
def _answer_memory(
    sizes: tuple[tuple[str, int], ...], threads: int, caller: int
) -> tuple[numba_arrays.Tables, list[numba_arrays.Chunk]]:
    """Tables, and a chunk for each thread, for answers of models of these sizes; they are made once.

    `caller` is the thread of Python that asks. It is not read: because of it, each caller has memory of its own.
    """
    tables = _matrices(numba_arrays.Tables, dict(sizes))
    chunks = [_matrices(numba_arrays.Chunk, dict(sizes)) for _ in range(threads)]
    return tables, chunks


def _arrays(w: Weights) -> numba_arrays.Weights:
    """The weights as arrays, which are views of the tensors where these are contiguous."""
    arrays = {name: getattr(w, name).detach().contiguous().numpy() for name in numba_arrays.Weights._fields}
    return numba_arrays.Weights(**arrays)


def _arrays_of_one(stacked: Mapping[str, Tensor]) -> numba_arrays.Weights:
    """The weights, by name, of a stack of one model as arrays without the axis M."""
    return _arrays(Weights.of({name: weight[0] for name, weight in stacked.items()}))


def _integers(x: Tensor) -> np.ndarray:
    """The numbers as an array of 64-bit integers without gaps, which is what the compiled functions take."""
    return x.to(torch.int64).contiguous().numpy()


def _sizes(w: numba_arrays.Weights, n: int) -> dict[str, int]:
    """The value of each letter in the shapes that `numba_arrays` declares, for `n` sequences that pass together."""
    K, d = w.E.shape
    T = len(w.pos)
    C = K + T
    S = math.ceil(2 * C / SOME) * SOME  # 2C, and as many more as make whole vectors (`numba_vectors`)
    return {
        "K": K,
        "T": T,
        "C": C,
        "S": S,
        "d": d,
        "dh": w.Q1.shape[1],
        "h": len(w.W_out),
        "N": w.U.shape[1],
        "n": n,
    }


@cache
def _declared(kind: Any) -> dict[str, list[str]]:
    """For each matrix of a class of `numba_arrays`, its axes as they are declared, such as ["n", "3*T+1"]."""
    return {name: hint.dim_str.split() for name, hint in get_type_hints(kind).items()}  # hints are jaxtyping's


def _shapes(kind: Any, sizes: dict[str, int]) -> dict[str, tuple[int, ...]]:
    """The shape of each matrix of a class of `numba_arrays`, for these sizes."""
    shapes = {}
    for name, axes in _declared(kind).items():
        shapes[name] = tuple(_length(axis, sizes) for axis in axes)
    return shapes


def _length(axis: str, sizes: dict[str, int]) -> int:
    """The length of an axis such as "T", "n*T" or "4*C+1": a product of letters and numbers, perhaps plus a number."""
    product, _, added = axis.partition("+")
    length = 1
    for factor in product.split("*"):
        length *= sizes[factor] if factor in sizes else int(factor)
    return length + int(added or 0)


def _size(shapes: Mapping[str, tuple[int, ...]]) -> int:
    """How many numbers matrices of these shapes take in memory, one after the other."""
    return sum(_whole_lines(shape) for shape in shapes.values())


def _whole_lines(shape: tuple[int, ...]) -> int:
    """How many numbers a matrix takes if the next one begins at a line of the cache."""
    return math.ceil(math.prod(shape) / LINE) * LINE


def _matrices(kind: Any, sizes: dict[str, int], memory: np.ndarray | None = None) -> Any:
    """The matrices of a class of `numba_arrays` for these sizes, one after the other in memory, new by default.

    New memory is 0, as matrix products read a few numbers that nothing writes, and numbers below 1e-38 make them slow.
    """
    shapes = _shapes(kind, sizes)
    memory = torch.zeros(_size(shapes)).numpy() if memory is None else memory
    matrices, start = {}, 0
    for name, shape in shapes.items():
        matrices[name] = memory[start : start + math.prod(shape)].reshape(shape)
        start += _whole_lines(shape)
    return kind(**matrices)
