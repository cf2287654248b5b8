"""The passes of `TableForward` for one model on a CPU, in memory that is allocated once, on one thread or several.

As nothing moves, what happens between two operations of torch is a series of calls that is made once. Each thread has
a part of the sequences, up to the gradients of what all of them share. A test holds logits and gradients equal to those
of `TableForward`, which explains the formulas.
"""

from __future__ import annotations

import torch
from torch import Tensor

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


class SingleModelPasses:
    """Forward and backward pass for batches of one size, made once for many steps.

    Weights and gradients have to stay where they are in memory.
    """

    def __init__(self, w: Weights, grads: Weights, batch: int, equals: int, scale: float):
        (K, d), (T, dh), (h, N) = w.E.shape, (len(w.pos), w.Q1.shape[1]), (len(w.W_out), w.U.shape[1])
        C, new, t = K + T, w.E.new_empty, Tables.room(w)
        (scores_1, factors), read_out = new(2, C, C), new(h, N)
        self._w, self._grads, self._t, self._equals = w, grads, t, equals
        self._factors, self._tokens = factors, torch.empty(batch, T, dtype=torch.int64)
        self._logits, self._grad = new(2, batch, N)
        self._n_parts = n_parts = parts_of(batch)
        self._tables = _together(
            n_parts,
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
                bind(functions.below_largest_call, [scores_1, factors], C, T),
                product(w.W_out, w.U, read_out),
            ),
        )
        batches = zip(*(x.tensor_split(n_parts) for x in (self._tokens, self._logits, self._grad)), strict=True)
        parts = [
            _Part(w, t, (scores_1, factors), read_out, grads if i == 0 else None, *x) for i, x in enumerate(batches)
        ]
        self._forward = _together(n_parts, *(part.forward for part in parts))
        self._backward = _together(n_parts, *(part.backward for part in parts))
        self._sums = [part.sums for part in parts]

        g_scores_1, g_scores_2, g_outputs, g_read_out, *_ = self._sums[0]
        g_rows, g_through_scores = new(2 * C, d), new(C, d)
        (g_queries_1, g_keys_1, g_values_1), g_queries_2, (g_OV2, g_QK2) = new(3, C, dh), new(C + 1, d), new(2, d, d)
        (g_equal, g_out2), (g_embeddings, g_outputs_1) = g_outputs.split([C + 1, 2 * C]), g_rows.split(C)
        self._g_equal, self._g_outputs_1 = g_equal, g_outputs_1
        self._g_embeddings, self._g_through_scores = g_embeddings, g_through_scores
        self._to_tables = _together(
            n_parts,
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
                (g_read_out, w.T.U, grads.W_out),
                (w.T.W_out, g_read_out, grads.U, 1, 1),
                (g_scores_1, t.keys_1, g_queries_1, scale),
                (g_scores_1.mT, t.queries_1, g_keys_1, scale),
                (t.T.embeddings, g_queries_1, grads.Q1),
                (t.T.embeddings, g_keys_1, grads.K1),
                (g_queries_1, w.T.Q1, g_through_scores),
                (g_keys_1, w.T.K1, g_through_scores, 1, 1),
            ),
        )
        self._to_values = products(
            (t.T.values_1, g_outputs_1, grads.O1),
            (g_outputs_1, w.T.O1, g_values_1),
            (t.T.embeddings, g_values_1, grads.V1),
            (g_values_1, w.T.V1, g_embeddings, 1, 1),
        )

    def fits(self, batch: int) -> bool:
        """Whether these are the passes of such a batch, also after torch was given more or fewer threads."""
        return batch == len(self._tokens) and self._n_parts == parts_of(batch)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits (B, N), which the next pass overwrites."""
        w = self._w
        if tokens.shape != self._tokens.shape:  # compiled functions would read past the end of an array
            raise ValueError(f"tokens have shape {tuple(tokens.shape)}: expected {tuple(self._tokens.shape)}")
        self._tokens.copy_(tokens)
        torch.cat([w.E, w.pos], out=self._t.embeddings)
        torch.add(w.E[self._equals], w.pos[-1], out=self._t.constant[0])
        self._tables()
        self._factors.exp_()
        self._forward()
        return self._logits

    def backward(self, grad: Tensor) -> None:
        """Writes the gradients of sum(logits * grad) for the sequences of the last forward pass."""
        K, C = len(self._w.E), len(self._t.embeddings)
        if grad.shape != self._grad.shape:
            raise ValueError(f"grad has shape {tuple(grad.shape)}: expected {tuple(self._grad.shape)}")
        self._grad.copy_(grad)
        self._backward()
        for sums in self._sums[1:]:
            torch._foreach_add_(self._sums[0], sums)
        self._to_tables()
        self._g_outputs_1 += self._g_equal[:C]
        self._g_embeddings[self._equals :: C - 1 - self._equals] += self._g_equal[C]  # rows of `=` and of its position
        self._to_values()
        torch.add(self._g_embeddings[:K], self._g_through_scores[:K], out=self._grads.E)
        torch.add(self._g_embeddings[K:], self._g_through_scores[K:], out=self._grads.pos)


def _together(n_parts: int, *calls: Call) -> Call:
    """The calls at once if a batch has several parts, otherwise one after the other."""
    return side_by_side(*map(on_one_thread, calls)) if n_parts > 1 else series(*calls)


class _Part:
    """Memory and calls of the passes for some of the sequences; `sums` are gradients of what all sequences share."""

    def __init__(
        self, w: Weights, t: Tables, scores_1: tuple[Tensor, Tensor], read_out: Tensor, grads: Weights | None,
        tokens: Tensor, logits: Tensor, grad: Tensor,
    ):  # fmt: skip
        (B, T), (C, d), (h, N), new = tokens.shape, t.embeddings.shape, read_out.shape, w.E.new_empty
        attention_1, (attention_2, copied, g_scores, g_passed_on) = new(B, T, T), new(4, B, T)
        (usage, g_usage), (scores_2, g_both) = new(2, B, 3 * C + 1), new(2, B, 2 * C)
        first, g_first = usage[:, : C + 1], g_usage[:, : C + 1]
        (resid_mid, g_resid), (neurons, g_neurons) = new(2, B, d), new(2, B, h)
        self.forward = series(
            bind(functions.layer_1_call, [*scores_1, tokens, attention_1, usage], B, T, C),
            product(first, t.T.scores_2, scores_2),
            bind(functions.layer_2_call, [scores_2, tokens, attention_1, attention_2, copied, usage], B, T, C),
            product(usage, t.outputs, resid_mid),
            product(resid_mid, w.W_in, neurons),
            bind(functions.relu_call, [neurons], B * h),
            product(neurons, read_out, logits),
            product(resid_mid, w.U, logits, 1, 1),
        )
        g_scores_1, g_scores_2, g_outputs, g_read_out = new(C, C), new(2 * C, C + 1), new(3 * C + 1, d), new(h, N)
        g_W_in, g_U = (grads.W_in, grads.U) if grads else (new(d, h), new(d, N))
        self.sums = [g_scores_1, g_scores_2, g_outputs, g_read_out, g_W_in, g_U]
        shared = g_usage, tokens, attention_1, attention_2
        self.backward = series(
            product(grad, w.T.U, g_resid),
            product(neurons.mT, grad, g_read_out),
            product(resid_mid.mT, grad, g_U),
            product(grad, read_out.mT, g_neurons),
            bind(functions.gate_call, [neurons, g_neurons], B * h),
            product(resid_mid.mT, g_neurons, g_W_in),
            product(g_neurons, w.T.W_in, g_resid, 1, 1),
            product(g_resid, t.T.outputs, g_usage),
            product(usage.mT, g_resid, g_outputs),
            bind(functions.layer_2_backward_call, [*shared, g_scores, g_passed_on, g_both], B, T, C),
            product(g_both.mT, first, g_scores_2),
            product(g_both, t.scores_2, g_first, 1, 1),
            bind(functions.layer_1_backward_call, [*shared, copied, g_scores, g_passed_on, g_scores_1], B, T, C),
        )
