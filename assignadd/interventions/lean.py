"""The exact answer logits of one model with changes at any hook, computing only what `=` needs.

Layer 1 is read from the tables of C = K + T embedding rows (see `model.table`) unless the embeddings themselves are
changed; from layer 2 on there is only the position of `=`. The hooked reference transformer does the same for every
position; a test holds the two equal under every intervention.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from assignadd.interventions.edits import Edits
from assignadd.model.circuits import OV, QK
from assignadd.model.forward import unstacked
from assignadd.model.stack import Stack

if TYPE_CHECKING:
    from jaxtyping import Float, Int

NONE = Edits()


class Lean:
    """One model of the paper's architecture (a stack with M = 1)."""

    def __init__(self, one: Stack):
        self.weights = w = unstacked(one)
        self.K, self.T = w.E.shape[0], w.pos.shape[0]
        self.QK1, self.QK2, self.OV1, self.OV2 = QK(one, 1)[0], QK(one, 2)[0], OV(one, 1)[0], OV(one, 2)[0]
        embeddings = torch.cat([w.E, w.pos])  # (C, d)
        table = embeddings @ self.QK1 @ embeddings.T
        self.rows = (table[self.K :, None] + table[: self.K]).flatten(0, 1)  # (T K, C): a query is a token at a position
        self.outputs = embeddings @ self.OV1
        self.row_base = torch.arange(self.T, device=w.E.device) * self.K
        self.future = torch.ones(self.T, self.T, dtype=torch.bool, device=w.E.device).triu(1)

    def __call__(self, tokens: Int[Tensor, "B T"], at: Edits = NONE) -> Float[Tensor, "B N"]:
        return self.second(self.first(tokens, at), at)

    def first(self, tokens: Int[Tensor, "B T"], at: Edits = NONE) -> Float[Tensor, "B T d"]:
        """The residual after layer 1, at every position."""
        w, K = self.weights, self.K
        x = at("hook_embed", w.E[tokens]) + at("hook_pos_embed", w.pos.expand(len(tokens), -1, -1))
        if at.touches("hook_embed", "hook_pos_embed"):
            scores, values = (x @ self.QK1) @ x.mT.contiguous(), x @ self.OV1
        else:
            asked = self.rows[tokens + self.row_base]  # (B, T, C)
            scores = asked.gather(-1, tokens[:, None].expand(-1, self.T, -1)) + asked[..., K:]
            values = self.outputs[tokens] + self.outputs[K:]
        scores = at("blocks.0.attn.hook_attn_scores", scores.masked_fill_(self.future, -math.inf)[:, None])
        pattern = at("blocks.0.attn.hook_pattern", scores.softmax(-1))[:, 0]  # (B, T, T)
        out = at("blocks.0.hook_attn_out", pattern @ values)
        return at("blocks.1.hook_resid_pre", x + out)

    def second(self, x: Float[Tensor, "B T d"], at: Edits = NONE) -> Float[Tensor, "B N"]:
        """Layer 2 at `=`, from the residual after layer 1 to the logits."""
        own = x[:, -1:].contiguous()  # a product with a view is taken row by row
        # Sums of products, here and for the output: as batched products they are slow too (see `model.transformer`).
        scores = at("blocks.1.attn.hook_attn_scores", (x * (own @ self.QK2)).sum(-1)[:, None, None])  # (B, 1, 1, T)
        pattern = at("blocks.1.attn.hook_pattern", scores.softmax(-1))[:, 0]
        out = at("blocks.1.hook_attn_out", (pattern.mT * x).sum(1, keepdim=True) @ self.OV2)  # (B, 1, d)
        return self.tail(at("blocks.1.hook_resid_mid", own + out), at)

    def tail(self, mid: Float[Tensor, "B 1 d"], at: Edits = NONE) -> Float[Tensor, "B N"]:
        """MLP2 and the unembedding."""
        w = self.weights
        pre = at("blocks.1.mlp.hook_pre", mid @ w.W_in)  # (B, 1, h)
        mlp_out = at("blocks.1.hook_mlp_out", at("blocks.1.mlp.hook_post", pre.relu()) @ w.W_out)
        return (at("blocks.1.hook_resid_post", mid + mlp_out) @ w.U)[:, 0]
