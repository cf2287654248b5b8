"""Settings of AdamW that change in the course of training: learning rates, and parts that are frozen for a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from assignadd.config import Config, Optim
from assignadd.model.kernels.tensor import Moments
from assignadd.model.shapes import Shape, weight_shapes
from assignadd.model.stack import views

# The names of a part's weights in its layer.
WEIGHTS = {
    "QK": ("attn.W_Q", "attn.W_K", "attn.b_Q", "attn.b_K"),
    "OV": ("attn.W_V", "attn.W_O", "attn.b_V", "attn.b_O"),
    "MLP": ("mlp.",),
}


class Rates:
    """The learning rate of each model at any step. The step is a tensor, so that a CUDA graph can be replayed."""

    def __init__(self, optims: Sequence[Optim], device: torch.device):
        column = partial(torch.tensor, dtype=torch.float64, device=device)
        self._first = column([[o.lr] for o in optims])
        self._later = column([[o.lr if o.later_lr is None else o.later_lr] for o in optims])
        self._later_from = column([[o.later_from] for o in optims])
        self._warmup = column([[max(1, o.warmup)] for o in optims])
        self._weight_decay = column([[o.weight_decay] for o in optims])

    def __call__(self, step: Int[Tensor, ""]) -> Float[Tensor, "M 1"]:
        """The rates of the update after `step` updates."""
        base = torch.where(step < self._later_from, self._first, self._later)
        return base * ((step + 1) / self._warmup).clamp(max=1)

    def write(self, step: Int[Tensor, ""], moments: Moments) -> None:
        """Writes the rates of the next update to where AdamW reads them."""
        rates = self(step)
        moments.exact_rate.copy_(rates)
        moments.rate.copy_(rates)
        moments.decay.copy_(rates * self._weight_decay)


class Frozen:
    """The weights of each model that are kept as they are, from which step and until which."""

    def __init__(self, configs: Sequence[Config], device: torch.device):
        masks = torch.stack([_frozen_weights(config) for config in configs])
        self._masks: Bool[Tensor, "M P"] = masks.to(device)
        self._from = torch.tensor([[c.optim.frozen_from] for c in configs], device=device)
        self._until = torch.tensor([[c.optim.frozen_until] for c in configs], device=device)

    def restore(self, step: Int[Tensor, ""], flat: Float[Tensor, "M P"], before: Float[Tensor, "M P"]) -> None:
        """Takes back update number `step` of the weights that are frozen then; `before` are those before it."""
        torch.where(self._masks & (self._from < step) & (step <= self._until), before, flat, out=flat)


def rates_of(configs: Sequence[Config], device: torch.device) -> Rates | None:
    """The schedules of the learning rates; None where all stay as they are."""
    optims = [c.optim for c in configs]
    return Rates(optims, device) if any(o.warmup or o.later_lr is not None for o in optims) else None


def frozen_of(configs: Sequence[Config], device: torch.device) -> Frozen | None:
    """The frozen weights; None where no model has any."""
    return Frozen(configs, device) if any(_part(c.optim) != "none" for c in configs) else None


def _part(optim: Optim) -> str:
    return optim.frozen if optim.frozen_until else "none"


def shapes_of_part(config: Config, part: str) -> dict[str, Shape]:
    """Name -> shape of the weights of a part of one model."""
    layers = range(1, config.model.n_layers + 1)
    parts = {f"{kind}{n}": [f"blocks.{n - 1}.{w}" for w in names] for kind, names in WEIGHTS.items() for n in layers}
    prefixes = tuple((parts | {"W_E": ["embed.W_E"], "none": []}).get(part, []))
    return {name: shape for name, shape in weight_shapes(config).items() if name.startswith(prefixes)}


def _frozen_weights(config: Config) -> Bool[Tensor, " P"]:
    """Which of a model's weights, in their order in memory, belong to its frozen part."""
    names = shapes_of_part(config, _part(config.optim))
    mask = torch.zeros(sum(map(math.prod, weight_shapes(config).values())), dtype=torch.bool)
    for name, weights in views(config, mask).items():
        weights.fill_(name in names)
    return mask
