"""The table forward of one model in stages, to be continued from an edited stage.

    layer 1's output    at every position a weighted sum of table rows: weights (query, key), and the rows of the keys
    residual            what `=` holds before layer 2: its own row and layer 1's output there
    pattern             layer 2's attention from `=`, with a residual as the query
    attention output    what layer 2's attention writes into `=` with a pattern
    logits              MLP2 and the unembedding

`trace` is the forward pass; its activations are what an edit starts from. Layer 1's output can be given in parts that
add up: with other weights, of other sequences, at some positions alone, or of projected rows. Nothing of size (B, T, d)
is formed unless an edit is such a change of the residual stream.
"""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor

from assignadd.model.forward import unstacked
from assignadd.model.kernels.tensor import collect, spread
from assignadd.model.stack import Stack
from assignadd.model.table import TableForward
from assignadd.model.trace import Trace


@dataclass(frozen=True)
class Rows:
    """The C = K + T rows of a table as `=` uses them: in its residual, as keys of layer 2, and through OV2."""

    own: Float[Tensor, "C d"]
    keys: Float[Tensor, "C d"]
    values: Float[Tensor, "C d"]


@dataclass(frozen=True)
class Layer1Output:
    """What layer 1's attention writes into every position of some sequences, or a part of it."""

    tokens: Int[Tensor, "B T"]
    weights: Float[Tensor, "B T T"]
    """Attention of queries to keys."""
    rows: Rows
    """What a unit of attention to each row writes."""

    def scaled(self, factor: Float[Tensor, "B T"], rows: Rows | None = None) -> Layer1Output:
        """Times a factor at each query position, and with other rows where given."""
        return Layer1Output(self.tokens, self.weights * factor[..., None], self.rows if rows is None else rows)

    def with_last_query(self, weights: Float[Tensor, "B T"]) -> Layer1Output:
        """With these weights for the last query, which is `=`."""
        edited = self.weights.clone()
        edited[:, -1] = weights
        return Layer1Output(self.tokens, edited, self.rows)


class Stages(TableForward):
    """One model of the paper's architecture (a stack with M = 1)."""

    def __init__(self, one: Stack):
        super().__init__(one.config, one.flat.device)
        self.weights = unstacked(one)
        self.own_tables = self.tables(self.weights)
        self.embedded, self.copied = self.rows(self.own_tables.embeddings), self.rows(self.own_tables.equal_rows[:-1])

    def rows(self, own: Float[Tensor, "C d"]) -> Rows:
        return Rows(own, own @ self.own_tables.QK2.T, own @ self.own_tables.OV2)

    def trace(self, tokens: Int[Tensor, "B T"]) -> Trace:
        """The forward pass on these sequences."""
        return self.forward(self.weights, tokens, self.own_tables)

    def layer_1(self, trace: Trace) -> Layer1Output:
        """Layer 1's output in a trace, to be edited."""
        return Layer1Output(trace.tokens, trace.attention_1, self.copied)

    def residual(self, *layer_1: Layer1Output) -> Float[Tensor, "B d"]:
        """What `=` holds before layer 2."""
        found = self.own_tables.equal_rows[-1]  # its own embeddings
        for part in layer_1:
            found = found + self._mixed(part.weights[:, -1], part.tokens, part.rows.own)
        return found

    def pattern(
        self,
        query: Float[Tensor, "B d"],
        tokens: Int[Tensor, "B T"],
        *layer_1: Layer1Output,
        change: Float[Tensor, "B T d"] | None = None,
    ) -> Float[Tensor, "B T"]:
        """Layer 2's attention from `=`, with this residual as the query; `change` is added to what the keys read."""
        scores = self._products(query, tokens, self.embedded.keys)
        for part in layer_1:
            scores += (part.weights * self._products(query, part.tokens, part.rows.keys)[:, None]).sum(-1)
        if change is not None:
            scores += (change * (query @ self.own_tables.QK2)[:, None]).sum(-1)
        return scores.softmax(-1)

    def attention_output(
        self,
        pattern: Float[Tensor, "B T"],
        tokens: Int[Tensor, "B T"],
        *layer_1: Layer1Output,
        change: Float[Tensor, "B T d"] | None = None,
    ) -> Float[Tensor, "B d"]:
        """What layer 2's attention writes into `=`; `change` is added to what the values read."""
        found = self._mixed(pattern, tokens, self.embedded.values)
        for part in layer_1:
            found += self._mixed((pattern[..., None] * part.weights).sum(1), part.tokens, part.rows.values)
        if change is not None:
            found += (pattern[..., None] * change).sum(1) @ self.own_tables.OV2
        return found

    def after_layer_1(self, tokens: Int[Tensor, "B T"], *layer_1: Layer1Output) -> Float[Tensor, "B N"]:
        """Answer logits with this output of layer 1."""
        own = self.residual(*layer_1)
        return self.logits(own + self.attention_output(self.pattern(own, tokens, *layer_1), tokens, *layer_1))

    def logits(
        self, resid_mid: Float[Tensor, "B d"], mlp_out: Float[Tensor, "B d"] | None = None
    ) -> Float[Tensor, "B N"]:
        """Answer logits for a residual of `=` before MLP2, with MLP2's own output or another one."""
        return (resid_mid + (self.mlp(resid_mid) if mlp_out is None else mlp_out)) @ self.weights.U

    def mlp(self, resid_mid: Float[Tensor, "B d"]) -> Float[Tensor, "B d"]:
        """MLP2's output."""
        return (resid_mid @ self.weights.W_in).relu() @ self.weights.W_out

    def at_positions(self, tokens: Int[Tensor, "B T"], rows: Float[Tensor, "C d"]) -> Float[Tensor, "B T d"]:
        """The sum of the rows of its token and of its place, for every position."""
        return rows[tokens] + rows[self.K :]

    def _mixed(
        self, amounts: Float[Tensor, "B T"], tokens: Int[Tensor, "B T"], rows: Float[Tensor, "C d"]
    ) -> Float[Tensor, "B d"]:
        """The sum of the rows of every position, each times its amount."""
        return spread(amounts, tokens, self.C) @ rows

    def _products(
        self, x: Float[Tensor, "B d"], tokens: Int[Tensor, "B T"], rows: Float[Tensor, "C d"]
    ) -> Float[Tensor, "B T"]:
        """The products of a vector of each sequence with the rows of each of its positions."""
        return collect(x @ rows.T, tokens)
