"""One trained network: its weights, settings, split and checkpoints, and what was measured on it, each thing once.

A function of a network that several claims or figures need is decorated with `per_network`, in the module that owns the
measure: the network stores its result. Functions that take long are measured ahead, several at once (`measure_ahead`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, wraps
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import torch
from torch import Tensor

from assignadd.config import Config, ConfigError, require_built_in
from assignadd.config.errors import RunError
from assignadd.model.forward import answers, trace
from assignadd.model.stack import Stack, concatenate
from assignadd.runs.folder import Run
from assignadd.training.processes import in_parallel

# How many sequences of each evaluation set a network is tested on, unless another number is given.
SEQUENCES = 20_000
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
# A function of a network, and perhaps of further arguments.
OfNetwork = Callable[Concatenate["Network", Arguments], Result]
Listener = Callable[[str], None]


@dataclass(eq=False, repr=False)
class Network:
    """One model (a stack of one), its configuration and split, tested on `n` sequences of each set.

    `run` and `index` say where the model comes from, and give access to recorded metrics and other checkpoints. Without
    a run, `other_checkpoints` may have the same model at other steps; claims about training need them.
    """

    stack: Stack
    config: Config
    seen: Tensor
    """Which pairs of numbers training may add, (N, N)."""
    n: int = SEQUENCES
    step: int = 0
    seed: int = 0
    name: str = "weights"
    """The name of the run."""
    run: Run | None = None
    index: int = 0
    """Which model of the run it is."""
    other_checkpoints: Mapping[int, Stack] = field(default_factory=dict)
    results: dict[tuple[Any, ...], Any] = field(default_factory=dict, init=False)
    """The results of functions of this network, by the function's name and further arguments (`per_network`)."""

    def __post_init__(self) -> None:
        if len(self.stack) != 1 or self.seen.ndim != 2:
            there = f"{len(self.stack)} models and {tuple(self.seen.shape)}"
            raise ValueError(f"expected a stack of one model and its (N, N) split, got {there}")

    @classmethod
    def of_run(cls, run: Run, index: int, step: int, stack: Stack, n: int = SEQUENCES) -> Network:
        """The model of a run with this index, whose weights at `step` are `stack`."""
        return cls(
            stack, run.configs[index], run.seen[index], n,
            step=step, seed=run.members[index].seed, name=run.name, run=run, index=index,
        )  # fmt: skip

    @cached_property
    def imported(self) -> bool:
        """Whether the weights were trained elsewhere and read into a run."""
        return self.run is not None and bool(self.run.manifest.sources)

    @cached_property
    def steps(self) -> list[int]:
        """The steps that have a checkpoint, in order."""
        return sorted({*self.other_checkpoints, self.step}) if self.run is None else self.run.steps

    def checkpoints(self, steps: Sequence[int]) -> Stack:
        """This model at these steps, as a stack with one entry for each step."""
        if self.run is not None:
            return self.run.trajectory(steps, self.index)
        return concatenate([self.stack if step == self.step else self.other_checkpoints[step] for step in steps])

    def stack_at(self, step: int) -> Stack:
        """This model at the checkpoint of this step, as a stack of one."""
        return self.checkpoints([step])

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """The rows of `Run.metrics` of this model, one per evaluation; none for imported weights, or without a run."""
        if self.run is None:
            return []
        return [row for row in self.run.metrics() if row["model"] == self.index]

    @property
    def types(self) -> range:
        """The types of sums, by the number of variables in them: 0, 1 and 2 in the paper."""
        return self.config.task.variable_counts


def networks_of(run: Run, step: int | None = None, n: int = SEQUENCES) -> tuple[list[Network], list[str]]:
    """Every model of a run at a step (by default the last checkpoint), and a note for each that is left out.

    A model that diverged is left out. It is an error if none is left, if the task or the network is the user's own, or
    if the task has other than two operands.
    """
    require_built_in(run.config, "what is measured here")
    if run.config.task.operands != 2:
        raise ConfigError("task.operands", run.config.task.operands, "2: the claims are about pairs of numbers")
    step, stack = run.at(step)
    reasons = run.unsound(step, stack)  # by the index of each model that diverged
    networks = [Network.of_run(run, i, step, stack.models(i), n) for i in range(len(stack)) if i not in reasons]
    if not networks:
        raise RunError("; ".join(reasons.values()))
    return networks, [f"{reason}; it is left out" for reason in reasons.values()]


def runs_of(networks: Sequence[Network]) -> list[Run]:
    """The runs of these networks, each once."""
    runs_by_path = {network.run.path: network.run for network in networks if network.run is not None}
    return list(runs_by_path.values())


class SlowMeasure(NamedTuple):
    """A function of a network that takes long, and which networks it is measured on: all of them if `only` is None."""

    measure: Callable[[Network], Any]
    only: Callable[[Network], bool] | None


# All slow functions: `per_network` adds them when their modules are imported.
SLOW: list[SlowMeasure] = []


def per_network(
    *, slow: bool = False, only: Callable[[Network], bool] | None = None
) -> Callable[[OfNetwork[Arguments, Result]], OfNetwork[Arguments, Result]]:
    """A decorator for a function of a network, and of further arguments, that stores its results with the network.

    The function is then computed once for each network and arguments. A slow function can be called with the network
    alone, as `measure_ahead` does: for all networks, or for those for which `only(network)` is true.
    """

    def decorate(function: OfNetwork[Arguments, Result]) -> OfNetwork[Arguments, Result]:
        """The function that looks its result up among the network's, and computes it the first time."""

        @wraps(function)
        def measured_once(network: Network, *arguments: Arguments.args, **named: Arguments.kwargs) -> Result:
            key = (_full_name(function), *arguments, *named.items())
            if key not in network.results:
                network.results[key] = function(network, *arguments, **named)
            return network.results[key]

        if slow:
            SLOW.append(SlowMeasure(measured_once, only))
        return measured_once

    return decorate


def _full_name(function: Callable[..., Any]) -> str:
    """The name of a function with that of its module, the same for a function and its decorated version."""
    return f"{function.__module__}.{function.__qualname__}"


def store_result(network: Network, function: Callable[..., Result], result: Result, *arguments: Any) -> None:
    """Stores a result of a function decorated with `per_network`, which then returns it and measures nothing."""
    network.results[(_full_name(function), *arguments)] = result


class Job(NamedTuple):
    """Something to be computed in another process, and what is done with the result in this one."""

    name: str
    compute: Callable[[], Any]
    """Runs in the other process."""
    store: Callable[[Any], object]
    """Called in this process with what `compute` returned."""


def measure_ahead(
    networks: Sequence[Network],
    processes: int,
    listener: Listener = lambda name: None,
    more: Sequence[Job] = (),
) -> None:
    """Measures all slow functions of these networks, and does `more` jobs, in several processes.

    The results are stored with the networks. `listener` is called with the name of each job that is done. A measure
    that raises an error has no result; it raises the error again when it is called.
    """
    if networks and processes > 1:
        # Compiled kernels are loaded here, which takes most of a second, so that forked processes have them.
        tokens = torch.zeros(1, 1, networks[0].config.task.length, dtype=torch.int64)
        answers(networks[0].stack, tokens)
        trace(networks[0].stack, tokens)
    jobs = [*more]
    for slow in SLOW:
        jobs += [_job(slow.measure, network) for network in networks if slow.only is None]
    _do_all(jobs, processes, listener)
    # `only` may need a slow function itself: it is called when the results of the first jobs are stored.
    jobs = []
    for slow in SLOW:
        jobs += [_job(slow.measure, network) for network in networks if slow.only is not None and slow.only(network)]
    _do_all(jobs, processes, listener)


def _job(measure: Callable[[Network], Any], network: Network) -> Job:
    """The job of measuring a network: it stores the result, and the results of functions that `measure` called."""

    def new_results() -> dict[tuple[Any, ...], Any]:
        """The results, by their keys, that measuring adds to those of the network."""
        keys_before = set(network.results)
        with suppress(Exception):  # some errors, such as `NotDefined`, cannot be sent to another process
            measure(network)
        return {key: result for key, result in network.results.items() if key not in keys_before}

    return Job(name=measure.__name__, compute=new_results, store=network.results.update)


def _do_all(jobs: Sequence[Job], processes: int, listener: Listener) -> None:
    """Does the jobs in several processes, stores each result, and calls the listener with each job's name."""
    for index, result in in_parallel(lambda job: job.compute(), jobs, processes):
        jobs[index].store(result)
        listener(jobs[index].name)
