"""`manifest.json`: what a run has committed. Replacing this file is the one commit point.

A file counts only as listed here, with its size and sha256; what is not listed was never committed.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
from msgspec.structs import replace

from assignadd.config.errors import RunError
from assignadd.runs import atomic
from assignadd.runs.environment import Environment
from assignadd.runs.files import CONFIG as CONFIG
from assignadd.runs.files import MANIFEST as MANIFEST
from assignadd.runs.files import MEASURES as MEASURES  # a table made from the checkpoints, which is not committed
from assignadd.runs.files import read_regular

SPLITS, METRICS = "splits.safetensors", "metrics.jsonl"
CHECKPOINTS: Final = "checkpoints"
STATES: Final = "states"
FORMAT = 1
Numbered = Literal["checkpoints", "states"]
NUMBERED = re.compile(rf"({CHECKPOINTS}|{STATES})/(\d{{8,}})\.safetensors", re.ASCII)

Count = Annotated[int, msgspec.Meta(ge=0)]
Sha256 = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


def numbered(folder: Numbered, step: int) -> str:
    """The name of a checkpoint or state: `checkpoints/00000100.safetensors`."""
    return f"{folder}/{step:08d}.safetensors"


class Blob(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    size: Count
    sha256: Sha256

    @classmethod
    def of(cls, data: bytes) -> Blob:
        return Blob(len(data), hashlib.sha256(data).hexdigest())

    def problem(self, data: bytes) -> str | None:
        """What is wrong with bytes that should be these."""
        if len(data) < self.size:
            return f"is truncated: it has {len(data)} of {self.size} bytes"
        if len(data) > self.size:
            return f"is longer than the {self.size} bytes in the manifest"
        if hashlib.sha256(data).hexdigest() != self.sha256:
            return "is damaged or foreign: its sha256 is not the manifest's"
        return None


EMPTY = Blob.of(b"")


class File(Blob, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    step: Count | None = None
    metrics: Blob | None = None
    """Of a state: the metrics up to its step, so that training can go on from it with the rows it had."""


class Session(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One process's work on the run, from opening to its last commit."""

    started: str
    from_step: Count
    to_step: Count
    seconds: float
    environment: Environment


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    step: Count
    steps: Count
    finished: bool
    seeds: tuple[int, ...]
    dtype: str
    sources: dict[str, Sha256]
    """Files the run was imported from; empty when it was trained here."""
    metrics: Blob
    files: dict[str, File]
    sessions: tuple[Session, ...]
    format: int = FORMAT
    seal: str = ""
    """The sha256 of the manifest written with an empty seal."""

    def numbered(self, folder: Numbered) -> dict[int, str]:
        """Step -> name of the checkpoints or states, by step."""
        steps = sorted(f.step for name, f in self.files.items() if name.startswith(folder) and f.step is not None)
        return {step: numbered(folder, step) for step in steps}

    def until(self, state: int | None) -> Manifest:
        """The manifest as of a committed state; None: as of the beginning."""
        if state is None:
            first = {name: f for name, f in self.files.items() if f.step is None}
            return replace(self, step=0, finished=False, metrics=EMPTY, files=first)
        files = {name: f for name, f in self.files.items() if f.step is None or f.step <= state}
        metrics = files[numbered("states", state)].metrics or EMPTY
        return replace(self, step=state, finished=self.finished and state == self.step, metrics=metrics, files=files)

    def sealed(self) -> bytes:
        seal = hashlib.sha256(_encode(replace(self, seal=""))).hexdigest()
        return _encode(replace(self, seal=seal))

    def write(self, folder: Path) -> None:
        atomic.write(folder / MANIFEST, self.sealed())


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a run folder; one that is damaged, edited or points outside the folder is refused."""
    data, where = read_regular(folder, MANIFEST), folder / MANIFEST
    try:
        if (version := msgspec.json.decode(data, type=_Versioned).format) != FORMAT:
            raise RunError(f"{where} has format {version}; this assignadd reads format {FORMAT}")
        manifest = msgspec.json.decode(data, type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RunError(f"{where} is damaged or foreign: {error}") from error
    if manifest.sealed() != data:
        raise RunError(f"{where} is damaged or was edited: its seal does not fit")
    if problem := _problem(manifest):
        raise RunError(f"{where} {problem}")
    return replace(manifest, seal="")


def committed_problem(folder: Path, manifest: Manifest, name: str) -> str | None:
    """What is wrong with a committed file."""
    try:
        read_committed(folder, manifest, name)
    except RunError as error:
        return str(error)
    return None


def read_committed(folder: Path, manifest: Manifest, name: str) -> bytes:
    """The bytes of a committed file, or an error that names it."""
    file = manifest.files[name]
    data = read_regular(folder, name, most=file.size + 1)
    if problem := file.problem(data):
        raise RunError(f"{folder / name} {problem}")
    return data


class _Versioned(msgspec.Struct):
    format: int


def _problem(manifest: Manifest) -> str | None:
    """Why a manifest cannot be that of a run: it lists a file that is none, at another or a later step, or too few."""
    for name, file in manifest.files.items():
        if name not in (CONFIG, SPLITS) and not NUMBERED.fullmatch(name):
            return f"lists {name!r}, which is not a file of a run"
        if (match := NUMBERED.fullmatch(name)) and (file.step is None or numbered(match[1], file.step) != name):  # type: ignore[arg-type]
            return f"lists {name!r} for step {file.step}"
        if (file.step or 0) > manifest.step or (file.metrics or EMPTY).size > manifest.metrics.size:
            return f"lists {name!r} beyond the run's step {manifest.step}"
    missing = [name for name in (CONFIG, SPLITS) if name not in manifest.files]
    return f"does not list {missing[0]}" if missing else None


def _encode(manifest: Manifest) -> bytes:
    return msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"
