"""The passes of `TableForward` for one model on a CPU, in memory that is allocated once.

As nothing moves, the matrix products from one other operation to the next are a list that is made once and computed by
one call. A test holds logits and gradients equal to those of `TableForward`, which explains the formulas.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from assignadd.model.kernels import numba_cpu
from assignadd.model.kernels.blas import Products
from assignadd.model.trace import Tables, Weights


class SingleModelPasses:
    """Forward and backward pass for batches of one size, made once for many steps.

    Weights and gradients have to stay where they are in memory.
    """

    def __init__(self, w: Weights, grads: Weights, batch: int, equals: int, scale: float):
        (K, d), (T, dh), (h, N), B = w.E.shape, (len(w.pos), w.Q1.shape[1]), (len(w.W_out), w.U.shape[1]), batch
        C, new, t = K + T, w.E.new_empty, Tables.room(w)
        scores_1, g_scores_1, factors = new(3, C, C)
        attention_1, (attention_2, copied, g_scores, g_passed_on) = new(B, T, T), new(4, B, T)
        (usage, g_usage), (scores_2, g_both) = new(2, B, 3 * C + 1), new(2, B, 2 * C)
        first, g_first = usage[:, : C + 1], g_usage[:, : C + 1]
        (resid_mid, g_resid), (neurons, g_neurons) = new(2, B, d), new(2, B, h)
        (read_out, g_read_out), (logits, grad) = new(2, h, N), new(2, B, N)
        self.batch, self._w, self._grads, self._t, self._equals = batch, w, grads, t, equals
        self._factors, self._neurons, self._logits = factors, neurons, logits
        self._tokens: Any = None

        self._tables = Products(
            (w.Q2, w.T.K2, t.QK2, scale),
            (t.embeddings, w.V1, t.values_1),
            (t.values_1, w.O1, t.outputs_1),
            (w.V2, w.O2, t.OV2),
            (t.equal_rows, t.QK2, t.queries_2),
            (t.both, t.OV2, t.outputs_2),
            (t.both, t.T.queries_2, t.scores_2),
            (t.embeddings, w.Q1, t.queries_1),
            (t.embeddings, w.K1, t.keys_1),
            (t.queries_1, t.T.keys_1, scores_1, scale),
        )
        self._below_largest = _of_tokens(numba_cpu.below_largest, scores_1, factors, None)
        self._layer_1 = _of_tokens(numba_cpu.layer_1, scores_1, factors, None, attention_1, usage)
        self._second_scores = Products((first, t.T.scores_2, scores_2))
        self._layer_2 = _of_tokens(numba_cpu.layer_2, scores_2, None, attention_1, attention_2, copied, usage)
        self._preactivations = Products((usage, t.outputs, resid_mid), (resid_mid, w.W_in, neurons))
        self._answers = Products((w.W_out, w.U, read_out), (neurons, read_out, logits), (resid_mid, w.U, logits, 1, 1))

        g_outputs, g_scores_2, g_rows, g_through_scores = new(3 * C + 1, d), new(2 * C, C + 1), new(2 * C, d), new(C, d)
        (g_queries_1, g_keys_1, g_values_1), g_queries_2, (g_OV2, g_QK2) = new(3, C, dh), new(C + 1, d), new(2, d, d)
        (g_equal, g_out2), (g_embeddings, g_outputs_1) = g_outputs.split([C + 1, 2 * C]), g_rows.split(C)
        self._grad, self._g_neurons, self._g_scores_1 = grad, g_neurons, g_scores_1
        self._g_equal, self._g_outputs_1 = g_equal, g_outputs_1
        self._g_embeddings, self._g_through_scores = g_embeddings, g_through_scores
        self._to_neurons = Products(
            (grad, w.T.U, g_resid),
            (neurons.mT, grad, g_read_out),
            (g_read_out, w.T.U, grads.W_out),
            (w.T.W_out, g_read_out, grads.U),
            (resid_mid.mT, grad, grads.U, 1, 1),
            (grad, read_out.mT, g_neurons),
        )
        self._to_usage = Products(
            (resid_mid.mT, g_neurons, grads.W_in),
            (g_neurons, w.T.W_in, g_resid, 1, 1),
            (g_resid, t.T.outputs, g_usage),
            (usage.mT, g_resid, g_outputs),
        )
        shared = g_usage, None, attention_1, attention_2
        self._layer_2_backward = _of_tokens(numba_cpu.layer_2_backward, *shared, g_scores, g_passed_on, g_both)
        self._to_first_usage = Products((g_both.mT, first, g_scores_2), (g_both, t.scores_2, g_first, 1, 1))
        self._layer_1_backward = _of_tokens(
            numba_cpu.layer_1_backward, *shared, copied, g_scores, g_passed_on, g_scores_1
        )  # fmt: skip
        self._to_tables = Products(
            (g_scores_1, t.keys_1, g_queries_1, scale),
            (g_scores_1.mT, t.queries_1, g_keys_1, scale),
            (t.T.embeddings, g_queries_1, grads.Q1),
            (t.T.embeddings, g_keys_1, grads.K1),
            (g_queries_1, w.T.Q1, g_through_scores),
            (g_keys_1, w.T.K1, g_through_scores, 1, 1),
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
        )
        self._to_values = Products(
            (t.T.values_1, g_outputs_1, grads.O1),
            (g_outputs_1, w.T.O1, g_values_1),
            (t.T.embeddings, g_values_1, grads.V1),
            (g_values_1, w.T.V1, g_embeddings, 1, 1),
        )

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits (B, N), which the next pass overwrites."""
        w = self._w
        if tokens.shape != (self.batch, len(w.pos)):  # compiled functions would read past the end of an array
            raise ValueError(f"tokens have shape {tuple(tokens.shape)}: expected {(self.batch, len(w.pos))}")
        own = self._tokens = tokens.contiguous().numpy()
        torch.cat([w.E, w.pos], out=self._t.embeddings)
        torch.add(w.E[self._equals], w.pos[-1], out=self._t.constant[0])
        self._tables()
        self._below_largest(own)
        self._factors.exp_()
        self._layer_1(own)
        self._second_scores()
        self._layer_2(own)
        self._preactivations()
        self._neurons.relu_()
        self._answers()
        return self._logits

    def backward(self, grad: Tensor) -> None:
        """Writes the gradients of sum(logits * grad) for the sequences of the last forward pass."""
        own, K, C = self._tokens, len(self._w.E), len(self._t.embeddings)
        self._grad.copy_(grad)
        self._to_neurons()
        g_neurons = self._g_neurons
        torch.ops.aten.threshold_backward.grad_input(g_neurons, self._neurons, 0, grad_input=g_neurons)
        self._to_usage()
        self._layer_2_backward(own)
        self._to_first_usage()
        self._g_scores_1.zero_()
        self._layer_1_backward(own)
        self._to_tables()
        self._g_outputs_1 += self._g_equal[:C]
        self._g_embeddings[self._equals :: C - 1 - self._equals] += self._g_equal[C]  # rows of `=` and of its position
        self._to_values()
        torch.add(self._g_embeddings[:K], self._g_through_scores[:K], out=self._grads.E)
        torch.add(self._g_embeddings[K:], self._g_through_scores[K:], out=self._grads.pos)


def _of_tokens(function: Callable[..., None], *tensors: Tensor | None) -> Callable[[Any], None]:
    """A compiled function of these tensors where they are in memory, and of the tokens in the place of None."""
    arrays = [None if tensor is None else tensor.numpy() for tensor in tensors]
    place = next(i for i, tensor in enumerate(tensors) if tensor is None)
    before, after = arrays[:place], arrays[place + 1 :]
    return lambda tokens: function(*before, tokens, *after)
