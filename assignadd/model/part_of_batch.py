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
from assignadd.model.kernels.blas import product
from assignadd.model.kernels.calls import Call, bind, series
from assignadd.model.trace import Tables, Weights

# Sequences of a chunk: with half or twice as many, a step of the paper's model takes longer.
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
    scores_2_T: Tensor  # (C + 1, 2C)
    read_out: Tensor  # (h, N)


@dataclass
class Transposed:
    """What the backward pass reads besides: a part's own copies, made when it has just read the matrices themselves."""

    U_T: Tensor  # (N, d)
    W_in_T: Tensor  # (h, d)
    read_out_T: Tensor  # (N, h)
    outputs_T: Tensor  # (d, 3C + 1 and spare columns)


class Gradients:
    """Those of what all sequences share, added up over the chunks of a part."""

    def __init__(self, shared: Shared, g_W_in: Tensor):
        t, (d, h), N, new = shared.t, g_W_in.shape, shared.read_out.shape[1], g_W_in.new_empty
        C, width = len(t.embeddings), len(t.outputs_and_spare)
        self.scores_1, self.scores_2, self.W_in = new(C, C), new(2 * C, C + 1), g_W_in
        # With fewer columns than rows, MKL would take longer for these.
        self.read_out_T, self.U_T, self.outputs_T = new(N, h), new(N, d), new(d, width)

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
    usage: Tensor
    scores_2: Tensor  # and then their gradient
    resid_mid: Tensor
    neurons: Tensor
    g_logits: Tensor
    g_neurons: Tensor
    g_resid: Tensor
    g_usage: Tensor
    g_scores: Tensor
    g_passed_on: Tensor

    @classmethod
    def of(cls, shared: Shared, n: int, T: int) -> Room:
        """Memory for `n` sequences."""
        (C, d), (h, N), width = shared.t.embeddings.shape, shared.read_out.shape, len(shared.t.outputs_and_spare)
        forward = (T, T), (T,), (T,), (width,), (2 * C,), (d,), (h,)
        shapes = *forward, (N,), (h,), (d,), (width,), (T,), (T,)
        return cls(*(shared.read_out.new_zeros(n, *shape) for shape in shapes))

    def first(self, n: int) -> Room:
        return Room(*(x[:n] for x in vars(self).values()))


class Part:
    """Memory and calls of the passes for some of the sequences."""

    def __init__(self, shared: Shared, tokens: Tensor, logits: Tensor, answers: Tensor):
        (B, T), self._n, self._shared = tokens.shape, chunk_size(len(tokens)), shared
        self._sizes = T, len(shared.t.embeddings), len(shared.t.outputs_and_spare)
        room = Room.of(shared, self._n, T)
        self._chunks = [
            (room.first(len(own)), own, its_logits)
            for own, its_logits in zip(tokens.split(self._n), logits.split(self._n), strict=True)
        ]
        self._forwards = [self._forward(*chunk) for chunk in self._chunks]
        self.forward = series(*self._forwards)
        self.answer = bind(functions.answers_call, [logits, answers], B, logits.shape[1])

    def _forward(self, r: Room, tokens: Tensor, logits: Tensor) -> Call:
        """The calls of a chunk's forward pass."""
        w, t, sizes, C = self._shared.w, self._shared.t, (len(tokens), *self._sizes), self._sizes[1]
        attention = r.attention_1, r.attention_2, r.copied
        return series(
            bind(functions.layer_1_call, [*self._shared.scores_1, tokens, r.attention_1, r.usage], *sizes),
            product(r.usage[:, : C + 1], self._shared.scores_2_T, r.scores_2),
            bind(functions.layer_2_call, [r.scores_2, tokens, *attention, r.usage], *sizes),
            product(r.usage[:, : 3 * C + 1], t.outputs, r.resid_mid),
            product(r.resid_mid, w.W_in, r.neurons),
            bind(elementwise.relu, [r.neurons], r.neurons.numel()),
            product(r.neurons, self._shared.read_out, logits),
            product(r.resid_mid, w.U, logits, 1, 1),
        )

    def passes(self, labels: Tensor, losses: Tensor, sums: Gradients, n_all: int, loss_in_double: bool) -> Call:
        """The calls of both passes and of the loss, the mean of which is over `n_all` sequences."""
        w, t = self._shared.w, self._shared.t
        read, transpose = zip(*map(transposed, (w.U, w.W_in, self._shared.read_out, t.outputs_and_spare)), strict=True)
        calls = list[Call]()
        for i, (own_labels, own_losses) in enumerate(zip(labels.split(self._n), losses.split(self._n), strict=True)):
            r, tokens, logits = self._chunks[i]
            given = [logits, own_labels, own_losses, r.g_logits]
            loss = bind(functions.cross_entropy_call, given, *logits.shape, n_all, loss_in_double)
            run = self._backward(Transposed(*read), r, tokens, sums, kept=float(i > 0))
            calls += [self._forwards[i], loss, run]
        begin = bind(elementwise.clear, [sums.scores_1], sums.scores_1.numel())
        return series(begin, calls[0], *chain(*transpose), *calls[1:])

    def _backward(self, more: Transposed, r: Room, tokens: Tensor, sums: Gradients, kept: float) -> Call:
        """The calls of a chunk's backward pass, which keep `kept` times the gradients of those before."""
        sizes, of_layer_1 = (len(tokens), *self._sizes), slice(self._sizes[1] + 1)
        given = r.g_usage, tokens, r.attention_1, r.attention_2
        return series(
            product(r.g_logits, more.U_T, r.g_resid),
            product(r.g_logits.mT, r.neurons, sums.read_out_T, 1, kept),
            product(r.g_logits.mT, r.resid_mid, sums.U_T, 1, kept),
            product(r.g_logits, more.read_out_T, r.g_neurons),
            bind(elementwise.gate, [r.neurons, r.g_neurons], r.neurons.numel()),
            product(r.resid_mid.mT, r.g_neurons, sums.W_in, 1, kept),
            product(r.g_neurons, more.W_in_T, r.g_resid, 1, 1),
            product(r.g_resid, more.outputs_T, r.g_usage),
            product(r.g_resid.mT, r.usage, sums.outputs_T, 1, kept),
            bind(backward.layer_2_backward_call, [*given, r.g_scores, r.g_passed_on, r.scores_2], *sizes),
            product(r.scores_2.mT, r.usage[:, of_layer_1], sums.scores_2, 1, kept),
            product(r.scores_2, self._shared.t.scores_2, r.g_usage[:, of_layer_1], 1, 1),
            bind(backward.layer_1_backward_call, [*given, r.copied, r.g_scores, r.g_passed_on, sums.scores_1], *sizes),
        )
