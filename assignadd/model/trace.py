"""The trace of a forward pass, and what the table forward reads: the weights by the paper's letters, its tables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from assignadd.model.kernels.tensor import TensorKernels


@dataclass(frozen=True)
class Weights:
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

    @cached_property
    def T(self) -> Weights:
        return _transposed(self)

    @classmethod
    def of(cls, named: Mapping[str, Tensor]) -> Weights:
        heads = [named[f"blocks.{layer}.attn.W_{letter}"].squeeze(-3) for layer in (0, 1) for letter in "QKVO"]
        ends = [named[name] for name in ("blocks.1.mlp.W_in", "blocks.1.mlp.W_out", "unembed.W_U")]
        return cls(named["embed.W_E"], named["pos_embed.W_pos"], *heads, *ends)


@dataclass(frozen=True)
class Trace(ABC):
    """What a forward pass leaves behind: attention of every layer and head, and what the residual of `=` consists of.

    Layers are counted from 1, heads from 0. `TableTrace` and `reference_trace.ReferenceTrace` hold the same quantities.
    The axis M of a stack may be missing.
    """

    tokens: Int[Tensor, "*M B T"]

    @abstractmethod
    def attention(self, layer: int) -> Float[Tensor, "*M B heads queries T"]:
        """Attention of a layer, (query, key). In the last layer the only query is `=`, in the others all T are."""

    @abstractmethod
    def after_layer(self, layer: int) -> Float[Tensor, "*M B T d"]:
        """The residual of every position after a layer other than the last."""

    @property
    @abstractmethod
    def residuals(self) -> dict[str, Tensor]:
        """The residual of `=` after each part, in order: `embedding`, `attention 1`, `MLP 1` if there is one, ..."""

    @property
    @abstractmethod
    def resid_pre(self) -> Float[Tensor, "*M B d"]:
        """Residual of `=` before the last layer's attention."""

    @property
    @abstractmethod
    def attention_output(self) -> Float[Tensor, "*M B d"]:
        """What the last layer's attention writes into `=`: `resid_mid` less `resid_pre`."""

    @property
    @abstractmethod
    def resid_mid(self) -> Float[Tensor, "*M B d"]:
        """Residual of `=` after the last layer's attention, before its MLP."""

    @property
    @abstractmethod
    def preactivations(self) -> Float[Tensor, "*M B h"]:
        """The last MLP before its activation function."""

    @property
    @abstractmethod
    def neurons(self) -> Float[Tensor, "*M B h"]:
        """The last MLP after its activation function."""

    @property
    @abstractmethod
    def mlp_out(self) -> Float[Tensor, "*M B d"]:
        """What the last MLP writes into `=`."""

    @property
    @abstractmethod
    def resid_post(self) -> Float[Tensor, "*M B d"]:
        """Residual of `=` after the last layer."""

    @property
    @abstractmethod
    def logits(self) -> Float[Tensor, "*M B N"]: ...


@dataclass(frozen=True)
class TableTrace(Trace):
    """The trace of `TableForward.forward`; properties are computed on first use, from weights and tables as then."""

    weights: Weights
    attention_1: Float[Tensor, "*M B T T"]
    """Attention of layer 1, (query, key)."""
    attention_2: Float[Tensor, "*M B T"]
    """Attention of `=` in layer 2 over the keys."""
    usage: Float[Tensor, "*M B rows"]
    """The amount of each table row in the residual of `=`: w1 for layer 1, one for the constant row, w2 for layer 2."""
    copied_scores: Float[Tensor, "*M B T"]
    """Layer-2 score that a unit of layer-1 attention to each position adds to a key."""
    tables: Tables
    kernels: TensorKernels

    def attention(self, layer: int) -> Float[Tensor, "*M B 1 queries T"]:
        return self.attention_1.unsqueeze(-3) if layer == 1 else self.attention_2[..., None, None, :]

    @torch.no_grad()
    def after_layer(self, layer: int) -> Float[Tensor, "*M B T d"]:
        if layer != 1:
            raise ValueError(f"layer {layer}: the tables have the residual of every position after layer 1 alone")
        tables = self.tables
        return self.kernels.after_layer_1(tables.embeddings, tables.outputs_1, self.tokens, self.attention_1)

    @property
    def residuals(self) -> dict[str, Tensor]:
        embedding = self.tables.constant.expand_as(self.resid_pre)
        later = {"attention 1": self.resid_pre, "attention 2": self.resid_mid, "MLP 2": self.resid_post}
        return {"embedding": embedding, **later}

    @cached_property
    @torch.no_grad()
    def resid_mid(self) -> Float[Tensor, "*M B d"]:
        return self.kernels.product(self.usage, self.tables.outputs)

    @property
    @torch.no_grad()
    def preactivations(self) -> Float[Tensor, "*M B h"]:
        return self.resid_mid @ self.weights.W_in

    @cached_property
    @torch.no_grad()
    def neurons(self) -> Float[Tensor, "*M B h"]:
        return self.kernels.relu_product(self.resid_mid, self.weights.W_in)

    @cached_property
    @torch.no_grad()
    def resid_post(self) -> Float[Tensor, "*M B d"]:
        if self.resid_mid.device.type == "cpu":  # where measures need both, and a pass over memory costs little
            return self.resid_mid + self.mlp_out
        return self.kernels.plus_product(self.resid_mid.clone(), self.neurons, self.weights.W_out)

    @cached_property
    @torch.no_grad()
    def logits(self) -> Float[Tensor, "*M B N"]:
        return self.resid_post @ self.weights.U

    @cached_property
    @torch.no_grad()
    def read_out(self) -> Float[Tensor, "*M h N"]:
        """The logits that a unit of each neuron adds, W_out W_U."""
        return self.weights.W_out @ self.weights.U

    @torch.no_grad()
    def read(self, read_out: Float[Tensor, "*M h N"], direct: bool = True) -> Float[Tensor, "*M B N"]:
        """The logits, given W_out W_U: fewer operations, as there are fewer logits than dimensions of the residual.

        Up to rounding they are `logits`; if not `direct`, the part that the neurons add.
        """
        of_neurons = self.neurons @ read_out
        return self.kernels.plus_product(of_neurons, self.resid_mid, self.weights.U) if direct else of_neurons

    @cached_property
    @torch.no_grad()
    def mlp_out(self) -> Float[Tensor, "*M B d"]:
        return self.neurons @ self.weights.W_out

    @property
    def resid_pre(self) -> Float[Tensor, "*M B d"]:
        return self.usage[..., : self.tables.equal_rows.shape[-2]] @ self.tables.equal_rows

    @property
    def attention_output(self) -> Float[Tensor, "*M B d"]:
        return self.usage[..., self.tables.equal_rows.shape[-2] :] @ self.tables.outputs_2


@dataclass(frozen=True)
class Tables:
    """What follows from the weights alone. Most are views of one matrix; its rows are named on the right."""

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

    @classmethod
    def room(cls, w: Weights) -> Tables:
        """Memory for the tables of such weights, not initialised."""
        (K, d), T, dh = w.E.shape[-2:], w.pos.shape[-2], w.Q1.shape[-1]
        C = K + T
        new, axes = w.E.new_empty, w.E.shape[:-2]
        sizes = (4 * C + 1, d), (C + 1, d), (2 * C, C + 1)
        rows, queries_2, scores_2 = (new(*axes, *size) for size in sizes)
        QK2, OV2 = (new(*axes, d, d) for _ in range(2))
        queries_1, keys_1, values_1 = (new(*axes, C, dh) for _ in range(3))
        embeddings, both = rows.narrow(-2, 0, C), rows.narrow(-2, 0, 2 * C)
        equal_rows, outputs = rows.narrow(-2, C, C + 1), rows.narrow(-2, C, 3 * C + 1)
        return cls(embeddings, queries_1, keys_1, values_1, equal_rows, both, QK2, queries_2, scores_2, OV2, outputs)

    @cached_property
    def T(self) -> Tables:
        return _transposed(self)

    @cached_property
    def outputs_1(self) -> Tensor:
        """C OV1, (C, d)."""
        return self.equal_rows[..., :-1, :]

    @cached_property
    def constant(self) -> Tensor:
        """E_= + P_=, (1, d)."""
        return self.equal_rows[..., -1:, :]

    @cached_property
    def outputs_2(self) -> Tensor:
        """[C; C OV1] OV2, (2C, d)."""
        return self.outputs[..., self.equal_rows.shape[-2] :, :]


def _transposed(matrices: Any) -> Any:
    """A dataclass of matrices with each of them transposed: views, made once, as a step reads them over and over."""
    return type(matrices)(*(getattr(matrices, field.name).mT for field in fields(matrices)))
