"""Which files are read, and where a command may write: regular files alone, never through a link, nothing foreign.

A folder of ours carries the file `.assignadd`, which says what for and is written before anything else: an interrupted
command finds its folder again, and no other command writes into it. `atomic` does the writing.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

from assignadd.config.errors import DestinationError, RunError
from assignadd.runs import atomic

MANIFEST, CONFIG, MEASURES = "manifest.json", "config.json", "measures.parquet"
# The file that says what a folder of ours is for, such as "assignadd sweep", and of how many bytes it is read.
MARK = ".assignadd"
MOST_OF_MARK = 1000
MOST_BYTES = 1 << 30  # of a file where nothing says how large it may be
# Of a file of settings: those of thousands of models take less.
MOST_SETTINGS = 16 << 20  # 16 MiB


def read_regular(folder: Path, name: str, first: int | None = None, most: int = MOST_BYTES) -> bytes:
    """The bytes of the file `name` in one of our folders, or its `first` bytes.

    A RunError for what is missing, is not a regular file, is reached through a link, or where that is more than `most`
    bytes.
    """
    path = folder / name
    if path.is_symlink() or (path.parent != folder and path.parent.is_symlink()):
        raise RunError(f"{path} is refused: a run's files are not reached through symbolic links")
    try:
        # Without blocking, so that a pipe in a file's place is refused rather than waited for.
        fd = os.open(path, os.O_RDONLY | atomic.flags("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC"))
        with open(fd, "rb") as file:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise RunError(f"{path} is not a regular file")
            size = status.st_size if first is None else min(first, status.st_size)
            if size > most:
                raise RunError(f"{path} has {status.st_size:,} bytes, of which at most {most:,} are read")
            return file.read(size)
    except FileNotFoundError as error:
        raise RunError(f"{path} is missing") from error
    except OSError as error:
        raise RunError(f"{path} could not be read: {atomic.reason(error)}") from error


def read_input(path: Path, most: int) -> bytes:
    """The bytes of a file that a user names; an OSError for what is not a regular file or has more than `most`."""
    # Without waiting for a pipe's other end.
    fd = os.open(path, os.O_RDONLY | atomic.flags("O_NONBLOCK", "O_CLOEXEC"))
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        if status.st_size > most:
            raise OSError(errno.EFBIG, f"{status.st_size:,} bytes, of which at most {most:,} are read", str(path))
        with open(fd, "rb", closefd=False) as file:
            return file.read(most)
    finally:
        os.close(fd)


def claim_folder(folder: Path, kind: str) -> None:
    """Mark an absent or empty folder as ours, for a kind of output, or refuse it.

    It may hold folders of ours, such as a report inside a report. What interrupted writes left in it is removed.
    """
    if folder.is_symlink():
        raise DestinationError(f"{folder} is a symbolic link, which is not written through; give the folder itself")
    try:
        entries = sorted(os.listdir(folder))
    except FileNotFoundError:
        entries = []
    except OSError as error:
        reason = atomic.reason(error)
        raise DestinationError(f"{folder} cannot be written into: {reason}; choose another --out") from error
    present_kind = _kind(folder)
    if present_kind is None:
        # A kill may have left the temporary file of the mark. A run counts as foreign: a folder of runs, such as runs/,
        # is not for other output.
        others = [name for name in entries if not name.startswith(f".{MARK}.")]
        foreign = [name for name in others if _kind(folder / name) in (None, "run")]
        if foreign:
            raise DestinationError(f"{folder} holds other files, such as {foreign[0]!r}; choose another --out")
        atomic.make_directory(folder)
        atomic.write(folder / MARK, f"assignadd {kind}\n".encode())
    elif present_kind != kind:
        raise DestinationError(
            f"{folder} holds an assignadd {present_kind}, not an assignadd {kind}; choose another --out"
        )
    atomic.discard_leftovers(folder)


def folder_inside(folder: Path, name: str) -> Path:
    """The folder `name`, such as "figures" or "a/b", in a claimed one; made where it is missing.

    Refused where it, or a folder on the way to it, is a link.
    """
    inside = folder
    for part in Path(name).parts:
        inside = inside / part
        if inside.is_symlink():
            raise DestinationError(f"{inside} is a symbolic link, which is not written through; remove it")
    atomic.make_directory(inside)
    return inside


def claim_file(path: Path, is_ours: Callable[[bytes], bool]) -> None:
    """Refuse to write a file over a link, over what `is_ours` does not recognise, or among the files of a run.

    `is_ours` is given the bytes of the file that is there.
    """
    if path.is_symlink():
        raise DestinationError(f"{path} is a symbolic link, which is not written through; choose another file")
    for folder in list(path.absolute().parents)[:2]:  # a run has files in its folder and in folders of that
        if _is_run(folder) and path.absolute() != folder / MEASURES:
            raise DestinationError(f"{path} is inside the run {folder}; choose a file outside of it")
    may_be_replaced = not os.path.lexists(path) or (path.is_file() and _is_recognised(path, is_ours))
    if not may_be_replaced:
        raise DestinationError(f"{path} is there and was not written by this command; choose another file")


def _is_recognised(path: Path, is_ours: Callable[[bytes], bool]) -> bool:
    """Whether a path is a regular file, of a size that we read, that `is_ours` recognises."""
    try:
        return is_ours(read_regular(path.parent, path.name))
    except RunError:
        return False


def _kind(folder: Path) -> str | None:
    """What a folder of ours is for, such as "sweep"; None for any other."""
    if _is_run(folder):
        return "run"
    try:
        words = read_regular(folder, MARK, first=MOST_OF_MARK).decode().split()
    except (RunError, UnicodeDecodeError):
        return None
    if words[:1] != ["assignadd"]:
        return None
    return " ".join(words[1:])


def _is_run(folder: Path) -> bool:
    """Whether a folder has the files that every run has."""
    return (folder / MANIFEST).exists() and (folder / CONFIG).exists()
