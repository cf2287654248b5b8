"""The one way files get written: a new file replaces the old one whole and synced, or nothing is changed.

Everything in a run folder that is created, replaced, appended to or removed passes through here.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from pathlib import Path

from assignadd.errors import RunError

FULL = (errno.ENOSPC, errno.EDQUOT)


def write(path: Path, data: bytes) -> None:
    """Write beside the file, check the size, sync, rename over it, sync the directory."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    replaced = False
    try:
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            _write_all(fd, data)
            _sync(fd, len(data))
        finally:
            os.close(fd)
        os.replace(temporary, path)
        replaced = True
        _sync_directory(path.parent)
    except OSError as error:
        if replaced:
            raise RunError(f"{path} was written, but its directory could not be synced: {reason(error)}") from error
        raise RunError(f"{path} could not be written: {reason(error)}; nothing was changed") from error
    finally:
        if not replaced:
            discard(temporary)


def append(path: Path, committed: int, data: bytes) -> None:
    """Write bytes after the first `committed` ones of a file, replacing what an interrupted append may have left."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if os.fstat(fd).st_size < committed:
                raise RunError(f"{path} is truncated: it has {os.fstat(fd).st_size} of {committed} bytes")
            try:
                os.ftruncate(fd, committed)
                os.lseek(fd, committed, os.SEEK_SET)
                _write_all(fd, data)
                _sync(fd, committed + len(data))
            except BaseException:
                with contextlib.suppress(OSError):
                    os.ftruncate(fd, committed)
                raise
        finally:
            os.close(fd)
    except OSError as error:
        raise RunError(f"{path} could not be written: {reason(error)}; nothing was changed") from error


def discard(path: Path) -> None:
    """Remove a file that nothing counts on; one that cannot be removed now is found again at the next opening."""
    with contextlib.suppress(OSError):
        os.unlink(path)


def make_directory(path: Path) -> None:
    """A directory and its missing parents, synced into theirs."""
    try:
        for missing in reversed([p for p in (path, *path.parents) if not p.exists()]):
            with contextlib.suppress(FileExistsError):
                os.mkdir(missing)
            _sync_directory(missing.parent)
    except OSError as error:
        raise RunError(f"{path} could not be created: {reason(error)}") from error
    if not path.is_dir():
        raise RunError(f"{path} is not a directory")


def reason(error: OSError) -> str:
    return "the disk is full" if error.errno in FULL else error.strerror or str(error)


def _write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        written = os.write(fd, rest)
        if written == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        rest = rest[written:]


def _sync(fd: int, size: int) -> None:
    if (actual := os.fstat(fd).st_size) != size:
        raise OSError(errno.EIO, f"it came out with {actual} bytes instead of {size}")
    os.fsync(fd)


def _sync_directory(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
