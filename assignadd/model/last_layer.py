"""The last layer of one model of any architecture, run at `=` from an edited residual stream, query or pattern.

Only `=` matters in the last layer. So the residuals of the positions are mixed before W_V and W_O act on the mixture,
and no key is computed: no product is as large as in the reference transformer.
"""

from __future__ import annotations

from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor

from assignadd.model.answer import last_pattern
from assignadd.model.architecture import require
from assignadd.model.circuits import OV
from assignadd.model.forward import traces
from assignadd.model.stack import Stack
from assignadd.model.trace import Trace
from assignadd.model.transformer import Block, Transformer, plus_bias


class LastLayer:
    """The last layer of one model, a stack with M = 1, whose weights are copied."""

    def __init__(self, stack: Stack):
        self.stack = stack
        self.model = Transformer.from_stack(stack, 0).requires_grad_(False)
        self.block = cast(Block, self.model.blocks[-1])

    def pattern(
        self, before: Float[Tensor, "B T d"], query: Float[Tensor, "B d"] | None = None
    ) -> Float[Tensor, "B heads T"]:
        """The last layer's attention from `=`, by its residual in `before` or by another residual, `query`."""
        query = before[:, -1] if query is None else query
        return last_pattern(self.block.attn, self.block.ln1(query), self.block.ln1(before))

    def attention_output(
        self, pattern: Float[Tensor, "B heads T"], before: Float[Tensor, "B T d"]
    ) -> Float[Tensor, "B d"]:
        """What attention with this pattern writes into `=`; the weights of a head need not add up to 1."""
        attn = self.block.attn
        mixture = pattern @ self.block.ln1(before)  # (B, heads, d)
        z = torch.einsum("bhd,hde->bhe", mixture, attn.W_V)  # (B, heads, dh)
        if attn.b_V is not None:
            z = z + pattern.sum(-1, keepdim=True) * attn.b_V
        return plus_bias(torch.einsum("bhe,hed->bd", z, attn.W_O), attn.b_O)

    def answer(self, before: Float[Tensor, "B T d"]) -> Float[Tensor, "B N"]:
        """Answer logits with this residual stream before the last layer."""
        attention_output = self.attention_output(self.pattern(before), before)
        return self.logits(before[:, -1] + attention_output)

    def logits(self, resid_mid: Float[Tensor, "B d"]) -> Float[Tensor, "B N"]:
        """Answer logits for a residual of `=` before the last MLP."""
        return self.unembedded(self.block.after_mlp(resid_mid, self.mlp(resid_mid)))

    def mlp(self, resid_mid: Float[Tensor, "B d"]) -> Float[Tensor, "B d"]:
        """What the last MLP writes into `=`; zero without one."""
        if self.block.mlp is None:
            return torch.zeros_like(resid_mid)
        return self.block.mlp(self.block.ln2(resid_mid))

    def unembedded(self, resid_post: Float[Tensor, "B d"]) -> Float[Tensor, "B N"]:
        """Answer logits for a residual of `=` after the last layer."""
        return self.model.unembed(self.model.ln_final(resid_post))

    def trace(self, tokens: Int[Tensor, "B T"]) -> Trace:
        """The trace of the whole forward pass on these sequences."""
        return next(traces(self.stack, tokens[None]))

    def before(self, trace: Trace) -> Float[Tensor, "B T d"]:
        """The residual of every position before the last layer, from a trace of this model."""
        return trace.after_layer(self.stack.config.model.n_layers - 1)

    def embedded(self, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T d"]:
        """The residual of every position before layer 1."""
        return self.stack.W_E[0][tokens] + self.stack.W_pos[0]

    def copied(self, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T d"]:
        """What a unit of layer 1's attention to each position writes, (E_x + P_t) OV1."""
        require(self.stack.config, "OV1")
        OV1 = OV(self.stack, 1)[0]  # (d, d)
        copied_tokens, copied_positions = self.stack.W_E[0] @ OV1, self.stack.W_pos[0] @ OV1  # (K, d), (T, d)
        return copied_tokens[tokens] + copied_positions
