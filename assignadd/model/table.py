"""The exact answer logits of the two-layer model without ever forming the residuals of the other positions.

Layer 1 sees only W_E[token] + W_pos[position], so its scores and outputs are linear in the C = K + T embedding rows
(K tokens, T positions; 74 + 16 = 90 in the paper), and so is everything that `=` reads from other positions later:

    scores of layer 1    entries of a (C, C) table, gathered for every (query, key)
    residual of `=`      w1 @ [C OV1; E_= + P_=]: w1 says how much attention each row of the table gets
    scores of layer 2    entries of [C; C OV1] QK2 (that residual), gathered, mixed by the layer-1 patterns
    output of layer 2    w2 @ [C; C OV1] OV2

Only then come the MLP and the unembedding, at one position. The backward pass is written out by hand; the test holds
logits and every gradient equal to the reference transformer. All functions take weights with or without a leading axis
M, as a single model runs faster on a CPU through plain matrix products than through batched ones. `forward` takes tokens
(..., B, T); inside, sequences come last: tokens (..., T, B), attention of layer 1 as (..., query, key, B).
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
            "model",
            got,
            "the paper's architecture: two layers, one head, a ReLU MLP after the second alone, no norm, no biases",
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
        self.square = torch.full(
            (self.T**2,), len(query), device=device
        )  # where each entry of a pattern stands among the pairs
        self.square[self.pair_row] = torch.arange(len(query), device=device)
        self.query_row = torch.arange(self.T, device=device)[:, None] * (self.K * self.C)
        self.key_position = key[:, None]
        self.safe_exponent = torch.tensor(SAFE_EXPONENT, device=device)  # compares in half the time a number takes

    def forward(self, w: Weights, tokens: Int[Tensor, "*M B T"], tables: Tables | None = None) -> Trace:
        """The trace of these sequences, through the weights' own tables or through edited ones."""
        C, tables = self.C, self.tables(w) if tables is None else tables
        tokens = tokens.mT.contiguous()  # (..., T, B): no copy of what the sampler drew
        entries, places = self._entries(tokens), self._places(tokens)
        attention_1 = self._attention_1(tables, entries, tokens.shape)

        usage = tables.outputs.new_zeros(*tokens.shape[:-2], 3 * C + 1, tokens.shape[-1])
        through_1, constant, both_2 = usage.split([C, 1, 2 * C], -2)
        self._spread(through_1.unsqueeze(-3), places, attention_1.select(-3, -1).unsqueeze(-3))
        constant.fill_(1)
        both = tables.scores_2 @ usage.narrow(
            -2, 0, C + 1
        )  # of a key's own row and of what layer 1 brought it: (..., 2C, B)
        scores_2, key_scores = self._collect(both.unflatten(-2, (2, C)), places).unbind(-3)
        scores_2 += self._over_keys(attention_1, key_scores)
        attention_2, brought = amounts = torch.empty(2, *tokens.shape, dtype=usage.dtype, device=usage.device)
        torch.softmax(scores_2, -2, out=attention_2)
        self._over_queries(attention_1, attention_2, out=brought)
        self._spread(both_2.unflatten(-2, (2, C)), places, amounts.movedim(0, -3))

        return Trace(w, attention_1, attention_2, tokens, (entries, places), usage, key_scores, tables)

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

    def tables(self, w: Weights) -> Tables:
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

    def _entries(self, tokens: Tensor) -> Tensor:
        """Where the two parts of each causal pair's score stand in the flat (..., T, K, C) table of layer 1, as (2, pairs B).

        A query is a token at a position: row (position, token) of that table is the sum of both rows of scores. What is
        left to find are its entries for the key's token and for the key's position, counted from the first position's.
        """
        row = torch.add(self.query_row, tokens, alpha=self.C)
        if tokens.dim() > 2:
            row += torch.arange(len(tokens), device=tokens.device).view(-1, 1, 1) * (self.T * self.K * self.C)
        row = row.index_select(-2, self.query)  # (..., pairs, B)
        to_token, to_position = entries = torch.empty(2, *row.shape, dtype=row.dtype, device=row.device)
        torch.add(row, tokens.index_select(-2, self.key), out=to_token)
        torch.add(row, self.key_position, out=to_position)
        return entries.flatten(1)

    def _parts(self, table: Tensor) -> Tensor:
        """A flat table twice, from its first token on and from its first position on, for two threads to go through side by side.

        They never meet: in each row of C entries the first part has the K of the tokens, the second those of the positions.
        The K entries that the first part lacks are nobody's: the last row is a token's that never is the last query, which is `=`.
        """
        return table.as_strided((2, len(table) - self.K), (self.K, 1))

    def _attention_1(self, tables: Tables, entries: Tensor, shape: torch.Size) -> Tensor:
        """Patterns of layer 1, (..., T, T, B), zero above the diagonal."""
        scores = self._scaled(tables.queries_1, tables.keys_1.mT)  # (..., C, C)
        if scores.device.type == "cpu":
            for part in scores.split([self.K, self.T], -1):
                part -= part.amax(-1, keepdim=True)  # a pattern does not change when all scores of a query do
            if scores.amin() > self.safe_exponent:
                return self._by_products(scores.exp_(), entries, shape)
        return self._by_softmax(scores, entries, shape)

    def _by_products(self, exponentials: Tensor, entries: Tensor, shape: torch.Size) -> Tensor:
        """exp(score) is a product of four table entries, which spares the exponentials of all pairs (8,100 for 70,000)."""
        *lead, T, B = shape
        of_tokens, of_positions = exponentials.split([self.K, T], -2)
        table = (of_tokens.unsqueeze(-3) * of_positions.unsqueeze(-2)).view(-1)
        pairs = torch.empty(*lead, len(self.query) + 1, B, dtype=table.dtype, device=table.device)
        below, above = pairs.split([len(self.query), 1], -2)
        torch.mul(*self._parts(table).gather(1, entries).view(2, *below.shape), out=below)
        above.zero_()
        pattern = pairs.index_select(-2, self.square).view(*lead, T, T, B)
        return pattern.mul_(pattern.sum(-2, keepdim=True).reciprocal_())

    def _by_softmax(self, scores: Tensor, entries: Tensor, shape: torch.Size) -> Tensor:
        """Score by score, safe for any weights."""
        *lead, T, B = shape
        of_tokens, of_positions = scores.split([self.K, T], -2)
        table = (of_tokens.unsqueeze(-3) + of_positions.unsqueeze(-2)).view(-1)
        pairs = torch.add(*self._parts(table).gather(1, entries))
        pattern = scores.new_zeros(*lead, T * T, B)
        used = pattern.split([n for i in self.lengths for n in (i, T - i)], -2)[::2]
        for row, target in zip(pairs.view(*lead, len(self.pair_row), B).split(self.lengths, -2), used, strict=True):
            torch.softmax(row, -2, out=target)
        return pattern.view(*lead, T, T, B)

    def _attention_backward(self, trace: Trace, g_usage: Tensor) -> tuple[Tensor, Tensor]:
        """Gradients of the two score tables from the gradient of the usage of the output table."""
        C, K, T, tokens, a1 = self.C, self.K, self.T, trace.tokens_tb, trace.attention_1_qkb
        entries, places = trace.gathers
        g_used, g_both = g_usage.split([C + 1, 2 * C], -2)
        g_attention_2, g_carried = self._collect(g_both.unflatten(-2, (2, C)), places).unbind(-3)
        g_attention_2 += self._over_keys(a1, g_carried)
        g_keys, g_brought = g_amounts = torch.empty(2, *tokens.shape, dtype=a1.dtype, device=a1.device)
        torch._softmax_backward_data(g_attention_2, trace.attention_2_kb, -2, a1.dtype, grad_input=g_keys)
        g_a1 = trace.attention_2_kb.unsqueeze(-2) * g_carried.unsqueeze(-3)
        g_a1.addcmul_(g_keys.unsqueeze(-2), trace.key_scores.unsqueeze(-3))
        g_scores = torch.zeros_like(g_usage.narrow(-2, 0, 2 * C))
        self._over_queries(a1, g_keys, out=g_brought)
        self._spread(g_scores.unflatten(-2, (2, C)), places, g_amounts.movedim(0, -3))

        g_scores_2 = g_scores @ trace.usage.narrow(-2, 0, C + 1).mT
        g_used = plus_product(g_used, trace.tables.scores_2.mT, g_scores)
        g_a1.select(-3, -1).add_(self._collect(g_used.narrow(-2, 0, C).unsqueeze(-3), places).squeeze(-3))

        g_pairs = torch._softmax_backward_data(g_a1, a1, -2, a1.dtype).flatten(-3, -2)
        g_pairs = g_pairs.index_select(-2, self.pair_row).view(-1)
        lead = tokens.shape[:-2]
        g_table = g_pairs.new_zeros(math.prod(lead) * T * K * C)
        self._parts(g_table).scatter_add_(1, entries, g_pairs.expand(2, -1))
        g_table = g_table.view(*lead, T, K, C)
        g_scores_1 = torch.empty(*lead, C, C, dtype=a1.dtype, device=a1.device)
        for axis, part in zip((-3, -2), g_scores_1.split([K, T], -2), strict=True):
            torch.sum(g_table, axis, out=part)
        return g_scores_1, g_scores_2

    def _tables_backward(
        self, w: Weights, t: Tables, g_scores_1: Tensor, g_scores_2: Tensor, g_outputs: Tensor, grads: Weights
    ) -> None:
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
    # they are summed, which leaves half as much to sum.

    def _over_keys(self, pattern: Tensor, of_keys: Tensor) -> Tensor:
        """Sums pattern (..., query, key, B) times of_keys (..., key, B) over the keys."""
        n_late = self.T // 2
        early, late = slice(self.T - n_late), slice(self.T - n_late, None)
        total = pattern[..., early, :] * of_keys[..., None, early, :]
        total[..., late, :n_late, :].addcmul_(pattern[..., late, late, :], of_keys[..., None, late, :])
        return total.sum(-2)

    def _over_queries(self, pattern: Tensor, of_queries: Tensor, out: Tensor) -> None:
        """Sums pattern (..., query, key, B) times of_queries (..., query, B) over the queries."""
        n_early = self.T // 2
        early, late = slice(n_early), slice(n_early, None)
        total = pattern[..., late, :, :] * of_queries[..., late, None, :]
        total[..., :n_early, early, :].addcmul_(pattern[..., early, early, :], of_queries[..., early, None, :])
        torch.sum(total, -3, out=out)

    # Rows of n tables with a column for each sequence, (..., n, C, B). A flat index is several times faster than an index
    # along an axis; at most n threads share the work, one table each.

    def _places(self, tokens: Tensor) -> Tensor:
        """Where each token's entry stands in a flat (C, B) table: (..., 1, T B)."""
        column = torch.arange(tokens.shape[-1], device=tokens.device)
        return torch.add(column, tokens, alpha=len(column)).flatten(-2).unsqueeze(-2)

    def _spread(self, rows: Tensor, places: Tensor, amount: Tensor) -> None:
        """Adds an amount (..., n, T, B) at every position to the (zero) rows of its token and of the position."""
        amounts = amount.flatten(-2)
        rows.view(*rows.shape[:-2], -1).scatter_add_(-1, places.expand_as(amounts), amounts)
        rows.narrow(-2, self.K, self.T).copy_(amount)

    def _collect(self, rows: Tensor, places: Tensor) -> Tensor:
        """For every position the sum of the rows of its token and of the position: the transpose of `_spread`."""
        of_positions = rows.narrow(-2, self.K, self.T)
        found = rows.flatten(-2).gather(-1, places.expand(*rows.shape[:-2], -1))
        return found.view_as(of_positions).add_(of_positions)
