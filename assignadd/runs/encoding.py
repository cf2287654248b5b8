"""Tensors and tables as the bytes of a file, and whether they are what they should be.

Tensors are safetensors, which hold no code; the same tensors give the same bytes. Tables are Parquet with a seal: one
that was damaged, cut or edited is refused, never read as other numbers. The seal is the sha256 of the file with the
seal's own digits as zeros. It stands in the file's metadata, so that a table is one file, written by one rename, and
any Parquet reader opens it.
"""

from __future__ import annotations

import hashlib
import io
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

MOST_CELLS = 150_000_000  # of a table that is read: a few kilobytes of Parquet can unpack to any number
COMPRESSION_LEVEL = 19  # of 22; tables are written once, and read and sent often
PREFIX = "assignadd-seal:"  # what the seal begins with; the 64 digits of a sha256 follow
BLANK = PREFIX + "0" * 64  # what stands in a file until its seal is known, which then replaces it
SEAL = re.compile(re.escape(PREFIX.encode()) + rb"([0-9a-f]{64})")


def encode_tensors(tensors: Mapping[str, Tensor]) -> bytes:
    """The bytes of a safetensors file with these tensors."""
    copies = {}
    for name, tensor in tensors.items():  # safetensors refuses tensors that share memory, as the weights of a stack do
        copies[name] = torch.empty(tensor.shape, dtype=tensor.dtype).copy_(tensor.detach())
    # One metadata key only: the order of several would differ from one process to the next.
    return safetensors.torch.save(copies, metadata={"format": "pt"})


def decode_tensors(data: bytes, name: str) -> dict[str, Tensor]:
    """The tensors in the bytes of a safetensors file; errors name it as `name`."""
    try:
        return safetensors.torch.load(data)
    except (SafetensorError, ValueError, KeyError) as error:
        raise RunError(f"{name} is not a safetensors file: {error}") from error


def stack_of(config: Config, weights: Mapping[str, Tensor], M: int, where: str) -> Stack:
    """The stack of these weights with a leading axis M; a RunError that names the file `where` if they do not fit."""
    dtype = getattr(torch, config.numerics.dtype)
    # The runs that come with the package have weights in half precision.
    weights = {name: weight.to(dtype) if weight.dtype == torch.float16 else weight for name, weight in weights.items()}
    expected = {name: f"{dtype} {(M, *shape)}" for name, shape in weight_shapes(config).items()}
    stored = {name: f"{weight.dtype} {tuple(weight.shape)}" for name, weight in weights.items()}
    for name in expected | stored:
        if stored.get(name) != expected.get(name):
            difference = f"{name} is {stored.get(name, 'missing')}, expected {expected.get(name, 'no such weight')}"
            raise RunError(f"{where} does not fit the run's model: {difference}")
    return Stack(config, flatten(config, weights))


def sealed(data: bytes) -> bytes:
    """`data`, in which `BLANK` stands once, with the seal instead of it: the sha256 of `data` as it is given."""
    before, after = data.split(BLANK.encode())
    return before + PREFIX.encode() + hashlib.sha256(data).hexdigest().encode() + after


def check_seal(data: bytes, name: str) -> None:
    """Raises a RunError, which names the file as `name`, unless its bytes are just as `sealed` returned them."""
    seals = list(SEAL.finditer(data))
    if len(seals) != 1:
        raise RunError(f"{name} has no seal: it is damaged, foreign, or from an earlier version")
    seal = seals[0]
    before_sealing = data[: seal.start()] + BLANK.encode() + data[seal.end() :]
    if hashlib.sha256(before_sealing).hexdigest().encode() != seal[1]:  # the 64 digits
        raise RunError(f"{name} is damaged or was edited: its seal does not fit")


def encode_table(table: polars.DataFrame, about: Mapping[str, str]) -> bytes:
    """A sealed Parquet file of this table, compressed by zstd, with the entries of `about` in its metadata."""
    file = io.BytesIO()
    table.write_parquet(
        file, compression="zstd", compression_level=COMPRESSION_LEVEL, statistics=False,
        metadata={**about, "seal": BLANK},
    )  # fmt: skip
    return sealed(file.getvalue())


def decode_sealed(data: bytes, name: str, n_rows: int | None = None) -> tuple[polars.DataFrame, dict[str, str]]:
    """The table and the metadata of a sealed Parquet file, from its bytes; errors name it as `name`.

    Before it is unpacked, a table of more than MOST_CELLS cells is refused, and so is with `n_rows` one that does not
    have this many rows, all of numbers.
    """
    import polars

    check_seal(data, name)
    try:
        about = polars.read_parquet_metadata(io.BytesIO(data))
        lazy = polars.scan_parquet(io.BytesIO(data))
        height = lazy.select(polars.len()).collect().item()  # without reading the columns
        schema = lazy.collect_schema()
        if n_rows is not None and (height != n_rows or not all(kind.is_numeric() for kind in schema.dtypes())):
            raise RunError(f"{name} is not a table of {n_rows:,} rows of numbers")
        cells = height * len(schema)
        if cells > MOST_CELLS:
            raise RunError(f"{name} has {cells:,} numbers, of which at most {MOST_CELLS:,} are read")
        return polars.read_parquet(data), about
    except (polars.exceptions.PolarsError, OSError) as error:
        reason = " ".join(str(error).split())[:200]
        raise RunError(f"{name} is not a table that can be read: {reason}") from error
