"""What the table forward reads and leaves behind: the weights by the paper's letters, its tables, and the trace of a
pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor


class Weights(NamedTuple):
    """The weights the tables read (or their gradients), each (..., rows, columns), without the axis of the one head."""

    E: Tensor
    pos: Tensor
    Q1: Tensor
    K1: Tensor
    V1: Tensor
    O1: Tensor
    Q2: Tensor
    K2: Tensor
    V2: Tensor
    O2: Tensor
    W_in: Tensor
    W_out: Tensor
    U: Tensor

    @classmethod
    def of(cls, named: Mapping[str, Tensor]) -> Weights:
        heads = [named[f"blocks.{layer}.attn.W_{letter}"].squeeze(-3) for layer in (0, 1) for letter in "QKVO"]
        ends = [named[name] for name in ("blocks.1.mlp.W_in", "blocks.1.mlp.W_out", "unembed.W_U")]
        return cls(named["embed.W_E"], named["pos_embed.W_pos"], *heads, *ends)


@dataclass(frozen=True)
class Trace:
    """The result of `TableForward.forward`: attention, and what the residual of `=` consists of.

    The properties are computed on first use, from the weights as they are then.
    """

    weights: Weights
    attention_1: Float[Tensor, "*M B T T"]
    """Attention of layer 1, (query, key)."""
    attention_2: Float[Tensor, "*M B T"]
    """Attention of `=` in layer 2 over the keys."""
    tokens: Int[Tensor, "*M B T"]
    usage: Float[Tensor, "*M B rows"]
    """The amount of each table row in the residual of `=`: w1 for layer 1, one for the constant row, w2 for layer 2."""
    copied_scores: Float[Tensor, "*M B T"]
    """Layer-2 score that a unit of layer-1 attention to each position adds to a key."""
    tables: Tables

    @cached_property
    @torch.no_grad()
    def resid_mid(self) -> Float[Tensor, "*M B d"]:
        """Residual at `=` before MLP2."""
        return self.usage @ self.tables.outputs

    @cached_property
    @torch.no_grad()
    def neurons(self) -> Float[Tensor, "*M B h"]:
        """MLP2 after the ReLU."""
        return (self.resid_mid @ self.weights.W_in).relu_()

    @cached_property
    @torch.no_grad()
    def resid_post(self) -> Float[Tensor, "*M B d"]:
        return plus_product(self.resid_mid.clone(), self.neurons, self.weights.W_out)

    @cached_property
    @torch.no_grad()
    def logits(self) -> Float[Tensor, "*M B N"]:
        return self.resid_post @ self.weights.U

    @property
    def mlp_out(self) -> Float[Tensor, "*M B d"]:
        """What MLP2 writes into `=`."""
        return self.neurons @ self.weights.W_out

    @property
    def resid_before_2(self) -> Float[Tensor, "*M B d"]:
        """Residual at `=` before layer 2's attention: its embedding and what layer 1 wrote."""
        return self.usage[..., : self.tables.equal_rows.shape[-2]] @ self.tables.equal_rows

    @property
    def attention_output_2(self) -> Float[Tensor, "*M B d"]:
        """What layer 2's attention writes into `=`: `resid_mid` less `resid_before_2`."""
        first = self.tables.equal_rows.shape[-2]
        return self.usage[..., first:] @ self.tables.outputs[..., first:, :]


@dataclass(frozen=True)
class Tables:
    embeddings: Tensor  # (C, d)     [W_E; W_pos]
    queries_1: Tensor  # (C, dh)
    keys_1: Tensor  # (C, dh)
    values_1: Tensor  # (C, dh)
    equal_rows: Tensor  # (C + 1, d)  [C OV1; E_= + P_=]: what the residual of `=` after layer 1 is made of
    both: Tensor  # (2C, d)    [C; C OV1]: what the residual of any key is made of
    QK2: Tensor
    queries_2: Tensor  # (C + 1, d)  equal_rows QK2
    scores_2: Tensor  # (2C, C + 1)
    OV2: Tensor
    outputs: Tensor  # (3C + 1, d) [equal_rows; both OV2]


def plus_product(total: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """total + a @ b, in place."""
    return total.addmm_(a, b) if total.dim() == 2 else total.baddbmm_(a, b)
