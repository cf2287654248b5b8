"""Which files are read, and where a command may write: regular files alone, never through a link, nothing foreign.

A folder of ours carries the file `.assignadd`, which says what for and is written before anything else: an interrupted
command finds its folder again, and no other command writes into it. `atomic` does the writing.
"""

from __future__ import annotations

import errno
import glob
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from assignadd.config.errors import DestinationError, RunError
from assignadd.runs import atomic

MANIFEST, CONFIG, MEASURES = "manifest.json", "config.json", "measures.parquet"
MARK = ".assignadd"
MOST_MARKED = 1000


def read_regular(folder: Path, name: str, most: int | None = None) -> bytes:
    """The bytes of a file of one of our folders, at most the first `most`."""
    path = folder / name
    if path.is_symlink() or (path.parent != folder and path.parent.is_symlink()):
        raise RunError(f"{path} is refused: a run's files are not reached through symbolic links")
    try:
        # Without blocking, so that a pipe in a file's place is refused rather than waited for.
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, "rb") as file:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise RunError(f"{path} is not a regular file")
            return file.read(-1 if most is None else most)
    except FileNotFoundError as error:
        raise RunError(f"{path} is missing") from error
    except OSError as error:
        raise RunError(f"{path} could not be read: {atomic.reason(error)}") from error


def read_input(path: Path, most: int) -> bytes:
    """The bytes of a file that a user names; an OSError for what is not a regular file or has more than `most`."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # without waiting for a pipe's other end
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
    """Make a folder ours, or refuse it; what an interrupted write left in it is removed.

    A report or page inside may be ours too.
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
    folder_is = _kind(folder)
    if folder_is is None:
        foreign = [name for name in entries if _kind(folder / name) in (None, "run") and not _is_begun_mark(name)]
        if foreign:
            raise DestinationError(f"{folder} holds other files, such as {foreign[0]!r}; choose another --out")
        atomic.make_directory(folder)
        atomic.write(folder / MARK, _mark_of(kind))
    elif folder_is != kind:
        raise DestinationError(
            f"{folder} holds an assignadd {folder_is}, not an assignadd {kind}; choose another --out"
        )
    atomic.discard_leftovers(folder)


def remove_mark(folder: Path) -> None:
    """Remove the mark of a run's folder: its manifest says what it is."""
    with suppress(RunError):
        if read_regular(folder, MARK, most=MOST_MARKED) == _mark_of("run"):
            atomic.discard(folder / MARK)


def folder_inside(folder: Path, name: str) -> Path:
    """A folder in a claimed one, made where it is missing, and not reached through a link."""
    inside = folder
    for part in Path(name).parts:
        inside = inside / part
        if inside.is_symlink():
            raise DestinationError(f"{inside} is a symbolic link, which is not written through; remove it")
    atomic.make_directory(inside)
    return inside


def claim_file(path: Path, is_ours: Callable[[bytes], bool]) -> None:
    """Refuse to write a file over a link, over what `is_ours` does not recognise, or among the files of a run.

    What an interrupted write of this file left beside it is removed.
    """
    if path.is_symlink():
        raise DestinationError(f"{path} is a symbolic link, which is not written through; choose another file")
    for folder in list(path.absolute().parents)[:2]:
        run = (folder / MANIFEST).exists() and (folder / CONFIG).exists()
        if run and path.absolute() != folder / MEASURES:
            raise DestinationError(f"{path} is inside the run {folder}; choose a file outside of it")
    if path.exists() and not (path.is_file() and is_ours(read_regular(path.parent, path.name))):
        raise DestinationError(f"{path} is there and was not written by this command; choose another file")
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        atomic.discard_leftover(leftover)


def _mark_of(kind: str) -> bytes:
    return f"assignadd {kind}\n".encode()


def _kind(folder: Path) -> str | None:
    """What a folder of ours is for; None for any other."""
    if (folder / MANIFEST).exists() and (folder / CONFIG).exists():
        return "run"
    try:
        words = read_regular(folder, MARK, most=MOST_MARKED).decode().split()
    except (RunError, UnicodeDecodeError):
        return None
    return " ".join(words[1:]) if words[:1] == ["assignadd"] else None


def _is_begun_mark(name: str) -> bool:
    """Whether this is what a kill left of writing the mark."""
    match = atomic.TEMPORARY.fullmatch(name)
    return match is not None and match["name"] == MARK
