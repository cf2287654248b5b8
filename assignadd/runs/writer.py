"""Writing a run: open it, new or where it was left, and commit. A reader sees it before or after a commit only.

A commit writes its files, appends its rows, and then replaces the manifest; until that last step the run is what it was
before. Opening brings an unfinished run back to its newest training state: what came after it is made again by the
training that follows. Where that state or the rows up to it are damaged, the run is refused and nothing is changed.

One process at a time writes: a kernel lock ends with its process, however that ends.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
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
from assignadd.runs.encoding import decode_tensors, encode_tensors
from assignadd.runs.files import MARK, claim_folder, read_regular
from assignadd.runs.folder import Run
from assignadd.runs.manifest import (
    CHECKPOINTS,
    CONFIG,
    EMPTY,
    MANIFEST,
    METRICS,
    NETWORK_TEXT,
    SPLITS,
    STATES,
    TASK_TEXT,
    Blob,
    Environment,
    File,
    Manifest,
    Observed,
    Session,
    file_of_step,
    read_manifest,
)
from assignadd.user_file import registered

LOCK = "lock"


class Writer(Run):
    """A run held for writing, by `Writer.hold`."""

    notes: list[str]
    """Of a finished run, a line per damaged file; the run is left unchanged. Of an unfinished one, lines on what may
    change its last bits, and on files that were moved aside."""

    def __init__(self, path: Path, environment: Environment):
        """Brings an unfinished run back to its newest training state, and verifies a finished one."""
        super().__init__(path)
        self._environment = environment
        self._started = datetime.now(UTC).isoformat(timespec="seconds")
        self._started_clock = time.monotonic()
        self._earlier_sessions = self.manifest.sessions
        # Going back to a state takes later checkpoints off the list; their files stay until new ones replace them.
        self._sha256_at_opening = {name: file.sha256 for name, file in self.manifest.files.items()}
        if self.finished:
            self.notes = self.verify()
        else:
            self.notes = self._changes_of_environment()
            self._return_to_newest_state()
            self._digest = self._digest_of_metrics()
        self._from_step = self.manifest.step
        self._discard_unlisted_states()

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
        observed: Observed | None = None,
    ) -> Iterator[Writer]:
        """A new run, or the existing run with these settings at `path`, locked against other writers.

        `sources` (name -> sha256) are the files an imported run comes from, `observed` is the user's function whose
        columns its metrics have.
        """
        path = Path(path)
        sources = sources or {}
        documents = _documents(config, members, seen)
        _claim(path)
        with locked(path):
            atomic.discard_leftovers(path)
            if not (path / MANIFEST).exists():
                _create(path, documents, sources, observed)
            atomic.discard(path / MARK)  # the manifest says what the folder is
            run = Run.open(path)
            _check_same(run, read_run_document(documents[CONFIG]), seen, sources)
            check_observed(run, observed)
            yield cls(path, environment)

    def commit(
        self,
        step: int,
        *,
        state: Mapping[str, Tensor] | None = None,
        checkpoint: Stack | None = None,
        rows: Sequence[Mapping[str, Any]] = (),
        finished: bool = False,
    ) -> None:
        """Saves the state, the checkpoint and the new `rows` of the metrics as of `step`, or nothing."""
        if self.finished or not self.manifest.step <= step <= self.manifest.steps:
            raise ValueError(f"a commit at step {step} in a run at step {self.manifest.step} of {self.manifest.steps}")
        tensors_of_file: dict[str, Mapping[str, Tensor]] = {}
        if checkpoint is not None:
            tensors_of_file[file_of_step(CHECKPOINTS, step)] = checkpoint.weights
        if state is not None:
            tensors_of_file[file_of_step(STATES, step)] = state
        try:
            files = dict(self.manifest.files)
            for name, tensors in tensors_of_file.items():
                files[name] = self._save(name, step, encode_tensors(tensors))
            metrics, digest = self._append(rows)
            seconds = round(time.monotonic() - self._started_clock, 3)
            session = Session(self._started, self._from_step, step, seconds, self._environment)
            manifest = replace(
                self.manifest,
                step=step,
                finished=finished,
                metrics=metrics,
                files=self._files_to_list(files, step, metrics),
                sessions=(*self._earlier_sessions, session),
            )
            manifest.write(self.path)
        except Exception:
            with contextlib.suppress(RunError):
                self._undo(tensors_of_file.keys())
            raise
        self._continue_with(manifest)
        self._digest = digest

    def _append(self, rows: Iterable[Mapping[str, Any]]) -> tuple[Blob, hashlib._Hash]:
        """Appends rows to the metrics; returns the size and hash of all rows, and the hash object for further rows."""
        lines = msgspec.json.Encoder().encode_lines(rows)
        committed_size = self.manifest.metrics.size
        if lines:
            atomic.append(self.path / METRICS, committed_size, lines)
        digest = self._digest.copy()
        digest.update(lines)
        return Blob(committed_size + len(lines), digest.hexdigest()), digest

    def _save(self, name: str, step: int, data: bytes) -> File:
        """Writes the file `name` unless it is committed already, and returns its entry for the manifest.

        A file at its place that this run did not write is renamed.
        """
        blob = Blob.of(data)
        committed = self.manifest.files.get(name)
        path = self.path / name
        if committed is None:
            if not (self.path / LOCK).exists():
                raise RunError(f"{self.path} was moved or removed while it was written; nothing was changed")
            atomic.make_directory(path.parent)
            if os.path.lexists(path) and not self._is_ours(name, blob):
                aside = atomic.move_aside(path)
                self.notes.append(f"{path} was not written by this run, and is now {aside.name}")
            atomic.write(path, data)
        elif committed.sha256 != blob.sha256:
            raise RunError(f"{path} is committed already, with other contents")
        return File(blob.size, blob.sha256, step)

    def _is_ours(self, name: str, blob: Blob) -> bool:
        """Whether what stands at `name` has these bytes, or those that the run had there when it was opened."""
        try:
            data = read_regular(self.path, name, most=self._most_bytes(name))
        except RunError:  # a folder, a link, or a file that is too large for this run
            return False
        return hashlib.sha256(data).hexdigest() in (blob.sha256, self._sha256_at_opening.get(name))

    def _files_to_list(self, files: dict[str, File], step: int, metrics: Blob) -> dict[str, File]:
        """Those of `files` that the manifest of a commit at `step` lists: all but older states.

        The newest state stays, and one each `state_every` steps. A state of this step gets `metrics`, the size and hash
        of the rows so far.
        """
        # `file.step` is None for files that have no step, and so never for a state.
        step_of_state = {name: file.step or 0 for name, file in files.items() if name.startswith(STATES)}
        newest_step = max(step_of_state.values(), default=0)
        listed = {}
        for name, file in files.items():
            state_step = step_of_state.get(name)  # None for other files
            if state_step is None or state_step == newest_step or state_step % self.config.record.state_every == 0:
                listed[name] = replace(file, metrics=metrics) if state_step == step else file
        return listed

    def _continue_with(self, manifest: Manifest) -> None:
        """Takes over a manifest that is on disk, and removes the files that the earlier manifest alone lists."""
        outdated = self.manifest.files.keys() - manifest.files.keys()
        self.manifest = manifest
        for name in outdated:
            atomic.discard(self.path / name)

    def _undo(self, names: Iterable[str]) -> None:
        """After a failed commit of these files: goes back to what the manifest on disk says."""
        self._continue_with(read_manifest(self.path))
        for name in names:
            if name not in self.manifest.files:
                atomic.discard(self.path / name)
        atomic.append(self.path / METRICS, self.manifest.metrics.size, b"")  # cuts off rows that are not committed
        self._digest = self._digest_of_metrics()

    def _digest_of_metrics(self) -> hashlib._Hash:
        """The hash object (sha256) of the committed rows, to which the rows of the next commit are added."""
        return hashlib.sha256(self.committed(METRICS))

    def _changes_of_environment(self) -> list[str]:
        """A line that says what differs from the environment of the last session, in a list; [] if nothing does."""
        sessions = self.manifest.sessions
        changes = self._environment.changes(sessions[-1].environment) if sessions else []
        if not changes:
            return []
        is_other_version = any(change.startswith(("assignadd", "commit")) for change in changes)
        of_version = " and measures" if is_other_version else ""
        return [f"going on with {', '.join(changes)}: the last bits{of_version} may differ from an uninterrupted run"]

    def _return_to_newest_state(self) -> None:
        """Makes the newest training state the last commit; refuses a run in which it, or a row, is damaged."""
        try:
            self.latest_state()  # raises the error if the state is damaged
            self.metrics()
        except RunError as error:
            raise RunError(f"{error}; move {self.path} away to train its models again") from error
        at_newest_state = self.manifest.at_newest_state()
        if self.manifest != at_newest_state:
            self.manifest = at_newest_state
            self.manifest.write(self.path)

    def _discard_unlisted_states(self) -> None:
        """Removes files of states that the manifest does not list.

        A commit was killed before it listed a new one, or before it removed an old one. A file that cannot be read, or
        that has no step or another than its name says, is not ours, and stays.
        """
        for path in (self.path / STATES).glob("*.safetensors"):
            name = f"{STATES}/{path.name}"
            if name not in self.manifest.files:
                with contextlib.suppress(RunError):
                    data = read_regular(self.path, name, most=self._most_bytes(name))
                    step = decode_tensors(data, name).get("step", torch.empty(0)).tolist()  # [] if it has none
                    if str(step).zfill(8) == path.stem:
                        atomic.discard(path)


def _claim(path: Path) -> None:
    """Marks a folder for a new run; leaves a run that is there unchanged.

    Raises an error, and writes nothing, for a link, a damaged run, or a folder that holds anything else.
    """
    if path.is_symlink():
        raise RunError(f"{path} is a symbolic link, which is not written through; give the folder itself")
    if not (path / MANIFEST).exists():
        return claim_folder(path, "run")
    try:
        read_manifest(path)
    except RunError as error:
        raise RunError(f"{error}; choose another --out, or move {path} away to train its models again") from error


def _documents(config: Config, members: Sequence[Member], seen: Tensor) -> dict[str, bytes]:
    """The files of a run that never change, by their names."""
    documents = {CONFIG: run_document(config, members), SPLITS: encode_tensors({"seen": seen})}
    for name, file in ((TASK_TEXT, config.task.file), (NETWORK_TEXT, config.model.file)):
        if file is not None:
            _, source = registered(file)
            documents[name] = source.text
    return documents


def _create(path: Path, documents: Mapping[str, bytes], sources: Mapping[str, str], observed: Observed | None) -> None:
    """Writes the first commit of a run: the files that never change, no metrics and the manifest."""
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
        observed=observed or msgspec.UNSET,
    ).write(path)


def _check_same(run: Run, settings: tuple[Config, Sequence[Member]], seen: Tensor, sources: Mapping[str, str]) -> None:
    """Raises a RunError if a run has other settings, sources or another split than these, or folders that are links."""
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


def check_observed(run: Run, observed: Observed | None) -> None:
    """Raises a RunError unless `observed` is the function of the user's whose columns the run has, or both are None."""
    before = run.observed
    if before is None and observed is None:
        return
    if before and observed and (before.name, before.source) == (observed.name, observed.source):
        return
    if before:
        difference, remedy = f"with the columns of {before.name}", f"give --observe {before.name} as it was then"
    else:
        difference, remedy = "without columns of a function of yours", "leave --observe out"
    raise RunError(f"{run.path} holds a run {difference}; {remedy} to go on with it, or give another --out")


# Descriptors of the lock files that this process has locked.
_locked_descriptors: set[int] = set()


def _close_inherited_locks() -> None:
    """In a forked child: closes its copies of the parent's locks, which would otherwise last until the child ends."""
    for fd in _locked_descriptors:
        os.close(fd)
    _locked_descriptors.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_inherited_locks)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """A context in which this process alone may write into the folder; a RunBusy if another process holds the lock.

    The lock file stays when the lock is released: if it was removed, two processes could lock two files of one name.
    """
    file = folder / LOCK
    try:
        fd = os.open(file, os.O_RDWR | os.O_CREAT | atomic.NOT_A_LINK, 0o666)
    except OSError as error:
        raise RunError(f"{file} could not be opened: {atomic.reason(error)}") from error
    _locked_descriptors.add(fd)
    try:
        _lock(fd, file)
        yield
    finally:
        if fd in _locked_descriptors:  # not in a forked child
            _locked_descriptors.remove(fd)
            with contextlib.suppress(OSError):
                os.ftruncate(fd, 0)  # the name of the machine does not stay in the run
            os.close(fd)


def _lock(fd: int, file: Path) -> None:
    """Locks the open lock file and writes the number of this process and the name of its machine into it."""
    try:
        is_locked = atomic.lock(fd)
    except OSError as error:
        reason = f"its file system has no locks ({atomic.reason(error)})"
        raise RunError(f"{file} could not be locked: {reason}; choose --out on one that has") from error
    try:
        if not is_locked:
            raise RunBusy(f"{file.parent} is being written by {_holder(fd)}; wait until it ends, or stop it")
        os.ftruncate(fd, 0)
        os.write(fd, f"process {os.getpid()} on {platform.node()}".encode())
    except OSError as error:
        raise RunError(f"{file} could not be locked: {atomic.reason(error)}") from error


def _holder(fd: int) -> str:
    """The process that a lock file names; "another process" if the file cannot be read, as on Windows."""
    try:
        text = os.read(fd, 300).decode()
    except (OSError, UnicodeDecodeError):
        text = ""
    return printable(text) if text.startswith("process ") else "another process"
