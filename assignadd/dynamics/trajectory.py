"""The measures of a run at every checkpoint: taken now or while the run trains, or read from the table beside it.

`assignadd measure` writes that table.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from assignadd.config import Config
from assignadd.config.errors import RunError, UserError
from assignadd.dynamics.phases import Curves
from assignadd.measures.progress import ProgressMeasures
from assignadd.model.accuracy import Exam
from assignadd.model.stack import Stack
from assignadd.runs import atomic
from assignadd.runs.files import read_regular
from assignadd.runs.folder import Run
from assignadd.runs.manifest import MEASURES
from assignadd.runs.tables import decode_sealed, encode_table
from assignadd.task.evalsets import RECORDED_SETS
from assignadd.training.loop import TrainingProgress
from assignadd.training.processes import ProcessPool, can_fork, in_parallel
from assignadd.training.trainer import prepare

if TYPE_CHECKING:
    import polars

MODEL, SEED = "model", "seed"
Columns = dict[str, np.ndarray]
# Checkpoints in memory at once.
CHUNK = 8
# Measured chunks, by model and the index of their first checkpoint in the run.
Known = dict[tuple[int, int], Columns]
Listener = Callable[[int, int], None]
# The checkpoints of one model at these steps, as a stack.
Read = Callable[[Sequence[int]], Stack]


def measured_trajectory(
    run: Run, model: int = 0, steps: Sequence[int] | None = None, listener: Listener = lambda done, total: None
) -> Columns:
    """Every progress measure of one model at every checkpoint (or at these steps), by column; `step` is one of them.

    From where the model diverged on, the measures are NaN.
    """
    steps = run.steps if steps is None else list(steps)
    if not steps:
        raise RunError(f"run {run.name} has no checkpoints yet; train it on")
    end = run.diverged_at[model]
    sound = [step for step in steps if end is None or step < end]
    if not sound:
        raise RunError(f"seed {run.members[model].seed} of {run.name} diverged at step {end}, before the checkpoints")
    found = measured_at(run.configs[model], run.seen[model], sound, lambda some: run.trajectory(some, model), listener)
    lost = np.full(len(steps) - len(sound), np.nan, dtype=np.float32)
    return {"step": np.array(steps)} | {k: np.concatenate([v, lost]) for k, v in found.items() if k != "step"}


def measured_at(
    config: Config, seen: Tensor, steps: Sequence[int], read: Read, listener: Listener = lambda done, total: None
) -> Columns:
    """Every progress measure of one model at these steps, by column; `read` returns the checkpoints."""
    progress = ProgressMeasures([config], seen[None])
    parts: list[Columns] = []
    for start in range(0, len(steps), CHUNK):
        listener(start, len(steps))
        some = steps[start : start + CHUNK]
        parts.append(_measured(progress, some, read(some)))
    listener(len(steps), len(steps))
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def measured_run(
    run: Run, listener: Listener = lambda done, total: None, processes: int = 1, known: Known | None = None
) -> polars.DataFrame:
    """Every progress measure of every model at every checkpoint: a table with a row per model and checkpoint.

    Chunks that are `known` are not measured again, unless their steps are not those of the run.
    """
    import polars

    if not run.steps:
        raise RunError(f"run {run.name} has no checkpoints yet; train it on")
    models, firsts = range(len(run.members)), range(0, len(run.steps), CHUNK)
    chunks = {(i, first): run.steps[first : first + CHUNK] for i in models for first in firsts}
    parts = {at: part for at, part in (known or {}).items() if at in chunks and list(part["step"]) == chunks[at]}
    missing = [at for at in chunks if at not in parts]
    progress = {i: progress_of(run, i) for i in {model for model, _ in missing}}

    def measure(at: tuple[int, int]) -> Columns:
        return measured_chunk(progress[at[0]], run, at[0], chunks[at])

    done, total = sum(len(chunks[at]) for at in parts), len(models) * len(run.steps)
    listener(done, total)
    for index, columns in in_parallel(measure, missing, processes):
        parts[missing[index]] = columns
        done += len(chunks[missing[index]])
        listener(done, total)
    own = {i: {MODEL: np.full(CHUNK, i), SEED: np.full(CHUNK, run.members[i].seed)} for i in models}
    return polars.concat(
        polars.DataFrame({**{name: x[: len(steps)] for name, x in own[at[0]].items()}, **parts[at]})
        for at, steps in chunks.items()
    )


def progress_of(run: Run, model: int) -> ProgressMeasures:
    return ProgressMeasures([run.configs[model]], run.seen[model : model + 1])


def measured_chunk(progress: ProgressMeasures, run: Run, model: int, steps: Sequence[int]) -> Columns:
    """Every measure of one model's checkpoints at these steps; `progress` is that of the model."""
    return _measured(progress, steps, run.trajectory(steps, model))


def _measured(progress: ProgressMeasures, steps: Sequence[int], stack: Stack) -> Columns:
    """Every measure of the checkpoints at these steps."""
    return {"step": np.array(steps), **{name: values.float().numpy() for name, values in progress(stack).items()}}


def write_measures(run: Run, table: polars.DataFrame, path: Path | None = None) -> Path:
    """Writes the table to `path` or beside the run, with a seal and what it was made from, and returns its path."""
    path = path or run.path / MEASURES
    for left in path.parent.glob(f".{MEASURES}.*.tmp"):
        atomic.discard_leftover(left)
    atomic.write(path, encode_table(table, _origin(run)))
    return path


def read_measures(run: Run) -> polars.DataFrame | None:
    """The table beside the run; None unless it is there, whole, and of the checkpoints and the code that there are."""
    try:
        return _stored(run)
    except RunError:
        return None


def measures_problem(run: Run) -> str | None:
    """Why the table beside the run is not used, where there is one."""
    try:
        _stored(run)
    except RunError as error:
        return str(error) if os.path.lexists(run.path / MEASURES) else None
    return None


def _stored(run: Run) -> polars.DataFrame:
    path = run.path / MEASURES
    table, about = decode_sealed(read_regular(run.path, MEASURES), str(path))
    for key, value in _origin(run).items():
        if about.get(key) != value:
            raise RunError(f"{path} was measured on or by other {key} than there are now")
    rows = [(i, member.seed, step) for i, member in enumerate(run.members) for step in run.steps]
    if not {MODEL, SEED, "step"} < set(table.columns) or table.select(MODEL, SEED, "step").rows() != rows:
        raise RunError(f"{path} does not have a row for each model and checkpoint of the run")
    return table


def _origin(run: Run) -> dict[str, str]:
    """What a table depends on: the hash of the checkpoints, and that of the measuring code."""
    return {"checkpoints": run.fingerprint, "code": _code_version()}


@lru_cache(maxsize=1)
def _code_version() -> str:
    """The hash of the sources of `measures/`."""
    sources = sorted((Path(__file__).parents[1] / "measures").glob("*.py"))
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()


def run_trajectory(run: Run, model: int) -> Columns:
    """One model's columns: read from the table beside the run, or measured now if there is none."""
    table = read_measures(run)
    if table is None:
        return measured_trajectory(run, model)
    own = table.filter(table[MODEL] == model)
    return {name: own[name].to_numpy() for name in own.columns if name not in (MODEL, SEED)}


def accuracy_curves(run: Run, model: int = 0, n: int = 2000) -> Curves:
    """The accuracies that training recorded; for imported weights, those of the checkpoints on `n` sequences."""
    rows = [row for row in run.metrics() if row["model"] == model]
    if rows:
        return Curves.of_rows(rows, run.config.record.eval_sequences)
    return accuracies_at(run.configs[model], run.seen[model], run.steps, lambda some: run.trajectory(some, model), n)


def accuracies_at(config: Config, seen: Tensor, steps: Sequence[int], read: Read, n: int) -> Curves:
    """The accuracies of one model at these steps, on `n` sequences a set; `read` returns the checkpoints."""
    exam = Exam([config], seen[None], RECORDED_SETS, n)
    shares = np.concatenate([(exam.count_correct(read([step])) / n).numpy() for step in steps])
    return Curves(np.array(steps), dict(zip(exam.names, shares.T, strict=True)), n)


# The process gives way to those that train where there are fewer cores than processes.
NICE = 5


class AlongTraining:
    """A listener for the training loop. `found` has what was measured, for `measured_run` to go on from.

    Whatever goes wrong ends the measuring, not the training: what is not found is measured afterwards.
    """

    def __init__(self, path: Path, every: int, wanted: bool = True):
        """`every` is the number of steps between checkpoints of the run at `path`, which need not exist yet.

        Nothing is measured unless it is `wanted`.
        """
        self.found: Known = {}
        self._every, self._ask_from, self._asked = every, 0, False
        self._pool: ProcessPool | None = None
        with suppress(OSError):  # too many processes or open files
            # Started before those of the trainer, so that it holds none of their pipes.
            self._pool = ProcessPool([path], 1, {"measure": _measurer()}) if wanted and can_fork() else None

    def __enter__(self) -> AlongTraining:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool:
            self._pool.close()
            self._pool = None

    def __call__(self, progress: TrainingProgress) -> None:
        if self._pool is None:
            return
        try:
            if self._asked and self._pool.finished():
                self._keep(progress.step)
            if not self._asked and progress.step >= self._ask_from:
                self._pool.start("measure", len(self.found))
                self._asked = True
        except (OSError, RuntimeError, UserError):
            self.__exit__()

    def _keep(self, step: int) -> None:
        assert self._pool is not None
        ((chunk, columns),) = self._pool.result()
        self._asked = False
        if chunk is None:
            self._ask_from = step + self._every
        else:
            self.found[chunk] = columns


def _measurer() -> Callable[[Path, int], tuple[tuple[int, int] | None, Columns]]:
    """Measures the next chunk of checkpoints, given how many are done; (None, {}) where it is not complete yet."""
    progress: dict[int, ProgressMeasures] = {}

    def measure(path: Path, done: int) -> tuple[tuple[int, int] | None, Columns]:
        run = Run.open(path)
        if not progress:
            os.setpriority(os.PRIO_PROCESS, 0, NICE)
            prepare("cpu", 1, run.config)
        model, first = done % len(run.members), done // len(run.members) * CHUNK
        steps = run.steps[first : first + CHUNK]
        if len(steps) < CHUNK:
            return None, {}
        if model not in progress:
            progress[model] = progress_of(run, model)
        return (model, first), measured_chunk(progress[model], run, model, steps)

    return measure
