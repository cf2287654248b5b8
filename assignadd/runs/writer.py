"""Writing a run: open it, new or where it was left, and commit. A reader sees it before or after a commit only.

A commit writes its files, appends its rows, and then replaces the manifest; until that last step the run is what it was
before. Opening brings an unfinished run back to its newest intact state: what came after it is made again by the
training that follows. Nothing that was saved is deleted for that, nor overwritten with other bytes: it is set aside.

One process at a time writes: a kernel lock ends with its process, however that ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import sys
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
from assignadd.config.errors import RunBusy, RunError, printable
from assignadd.model.stack import Stack
from assignadd.runs import atomic
from assignadd.runs.config_json import first_difference, read_run_document, run_document
from assignadd.runs.encoding import decode_tensors, encode_tensors, state_problem
from assignadd.runs.environment import Environment
from assignadd.runs.files import claim_folder, read_regular, remove_mark
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
    committed_problem,
    numbered,
    read_committed,
    read_manifest,
)

LOCK = "lock"


class Writer(Run):
    """A run held for writing.

    `problems` has what is wrong with each file that was damaged at opening; `notes` says it, and what follows from it.
    """

    def __init__(
        self, path: Path, config: Config, members: Sequence[Member], environment: Environment, notes: Iterable[str] = ()
    ):
        super().__init__(path, read_manifest(path), config, members)
        self.notes = list(notes)
        self._environment = environment
        self._started, self._clock = datetime.now(UTC).isoformat(timespec="seconds"), time.monotonic()
        rows = self._note_damage()
        if not self.finished:
            self._return_to_state(rows)
        if not self.problems:
            self._discard_old_states()
        self._digest = hashlib.sha256(rows[: self.manifest.metrics.size])  # of the committed metrics
        self._earlier, self._from_step = self.manifest.sessions, self.manifest.step
        if self._earlier and not self.finished and (changes := environment.changes(self._earlier[-1].environment)):
            self.notes.append(f"going on with {', '.join(changes)}: the last bits may differ from an uninterrupted run")

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
            remove_mark(path)
            notes = check_settings(path, read_manifest(path), documents, seen, sources)
            yield cls(path, config, members, environment, notes)

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
        """Writes a file of a commit, its name first added to `written`, unless it is committed already.

        What stands in its place with other bytes is set aside, with a line on stderr.
        """
        blob, committed = Blob.of(data), self.manifest.files.get(name)
        path = self.path / name
        if committed is None:
            atomic.make_directory(path.parent)
            if os.path.lexists(path) and not _holds(self.path, name, blob):
                new_name = atomic.set_aside(path)
                line = printable(f"note: {path} was there with other contents; it is now {new_name.name}")
                print(line, file=sys.stderr)
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
        """Goes on with a manifest that is on disk, and removes the files that only the one before it lists."""
        before, self.manifest = self.manifest, manifest
        for name in before.files.keys() - manifest.files.keys():
            atomic.discard(self.path / name)

    def _undo(self, written: Iterable[str]) -> None:
        """After a commit that failed: back to the manifest on disk, which alone decides what is committed."""
        self._continue_with(read_manifest(self.path))
        for name in written:
            if name not in self.manifest.files:
                atomic.discard(self.path / name)
        size = self.manifest.metrics.size
        atomic.append(self.path / METRICS, size, b"")
        self._digest = hashlib.sha256(read_regular(self.path, METRICS, most=size))

    def _note_damage(self) -> bytes:
        """The committed metrics as they stand in the file; notes on them, and on every file that is damaged."""
        self.problems = {
            name: problem
            for name in self.manifest.files
            if (problem := committed_problem(self.path, self.manifest, name))
        }
        rows = b""
        try:
            rows = read_regular(self.path, METRICS, most=self.manifest.metrics.size)
        except RunError as error:
            self.problems[METRICS] = str(error)
        else:
            if problem := self.manifest.metrics.problem(rows):
                self.problems[METRICS] = f"{self.path / METRICS} {problem}"
        self.notes += self.problems.values()
        return rows

    def _return_to_state(self, rows: bytes) -> None:
        """Goes back to the newest state that is intact and has intact metrics.

        A finished run needs no state, and is left unchanged whatever is damaged. What was committed after the state is
        not deleted: checkpoints stay until the training comes to their steps, and are set aside where it makes other
        bytes; rows are copied first if anything was damaged.
        """
        intact = []
        for step, name in self.manifest.numbered(STATES).items():
            metrics = self.manifest.files[name].metrics or EMPTY
            if name not in self.problems and not metrics.problem(rows[: metrics.size]):
                intact.append(step)
        before, self.manifest = self.manifest, self.manifest.until(intact[-1] if intact else None)
        if self.problems.keys() - self.manifest.files.keys():
            self.notes.append(f"{self.path} goes on from step {self.step}, its newest intact state")
            if len(rows) > self.manifest.metrics.size:
                copy = atomic.aside(self.path / METRICS)
                atomic.write(copy, rows)
                self.notes.append(f"the rows so far are kept in {copy}")
        if self.manifest != before:
            self.manifest.write(self.path)
        if METRICS in self.problems and not rows:
            if os.path.lexists(self.path / METRICS):
                atomic.set_aside(self.path / METRICS)
            atomic.write(self.path / METRICS, b"")

    def _discard_old_states(self) -> None:
        """Removes states of this run that are not listed: a kill came before an old one was removed, or listed."""
        folder = self.path / STATES
        for entry in os.listdir(folder) if folder.is_dir() else ():
            match = NUMBERED.fullmatch(f"{STATES}/{entry}")
            if match and match[0] not in self.manifest.files:
                with contextlib.suppress(RunError):  # a file that is not a state is not ours
                    state = decode_tensors(read_regular(self.path, match[0]), entry)
                    if not state_problem(state, self.config, len(self.members), int(match[2])):
                        atomic.discard(folder / entry)


def _encoded(step: int, state: Mapping[str, Tensor] | None, checkpoint: Stack | None) -> Iterator[tuple[str, bytes]]:
    """The name and the bytes of each file of a commit."""
    if checkpoint is not None:
        yield numbered(CHECKPOINTS, step), encode_tensors(checkpoint.weights)
    if state is not None:
        yield numbered(STATES, step), encode_tensors(state)


def _holds(folder: Path, name: str, blob: Blob) -> bool:
    """Whether a file has just these bytes."""
    try:
        return blob.problem(read_regular(folder, name, most=blob.size + 1)) is None
    except RunError:
        return False


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
    path: Path, manifest: Manifest, documents: Mapping[str, bytes], seen: Tensor, sources: Mapping[str, str]
) -> list[str]:
    """Refuses a run with other settings; writes its settings and splits again if they were damaged, with a note."""
    if manifest.sources != sources:
        kind = "imported from other files" if manifest.sources else "trained, not imported"
        raise RunError(f"{path} holds a run that was {kind}; choose another --out")
    for folder in (CHECKPOINTS, STATES):
        if (path / folder).is_symlink():
            raise RunError(f"{path / folder} is refused: a run's files are not reached through symbolic links")
    notes = []
    for name, data in documents.items():
        same = manifest.files[name].sha256 == Blob.of(data).sha256
        if same and (problem := committed_problem(path, manifest, name)):
            atomic.write(path / name, data)
            notes.append(f"{problem}; it was written again")
    settings = read_run_document(read_committed(path, manifest, CONFIG))
    if difference := first_difference(settings, read_run_document(documents[CONFIG])):
        field, old, new = difference
        raise RunError(
            f"{path} holds a run with {field} = {old!r}, not {new!r}; "
            "give the same settings to go on with it, or another --out"
        )
    stored = decode_tensors(read_committed(path, manifest, SPLITS), str(path / SPLITS))
    if not torch.equal(stored.get("seen", torch.empty(0)), seen.cpu()):
        raise RunError(f"{path / SPLITS} holds another split of the pairs than this; choose another --out")
    return notes


class Holder(msgspec.Struct):
    """The process that holds a lock, as it stands in the lock file."""

    pid: int
    started: str


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
    """The descriptor of the lock file, locked."""
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
    """The process that holds a lock, as its file says."""
    try:
        holder = msgspec.json.decode(os.pread(fd, 1000, 0), type=Holder)
    except (OSError, msgspec.DecodeError):
        return "another process"
    return f"process {holder.pid} since {holder.started}"
