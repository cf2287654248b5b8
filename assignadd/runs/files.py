"""Reading the files of a run folder, tensors as safetensors bytes, and whether they fit the run.

Only regular files inside the folder are read, never a link out of it. Safetensors hold no code, and the same tensors
give the same bytes.
"""

from __future__ import annotations

import errno
import math
import os
import stat
from collections.abc import Mapping
from pathlib import Path

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from assignadd.config import Config
from assignadd.errors import RunError
from assignadd.model.stack import Stack, flatten, weight_shapes
from assignadd.runs.atomic import reason


def read_regular(folder: Path, name: str, most: int | None = None) -> bytes:
    """The bytes of a file of the folder, at most the first `most`."""
    path = folder / name
    if path.is_symlink() or (path.parent != folder and path.parent.is_symlink()):
        raise RunError(f"{path} is refused: a run's files are not reached through symbolic links")
    try:
        # Without blocking, so that a pipe in a file's place is refused rather than waited for.
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, "rb") as file:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise RunError(f"{path} is not a regular file")
            return file.read(-1 if most is None else most)
    except FileNotFoundError as error:
        raise RunError(f"{path} is missing") from error
    except OSError as error:
        raise RunError(f"{path} could not be read: {reason(error)}") from error


def read_input(path: Path, most: int) -> bytes:
    """The bytes of a file that a user names; an OSError for what is not a regular file or has more than `most`."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # without waiting for a pipe's other end
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        if found.st_size > most:
            raise OSError(errno.EFBIG, f"{found.st_size:,} bytes, of which at most {most:,} are read", str(path))
        with open(fd, "rb", closefd=False) as file:
            return file.read(most)
    finally:
        os.close(fd)


def encode_tensors(tensors: Mapping[str, Tensor]) -> bytes:
    # One metadata key only: the order of several would differ from one process to the next.
    return safetensors.torch.save({name: _alone(t) for name, t in tensors.items()}, metadata={"format": "pt"})


def _alone(tensor: Tensor) -> Tensor:
    """The tensor in memory that no other has a part of, as the weights of a stack have: safetensors refuses those."""
    own = tensor.detach().cpu().contiguous()
    return own if own.untyped_storage().nbytes() == own.nbytes else own.clone()


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
        found = weights[weight]
        if found.shape != shape or str(found.dtype) != f"torch.{config.numerics.dtype}":
            have, want = f"{found.dtype} {tuple(found.shape)}", f"{config.numerics.dtype} {shape}"
            return f"{weight} is {have}, not {want}"
    return None


def state_problem(state: Mapping[str, Tensor], config: Config, n_models: int, step: int | None) -> str | None:
    """What is wrong with a training state: its weights and its step must be those of the run."""
    weights, at = state.get("weights", torch.empty(0)), state.get("step", torch.empty(0))
    size = sum(math.prod(shape) for shape in weight_shapes(config).values())
    if weights.shape != (n_models, size) or str(weights.dtype) != f"torch.{config.numerics.dtype}":
        return f"its weights are {weights.dtype} {tuple(weights.shape)}, not {config.numerics.dtype} {(n_models, size)}"
    return None if at.numel() == 1 and at.item() == step else f"it is not of step {step}"
