"""A run: a stack of models in one folder, as it was last committed.

    config.json            the settings, and for each model its seed and the settings in which it differs
    splits.safetensors     `seen` (M, N, N): which pairs of numbers each model trains on (an axis for each operand)
    metrics.jsonl          a row per model and evaluation; append-only, no clock in it
    checkpoints/00000100.safetensors   weights by the field's names, with a leading axis M
    states/00001000.safetensors        what training needs to go on from here, bitwise
    manifest.json          what is committed (`manifest`)
    task.txt, network.txt  the text of the user's own task and network, where there are such; it is never executed

This class only reads; `writer` writes. Every file is checked against the manifest when it is read.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from assignadd.config import Config, ConfigError
from assignadd.config.errors import RunError, did_you_mean, printable
from assignadd.runs.config_json import parse, read_run_document, run_document
from assignadd.runs.files import MOST_BYTES, MOST_SETTINGS, read_regular
from assignadd.runs.hub import SCHEME, Source, published
from assignadd.runs.manifest import (
    CHECKPOINTS,
    CONFIG,
    MANIFEST,
    MEASURES,
    METRICS,
    NETWORK_TEXT,
    SPLITS,
    STATES,
    TASK_TEXT,
    Blob,
    Count,
    Observed,
    read_manifest,
)

if TYPE_CHECKING:  # torch is loaded with the first tensor: what a run is can be read without it
    from jaxtyping import Bool
    from torch import Tensor

    from assignadd.model.stack import Stack
    from assignadd.runs.config_json import NetworkOfUser, TaskOfUser

MOST_OF_ROW = 1 << 16  # bytes of a row of the metrics; with every measure it has some four thousand
STATE_BYTES = 4 * 8  # of a state for each weight: itself, its two moments and one more number, in double precision
# The runs that come with the package, each under its name.
NETWORKS = Path(__file__).parents[1] / "networks"


class _Row(msgspec.Struct):
    """The fields of a row of the metrics that readers use: they are checked when the metrics are read."""

    step: Count
    model: Count
    accuracy: dict[str, Annotated[float, msgspec.Meta(ge=0, le=1)]]
    seed: int | None = None
    loss: float | None = None
    diverged_at: Count | None = None
    measures: dict[str, Any] = {}


class Run:
    """A run as it was when it was opened, by `Run.open`."""

    def __init__(self, path: Path, source: Source | None = None):
        """Reads the manifest and the settings, and checks that they agree.

        `source` is where files come from that the folder does not have yet.
        """
        self.path, self.source = path, source
        self.manifest = read_manifest(path)
        try:
            self.config, self.members = read_run_document(self.committed(CONFIG))
        except ConfigError as error:
            raise RunError(f"{path / CONFIG}: {error}") from error
        seeds = tuple(member.seed for member in self.members)
        if self.manifest.seeds != seeds or self.manifest.dtype != self.config.numerics.dtype:
            raise RunError(f"{path / MANIFEST} has other seeds or another dtype than {path / CONFIG}")

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Run:
        """A run to read from."""
        if not (Path(path) / MANIFEST).exists():
            raise RunError(f"no run at {path}; `assignadd runs list` shows what there is")
        return Run(Path(path))

    @property
    def name(self) -> str:
        """The name of the folder, or of the repository on the Hub, as it can be shown."""
        if self.source is not None:
            return self.source.repository.partition("/")[2]
        folder = Path(os.path.abspath(self.path))
        repository = folder.parent.parent.name
        # In the cache of huggingface_hub the folder is models--OWNER--NAME/snapshots/COMMIT.
        if folder.parent.name == "snapshots" and repository.startswith("models--"):
            return printable(repository.rpartition("--")[2])
        return printable(folder.name)

    @property
    def address(self) -> str:
        """The address at which the run can be opened again: its folder, or `hf://OWNER/NAME@COMMIT`."""
        return self.source.address if self.source else str(self.path)

    @property
    def configs(self) -> list[Config]:
        """The configuration of each model, its seeds filled in."""
        return [member.config(self.config) for member in self.members]

    @property
    def step(self) -> int:
        """The updates that are committed."""
        return self.manifest.step

    @property
    def finished(self) -> bool:
        """Whether the last step of the settings is committed."""
        return self.manifest.finished

    @property
    def wall_seconds(self) -> float:
        """How long all processes that trained the run took, in seconds."""
        return sum(session.seconds for session in self.manifest.sessions)

    @property
    def document(self) -> dict[str, Any]:
        """The settings and the models as JSON values, as they stand in `config.json`."""
        return parse(run_document(self.config, self.members), CONFIG)

    @property
    def observed(self) -> Observed | None:
        """The user's function whose columns are in the metrics, if there is one."""
        return self.manifest.observed or None

    @property
    def provenance(self) -> dict[str, Any]:
        """The environment of the last session, the number of sessions, and the files of a run that was imported."""
        sessions = self.manifest.sessions
        environment = msgspec.to_builtins(sessions[-1].environment) if sessions else {}
        about = {"sessions": len(sessions), "dtype": self.manifest.dtype, "sources": self.manifest.sources}
        return environment | about

    def index_of(self, seed: int | None) -> int:
        """The place in the stack of the model with this seed; 0, the first model, for None."""
        if seed is None:
            return 0
        seeds = self.manifest.seeds
        if seed not in seeds:
            raise RunError(f"run {self.name} has no seed {seed}; it has {', '.join(map(str, seeds))}")
        return seeds.index(seed)

    @property
    def steps(self) -> list[int]:
        """The steps that have a checkpoint."""
        return list(self.manifest.names_by_step(CHECKPOINTS))

    @property
    def fingerprint(self) -> str:
        """A hash of all checkpoints; measures stored with another hash are not of this run."""
        names = self.manifest.names_by_step(CHECKPOINTS).values()
        hashes = [self.manifest.files[name].sha256 for name in names]
        return hashlib.sha256("".join(hashes).encode()).hexdigest()

    @cached_property
    def seen(self) -> Bool[Tensor, "M ..."]:
        """Which pairs of numbers each model trains on: (M, N, N) for two operands."""
        tensors = self._tensors(SPLITS)
        shape = (len(self.members), *self.config.task.tuples)
        if list(tensors) != ["seen"] or str(tensors["seen"].dtype) != "torch.bool" or tensors["seen"].shape != shape:
            raise RunError(f"{self.path / SPLITS} does not hold a bool tensor `seen` of shape {shape}")
        return tensors["seen"]

    def metrics(self) -> list[dict[str, Any]]:
        """A row per model and evaluation, in the order they were committed."""
        data, path = self.committed(METRICS), self.path / METRICS
        not_whole = RunError(f"{path} does not have a row for each model at each evaluation of the run")
        if data.count(b"\n") > self._most_rows():
            raise not_whole
        try:
            # The fields of `_Row` are checked before the other fields of any row are read.
            checked = msgspec.json.Decoder(_Row).decode_lines(data)
            rows = msgspec.json.Decoder(dict[str, Any]).decode_lines(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise RunError(f"{path} is not JSON lines of metrics: {error}") from error
        if not _is_whole(checked, len(self.members)) or (data and not rows):
            raise not_whole
        return rows

    @property
    def diverged_at(self) -> list[int | None]:
        """For each model, the step at which its loss was no longer finite; None where it always was."""
        n_models = len(self.members)
        last_evaluation = self.metrics()[-n_models:]  # a row per model; no rows before the first evaluation
        return [row.get("diverged_at") for row in last_evaluation] or [None] * n_models

    def checkpoint(self, step: int) -> Stack:
        """The weights after `step` updates."""
        from assignadd.runs.encoding import stack_of

        steps = self.steps
        if not steps:
            raise RunError(f"run {self.name} has no checkpoints yet; train it on")
        if step not in steps:
            nearest = min(steps, key=lambda other_step: abs(other_step - step))
            hint = f"the nearest is at {nearest}: pass --step {nearest}"
            raise RunError(f"run {self.name} has no checkpoint at step {step}; {hint}")
        name = self.manifest.names_by_step(CHECKPOINTS)[step]
        return stack_of(self.config, self._tensors(name), len(self.members), str(self.path / name))

    def at(self, step: int | None = None) -> tuple[int, Stack]:
        """The step (if None, the last that has a checkpoint) and the weights of all models there."""
        if step is None:
            step = max(self.steps, default=0)
        return step, self.checkpoint(step)

    def unsound(self, step: int, stack: Stack) -> dict[int, str]:
        """Why models of the checkpoint at `step` cannot be measured, by their index; empty if all can be.

        A model cannot be measured if it had diverged by then, or if its weights are not finite.
        """
        try:
            diverged_at_steps = self.diverged_at
        except RunError:  # damaged metrics: the weights alone have to tell
            diverged_at_steps = [None] * len(self.members)
        is_finite = stack.flat.isfinite().all(1).tolist()  # (M,)
        reasons = {}
        for i, seed in enumerate(self.manifest.seeds):
            diverged_at = diverged_at_steps[i]
            if diverged_at is not None and diverged_at <= step:
                steps_before = [earlier for earlier in self.steps if earlier < diverged_at]
                hint = f"; --step {steps_before[-1]} is from before that" if steps_before else ""
                reasons[i] = f"seed {seed} of {self.name} diverged at step {diverged_at}: its loss was not finite{hint}"
            elif not is_finite[i]:
                reasons[i] = f"seed {seed} of {self.name} has weights at step {step} that are not finite"
        return reasons

    def model_at(self, step: int | None, index: int) -> tuple[int, Stack]:
        """The step (if None, the last that has a checkpoint) and one model there as a stack of one.

        A RunError if the model has diverged by then.
        """
        step, stack = self.at(step)
        reasons = self.unsound(step, stack)
        if index in reasons:
            raise RunError(reasons[index])
        return step, stack.models(index)

    def trajectory(self, steps: Sequence[int] | None = None, model: int = 0) -> Stack:
        """One model over training: the stack of its checkpoints at these steps (default: all).

        `model` is its place in the run, counted from 0.
        """
        from assignadd.model.stack import concatenate

        if not 0 <= model < len(self.members):
            raise RunError(f"run {self.name} has no model {model}; it has {len(self.members)}, counted from 0")
        steps = self.steps if steps is None else steps
        if not steps:
            raise RunError(f"run {self.name} has no checkpoints yet; train it on")
        return concatenate([self.checkpoint(step).models(model).clone() for step in steps])

    def latest_state(self, at_most: int | None = None) -> dict[str, Tensor] | None:
        """The newest training state, no later than step `at_most`, by the names of `Group.state`; None without one."""
        states = self.manifest.names_by_step(STATES)
        steps = [step for step in states if at_most is None or step <= at_most]
        if not steps:
            return None
        name = states[steps[-1]]
        state = self._tensors(name)
        if "step" not in state or state["step"].tolist() != steps[-1]:
            raise RunError(f"{self.path / name} is not a training state of step {steps[-1]}")
        return state

    def verify(self) -> list[str]:
        """The problems of the run, a line per damaged or missing file; empty if all are as they were committed."""
        from assignadd.runs.encoding import check_seal

        problems: dict[str, str] = {}  # by the name of the file
        for name in (METRICS, MEASURES, *self.manifest.files):
            try:
                if name != MEASURES:
                    self.committed(name)
                elif os.path.lexists(self.path / MEASURES):
                    check_seal(read_regular(self.path, MEASURES), str(self.path / MEASURES))
            except RunError as error:
                problems[name] = str(error)
        if not problems:
            return []
        # A writer may have gone on meanwhile and removed a state; only what still should be there is a problem.
        files_then = self.manifest.files
        files_now = read_manifest(self.path).files
        return [problem for name, problem in problems.items() if files_now.get(name) == files_then.get(name)]

    def _tensors(self, name: str) -> dict[str, Tensor]:
        """The tensors of a committed file, by name."""
        from assignadd.runs.encoding import decode_tensors

        return decode_tensors(self.committed(name), str(self.path / name))

    def committed(self, name: str) -> bytes:
        """The bytes of a committed file; one of a published run is fetched if it is absent.

        Raises a RunError that names the file if it is damaged or larger than a file of its kind may be.
        """
        is_metrics = name == METRICS
        blob: Blob = self.manifest.metrics if is_metrics else self.manifest.files[name]
        most = self._most_bytes(name)
        if self.source is not None and not (self.path / name).exists():
            self.source.fetch(name, blob, most, self.path)
        # One byte more is read, which shows whether a file is longer than committed. The metrics may be: an interrupted
        # commit leaves rows at the end, which are not read.
        n_bytes = blob.size if is_metrics else blob.size + 1
        data = read_regular(self.path, name, n_bytes, most)
        if problem := blob.problem(data):
            raise RunError(f"{self.path / name} {problem}")
        return data

    def _most_rows(self) -> int:
        """An upper bound on the number of rows that the metrics of a run with these settings have."""
        record = self.config.record
        evaluations = self.step // record.eval_every + self.step // (record.measure_every or record.eval_every)
        return len(self.members) * (evaluations + 20)  # 20 for the first and the last evaluations

    def _most_bytes(self, name: str) -> int:
        """An upper bound on the bytes of a committed file of a run with these settings."""
        if name in (CONFIG, TASK_TEXT, NETWORK_TEXT):
            return MOST_SETTINGS
        if name == METRICS:
            return min(MOST_BYTES, self._most_rows() * MOST_OF_ROW)
        from assignadd.model.stack import weight_shapes

        if name == SPLITS:
            bytes_per_model = math.prod(self.config.task.tuples)
        else:  # a state, which is larger than a checkpoint
            n_weights = sum(math.prod(shape) for shape in weight_shapes(self.config).values())
            bytes_per_model = STATE_BYTES * n_weights + (1 << 10)
        return len(self.members) * bytes_per_model + (1 << 20)


def _is_whole(rows: Sequence[_Row], n_models: int) -> bool:
    """Whether the rows are those of evaluations at rising steps, each with a row for every model, in order.

    All rows of a model have to have the same evaluation sets.
    """
    steps = [row.step for row in rows[::n_models]]  # a step per evaluation
    expected = [(step, model) for step in steps for model in range(n_models)]
    has_all_models = expected == [(row.step, row.model) for row in rows]
    are_rising = steps == sorted(set(steps))
    # `rows[i % n_models]` is the first row of the same model.
    same_sets = all(row.accuracy.keys() == rows[i % n_models].accuracy.keys() for i, row in enumerate(rows))
    return has_all_models and are_rising and same_sets


def check_files(run: Run, task: TaskOfUser = None, network: NetworkOfUser = None) -> None:
    """Raises a RunError if a task or a network of the user's own is named that this run was not trained with."""
    from assignadd.model.own import register_network
    from assignadd.task.own import register_task

    # By option: the file that the run was trained with and the named one, each as a TaskFile or NetworkFile. They are
    # equal if their contents are, whatever their names.
    named_files: dict[str, tuple[Any, Any]] = {}
    if task is not None:
        named_files["task"] = run.config.task.file, register_task(task)
    if network is not None:
        named_files["network"] = run.config.model.file, register_network(network, run.config.task)
    for option, (trained_with, named) in named_files.items():
        if trained_with is None:
            raise RunError(f"run {run.name} has no {option} of your own; leave {named.name} out")
        if trained_with != named:
            text = f"its text at that time is {run.path / f'{option}.txt'}"
            raise RunError(f"run {run.name} was trained with {trained_with!r}, and this is {named!r}; {text}")


def shipped(name: str) -> Path:
    """The folder of a run that comes with the package, by its name such as `census-six` (see results/README.md)."""
    if not (NETWORKS / name / MANIFEST).exists():
        names = sorted(manifest.parent.name for manifest in NETWORKS.glob(f"*/{MANIFEST}"))
        raise RunError(f"no run {name!r} comes with the package; it has {', '.join(names)}")
    return NETWORKS / name


def open_run(run: str | os.PathLike[str] | Run) -> Run:
    """A run by its folder, by its name under runs/ or in the package, or by its address on the Hub, `hf://OWNER/NAME`.

    The address may end in @REVISION. A run on the Hub needs `assignadd[hub]`; its files are fetched when they are read.
    """
    if isinstance(run, Run):
        return run
    if isinstance(run, str) and run.startswith(SCHEME):
        return Run(*published(run))
    for folder in (Path(run), Path("runs") / run, NETWORKS / run):
        if (folder / MANIFEST).exists():
            return Run.open(folder)
    manifests = [*Path("runs").glob(f"*/{MANIFEST}"), *NETWORKS.glob(f"*/{MANIFEST}")]
    names = [manifest.parent.name for manifest in manifests]
    suggestion = did_you_mean(Path(run).name, names)
    raise RunError(f"no run at {run}{suggestion}; `assignadd runs list` shows what there is")


def find_runs(root: str | os.PathLike[str]) -> tuple[list[Run], list[str]]:
    """The runs under `root`, sorted by folder, and a line for each that cannot be opened."""
    runs, problems = [], []
    for folder in _run_folders(root):
        try:
            runs.append(Run.open(folder))
        except (RunError, OSError) as error:
            problems.append(str(error))
    return runs, problems


def newest_run(root: str | os.PathLike[str]) -> Run | None:
    """The run under `root` that was committed to last; None where there is none."""
    # Every commit replaces the manifest.
    newest = max(_run_folders(root), key=lambda folder: (folder / MANIFEST).lstat().st_mtime_ns, default=None)
    return None if newest is None else Run.open(newest)


def _run_folders(root: str | os.PathLike[str]) -> list[Path]:
    """The folders under `root` that have a manifest, but none inside another, in alphabetical order."""
    folders = []
    for folder, subfolders, files in os.walk(root):
        if MANIFEST in files:
            folders.append(Path(folder))
            subfolders.clear()  # which tells `os.walk` not to look into them
    return sorted(folders)
