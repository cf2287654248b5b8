"""Training a run: from wherever its folder stands to the last step, committing as it goes."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from assignadd.config import Config, ConfigError, Member, UserError
from assignadd.config.errors import RunError
from assignadd.model.accuracy import END_EVALUATIONS, end_of_training
from assignadd.runs.environment import Environment
from assignadd.runs.folder import Run
from assignadd.runs.manifest import MANIFEST
from assignadd.runs.writer import Writer
from assignadd.training.processes import StopSignals
from assignadd.training.start import check_start, set_start
from assignadd.training.trainer import Observer, Trainer

LOG_SPACED = (0, 1, 2, 5, 10, 20, 50)
# Steps between looks at the clock, the signals and the progress bar; models wait for each other this often, and a GPU
# for what it is to do next.
BEAT, BEAT_ON_GPU = 10, 125
# Commits without a state that may wait for the disk, in memory: there are as many in the first fifty steps.
MOST_COMMITS = len(LOG_SPACED)


@dataclass(frozen=True)
class TrainingProgress:
    """What a listener learns at the start and after every beat; `rows` are the latest evaluation's, one per model."""

    step: int
    losses: list[float]
    rows: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What is damaged in the folder, and what follows from it."""


Listener = Callable[[TrainingProgress], None]


class Interrupted(UserError):
    """Training was asked to stop by a signal, and has saved."""

    def __init__(self, signum: int, step: int):
        super().__init__(f"stopped at step {step}; run the same command to go on")
        self.exit_code = 128 + signum


def train_run(
    path: Path,
    config: Config,
    members: Sequence[Member],
    seen: Tensor,
    device: str = "cpu",
    threads: int = 1,
    listener: Listener = lambda _: None,
    begin: Callable[[Trainer], None] | None = None,
    observe: Observer | None = None,
) -> Run:
    """Trains what is missing of a run. Call it again after any interruption: on a CPU the files are bitwise the same.

    On another device a run continues with other last bits. A finished run is left unchanged, whatever is damaged in it.
    `begin` brings the trainer of a new run, which holds the initial weights of the seeds, to where that run starts; by
    default, to step 0 with the weights that the settings ask for (`start`). `observe(configs, seen)` returns a function
    that is called with the models every `record.measure_every` steps and after the last step; what it returns is stored
    in the metrics under `measures`. What an observer has as `observed` is kept in the run, which goes on with it alone.
    """
    if begin is None and not (path / MANIFEST).exists():
        check_start([member.config(config) for member in members])  # before anything is written
    here, observed = Environment.here(device, threads), getattr(observe, "observed", None)
    with Writer.hold(path, config, members, seen, here, observed=observed) as run, StopSignals() as signals:
        if not run.finished:
            with closing(Trainer(config, members, seen, device, threads, observe)) as trainer, Commits(run) as commits:
                rows = _resume(run, commits, trainer, begin or set_start)
                listener(TrainingProgress(trainer.step, trainer.losses, rows, run.notes))
                _train(config, commits, trainer, signals, listener, rows)
        elif run.notes:
            listener(TrainingProgress(run.step, [], notes=run.notes))
    saved = Run.open(path)
    if signals.received:  # also after the last step: whoever called may have more to do
        raise Interrupted(signals.received, saved.step)
    return saved


class Commits:
    """Commits to a run in a thread of their own, one after the other, while training goes on.

    A commit that fails ends the training at the next beat, and those that wait behind it are not made.
    """

    def __init__(self, run: Writer):
        self._run, self._thread, self._failed = run, ThreadPoolExecutor(1), False
        self._begun: deque[Future[None]] = deque()

    def __enter__(self) -> Commits:
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.shutdown()  # waits
        self.check()

    def commit(self, step: int, **parts: Any) -> None:
        """Begins `Writer.commit` with parts that nothing changes later; `rows` may wait for an evaluation.

        Waits if too many commits are begun.

        A state, the largest part, waits until what was begun before it is saved: a kill loses no state but the newest.
        """
        while len(self._begun) >= (1 if parts.get("state") else MOST_COMMITS):
            self._begun.popleft().result()
        self._begun.append(self._thread.submit(self._commit, step, parts))

    def check(self) -> None:
        """Raises what a commit that has ended raised."""
        while self._begun and self._begun[0].done():
            self._begun.popleft().result()

    def _commit(self, step: int, parts: dict[str, Any]) -> None:
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
    """Trains to the last step, or until a signal is received and a state is saved."""
    beat = BEAT if trainer.device == "cpu" else BEAT_ON_GPU
    while (step := trainer.step) < config.optim.steps:
        trainer.advance(min(next_stop(config, step), step + beat) - step)
        commits.check()
        if is_stop(config, trainer.step):
            rows = _commit(commits, trainer) or rows
        listener(TrainingProgress(trainer.step, trainer.losses, rows))
        if signals.received:
            if not saves_state(config, trainer.step):
                commits.commit(trainer.step, state=trainer.state())
            return


def _resume(run: Writer, commits: Commits, trainer: Trainer, begin: Callable[[Trainer], None]) -> list[dict[str, Any]]:
    """Brings the trainer to where the run stands; returns the rows of its latest evaluation."""
    state = run.latest_state()
    if state is None:
        begin(trainer)
        return _commit(commits, trainer, first=True)
    trainer.load_state(state)
    return run.metrics()[-len(run.members) :]


def _commit(commits: Commits, trainer: Trainer, first: bool = False) -> list[dict[str, Any]]:
    """Saves what is due at this step; the files are written while the models are evaluated."""
    step, config, evaluation = trainer.step, trainer.config, Future[list[dict[str, Any]]]()
    checkpoint = trainer.stack() if is_checkpoint(config, step) else None
    state = trainer.state() if first or saves_state(config, step) else None
    rows, finished = _rows_of(evaluation), step == config.optim.steps
    try:
        commits.commit(step, state=state, checkpoint=checkpoint, rows=rows, finished=finished)
        due = is_evaluation(config, step)
        evaluation.set_result(trainer.evaluate(with_measures=is_measurement(config, step)) if due else [])
    except BaseException as error:
        evaluation.set_exception(error)
        raise
    return evaluation.result()


def _rows_of(evaluation: Future[list[dict[str, Any]]]) -> Iterator[dict[str, Any]]:
    """The rows of an evaluation; whoever asks for the first waits until it has ended."""
    yield from evaluation.result()


def is_checkpoint(config: Config, step: int) -> bool:
    return step in LOG_SPACED or step % config.record.checkpoint_every == 0 or step == config.optim.steps


def saves_state(config: Config, step: int) -> bool:
    """Where training can go on from: at regular checkpoints, as the moments take twice the room of the weights."""
    return step % config.record.checkpoint_every == 0 or step == config.optim.steps


def is_measurement(config: Config, step: int) -> bool:
    """When the observer is called; at the last evaluations also where only the final ones are asked for."""
    every = config.record.measure_every
    if step == config.optim.steps:
        return every > 0 or config.record.final_sequences > 0
    return (every > 0 and step % every == 0) or step in last_evaluations(config)


@cache
def last_evaluations(config: Config) -> list[int]:
    """The steps of the evaluations that decide what a network achieves; none where no final exam is asked for."""
    every, steps = config.record.eval_every, config.optim.steps
    first = max(0, steps // every - END_EVALUATIONS) * every
    return end_of_training([*range(first, steps, every), steps]) if config.record.final_sequences else []


def is_evaluation(config: Config, step: int) -> bool:
    return step % config.record.eval_every == 0 or step == config.optim.steps or is_measurement(config, step)


def is_stop(config: Config, step: int) -> bool:
    return is_checkpoint(config, step) or is_evaluation(config, step)


def next_stop(config: Config, step: int) -> int:
    """The first step after this one at which something is written."""
    record = config.record
    regular = (step // n * n + n for n in (record.checkpoint_every, record.eval_every, record.measure_every) if n)
    return min([config.optim.steps, *regular, *(s for s in LOG_SPACED if s > step)])


# A second look at a part of training: the same steps again, bitwise, with checkpoints closer together.


def zoom(
    run: Run, path: Path, around: int, every: int = 10, within: int = 200, listener: Listener = lambda _: None
) -> tuple[Run, list[int]]:
    """The steps `around` -+ `within` of a run as a run of their own with a checkpoint `every` few steps.

    It starts from the run's newest optimizer state before them and takes the same device and number of threads, so that
    the steps are the same. Also returns the steps at which both runs have a checkpoint and the weights differ: none,
    unless this machine rounds differently from the one that trained the run.
    """
    first, last = max(0, around - within), min(run.step, around + within)
    if not 0 <= around <= run.step:
        raise ConfigError("around", around, f"a step of the run, from 0 to {run.step}")
    if every < 1 or within < 1:
        raise ConfigError("every" if every < 1 else "within", min(every, within), "a whole number from 1 on")
    begin, made = _from_state(run, first), run.provenance
    config = zoomed(run.config, every, last)
    device = made["device"].split()[0]  # the kind comes first, then which one it was
    result = train_run(path, config, run.members, run.seen, device, made["threads"], listener, begin)
    shared = sorted(set(result.steps) & set(run.steps))
    return result, [step for step in shared if not _same(result.checkpoint(step).flat, run.checkpoint(step).flat)]


def _same(a: Tensor, b: Tensor) -> bool:
    """Whether weights are equal; those of a model that diverged may be NaN in both."""
    return torch.allclose(a, b, rtol=0, atol=0, equal_nan=True)


def zoomed(config: Config, every: int, last: int) -> Config:
    record = dataclasses.replace(config.record, checkpoint_every=every, eval_every=every)
    return dataclasses.replace(config, record=record, optim=dataclasses.replace(config.optim, steps=last))


def _from_state(run: Run, first: int) -> Callable[[Trainer], None]:
    state = run.latest_state(at_most=first)
    if state is None:
        raise RunError(f"run {run.name} keeps no optimizer state to train on from (imported weights have none)")

    def begin(trainer: Trainer) -> None:
        trainer.load_state(state)
        trainer.advance(first - trainer.step)

    return begin
