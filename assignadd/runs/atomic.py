"""The one way files get written: a new file replaces the old one whole and synced, or nothing is changed."""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import re
import secrets
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import IO

from assignadd.config.errors import RunError

# The name of a file that is being written: `.config.json.0a1b2c3d.tmp` becomes `config.json`.
TEMPORARY = re.compile(r"\..+\.[0-9a-f]{8}\.tmp", re.DOTALL)
PART = 1 << 20  # bytes of a file that are copied at a time
RENAMES_OPEN_FILES = os.name != "nt"  # Windows does not
# Flags of os.open, as far as this system has them. With NOT_A_LINK, opening a link is an error; with AT_ONCE, opening a
# pipe does not wait for its other end, and Windows reads and writes bytes.
NOT_A_LINK = getattr(os, "O_NOFOLLOW", 0)
AT_ONCE = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def write(path: Path, data: bytes | IO[bytes]) -> None:
    """Makes `path` a file with these bytes, or those of a file; a file that is there is replaced whole, or not at all.

    The bytes go into a temporary file beside it, which is synced and renamed to `path`; then the directory is synced.
    """
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        discard_leftover(leftover)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with _opened(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as fd:
            with contextlib.suppress(OSError):  # of a file system without locks
                lock(fd)  # so that another process does not remove it as a leftover
            if not temporary.exists():  # another process removed it before it was locked
                return write(path, data)
            parts: Iterable[bytes] = [data] if isinstance(data, bytes) else iter(partial(data.read, PART), b"")
            for part in parts:
                _write_all(fd, part)
            os.fsync(fd)
            if RENAMES_OPEN_FILES:  # while it is locked
                os.replace(temporary, path)
        if not RENAMES_OPEN_FILES:
            os.replace(temporary, path)
    except BaseException as error:  # an interrupt too
        discard(temporary)
        if isinstance(error, OSError):
            raise RunError(f"{path} could not be written: {reason(error)}; nothing was changed") from error
        raise
    try:
        _sync_directory(path.parent)
    except OSError as error:
        raise RunError(f"{path} was written, but its directory could not be synced: {reason(error)}") from error


def append(path: Path, committed: int, data: bytes) -> None:
    """Writes bytes after the first `committed` bytes of a file; what an interrupted append left there is cut off."""
    try:
        with _opened(path, os.O_WRONLY | NOT_A_LINK) as fd:
            size = os.fstat(fd).st_size
            if size < committed:
                raise RunError(f"{path} is truncated: it has {size} of {committed} bytes")
            os.ftruncate(fd, committed)
            os.lseek(fd, committed, os.SEEK_SET)
            _write_all(fd, data)
            os.fsync(fd)
    except OSError as error:
        unchanged = "what was committed is unchanged"
        raise RunError(f"{path} could not be written: {reason(error)}; {unchanged}") from error


def discard(path: Path) -> None:
    """Removes a file that nothing depends on, if it can be removed."""
    with contextlib.suppress(OSError):
        os.unlink(path)


def discard_leftover(path: Path) -> None:
    """Removes a temporary file of an interrupted write. A file of another name stays, and one that is being written."""
    if not TEMPORARY.fullmatch(path.name):
        return
    with contextlib.suppress(OSError), _opened(path, os.O_RDONLY | NOT_A_LINK) as fd:
        if lock(fd):  # no process writes it
            os.unlink(path)


def discard_leftovers(folder: Path) -> None:
    """Removes the temporary files of interrupted writes in a folder of ours and in the folders inside it."""
    for subfolder, _, names in os.walk(folder):  # does not follow links
        for name in names:
            discard_leftover(Path(subfolder) / name)


def move_aside(path: Path) -> Path:
    """Renames what stands at `path`, and returns its new path, whose name has a random part and the end `.aside`."""
    aside = path.with_name(f"{path.name}.{secrets.token_hex(4)}.aside")
    try:
        os.replace(path, aside)
    except OSError as error:
        raise RunError(f"{path} is not ours and could not be renamed: {reason(error)}; nothing was changed") from error
    return aside


def make_directory(path: Path) -> None:
    """Makes a directory and those of its parents that are missing, each synced into the directory that holds it."""
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
    """Why an operation on a file failed, in the system's words, such as "No space left on device"."""
    return error.strerror or str(error)


@contextlib.contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    """A descriptor of the file, open while the body of the `with` runs."""
    fd = os.open(path, flags | AT_ONCE, 0o666)
    try:
        yield fd
    finally:
        os.close(fd)


def lock(fd: int) -> bool:
    """Locks an open file and returns whether that is done: not if another process holds the lock."""
    from filelock import lock_descriptor

    try:
        return lock_descriptor(fd, blocking=False)
    except OSError as error:
        if error.errno == errno.ENOSYS and not _python_has_locks():  # as in a browser, without other processes
            return True
        raise


def _python_has_locks() -> bool:
    """Whether this Python can lock files; if so, an error is the file system's."""
    try:
        import fcntl  # noqa: F401
    except ImportError:
        return os.name == "nt"
    return True


def _write_all(fd: int, data: bytes) -> None:
    """Writes all bytes, of which the system may take a part at a time."""
    remaining = memoryview(data)
    while remaining:
        remaining = remaining[os.write(fd, remaining) :]


def _sync_directory(path: Path) -> None:
    """Waits until the names in a directory are on the disk, as `os.fsync` does for the contents of a file."""
    if hasattr(os, "O_DIRECTORY"):  # elsewhere a directory cannot be opened
        with _opened(path, os.O_RDONLY | os.O_DIRECTORY) as fd:
            os.fsync(fd)
