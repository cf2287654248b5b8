"""The one way files get written: a new file replaces the old one whole and synced, or nothing is changed.

Everything in a run folder that is created, replaced, appended to or removed passes through here.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import glob
import os
import re
import secrets
from pathlib import Path

from assignadd.config.errors import RunError

# The name of a file that is being written: `.config.json.0a1b2c3d.tmp` becomes `config.json`.
TEMPORARY = re.compile(r"\..+\.[0-9a-f]{8}\.tmp", re.DOTALL)
DISK_FULL = (errno.ENOSPC, errno.EDQUOT)  # no space, or none within the user's quota


def write(path: Path, data: bytes) -> None:
    """Make `path` a file with these bytes; a file that is there is replaced whole, or not at all.

    The bytes go into a temporary file beside it, which is synced and renamed to `path`; then the directory is synced.
    Temporary files that an interrupted write of the same file left are removed first.
    """
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        discard_leftover(leftover)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    replaced = False
    try:
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            _lock(fd)  # so that another process does not remove it as a leftover
            _write_all(fd, data)
            os.fsync(fd)
            os.replace(temporary, path)
        finally:
            os.close(fd)
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
    """Write bytes after the first `committed` ones of a file, replacing what an interrupted append may have left.

    Where that fails, the file has its first `committed` bytes and nothing more.
    """
    try:
        fd = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if os.fstat(fd).st_size < committed:
                raise RunError(f"{path} is truncated: it has {os.fstat(fd).st_size} of {committed} bytes")
            try:
                os.ftruncate(fd, committed)
                os.lseek(fd, committed, os.SEEK_SET)
                _write_all(fd, data)
                os.fsync(fd)
            except BaseException:  # an interrupt too
                with contextlib.suppress(OSError):
                    os.ftruncate(fd, committed)
                raise
        finally:
            os.close(fd)
    except OSError as error:
        raise RunError(f"{path} could not be written: {reason(error)}; nothing was changed") from error


def discard(path: Path) -> None:
    """Remove a file that nothing depends on, if it can be removed."""
    with contextlib.suppress(OSError):
        os.unlink(path)


def discard_leftover(path: Path) -> None:
    """Remove a temporary file of a write that was interrupted.

    Other files are left, and so is a temporary one that a process is still writing: it holds the file's lock.
    """
    if not TEMPORARY.fullmatch(path.name):
        return
    with contextlib.suppress(OSError):  # such as that of a lock that another process holds
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            _lock(fd)
            os.unlink(path)
        finally:
            os.close(fd)


def discard_leftovers(folder: Path) -> None:
    """Remove what interrupted writes left in a folder of ours and in the folders inside it."""
    for subfolder, _, file_names in os.walk(folder):  # does not follow links
        for name in file_names:
            discard_leftover(Path(subfolder) / name)


def make_directory(path: Path) -> None:
    """Make a directory and those of its parents that are missing, each synced into the directory that holds it."""
    try:
        missing = [directory for directory in (path, *path.parents) if not directory.exists()]
        for directory in reversed(missing):  # from the outermost to `path`
            with contextlib.suppress(FileExistsError):  # another process may make it at the same time
                os.mkdir(directory)
            _sync_directory(directory.parent)
    except OSError as error:
        raise RunError(f"{path} could not be created: {reason(error)}") from error
    if not path.is_dir():
        raise RunError(f"{path} is not a directory")


def reason(error: OSError) -> str:
    """The reason of a failed operation on a file, in words."""
    if error.errno in DISK_FULL:
        return "the disk is full"
    return error.strerror or str(error)


def _lock(fd: int) -> None:
    """Lock an open file, or raise an OSError if another process has; on a file system without locks do nothing."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP):
            raise


def _write_all(fd: int, data: bytes) -> None:
    """Write all bytes, of which the system may take a part at a time."""
    rest = memoryview(data)
    while rest:
        n_written = os.write(fd, rest)
        rest = rest[n_written:]


def _sync_directory(path: Path) -> None:
    """Make the names in a directory last over a loss of power, as fsync makes the contents of a file last."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
