"""Tables as Parquet bytes, sealed: a table that was damaged, cut or edited is refused, never read as other numbers.

The seal is the sha256 of the file with the seal's own digits as zeros. It stands in the file's metadata, so that a
table is one file, written by one rename, and any Parquet reader opens it.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import re
import sys
from collections.abc import Iterator, Mapping
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
    found = list(SEAL.finditer(data))
    if len(found) != 1:
        return "has no seal: it is damaged, foreign, or from an earlier version"
    start, end = found[0].span()
    if hashlib.sha256(data[:start] + BLANK.encode() + data[end:]).hexdigest().encode() != found[0][1]:
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


def is_parquet_with(data: bytes, word: str) -> bool:
    """Whether these bytes look like a Parquet file with a column or an entry of this name."""
    return data[:4] == data[-4:] == b"PAR1" and word.encode() in data


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


def decode_foreign(data: bytes, name: str, most_rows: int | None = None) -> polars.DataFrame:
    """The rows, or the first of them, of a Parquet file that anybody may have made."""
    import polars

    try:
        with _quiet_panics():
            return polars.read_parquet(data, n_rows=most_rows)
    except BaseException as error:  # a panic in the reader is not an Exception
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":
            raise RunError(f"{name} is not a Parquet file: {' '.join(str(error).split())[:80]}") from error
        raise


@contextlib.contextmanager
def _quiet_panics() -> Iterator[None]:
    """Within, what the reader's own threads write to stderr is dropped: a panic prints its stack there."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
