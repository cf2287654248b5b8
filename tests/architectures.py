"""One small network of each architecture that differs from the paper's in one property."""

from dataclasses import replace

import torch

from assignadd.config import PRESETS, Config, Model, Numerics
from assignadd.model.stack import Stack, initial_stack
from assignadd.task.sampler import Sampler
from assignadd.task.splits import pair_split

SMALL = replace(PRESETS["tiny"], numerics=Numerics(dtype="float64"))
_MODELS: dict[str, Model] = {
    "two heads": replace(SMALL.model, n_heads=2, d_head=SMALL.model.d_head // 2),
    "three layers": replace(SMALL.model, n_layers=3, d_mlp=(None, None, 24)),
    "MLP in layer 1": replace(SMALL.model, d_mlp=(16, 24)),
    "layer norm": replace(SMALL.model, norm="layer"),
    "rms norm": replace(SMALL.model, norm="rms"),
    "biases": replace(SMALL.model, biases=True),
    "gelu": replace(SMALL.model, activation="gelu"),
    "no direct path": replace(SMALL.model, activation="abs", direct_path=False),
}
ARCHITECTURES: dict[str, Config] = {name: replace(SMALL, model=model) for name, model in _MODELS.items()}


def random_stack(config: Config, models: int = 1) -> Stack:
    """Random weights, larger than at the start, so that attention is far from uniform; biases and gains vary too."""
    stack = initial_stack(config, list(range(models)))
    generator = torch.Generator().manual_seed(5)
    for name, weight in stack.weights.items():
        if ".W_" in name:
            weight.mul_(2)
        else:
            weight.add_(torch.randn(weight.shape, generator=generator, dtype=weight.dtype) / 3)
    return stack


def sequences_of(config: Config, n: int = 24) -> torch.Tensor:
    """Sequences of the training distribution, (1, n, T)."""
    return Sampler([config.task], pair_split(config.task, 0)[None], [0]).sample(3, n).tokens
