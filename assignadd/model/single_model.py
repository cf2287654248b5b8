"""The passes of `TableForward` for one model on a CPU, in memory that is allocated once, on one thread or several.

As nothing moves, what happens between two operations of torch is a series of calls that is made once. Each thread has
a part of the sequences, up to the gradients of what all of them share. A test holds logits and gradients equal to those
of `TableForward`, which explains the formulas.
"""

from __future__ import annotations

import torch
from torch import Tensor

from assignadd.model.kernels import numba_elementwise as elementwise
from assignadd.model.kernels import numba_functions as functions
from assignadd.model.kernels.blas import on_one_thread, product, products
from assignadd.model.kernels.calls import Call, bind, has_threads, series, side_by_side
from assignadd.model.trace import Tables, Weights

# Sequences that a part has at least: small products are slow, and each part's gradients are added to the first's.
FEWEST_SEQUENCES = 64


def parts_of(batch: int) -> int:
    """Into how many parts a batch of this size is divided: with MKL, as many as torch has threads.

    MKL gains little from a second thread for products of this size. OpenBLAS, on ARM, gains more, and has all threads
    for each product.
    """
    threaded = torch.backends.mkl.is_available() and has_threads()
    return max(1, min(torch.get_num_threads(), batch // FEWEST_SEQUENCES)) if threaded else 1


class SingleModelForward:
    """The forward pass for batches of one size or smaller. The weights have to stay where they are in memory."""

    def __init__(self, w: Weights, batch: int, equals: int, scale: float):
        C, T, h, N, new = len(w.E) + len(w.pos), len(w.pos), len(w.W_out), w.U.shape[1], w.E.new_empty
        self._n_parts = parts_of(batch)
        # MKL takes less time for a product whose rows have a multiple of 16 numbers.
        self._t = t = Tables.room(w, spare=-(3 * C + 1) % 16)
        (scores_1, self._factors), read_out = new(2, C, C), new(h, N)
        self._tokens, self._logits = torch.zeros(batch, T, dtype=torch.int64), new(batch, N)
        self._write_embeddings = series(
            _copy(w.E, t.embeddings[:-T]),
            _copy(w.pos, t.embeddings[-T:]),
            _add(w.E[equals], w.pos[-1], t.constant[0]),
        )
        self._write_tables = self._together(
            products(
                (w.Q2, w.T.K2, t.QK2, scale),
                (t.embeddings, w.V1, t.values_1),
                (t.values_1, w.O1, t.outputs_1),
                (w.V2, w.O2, t.OV2),
                (t.equal_rows, t.QK2, t.queries_2),
                (t.both, t.OV2, t.outputs_2),
                (t.both, t.T.queries_2, t.scores_2),
            ),
            series(
                product(t.embeddings, w.Q1, t.queries_1),
                product(t.embeddings, w.K1, t.keys_1),
                product(t.queries_1, t.T.keys_1, scores_1, scale),
                bind(functions.below_largest_call, [scores_1, self._factors], C, T),
                product(w.W_out, w.U, read_out),
            ),
        )
        batches = zip(*(x.tensor_split(self._n_parts) for x in (self._tokens, self._logits)), strict=True)
        self._parts = [_Part(w, t, (scores_1, self._factors), read_out, *own) for own in batches]
        self._forward = self._together(*(part.forward for part in self._parts))

    def write_tables(self) -> None:
        """Prepares `logits`, for the weights as they are now."""
        self._write_embeddings()
        self._write_tables()
        self._factors.exp_()

    def logits(self, tokens: Tensor) -> Tensor:
        """Logits (b, N) of up to a batch of sequences, which the next pass overwrites."""
        room, b = self._tokens, len(tokens)
        if tokens.shape != room[:b].shape:  # compiled functions would read past the end of an array
            most, T = room.shape
            raise ValueError(f"tokens have shape {tuple(tokens.shape)}: expected up to {most} sequences of {T} tokens")
        room[:b].copy_(tokens)
        self._forward()  # also of the sequences that are left from other passes, or of zeros
        return self._logits[:b]

    def _together(self, *calls: Call) -> Call:
        """The calls at once if a batch has several parts, otherwise one after the other."""
        return side_by_side(*map(on_one_thread, calls)) if self._n_parts > 1 else series(*calls)


class SingleModelPasses(SingleModelForward):
    """Forward and backward pass for batches of one size. Gradients, too, have to stay where they are in memory."""

    def __init__(self, w: Weights, grads: Weights, batch: int, equals: int, scale: float):
        super().__init__(w, batch, equals, scale)
        t, (h, d), dh, new = self._t, w.W_out.shape, w.Q1.shape[1], w.E.new_empty
        (K, _), C, self._grad = w.E.shape, len(t.embeddings), torch.empty_like(self._logits)
        own = zip(self._parts, self._grad.tensor_split(self._n_parts), strict=True)
        passes = [part.backward(grad, new(d, h) if i else grads.W_in) for i, (part, grad) in enumerate(own)]
        self._backward = self._together(*(backward for backward, _ in passes))
        self._sums = [sums for _, sums in passes]

        g_scores_1, g_scores_2, g_outputs, g_read_out, g_U, _ = self._sums[0]
        g_rows, g_through_scores = new(2 * C, d), new(C, d)
        (g_queries_1, g_keys_1, g_values_1), g_queries_2, (g_OV2, g_QK2) = new(3, C, dh), new(C + 1, d), new(2, d, d)
        (g_equal, g_out2), (g_embeddings, g_outputs_1) = g_outputs.split([C + 1, 2 * C]), g_rows.split(C)
        self._to_tables = self._together(
            products(
                (t.T.both, g_out2, g_OV2),
                (g_OV2, w.T.O2, grads.V2),
                (w.T.V2, g_OV2, grads.O2),
                (g_out2, t.T.OV2, g_rows),
                (g_scores_2, t.queries_2, g_rows, 1, 1),
                (g_scores_2.mT, t.both, g_queries_2),
                (t.T.equal_rows, g_queries_2, g_QK2, scale),
                (g_QK2, w.K2, grads.Q2),
                (g_QK2.mT, w.Q2, grads.K2),
                (g_queries_2, t.T.QK2, g_equal, 1, 1),
            ),
            products(
                (g_read_out.mT, w.T.U, grads.W_out),
                (g_read_out, w.W_out, g_U, 1, 1),
                (g_scores_1, t.keys_1, g_queries_1, scale),
                (g_scores_1.mT, t.queries_1, g_keys_1, scale),
                (t.T.embeddings, g_queries_1, grads.Q1),
                (t.T.embeddings, g_keys_1, grads.K1),
                (g_queries_1, w.T.Q1, g_through_scores),
                (g_keys_1, w.T.K1, g_through_scores, 1, 1),
            ),
        )
        self._to_weights = series(
            _add(g_outputs_1, g_equal[:C], g_outputs_1),
            *(_add(row, g_equal[C], row) for row in (g_embeddings[equals], g_embeddings[-1])),  # `=` and its position
            products(
                (t.T.values_1, g_outputs_1, grads.O1),
                (g_outputs_1, w.T.O1, g_values_1),
                (t.T.embeddings, g_values_1, grads.V1),
                (g_values_1, w.T.V1, g_embeddings, 1, 1),
            ),
            _add(g_embeddings[:K], g_through_scores[:K], grads.E),
            _add(g_embeddings[K:], g_through_scores[K:], grads.pos),
            bind(elementwise.transpose, [g_U, grads.U], *g_U.shape),
        )

    def fits(self, batch: int) -> bool:
        """Whether these are the passes of such a batch, also after torch was given more or fewer threads."""
        return batch == len(self._tokens) and self._n_parts == parts_of(batch)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits (B, N) of a whole batch, which the next pass overwrites."""
        if len(tokens) != len(self._tokens):
            raise ValueError(f"{len(tokens)} sequences: expected {len(self._tokens)}")
        self.write_tables()
        return self.logits(tokens)

    def backward(self, grad: Tensor) -> None:
        """Writes the gradients of sum(logits * grad) for the sequences of the last forward pass."""
        if grad.shape != self._grad.shape:
            raise ValueError(f"grad has shape {tuple(grad.shape)}: expected {tuple(self._grad.shape)}")
        self._grad.copy_(grad)
        self._backward()
        for sums in self._sums[1:]:
            torch._foreach_add_(self._sums[0], sums)
        self._to_tables()
        self._to_weights()


def _copy(x: Tensor, out: Tensor) -> Call:
    """out = x"""
    assert x.shape == out.shape
    return bind(elementwise.copy, [x, out], out.numel())


def _add(x: Tensor, y: Tensor, out: Tensor) -> Call:
    """out = x + y"""
    assert x.shape == y.shape == out.shape
    return bind(elementwise.add, [x, y, out], out.numel())


class _Part:
    """Memory and calls of the passes for some of the sequences."""

    def __init__(
        self, w: Weights, t: Tables, scores_1: tuple[Tensor, Tensor], read_out: Tensor, tokens: Tensor, logits: Tensor
    ):
        (B, T), (C, d), (h, _), new = tokens.shape, t.embeddings.shape, read_out.shape, w.E.new_empty
        self._w, self._t, self._read_out, self._tokens = w, t, read_out, tokens
        self._attention_1, self._attention_2, self._copied = new(B, T, T), new(B, T), new(B, T)
        self._usage, self._resid_mid, self._neurons = new(B, len(t.outputs_and_spare)), new(B, d), new(B, h)
        self._sizes, scores_2 = (B, T, C, self._usage.shape[1]), new(B, 2 * C)
        attention = self._attention_1, self._attention_2, self._copied
        self.forward = series(
            bind(functions.layer_1_call, [*scores_1, tokens, self._attention_1, self._usage], *self._sizes),
            product(self._usage[:, : C + 1], t.T.scores_2, scores_2),
            bind(functions.layer_2_call, [scores_2, tokens, *attention, self._usage], *self._sizes),
            product(self._usage[:, : 3 * C + 1], t.outputs, self._resid_mid),
            product(self._resid_mid, w.W_in, self._neurons),
            bind(elementwise.relu, [self._neurons], B * h),
            product(self._neurons, read_out, logits),
            product(self._resid_mid, w.U, logits, 1, 1),
        )

    def backward(self, grad: Tensor, g_W_in: Tensor) -> tuple[Call, list[Tensor]]:
        """The calls of the backward pass, and the gradients that it writes: of what all sequences share."""
        w, t, usage, resid_mid, neurons = self._w, self._t, self._usage, self._resid_mid, self._neurons
        new = grad.new_empty
        (B, T, C, _), (h, N), d = self._sizes, self._read_out.shape, len(g_W_in)
        g_usage, g_resid, g_neurons = map(torch.empty_like, (usage, resid_mid, neurons))
        g_both, g_scores, g_passed_on = new(B, 2 * C), new(B, T), new(B, T)
        first, g_first = usage[:, : C + 1], g_usage[:, : C + 1]
        g_scores_1, g_scores_2, g_outputs = new(C, C), new(2 * C, C + 1), new(3 * C + 1, d)
        g_read_out, g_U = new(N, h), new(N, d)  # transposed: with N columns, MKL would take longer
        shared = g_usage, self._tokens, self._attention_1, self._attention_2
        of_layer_1 = self._copied, g_scores, g_passed_on, g_scores_1
        backward = series(
            product(grad, w.T.U, g_resid),
            product(grad.mT, neurons, g_read_out),
            product(grad.mT, resid_mid, g_U),
            product(grad, self._read_out.mT, g_neurons),
            bind(elementwise.gate, [neurons, g_neurons], B * h),
            product(resid_mid.mT, g_neurons, g_W_in),
            product(g_neurons, w.T.W_in, g_resid, 1, 1),
            product(g_resid, t.T.outputs_and_spare, g_usage),
            product(usage[:, : 3 * C + 1].mT, g_resid, g_outputs),
            bind(functions.layer_2_backward_call, [*shared, g_scores, g_passed_on, g_both], *self._sizes),
            product(g_both.mT, first, g_scores_2),
            product(g_both, t.scores_2, g_first, 1, 1),
            bind(functions.layer_1_backward_call, [*shared, *of_layer_1], *self._sizes),
        )
        return backward, [g_scores_1, g_scores_2, g_outputs, g_read_out, g_U, g_W_in]
