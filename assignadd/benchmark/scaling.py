"""What a training step costs when one thing about the task, the model or the stack changes (docs/scale.md)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from assignadd.benchmark.speed import cuda_microseconds, flops, single_step_ms
from assignadd.config import Config

MODELS = 128
VALUES: dict[str, tuple[int, ...]] = {
    "N": (29, 59, 113, 199),
    "V": (8, 12, 20, 26),
    "T": (16, 20, 24, 32),
    "d": (64, 128, 256),
    "batch": (128, 256, 512, 1024, 2048),
}
STACKS = (1, 4, 16, 32, 64, 128, 256, 512)


def variants(config: Config) -> Iterator[tuple[str, int, Config]]:
    """The setting that differs, its value, and the configuration; the MLP stays four times as wide as the residual."""
    task, model, optim = config.task, config.model, config.optim
    for value in VALUES["N"]:
        yield "N", value, replace(config, task=replace(task, modulus=value))
    for value in VALUES["V"]:
        yield "V", value, replace(config, task=replace(task, n_vars=value))
    for value in VALUES["T"]:
        yield "T", value, replace(config, task=replace(task, length=value))
    for value in VALUES["d"]:
        yield "d", value, replace(config, model=replace(model, d_model=value, d_head=value, d_mlp=(None, 4 * value)))
    for value in VALUES["batch"]:
        yield "batch", value, replace(config, optim=replace(optim, batch=value))


def scaling(config: Config, on_cuda: bool, seconds: float) -> list[dict[str, Any]]:
    """Points of cost; on a GPU 128 models at once, on a CPU one model on one thread."""
    models = MODELS if on_cuda else 1
    measured = [(setting, value, own, models) for setting, value, own in variants(config)]
    measured += [("M", n, config, n) for n in STACKS if on_cuda]
    points = []
    for setting, value, own, n in measured:
        us = cuda_microseconds(own, n) if on_cuda else 1e3 * single_step_ms(own, seconds)
        work = flops(own)
        points.append(
            {"setting": setting, "value": value, "models": n, "gflop": work / 1e9, "us": us, "tflops": work / us / 1e6}
        )
    return points
