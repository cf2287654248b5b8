"""The package from Python: train, load, evaluate. The commands are built on these.

A module that a single function needs is imported in it, so that `assignadd train` loads no phases and no sweeps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from assignadd.config import Config, ConfigError, Member, has_code_of_user, require_built_in
from assignadd.measures.accuracies import Accuracy, set_accuracies
from assignadd.measures.columns import ProgressObserver
from assignadd.model.own import Factory, module_with
from assignadd.model.stack import Stack
from assignadd.model.transformer import Transformer
from assignadd.network import SEQUENCES
from assignadd.runs.config_json import with_files
from assignadd.runs.folder import Run, check_files
from assignadd.runs.folder import open_run as open_run
from assignadd.runs.naming import default_folder
from assignadd.task.own import OwnTask
from assignadd.task.splits import splits_of
from assignadd.training.loop import Listener, train_run
from assignadd.training.trainer import Observer

if TYPE_CHECKING:
    import polars


def train(
    config: Config,
    seeds: Sequence[int] | Sequence[Member] = (0,),
    out: str | Path | None = None,
    device: str = "cpu",
    threads: int = 1,
    listener: Listener = lambda _: None,
    task: OwnTask | str | Path | None = None,
    network: Factory | str | Path | None = None,
    observe: Callable[..., Any] | None = None,
) -> Run:
    """Trains a stack, one model per seed (or member), into the folder `out`; goes on where an earlier call stopped.

    `task` is a task of your own, or a file with TASK; `network` is a function from the task's sizes to a torch module,
    or a file with NETWORK (docs/train_your_own.md). They replace the configuration's task and model.

    Without `out` the folder is the one that `assignadd train` uses for the same settings, such as runs/tiny-seeds-0-1
    (`assignadd.runs.naming`), so that the same call finds the same run.
    `observe` is a measure of yours: a function of a stack that returns a number for each model, (M,), or a dict of such
    columns. It is called at every evaluation; its columns are in the metrics, with its docstring as their meaning.
    Sets torch's thread count for the process and turns oneDNN off. On a CPU with several threads, models train side by
    side in forked processes: call it before starting threads of your own.
    """
    check_machine(device, threads)
    config = with_files(config, task, network)
    members = _members(seeds)
    seen = splits_of([member.config(config) for member in members])  # (M, N, N): the pairs that training may add
    folder = default_folder(config, members) if out is None else Path(out)
    # The progress measures are about the paper's task and transformer.
    observer: Observer | None = None if has_code_of_user(config) else ProgressObserver
    if observe is not None:
        from assignadd.measures.own import own_measure

        # The user's columns follow those of `observer`; the function is tried on the first member.
        observer = own_measure(observe, config, members[0], observer)
    return train_run(folder, config, members, seen, device, threads, listener, observe=observer)


def _members(seeds: Any) -> list[Member]:
    """The members of a stack, from the `seeds` of a caller: whole numbers or members, each once, else a ConfigError."""
    requested = list(seeds) if isinstance(seeds, Iterable) else []
    members = [Member(seed) if type(seed) is int else seed for seed in requested]  # True is an instance of int too
    all_accepted = all(isinstance(member, Member) for member in members)
    if not members or not all_accepted or len(set(members)) < len(members):
        raise ConfigError("seeds", seeds, "a list of whole numbers or members, at least one and each once")
    return members


def check_machine(device: str, threads: int) -> None:
    """Refuses a device that this machine does not have, and a number of threads that is out of range."""
    if device not in ("cpu", "cuda"):
        raise ConfigError("device", device, "cpu or cuda")
    if device == "cuda" and not torch.cuda.is_available():
        raise ConfigError("device", device, "cpu: there is no CUDA device here that torch can use")
    if isinstance(threads, bool) or not isinstance(threads, int) or not 1 <= threads <= 1024:
        raise ConfigError("threads", threads, "a whole number from 1 to 1024")


def load_stack(run: str | Path | Run, step: int | None = None) -> Stack:
    """All models of a run at a step (the last checkpoint unless given), for the measures."""
    _, stack = open_run(run).at(step)  # the step comes first
    return stack


def load(
    run: str | Path | Run,
    step: int | None = None,
    seed: int | None = None,
    network: Factory | str | Path | None = None,
) -> Any:
    """One model of a run as a hooked transformer; the first seed and the last checkpoint unless given.

    For a run with a network of your own, name it as `network`: the result is your module with these weights.
    """
    run = open_run(run)
    check_files(run, network=network)
    stack = load_stack(run, step)
    index = run.index_of(seed)
    if run.config.model.file is not None:
        weights_of_model = {name: weight[index] for name, weight in stack.weights.items()}
        return module_with(run.config, weights_of_model)
    return Transformer.from_stack(stack, index)


def evaluate(
    run: str | Path | Run,
    step: int | None = None,
    n: int = SEQUENCES,
    task: OwnTask | str | Path | None = None,
    network: Factory | str | Path | None = None,
) -> list[dict[str, Accuracy]]:
    """Accuracy on every evaluation set, for each model of a run, on `n` sequences a set that training never drew.

    A model that diverged has no accuracies. For a run with a task or a network of your own, name these as in `train`.
    A sequence with several answers counts as right if all of them are.
    """
    run = open_run(run)
    check_files(run, task, network)
    step, stack = run.at(step)
    reasons = run.unsound(step, stack)  # why a model cannot be measured, by its index
    return [
        {} if i in reasons else set_accuracies(stack.models(i), config, run.seen[i], n)
        for i, config in enumerate(run.configs)
    ]


def metrics(run: str | Path | Run) -> polars.DataFrame:
    """What a run recorded during training: a row per model and evaluation, a column per evaluation set and measure."""
    import polars

    rows = open_run(run).metrics()
    for row in rows:
        # The accuracies and the measures are stored as dictionaries: each of their entries becomes a column.
        row |= row.pop("accuracy", {}) | row.pop("measures", {})
    return polars.DataFrame(rows, infer_schema_length=None)  # the types of the columns are inferred from all rows


def measure(run: str | Path | Run) -> polars.DataFrame:
    """Every progress measure at every checkpoint: a row per model and checkpoint.

    The table is stored in the run folder, and read from there the next time. The columns of `train(observe=...)`
    follow, where a checkpoint was evaluated in training.
    """
    from assignadd.dynamics.trajectory import stored_or_measured, with_own_columns

    run = open_run(run)
    require_built_in(run.config, "assignadd.measure")
    return with_own_columns(run, stored_or_measured(run))


def table(name: str) -> polars.DataFrame:
    """A table that comes with the package, such as "census"; `assignadd runs tables NAME` explains its columns."""
    from assignadd.sweeps.results import shipped_table

    return shipped_table(name).frame()
