"""Training a run: from wherever its folder stands to the last step, committing as it goes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from torch import Tensor

from assignadd.config import Config, Member, UserError
from assignadd.model.accuracy import END_EVALUATIONS, end_of_training
from assignadd.runs.folder import Run
from assignadd.runs.manifest import MANIFEST, Environment
from assignadd.runs.writer import Writer
from assignadd.training.processes import StopSignals
from assignadd.training.start import check_start, set_start
from assignadd.training.trainer import Observer, Trainer

LOG_SPACED = (0, 1, 2, 5, 10, 20, 50)
# The steps of a beat. After each beat failed commits and signals are noticed and the listener is told; models wait for
# each other then, and a GPU for what it is to do next.
BEAT, BEAT_ON_GPU = 10, 125
# Commits without an optimizer state that may wait in memory for the disk: those of the first fifty steps all may.
MOST_COMMITS = len(LOG_SPACED)


@dataclass(frozen=True)
class TrainingProgress:
    """The state of a training, which a listener is told at the start and after every beat (`BEAT` steps)."""

    step: int
    losses: list[float]  # the loss of each model on its last batch
    rows: list[dict[str, Any]] = field(default_factory=list)
    """The rows of the latest evaluation, one for each model (`Trainer.evaluate`)."""
    notes: list[str] = field(default_factory=list)  # lines on what is damaged in the folder, and what follows from it


Listener = Callable[[TrainingProgress], None]


class Interrupted(UserError):
    """Training was asked to stop by a signal, and has saved."""

    def __init__(self, signum: int, step: int):
        super().__init__(f"stopped at step {step}; run the same command to go on")
        self.exit_code = 128 + signum  # as shells report it


def train_run(
    path: Path,
    config: Config,
    members: Sequence[Member],
    seen: Tensor,
    device: str = "cpu",
    threads: int = 1,
    listener: Listener = lambda _: None,
    observe: Observer | None = None,
) -> Run:
    """The run in the folder `path`, once all that was missing of it is trained.

    Call it again after any interruption: on a CPU the files are bitwise the same. On another device a run continues
    with other last bits. A finished run is left unchanged, whatever is damaged in it.
    `observe(configs, seen)` returns a function that is called with the models every `record.measure_every` steps and
    after the last step; what it returns is stored in the metrics under `measures`. If an observer has the attribute
    `observed`, the run stores it, and can be continued only with an observer that has the same.
    """
    if not (path / MANIFEST).exists():
        check_start([member.config(config) for member in members])  # before anything is written
    environment = Environment.here(device, threads)
    observed = getattr(observe, "observed", None)
    with Writer.hold(path, config, members, seen, environment, observed=observed) as run, StopSignals() as signals:
        if run.finished and run.notes:
            listener(TrainingProgress(run.step, [], notes=run.notes))
        elif not run.finished:
            with closing(Trainer(config, members, seen, device, threads, observe)) as trainer, Commits(run) as commits:
                rows = _resume(run, commits, trainer)
                listener(TrainingProgress(trainer.step, trainer.losses, rows, run.notes))
                n_notes = len(run.notes)  # of which the listener has been told
                _train(config, commits, trainer, signals, listener, rows)
            notes_of_commits = run.notes[n_notes:]
            if notes_of_commits:
                listener(TrainingProgress(run.step, [], notes=notes_of_commits))
    saved = Run.open(path)
    if signals.received:  # also after the last step: whoever called may have more to do
        raise Interrupted(signals.received, saved.step)
    return saved


class Commits:
    """Commits of a run, made in a thread while training goes on; after one that fails no other is made."""

    def __init__(self, run: Writer):
        self._run = run
        self._thread = ThreadPoolExecutor(1)
        self._failed = False
        self._begun: deque[Future[None]] = deque()  # the commits that may not have ended yet, in order

    def __enter__(self) -> Commits:
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.shutdown()  # waits for all commits
        self.check()

    def commit(self, step: int, **parts: Any) -> None:
        """Begins `Writer.commit(step, **parts)`; nothing may change the parts later.

        This call waits while too many commits are not yet saved. One with an optimizer state, the largest part, waits
        for all before it, so that a kill loses no state but the newest.
        """
        most_waiting = 1 if parts.get("state") else MOST_COMMITS
        while len(self._begun) >= most_waiting:
            self._begun.popleft().result()
        self._begun.append(self._thread.submit(self._commit, step, parts))

    def check(self) -> None:
        """Raises the error of a commit that has ended, if it failed; does not wait for others."""
        while self._begun and self._begun[0].done():
            self._begun.popleft().result()

    def _commit(self, step: int, parts: dict[str, Any]) -> None:
        """Saves the parts, unless an earlier commit has failed; runs in the thread."""
        if not self._failed:
            self._failed = True  # and so it stays if the commit raises
            self._run.commit(step, **parts)
            self._failed = False


def _train(
    config: Config,
    commits: Commits,
    trainer: Trainer,
    signals: StopSignals,
    listener: Listener,
    rows: list[dict[str, Any]],
) -> None:
    """Trains to the last step, or until a signal is received and a state saved; `rows` are of the latest evaluation."""
    beat = BEAT if trainer.device == "cpu" else BEAT_ON_GPU  # steps
    while (step := trainer.step) < config.optim.steps:
        stop = next_stop(config, step)
        trainer.advance(min(stop - step, beat))
        commits.check()
        if trainer.step == stop:
            rows = _evaluate_and_save(commits, trainer) or rows
        listener(TrainingProgress(trainer.step, trainer.losses, rows))
        if signals.received:
            if not saves_state(config, trainer.step):  # otherwise `_evaluate_and_save` has done so
                commits.commit(trainer.step, state=trainer.state())
            return


def _resume(run: Writer, commits: Commits, trainer: Trainer) -> list[dict[str, Any]]:
    """Brings the trainer to where the run stands; returns the rows of its latest evaluation."""
    state = run.latest_state()
    if state is None:
        set_start(trainer)
        return _evaluate_and_save(commits, trainer)
    trainer.load_state(state)
    return run.metrics()[-len(run.members) :]  # an evaluation has a row for each model


def _evaluate_and_save(commits: Commits, trainer: Trainer) -> list[dict[str, Any]]:
    """Saves what is due at this step, and returns the rows of its evaluation; empty where none is due."""
    step, config = trainer.step, trainer.config
    rows = trainer.evaluate(with_measures=is_measurement(config, step)) if is_evaluation(config, step) else []
    checkpoint = trainer.stack() if is_checkpoint(config, step) else None
    state = trainer.state() if saves_state(config, step) else None
    commits.commit(step, state=state, checkpoint=checkpoint, rows=rows, finished=step == config.optim.steps)
    return rows


def log_spaced(config: Config) -> tuple[int, ...]:
    """The first steps whose weights are saved, at growing distances, if the settings ask for them."""
    return LOG_SPACED if config.record.log_spaced else ()


def is_due(config: Config, step: int, every: int) -> bool:
    """Whether what is done every `every` steps and after the last one is done at this step; never if `every` is 0."""
    return every > 0 and (step % every == 0 or step == config.optim.steps)


def saves_state(config: Config, step: int) -> bool:
    """Whether the optimizer state, from which training can go on, is saved at this step."""
    return is_due(config, step, config.record.checkpoint_every)


def is_checkpoint(config: Config, step: int) -> bool:
    """Whether the weights are saved at this step."""
    return step in log_spaced(config) or saves_state(config, step)


def is_measurement(config: Config, step: int) -> bool:
    """Whether the observer is called at this step."""
    return is_due(config, step, config.record.measure_every) or step in last_evaluations(config)


@cache
def last_evaluations(config: Config) -> list[int]:
    """The steps of the evaluations that decide what a network achieves; none where no final exam is asked for."""
    if not config.record.final_sequences:
        return []
    every = config.record.eval_every
    steps = config.optim.steps
    # Earlier evaluations need not be listed: `end_of_training` takes at most the last END_EVALUATIONS, and of those
    # only the ones in the last tenth of the training.
    first_listed = max(0, steps // every - END_EVALUATIONS) * every
    evaluations = [*range(first_listed, steps, every), steps]
    return end_of_training(evaluations)


def is_evaluation(config: Config, step: int) -> bool:
    """Whether the models are evaluated at this step."""
    return is_due(config, step, config.record.eval_every) or is_measurement(config, step)


def next_stop(config: Config, step: int) -> int:
    """The first step after this one at which something is written."""
    record = config.record
    intervals = (record.checkpoint_every, record.eval_every, record.measure_every)
    regular = [(step // every + 1) * every for every in intervals if every > 0]  # the next multiple of each interval
    early = [stop for stop in log_spaced(config) if stop > step]
    return min(config.optim.steps, *regular, *early)
