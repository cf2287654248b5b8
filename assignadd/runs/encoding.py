"""Tensors and tables as the bytes of a file, and whether they are what they should be.

Tensors are safetensors, which hold no code; the same tensors give the same bytes. Tables are Parquet with a seal: one
that was damaged, cut or edited is refused, never read as other numbers. The seal is the sha256 of the file with the
seal's own digits as zeros. It stands in the file's metadata, so that a table is one file, written by one rename, and
any Parquet reader opens it.
"""

from __future__ import annotations

import hashlib
import io
import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from assignadd.config import Config
from assignadd.config.errors import RunError
from assignadd.model.stack import Stack, flatten, weight_shapes

if TYPE_CHECKING:
    import polars

# Of a table: a few kilobytes of Parquet can unpack to any number.
MOST_CELLS = 150_000_000
PREFIX = "assignadd-seal:"
BLANK = PREFIX + "0" * 64
SEAL = re.compile(re.escape(PREFIX.encode()) + rb"([0-9a-f]{64})")


def encode_tensors(tensors: Mapping[str, Tensor]) -> bytes:
    """The bytes of a safetensors file with these tensors."""
    # One metadata key only: the order of several would differ from one process to the next.
    return safetensors.torch.save({name: _alone(t) for name, t in tensors.items()}, metadata={"format": "pt"})


def _alone(tensor: Tensor) -> Tensor:
    """The tensor in memory of its own: safetensors refuses tensors that share memory, as the weights of a stack do."""
    tensor = tensor.detach().cpu().contiguous()
    return tensor if tensor.untyped_storage().nbytes() == tensor.nbytes else tensor.clone()


def decode_tensors(data: bytes, name: str) -> dict[str, Tensor]:
    """The tensors in the bytes of a safetensors file; errors name it as `name`."""
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


def sealed(data: bytes) -> bytes:
    """These bytes, in which `BLANK` stands once, with their seal in its place."""
    before, after = data.split(BLANK.encode())
    return before + PREFIX.encode() + hashlib.sha256(data).hexdigest().encode() + after


def check_seal(data: bytes, name: str) -> None:
    """Refuses bytes that are not just as `sealed` returned them; errors name them as `name`."""
    seals = list(SEAL.finditer(data))
    if len(seals) != 1:
        raise RunError(f"{name} has no seal: it is damaged, foreign, or from an earlier version")
    start, end = seals[0].span()
    unsealed = data[:start] + BLANK.encode() + data[end:]
    if hashlib.sha256(unsealed).hexdigest().encode() != seals[0][1]:
        raise RunError(f"{name} is damaged or was edited: its seal does not fit")


def is_sealed_with(data: bytes, word: str) -> bool:
    """Whether these bytes look like a sealed file of ours, damaged perhaps, with a column or an entry of this name."""
    return PREFIX.encode() in data and word.encode() in data


def encode_table(table: polars.DataFrame, about: Mapping[str, str], level: int | None = None) -> bytes:
    """A sealed Parquet file with these entries in its metadata, compressed at this level of zstd."""
    data = io.BytesIO()
    metadata = {**about, "seal": BLANK}
    table.write_parquet(data, compression="zstd", compression_level=level, statistics=False, metadata=metadata)
    return sealed(data.getvalue())


def decode_sealed(data: bytes, name: str) -> tuple[polars.DataFrame, dict[str, str]]:
    """The table and the metadata of a sealed Parquet file."""
    import polars

    check_seal(data, name)
    try:
        about = polars.read_parquet_metadata(io.BytesIO(data))
        lazy = polars.scan_parquet(io.BytesIO(data))
        cells = lazy.select(polars.len()).collect().item() * len(lazy.collect_schema())  # without reading the columns
        if cells > MOST_CELLS:
            raise RunError(f"{name} has {cells:,} numbers, of which at most {MOST_CELLS:,} are read")
        return polars.read_parquet(data), about
    except (polars.exceptions.PolarsError, OSError) as error:
        reason = " ".join(str(error).split())[:200]
        raise RunError(f"{name} is not a table that can be read: {reason}") from error
