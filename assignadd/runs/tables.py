"""Tables as Parquet bytes, sealed: a table that was damaged, cut or edited is refused, never read as other numbers.

The seal is the sha256 of the file with the seal's own digits as zeros. It stands in the file's metadata, so that a
table is one file, written by one rename, and any Parquet reader opens it.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from assignadd.config.errors import RunError
from assignadd.runs.files import read_regular

if TYPE_CHECKING:
    import polars

PREFIX = "assignadd-seal:"
BLANK = PREFIX + "0" * 64
SEAL = re.compile(re.escape(PREFIX.encode()) + rb"([0-9a-f]{64})")


def sealed(data: bytes) -> bytes:
    """These bytes, in which `BLANK` stands once, with their seal in its place."""
    before, after = data.split(BLANK.encode())
    return before + PREFIX.encode() + hashlib.sha256(data).hexdigest().encode() + after


def seal_problem(data: bytes) -> str | None:
    """What is wrong with bytes that should be sealed."""
    seals = list(SEAL.finditer(data))
    if len(seals) != 1:
        return "has no seal: it is damaged, foreign, or from an earlier version"
    start, end = seals[0].span()
    unsealed = data[:start] + BLANK.encode() + data[end:]
    if hashlib.sha256(unsealed).hexdigest().encode() != seals[0][1]:
        return "is damaged or was edited: its seal does not fit"
    return None


def unsealed_file(folder: Path, name: str) -> str | None:
    """What is wrong with a sealed file of a folder, where there is one."""
    if not os.path.lexists(folder / name):
        return None
    try:
        problem = seal_problem(read_regular(folder, name))
    except RunError as error:
        return str(error)
    return problem and f"{folder / name} {problem}"


def is_sealed_with(data: bytes, word: str) -> bool:
    """Whether these bytes look like a sealed file of ours, damaged perhaps, with a column or an entry of this name."""
    return PREFIX.encode() in data and word.encode() in data


def encode_table(table: polars.DataFrame, about: Mapping[str, str], level: int | None = None) -> bytes:
    """A sealed Parquet file with these entries in its metadata."""
    data = io.BytesIO()
    table.write_parquet(
        data, compression="zstd", compression_level=level, statistics=False, metadata={**about, "seal": BLANK}
    )
    return sealed(data.getvalue())


def decode_sealed(data: bytes, name: str) -> tuple[polars.DataFrame, dict[str, str]]:
    """The table and the metadata of a sealed Parquet file."""
    import polars

    if problem := seal_problem(data):
        raise RunError(f"{name} {problem}")
    return polars.read_parquet(data), polars.read_parquet_metadata(io.BytesIO(data))
