"""Where the time of a training step of one model on one thread goes, call by call of compiled code."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from assignadd.benchmark.speed import PARTS, one_model, seconds_of
from assignadd.config import Config
from assignadd.errors import UserError
from assignadd.training.step import TableGradient
from assignadd.training.trainer import prepare

if TYPE_CHECKING:
    from assignadd.model.kernels.calls import Call

# The name of the calls that are matrix products.
PRODUCT = "product"


def step_profile(config: Config, seconds: float) -> dict[str, Any]:
    """Microseconds of a step, and of the calls it consists of; equal ones are counted as one, several times.

    Each is the median of rounds, in which two models take steps in turn: one is timed as a whole, one call by call.
    What the calls leave of a step is the drawing of its sequences, and Python.
    """
    prepare("cpu", 1, config)
    whole, split = one_model(config), one_model(config)
    passes = split.gradient.compiled(split.batch_size) if isinstance(split.gradient, TableGradient) else None
    if passes is None:
        raise UserError(
            "a training step of this configuration is not made of compiled calls: --profile takes the paper's "
            "architecture in fp32, a batch that is not small, and the package numba"
        )
    from assignadd.model.kernels.calls import timed

    calls = [list(_single_calls(each)) for each in (passes.run, cast("Call", split.adamw))]
    (passes.run, of_passes), (split.adamw, of_update) = map(timed, calls)
    steps_us, calls_us = list[float](), list[Tensor]()
    for group in (whole, split):
        group.advance(3)
    while len(steps_us) < 3 or 2 * sum(steps_us) * whole.steps_ahead < 1e6 * seconds:
        in_all, before = 0.0, torch.cat([of_passes, of_update])
        for part in range(PARTS):
            steps = len(range(part, whole.steps_ahead, PARTS))
            in_all += seconds_of(partial(whole.advance, steps))
            split.advance(steps)
        steps_us.append(1e6 * in_all / whole.steps_ahead)
        calls_us.append((torch.cat([of_passes, of_update]) - before) / 1e3 / whole.steps_ahead)
    if whole.diverged_at.item() >= 0:
        raise UserError(f"the loss is not finite after {whole.diverged_at.item()} steps: no step of it is left to time")
    medians = torch.stack(calls_us).median(0).values
    found = dict[tuple[str, str], dict[str, Any]]()
    for call, us in zip(calls[0] + calls[1], medians.tolist(), strict=True):
        name, operands = call.function.name, _operands(call)
        none = {"call": name, "operands": operands, "times": 0, "us": 0.0, "gflop": 0.0}
        entry = found.setdefault((name, operands), none)
        for key, more in (("times", 1), ("us", us), ("gflop", _flops(call) / 1e9)):
            entry[key] += more
    return {"step_us": statistics.median(steps_us), "calls": list(found.values())}


def _single_calls(call: Call) -> Iterator[Call]:
    """A call, or those it consists of."""
    if not call.calls:
        yield call
    for each in call.calls:
        yield from _single_calls(each)


def _operands(call: Call) -> str:
    """The factors of a product; of another call, the shape of its largest tensor."""
    if call.function.name != PRODUCT:
        return _shape(max(call.tensors, key=Tensor.numel))
    return " @ ".join(_shape(x) if x.stride(1) == 1 else f"{_shape(x.mT)}.T" for x in call.tensors[:2])


def _shape(x: Tensor) -> str:
    return "x".join(map(str, x.shape))


def _flops(call: Call) -> int:
    if call.function.name != PRODUCT:
        return 0
    a, b, _ = call.tensors
    return 2 * a.numel() * b.shape[1]
