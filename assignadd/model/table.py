"""The exact answer logits of the two-layer model without ever forming the residuals of the other positions.

Layer 1 sees only W_E[token] + W_pos[position], so its scores and outputs are linear in the C = K + T embedding rows
(K tokens, T positions; 74 + 16 = 90 in the paper), and so is everything that `=` reads from other positions later:

    scores of layer 1    entries of a (C, C) table, gathered for every (query, key)
    residual of `=`      w1 @ [C OV1; E_= + P_=]: w1 says how much attention each row of the table gets
    scores of layer 2    entries of [C; C OV1] QK2 (that residual), gathered, mixed by the layer-1 patterns
    output of layer 2    w2 @ [C; C OV1] OV2

Only then come the MLP and the unembedding, at one position. The backward pass is written out by hand; the test holds
logits and every gradient equal to the reference transformer. All functions take weights with or without a leading axis
M, as a single model runs faster on a CPU through plain matrix products than through batched ones. Sequences come last:
tokens (..., T, B), attention of layer 1 as (..., query, key, B).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from assignadd.config import Config, ConfigError
from assignadd.model.trace import Tables, Trace, Weights, plus_product
from assignadd.task.vocabulary import Vocabulary

if TYPE_CHECKING:
    from jaxtyping import Int


# Four table entries above this make a product that float32 still holds; the paper's runs stay above -17.
SAFE_EXPONENT = -20.0


def covers(config: Config) -> bool:
    """Whether this architecture is one the tables describe: the paper's, at any size."""
    m = config.model
    plain = m.norm == "none" and not m.biases and m.activation == "relu"
    return plain and m.n_layers == 2 and m.n_heads == 1 and m.d_mlp[0] is None and m.d_mlp[1] is not None


def require_covered(config: Config) -> None:
    """One line where the paper's mechanism has no place to be looked for."""
    if not covers(config):
        m = config.model
        got = f"{m.n_layers} layers, {m.n_heads} heads, d_mlp={m.d_mlp}, norm={m.norm}, biases={m.biases}, activation={m.activation}"
        raise ConfigError(
            "model", got, "the paper's architecture: two layers, one head, a ReLU MLP after the second alone, no norm, no biases"
        )


class TableForward:
    """The constants of one task and device: index lists of the T (T + 1) / 2 causal pairs."""

    def __init__(self, config: Config, device: str | torch.device = "cpu"):
        vocabulary = Vocabulary(config.task)
        self.K, self.T = vocabulary.size, config.task.length
        self.C = self.K + self.T
        self.equals = vocabulary.equals
        self.scale = 1 / math.sqrt(config.model.d_head)
        self.lengths = list(range(1, self.T + 1))
        query, key = torch.tril_indices(self.T, self.T, device=device)
        self.query, self.key, self.pair_row = query, key, query * self.T + key
        self.square = torch.full((self.T**2,), len(query), device=device)  # where each entry of a pattern stands among the pairs
        self.square[self.pair_row] = torch.arange(len(query), device=device)
        self.query_row = torch.arange(self.T, dtype=torch.int32, device=device)[:, None] * (self.K * self.C)
        self.safe_exponent = torch.tensor(SAFE_EXPONENT, device=device)  # compares in half the time a number takes
        self.key_column = (self.K + key).int()[:, None]

    def forward(self, w: Weights, tokens: Int[Tensor, "*M T B"]) -> Trace:
        C, tables = self.C, self._tables(w)
        gathers = self._gathers(tokens)
        flat = gathers[2]
        attention_1 = self._attention_1(tables, gathers, tokens.shape)

        usage = tables.outputs.new_zeros(*tokens.shape[:-2], 3 * C + 1, tokens.shape[-1])
        through_1, constant, own_2, through_2 = usage.split([C, 1, C, C], -2)
        self._spread(through_1, tokens, flat, attention_1.select(-3, -1))
        constant.fill_(1)
        own, through = (tables.scores_2 @ usage.narrow(-2, 0, C + 1)).split(C, -2)  # (..., C, B) each
        key_scores = self._collect(through, tokens, flat)
        scores_2 = self._collect(own, tokens, flat)
        scores_2 += self._over_keys(attention_1, key_scores)
        attention_2 = scores_2.softmax(-2)  # (..., T, B)
        self._spread(own_2, tokens, flat, attention_2)
        self._spread(through_2, tokens, flat, self._over_queries(attention_1, attention_2))

        return Trace(w, attention_1, attention_2, tokens, gathers, usage, key_scores, tables)

    def backward(self, w: Weights, trace: Trace, grad: Tensor, grads: Weights) -> None:
        """Writes the gradients of sum(logits * grad) for every weight into `grads` (whatever they held before)."""
        torch.matmul(trace.resid_post.mT, grad, out=grads.U)
        g = grad @ w.U.mT  # (..., B, d)
        torch.matmul(trace.neurons.mT, g, out=grads.W_out)
        g_neurons = g @ w.W_out.mT
        torch.ops.aten.threshold_backward.grad_input(g_neurons, trace.neurons, 0, grad_input=g_neurons)
        torch.matmul(trace.resid_mid.mT, g_neurons, out=grads.W_in)
        g = plus_product(g, g_neurons, w.W_in.mT)
        g_usage, g_outputs = trace.tables.outputs @ g.mT, trace.usage @ g  # (..., 3C + 1, B), (..., 3C + 1, d)
        g_scores_1, g_scores_2 = self._attention_backward(trace, g_usage)
        self._tables_backward(w, trace.tables, g_scores_1, g_scores_2, g_outputs, grads)

    def _tables(self, w: Weights) -> Tables:
        """All tables of rows are parts of one: the embeddings; what layer 1 makes of them, and E_= + P_=; what layer 2 makes of both."""
        C = self.C
        rows = torch.empty(*w.E.shape[:-2], 4 * C + 1, w.E.shape[-1], dtype=w.E.dtype, device=w.E.device)
        embeddings, outputs_1, constant, outputs_2 = rows.split([C, C, 1, 2 * C], -2)
        both, equal_rows, outputs = rows.narrow(-2, 0, 2 * C), rows.narrow(-2, C, C + 1), rows.narrow(-2, C, 3 * C + 1)
        torch.cat([w.E, w.pos], -2, out=embeddings)
        values_1 = embeddings @ w.V1
        torch.matmul(values_1, w.O1, out=outputs_1)
        torch.add(embeddings.narrow(-2, self.equals, 1), embeddings.narrow(-2, C - 1, 1), out=constant)
        QK2, OV2 = self._scaled(w.Q2, w.K2.mT), w.V2 @ w.O2
        torch.matmul(both, OV2, out=outputs_2)
        queries_2 = equal_rows @ QK2
        return Tables(
            embeddings, embeddings @ w.Q1, embeddings @ w.K1, values_1, equal_rows, both, QK2, queries_2,
            both @ queries_2.mT, OV2, outputs,
        )  # fmt: skip

    def _gathers(self, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Where the two parts of each causal pair's score stand in the flat (..., T, K, C) table of layer 1.

        A query is a token at a position: row (position, token) of that table is the sum of both rows of scores. What is
        left to gather are its entries for the key's token and for the key's position.
        """
        small = tokens.int() if math.prod(tokens.shape[:-2]) * self.T * self.K * self.C < 2**31 else tokens
        row = torch.add(self.query_row, small, alpha=self.C)
        if tokens.dim() > 2:
            row += torch.arange(len(tokens), dtype=small.dtype, device=tokens.device).view(-1, 1, 1) * (self.T * self.K * self.C)
        row = row.index_select(-2, self.query)  # (..., pairs, B)
        to_token = row + small.index_select(-2, self.key)
        return to_token.view(-1), row.add_(self.key_column).view(-1), self._flat(small)

    def _attention_1(self, tables: Tables, gathers: tuple[Tensor, Tensor, Tensor], shape: torch.Size) -> Tensor:
        """Patterns of layer 1, (..., T, T, B), zero above the diagonal."""
        scores = self._scaled(tables.queries_1, tables.keys_1.mT)  # (..., C, C)
        if scores.device.type == "cpu":
            for part in scores.split([self.K, self.T], -1):
                part -= part.amax(-1, keepdim=True)  # a pattern does not change when all scores of a query do
            if scores.amin() > self.safe_exponent:
                return self._by_products(scores.exp_(), gathers, shape)
        return self._by_softmax(scores, gathers, shape)

    def _by_products(self, exponentials: Tensor, gathers: tuple[Tensor, Tensor, Tensor], shape: torch.Size) -> Tensor:
        """exp(score) is a product of four table entries, which spares the exponentials of all pairs (8,100 for 70,000)."""
        *lead, T, B = shape
        of_tokens, of_positions = exponentials.split([self.K, T], -2)
        table = (of_tokens.unsqueeze(-3) * of_positions.unsqueeze(-2)).view(-1)
        pairs = torch.empty(*lead, len(self.query) + 1, B, dtype=table.dtype, device=table.device)
        below, above = pairs.split([len(self.query), 1], -2)
        torch.mul(*(table.index_select(0, entries).view(below.shape) for entries in gathers[:2]), out=below)
        above.zero_()
        pattern = pairs.index_select(-2, self.square).view(*lead, T, T, B)
        return pattern.mul_(pattern.sum(-2, keepdim=True).reciprocal_())

    def _by_softmax(self, scores: Tensor, gathers: tuple[Tensor, Tensor, Tensor], shape: torch.Size) -> Tensor:
        """Score by score, safe for any weights."""
        *lead, T, B = shape
        of_tokens, of_positions = scores.split([self.K, T], -2)
        table = (of_tokens.unsqueeze(-3) + of_positions.unsqueeze(-2)).view(-1)
        pairs = table.index_select(0, gathers[0]).add_(table.index_select(0, gathers[1]))
        pattern = scores.new_zeros(*lead, T * T, B)
        used = pattern.split([n for i in self.lengths for n in (i, T - i)], -2)[::2]
        for row, target in zip(pairs.view(*lead, len(self.pair_row), B).split(self.lengths, -2), used, strict=True):
            torch.softmax(row, -2, out=target)
        return pattern.view(*lead, T, T, B)

    def _attention_backward(self, trace: Trace, g_usage: Tensor) -> tuple[Tensor, Tensor]:
        """Gradients of the two score tables from the gradient of the usage of the output table."""
        C, K, T, tokens, flat, a1 = self.C, self.K, self.T, trace.tokens, trace.gathers[2], trace.attention_1
        g_used, g_own, g_through = g_usage.split([C + 1, C, C], -2)
        g_attention_2 = self._collect(g_own, tokens, flat)
        g_carried = self._collect(g_through, tokens, flat)
        g_attention_2 += self._over_keys(a1, g_carried)
        g_keys = torch._softmax_backward_data(g_attention_2, trace.attention_2, -2, a1.dtype)
        g_a1 = trace.attention_2.unsqueeze(-2) * g_carried.unsqueeze(-3)
        g_a1.addcmul_(g_keys.unsqueeze(-2), trace.key_scores.unsqueeze(-3))
        g_scores = torch.zeros_like(g_usage.narrow(-2, 0, 2 * C))
        g_own, g_through = g_scores.split(C, -2)
        self._spread(g_own, tokens, flat, g_keys)
        self._spread(g_through, tokens, flat, self._over_queries(a1, g_keys))

        g_scores_2 = g_scores @ trace.usage.narrow(-2, 0, C + 1).mT
        g_used = plus_product(g_used, trace.tables.scores_2.mT, g_scores)
        g_a1.select(-3, -1).add_(self._collect(g_used.narrow(-2, 0, C), tokens, flat))

        g_pairs = torch._softmax_backward_data(g_a1, a1, -2, a1.dtype).flatten(-3, -2)
        g_pairs = g_pairs.index_select(-2, self.pair_row).view(-1)
        lead = tokens.shape[:-2]
        g_table = g_pairs.new_zeros(math.prod(lead) * T * K * C)
        for index in trace.gathers[:2]:
            g_table.index_add_(0, index, g_pairs)
        g_table = g_table.view(*lead, T, K, C)
        g_scores_1 = torch.empty(*lead, C, C, dtype=a1.dtype, device=a1.device)
        for axis, part in zip((-3, -2), g_scores_1.split([K, T], -2), strict=True):
            torch.sum(g_table, axis, out=part)
        return g_scores_1, g_scores_2

    def _tables_backward(self, w: Weights, t: Tables, g_scores_1: Tensor, g_scores_2: Tensor, g_outputs: Tensor, grads: Weights) -> None:
        C = self.C
        g_equal, g_out2 = g_outputs.split([C + 1, 2 * C], -2)
        g_OV2 = t.both.mT @ g_out2
        torch.matmul(g_OV2, w.O2.mT, out=grads.V2)
        torch.matmul(w.V2.mT, g_OV2, out=grads.O2)
        g_both = plus_product(g_out2 @ t.OV2.mT, g_scores_2, t.queries_2)
        g_queries_2 = g_scores_2.mT @ t.both
        g_QK2 = self._scaled(t.equal_rows.mT, g_queries_2)
        torch.matmul(g_QK2, w.K2, out=grads.Q2)
        torch.matmul(g_QK2.mT, w.Q2, out=grads.K2)
        g_equal = plus_product(g_equal, g_queries_2, t.QK2.mT)

        g_embeddings, g_outputs_1 = g_both.split(C, -2)
        g_through, g_constant = g_equal.split([C, 1], -2)
        g_outputs_1 += g_through
        g_embeddings.narrow(-2, self.equals, 1).add_(g_constant)
        g_embeddings.narrow(-2, C - 1, 1).add_(g_constant)
        torch.matmul(t.values_1.mT, g_outputs_1, out=grads.O1)
        for g_rows, weight, grad in (
            (g_outputs_1 @ w.O1.mT, w.V1, grads.V1),
            (self._scaled(g_scores_1, t.keys_1), w.Q1, grads.Q1),
            (self._scaled(g_scores_1.mT, t.queries_1), w.K1, grads.K1),
        ):
            torch.matmul(t.embeddings.mT, g_rows, out=grad)
            g_embeddings = plus_product(g_embeddings, g_rows, weight.mT)
        g_tokens, g_positions = g_embeddings.split([self.K, self.T], -2)
        grads.E.copy_(g_tokens)
        grads.pos.copy_(g_positions)

    def _scaled(self, a: Tensor, b: Tensor) -> Tensor:
        """a @ b / sqrt(d_head), without another pass over the product."""
        plus = torch.addmm if a.dim() == 2 else torch.baddbmm
        return plus(torch.empty((), dtype=a.dtype, device=a.device), a, b, beta=0, alpha=self.scale)

    # A pattern is causal: early queries pay no attention to late keys. Its other three quarters are laid on two before
    # they are summed, which is half the memory to go through.

    def _over_keys(self, pattern: Tensor, of_keys: Tensor) -> Tensor:
        """Sums pattern (..., query, key, B) times of_keys (..., key, B) over the keys."""
        n_late = self.T // 2
        early, late = slice(self.T - n_late), slice(self.T - n_late, None)
        total = pattern[..., early, :] * of_keys[..., None, early, :]
        total[..., late, :n_late, :].addcmul_(pattern[..., late, late, :], of_keys[..., None, late, :])
        return total.sum(-2)

    def _over_queries(self, pattern: Tensor, of_queries: Tensor) -> Tensor:
        """Sums pattern (..., query, key, B) times of_queries (..., query, B) over the queries."""
        n_early = self.T // 2
        early, late = slice(n_early), slice(n_early, None)
        total = pattern[..., late, :, :] * of_queries[..., late, None, :]
        total[..., :n_early, early, :].addcmul_(pattern[..., early, early, :], of_queries[..., early, None, :])
        return total.sum(-3)

    # One model's rows lie side by side in memory, where a flat index is several times faster than an index along an axis.

    def _flat(self, tokens: Tensor) -> Tensor:
        """Where each token's entry stands in a flat (..., K, B) table with a column for each sequence."""
        column = torch.arange(tokens.shape[-1], dtype=tokens.dtype, device=tokens.device)
        return torch.add(column, tokens, alpha=len(column)).view(-1)

    def _spread(self, rows: Tensor, tokens: Tensor, flat: Tensor, amount: Tensor) -> None:
        """Adds an amount (..., T, B) at every position to the (zero) table rows of its token and of the position."""
        of_tokens, of_positions = rows.split([self.K, self.T], -2)
        if tokens.dim() == 2:
            of_tokens.view(-1).index_add_(0, flat, amount.reshape(-1))
        else:
            of_tokens.scatter_add_(-2, tokens.long(), amount)
        of_positions.copy_(amount)

    def _collect(self, rows: Tensor, tokens: Tensor, flat: Tensor) -> Tensor:
        """For every position the sum of the rows of its token and of the position: the transpose of `_spread`."""
        of_tokens, of_positions = rows.split([self.K, self.T], -2)
        found = of_tokens.view(-1).index_select(0, flat).view_as(tokens) if tokens.dim() == 2 else of_tokens.gather(-2, tokens.long())
        return found.add_(of_positions)
