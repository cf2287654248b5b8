"""A stack: M models of one shape, with the weights under the names of TransformerLens.

One model is a stack with M = 1; a trajectory is a stack of checkpoints.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from assignadd.config import Config
from assignadd.model.own import first_weights
from assignadd.task.randomness import Stream, normals
from assignadd.task.vocabulary import sizes_of

Shape = tuple[int, ...]


class Stack:
    """Weights with a leading axis M, each a view of one flat (M, P) tensor, so that an update is one operation.

    `config` is shared by all models. Settings in which they differ, such as the seed, are stored with the run.
    """

    def __init__(self, config: Config, flat: Float[Tensor, "M P"]):
        """`flat` has the weights of each model in a row, in the order of `weight_shapes`."""
        self.config = config
        self.flat = flat
        self.weights: dict[str, Tensor] = views(config, flat)

    def __len__(self) -> int:
        return len(self.flat)

    def __getitem__(self, name: str) -> Tensor:
        """A weight by its name, such as `blocks.0.attn.W_Q` (`weight_shapes`), with the leading axis M."""
        return self.weights[name]

    def of_model(self, index: int) -> dict[str, Tensor]:
        """The weights of one model by their names, without the axis M."""
        return {name: weight[index] for name, weight in self.weights.items()}

    def models(self, index: int | slice | Sequence[int]) -> Stack:
        """The stack of these models (a view where `index` is an int or a slice)."""
        if isinstance(index, int):
            index = range(len(self))[index]  # counts from the end if negative; an IndexError beyond it
            index = slice(index, index + 1)
        return Stack(self.config, self.flat[index])

    @cached_property
    def parts(self) -> list[tuple[slice, Stack]]:
        """The parts of the stack, one computed after the other: the places of their models, and views of them.

        On a GPU all models are one part. On a CPU each is a part, so that its digits do not depend on the other models.
        """
        if self.flat.device.type != "cpu":
            return [(slice(0, len(self)), self)]
        return [(slice(i, i + 1), self.models(i)) for i in range(len(self))]

    def __iter__(self) -> Iterator[Stack]:
        """Each model, as a stack of one."""
        return (self.models(i) for i in range(len(self)))

    def to(self, device: str | torch.device) -> Stack:
        """The stack on this device."""
        return Stack(self.config, self.flat.to(device))

    def clone(self) -> Stack:
        """A copy of the stack, with weights that can be changed."""
        return Stack(self.config, self.flat.clone())

    @property
    def W_E(self) -> Float[Tensor, "M K d"]:
        """The embeddings of the K tokens."""
        return self["embed.W_E"]

    @property
    def W_pos(self) -> Float[Tensor, "M T d"]:
        """The embeddings of the T positions."""
        return self["pos_embed.W_pos"]

    @property
    def W_U(self) -> Float[Tensor, "M d N"]:
        """The unembedding, from the residual of `=` to the logits of the N answers."""
        return self["unembed.W_U"]


def weight_shapes(config: Config) -> dict[str, Shape]:
    """Name -> shape of every weight of one model, in the order in which they are stored and initialised."""
    if config.model.file is not None:
        return dict(config.model.file.weights)
    sizes, model = sizes_of(config.task), config.model
    d, H, dh = model.d_model, model.n_heads, model.d_head
    shapes: dict[str, Shape] = {"embed.W_E": (sizes.n_tokens, d), "pos_embed.W_pos": (sizes.length, d)}
    for layer, width in enumerate(model.d_mlp):
        attn, mlp = f"blocks.{layer}.attn", f"blocks.{layer}.mlp"
        shapes |= _norm_shapes(config, f"blocks.{layer}.ln1")
        shapes |= {f"{attn}.W_{letter}": (H, d, dh) for letter in "QKV"} | {f"{attn}.W_O": (H, dh, d)}
        if model.biases:
            shapes |= {f"{attn}.b_{letter}": (H, dh) for letter in "QKV"} | {f"{attn}.b_O": (d,)}
        if width is not None:
            shapes |= _norm_shapes(config, f"blocks.{layer}.ln2")
            shapes |= {f"{mlp}.W_in": (d, width), f"{mlp}.W_out": (width, d)}
            if model.biases:
                shapes |= {f"{mlp}.b_in": (width,), f"{mlp}.b_out": (d,)}
    shapes |= _norm_shapes(config, "ln_final")
    shapes["unembed.W_U"] = (d, sizes.n_answers)
    if model.biases:
        shapes["unembed.b_U"] = (sizes.n_answers,)
    return shapes


def _norm_shapes(config: Config, name: str) -> dict[str, Shape]:
    """Name -> shape of the gains `w` and biases `b` of the norm `name`; empty where the model has no norms."""
    parts = {"none": [], "rms": ["w"], "layer": ["w", "b"]}[config.model.norm]
    return {f"{name}.{part}": (config.model.d_model,) for part in parts}


def views(config: Config, flat: Tensor) -> dict[str, Tensor]:
    """Views by name, (..., *shape), of a flat (..., P) tensor of weights, gradients or moments."""
    weights, start = {}, 0
    for name, shape in weight_shapes(config).items():
        size = math.prod(shape)
        weights[name] = flat.narrow(-1, start, size).view(*flat.shape[:-1], *shape)
        start += size
    return weights


def flatten(config: Config, weights: Mapping[str, Tensor]) -> Tensor:
    """The flat (M, P) tensor of weights by name, each with a leading axis M."""
    return torch.cat([weights[name].flatten(1) for name in weight_shapes(config)], 1)


def initial_stack(config: Config, init_seeds: Sequence[int], scales: Sequence[float] | None = None) -> Stack:
    """Untrained models, one for each seed: every matrix N(0, (init_scale / sqrt(d_model))^2), biases 0, norm gains 1.

    They depend on the seeds alone. `scales` are the models' values of `init_scale`; by default all have the
    configuration's.
    """
    dtype = getattr(torch, config.numerics.dtype)
    if config.model.file is not None:
        return Stack(config, torch.stack([first_weights(config, seed) for seed in init_seeds]).to(dtype))
    if scales is None:
        scales = [config.model.init_scale] * len(init_seeds)
    size = sum(math.prod(shape) for shape in weight_shapes(config).values())

    def normal_weights(seed: int, scale: float) -> Tensor:
        """The weights of one model, (P,), all drawn as those of matrices."""
        standard = normals(seed, Stream.INIT, torch.arange(size))
        return standard.mul_(scale / math.sqrt(config.model.d_model)).to(dtype)

    with ThreadPoolExecutor(os.cpu_count()) as threads:  # torch does not hold Python's lock while it computes
        stack = Stack(config, torch.stack(list(threads.map(normal_weights, init_seeds, scales))))
    for name, weight in stack.weights.items():
        if ".W_" not in name:  # a bias, or a weight of a norm
            weight.fill_(1.0 if name.endswith(".w") else 0.0)
    return stack


def concatenate(stacks: Sequence[Stack]) -> Stack:
    """The models of several stacks of one configuration, as one stack."""
    return Stack(stacks[0].config, torch.cat([s.flat for s in stacks]))
