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
# The file that says what a folder of ours is for, such as "assignadd sweep", and the most bytes of it that are read.
MARK, MOST_OF_MARK = ".assignadd", 1000
# The most bytes of a file of settings (thousands of models take less), and of one about which nothing is known.
MOST_SETTINGS, MOST_BYTES = 16 << 20, 1 << 30
MOST_REPLACED = 128 << 20  # bytes of a single file that a command wrote and replaces: records of claims, or a figure


def read_input(path: Path, most: int, first: int | None = None, *, flags: int = 0) -> bytes:
    """The bytes of a file that a user names, or its `first` bytes. `flags` are further flags of os.open.

    Raises an OSError if it is not a regular file, or if more than `most` bytes would be read.
    """
    fd = os.open(path, os.O_RDONLY | atomic.AT_ONCE | flags)
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        size = status.st_size if first is None else min(first, status.st_size)
        if size > most:
            raise OSError(errno.EFBIG, f"{status.st_size:,} bytes, of which at most {most:,} are read", str(path))
        with open(fd, "rb", closefd=False) as file:
            return file.read(size)
    finally:
        os.close(fd)


def read_regular(folder: Path, name: str, first: int | None = None, most: int = MOST_BYTES) -> bytes:
    """The bytes of the file `name` in one of our folders, or its `first` bytes.

    Raises a RunError if the file is missing, is refused by `read_input`, or is reached through a link. In the cache of
    huggingface_hub a file of REPOSITORY/snapshots/COMMIT is a link into REPOSITORY/blobs, which is allowed.
    """
    path = folder / name
    target = Path(os.path.realpath(path))
    if target.is_relative_to(os.path.realpath(folder / "../../blobs")):
        path = target
    elif path.is_symlink() or (path.parent != folder and path.parent.is_symlink()):
        raise RunError(f"{path} is refused: a run's files are not reached through symbolic links")
    try:
        return read_input(path, most, first, flags=atomic.NOT_A_LINK)
    except FileNotFoundError as error:
        raise RunError(f"{path} is missing") from error
    except OSError as error:
        raise RunError(f"{path} could not be read: {atomic.reason(error)}") from error


def claim_folder(folder: Path, kind: str) -> None:
    """Marks a folder as ours, for a kind of output such as "report"; a DestinationError where that is not allowed.

    It is allowed where the folder is absent, empty, marked for the same kind, or holds marked folders alone, such as a
    report. What interrupted writes left in it is removed.
    """
    _refuse_link(folder)
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        names = []
    except OSError as error:
        reason = atomic.reason(error)
        raise DestinationError(f"{folder} cannot be written into: {reason}; choose another --out") from error
    present_kind = _kind(folder)
    if present_kind is None:
        # An interrupted write of the mark does not count.
        content = [name for name in names if not name.startswith(f".{MARK}.")]
        # Runs count as foreign: a folder of runs, such as runs/, is not for other output.
        foreign = [name for name in content if _kind(folder / name) in (None, "run")]
        if foreign:
            raise DestinationError(f"{folder} holds other files, such as {foreign[0]!r}; choose another --out")
        atomic.make_directory(folder)
        atomic.write(folder / MARK, f"assignadd {kind}\n".encode())
    elif present_kind != kind:
        there = f"holds an assignadd {present_kind}, not an assignadd {kind}"
        raise DestinationError(f"{folder} {there}; choose another --out")
    atomic.discard_leftovers(folder)


def folder_inside(folder: Path, name: str) -> Path:
    """The folder `name`, such as "figures" or "a/b", in a claimed one; made where it is missing."""
    inside = folder
    for part in Path(name).parts:
        inside = inside / part
        _refuse_link(inside)
    atomic.make_directory(inside)
    return inside


def claim_file(path: Path, is_ours: Callable[[bytes], bool]) -> None:
    """Raises a DestinationError for a link, for a place inside a run, and for a file that is there and is not ours.

    Inside a run, `measures.parquet` alone is allowed. `is_ours` says from the bytes of a file that is there whether the
    command wrote it.
    """
    _refuse_link(path)
    for folder in list(path.absolute().parents)[:2]:  # a run has files in its folder and in folders of that
        if _is_run(folder) and path.absolute() != folder / MEASURES:
            raise DestinationError(f"{path} is inside the run {folder}; choose a file outside of it")
    if not os.path.lexists(path):
        return
    try:
        may_be_replaced = is_ours(read_regular(path.parent, path.name, most=MOST_REPLACED))
    except RunError:  # a folder, or a file larger than any of ours
        may_be_replaced = False
    if not may_be_replaced:
        raise DestinationError(f"{path} is there and was not written by this command; choose another file")


def _refuse_link(path: Path) -> None:
    """Raises a DestinationError for a symbolic link."""
    if path.is_symlink():
        raise DestinationError(f"{path} is a symbolic link, which is not written through; remove it, or choose another")


def _kind(folder: Path) -> str | None:
    """The kind of output that a folder of ours is for, such as "sweep"; None for any other folder.

    The mark says it. A run may have none; a publication has the files of a run, and is not of the kind "run".
    """
    try:
        words = read_regular(folder, MARK, first=MOST_OF_MARK).decode().split()
    except (RunError, UnicodeDecodeError):
        words = []
    if words[:1] == ["assignadd"]:
        return " ".join(words[1:])
    return "run" if _is_run(folder) else None


def _is_run(folder: Path) -> bool:
    """Whether a folder has the files that every run has."""
    return (folder / MANIFEST).exists() and (folder / CONFIG).exists()
