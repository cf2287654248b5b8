"""The measures of a run's checkpoints, taken in a process of their own while the run trains."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from assignadd.dynamics.trajectory import CHUNK, Columns, Known, measured_chunk, progress_of
from assignadd.errors import UserError
from assignadd.measures.progress import ProgressMeasures
from assignadd.runs.folder import Run
from assignadd.training.loop import TrainingProgress
from assignadd.training.processes import ProcessPool, can_fork
from assignadd.training.trainer import prepare

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
