"""The circuits QK and OV of a head as d x d matrices, one per model of a stack (Elhage et al., 2021; paper, section
5.2).

Conventions, stated here once. Vectors are rows. `score(q, k) = q @ QK @ k` is the attention score between a query
position with residual q and a key position with residual k, the factor 1/sqrt(d_head) included; an attended residual x
adds `x @ OV` to the query's residual. Layers are counted from 1, as in the paper, heads from 0. Biases and norms, where
a model has them, are no part of either matrix.
"""

from __future__ import annotations

import math

from jaxtyping import Float
from torch import Tensor

from assignadd.model.stack import Stack


def QK(stack: Stack, layer: int, head: int = 0) -> Float[Tensor, "M d d"]:
    """The attention score of every pair of residual directions: W_Q W_K^T / sqrt(d_head) of a head."""
    W_Q, W_K = _of_head(stack, layer, head, "W_Q"), _of_head(stack, layer, head, "W_K")  # (M, d, dh)
    return W_Q @ W_K.mT / math.sqrt(stack.config.model.d_head)


def OV(stack: Stack, layer: int, head: int = 0) -> Float[Tensor, "M d d"]:
    """What attention writes for every residual direction that it reads: W_V W_O of a head."""
    return _of_head(stack, layer, head, "W_V") @ _of_head(stack, layer, head, "W_O")


def _of_head(stack: Stack, layer: int, head: int, name: str) -> Tensor:
    """The attention matrix `name`, such as W_Q, of one head of every model, (M, rows, columns)."""
    model = stack.config.model
    if not 1 <= layer <= model.n_layers:
        raise ValueError(f"layer {layer}: expected 1 to {model.n_layers} (layers are counted from 1)")
    if not 0 <= head < model.n_heads:
        raise ValueError(f"head {head}: expected 0 to {model.n_heads - 1} (heads are counted from 0)")
    return stack[f"blocks.{layer - 1}.attn.{name}"][:, head]
