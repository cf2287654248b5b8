"""Networks in TransformerLens 4, whose models are bridges around its own ("native") architecture, and back.

The same weights, and activations under the same hook names; only at `hook_attn_scores` TransformerLens 4.3 has the
attention pattern in place of the scores. A native model has an MLP in every layer and biases everywhere: what ours does
not have is zero there, which changes no bit of a sum. For models with one head and without biases and norms, as the
paper's, logits are the same bit for bit; others differ in the last rounding, as a native model adds a bias or the heads
within a matrix product and writes a norm differently.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from assignadd.config import Config
from assignadd.errors import ConfigError, RunError, UsageError
from assignadd.model.stack import weight_shapes
from assignadd.model.transformer import NORM_EPS, Transformer
from assignadd.runs.transformer_lens import state_dict_problem
from assignadd.task.vocabulary import Vocabulary

LENS = "transformer_lens"
NORMS = {"none": None, "rms": "RMS", "layer": "LN"}


def to_transformer_lens(model: Transformer) -> Any:
    """A TransformerBridge of TransformerLens 4 with the weights of the model, as copies."""
    if not lens_installed():
        raise UsageError("TransformerLens is not installed: pip install 'assignadd[lens]'")
    native: Any = import_module(f"{LENS}.model_bridge.sources.native")
    weights = {name: weight.detach() for name, weight in model.state_dict().items()}
    bridge = native.boot(lens_config(model.config), device=model.device, dtype=model.embed.W_E.dtype)
    convert = import_module(f"{LENS}.utilities.tl_checkpoint_conversion").convert_tl_checkpoint
    with torch.no_grad():
        for parameter in bridge.parameters():
            parameter.zero_()
    bridge.load_state_dict(bridge.state_dict() | convert(weights, bridge.cfg))
    return bridge.eval()


def lens_installed() -> bool:
    return find_spec(LENS) is not None


def lens_config(config: Config) -> Any:
    """The TransformerBridgeConfig of a model with these settings."""
    model, task, widths = config.model, config.task, {width for width in config.model.d_mlp if width is not None}
    if len(widths) > 1:
        raise ConfigError("model.d_mlp", model.d_mlp, "one width: native models of TransformerLens have no other")
    if model.activation == "abs":
        raise ConfigError("model.activation", "abs", "relu or gelu: native models of TransformerLens have no other")
    if not model.direct_path:
        raise ConfigError("model.direct_path", False, "true: native models of TransformerLens add every MLP's output")
    return import_module(LENS).TransformerBridgeConfig(
        d_model=model.d_model, n_layers=model.n_layers, n_heads=model.n_heads, d_head=model.d_head,
        d_mlp=max(widths, default=None), attn_only=not widths, act_fn=model.activation, n_ctx=task.length,
        d_vocab=Vocabulary(task).size, d_vocab_out=task.modulus, normalization_type=NORMS[model.norm], eps=NORM_EPS,
        seed=0,  # of weights that are replaced: the caller's random numbers stay as they are
    )  # fmt: skip


def from_transformer_lens(state_dict: Mapping[str, Tensor], config: Config) -> Transformer:
    """The model of a state dict of TransformerLens: of a bridge (4.x), or by the names of 2.x (`blocks.0.attn.W_Q`).

    Shapes, names and zeros where the model has no weight are checked; TransformerLens need not be installed.
    """
    named = dict(_renamed(name, tensor.detach(), config) for name, tensor in state_dict.items())
    if problem := state_dict_problem(named, config):
        raise RunError(f"the state dict does not fit the configuration: {problem}")
    return Transformer(config, {name: named[name] for name in weight_shapes(config)})


def _renamed(name: str, tensor: Tensor, config: Config) -> tuple[str, Tensor]:
    """A weight by its name in TransformerLens 2.x, with the shape it has there; other names are left as they are."""

    def heads(weight: Tensor) -> Tensor:
        return weight.unflatten(0, (config.model.n_heads, config.model.d_head))

    table: dict[str, tuple[str, Callable[[Tensor], Tensor]]] = {
        r"embed\.weight": ("embed.W_E", lambda w: w),
        r"pos_embed\.weight": ("pos_embed.W_pos", lambda w: w),
        r"(blocks\.\d+\.attn)\.q\.weight": (r"\1.W_Q", lambda w: heads(w).mT),  # (H dh, d) to (H, d, dh)
        r"(blocks\.\d+\.attn)\.k\.weight": (r"\1.W_K", lambda w: heads(w).mT),
        r"(blocks\.\d+\.attn)\.v\.weight": (r"\1.W_V", lambda w: heads(w).mT),
        r"(blocks\.\d+\.attn)\.o\.weight": (r"\1.W_O", lambda w: heads(w.mT)),  # (d, H dh) to (H, dh, d)
        r"(blocks\.\d+\.attn)\.q\.bias": (r"\1.b_Q", heads),
        r"(blocks\.\d+\.attn)\.k\.bias": (r"\1.b_K", heads),
        r"(blocks\.\d+\.attn)\.v\.bias": (r"\1.b_V", heads),
        r"(blocks\.\d+\.attn)\.o\.bias": (r"\1.b_O", lambda b: b),
        r"(blocks\.\d+\.mlp)\.(in|out)\.weight": (r"\1.W_\2", lambda w: w.mT),
        r"(blocks\.\d+\.mlp)\.(in|out)\.bias": (r"\1.b_\2", lambda b: b),
        r"((?:blocks\.\d+\.)?ln\w+)\.weight": (r"\1.w", lambda w: w),
        r"((?:blocks\.\d+\.)?ln\w+)\.bias": (r"\1.b", lambda b: b),
        r"unembed\.weight": ("unembed.W_U", lambda w: w.mT),
        r"unembed\.bias": ("unembed.b_U", lambda b: b),
    }
    for pattern, (ours, reshaped) in table.items():
        if match := re.fullmatch(pattern, name):
            return match.expand(ours), reshaped(tensor)
    return name, tensor
