"""Writing a run: open it, new or where it was left, and commit. A reader sees it before or after a commit only.

A commit writes its files, appends its rows, and then replaces the manifest; until that last step the run is what it was
before. Opening brings an unfinished run back to its newest training state: what came after it is made again by the
training that follows. Where that state or the rows up to it are damaged, the run is refused and nothing is changed.

One process at a time writes: a kernel lock ends with its process, however that ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import torch
from jaxtyping import Bool
from msgspec.structs import replace
from torch import Tensor

from assignadd.config import Config, Member
from assignadd.config.errors import RunBusy, RunError
from assignadd.model.stack import Stack
from assignadd.runs import atomic
from assignadd.runs.config_json import first_difference, read_run_document, run_document
from assignadd.runs.encoding import encode_tensors
from assignadd.runs.environment import Environment
from assignadd.runs.files import MARK, claim_folder, read_regular
from assignadd.runs.folder import Run
from assignadd.runs.manifest import (
    CHECKPOINTS,
    CONFIG,
    EMPTY,
    MANIFEST,
    METRICS,
    NUMBERED,
    SPLITS,
    STATES,
    Blob,
    File,
    Manifest,
    Session,
    numbered,
    read_manifest,
)

LOCK = "lock"


class Writer(Run):
    """A run held for writing.

    `notes` say what is damaged in a finished run, which is left unchanged, and what may change the last bits of the
    numbers of an unfinished one.
    """

    def __init__(self, path: Path, config: Config, members: Sequence[Member], environment: Environment):
        super().__init__(path, read_manifest(path), config, members)
        self._environment = environment
        self._started = datetime.now(UTC).isoformat(timespec="seconds")
        self._clock = time.monotonic()
        if self.finished:
            self.notes = self.verify()
        else:
            self.notes = self._changes_of_environment()
            self._return_to_newest_state()
            self._digest = self._digest_of_metrics()
        self._discard_unlisted_states()
        self._earlier = self.manifest.sessions
        self._from_step = self.manifest.step

    @classmethod
    @contextlib.contextmanager
    def hold(
        cls,
        path: str | os.PathLike[str],
        config: Config,
        members: Sequence[Member],
        seen: Bool[Tensor, "M ..."],
        environment: Environment,
        sources: Mapping[str, str] | None = None,
    ) -> Iterator[Writer]:
        """A new run, or the existing run with these settings at `path`, locked against other writers.

        `sources` (name -> sha256) are the files an imported run comes from.
        """
        path, sources = Path(path), sources or {}
        documents = {CONFIG: run_document(config, members), SPLITS: encode_tensors({"seen": seen})}
        refuse_foreign(path)
        if not (path / MANIFEST).exists():
            claim_folder(path, "run")
        with locked(path):
            atomic.discard_leftovers(path)
            if not (path / MANIFEST).exists():
                create(path, documents, sources)
            atomic.discard(path / MARK)  # the manifest says what the folder is
            check_settings(Run.open(path), read_run_document(documents[CONFIG]), seen, sources)
            yield cls(path, config, members, environment)

    def commit(
        self,
        step: int,
        *,
        state: Mapping[str, Tensor] | None = None,
        checkpoint: Stack | None = None,
        rows: Iterable[Mapping[str, Any]] = (),
        finished: bool = False,
    ) -> None:
        """Save all of this as of `step`, or none of it. The rows are asked for last, when the files are written."""
        if self.finished or not self.manifest.step <= step <= self.manifest.steps:
            raise ValueError(f"a commit at step {step} in a run at step {self.manifest.step} of {self.manifest.steps}")
        written: list[str] = []
        try:
            files = {name: self._save(name, step, data, written) for name, data in _encoded(step, state, checkpoint)}
            lines = b"".join(msgspec.json.encode(row) + b"\n" for row in rows)
            digest = self._digest.copy()
            digest.update(lines)
            metrics = Blob(self.manifest.metrics.size + len(lines), digest.hexdigest())
            if lines:
                atomic.append(self.path / METRICS, self.manifest.metrics.size, lines)
            files_after = self._files_to_keep(step, self.manifest.files | files, metrics)
            after = replace(
                self.manifest,
                step=step,
                finished=finished,
                metrics=metrics,
                files=files_after,
                sessions=self._sessions(step),
            )
            after.write(self.path)
        except Exception:  # also an error of what makes the rows
            with contextlib.suppress(RunError):
                self._undo(written)
            raise
        self._continue_with(after)
        self._digest = digest

    def _save(self, name: str, step: int, data: bytes, written: list[str]) -> File:
        """Writes a file of a commit, its name first added to `written`, unless it is committed already."""
        blob, committed = Blob.of(data), self.manifest.files.get(name)
        path = self.path / name
        if committed is None:
            atomic.make_directory(path.parent)
            written.append(name)
            atomic.write(path, data)
        elif committed.sha256 != blob.sha256:
            raise RunError(f"{path} is committed already, with other contents")
        return File(blob.size, blob.sha256, step)

    def _files_to_keep(self, step: int, files: dict[str, File], metrics: Blob) -> dict[str, File]:
        """The files without states that are neither the newest nor at a multiple of `state_every`.

        The state of this step carries the hash of the metrics so far.
        """
        step_of_state = {name: file.step or 0 for name, file in files.items() if name.startswith(STATES)}
        newest = max(step_of_state.values(), default=0)
        every = self.config.record.state_every
        old = {name for name, at in step_of_state.items() if at != newest and at % every != 0}
        files = {name: file for name, file in files.items() if name not in old}
        state = numbered(STATES, step)
        if state in files:
            files[state] = replace(files[state], metrics=metrics)
        return files

    def _sessions(self, step: int) -> tuple[Session, ...]:
        seconds = round(time.monotonic() - self._clock, 3)
        return (*self._earlier, Session(self._started, self._from_step, step, seconds, self._environment))

    def _continue_with(self, manifest: Manifest) -> None:
        """Takes over a manifest that is on disk, and removes the files that only the one before it lists."""
        before = self.manifest
        self.manifest = manifest
        for name in before.files.keys() - manifest.files.keys():
            atomic.discard(self.path / name)

    def _undo(self, written: Iterable[str]) -> None:
        """After a commit that failed: back to the manifest on disk, which alone decides what is committed."""
        self._continue_with(read_manifest(self.path))
        for name in written:
            if name not in self.manifest.files:
                atomic.discard(self.path / name)
        atomic.append(self.path / METRICS, self.manifest.metrics.size, b"")
        self._digest = self._digest_of_metrics()

    def _changes_of_environment(self) -> list[str]:
        """A line that says what differs from the environment of the last session, if anything does."""
        sessions = self.manifest.sessions
        changes = self._environment.changes(sessions[-1].environment) if sessions else []
        listed = ", ".join(changes)
        return [f"going on with {listed}: the last bits may differ from an uninterrupted run"] if changes else []

    def _digest_of_metrics(self) -> hashlib._Hash:
        """The sha256 of the committed rows so far, to which those of the next commit are added."""
        return hashlib.sha256(read_regular(self.path, METRICS, first=self.manifest.metrics.size))

    def _return_to_newest_state(self) -> None:
        """Makes the newest training state the last commit; refuses a run in which it, or a row, is damaged."""
        try:
            self.latest_state()
            self.metrics()
        except RunError as error:
            raise RunError(f"{error}; move {self.path} away to train its models again") from error
        at_newest_state = self.manifest.at_newest_state()
        if self.manifest != at_newest_state:
            self.manifest = at_newest_state
            self.manifest.write(self.path)

    def _discard_unlisted_states(self) -> None:
        """Removes states that a kill left: written but not yet listed, or no longer listed but not yet removed."""
        folder = self.path / STATES
        for entry in os.listdir(folder) if folder.is_dir() else ():
            name = f"{STATES}/{entry}"
            if NUMBERED.fullmatch(name) and name not in self.manifest.files:
                atomic.discard(self.path / name)


def _encoded(step: int, state: Mapping[str, Tensor] | None, checkpoint: Stack | None) -> Iterator[tuple[str, bytes]]:
    """The name and the bytes of each file of a commit."""
    if checkpoint is not None:
        yield numbered(CHECKPOINTS, step), encode_tensors(checkpoint.weights)
    if state is not None:
        yield numbered(STATES, step), encode_tensors(state)


def refuse_foreign(path: Path) -> None:
    """Refuse a link, a folder with a manifest that is not ours, and a run that lost its manifest."""
    if path.is_symlink():
        raise RunError(f"{path} is a symbolic link, which is not written through; give the folder itself")
    if (path / MANIFEST).exists():
        try:
            read_manifest(path)
        except RunError as error:
            raise RunError(f"{error}; choose another --out, or move {path} away to train its models again") from error
    else:
        for name in (CHECKPOINTS, STATES):
            if os.path.lexists(path / name):
                raise RunError(f"{path} is not a run: it holds {name!r} but no {MANIFEST}; choose another --out")


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


def check_settings(
    run: Run, settings: tuple[Config, tuple[Member, ...]], seen: Tensor, sources: Mapping[str, str]
) -> None:
    """Refuses to go on with a run that has other settings, another split or other sources than these."""
    if run.manifest.sources != sources:
        kind = "imported from other files" if run.manifest.sources else "trained, not imported"
        raise RunError(f"{run.path} holds a run that was {kind}; choose another --out")
    for folder in (CHECKPOINTS, STATES):
        if (run.path / folder).is_symlink():
            raise RunError(f"{run.path / folder} is refused: a run's files are not reached through symbolic links")
    if difference := first_difference((run.config, run.members), settings):
        field, old, new = difference
        raise RunError(
            f"{run.path} holds a run with {field} = {old!r}, not {new!r}; "
            "give the same settings to go on with it, or another --out"
        )
    if not torch.equal(run.seen, seen.cpu()):
        raise RunError(f"{run.path / SPLITS} holds another split of the pairs than this; choose another --out")


# Descriptors of the locks that this process holds.
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
    fd = _lock(folder / LOCK)
    _held.add(fd)
    try:
        yield
    finally:
        if fd in _held:
            _held.remove(fd)
            os.close(fd)


def _lock(file: Path) -> int:
    """The descriptor of a lock file, which is locked and holds the number of this process."""
    try:
        fd = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise RunError(f"{file} could not be opened: {atomic.reason(error)}") from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(fd, 0)
        os.pwrite(fd, b"%d" % os.getpid(), 0)
    except BlockingIOError as error:
        number = os.pread(fd, 20, 0)
        os.close(fd)
        holder = f"process {number.decode()}" if number.isdigit() else "another process"
        raise RunBusy(f"{file.parent} is being written by {holder}; wait until it ends, or stop it") from error
    except OSError as error:
        os.close(fd)
        raise RunError(f"{file} could not be locked: {atomic.reason(error)}") from error
    return fd
