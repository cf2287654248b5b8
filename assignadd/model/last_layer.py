"""The last layer of one model of any architecture, run at `=` from an edited residual stream, query or pattern.

    before            the residual of every position before the last layer, (B, T, d)
    pattern           the last layer's attention from `=`, (B, heads, T)
    attention output  what it writes into `=` with a pattern
    logits            the last MLP and the unembedding

Only `=` matters in the last layer. So the positions are mixed before W_V and W_O act on the mixture, and scores are
products of the residuals with a vector for each head: no product is as large as in the reference transformer.
"""

from __future__ import annotations

import math
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from assignadd.model.architecture import PAPER_NEEDS, SECOND_LAYER, require
from assignadd.model.circuits import OV, QK
from assignadd.model.forward import traces
from assignadd.model.stack import Stack
from assignadd.model.trace import Trace
from assignadd.model.transformer import Block, Transformer


class LastBlock:
    """The last layer of a transformer at `=`, computed from the residual stream before it."""

    def __init__(self, model: Transformer):
        block = model.blocks[-1]
        assert isinstance(block, Block)
        self.model, self.block = model, block

    def pattern(
        self, before: Float[Tensor, "B T d"], query: Float[Tensor, "B d"] | None = None
    ) -> Float[Tensor, "B heads T"]:
        """Attention from `=`, with its own residual as the query or with another one."""
        attn = self.block.attn
        q = torch.einsum("bd,hde->bhe", self.block.ln1(before[:, -1] if query is None else query), attn.W_Q)
        q = q if attn.b_Q is None else q + attn.b_Q
        scores = _scores(torch.einsum("bhe,hde->bhd", q, attn.W_K), self.block.ln1(before))
        if attn.b_K is not None:
            scores = scores + (q * attn.b_K).sum(-1, keepdim=True)
        return (scores / math.sqrt(q.shape[-1])).softmax(-1)

    def attention_output(
        self, pattern: Float[Tensor, "B heads T"], before: Float[Tensor, "B T d"]
    ) -> Float[Tensor, "B d"]:
        """What attention with this pattern writes into `=`; the weights of a head need not add up to 1."""
        attn = self.block.attn
        z = torch.einsum("bhd,hde->bhe", _mixed(pattern, self.block.ln1(before)), attn.W_V)
        if attn.b_V is not None:
            z = z + pattern.sum(-1, keepdim=True) * attn.b_V
        found = torch.einsum("bhe,hed->bd", z, attn.W_O)
        return found if attn.b_O is None else found + attn.b_O

    def answer(self, before: Float[Tensor, "B T d"]) -> Float[Tensor, "B N"]:
        """Answer logits with this residual stream before the last layer."""
        return self.logits(before[:, -1] + self.attention_output(self.pattern(before), before))

    def logits(
        self, resid_mid: Float[Tensor, "B d"], mlp_out: Float[Tensor, "B d"] | None = None
    ) -> Float[Tensor, "B N"]:
        """Answer logits for a residual of `=` before the last MLP, with the MLP's own output or another one."""
        return self.unembedded(self.block.after_mlp(resid_mid, self.mlp(resid_mid) if mlp_out is None else mlp_out))

    def mlp(self, resid_mid: Float[Tensor, "B d"]) -> Float[Tensor, "B d"]:
        """What the last MLP writes into `=`; zero without one."""
        if self.block.mlp is None:
            return torch.zeros_like(resid_mid)
        return self.block.mlp(self.block.ln2(resid_mid))

    def unembedded(self, resid_post: Float[Tensor, "B d"]) -> Float[Tensor, "B N"]:
        """Answer logits for a residual of `=` after the last layer."""
        return self.model.unembed(self.model.ln_final(resid_post))


class LastLayer(LastBlock):
    """The last layer of one model (a stack with M = 1) with at least two, and the residual streams before it."""

    def __init__(self, one: Stack):
        require(one.config, "a residual stream before the last layer", SECOND_LAYER)
        self.one = one
        super().__init__(Transformer.from_stack(one, 0).requires_grad_(False))

    # Fewer operations than in `LastBlock`, where the architecture allows it: one matrix for W_Q and W_K, one for W_V
    # and W_O, one for W_out and W_U, as there are fewer logits than dimensions of the residual stream.

    @cached_property
    def _circuits(self) -> tuple[Float[Tensor, "d d"], Float[Tensor, "d d"]] | None:
        """QK and OV of the only head; None with several heads or biases."""
        model = self.one.config.model
        if model.n_heads > 1 or model.biases:
            return None
        return QK(self.one, model.n_layers)[0], OV(self.one, model.n_layers)[0]

    @cached_property
    def _read_out(self) -> Float[Tensor, "h N"] | None:
        """The logits that a unit of each neuron adds; None if it adds none to those of the residual before the MLP."""
        mlp, linear = self.block.mlp, isinstance(self.model.ln_final, nn.Identity) and not self.block.replaces
        return mlp.W_out @ self.model.unembed.W_U if mlp is not None and linear else None

    def pattern(
        self, before: Float[Tensor, "B T d"], query: Float[Tensor, "B d"] | None = None
    ) -> Float[Tensor, "B heads T"]:
        if self._circuits is None:
            return super().pattern(before, query)
        queries = self.block.ln1(before[:, -1] if query is None else query) @ self._circuits[0]
        return _scores(queries[:, None], self.block.ln1(before)).softmax(-1)

    def attention_output(
        self, pattern: Float[Tensor, "B heads T"], before: Float[Tensor, "B T d"]
    ) -> Float[Tensor, "B d"]:
        if self._circuits is None:
            return super().attention_output(pattern, before)
        return _mixed(pattern, self.block.ln1(before))[:, 0] @ self._circuits[1]

    def logits(
        self, resid_mid: Float[Tensor, "B d"], mlp_out: Float[Tensor, "B d"] | None = None
    ) -> Float[Tensor, "B N"]:
        return self.logits_with(resid_mid, resid_mid) if mlp_out is None else super().logits(resid_mid, mlp_out)

    def logits_with(self, mlp_in: Float[Tensor, "B d"], resid_mid: Float[Tensor, "B d"]) -> Float[Tensor, "B N"]:
        """Answer logits for a residual of `=` before the last MLP, if the MLP reads another one."""
        mlp = self.block.mlp
        if mlp is None or self._read_out is None:
            return self.unembedded(self.block.after_mlp(resid_mid, self.mlp(mlp_in)))
        around = resid_mid if mlp.b_out is None else resid_mid + mlp.b_out
        return torch.addmm(self.unembedded(around), mlp.neurons(self.block.ln2(mlp_in)), self._read_out)

    def trace(self, tokens: Int[Tensor, "B T"]) -> Trace:
        """The forward pass on these sequences."""
        return next(traces(self.one, tokens[None]))

    def before(self, trace: Trace) -> Float[Tensor, "B T d"]:
        """The residual of every position before the last layer."""
        return trace.after_layer(self.one.config.model.n_layers - 1)

    def embedded(self, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T d"]:
        """The residual of every position before layer 1."""
        return self.one.W_E[0][tokens] + self.one.W_pos[0]

    def embedded_at(self, tokens: Int[Tensor, "B T"], where: Bool[Tensor, "B T"]) -> Float[Tensor, "n d"]:
        """The residuals before layer 1 of the positions in a mask."""
        return self.one.W_E[0][tokens[where]] + self.one.W_pos[0][where.nonzero()[:, 1]]

    def copied(self, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T d"]:
        """What a unit of layer 1's attention to each position writes, (E_x + P_t) OV1."""
        require(self.one.config, "OV1", *PAPER_NEEDS)
        OV1 = OV(self.one, 1)[0]
        return (self.one.W_E[0] @ OV1)[tokens] + self.one.W_pos[0] @ OV1


# With one head, sums of products take half of the time of a batched product of small matrices on a CPU.


def _scores(queries: Float[Tensor, "B heads d"], keys: Float[Tensor, "B T d"]) -> Float[Tensor, "B heads T"]:
    """The products of every query with every key."""
    if queries.shape[1] == 1:
        return (queries * keys).sum(-1).unsqueeze(1)
    return (keys @ queries.mT.contiguous()).mT  # a product with a transposed view is slow


def _mixed(pattern: Float[Tensor, "B heads T"], values: Float[Tensor, "B T d"]) -> Float[Tensor, "B heads d"]:
    """The sum of the values, each times its weight."""
    if pattern.shape[1] == 1:
        return (pattern.mT * values).sum(1, keepdim=True)
    return pattern.contiguous() @ values
