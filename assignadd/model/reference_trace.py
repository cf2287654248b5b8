"""The trace of the reference transformer, for every architecture: what its hooks see, at `=` and in the patterns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.func import functional_call, vmap

from assignadd.config import Model
from assignadd.model.architecture import LAST_MLP, SECOND_LAYER, require
from assignadd.model.hooks import HookPoint
from assignadd.model.stack import Stack
from assignadd.model.trace import Trace
from assignadd.model.transformer import shape_only

LOGITS = "logits"


@dataclass(frozen=True)
class ReferenceTrace(Trace):
    """The activations at some hooks of the reference transformer: attention patterns, and others at `=` alone."""

    stack: Stack
    """The models, for what is computed only when it is asked for."""
    at: dict[str, Tensor]
    """By the name of the hook: patterns (..., B, heads, queries, T), everything else (..., B, width)."""

    @property
    def _last(self) -> str:
        return f"blocks.{self.stack.config.model.n_layers - 1}."

    def _of_mlp(self, name: str) -> Tensor:
        require(self.stack.config, f"{name} of the last MLP", LAST_MLP)
        return self.at[f"{self._last}{name}"]

    def attention(self, layer: int) -> Float[Tensor, "*M B heads queries T"]:
        return self.at[f"blocks.{layer - 1}.attn.hook_pattern"]

    def after_layer(self, layer: int) -> Float[Tensor, "*M B T d"]:
        require(self.stack.config, "the residual of all positions after a layer", SECOND_LAYER)
        name = f"blocks.{layer - 1}.hook_resid_post"
        return _activations(self.stack, self.tokens, [name], only_equals=False)[name]

    @property
    def residuals(self) -> dict[str, Tensor]:
        found = {"embedding": self.at["blocks.0.hook_resid_pre"]}
        for layer, width in enumerate(self.stack.config.model.d_mlp, 1):
            block = f"blocks.{layer - 1}.hook_resid_"
            found[f"attention {layer}"] = self.at[f"{block}{'post' if width is None else 'mid'}"]
            if width is not None:
                found[f"MLP {layer}"] = self.at[f"{block}post"]
        return found

    @property
    def resid_pre(self) -> Float[Tensor, "*M B d"]:
        return self.at[f"{self._last}hook_resid_pre"]

    @property
    def attention_output(self) -> Float[Tensor, "*M B d"]:
        return self.at[f"{self._last}hook_attn_out"]

    @property
    def resid_mid(self) -> Float[Tensor, "*M B d"]:
        has_mlp = self.stack.config.model.d_mlp[-1] is not None
        return self.at[f"{self._last}hook_resid_{'mid' if has_mlp else 'post'}"]

    @property
    def preactivations(self) -> Float[Tensor, "*M B h"]:
        return self._of_mlp("mlp.hook_pre")

    @property
    def neurons(self) -> Float[Tensor, "*M B h"]:
        return self._of_mlp("mlp.hook_post")

    @property
    def mlp_out(self) -> Float[Tensor, "*M B d"]:
        return self._of_mlp("hook_mlp_out")

    @property
    def resid_post(self) -> Float[Tensor, "*M B d"]:
        return self.at[f"{self._last}hook_resid_post"]

    @property
    def logits(self) -> Float[Tensor, "*M B N"]:
        return self.at[LOGITS]


@torch.no_grad()
def reference_trace(stack: Stack, tokens: Int[Tensor, "*M B T"], chunk: int) -> ReferenceTrace:
    """The trace of every model on its own sequences, `chunk` of them in one pass; of one model if M is missing."""
    names = _names(stack.config.model)
    parts = [_activations(stack, part.contiguous(), names) for part in tokens.split(chunk, -2)]
    batch = tokens.ndim - 2
    return ReferenceTrace(tokens, stack, {name: torch.cat([part[name] for part in parts], batch) for name in parts[0]})


def _names(model: Model) -> list[str]:
    """The hooks that a trace has."""
    found = []
    for layer, width in enumerate(model.d_mlp):
        block = f"blocks.{layer}."
        found += [f"{block}attn.hook_pattern", *(f"{block}hook_{x}" for x in ("resid_pre", "attn_out", "resid_post"))]
        if width is not None:
            found += [f"{block}{x}" for x in ("hook_resid_mid", "mlp.hook_pre", "mlp.hook_post", "hook_mlp_out")]
    return found


@torch.no_grad()
def _activations(
    stack: Stack, tokens: Int[Tensor, "*M B T"], names: Sequence[str], only_equals: bool = True
) -> dict[str, Tensor]:
    """The logits of `=` and the activations at these hooks: whole patterns, others at `=` or at every position."""
    model = shape_only(stack.config)

    def run(weights: dict[str, Tensor], own: Tensor) -> dict[str, Tensor]:
        found: dict[str, Tensor] = {}

        def keep(activation: Tensor, point: HookPoint) -> None:
            whole = point.name.endswith("hook_pattern") or not only_equals
            found[point.name] = activation if whole else activation[:, -1]

        with model.hooks([(name, keep) for name in names]):
            found[LOGITS] = functional_call(model, weights, (own, True))[:, -1]
        return found

    if tokens.ndim == 3:
        return vmap(run)(dict(stack.weights), tokens)
    return run({name: weight[0] for name, weight in stack.weights.items()}, tokens)
