"""Open a run folder for writing: create the run, or check that it has the given settings; refuse any other folder.

One process at a time writes: a kernel lock ends with its process, however that ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import torch
from torch import Tensor

from assignadd.config import ConfigError
from assignadd.config.errors import RunBusy, RunError
from assignadd.runs import atomic
from assignadd.runs.config_json import first_difference, read_run_document, run_document
from assignadd.runs.files import read_regular
from assignadd.runs.manifest import (
    CHECKPOINTS,
    CONFIG,
    EMPTY,
    MANIFEST,
    METRICS,
    SPLITS,
    STATES,
    Blob,
    File,
    Manifest,
    read_committed,
    read_manifest,
)
from assignadd.runs.tensors import decode_tensors

LOCK = "lock"
# What an interrupted write to a run leaves.
TEMPORARY = re.compile(
    r"\.(manifest\.json|config\.json|metrics\.jsonl|splits\.safetensors|measures\.parquet|[0-9]{8,}\.safetensors)"
    r"\.[0-9a-f]{8}\.tmp"
)


class Holder(msgspec.Struct):
    pid: int
    started: str


def refuse_foreign(path: Path) -> None:
    """Refuse a link, or a folder that holds anything but a run, before anything is put into it."""
    if path.is_symlink():
        raise RunError(f"{path} is a symbolic link, which is not written through; give the folder itself")
    try:
        entries = set(os.listdir(path))
    except FileNotFoundError:
        return
    except OSError as error:
        raise RunError(f"{path} cannot be a run folder: {atomic.reason(error)}; choose another --out") from error
    if MANIFEST in entries:
        try:
            read_manifest(path)
        except RunError as error:
            raise RunError(f"{error}; choose another --out, or move {path} away to train its models again") from error
    elif others := sorted(entry for entry in entries if not _was_begun(path, entry)):
        raise RunError(f"{path} is not a run: it holds {others[0]!r} but no {MANIFEST}; choose another --out")


def _was_begun(path: Path, entry: str) -> bool:
    """Whether a file is what a run that was killed while it was being created leaves: it reads as only ours does."""
    if TEMPORARY.fullmatch(entry):
        return True
    if entry not in (LOCK, CONFIG, SPLITS, METRICS):
        return False
    try:
        data = read_regular(path, entry)
        if entry == CONFIG:
            read_run_document(data)
        elif entry == SPLITS:
            return list(decode_tensors(data, entry)) == ["seen"]
        elif data and entry == LOCK:
            msgspec.json.decode(data, type=Holder)
        return entry != METRICS or not data
    except (RunError, ConfigError, msgspec.DecodeError):
        return False


def create(path: Path, documents: Mapping[str, bytes], sources: Mapping[str, str]) -> None:
    """The first commit of a run: its settings and splits."""
    config, members = read_run_document(documents[CONFIG])
    for name, data in documents.items():
        atomic.write(path / name, data)
    atomic.write(path / METRICS, b"")
    Manifest(
        step=0,
        steps=config.optim.steps,
        finished=False,
        seeds=tuple(member.seed for member in members),
        dtype=config.numerics.dtype,
        sources=dict(sources),
        metrics=EMPTY,
        files={name: File(len(data), Blob.of(data).sha256) for name, data in documents.items()},
        sessions=(),
    ).write(path)


def resume(
    path: Path, manifest: Manifest, documents: Mapping[str, bytes], seen: Tensor, sources: Mapping[str, str]
) -> list[str]:
    """Checks that a run has these settings, and writes its settings and splits again if they were damaged."""
    if manifest.sources != sources:
        kind = "imported from other files" if manifest.sources else "trained, not imported"
        raise RunError(f"{path} holds a run that was {kind}; choose another --out")
    for folder in (CHECKPOINTS, STATES):
        if (path / folder).is_symlink():
            raise RunError(f"{path / folder} is refused: a run's files are not reached through symbolic links")
    notes = []
    for name, data in documents.items():
        if manifest.files[name].sha256 == Blob.of(data).sha256 and (problem := file_problem(path, manifest, name)):
            atomic.write(path / name, data)
            notes.append(f"{problem}; it was written again")
    stands = run_document(
        *read_run_document(read_committed(path, manifest, CONFIG))
    )  # in full, also where an earlier version wrote it
    if difference := first_difference(stands, documents[CONFIG]):
        field, old, new = difference
        raise RunError(
            f"{path} holds a run with {field} = {old!r}, not {new!r}; "
            "give the same settings to go on with it, or another --out"
        )
    stored = decode_tensors(read_committed(path, manifest, SPLITS), str(path / SPLITS))
    if not torch.equal(stored.get("seen", torch.empty(0)), seen.cpu()):
        raise RunError(f"{path / SPLITS} holds another split of the pairs than the one given; choose another --out")
    return notes


def file_problem(path: Path, manifest: Manifest, name: str) -> str | None:
    """What is wrong with a committed file."""
    try:
        read_committed(path, manifest, name)
    except RunError as error:
        return str(error)
    return None


_held: set[int] = set()


def _let_go() -> None:
    """In a forked child: the lock is the parent's, and must end with it."""
    for fd in _held:
        os.close(fd)
    _held.clear()


os.register_at_fork(after_in_child=_let_go)


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
        raise RunError(f"{folder / LOCK} could not be opened: {atomic.reason(error)}") from error
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
        raise RunError(f"{folder / LOCK} could not be locked: {atomic.reason(error)}") from error
    return fd


def _holder(fd: int) -> str:
    try:
        holder = msgspec.json.decode(os.pread(fd, 1000, 0), type=Holder)
    except (OSError, msgspec.DecodeError):
        return "another process"
    return f"process {holder.pid} since {holder.started}"
