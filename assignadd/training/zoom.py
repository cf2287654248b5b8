"""A second look at a part of training: the same steps again, bitwise, with checkpoints closer together."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from assignadd.config import Config, ConfigError
from assignadd.config.errors import RunError
from assignadd.runs.folder import Run
from assignadd.training.loop import Listener, train_run
from assignadd.training.trainer import Trainer


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
