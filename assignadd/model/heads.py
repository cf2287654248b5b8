"""The exact answer logits of two layers with several heads, from tables, as `table` has them for one head.

Head by head, layer 1 is as linear in the C = K + T embedding rows X = [E; P] as a single one:

    scores of layer 1    entries of a (C, C) table of each head
    residual of `=`      w1 @ [X OV1 of each head; E_= + P_=]: w1 says how much attention each row of the tables gets
    scores of layer 2    entries of (residual W_Q) (key_rows W_K)^T of each head, key_rows = [X; X OV1 of each head]
    output of layer 2    (w2 @ key_rows W_V) W_O of each head

With one head, scores and outputs of layer 2 take one product with a table. For several heads that table would have
H (1 + H) C rows, so queries, keys and values are computed, which are narrow. Those of all heads stand beside one
another: (rows, H dh), of which `_of_head(h)` are the columns of head h.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from assignadd.model.table import Activations, Forward, Rows, Weights


@dataclass(frozen=True)
class HeadTables(Rows):
    """What follows from the weights of several heads alone."""

    W_1: Tensor  # (d, 3 H dh)      W_Q, W_K and W_V of layer 1
    W_Q2: Tensor  # (d, H dh)
    W_2: Tensor  # (d, 2 H dh)      W_K and W_V of layer 2
    queries_1: Tensor  # (C, H dh), as the next two
    keys_1: Tensor
    values_1: Tensor
    keys_2: Tensor  # ((1 + H) C, H dh), as the next
    values_2: Tensor


@dataclass(frozen=True)
class SeveralHeads(Activations):
    """The activations of several heads in each layer."""

    tables: HeadTables
    resid_pre: Float[Tensor, "*M B d"] = field()  # without `field()`, the property of `Activations` would be a default
    """The residual of `=` after layer 1."""
    queries_2: Float[Tensor, "*M B all"]
    read_2: Float[Tensor, "*M B all"]
    """What each head of layer 2 reads: its values, weighted by its attention, before W_O."""

    @cached_property
    def O2(self) -> Float[Tensor, "*M all d"]:
        """W_O of layer 2."""
        return self.weights.O2.flatten(-3, -2)

    @cached_property
    def attention_output(self) -> Float[Tensor, "*M B d"]:
        """What layer 2's attention writes into the residual of `=`: what its heads read, times W_O."""
        return self.read_2 @ self.O2

    @cached_property
    def resid_mid(self) -> Float[Tensor, "*M B d"]:
        """The residual of `=` after layer 2's attention."""
        return self.kernels.plus_product(self.resid_pre.clone(), self.read_2, self.O2)


class HeadForward(Forward[SeveralHeads, HeadTables]):
    """The pass of models with several heads in each layer."""

    def forward(self, w: Weights, tokens: Int[Tensor, "*M B T"], tables: HeadTables | None = None) -> SeveralHeads:
        """The activations on these sequences, through the tables of the weights or through edited ones."""
        self.check(tokens)
        kernels, H, C = self.kernels, self.kernels.H, self.C
        if tables is None:
            tables = self.begin_tables(w)
        usage = kernels.matrix(tokens, kernels.n_used, tables.embeddings)  # which both layers fill
        scores_1 = usage.new_empty(*tokens.shape[:-2], H, C, C)
        for h in range(H):
            columns = self._of_head(h)
            self._scaled(tables.queries_1[..., columns], tables.keys_1[..., columns].mT, scores_1[..., h, :, :])
        attention_1 = kernels.layer_1(scores_1, tokens, usage)
        kernels.join()  # the tables that `begin_tables` only began
        resid_pre = kernels.product(usage[..., : kernels.n_used_by_1], tables.equal_rows)  # (..., B, d)
        queries_2 = resid_pre @ tables.W_Q2  # (..., B, H dh)
        scores_2 = kernels.matrix(tokens, H * (1 + H) * C, usage)  # filled below, head by head
        for h in range(H):
            columns = self._of_head(h)
            self._scaled(queries_2[..., columns], tables.keys_2[..., columns].mT, scores_2[..., self._rows_of(h)])
        attention_2, copied_scores = kernels.layer_2(scores_2, tokens, attention_1, usage)
        used_by_2, read_2 = usage[..., kernels.n_used_by_1 :], torch.empty_like(queries_2)
        for h in range(H):
            columns = self._of_head(h)
            kernels.product(used_by_2[..., self._rows_of(h)], tables.values_2[..., columns], read_2[..., columns])
        return SeveralHeads(
            tokens, w, tables, attention_1, attention_2, usage, copied_scores, kernels, resid_pre, queries_2, read_2
        )

    def _of_head(self, h: int) -> slice:
        """The columns of a head in matrices (rows, H dh)."""
        width = self.config.model.d_head
        return slice(h * width, (h + 1) * width)

    def _rows_of(self, h: int) -> slice:
        """The columns of a head of layer 2 in matrices (B, H (1 + H) C): one for each row that a key is made of."""
        n_rows = (1 + self.kernels.H) * self.C
        return slice(h * n_rows, (h + 1) * n_rows)

    def begin_tables(self, w: Weights) -> HeadTables:
        """The tables of these weights, of which only queries and keys of layer 1 are complete before `kernels.join`."""
        C, H, aside = self.C, self.kernels.H, self.kernels.product_aside
        n_key_rows = (1 + H) * C
        rows = w.E.new_empty(*w.E.shape[:-2], n_key_rows + 1, w.E.shape[-1])
        embeddings, outputs_1, constant = rows.split_with_sizes([C, H * C, 1], -2)
        self._write_embeddings(w, embeddings, constant)
        W_1, W_Q2, W_2 = beside(w.Q1, w.K1, w.V1), beside(w.Q2), beside(w.K2, w.V2)
        queries_1, keys_1, values_1 = (embeddings @ W_1).chunk(3, -1)
        for h in range(H):
            aside(values_1[..., self._of_head(h)], w.O1[..., h, :, :], outputs_1[..., h * C : (h + 1) * C, :])
        key_rows = rows[..., :n_key_rows, :]
        keys_2, values_2 = aside(key_rows, W_2).chunk(2, -1)
        equal_rows = rows[..., C:, :]
        return HeadTables(
            embeddings, equal_rows, key_rows, W_1, W_Q2, W_2, queries_1, keys_1, values_1, keys_2, values_2
        )

    def _attention_backward(self, w: Weights, activations: SeveralHeads, g_resid: Tensor, grads: Weights) -> None:
        """Writes the gradients of all weights of attention and embeddings: `forward` from the end to the beginning."""
        tables, tokens, kernels = activations.tables, activations.tokens, self.kernels
        n_used_by_1, aside = kernels.n_used_by_1, kernels.product_aside
        g_usage = kernels.matrix(tokens, kernels.n_used, g_resid)  # filled below: layer 2's columns, then layer 1's
        g_keys_and_values = g_resid.new_empty(*tables.key_rows.shape[:-1], tables.W_2.shape[-1])
        g_keys_2, g_values_2 = g_keys_and_values.chunk(2, -1)
        self._output_backward(activations, g_resid, g_usage[..., n_used_by_1:], g_values_2, grads)
        g_scores_2, g_position_scores, g_passed_on = kernels.layer_2_backward(
            g_usage, tokens, activations.attention_1, activations.attention_2
        )
        g_queries_2 = self._scores_backward(activations, g_scores_2, g_keys_2)
        # queries_2 = resid_pre W_Q2
        g_W_Q2 = aside(activations.resid_pre.mT, g_queries_2)
        kernels.plus_product(g_resid, g_queries_2, tables.W_Q2.mT)  # now by resid_pre
        # resid_pre = used_by_1 equal_rows; the last row is the constant, of which 1 is always used.
        kernels.product(g_resid, tables.equal_rows.mT, g_usage[..., :n_used_by_1])
        g_equal_rows = aside(activations.used_by_1.mT, g_resid)  # (..., H C + 1, d)
        kernels.join()
        g_scores_1 = kernels.layer_1_backward(
            g_usage, tokens, activations.attention_1, activations.attention_2,
            activations.copied_scores, g_position_scores, g_passed_on,
        )  # fmt: skip
        self._tables_backward(w, tables, g_scores_1, g_W_Q2, g_keys_and_values, g_equal_rows, grads)

    def _output_backward(
        self, activations: SeveralHeads, g_resid: Tensor, g_used_by_2: Tensor, g_values_2: Tensor, grads: Weights
    ) -> None:
        """Writes the gradients of layer 2's W_O, of how much it uses of each row of its keys, and of its values.

        resid_mid = resid_pre + read_2 O2, and read_2 = used_by_2 values_2 for each head.
        """
        kernels, tables = self.kernels, activations.tables
        used_by_2 = activations.usage[..., kernels.n_used_by_1 :]
        kernels.product(activations.read_2.mT, g_resid, grads.O2.flatten(-3, -2))  # not aside: `g_resid` changes later
        g_read_2 = g_resid @ activations.O2.mT  # (..., B, H dh)
        for h in range(kernels.H):
            columns, columns_of_usage = self._of_head(h), self._rows_of(h)
            g_used = g_used_by_2[..., columns_of_usage]
            kernels.product(g_read_2[..., columns], tables.values_2[..., columns].mT, g_used)
            kernels.product_aside(used_by_2[..., columns_of_usage].mT, g_read_2[..., columns], g_values_2[..., columns])

    def _scores_backward(self, activations: SeveralHeads, g_scores_2: Tensor, g_keys_2: Tensor) -> Tensor:
        """Returns the gradient of layer 2's queries from that of its scores; writes that of its keys, aside.

        scores_2 = queries_2 keys_2^T / sqrt(d_head) for each head.
        """
        queries_2, keys_2 = activations.queries_2, activations.tables.keys_2
        g_queries_2 = torch.empty_like(queries_2)
        for h in range(self.kernels.H):
            columns, g_scores = self._of_head(h), g_scores_2[..., self._rows_of(h)]
            self._scaled(g_scores, keys_2[..., columns], g_queries_2[..., columns])
            with self.kernels.aside(g_scores):
                self._scaled(g_scores.mT, queries_2[..., columns], g_keys_2[..., columns])
        return g_queries_2

    def _tables_backward(
        self, w: Weights, tables: HeadTables, g_scores_1: Tensor, g_W_Q2: Tensor, g_keys_and_values: Tensor,
        g_equal_rows: Tensor, grads: Weights,
    ) -> None:  # fmt: skip
        """Writes the gradients of the weights of attention and embeddings from those of the tables.

        All are complete when it returns. `g_scores_1` may still be computed aside when it is called, the others not.
        """
        K, C, H, kernels = self.K, self.C, self.kernels.H, self.kernels
        # The gradient of [queries_1, keys_1, values_1], (..., C, 3 H dh); the next three are views of it.
        g_of_1 = tables.embeddings.new_empty(*tables.embeddings.shape[:-1], tables.W_1.shape[-1])
        g_queries_1, g_keys_1, g_values_1 = g_of_1.chunk(3, -1)
        with kernels.after_layer_1_backward(g_of_1):
            for h in range(H):
                columns, g_scores = self._of_head(h), g_scores_1[..., h, :, :]
                self._scaled(g_scores, tables.keys_1[..., columns], g_queries_1[..., columns])
                self._scaled(g_scores.mT, tables.queries_1[..., columns], g_keys_1[..., columns])
        # [keys_2, values_2] = key_rows W_2
        g_W_2 = kernels.product_aside(tables.key_rows.mT, g_keys_and_values)
        g_key_rows = g_keys_and_values @ tables.W_2.mT
        # outputs_1 = embeddings V1 O1 of each head
        g_embeddings, g_outputs_1 = self._rows_backward(g_key_rows, g_equal_rows)
        for h in range(H):
            columns, g_outputs = self._of_head(h), g_outputs_1[..., h * C : (h + 1) * C, :]
            kernels.product_aside(tables.values_1[..., columns].mT, g_outputs, grads.O1[..., h, :, :])
            kernels.product(g_outputs, w.O1[..., h, :, :].mT, g_values_1[..., columns])
        kernels.join()
        # [queries_1, keys_1, values_1] = embeddings W_1
        apart(tables.embeddings.mT @ g_of_1, grads.Q1, grads.K1, grads.V1)
        apart(g_W_2, grads.K2, grads.V2)
        apart(g_W_Q2, grads.Q2)
        kernels.plus_product(g_embeddings, g_of_1, tables.W_1.mT)
        grads.E.copy_(g_embeddings[..., :K, :])
        grads.pos.copy_(g_embeddings[..., K:, :])


def beside(*weights: Float[Tensor, "*M H d dh"]) -> Float[Tensor, "*M d all"]:
    """The matrices of all heads beside one another: those of the first kind of weight, head by head, then the next."""
    return torch.stack([weight.movedim(-3, -2) for weight in weights], -3).flatten(-3)  # from (..., d, kinds, H, dh)


def apart(matrix: Float[Tensor, "*M d all"], *weights: Float[Tensor, "*M H d dh"]) -> None:
    """Writes the columns of a matrix into the weights that `beside` would make it of."""
    for part, weight in zip(matrix.chunk(len(weights), -1), weights, strict=True):
        H, _, dh = weight.shape[-3:]
        weight.copy_(part.unflatten(-1, (H, dh)).movedim(-2, -3))
