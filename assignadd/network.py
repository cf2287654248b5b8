"""One trained network: its weights, settings, split and checkpoints, and what was measured on it, each thing once.

A function of a network that several claims or figures need is decorated with `per_network`, in the module that owns the
measure: the network stores its result. Functions that take long are measured ahead, several at once (`measure_ahead`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
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

SEQUENCES = 20_000
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
OfNetwork = Callable[Concatenate["Network", Arguments], Result]
Listener = Callable[[str], None]


class Network:
    """One model (a stack of one), its configuration and split, tested on `n` sequences of each set.

    `run` and `index` say where the model comes from, and give access to recorded metrics and other checkpoints. Without
    a run, `checkpoints` may hold the same model at other steps; claims about training need them.
    """

    def __init__(
        self,
        stack: Stack,
        config: Config,
        seen: Tensor,
        n: int = SEQUENCES,
        *,
        step: int = 0,
        seed: int = 0,
        name: str = "weights",
        run: Run | None = None,
        index: int = 0,
        checkpoints: Mapping[int, Stack] | None = None,
    ):
        if len(stack) != 1 or seen.ndim != 2:
            raise ValueError(
                f"expected a stack of one model and its (N, N) split, got {len(stack)} models and {tuple(seen.shape)}"
            )
        self.stack, self.config, self.seen, self.n = stack, config, seen, n
        self.step, self.seed, self.name, self.run, self.index = step, seed, name, run, index
        self._checkpoints = {**(checkpoints or {}), step: stack}
        self.results: dict[tuple[Any, ...], Any] = {}
        """Results of functions of this network, by the function's name and its further arguments."""

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
        """The steps that have a checkpoint."""
        return sorted(self._checkpoints) if self.run is None else self.run.steps

    def checkpoints(self, steps: Sequence[int]) -> Stack:
        """The stack of this model's checkpoints at these steps."""
        if self.run is not None:
            return self.run.trajectory(steps, self.index)
        return concatenate([self._checkpoints[step] for step in steps])

    def stack_at(self, step: int) -> Stack:
        """This model at another checkpoint."""
        return self.checkpoints([step])

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """What training recorded of this model; empty for imported weights and without a run."""
        return [] if self.run is None else [row for row in self.run.metrics() if row["model"] == self.index]

    @property
    def types(self) -> range:
        """Numbers of variables that a sum may have."""
        return self.config.task.variable_counts


def networks_of(run: Run, step: int | None = None, n: int = SEQUENCES) -> tuple[list[Network], list[str]]:
    """Every model of a run at a step (by default the last checkpoint), and a note for each that is left out.

    A model that diverged is left out; a run that has no other is an error.
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
    """The runs of these networks, without repetition."""
    return list({network.run.path: network.run for network in networks if network.run is not None}.values())


class SlowMeasure(NamedTuple):
    """A function of a network that is measured ahead, and which networks it is measured on."""

    measure: Callable[[Network], Any]
    only: Callable[[Network], bool] | None


SLOW: list[SlowMeasure] = []


def per_network(
    *, slow: bool = False, only: Callable[[Network], bool] | None = None
) -> Callable[[OfNetwork[Arguments, Result]], OfNetwork[Arguments, Result]]:
    """Stores the result of a function of a network, and of further arguments, with the network.

    A slow function has no further arguments and is measured ahead: on all networks, or where `only(network)` is true.
    """

    def decorate(function: OfNetwork[Arguments, Result]) -> OfNetwork[Arguments, Result]:
        name = f"{function.__module__}.{function.__qualname__}"

        @wraps(function)
        def once(network: Network, *arguments: Arguments.args, **named: Arguments.kwargs) -> Result:
            key = (name, *arguments, *named.items())
            if key not in network.results:
                network.results[key] = function(network, *arguments, **named)
            return network.results[key]

        if slow:
            SLOW.append(SlowMeasure(once, only))
        return once

    return decorate


def known(network: Network, function: Callable[..., Result], result: Result, *arguments: Any) -> None:
    """Has a function of a network return this result instead of measuring it."""
    network.results[(f"{function.__module__}.{function.__qualname__}", *arguments)] = result


class Job(NamedTuple):
    """Something to be computed in another process, and what to do with the result in this one."""

    name: str
    compute: Callable[[], Any]
    store: Callable[[Any], object]


def measure_ahead(
    networks: Sequence[Network],
    processes: int,
    listener: Listener = lambda name: None,
    more: Sequence[Job] = (),
) -> None:
    """Measures what is slow on these networks, and does `more` jobs, in several processes.

    What every network is asked for comes first. `listener` is called with the name of each job that is done. A measure
    that raises an error has no result; it raises the error again where it is asked for.
    """
    if networks and processes > 1:
        _load_kernels(networks[0].stack)
    for_all = [slow.measure for slow in SLOW if slow.only is None]
    _do([*more, *(_job(measure, network) for measure in for_all for network in networks)], processes, listener)
    # `only` may itself be slow: it is called when the first jobs are done.
    jobs = []
    for slow in SLOW:
        if slow.only is not None:
            jobs += [_job(slow.measure, network) for network in networks if slow.only(network)]
    _do(jobs, processes, listener)


def _load_kernels(stack: Stack) -> None:
    """Loads the compiled kernels, which takes most of a second, here and not in every process that is forked."""
    tokens = torch.zeros(1, 1, stack.config.task.length, dtype=torch.int64)
    answers(stack, tokens)
    trace(stack, tokens)


def _job(measure: Callable[[Network], Any], network: Network) -> Job:
    """Measures a network, with all results that this needs; those are stored too, also if it fails."""

    def compute() -> dict[tuple[Any, ...], Any]:
        before = set(network.results)
        with suppress(Exception):  # not sent here: some errors, such as `NotDefined`, cannot be unpickled
            measure(network)
        return {key: result for key, result in network.results.items() if key not in before}

    return Job(measure.__name__, compute, network.results.update)


def _do(jobs: Sequence[Job], processes: int, listener: Listener) -> None:
    for i, result in in_parallel(lambda job: job.compute(), jobs, processes):
        jobs[i].store(result)
        listener(jobs[i].name)
