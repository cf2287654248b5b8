"""The answer logits of a stack of any architecture on a GPU, by fewer passes over memory than the reference takes.

They are equal up to rounding; autograd differentiates them; there are no hooks. As in `answer`, layer 1 computes
queries, keys and values once for each pair of token and place, one head as wide as the residual stream takes two
products instead of four, and in the last layer only `=` has a query. Attention is one program each way, which reads
rows of pairs where they are and stores no pattern (`kernels/triton_attention.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd import Function

from assignadd.config import Config
from assignadd.model.kernels import has_programs, kernels_for
from assignadd.model.kernels.tensor import TensorKernels
from assignadd.model.transformer import ACTIVATIONS, NORM_EPS
from assignadd.task.vocabulary import sizes_of

# The longest sequences, the widest rows and the most heads of a program: it has the rows of a whole sequence in
# registers, and its code has each head of the last layer.
LONGEST, WIDEST, MOST_HEADS = 32, 128, 8


def serves(config: Config, flat: Tensor) -> bool:
    """Whether `StackAnswer` computes models of these settings, whose weights are `flat`."""
    sizes, model = sizes_of(config.task), config.model
    fits = sizes.length <= LONGEST and max(model.d_model, model.d_head) <= WIDEST and model.n_heads <= MOST_HEADS
    is_ours = model.file is None and not sizes.everywhere and flat.dtype == torch.float32
    return fits and is_ours and has_programs(flat.device)


class StackAnswer:
    """The answer logits of models of one architecture, from their weights by name and their sequences."""

    def __init__(self, config: Config, device: torch.device):
        from assignadd.model.kernels import triton_attention  # here, as it needs Triton

        self._programs = triton_attention
        self._model, sizes = config.model, sizes_of(config.task)
        self._sizes = sizes.n_tokens, sizes.length, self._model.n_heads
        self._kernels = kernels_for(config, device, stacked=True)
        self._precision = "tf32" if config.numerics.tf32 else "ieee"
        # With one head as wide as the residual stream, W_Q W_K^T and W_V W_O are no larger than their factors.
        self._one_wide_head = self._model.n_heads == 1 and self._model.d_head >= self._model.d_model

    def __call__(self, w: Mapping[str, Tensor], tokens: Int[Tensor, "M B T"]) -> Float[Tensor, "M B N"]:
        """The logits at `=`; weights have the leading axis M."""
        if tokens.shape[-1] != self._sizes[1]:
            raise ValueError(f"tokens have shape {tuple(tokens.shape)}: expected (M, B, {self._sizes[1]})")
        tokens = tokens.mT.contiguous().mT  # sequences last in memory, as the sampler stores them
        # A row for each pair of a place and a token, (M, T K, d).
        x = (w["pos_embed.W_pos"].unsqueeze(2) + w["embed.W_E"].unsqueeze(1)).flatten(1, 2)
        tokens_of_rows: Tensor | None = tokens
        for layer in range(self._model.n_layers - 1):
            x = self._after_mlp(w, layer, self._after_attention(w, layer, x, tokens_of_rows))  # (M, B T, d)
            tokens_of_rows = None  # from here on every position has a row of its own
        if tokens_of_rows is not None:
            x = self._at_positions(x, tokens)
        x = self._after_last_layer(w, self._model.n_layers - 1, x)  # (M, B, d)
        W_U, b_U = self._behind_norm(w, "ln_final", w["unembed.W_U"], w.get("unembed.b_U"))
        return _product(self._normalised(x), W_U, b_U)

    def _normalised(self, x: Float[Tensor, "M rows d"]) -> Tensor:
        """The output of a norm before gains and biases; x in a model without norms."""
        if self._model.norm == "none":
            return x
        return (F.layer_norm if self._model.norm == "layer" else F.rms_norm)(x, x.shape[-1:], eps=NORM_EPS)

    def _behind_norm(
        self, w: Mapping[str, Tensor], norm: str, W: Float[Tensor, "M d out"], b: Float[Tensor, "M out"] | None
    ) -> tuple[Tensor, Tensor | None]:
        """The matrix and the bias that do to `_normalised` rows what W and b do to the output of the norm."""
        if self._model.norm == "none":
            return W, b
        gain, norm_bias = w[f"{norm}.w"], w.get(f"{norm}.b")
        if norm_bias is not None:
            from_norm = (norm_bias.unsqueeze(1) @ W).squeeze(1)
            b = from_norm if b is None else b + from_norm
        return gain.unsqueeze(-1) * W, b

    def _at_positions(self, rows: Float[Tensor, "M rows d"], tokens: Int[Tensor, "M B T"]) -> Tensor:
        """The row of every position, (M, B T, d), from those of pairs."""
        return self._programs.AtPositions.apply(rows, tokens, self._sizes[0])

    def _after_attention(self, w: Mapping[str, Tensor], layer: int, x: Tensor, tokens: Tensor | None) -> Tensor:
        """The residual stream after the attention of a layer, (M, B T, d), from that before.

        With tokens, x has the rows of pairs.
        """
        attend, attn, norm = self._programs.Attention.apply, f"blocks.{layer}.attn", f"blocks.{layer}.ln1"
        normal = self._normalised(x)
        W_Q, W_K, W_V, W_O = (w[f"{attn}.W_{letter}"] for letter in "QKVO")  # (M, H, d, dh), and (M, H, dh, d)
        b_Q, b_K, b_V = (w.get(f"{attn}.b_{letter}") for letter in "QKV")  # (M, H, dh), or None
        root = math.sqrt(self._model.d_head)
        bias = None
        if self._one_wide_head:
            # b_K is not read: it adds the same to the scores of all keys. So does the bias of the norm in the keys.
            W_K_T, W_O = W_K[:, 0].mT / root, W_O[:, 0]
            if self._model.norm != "none":
                W_K_T = W_K_T * w[f"{norm}.w"].unsqueeze(1)
            W = torch.cat([W_Q[:, 0] @ W_K_T, W_V[:, 0] @ W_O], -1)  # (M, d, 2 d)
            if b_Q is not None and b_V is not None:
                bias = torch.cat([b_Q @ W_K_T, b_V @ W_O], -1).squeeze(1)
            projections = _product(normal, *self._behind_norm(w, norm, W, bias))
            x = attend(projections, normal, x, tokens, self._sizes, self._precision)
        else:
            W = torch.cat(
                [weight.transpose(1, 2).flatten(2) for weight in (W_Q / root, W_K, W_V)], -1
            )  # (M, d, 3 H dh)
            if b_Q is not None and b_K is not None and b_V is not None:
                bias = torch.cat([b.flatten(1) for b in (b_Q / root, b_K, b_V)], -1)
            projections = _product(normal, *self._behind_norm(w, norm, W, bias))
            z = attend(projections, None, None, tokens, self._sizes, self._precision)
            x = x if tokens is None else self._at_positions(x, tokens)
            x = torch.baddbmm(x, z, W_O.flatten(1, 2))
        return _plus(x, w.get(f"{attn}.b_O"))

    def _after_mlp(self, w: Mapping[str, Tensor], layer: int, x: Float[Tensor, "M rows d"]) -> Tensor:
        """The residual stream after the MLP of a layer; x where the layer has none."""
        mlp, is_last = f"blocks.{layer}.mlp", layer == self._model.n_layers - 1
        if self._model.d_mlp[layer] is None:
            return x
        W_in, b_in = self._behind_norm(w, f"blocks.{layer}.ln2", w[f"{mlp}.W_in"], w.get(f"{mlp}.b_in"))
        W_out, activation = w[f"{mlp}.W_out"], self._model.activation
        # Without a norm this is x itself, also to Python, which `ReluMLP` asks.
        normal = self._normalised(x)
        residual = None if is_last and not self._model.direct_path else x
        if activation == "relu" and b_in is None:
            return _plus(ReluMLP.apply(residual, normal, W_in, W_out, self._kernels), w.get(f"{mlp}.b_out"))
        out = ACTIVATIONS[activation](_product(normal, W_in, b_in)) @ W_out
        return _plus(out if residual is None else residual + out, w.get(f"{mlp}.b_out"))

    def _after_last_layer(self, w: Mapping[str, Tensor], layer: int, x: Float[Tensor, "M positions d"]) -> Tensor:
        """The residual of `=` after the last layer, (M, B, d), from the residual stream before."""
        attn, norm = f"blocks.{layer}.attn", f"blocks.{layer}.ln1"
        x, last = self._programs.LastPosition.apply(x, self._sizes[1])
        W_Q, W_K, W_V, W_O = (w[f"{attn}.W_{letter}"] for letter in "QKVO")
        b_Q, b_V, gain, norm_bias = (w.get(name) for name in (f"{attn}.b_Q", f"{attn}.b_V", f"{norm}.w", f"{norm}.b"))
        bias = None if b_Q is None else b_Q.flatten(1)
        q = _product(self._normalised(last), *self._behind_norm(w, norm, W_Q.transpose(1, 2).flatten(2), bias))
        q = q.unflatten(-1, W_Q.shape[1::2]) / math.sqrt(self._model.d_head)  # (M, B, H, dh)
        # q (x W_K) = (q W_K^T) x, so no key is computed. b_K is not read: it adds the same to the scores of all keys.
        queries = torch.einsum("mbhe,mhde->mbhd", q, W_K)
        if gain is not None:  # normalised residuals are mixed before gains and biases
            queries = queries * gain[:, None, None]
        mixture = self._programs.LastAttention.apply(
            x, queries.contiguous(), self._sizes[1], self._model.norm
        )  # (M, B, H, d)
        if gain is not None:
            mixture = mixture * gain[:, None, None]
        if norm_bias is not None:
            mixture = mixture + norm_bias[:, None, None]
        z = _plus(torch.einsum("mbhd,mhde->mbhe", mixture, W_V), b_V)
        out = torch.einsum("mbhe,mhed->mbd", z, W_O)
        return self._after_mlp(w, layer, last + _plus(out, w.get(f"{attn}.b_O")))


class ReluMLP(Function):
    """residual + relu(x W_in) W_out, in which all but the products is computed with them (`kernels`).

    Without a residual it is the second term; `residual` may be x.
    """

    @staticmethod
    def forward(
        ctx: Any, residual: Tensor | None, x: Tensor, W_in: Tensor, W_out: Tensor, kernels: TensorKernels
    ) -> Tensor:
        neurons = kernels.relu_product(x, W_in)  # (M, rows, h)
        ctx.save_for_backward(x, W_in, W_out, neurons)
        ctx.kernels, ctx.has_residual, ctx.adds_x = kernels, residual is not None, residual is x
        return neurons @ W_out if residual is None else kernels.added_product(residual, neurons, W_out)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients; that by x is of both, if x is the residual."""
        x, W_in, W_out, neurons = ctx.saved_tensors
        kernels: TensorKernels = ctx.kernels
        g_neurons = kernels.gated_product(g, W_out.mT, neurons)
        g_x = kernels.added_product(g, g_neurons, W_in.mT) if ctx.adds_x else g_neurons @ W_in.mT
        g_residual = g if ctx.has_residual and not ctx.adds_x else None
        return g_residual, g_x, x.mT @ g_neurons, neurons.mT @ g, None


def _product(x: Float[Tensor, "M rows d"], W: Float[Tensor, "M d out"], b: Float[Tensor, "M out"] | None) -> Tensor:
    """x W + b."""
    return x @ W if b is None else torch.baddbmm(b.unsqueeze(1), x, W)


def _plus(x: Float[Tensor, "M rows ..."], bias: Float[Tensor, "M ..."] | None) -> Tensor:
    """x with the bias of its model added to every row; x without one."""
    return x if bias is None else x + bias.unsqueeze(1)
