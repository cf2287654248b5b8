"""The answer logits of one model of any architecture, by fewer operations than the reference transformer takes.

They are equal up to rounding; autograd differentiates them; there are no hooks. What is left out:

- Before layer 1, a position is a pair of its token and its place. A batch of the paper's has 8,192 positions and about
  a thousand pairs: norm, queries, keys and values of layer 1 are computed once for each pair, and gathered.
- With one head as wide as the residual stream, queries are one product, with W_Q W_K^T, and values another, with
  W_V W_O; keys are the residual stream.
- In the last layer only `=` has a query, and no position a key or a value of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import cast

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from assignadd.model.stack import Stack
from assignadd.model.transformer import NORM_EPS, Attention, Block, Norm, Transformer, plus_bias

AtPositions = Callable[[Tensor], Tensor]
"""A function that gives every position its row: from (rows, width) to (B, T, width)."""


def transformer_of(stack: Stack) -> Transformer:
    """The only model of a stack as a module whose weights stay in the memory of the stack."""
    model = Transformer.from_stack(stack, 0)
    model.load_state_dict({name: weight.detach() for name, weight in stack.of_model(0).items()}, assign=True)
    return model


def logits_of_answers(model: Transformer, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B *positions N"]:
    """The logits at `=`, or at every position for a task that has answers there."""
    T, everywhere = tokens.shape[1], model.sizes.everywhere
    pair_at_position = tokens.long() * T + torch.arange(T)  # token and place as one number, (B, T)
    pairs, index_of_pair = torch.unique(pair_at_position, return_inverse=True)  # (pairs,), (B, T)
    rows = F.embedding(pairs // T, model.embed.W_E) + F.embedding(pairs % T, model.pos_embed.W_pos)  # (pairs, d)
    at_positions: AtPositions = partial(F.embedding, index_of_pair)
    blocks = cast(list[Block], list(model.blocks))
    blocks_at_all_positions = blocks if everywhere else blocks[:-1]
    for block in blocks_at_all_positions:
        x = _with_mlp(block, _with_attention(block, rows, at_positions))  # (B, T, d)
        # After attention, every position has a row of its own, (B T, d).
        rows, at_positions = x.flatten(0, 1), partial(torch.unflatten, dim=0, sizes=tokens.shape)
    if not everywhere:
        x = _with_mlp(blocks[-1], _last_attention(blocks[-1], at_positions(rows)))  # (B, d)
    return model.unembed(_normalised(model.ln_final, x))


def _normalised(norm: nn.Module, x: Tensor) -> Tensor:
    """The output of a norm, in which torch passes over memory once; x where the model has none."""
    if not isinstance(norm, Norm):
        return x
    if norm.centred:
        return F.layer_norm(x, x.shape[-1:], norm.w, norm.b, NORM_EPS)
    return F.rms_norm(x, x.shape[-1:], norm.w, NORM_EPS)


def _with_mlp(block: Block, x: Float[Tensor, "*positions d"]) -> Float[Tensor, "*positions d"]:
    """The residual stream after the MLP of a layer, from that before; x where the layer has none."""
    return x if block.mlp is None else block.after_mlp(x, block.mlp(_normalised(block.ln2, x)))


def _with_attention(block: Block, rows: Float[Tensor, "rows d"], at_positions: AtPositions) -> Float[Tensor, "B T d"]:
    """The residual stream after the attention of a layer; `rows` are those of the residual stream before."""
    attn, normal = block.attn, _normalised(block.ln1, rows)
    H, d, dh = attn.W_Q.shape
    x = at_positions(rows)
    if H == 1 and dh >= d:  # then W_Q W_K^T and W_V W_O are no larger than their factors
        # b_K is not read: it adds the same to the scores of all keys.
        W_K_T, W_O = attn.W_K[0].T / math.sqrt(dh), attn.W_O[0]
        q = at_positions(plus_bias(normal @ (attn.W_Q[0] @ W_K_T), _times(attn.b_Q, W_K_T)))
        k = x if normal is rows else at_positions(normal)
        v = at_positions(plus_bias(normal @ (attn.W_V[0] @ W_O), _times(attn.b_V, W_O)))
        return plus_bias(x + _attended(q, k, v), attn.b_O)

    def of_heads(W: Tensor, bias: Tensor | None, scale: float = 1.0) -> tuple[Tensor, ...]:
        """For each head, a tensor (B, T, dh): `scale` times every position's product with its weight, plus bias."""
        offset = None if bias is None else bias.flatten() * scale
        product = plus_bias(normal @ (W.transpose(0, 1).flatten(1) * scale), offset)  # (rows, H dh)
        return at_positions(product).unflatten(-1, (H, dh)).unbind(2)

    queries = of_heads(attn.W_Q, attn.b_Q, scale=1 / math.sqrt(dh))
    keys, values = of_heads(attn.W_K, attn.b_K), of_heads(attn.W_V, attn.b_V)
    for q, k, v, W_O in zip(queries, keys, values, attn.W_O, strict=True):
        x = x + _attended(q, k, v) @ W_O
    return plus_bias(x, attn.b_O)


def _attended(
    q: Float[Tensor, "B T e"], k: Float[Tensor, "B T e"], v: Float[Tensor, "B T f"]
) -> Float[Tensor, "B T f"]:
    """The values of a head, weighted by its causal attention; the queries are divided by sqrt(dh) already.

    It is not torch's fused attention, which takes as long, and whose gradients are less exact where a pattern is sharp.
    """
    T = q.shape[1]
    future = torch.full((T, T), -math.inf, dtype=q.dtype).triu(1)
    keys = k.mT.contiguous()  # copied as in the reference transformer
    scores = torch.baddbmm(future, q, keys)  # (B, T, T)
    return scores.softmax(-1) @ v


def _times(bias: Tensor | None, W: Tensor) -> Tensor | None:
    """bias @ W; None in a model without biases."""
    return None if bias is None else bias @ W


def last_pattern(
    attn: Attention, query: Float[Tensor, "B d"], normal: Float[Tensor, "B T d"]
) -> Float[Tensor, "B H T"]:
    """The attention of the last layer from `=`, from the normalised residuals of `=` and of every position.

    q (x W_K) = (q W_K^T) x, so no key is computed. b_K is not read: it adds the same to the scores of all keys.
    """
    q = plus_bias(torch.einsum("bd,hde->bhe", query.contiguous(), attn.W_Q), attn.b_Q)
    query_for_residuals = torch.einsum("bhe,hde->bhd", q, attn.W_K)  # (B, H, d)
    d_head = q.shape[-1]
    return (query_for_residuals @ normal.mT.contiguous() / math.sqrt(d_head)).softmax(-1)


def _last_attention(block: Block, x: Float[Tensor, "B T d"]) -> Float[Tensor, "B d"]:
    """The residual of `=` after the attention of the last layer, from the residual stream before."""
    attn, normal = block.attn, _normalised(block.ln1, x)
    mixture = last_pattern(attn, normal[:, -1], normal) @ normal  # (B, H, d)
    z = plus_bias(torch.einsum("bhd,hde->bhe", mixture, attn.W_V), attn.b_V)
    return x[:, -1] + plus_bias(torch.einsum("bhe,hed->bd", z, attn.W_O), attn.b_O)
