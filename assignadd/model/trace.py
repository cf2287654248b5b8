"""The trace: what a forward pass leaves behind, filled by `reference_trace` here and by `TableForward.trace`.

Layers are counted from 1, as in the paper, but from 0 in the names of hooks (`blocks.0.attn.hook_pattern`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.func import functional_call, vmap

from assignadd.config import Config, Model
from assignadd.model.architecture import LAST_MLP, SECOND_LAYER, require
from assignadd.model.stack import Stack
from assignadd.model.transformer import HookPoint, shape_only

LOGITS = "logits"


class Lazy(Mapping[str, Tensor]):
    """Tensors by name, each computed by its function when it is read, without gradients."""

    def __init__(self, functions: Mapping[str, Callable[[], Tensor]]):
        self._functions = functions

    def __getitem__(self, name: str) -> Tensor:
        with torch.no_grad():
            return self._functions[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._functions)

    def __len__(self) -> int:
        return len(self._functions)


@dataclass(frozen=True)
class Trace:
    """Attention of every layer and head, and what the residual of `=` consists of.

    Layers are counted from 1, heads from 0. The axis M of a stack may be missing.
    """

    config: Config
    patterns: Sequence[Float[Tensor, "*M B heads queries T"]]
    """Attention of every layer, (query, key). In the last layer the only query is `=`, in the others all T are."""
    residuals: Mapping[str, Tensor]
    """The residual of `=`, (*M, B, d), after each part: `embedding`, `attention 1`, `MLP 1` if there is one, ..."""
    last: Mapping[str, Tensor]
    """Further quantities at `=` in the last layer, by the names of the properties below."""
    all_positions: Callable[[int], Float[Tensor, "*M B T d"]]
    """The residual of every position after a layer, which `after_layer` returns."""

    def attention(self, layer: int) -> Float[Tensor, "*M B heads queries T"]:
        """Attention of a layer, (query, key)."""
        return self.patterns[layer - 1]

    def after_layer(self, layer: int) -> Float[Tensor, "*M B T d"]:
        """The residual of every position after a layer other than the last."""
        require(self.config, "the residual of all positions after a layer", SECOND_LAYER)
        n_layers = self.config.model.n_layers
        if not 1 <= layer < n_layers:
            raise ValueError(f"layer {layer}: the residual of every position is there after layers 1 to {n_layers - 1}")
        return self.all_positions(layer)

    @property
    def resid_pre(self) -> Float[Tensor, "*M B d"]:
        """Residual of `=` before the last layer's attention."""
        return self.last["resid_pre"]

    @property
    def attention_output(self) -> Float[Tensor, "*M B d"]:
        """What the last layer's attention writes into `=`: `resid_mid` minus `resid_pre`."""
        return self.last["attention_output"]

    @property
    def resid_mid(self) -> Float[Tensor, "*M B d"]:
        """Residual of `=` after the last layer's attention, before its MLP."""
        return self.last["resid_mid"]

    @property
    def preactivations(self) -> Float[Tensor, "*M B h"]:
        """The last MLP before its activation function."""
        return self._of_mlp("preactivations")

    @property
    def neurons(self) -> Float[Tensor, "*M B h"]:
        """The last MLP after its activation function."""
        return self._of_mlp("neurons")

    @property
    def mlp_out(self) -> Float[Tensor, "*M B d"]:
        """What the last MLP writes into `=`."""
        return self._of_mlp("mlp_out")

    @property
    def resid_post(self) -> Float[Tensor, "*M B d"]:
        """Residual of `=` after the last layer."""
        return self.last["resid_post"]

    @property
    def logits(self) -> Float[Tensor, "*M B N"]:
        """The answer logits."""
        return self.last[LOGITS]

    def _of_mlp(self, name: str) -> Tensor:
        """A quantity of the last MLP; `NotDefined` where there is none."""
        require(self.config, f"{name} of the last MLP", LAST_MLP)
        return self.last[name]


@torch.no_grad()
def reference_trace(stack: Stack, tokens: Int[Tensor, "*M B T"], chunk: int) -> Trace:
    """The trace by the reference transformer, for every architecture, with `chunk` sequences in one forward pass.

    Tokens (B, T), without the axis M, are those of a stack of one model; the trace then has no axis M either.
    """
    model = stack.config.model
    pattern_hooks = [f"blocks.{i}.attn.hook_pattern" for i in range(model.n_layers)]
    residual_hooks, last_hooks = _hooks_at_equals(model)
    hooks = {*pattern_hooks, *residual_hooks.values(), *last_hooks.values()} - {LOGITS}
    of_chunks = [_activations(stack, part.contiguous(), hooks) for part in tokens.split(chunk, -2)]
    batch_axis = tokens.ndim - 2
    activations = {}  # at each hook, (*M, B, ...)
    for name in of_chunks[0]:
        activations[name] = torch.cat([of_chunk[name] for of_chunk in of_chunks], batch_axis)

    def all_positions(layer: int) -> Tensor:
        """The residual of every position after a layer, (*M, B, T, d), which takes another forward pass."""
        hook = f"blocks.{layer - 1}.hook_resid_post"
        return _activations(stack, tokens, [hook], only_equals=False)[hook]

    return Trace(
        config=stack.config,
        patterns=[activations[hook] for hook in pattern_hooks],
        residuals={part: activations[hook] for part, hook in residual_hooks.items()},
        last={name: activations[hook] for name, hook in last_hooks.items()},
        all_positions=all_positions,
    )


def _hooks_at_equals(model: Model) -> tuple[dict[str, str], dict[str, str]]:
    """Two dictionaries: the hook of each name in `Trace.residuals`, and the hook of each name in `Trace.last`."""
    residuals = {"embedding": "blocks.0.hook_resid_pre"}
    for layer, width in enumerate(model.d_mlp, 1):
        block = f"blocks.{layer - 1}"
        if width is None:  # without an MLP, the layer ends with its attention
            residuals[f"attention {layer}"] = f"{block}.hook_resid_post"
        else:
            residuals[f"attention {layer}"] = f"{block}.hook_resid_mid"
            residuals[f"MLP {layer}"] = f"{block}.hook_resid_post"
    block = f"blocks.{model.n_layers - 1}"
    last = {
        "resid_pre": f"{block}.hook_resid_pre",
        "attention_output": f"{block}.hook_attn_out",
        "resid_mid": residuals[f"attention {model.n_layers}"],
        "resid_post": f"{block}.hook_resid_post",
        LOGITS: LOGITS,
    }
    if model.d_mlp[-1] is not None:
        last["preactivations"] = f"{block}.mlp.hook_pre"
        last["neurons"] = f"{block}.mlp.hook_post"
        last["mlp_out"] = f"{block}.hook_mlp_out"
    return residuals, last


@torch.no_grad()
def _activations(
    stack: Stack, tokens: Int[Tensor, "*M B T"], names: Collection[str], only_equals: bool = True
) -> dict[str, Tensor]:
    """The logits of `=` and the activations at the hooks with these names, by name, each (*M, B, ...).

    Except for patterns, the activations are those at `=`, the last position, unless `only_equals` is False.
    """
    model = shape_only(stack.config)

    def run(weights: dict[str, Tensor], model_tokens: Tensor) -> dict[str, Tensor]:
        activations: dict[str, Tensor] = {}

        def keep(activation: Tensor, point: HookPoint) -> None:
            has_positions = not point.name.endswith("hook_pattern")
            activations[point.name] = activation[:, -1] if has_positions and only_equals else activation

        last_only = True  # in the last layer, which the logits of `=` alone read
        with model.hooks([(list(names), keep)]):
            activations[LOGITS] = functional_call(model, weights, (model_tokens, last_only))[:, -1]
        return activations

    if tokens.ndim == 3:
        return vmap(run)(dict(stack.weights), tokens)
    return run(stack.of_model(0), tokens)
