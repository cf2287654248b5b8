"""The network with only some parts of its circuits kept, through the tables of the exact forward pass.

Every score and every output of attention is a sum over the C = K + T embedding rows [W_E; W_pos] (see `model.table`), so a
part of a circuit is a block of a table: what is not kept is zero there.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from assignadd.measures.fourier import kept
from assignadd.model.forward import CHUNK, unstacked
from assignadd.model.stack import Stack, single_models
from assignadd.model.table import TableForward
from assignadd.model.trace import Tables, Weights

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int


@dataclass(frozen=True)
class Kept:
    """Which entries of the tables stay, and which paths around attention and MLP2."""

    qk1: Bool[Tensor, "C C"]
    """Scores of layer 1, rows asking."""
    ov1: Bool[Tensor, " C"]
    """Rows that layer 1 copies."""
    qk2: Bool[Tensor, "C2 2C"]
    """Scores of layer 2, rows asking: what layer 1 wrote into `=` (C rows), the token `=`, the last position. Columns, the
    keys: what a position holds before layer 1 (C), what layer 1 wrote into it (C)."""
    ov2: Bool[Tensor, " 2C"]
    """Rows that layer 2 fetches: what a key is, and what it was sent by layer 1."""
    frequencies: Bool[Tensor, " K"]
    """Frequencies of OV2(e_n) that stay; the constant always does."""
    own: bool = True
    """Whether MLP2 and the unembedding see what `=` held before layer 2."""
    direct: bool = True
    """Whether the unembedding sees what MLP2 reads, and not MLP2's output alone."""


class KeptForward(TableForward):
    """The exact forward pass of one model (without the axis M) with parts of its tables put to zero."""

    def __init__(self, one: Stack, keep: Kept):
        super().__init__(one.config, one.flat.device)
        self.keep, self.weights, self.modulus = keep, unstacked(one), one.config.task.modulus

    def _tables(self, w: Weights) -> Tables:
        full, keep, C = super()._tables(w), self.keep, self.C
        copied = full.equal_rows[:C] * keep.ov1[:, None]
        equal_rows = torch.cat([copied, full.equal_rows[C:]])
        both = torch.cat([full.embeddings, copied])
        asking = torch.cat([copied, full.embeddings[[self.equals, C - 1]]])
        of_layer_1, of_itself = (both @ (asking @ full.QK2).T * keep.qk2.T).split([C, 2], 1)
        fetched = both @ full.OV2 * keep.ov2[:, None]
        fetched[: self.modulus] = kept(fetched[None, : self.modulus], keep.frequencies)[0]
        return dataclasses.replace(
            full,
            queries_1=full.queries_1 @ full.keys_1.T * keep.qk1,
            keys_1=torch.eye(C, dtype=both.dtype, device=both.device),
            equal_rows=equal_rows,
            both=both,
            queries_2=equal_rows @ full.QK2,
            scores_2=torch.cat([of_layer_1, of_itself.sum(1, keepdim=True)], 1),
            outputs=torch.cat([equal_rows * keep.own, fetched]),
        )

    def logits(self, tokens: Int[Tensor, "T B"]) -> Float[Tensor, "B N"]:
        trace = self.forward(self.weights, tokens)
        return trace.logits if self.keep.direct else trace.neurons @ self.weights.W_out @ self.weights.U


@torch.no_grad()
def kept_logits(stack: Stack, tokens: Int[Tensor, "M T B"], keeps: list[Kept]) -> Float[Tensor, "M B N"]:
    """Answer logits of every model with its own parts kept, on its own sequences or on shared ones (M = 1 in `tokens`)."""
    tokens = tokens.expand(len(stack), *tokens.shape[1:])
    models = zip(single_models(stack), keeps, tokens, strict=True)
    return torch.stack([torch.cat([KeptForward(one, k).logits(t) for t in own.split(CHUNK, -1)]) for one, k, own in models])
