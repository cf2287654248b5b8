"""Tensors as safetensors bytes, and whether they fit a run.

Safetensors hold no code, and the same tensors give the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from assignadd.config import Config
from assignadd.config.errors import RunError
from assignadd.model.stack import Stack, flatten, weight_shapes


def encode_tensors(tensors: Mapping[str, Tensor]) -> bytes:
    # One metadata key only: the order of several would differ from one process to the next.
    return safetensors.torch.save({name: _alone(t) for name, t in tensors.items()}, metadata={"format": "pt"})


def _alone(tensor: Tensor) -> Tensor:
    """The tensor in memory that no other has a part of, as the weights of a stack have: safetensors refuses those."""
    tensor = tensor.detach().cpu().contiguous()
    return tensor if tensor.untyped_storage().nbytes() == tensor.nbytes else tensor.clone()


def decode_tensors(data: bytes, name: str) -> dict[str, Tensor]:
    try:
        return safetensors.torch.load(data)
    except (SafetensorError, ValueError, KeyError) as error:
        raise RunError(f"{name} is not a safetensors file: {error}") from error


def stack_of(config: Config, weights: Mapping[str, Tensor], M: int, where: str) -> Stack:
    """The stack of these weights with a leading axis M, or an error if they are not those of the model.

    Weights in half precision, as in a run of the package, are widened.
    """
    dtype = getattr(torch, config.numerics.dtype)
    weights = {name: w.to(dtype) if w.dtype == torch.float16 else w for name, w in weights.items()}
    if problem := _weights_problem(weights, config, M):
        raise RunError(f"{where} does not fit the run's model: {problem}")
    return Stack(config, flatten(config, weights))


def _weights_problem(weights: Mapping[str, Tensor], config: Config, n_models: int) -> str | None:
    """What is wrong with names, shapes and types of weights."""
    expected = {weight: (n_models, *shape) for weight, shape in weight_shapes(config).items()}
    if weights.keys() != expected.keys():
        odd = sorted(weights.keys() ^ expected.keys())[0]
        return f"{odd} is {'extra' if odd in weights else 'missing'}"
    for weight, shape in expected.items():
        tensor = weights[weight]
        if tensor.shape != shape or str(tensor.dtype) != f"torch.{config.numerics.dtype}":
            return f"{weight} is {tensor.dtype} {tuple(tensor.shape)}, not {config.numerics.dtype} {shape}"
    return None


def state_problem(state: Mapping[str, Tensor], config: Config, n_models: int, step: int | None) -> str | None:
    """What is wrong with a training state: its weights and its step must be those of the run."""
    weights, at = state.get("weights", torch.empty(0)), state.get("step", torch.empty(0))
    size = sum(math.prod(shape) for shape in weight_shapes(config).values())
    if weights.shape != (n_models, size) or str(weights.dtype) != f"torch.{config.numerics.dtype}":
        return f"its weights are {weights.dtype} {tuple(weights.shape)}, not {config.numerics.dtype} {(n_models, size)}"
    return None if at.numel() == 1 and at.item() == step else f"it is not of step {step}"
