"""One writer per run folder: a kernel lock that ends with its process, however that ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from assignadd.errors import RunBusy, RunError
from assignadd.runs.atomic import reason

LOCK = "lock"
_held: set[int] = set()


def _let_go() -> None:
    """In a forked child: the lock is the parent's, and must end with it."""
    for fd in _held:
        os.close(fd)
    _held.clear()


os.register_at_fork(after_in_child=_let_go)


class Holder(msgspec.Struct):
    pid: int
    started: str


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder for writing, or refuse naming the process that does.

    The file stays when the lock is released: removing it would let two processes lock two files of one name.
    """
    fd = _acquire(folder)
    _held.add(fd)
    try:
        yield
    finally:
        if fd in _held:
            _held.remove(fd)
            os.close(fd)


def _acquire(folder: Path) -> int:
    try:
        fd = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise RunError(f"{folder / LOCK} could not be opened: {reason(error)}") from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(fd, 0)
        os.pwrite(fd, msgspec.json.encode(Holder(os.getpid(), datetime.now(UTC).isoformat(timespec="seconds"))), 0)
    except BlockingIOError as error:
        holder = _holder(fd)
        os.close(fd)
        raise RunBusy(f"{folder} is being written by {holder}; wait until it ends, or stop it") from error
    except OSError as error:
        os.close(fd)
        raise RunError(f"{folder / LOCK} could not be locked: {reason(error)}") from error
    return fd


def _holder(fd: int) -> str:
    try:
        holder = msgspec.json.decode(os.pread(fd, 1000, 0), type=Holder)
    except (OSError, msgspec.DecodeError):
        return "another process"
    return f"process {holder.pid} since {holder.started}"
