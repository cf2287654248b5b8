"""The user's own task and network of a configuration or a run: given by the user, never taken from a run folder."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from assignadd.config import Config, Model, NetworkFile, Task, TaskFile
from assignadd.config.errors import RunError
from assignadd.model import own as networks
from assignadd.model.own import Factory
from assignadd.runs.folder import Run
from assignadd.runs.manifest import NETWORK_TEXT, TASK_TEXT
from assignadd.task import own as tasks
from assignadd.task.own import OwnTask

GivenTask = OwnTask | str | Path | None
GivenNetwork = Factory | str | Path | None


def is_own(config: Config) -> bool:
    """Whether the task or the network is the user's own: measures of the paper's do not apply."""
    return config.task.file is not None or config.model.file is not None


def with_files(config: Config, task: GivenTask = None, network: GivenNetwork = None) -> Config:
    """The configuration with this task and network of the user's; those that it names already must have been given."""
    if task is not None:
        config = dataclasses.replace(config, task=Task(file=tasks.described(task)))
    if network is not None:
        file = networks.described(network, config.task)

        config = dataclasses.replace(config, model=Model(file=file))
    _check_given(config)
    return config


def check_files(run: Run, task: GivenTask = None, network: GivenNetwork = None) -> None:
    """Refuses a task or a network that is not the one this run was trained with."""
    if task is not None:
        _check_same(run, "task", TASK_TEXT, run.config.task.file, tasks.described(task))
    if network is not None:
        described = networks.described(network, run.config.task)
        _check_same(run, "network", NETWORK_TEXT, run.config.model.file, described)


def _check_given(config: Config) -> None:
    """Raises a UserError if the user has not given the task or the network of this configuration."""
    if config.task.file is not None:
        tasks.loaded(config.task.file)
    if config.model.file is not None:
        networks.loaded(config.model.file)


def _check_same(
    run: Run, what: str, text: str, of_run: TaskFile | NetworkFile | None, given: TaskFile | NetworkFile
) -> None:
    if of_run is None:
        raise RunError(f"run {run.name} has no {what} of your own; leave {given.name} out")
    if of_run != given:
        raise RunError(
            f"run {run.name} was trained with {of_run!r}, and this is {given!r}: the file has changed, or is another; "
            f"its text at that time is {run.path / text}"
        )
