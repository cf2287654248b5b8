"""Weights of one component from another checkpoint, seed or run."""

from __future__ import annotations

from collections.abc import Callable

from assignadd.config import ConfigError
from assignadd.interventions.specification import COMPONENTS, Swap
from assignadd.model.stack import Stack
from assignadd.runs.folder import Run, open_run

Donors = Callable[[Swap, int], Stack]
"""For a swap and the model's place in its stack, the model (a stack with M = 1) that gives the weights."""


def no_donors(swap: Swap, model: int) -> Stack:
    raise ConfigError("interventions", swap.component, "no swap here: there is no run to take weights from")


def donors_of(run: Run, step: int) -> Donors:
    """Models of this run, at `step` unless the swap names another; of another run, its newest checkpoint and first model."""

    def donor(swap: Swap, model: int) -> Stack:
        other = open_run(swap.run) if swap.run is not None else run
        index = model if swap.run is None and swap.seed is None else other.index_of(swap.seed)
        at = step if swap.run is None and swap.step is None else swap.step
        return other.at(at)[1].models(index)

    return donor


def swapped(one: Stack, other: Stack, component: str) -> Stack:
    """The model with this component of another one."""
    result = one.clone()
    for name, weight in result.weights.items():
        if name.startswith(COMPONENTS[component]):
            if name not in other.weights or other[name].shape != weight.shape:
                raise ConfigError("component", component, f"weights of the same shape: {name} differs")
            weight.copy_(other[name])
    return result
