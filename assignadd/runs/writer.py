"""Writing a run: open it, new or where it was left, and commit. A reader sees it before or after a commit only.

A commit writes its files, appends its rows, and then replaces the manifest; until that last step the run is what it was
before. Opening brings the folder back to the manifest, and the manifest back to the newest intact state: what came
after that state is made again by the training that follows.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from jaxtyping import Bool
from msgspec.structs import replace
from torch import Tensor

from assignadd.config import Config, Member
from assignadd.config.errors import RunError
from assignadd.model.stack import Stack
from assignadd.runs import atomic
from assignadd.runs.config_json import run_document
from assignadd.runs.create_or_resume import TEMPORARY, create, file_problem, locked, refuse_foreign, resume
from assignadd.runs.environment import Environment
from assignadd.runs.files import read_regular
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
from assignadd.runs.tensors import encode_tensors


class Writer(Run):
    """A run held for writing.

    `notes` says what was found damaged at opening and how it was repaired. `damaged` names the files up to the present
    step that are damaged: they are refused until `mend` puts them back.
    """

    def __init__(
        self, path: Path, config: Config, members: Sequence[Member], environment: Environment, notes: Iterable[str] = ()
    ):
        super().__init__(path, read_manifest(path), config, members)
        self.notes = list(notes)
        self.damaged: set[str] = set()
        self._environment = environment
        self._started, self._clock = datetime.now(UTC).isoformat(timespec="seconds"), time.monotonic()
        self._digest = hashlib.sha256()  # of the committed metrics
        self._recover()
        self._settle()
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
        atomic.make_directory(path)
        with locked(path):
            if not (path / MANIFEST).exists():
                create(path, documents, sources)
            notes = resume(path, read_manifest(path), documents, seen, sources)
            yield cls(path, config, members, environment, notes)

    @property
    def damaged_steps(self) -> list[int]:
        """The steps to replay and `mend`."""
        return sorted({self.manifest.files[name].step or 0 for name in self.damaged})

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
        try:
            saved = {name: self._save(name, step, data) for name, data in _encoded(step, state, checkpoint)}
            lines = b"".join(msgspec.json.encode(row) + b"\n" for row in rows)
            digest = self._digest.copy()
            digest.update(lines)
            metrics = Blob(self.manifest.metrics.size + len(lines), digest.hexdigest())
            if lines:
                atomic.append(self.path / METRICS, self.manifest.metrics.size, lines)
            files = self._kept(step, self.manifest.files | saved, metrics)
            after = replace(
                self.manifest, step=step, finished=finished, metrics=metrics, files=files, sessions=self._sessions(step)
            )
            after.write(self.path)
        except Exception:  # also one of whoever makes the rows
            with contextlib.suppress(RunError):
                self._settle()
            raise
        before, self.manifest, self._digest = self.manifest, after, digest
        self.damaged &= after.files.keys()
        for name in before.files.keys() - after.files.keys():
            atomic.discard(self.path / name)

    def mend(self, step: int, *, state: Mapping[str, Tensor] | None = None, checkpoint: Stack | None = None) -> None:
        """Write damaged files of an earlier step again; only the same bytes as those committed are accepted."""
        for name, data in _encoded(step, state, checkpoint):
            if name in self.damaged:
                if self.manifest.files[name].problem(data):
                    raise RunError(
                        f"{self.path / name} is damaged, and does not come out bitwise the same here; it stays refused"
                    )
                atomic.write(self.path / name, data)
                self.damaged.remove(name)

    def _save(self, name: str, step: int, data: bytes) -> File:
        blob, committed = Blob.of(data), self.manifest.files.get(name)
        if committed is None:
            atomic.make_directory((self.path / name).parent)
            atomic.write(self.path / name, data)
        elif committed.sha256 != blob.sha256:
            raise RunError(f"{self.path / name} is committed already, with other contents")
        return File(blob.size, blob.sha256, step)

    def _kept(self, step: int, files: dict[str, File], metrics: Blob) -> dict[str, File]:
        """The files to keep; of states the newest and multiples of `state_every`. This step's has the metrics' hash."""
        states = {name: f.step or 0 for name, f in files.items() if name.startswith(STATES)}
        newest, every = max(states.values(), default=0), self.config.record.state_every
        kept = {
            name: f
            for name, f in files.items()
            if name not in states or states[name] == newest or states[name] % every == 0
        }
        name = numbered(STATES, step)
        return kept | ({name: replace(kept[name], metrics=metrics)} if name in kept else {})

    def _sessions(self, step: int) -> tuple[Session, ...]:
        seconds = round(time.monotonic() - self._clock, 3)
        return (*self._earlier, Session(self._started, self._from_step, step, seconds, self._environment))

    def _recover(self) -> None:
        """Goes back to the newest state that is intact and has intact metrics; what was committed up to it stays."""
        bad = {
            name: problem for name in self.manifest.files if (problem := file_problem(self.path, self.manifest, name))
        }
        rows, problem = self._committed_rows()
        if problem:
            bad[METRICS] = problem
        if bad or not self.finished:
            marks = {
                step: self.manifest.files[name].metrics or EMPTY
                for step, name in self.manifest.numbered(STATES).items()
            }
            sound = [
                step for step, m in marks.items() if numbered(STATES, step) not in bad and not m.problem(rows[: m.size])
            ]
            back = self.manifest.until(sound[-1] if sound else None)
            self.notes += bad.values()
            if bad.keys() - back.files.keys():
                self.notes.append(f"{self.path} goes on from step {back.step}, its newest intact state")
            if back != self.manifest:
                back.write(self.path)
            self.damaged = bad.keys() & back.files.keys()

    def _committed_rows(self) -> tuple[bytes, str | None]:
        """The metrics, and what is wrong with them; unreadable ones are begun again."""
        try:
            rows = read_regular(self.path, METRICS, most=self.manifest.metrics.size)
        except RunError as error:
            atomic.write(self.path / METRICS, b"")
            return b"", str(error)
        problem = self.manifest.metrics.problem(rows)
        return rows, problem and f"{self.path / METRICS} {problem}"

    def _settle(self) -> None:
        """Bring the folder and this object back to the manifest on disk, which alone decides what is committed."""
        self.manifest = read_manifest(self.path)
        for name in _strays(self.path, self.manifest):
            (atomic.discard_leftover if name.endswith(".tmp") else atomic.discard)(self.path / name)
        size = self.manifest.metrics.size
        atomic.append(self.path / METRICS, size, b"")
        self._digest = hashlib.sha256(read_regular(self.path, METRICS, most=size))


def _encoded(step: int, state: Mapping[str, Tensor] | None, checkpoint: Stack | None) -> Iterator[tuple[str, bytes]]:
    if checkpoint is not None:
        yield numbered(CHECKPOINTS, step), encode_tensors(checkpoint.weights)
    if state is not None:
        yield numbered(STATES, step), encode_tensors(state)


def _strays(path: Path, manifest: Manifest) -> Iterator[str]:
    """Files of ours that were never committed, or no longer are."""
    for folder in ("", f"{CHECKPOINTS}/", f"{STATES}/"):
        for entry in os.listdir(path / folder) if (path / folder).is_dir() else ():
            name = folder + entry
            if TEMPORARY.fullmatch(entry) or (NUMBERED.fullmatch(name) and name not in manifest.files):
                yield name
