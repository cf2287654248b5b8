"""Training and answers of one model on a CPU by compiled code (`kernels.numba_step`): memory, threads, checks."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import prod
from threading import get_ident
from typing import Any

import numpy as np
import torch
from torch import Tensor

from assignadd.model.kernels import numba_step as step
from assignadd.model.kernels.blas import has_threads, on_threads
from assignadd.model.kernels.numba_vectors import SOME
from assignadd.model.kernels.tensor import Moments
from assignadd.model.table import Weights
from assignadd.task.sampler import Batch

# Sequences that pass together. With fewer, a step of the paper's model takes longer; with more, as long or, in a small
# cache, longer.
CHUNK = 128
# Sequences that a thread has at least: small products are slow, and each thread's gradients are added to the first's.
FEWEST_SEQUENCES = 64
# Numbers of a line of the processor's cache, where each matrix begins: this saves 5 % of a step.
LINE = 16
Shapes = Mapping[str, tuple[int, ...]]


def threads_for(sequences: int) -> int:
    """On how many threads so many sequences pass: on as many as torch has, unless they are few."""
    return max(1, min(torch.get_num_threads(), sequences // FEWEST_SEQUENCES)) if has_threads() else 1


def chunk_size(sequences: int) -> int:
    """How many sequences pass together: with MKL a chunk, with other libraries, which gain little from it, all."""
    return min(sequences, CHUNK) if torch.backends.mkl.is_available() else sequences


class TrainingMemory:
    """Loss, gradients and updates of one model for batches of one size.

    Weights and gradients, with what an update reads, stay where they are in memory.
    """

    def __init__(
        self,
        w: Weights,
        grads: Weights,
        batch: int,
        equals: int,
        scale: float,
        loss_in_double: bool = False,
    ):
        self._batch, self._threads, self._T = batch, threads_for(batch), len(w.pos)
        self._w, self._g = _arrays(w), _arrays(grads)
        self._losses, self._settings = np.zeros(batch, np.float32), (equals, scale, loss_in_double)
        shapes, n = _table_shapes(self._w), chunk_size(-(-batch // self._threads))
        self._tables, self._g_tables = (_matrices(step.Tables, shapes) for _ in range(2))
        self._chunks = [_matrices(step.Chunk, _chunk_shapes(self._w, n)) for _ in range(self._threads)]
        shapes = _sum_shapes(self._w)
        self._all_sums = torch.zeros(self._threads, _size(shapes)).numpy()
        self._sums = [_matrices(step.Sums, shapes, own) for own in self._all_sums]

    def fits(self, batch: int) -> bool:
        """Whether this is the memory for such a batch, also after torch was given more or fewer threads."""
        return batch == self._batch and self._threads == threads_for(batch)

    def gradient(self, tokens: Tensor, labels: Tensor, loss: Tensor) -> None:
        """Writes the mean cross entropy of a batch, (B, T) and (B,), into `loss`, of one element, and its gradient."""
        nothing = step.Update(*np.zeros((4, 0), np.float32))
        self._run(tokens, labels, loss, np.full(1, -1), nothing, np.zeros(1), 0, (0.0,) * 4)

    def train(
        self,
        batches: Batch,
        loss: Tensor,
        diverged_at: Tensor,
        flat: Tensor,
        grad: Tensor,
        moments: Moments,
        rates: Tensor,
        first: int,
    ) -> None:
        """The same for several batches, (n, B, T) and (n, B), with an update at its learning rate after each.

        The first is the update after `first` updates. A loss that is not finite notes its step in `diverged_at`, and
        nothing more is trained.
        """
        update = step.Update(*(x.view(-1).numpy() for x in (flat, grad, moments.mean, moments.square)))
        (o,) = moments.optims
        settings = o.weight_decay, o.beta1, o.beta2, o.eps
        self._run(batches.tokens, batches.labels, loss, diverged_at.numpy(), update, rates.numpy(), first, settings)

    def _run(
        self,
        tokens: Tensor,
        labels: Tensor,
        loss: Tensor,
        diverged_at: np.ndarray,
        update: step.Update,
        rates: np.ndarray,
        first: int,
        settings: tuple[float, float, float, float],
    ) -> None:
        B, n = self._batch, len(rates) * self._batch
        if tokens.numel() != n * self._T or tokens.shape[-2:] != (B, self._T):
            raise ValueError(f"tokens have shape {tuple(tokens.shape)}: expected sequences ({B}, {self._T})")
        if labels.numel() != n or labels.shape[-1] != B:
            raise ValueError(f"labels have shape {tuple(labels.shape)}: expected {B} for each batch")
        shared = (
            _integers(tokens).reshape(n, self._T), _integers(labels).reshape(n), self._losses, loss.numpy(),
            diverged_at, *self._settings, update, rates, first, settings,
        )  # fmt: skip
        memory = self._w, self._g, self._tables, self._g_tables
        on_threads(
            step.train,
            [
                (*memory, chunk, sums, self._sums[0], self._all_sums, *shared)
                for chunk, sums in zip(self._chunks, self._sums, strict=True)
            ],
        )


def answer_logits(w: Weights, tokens: Tensor, equals: int, scale: float) -> Tensor:
    """Logits (n, N) of any number of sequences, (n, T)."""
    if tokens.shape[1:] != (len(w.pos),):
        raise ValueError(f"tokens have shape {tuple(tokens.shape)}: expected sequences of {len(w.pos)} tokens")
    weights, logits = _arrays(w), np.empty((len(tokens), w.U.shape[1]), np.float32)
    threads = threads_for(len(tokens))
    shapes = tuple(x.shape for x in weights)
    tables, chunks = _answer_memory(shapes, max(1, chunk_size(-(-len(tokens) // threads))), threads, get_ident())
    read = _integers(tokens)
    on_threads(step.answer, [(weights, tables, chunk, read, logits, equals, scale) for chunk in chunks])
    return torch.from_numpy(logits)


@lru_cache(maxsize=4)
def _answer_memory(
    shapes: tuple[tuple[int, ...], ...], n: int, threads: int, caller: int
) -> tuple[step.Tables, list[step.Chunk]]:
    """Memory for answers of weights of these shapes; every thread of Python that calls has its own."""
    w = step.Weights(*(np.empty(shape, np.float32) for shape in shapes))
    chunks = [_matrices(step.Chunk, _chunk_shapes(w, n)) for _ in range(threads)]
    return _matrices(step.Tables, _table_shapes(w)), chunks


def _arrays(w: Weights) -> step.Weights:
    """The weights as arrays, in their own memory where it is contiguous."""
    return step.Weights(*(getattr(w, name).detach().contiguous().numpy() for name in step.Weights._fields))


def _integers(x: Tensor) -> np.ndarray:
    return x.to(torch.int64).contiguous().numpy()


def _table_shapes(w: step.Weights) -> Shapes:
    (K, d), T, dh, (h, _), N = w.E.shape, len(w.pos), w.Q1.shape[1], w.W_out.shape, w.U.shape[1]
    C = K + T
    return {
        "rows": (4 * C + 1, d),
        "queries_1": (C, dh),
        "keys_1": (C, dh),
        "values_1": (C, dh),
        "scores_1": (C, C),
        "factors_1": (C, C),
        "OV2": (d, d),
        "equal_Q2": (C + 1, dh),
        "queries_2": (C + 1, d),
        "scores_2_T": (C + 1, _width(C)),
        "positions": (3 * T + 1, d),
        "read_out": (h, N),
        "U_T": (N, d),
        "W_in_T": (h, d),
        "read_out_T": (N, h),
        "positions_T": (d, 3 * T),
        "position_scores_2": (_width(C), T),
    }


def _chunk_shapes(w: step.Weights, n: int) -> Shapes:
    (K, d), T, h, N = w.E.shape, len(w.pos), len(w.W_out), w.U.shape[1]
    return {
        "attention_1": (n * T, T),
        "attention_2": (n, T),
        "copied": (n, T),
        "used": (n, 3 * T + 1),
        "scores_2": (n, _width(K + T)),
        "resid_mid": (n, d),
        "neurons": (n, h),
        "logits": (n, N),
        "g_neurons": (n, h),
        "g_resid": (n, d),
        "g_used": (n, 3 * T),
        "g_scores": (n, T),
        "g_passed_on": (n, T),
        "g_by_key": (T + 1, T),
        "g_positions": (K + T, T),
    }


def _sum_shapes(w: step.Weights) -> Shapes:
    (K, d), T, h, N = w.E.shape, len(w.pos), len(w.W_out), w.U.shape[1]
    C = K + T
    return {
        "scores_1": (C, C),
        "scores_2_T": (C + 1, _width(C)),
        "outputs": (3 * C + 1, d),
        "positions": (3 * T + 1, d),
        "W_in": (d, h),
        "read_out_T": (N, h),
        "U_T": (N, d),
    }


def _width(C: int) -> int:
    """Columns of the scores of 2C rows, with spare ones so that a row has whole vectors (`numba_vectors`)."""
    return 2 * C + -2 * C % SOME


def _size(shapes: Shapes) -> int:
    """Numbers of matrices of these shapes, each from a line of the cache on."""
    return sum(-(-prod(shape) // LINE) * LINE for shape in shapes.values())


def _matrices(kind: Any, shapes: Shapes, memory: np.ndarray | None = None) -> Any:
    """Matrices by name, one after the other in memory, and 0: numbers below 1e-38 make products slow."""
    memory = torch.zeros(_size(shapes)).numpy() if memory is None else memory
    matrices, start = {}, 0
    for name, shape in shapes.items():
        matrices[name] = memory[start : start + prod(shape)].reshape(shape)
        start += -(-prod(shape) // LINE) * LINE
    return kind(**matrices)
