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

MOST_CELLS = 150_000_000  # of a table that is read: a few kilobytes of Parquet can unpack to any number of them
ROWS_TOGETHER = 50_000  # the rows that are compressed together in a table that is written a part at a time
MOST_OF_METADATA = 1 << 20  # bytes at the end of a Parquet file that its metadata take, among them the seal
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
    """The stack of these weights with a leading axis M; a RunError that names the file `where` if they do not fit.

    Weights in half precision, as in the runs that come with the package, are widened to the precision of the settings.
    """
    dtype = getattr(torch, config.numerics.dtype)
    widened = {name: weight.to(dtype) for name, weight in weights.items() if weight.dtype == torch.float16}
    weights = {**weights, **widened}
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
    seal = PREFIX + hashlib.sha256(data).hexdigest()
    return before + seal.encode() + after


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
    metadata = {**about, "seal": BLANK}
    table.write_parquet(file, compression="zstd", statistics=False, metadata=metadata)
    return sealed(file.getvalue())


def sink_sealed(table: polars.LazyFrame, file: io.BufferedRandom, level: int) -> None:
    """Writes a sealed Parquet file of this table into an empty file, a part of the rows at a time.

    It is compressed by zstd at this level. Reading begins at the start of the file afterwards.
    """
    table.sink_parquet(
        file,
        compression="zstd",
        compression_level=level,
        statistics=False,
        row_group_size=ROWS_TOGETHER,
        metadata={"seal": BLANK},
    )
    file.seek(0)
    seal = PREFIX + hashlib.file_digest(file, "sha256").hexdigest()
    start = file.seek(max(0, file.tell() - MOST_OF_METADATA))
    before, _ = file.read().split(BLANK.encode())
    file.seek(start + len(before))
    file.write(seal.encode())
    file.seek(0)


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
