"""`manifest.json`: what a run has committed, and what it was computed with.

Replacing this file is the one commit point. A file counts only as listed here, with its size and sha256; what is not
listed was never committed.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import subprocess
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec.structs import replace

from assignadd import __version__
from assignadd.config.errors import RunError
from assignadd.runs import atomic
from assignadd.runs.files import CONFIG as CONFIG
from assignadd.runs.files import MANIFEST as MANIFEST
from assignadd.runs.files import MEASURES as MEASURES  # a table made from the checkpoints, which is not committed
from assignadd.runs.files import read_regular

SPLITS, METRICS = "splits.safetensors", "metrics.jsonl"
TASK_TEXT, NETWORK_TEXT = "task.txt", "network.txt"  # the files of a user's task and network, which are never executed
CHECKPOINTS, STATES = "checkpoints", "states"  # folders whose files are named after their step
MOST_OF_MANIFEST = 16 << 20  # bytes; a manifest with 400 checkpoints has 80 thousand
PACKAGE = Path(__file__).resolve().parents[1]

Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 53)]  # whole numbers that every reader of JSON has exactly
Sha256 = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


def file_of_step(folder: str, step: int) -> str:
    """The name in a run folder of the checkpoint or the state of a step, such as `checkpoints/00000100.safetensors`."""
    return f"{folder}/{step:08d}.safetensors"


class Environment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The environment of a process of a run: versions, device and threads, but no name of the machine."""

    python: str
    torch: str
    numpy: str
    assignadd: str | None
    device: str
    threads: int
    commit: str | None
    """The commit of this package's source; ASSIGNADD_COMMIT where git does not know it, as in a copy; or None."""
    dirty: bool | None
    """Whether the package differed from that commit; None where ASSIGNADD_COMMIT names it and nothing was compared."""

    @classmethod
    def here(cls, device: str, threads: int) -> Environment:
        """The environment of this process, which computes on this device."""
        import numpy
        import torch

        kind = torch.device(device).type
        if kind == "cuda":
            model = torch.cuda.get_device_name(device)
        else:  # the instruction set decides how sums are ordered, hence the last bits
            model = f"{platform.machine()}, {torch.backends.cpu.get_cpu_capability()}"
        commit, dirty = source_commit(PACKAGE)
        return cls(
            python=platform.python_version(), torch=str(torch.__version__), numpy=numpy.__version__,
            assignadd=__version__, device=f"{kind} ({model})", threads=threads, commit=commit, dirty=dirty,
        )  # fmt: skip

    def changes(self, since: Environment) -> list[str]:
        """What differs from the environment `since` and may change numbers, such as "threads 1 -> 2", a text each."""
        changes = []
        for name in ("torch", "device", "threads", "assignadd", "commit"):
            before, now = getattr(since, name), getattr(self, name)
            if before != now:
                changes.append(f"{name} {before} -> {now}")
        return changes


class Blob(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The size and the hash of some bytes, by which they are checked when they are read."""

    size: Count
    sha256: Sha256

    @classmethod
    def of(cls, data: bytes) -> Blob:
        """The size and the hash of these bytes."""
        return Blob(len(data), hashlib.sha256(data).hexdigest())

    def problem(self, data: bytes) -> str | None:
        """What is wrong with bytes that should have this size and hash; None where nothing is."""
        if len(data) < self.size:
            return f"is truncated: it has {len(data)} of {self.size} bytes"
        if len(data) > self.size:
            return f"is longer than the {self.size} bytes in the manifest"
        if hashlib.sha256(data).hexdigest() != self.sha256:
            return "is damaged or foreign: its sha256 is not the manifest's"
        return None


EMPTY = Blob.of(b"")


class File(Blob, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A committed file; its name is the key under which the manifest has it."""

    step: Count | None = None
    """The step of a checkpoint or a state."""
    metrics: Blob | None = None
    """For a state, the metrics up to its step, so that training can go on from it with the rows it had."""


class Session(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One process's work on the run, from opening to its last commit."""

    started: str
    from_step: Count
    to_step: Count
    seconds: Annotated[float, msgspec.Meta(ge=0, lt=1e12)]
    environment: Environment


class Observed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A function of the user's whose columns are in the metrics."""

    name: str
    """FILE.py:FUNCTION."""
    source: Sha256
    """The hash of the function's text."""
    file: Sha256 | None
    """The hash of the file; None if the function is defined in a notebook."""
    columns: dict[str, str]
    """What each of its columns means."""


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of `manifest.json`."""

    step: Count
    """The updates that are committed."""
    steps: Count
    """The updates that the settings ask for."""
    finished: bool
    seeds: tuple[int, ...]
    dtype: str
    sources: dict[str, Sha256]
    """The files that the run was imported from, by name; empty if it was trained here."""
    metrics: Blob
    """The committed part of metrics.jsonl."""
    files: dict[str, File]
    """All other committed files, by their names in the run folder."""
    sessions: tuple[Session, ...]
    observed: Observed | msgspec.UnsetType = msgspec.UNSET
    """Not written where there is none."""
    format: Literal[1] = 1
    seal: str = ""
    """The sha256 of the manifest written with an empty seal."""

    def names_by_step(self, folder: str) -> dict[int, str]:
        """The names of all files of `folder`, CHECKPOINTS or STATES, by their steps, in the order of the steps."""
        steps = [file.step for name, file in self.files.items() if name.startswith(folder) and file.step is not None]
        return {step: file_of_step(folder, step) for step in sorted(steps)}

    def at_newest_state(self) -> Manifest:
        """This manifest of an unfinished run as it was at its newest training state; at its creation if it has none."""
        states = self.names_by_step(STATES)
        if not states:
            created = {name: file for name, file in self.files.items() if file.step is None}
            return replace(self, step=0, metrics=EMPTY, files=created)
        step = max(states)
        files = {name: file for name, file in self.files.items() if file.step is None or file.step <= step}
        metrics = files[states[step]].metrics or EMPTY
        return replace(self, step=step, metrics=metrics, files=files)

    def sealed(self) -> bytes:
        """The bytes of the file, with the seal filled in."""
        seal = hashlib.sha256(_encode(replace(self, seal=""))).hexdigest()
        return _encode(replace(self, seal=seal))

    def write(self, folder: Path) -> None:
        """Makes this the manifest of a run folder: the commit."""
        atomic.write(folder / MANIFEST, self.sealed())


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a run folder; a RunError if it is damaged or edited, or cannot be that of a run."""
    data = read_regular(folder, MANIFEST, most=MOST_OF_MANIFEST)
    try:
        manifest = msgspec.json.decode(data, type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RunError(f"{folder / MANIFEST} is damaged, foreign or of another version: {error}") from error
    if manifest.sealed() != data:
        raise RunError(f"{folder / MANIFEST} is damaged or was edited: its seal does not fit")
    if problem := _contradiction(manifest):
        raise RunError(f"{folder / MANIFEST} {problem}")
    return replace(manifest, seal="")  # as manifests are in memory: `sealed` fills it in


def _encode(manifest: Manifest) -> bytes:
    """The bytes of a manifest as JSON, with the seal that it has."""
    return msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"


def _contradiction(manifest: Manifest) -> str | None:
    """Why a manifest cannot be that of a run; None where it can be."""
    for name, file in manifest.files.items():
        if name in (CONFIG, SPLITS, TASK_TEXT, NETWORK_TEXT):
            continue
        folder = name.partition("/")[0]
        if folder not in (CHECKPOINTS, STATES) or file.step is None or name != file_of_step(folder, file.step):
            return f"lists {name!r} for step {file.step}, which is not a file of a run"
        # A state has the metrics up to its step: the run's are the same rows, or more.
        size_at_state = file.metrics.size if file.metrics else 0
        if file.step > manifest.step or size_at_state > manifest.metrics.size:
            return f"lists {name!r}, which is from after the run's step {manifest.step}"
    missing = {CONFIG, SPLITS} - manifest.files.keys()
    return f"does not list {min(missing)}" if missing else None


def source_commit(folder: Path) -> tuple[str | None, bool | None]:
    """The commit that Git has checked out in `folder`, and whether files of the folder differ from it.

    Where Git does not track the folder, as in a copy: the commit in the variable ASSIGNADD_COMMIT and None, as nothing
    is compared; without that variable, None and False.
    """
    is_tracked = _git(folder, "ls-files", "--", ".") != ""
    commit = _git(folder, "rev-parse", "HEAD").strip() if is_tracked else ""
    if commit:
        return commit, _git(folder, "status", "--porcelain", "--", ".") != ""
    commit_of_copy = os.environ.get("ASSIGNADD_COMMIT")
    differs = None if commit_of_copy else False
    return commit_of_copy, differs


def _git(folder: Path, *arguments: str) -> str:
    """The output of a Git command in this folder; "" if it fails."""
    # Git's own variables, set inside its hooks, would point it at another repository.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment["GIT_OPTIONAL_LOCKS"] = "0"  # `git status` shall write nothing
    return _output(["git", "-C", str(folder), *arguments], environment)


def _output(command: list[str], environment: dict[str, str]) -> str:
    """The output of a command; "" if it fails."""
    try:
        process = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return process.stdout


def cpu_model() -> str:
    """The model of this machine's processor, such as "Neoverse-N1"; its instruction set where the model is unknown."""
    match = re.search(r"^Model name: *(.+?) *$", _output(["lscpu"], {"LC_ALL": "C"}), re.MULTILINE)
    return match[1] if match else platform.processor() or platform.machine()
