"""The exact answer logits of the two-layer model without ever forming the residuals of the other positions.

Layer 1 sees only W_E[token] + W_pos[position], so its scores and outputs are linear in the C = K + T embedding rows
(K tokens, T positions; 74 + 16 = 90 in the paper), and so is everything that `=` reads from other positions later:

    scores of layer 1    entries of a (C, C) table, gathered for every (query, key)
    residual of `=`      w1 @ [C OV1; E_= + P_=]: w1 says how much attention each row of the table gets
    scores of layer 2    entries of [C; C OV1] QK2 (that residual), gathered, mixed by the layer-1 patterns
    output of layer 2    w2 @ [C; C OV1] OV2

The MLP and the unembedding follow, at one position; on a CPU the logits of its neurons come from W_out W_U, which has
fewer columns than W_out. This file has the matrix products; the large ones, and what is between products (gathers,
patterns, scatters), are done by exchangeable kernels (`kernels`). The backward pass is written out by hand; a test
holds logits and every gradient equal to the reference transformer. All functions take weights with or without a leading
axis M: on a CPU the plain matrix products of a single model are faster than batched ones.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from assignadd.config import Config
from assignadd.model.architecture import PAPER_NEEDS, lacking
from assignadd.model.kernels import kernels_for
from assignadd.model.trace import Tables, TableTrace, Weights
from assignadd.task.vocabulary import Vocabulary


def covers(config: Config) -> bool:
    """Whether this architecture is one the tables describe: the paper's, at any size."""
    return not lacking(config, *PAPER_NEEDS)


def reads_out(w: Weights, batch: int) -> bool:
    """Whether the neurons are multiplied by W_out W_U rather than by W_out, (h, N) rather than (h, d).

    W_out W_U has to be computed first: h d N more multiplications for B h (d - N) fewer, and twice that in the
    backward pass. On a GPU a product of so few columns takes no less time.
    """
    d, N = w.U.shape[-2:]
    return w.U.device.type == "cpu" and N * (d + batch) < d * batch


class TableForward:
    """The forward and backward pass of one task's models on one device."""

    def __init__(self, config: Config, device: str | torch.device = "cpu", stacked: bool = False):
        vocabulary = Vocabulary(config.task)
        self.K, self.T = vocabulary.size, config.task.length
        self.C = self.K + self.T
        self.equals = vocabulary.equals
        self.scale = 1 / math.sqrt(config.model.d_head)
        self.kernels = kernels_for(config, torch.device(device), stacked)

    def forward(self, w: Weights, tokens: Int[Tensor, "*M B T"], tables: Tables | None = None) -> TableTrace:
        """The trace of these sequences, through the weights' own tables or through edited ones."""
        if tokens.shape[-1] != self.T:  # compiled kernels would read past the end of an array
            raise ValueError(f"tokens have shape {tuple(tokens.shape)}: expected sequences of {self.T} tokens")
        C, tables = self.C, self.begun_tables(w) if tables is None else tables
        usage = self.kernels.matrix(tokens, 3 * C + 1, tables.outputs)
        scores_1 = self._scaled(tables.queries_1, tables.T.keys_1)
        attention_1 = self.kernels.layer_1(scores_1, tokens, usage)
        self.kernels.join()
        scores_2 = self.kernels.matrix(tokens, 2 * C, usage)
        self.kernels.product(usage[..., : C + 1], tables.T.scores_2, scores_2)
        attention_2, copied_scores = self.kernels.layer_2(scores_2, tokens, attention_1, usage)
        return TableTrace(tokens, w, attention_1, attention_2, usage, copied_scores, tables, self.kernels)

    def logits(self, trace: TableTrace) -> Float[Tensor, "*M B N"]:
        """The logits by the fewer operations: by way of W_out W_U, or of the residual after the MLP."""
        return trace.read(trace.read_out) if reads_out(trace.weights, trace.tokens.shape[-2]) else trace.logits

    def backward(self, w: Weights, trace: TableTrace, grad: Tensor, grads: Weights) -> None:
        """Writes the gradients of sum(logits * grad) for every weight into `grads` (whatever they held before)."""
        product, plus_product, aside = self.kernels.product, self.kernels.plus_product, self.kernels.product_aside
        g = grad @ w.T.U  # (..., B, d)
        if reads_out(w, trace.tokens.shape[-2]):
            g_read_out = product(trace.neurons.mT, grad)  # (..., h, N)
            product(g_read_out, w.T.U, grads.W_out)
            plus_product(product(w.T.W_out, g_read_out, grads.U), trace.resid_mid.mT, grad)
            g_neurons = self.kernels.gated_product(grad, trace.read_out.mT, trace.neurons)
        else:
            aside(trace.resid_post.mT, grad, grads.U)
            product(trace.neurons.mT, g, grads.W_out)
            g_neurons = self.kernels.gated_product(g, w.T.W_out, trace.neurons)
        aside(trace.resid_mid.mT, g_neurons, grads.W_in)
        plus_product(g, g_neurons, w.T.W_in)
        g_usage = self.kernels.matrix(trace.tokens, 3 * self.C + 1, g)
        product(g, trace.tables.T.outputs, g_usage)
        g_outputs = aside(trace.usage.mT, g)  # (..., 3C + 1, d)
        g_scores_1, g_scores_2 = self._attention_backward(trace, g_usage)
        self._tables_backward(w, trace.tables, g_scores_1, g_scores_2, g_outputs, grads)

    def _attention_backward(self, trace: TableTrace, g_usage: Tensor) -> tuple[Tensor, Tensor]:
        """Gradients of both score tables from that of the usage; only `after_layer_1_backward` may read layer 1's."""
        given = (trace.tokens, trace.attention_1, trace.attention_2)
        g_both, g_position_scores, g_passed_on = self.kernels.layer_2_backward(g_usage, *given)
        first = slice(self.C + 1)
        g_scores_2 = self.kernels.product_aside(g_both.mT, trace.usage[..., first])
        self.kernels.plus_product(g_usage[..., first], g_both, trace.tables.scores_2)
        self.kernels.join()  # g_scores_2 and the gradient of the outputs, before that of layer 1, which takes longer
        g_positions = (trace.copied_scores, g_position_scores, g_passed_on)
        return self.kernels.layer_1_backward(g_usage, *given, *g_positions), g_scores_2

    def tables(self, w: Weights) -> Tables:
        tables = self.begun_tables(w)
        self.kernels.join()
        return tables

    def begun_tables(self, w: Weights, room: Tables | None = None) -> Tables:
        """The tables, in new memory or in `room`; before `join`, only embeddings, queries_1 and keys_1 are there."""
        t, aside = Tables.room(w) if room is None else room, self.kernels.product_aside
        torch.cat([w.E, w.pos], -2, out=t.embeddings)
        torch.add(w.E.narrow(-2, self.equals, 1), w.pos.narrow(-2, self.T - 1, 1), out=t.constant)
        with self.kernels.aside():
            self._scaled(w.Q2, w.T.K2, t.QK2)
        aside(t.embeddings, w.V1, t.values_1)
        aside(t.values_1, w.O1, t.outputs_1)
        aside(w.V2, w.O2, t.OV2)
        aside(t.equal_rows, t.QK2, t.queries_2)
        aside(t.both, t.OV2, t.outputs_2)
        aside(t.both, t.T.queries_2, t.scores_2)
        torch.matmul(t.embeddings, w.Q1, out=t.queries_1)
        torch.matmul(t.embeddings, w.K1, out=t.keys_1)
        return t

    def _tables_backward(
        self, w: Weights, t: Tables, g_scores_1: Tensor, g_scores_2: Tensor, g_outputs: Tensor, grads: Weights
    ) -> None:
        """Waits for all that is begun; the gradients that it reads must be there, but for `g_scores_1`."""
        K, C, aside, plus_product = self.K, self.C, self.kernels.product_aside, self.kernels.plus_product
        with self.kernels.after_layer_1_backward():
            g_queries_1, g_keys_1 = self._scaled(g_scores_1, t.keys_1), self._scaled(g_scores_1.mT, t.queries_1)
            torch.matmul(t.T.embeddings, g_queries_1, out=grads.Q1)
            torch.matmul(t.T.embeddings, g_keys_1, out=grads.K1)
            g_through_scores = plus_product(g_queries_1 @ w.T.Q1, g_keys_1, w.T.K1)

        g_equal, g_out2 = g_outputs.split_with_sizes([C + 1, 2 * C], -2)
        g_OV2 = t.T.both @ g_out2
        aside(g_OV2, w.T.O2, grads.V2)
        aside(w.T.V2, g_OV2, grads.O2)
        g_both = plus_product(g_out2 @ t.T.OV2, g_scores_2, t.queries_2)
        g_queries_2 = g_scores_2.mT @ t.both
        g_QK2 = self._scaled(t.T.equal_rows, g_queries_2)
        aside(g_QK2, w.K2, grads.Q2)
        aside(g_QK2.mT, w.Q2, grads.K2)
        g_equal = plus_product(g_equal, g_queries_2, t.T.QK2)

        g_embeddings, g_outputs_1 = g_both.split_with_sizes([C, C], -2)
        g_through, g_constant = g_equal.split_with_sizes([C, 1], -2)
        g_outputs_1 += g_through
        g_embeddings[..., self.equals :: C - 1 - self.equals, :] += g_constant  # the rows of `=` and its position
        aside(t.T.values_1, g_outputs_1, grads.O1)
        g_values_1 = g_outputs_1 @ w.T.O1
        aside(t.T.embeddings, g_values_1, grads.V1)
        plus_product(g_embeddings, g_values_1, w.T.V1)
        self.kernels.join()

        torch.add(g_embeddings[..., :K, :], g_through_scores[..., :K, :], out=grads.E)
        torch.add(g_embeddings[..., K:, :], g_through_scores[..., K:, :], out=grads.pos)

    def _scaled(self, a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor:
        """a @ b / sqrt(d_head), without another pass over the product."""
        product = a.new_empty(*a.shape[:-1], b.shape[-1]) if out is None else out
        plus = product.addmm_ if a.dim() == 2 else product.baddbmm_
        return plus(a, b, beta=0, alpha=self.scale)  # with beta = 0, what the memory held is not read
