"""Reading the files of a run folder: only regular files inside it, never a link out of it."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from assignadd.config.errors import RunError
from assignadd.runs.atomic import reason


def read_regular(folder: Path, name: str, most: int | None = None) -> bytes:
    """The bytes of a file of the folder, at most the first `most`."""
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
        raise RunError(f"{path} could not be read: {reason(error)}") from error


def read_input(path: Path, most: int) -> bytes:
    """The bytes of a file that a user names; an OSError for what is not a regular file or has more than `most`."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # without waiting for a pipe's other end
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        if found.st_size > most:
            raise OSError(errno.EFBIG, f"{found.st_size:,} bytes, of which at most {most:,} are read", str(path))
        with open(fd, "rb", closefd=False) as file:
            return file.read(most)
    finally:
        os.close(fd)
