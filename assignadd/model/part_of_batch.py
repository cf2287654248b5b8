"""The passes of some sequences through one model, between its tables and their gradients, as calls of compiled code.

The sequences pass a chunk at a time, each chunk in the memory of the one before; in training, its backward pass follows
its forward pass at once. What is written is so little that it is still in the processor's cache when it is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

import torch
from torch import Tensor

from assignadd.model.kernels import numba_backward as backward
from assignadd.model.kernels import numba_elementwise as elementwise
from assignadd.model.kernels import numba_functions as functions
from assignadd.model.kernels import numba_rows as rows
from assignadd.model.kernels.blas import product
from assignadd.model.kernels.calls import Call, bind, compiled_call, series
from assignadd.model.table import Tables, Weights

# Sequences of a chunk. With fewer, a step of the paper's model takes longer; with more, as long or, in a small cache,
# longer.
CHUNK = 128


def chunk_size(sequences: int) -> int:
    """How many pass together: with MKL a chunk, with other libraries, which gain little from it, all of them."""
    return min(sequences, CHUNK) if torch.backends.mkl.is_available() else sequences


def transposed(matrix: Tensor) -> tuple[Tensor, list[Call]]:
    """The transpose of a matrix, to be the second factor of products, and the calls that write it.

    With MKL it is a copy: a product takes up to twice as long if its second factor is stored by columns.
    """
    if not torch.backends.mkl.is_available():
        return matrix.mT, []
    copy = matrix.new_empty(matrix.mT.shape)
    return copy, [bind(elementwise.transpose, [matrix, copy], *matrix.shape)]


@dataclass
class Shared:
    """What all sequences read in the forward pass. Here and below, a name with _T is that of a transposed matrix."""

    w: Weights
    t: Tables
    scores_1: Tensor  # (2, C, C), scores of layer 1 and their exponentials
    scores_2_T: Tensor  # (C + 1, 2C and spare columns), in place of t.scores_2
    positions: Tensor  # (3T + 1, d), the rows of `outputs` that all sequences have, in the order of `Room.used`
    read_out: Tensor  # (h, N)

    @classmethod
    def of(cls, w: Weights, t: Tables) -> Shared:
        """Memory for the rest. With spare columns, a row of scores has whole vectors (`numba_rows`).

        They are zeros: memory may hold numbers below 1e-38, which make a product several times slower.
        """
        (C, d), T, new = t.embeddings.shape, len(w.pos), w.E.new_empty
        scores_2_T = w.E.new_zeros(C + 1, 2 * C + -(2 * C) % rows.SOME)
        return cls(w, t, new(2, C, C), scores_2_T, new(3 * T + 1, d), new(len(w.W_out), w.U.shape[1]))


@dataclass
class Transposed:
    """What the backward pass reads besides: a part's own copies, made when it has just read the matrices themselves."""

    U_T: Tensor  # (N, d)
    W_in_T: Tensor  # (h, d)
    read_out_T: Tensor  # (N, h)
    positions_T: Tensor  # (d, 3T)
    positions_2: Tensor  # (2C and spare rows, T), the scores of positions


class Gradients:
    """Those of what all sequences share, added up over the chunks of a part."""

    def __init__(self, shared: Shared, g_W_in: Tensor):
        (h, N), d, like = shared.read_out.shape, len(g_W_in), torch.empty_like
        self.scores_1, self.scores_2_T = like(shared.scores_1[0]), like(shared.scores_2_T)
        self.outputs, self.positions, self.W_in = like(shared.t.outputs), like(shared.positions), g_W_in
        # With fewer columns than rows, MKL would take longer for these.
        self.read_out_T, self.U_T = g_W_in.new_empty(N, h), g_W_in.new_empty(N, d)

    def clear(self) -> list[Call]:
        """The calls that begin a batch: where sequences add to rows of their own, these are 0 before."""
        return [bind(elementwise.clear, [x], x.numel()) for x in (self.scores_1, self.scores_2_T, self.outputs)]

    def plus(self, other: Gradients) -> list[Call]:
        """The calls that add those of another part."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return [bind(elementwise.add, [own, more, own], own.numel()) for own, more in pairs]


@dataclass
class Room:
    """What the passes of a chunk write."""

    attention_1: Tensor  # 0 for keys after the query, to which nothing is written
    attention_2: Tensor
    copied: Tensor
    used: Tensor  # for each position, attention of `=` in layer 2, the same by way of layer 1, that in layer 1; then 1
    scores_2: Tensor  # and then their gradient
    resid_mid: Tensor
    neurons: Tensor
    g_logits: Tensor
    g_neurons: Tensor
    g_resid: Tensor
    g_used: Tensor
    g_scores: Tensor
    g_passed_on: Tensor

    @classmethod
    def of(cls, shared: Shared, n: int, T: int) -> Room:
        """Memory for `n` sequences."""
        (used, d), (h, N), width = shared.positions.shape, shared.read_out.shape, shared.scores_2_T.shape[1]
        forward = (T, T), (T,), (T,), (used,), (width,), (d,), (h,)
        shapes = *forward, (N,), (h,), (d,), (3 * T,), (T,), (T,)
        return cls(*(shared.read_out.new_zeros(n, *shape) for shape in shapes))

    def first(self, n: int) -> Room:
        return Room(*(x[:n] for x in vars(self).values()))


class Part:
    """Memory and calls of the passes for some of the sequences."""

    def __init__(self, shared: Shared, tokens: Tensor, logits: Tensor, answers: Tensor):
        (B, T), self._n, self._shared = tokens.shape, chunk_size(len(tokens)), shared
        self._sizes = T, len(shared.t.embeddings), shared.scores_2_T.shape[1]
        room = Room.of(shared, self._n, T)
        self._chunks = [
            (room.first(len(own)), own, its_logits)
            for own, its_logits in zip(tokens.split(self._n), logits.split(self._n), strict=True)
        ]
        self._forwards = [self._forward(*chunk) for chunk in self._chunks]
        self.forward = series(*self._forwards)
        self.answer = bind(functions.answers_call, [logits, answers], B, logits.shape[1])

    def _rows(self, function: compiled_call, table: Tensor, tokens: Tensor, used: Tensor, sums: Tensor) -> list[Call]:
        """Calls of `numba_rows` for the rows of tokens: those of layer 1 and, if the table has them, of layer 2."""
        T, C, _ = self._sizes
        places = ((0, 2 * T), (C + 1, 0), (2 * C + 1, T))[: len(table) // C]
        return [
            bind(function, [table[row:], tokens, used, sums], *tokens.shape, table.shape[1], used.shape[1], column)
            for row, column in places
        ]

    def _forward(self, r: Room, tokens: Tensor, logits: Tensor) -> Call:
        """The calls of a chunk's forward pass."""
        shared, w, (T, C, _) = self._shared, self._shared.w, self._sizes
        sizes, scores_2_T = (len(tokens), *self._sizes), shared.scores_2_T
        return series(
            bind(functions.layer_1_call, [*shared.scores_1, tokens, r.attention_1, r.used], *sizes),
            product(r.used[:, 2 * T :], scores_2_T[C - T :], r.scores_2),
            *self._rows(rows.add_rows, scores_2_T, tokens, r.used, r.scores_2),
            bind(functions.layer_2_call, [r.scores_2, tokens, r.attention_1, r.attention_2, r.copied, r.used], *sizes),
            product(r.used, shared.positions, r.resid_mid),
            *self._rows(rows.add_rows, shared.t.outputs, tokens, r.used, r.resid_mid),
            product(r.resid_mid, w.W_in, r.neurons),
            bind(elementwise.relu, [r.neurons], r.neurons.numel()),
            product(r.neurons, shared.read_out, logits),
            product(r.resid_mid, w.U, logits, 1, 1),
        )

    def passes(self, labels: Tensor, losses: Tensor, sums: Gradients, n_all: int, loss_in_double: bool) -> Call:
        """The calls of both passes and of the loss, the mean of which is over `n_all` sequences."""
        shared, w, (T, C, _) = self._shared, self._shared.w, self._sizes
        matrices = w.U, w.W_in, shared.read_out, shared.positions[:-1], shared.scores_2_T[C - T : C]
        read, transpose = zip(*map(transposed, matrices), strict=True)
        calls = list[Call]()
        for i, (own_labels, own_losses) in enumerate(zip(labels.split(self._n), losses.split(self._n), strict=True)):
            r, tokens, logits = self._chunks[i]
            given = [logits, own_labels, own_losses, r.g_logits]
            loss = bind(functions.cross_entropy_call, given, *logits.shape, n_all, loss_in_double)
            run = self._backward(Transposed(*read), r, tokens, sums, kept=float(i > 0))
            calls += [self._forwards[i], loss, run]
        return series(*sums.clear(), calls[0], *chain(*transpose), *calls[1:])

    def _backward(self, more: Transposed, r: Room, tokens: Tensor, sums: Gradients, kept: float) -> Call:
        """The calls of a chunk's backward pass, which keep `kept` times the gradients of those before."""
        shared, sizes, (T, C, _) = self._shared, (len(tokens), *self._sizes), self._sizes
        given = r.g_used, tokens, r.attention_1, r.attention_2
        return series(
            product(r.g_logits, more.U_T, r.g_resid),
            product(r.g_logits.mT, r.neurons, sums.read_out_T, 1, kept),
            product(r.g_logits.mT, r.resid_mid, sums.U_T, 1, kept),
            product(r.g_logits, more.read_out_T, r.g_neurons),
            bind(elementwise.gate, [r.neurons, r.g_neurons], r.neurons.numel()),
            product(r.resid_mid.mT, r.g_neurons, sums.W_in, 1, kept),
            product(r.g_neurons, more.W_in_T, r.g_resid, 1, 1),
            product(r.g_resid, more.positions_T, r.g_used),
            *self._rows(rows.add_to_weights, shared.t.outputs, tokens, r.g_used, r.g_resid),
            product(r.used.mT, r.g_resid, sums.positions, 1, kept),
            *self._rows(rows.add_rows_to_table, sums.outputs, tokens, r.used, r.g_resid),
            bind(backward.layer_2_backward_call, [*given, r.g_scores, r.g_passed_on, r.scores_2], *sizes),
            product(r.used[:, 2 * T :].mT, r.scores_2, sums.scores_2_T[C - T :], 1, kept),
            *self._rows(rows.add_rows_to_table, sums.scores_2_T, tokens, r.used, r.scores_2),
            product(r.scores_2, more.positions_2, r.g_used[:, 2 * T :], 1, 1),
            *self._rows(rows.add_to_weights, shared.scores_2_T, tokens, r.g_used, r.scores_2),
            bind(backward.layer_1_backward_call, [*given, r.copied, r.g_scores, r.g_passed_on, sums.scores_1], *sizes),
        )
