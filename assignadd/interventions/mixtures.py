"""The network with its layer 1 in parts, exactly and at `=` alone: all that `=` ever holds is a mixture of table rows.

What layer 1 sends to a position is a message: the weights of its pattern times the rows of its output table (see
`model.table`). A message can be of other prompts, at some positions alone, or of rows that were projected; the messages
that layer 2 reads add up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from assignadd.model.forward import unstacked
from assignadd.model.stack import Stack
from assignadd.model.table import TableForward

if TYPE_CHECKING:
    from jaxtyping import Float, Int


@dataclass(frozen=True)
class Rows:
    """The C = K + T rows of a table as `=` meets them: in its residual, as keys of layer 2, and as what layer 2 brings."""

    own: Float[Tensor, "C d"]
    keys: Float[Tensor, "C d"]
    brought: Float[Tensor, "C d"]


@dataclass(frozen=True)
class Message:
    """What layer 1 sends to every position of some sequences, or a part of it."""

    tokens: Int[Tensor, "T B"]
    weights: Float[Tensor, "T T B"]
    """Of queries and keys."""
    rows: Rows
    """What the keys send."""

    def weighted(self, positions: Tensor, rows: Rows) -> Message:
        """With a factor (T, B) at each position that receives, and other rows."""
        return Message(self.tokens, self.weights * positions[:, None], rows)


class Mixtures(TableForward):
    """One model of the paper's architecture (a stack with M = 1)."""

    def __init__(self, one: Stack):
        super().__init__(one.config, one.flat.device)
        self.weights = unstacked(one)
        self.tables = super().tables(self.weights)
        self.embedded, self.sent = self.rows(self.tables.embeddings), self.rows(self.tables.equal_rows[:-1])

    def rows(self, own: Float[Tensor, "C d"]) -> Rows:
        return Rows(own, own @ self.tables.QK2.T, own @ self.tables.OV2)

    def layer_1(self, tokens: Int[Tensor, "T B"]) -> Message:
        return Message(tokens, self._attention_1(self.tables, self._entries(tokens), tokens.shape), self.sent)

    def residual(self, *layer_1: Message) -> Float[Tensor, "B d"]:
        """What `=` holds before layer 2."""
        found = self.tables.equal_rows[-1]  # itself
        for sent in layer_1:
            found = found + self._mixed(sent.weights[-1], sent.tokens, sent.rows.own)
        return found

    def pattern(self, asks: Float[Tensor, "B d"], tokens: Int[Tensor, "T B"], *layer_1: Message) -> Float[Tensor, "T B"]:
        """Layer 2's attention from `=`, where this residual asks."""
        scores = self._met(asks, tokens, self.embedded.keys)
        for sent in layer_1:
            scores += (sent.weights * self._met(asks, sent.tokens, sent.rows.keys)).sum(1)
        return scores.softmax(0)

    def brought(self, pattern: Float[Tensor, "T B"], tokens: Int[Tensor, "T B"], *layer_1: Message) -> Float[Tensor, "B d"]:
        """What layer 2 brings to `=`."""
        found = self._mixed(pattern, tokens, self.embedded.brought)
        for sent in layer_1:
            found += self._mixed((pattern[:, None] * sent.weights).sum(0), sent.tokens, sent.rows.brought)
        return found

    def mlp(self, mid: Float[Tensor, "B d"]) -> Float[Tensor, "B d"]:
        return (mid @ self.weights.W_in).relu_() @ self.weights.W_out

    def logits(self, mid: Float[Tensor, "B d"], mlp_out: Float[Tensor, "B d"] | None = None) -> Float[Tensor, "B N"]:
        return (mid + (self.mlp(mid) if mlp_out is None else mlp_out)) @ self.weights.U

    def _mixed(self, amounts: Float[Tensor, "T B"], tokens: Int[Tensor, "T B"], rows: Float[Tensor, "C d"]) -> Float[Tensor, "B d"]:
        """The sum of the rows of every position, each so many times."""
        usage = rows.new_zeros(self.C, tokens.shape[1])
        self._spread(usage[None], self._places(tokens), amounts[None])
        return usage.T @ rows

    def _met(self, x: Float[Tensor, "B d"], tokens: Int[Tensor, "T B"], rows: Float[Tensor, "C d"]) -> Float[Tensor, "T B"]:
        """The products of a vector of each sequence with the rows of each of its positions."""
        return self._collect((rows @ x.T)[None], self._places(tokens))[0]
