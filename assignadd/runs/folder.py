"""A run: a stack of models in one folder, as it was last committed.

    config.json            the settings, and for each model its seed and own settings
    splits.safetensors     `seen` (M, N, N): which pairs of numbers each model trains on (an axis for each operand)
    metrics.jsonl          a row per model and evaluation; append-only, no clock in it
    checkpoints/00000100.safetensors   weights by the field's names, with a leading axis M
    states/00001000.safetensors        what training needs to go on from here, bitwise
    manifest.json          what is committed (`manifest`)

This class only reads; `writer` writes. Every file is checked against the manifest when it is read.
"""

from __future__ import annotations

import bisect
import hashlib
import math
import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from assignadd.config import Config, ConfigError, Member
from assignadd.config.errors import RunError, printable
from assignadd.runs.config_json import parse, read_run_document, run_document
from assignadd.runs.files import read_regular
from assignadd.runs.manifest import (
    CHECKPOINTS,
    CONFIG,
    MANIFEST,
    MEASURES,
    METRICS,
    SPLITS,
    STATES,
    Manifest,
    read_committed,
    read_manifest,
)
from assignadd.runs.tables import unsealed_file

if TYPE_CHECKING:  # torch is loaded with the first tensor: what a run is can be read without it
    from jaxtyping import Bool
    from torch import Tensor

    from assignadd.model.stack import Stack

# The runs that come with the package, each under its name.
NETWORKS = Path(__file__).parents[1] / "networks"


class Run:
    def __init__(self, path: Path, manifest: Manifest, config: Config, members: Sequence[Member]):
        self.path = path
        self.manifest = manifest
        self.config = config
        self.members = tuple(members)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Run:
        """A run to read from."""
        path = Path(path)
        if not (path / MANIFEST).exists():
            raise RunError(f"no run at {path}; `assignadd runs list` shows what there is")
        manifest = read_manifest(path)
        config, members = read_settings(path, manifest)
        if manifest.seeds != tuple(m.seed for m in members) or manifest.dtype != config.numerics.dtype:
            raise RunError(f"{path / MANIFEST} has other seeds or another dtype than {path / CONFIG}")
        return cls(path, manifest, config, members)

    @property
    def name(self) -> str:
        """The folder's name, as it can be shown."""
        return printable(Path(os.path.abspath(self.path)).name)

    @property
    def configs(self) -> list[Config]:
        """Each model's own configuration, its seeds filled in."""
        return [member.config(self.config) for member in self.members]

    @property
    def step(self) -> int:
        return self.manifest.step

    @property
    def finished(self) -> bool:
        return self.manifest.finished

    @property
    def wall_seconds(self) -> float:
        return sum(session.seconds for session in self.manifest.sessions)

    @property
    def document(self) -> dict[str, Any]:
        """The settings as they stand in `config.json`."""
        return parse(run_document(self.config, self.members), CONFIG)

    @property
    def provenance(self) -> dict[str, Any]:
        """What the run was made with (last), and from which files if it was imported."""
        last = [msgspec.to_builtins(session.environment) for session in self.manifest.sessions[-1:]]
        made = {"sessions": len(self.manifest.sessions), "dtype": self.manifest.dtype, "sources": self.manifest.sources}
        return (last[0] if last else {}) | made

    def index_of(self, seed: int | None) -> int:
        """Which model of the stack has this seed; the first for None."""
        seeds = self.manifest.seeds
        if seed is not None and seed not in seeds:
            raise RunError(f"run {self.name} has no seed {seed}; it has {', '.join(map(str, seeds))}")
        return 0 if seed is None else seeds.index(seed)

    @property
    def diverged_at(self) -> list[int | None]:
        """For each model, the step before which its loss was no longer finite, as of the last evaluation."""
        last = self.metrics()[-len(self.members) :]
        return [row.get("diverged_at") for row in last] or [None] * len(self.members)

    @property
    def steps(self) -> list[int]:
        """The steps that have a checkpoint."""
        return list(self.manifest.numbered(CHECKPOINTS))

    @property
    def fingerprint(self) -> str:
        """A hash of all checkpoints; measures stored with another hash are not of this run."""
        hashes = (self.manifest.files[name].sha256 for name in self.manifest.numbered(CHECKPOINTS).values())
        return hashlib.sha256("".join(hashes).encode()).hexdigest()

    @cached_property
    def seen(self) -> Bool[Tensor, "M ..."]:
        return self._seen()

    def _seen(self) -> Tensor:
        loaded = self._tensors(SPLITS)
        shape = (len(self.members), *self.config.task.tuples)
        if list(loaded) != ["seen"] or str(loaded["seen"].dtype) != "torch.bool" or loaded["seen"].shape != shape:
            raise RunError(f"{self.path / SPLITS} does not hold a bool tensor `seen` of shape {shape}")
        return loaded["seen"]

    def checkpoint(self, step: int) -> Stack:
        """The weights after `step` updates."""
        from assignadd.runs.tensors import stack_of

        name = self.manifest.numbered(CHECKPOINTS).get(step)
        if name is None:
            raise RunError(self._absent(step))
        return stack_of(self.config, self._tensors(name), len(self.members), str(self.path / name))

    def _absent(self, step: int) -> str:
        """What to say of a step that has no checkpoint."""
        at = bisect.bisect(self.steps, step)
        near = self.steps[max(at - 1, 0) : at + 1]
        if not near:
            return f"run {self.name} has no checkpoints yet; train it on"
        closest = min(near, key=lambda s: (abs(s - step), -s))
        listed = f"nearest are {near[0]} and {near[1]}" if len(near) == 2 else f"nearest is {near[0]}"
        says = f"run {self.name} has no checkpoint at step {step}; {listed}. Pass --step {closest}"
        if self.manifest.sources or not 0 <= step <= self.step:
            return f"{says}."
        return f"{says}, or train with --record.checkpoint-every {math.gcd(step, self.config.record.checkpoint_every)}."

    def checkpoint_sha256(self, step: int) -> str:
        """The sha256 of the file of a checkpoint that there is."""
        return self.manifest.files[self.manifest.numbered(CHECKPOINTS)[step]].sha256

    def at(self, step: int | None = None) -> tuple[int, Stack, list[str]]:
        """The checkpoint at a step, or the newest intact one, with a note for every damaged one passed over."""
        return self.newest_checkpoint() if step is None else (step, self.checkpoint(step), [])

    def unsound(self, step: int, stack: Stack) -> dict[int, str]:
        """Which models of a checkpoint cannot be measured, and why: they had diverged, or have weights not finite."""
        try:
            diverged = self.diverged_at
        except RunError:  # damaged metrics: the weights alone have to tell
            diverged = [None] * len(self.members)
        found, finite = {}, stack.flat.isfinite().all(1).tolist()
        for i, (seed, end) in enumerate(zip(self.manifest.seeds, diverged, strict=True)):
            if end is not None and end <= step:
                before = [s for s in self.steps if s < end]
                earlier = f"; --step {before[-1]} is from before that" if before else ""
                found[i] = f"seed {seed} of {self.name} diverged at step {end}: its loss was not finite{earlier}"
            elif not finite[i]:
                found[i] = f"seed {seed} of {self.name} has weights at step {step} that are not finite"
        return found

    def model_at(self, step: int | None, index: int) -> tuple[int, Stack, list[str]]:
        """As `at`, for one model, which is refused if it has diverged."""
        at, stack, notes = self.at(step)
        if index in (unsound := self.unsound(at, stack)):
            raise RunError(unsound[index])
        return at, stack.models(index), notes

    def newest_checkpoint(self) -> tuple[int, Stack, list[str]]:
        """The last checkpoint that is intact: its step, its weights, and a note for every later one that is not."""
        notes: list[str] = []
        for step in reversed(self.steps):
            try:
                return step, self.checkpoint(step), notes
            except RunError as error:
                notes.append(str(error))
        raise RunError(notes[-1] if notes else f"run {self.name} has no checkpoints yet; train it on")

    def trajectory(self, steps: Sequence[int] | None = None, model: int = 0) -> Stack:
        """One model over training: the stack of its checkpoints at these steps (default: all)."""
        from assignadd.model.stack import concatenate

        if not 0 <= model < len(self.members):
            raise RunError(f"run {self.name} has no model {model}; it has {len(self.members)}, counted from 0")
        steps = self.steps if steps is None else steps
        if not steps:
            raise RunError(f"run {self.name} has no checkpoints yet; train it on")
        return concatenate([self.checkpoint(step).models(model).clone() for step in steps])

    def latest_state(self, at_most: int | None = None) -> dict[str, Tensor] | None:
        """The newest intact training state (no later than step `at_most`), or None where there is none."""
        for step, name in reversed(self.manifest.numbered(STATES).items()):
            if at_most is None or step <= at_most:
                try:
                    return self._state(name)
                except RunError:
                    continue
        return None

    def metrics(self) -> list[dict[str, Any]]:
        """A row per model and evaluation, in the order they were committed."""
        blob = self.manifest.metrics
        data = read_regular(self.path, METRICS, most=blob.size)
        if problem := blob.problem(data):
            raise RunError(f"{self.path / METRICS} {problem}")
        try:
            return msgspec.json.Decoder(dict[str, Any]).decode_lines(data)
        except msgspec.DecodeError as error:
            raise RunError(f"{self.path / METRICS} is not JSON lines: {error}") from error

    def verify(self) -> list[str]:
        """What is wrong with the run, a line per file; empty when all of it is as it was committed."""
        found: dict[str, str] = {}
        for name in [METRICS, *self.manifest.files]:
            try:
                self._check(name)
            except RunError as error:
                found[name] = str(error)
        # A writer may have gone on meanwhile and removed a state; only what still should be there is a problem.
        now = read_manifest(self.path) if found else self.manifest
        lines = [
            line for name, line in found.items() if name == METRICS or now.files.get(name) == self.manifest.files[name]
        ]
        derived = unsealed_file(self.path, MEASURES)
        return [*lines, f"{derived}; `assignadd measure` makes it again"] if derived else lines

    def _check(self, name: str) -> None:
        if name == METRICS:
            self.metrics()
        elif name == CONFIG:
            read_settings(self.path, self.manifest)
        elif name.startswith(CHECKPOINTS):
            self.checkpoint(self.manifest.files[name].step or 0)
        elif name == SPLITS:
            self._seen()
        else:
            self._state(name)

    def _state(self, name: str) -> dict[str, Tensor]:
        from assignadd.runs.tensors import state_problem

        state, step = self._tensors(name), self.manifest.files[name].step
        if problem := state_problem(state, self.config, len(self.members), step):
            raise RunError(f"{self.path / name} does not fit the run: {problem}")
        return state

    def _tensors(self, name: str) -> dict[str, Tensor]:
        from assignadd.runs.tensors import decode_tensors

        return decode_tensors(read_committed(self.path, self.manifest, name), str(self.path / name))


def read_settings(folder: Path, manifest: Manifest) -> tuple[Config, tuple[Member, ...]]:
    try:
        return read_run_document(read_committed(folder, manifest, CONFIG))
    except ConfigError as error:
        raise RunError(f"{folder / CONFIG}: {error}") from error


def shipped(name: str) -> Path:
    """The folder of a run that comes with the package: such as `census-six` (see results/README.md)."""
    if not (NETWORKS / name / MANIFEST).exists():
        names = sorted(manifest.parent.name for manifest in NETWORKS.glob(f"*/{MANIFEST}"))
        raise RunError(f"no run {name!r} comes with the package; it has {', '.join(names)}")
    return NETWORKS / name


def open_run(run: str | os.PathLike[str] | Run) -> Run:
    """A run by its folder, by its name under runs/, or by its name among those that come with the package."""
    if isinstance(run, Run):
        return run
    for folder in (Path(run), Path("runs") / run, NETWORKS / run):
        if (folder / MANIFEST).exists():
            return Run.open(folder)
    return Run.open(run)  # raises an error that says what is missing
