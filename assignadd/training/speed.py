"""How fast training is, always beside what it could be: the floor set by the machine's own matrix products."""

from __future__ import annotations

import math
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from assignadd.config import Config, Member
from assignadd.model.accuracy import Exam
from assignadd.model.stack import Stack, initial_stack
from assignadd.model.table import covers
from assignadd.task.evalsets import EVAL_SETS
from assignadd.task.splits import pair_split
from assignadd.task.vocabulary import Vocabulary
from assignadd.training.trainer import Group, Trainer, prepare

# Parts of a round of steps, after each of which the machine's matrix products are timed.
PARTS = 8
FEWEST_ROUNDS = 3


def milliseconds(do: Callable[[], object], seconds: float, at_least: int = 5) -> float:
    """Median wall time of a call, after warming up, over about `seconds`."""
    for _ in range(3):
        do()
    times: list[float] = []
    while len(times) < at_least or sum(times) < seconds:
        times.append(seconds_of(do))
    return 1e3 * statistics.median(times)


def seconds_of(do: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    do()
    return time.perf_counter() - start


def flops(config: Config, device: str = "cpu") -> int:
    """Floating-point operations of the matrix products in one training step of one model (forward and backward).

    They are those of `TableForward`. On a CPU some of them are sums of few rows instead (`numba_vectors`), or products
    with fewer operations (`numba_step`), but count all the same: what that saves shows in the time over the floor.
    """
    return 3 * forward_flops(config, config.optim.batch, device)


def forward_flops(config: Config, n: int, device: str = "cpu") -> int:
    """Floating-point operations of the matrix products in a forward pass of `n` sequences."""
    config = replace(config, optim=replace(config.optim, batch=n))
    return 2 * (_table_products(config, device) if covers(config) else _reference_products(config))


def _table_products(config: Config, device: str) -> int:
    """Multiplications of a forward pass by the tables."""
    d, h = config.model.d_model, config.model.d_mlp[-1] or 0
    dh, B, N = config.model.d_head, config.optim.batch, config.task.modulus
    C = Vocabulary(config.task).size + config.task.length
    layer_1 = 3 * C * d * dh + C * dh * C + C * dh * d
    layer_2 = 2 * d * dh * d + (C + 1) * d * d + 2 * C * d * (C + 1) + 2 * C * d * d
    of_neurons = B * h * d if device == "cuda" else min(B * h * d, h * d * N + B * h * N)
    return layer_1 + layer_2 + 2 * C * (C + 1) * B + B * (3 * C + 1) * d + B * d * h + of_neurons + B * d * N


def _reference_products(config: Config) -> int:
    """Multiplications of a forward pass by the reference transformer, the last layer at the last position only."""
    model, T = config.model, config.task.length
    d, width = model.d_model, model.n_heads * model.d_head
    per_sequence = T * Vocabulary(config.task).size * d + d * config.task.modulus
    for layer, h in enumerate(model.d_mlp, 1):
        asked = 1 if layer == model.n_layers else T
        per_sequence += 2 * T * d * width + 2 * asked * d * width + 2 * asked * T * width + 2 * asked * d * (h or 0)
    return config.optim.batch * per_sequence


def on_threads(config: Config, threads: int, seconds: float) -> dict[str, float]:
    """One model's training step on `threads` threads and its floor, over about `seconds`."""
    prepare("cpu", threads, config)
    group = one_model(config)
    group.advance(3)
    return medians(lambda: time_round(config, group), seconds)


def medians(time_once: Callable[[], dict[str, float]], seconds: float) -> dict[str, float]:
    """The median of each number over at least three rounds, which take about `seconds`."""
    rounds: list[dict[str, float]] = []
    end = time.perf_counter() + seconds
    while len(rounds) < FEWEST_ROUNDS or time.perf_counter() < end:
        rounds.append(time_once())
    return {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}


def time_round(config: Config, group: Group, after_part: Callable[[int], None] = lambda part: None) -> dict[str, float]:
    """Times the steps whose sequences are drawn together, so that drawing counts in full, and their floor.

    A machine that others use too is fast or slow for seconds at a time. Matrix products are therefore timed in between,
    and so is what `after_part` does, which is called with the number of each part of the steps.
    """
    step_seconds, rates = 0.0, list[float]()
    for part in range(PARTS):
        steps = len(range(part, group.steps_ahead, PARTS))
        step_seconds += seconds_of(partial(group.advance, steps))
        rates.append(product_gflops(config))
        after_part(part)
    rate = statistics.median(rates)
    step_ms = 1e3 * step_seconds / group.steps_ahead
    floor_ms = flops(config) / rate / 1e6
    return {"sgemm_gflops": rate, "step_ms": step_ms, "floor_ms": floor_ms, "step_over_floor": step_ms / floor_ms}


def product_gflops(config: Config) -> float:
    """The rate of a product of the MLP's shape, the largest of a step, over 20 ms."""
    B, d, h = config.optim.batch, config.model.d_model, config.model.d_mlp[-1] or config.model.d_model
    generator = torch.Generator().manual_seed(0)
    a, b = torch.randn(B, d, generator=generator), torch.randn(d, h, generator=generator)
    out = torch.empty(B, h)
    return 2 * B * d * h / milliseconds(lambda: torch.mm(a, b, out=out), 0.02) / 1e6


def sampler_rate(config: Config, seconds: float) -> float:
    """Sequences a second on one thread, drawn as training draws them."""
    prepare("cpu", 1, config)
    group = one_model(config)
    steps = torch.arange(group.steps_ahead).view(-1, 1, 1)
    ms = milliseconds(lambda: group.sampler.sample(steps, config.optim.batch), seconds)
    return len(steps) * config.optim.batch / ms * 1e3


def evaluation(config: Config, seconds: float) -> dict[str, float]:
    """Sequences a second that one thread answers and marks, and the time over that of its matrix products."""
    prepare("cpu", 1, config)
    exam = Exam([Member(0).config(config)], splits(config, 1), EVAL_SETS, config.record.eval_sequences)
    stack, n = initial_stack(config, [0]), exam.labels.numel()

    def time_once() -> dict[str, float]:
        taken = seconds_of(lambda: exam.count_correct(stack))
        floor = forward_flops(config, n) / product_gflops(config) / 1e9
        return {"evaluation_per_second": n / taken, "evaluation_over_floor": taken / floor}

    time_once()  # the first one is slower
    return medians(time_once, seconds)


def stack_step_ms(config: Config, n_models: int, threads: int) -> float:
    """Wall time of one step of a whole stack on `threads` threads."""
    members = [Member(seed) for seed in range(n_models)]
    with closing(Trainer(config, members, splits(config, n_models), threads=threads)) as trainer:
        ahead = trainer.groups[0].steps_ahead  # steps whose sequences are drawn together
        trainer.advance(3)
        return 1e3 * seconds_of(lambda: trainer.advance(ahead)) / ahead


def peak_memory_mb() -> float:
    """The most memory that this process has had, in MB; NaN on Windows, which does not say."""
    try:
        import resource
    except ImportError:
        return math.nan
    bytes_of_unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * bytes_of_unit / 2**20


def cuda_microseconds(config: Config, n_models: int, steps: int = 192) -> float:
    """Microseconds per model and step on a GPU, sampling included, by replaying the captured step."""
    prepare("cuda", 1, config)
    configs = [Member(i).config(config) for i in range(n_models)]
    one = initial_stack(config, [0]).to("cuda")
    group = Group(Stack(config, one.flat.repeat(n_models, 1)), configs, splits(config, 1).expand(n_models, -1, -1))
    group.advance(64)  # captures, and draws ahead as long as any stack does
    torch.cuda.synchronize()
    start = time.perf_counter()
    group.advance(steps)
    torch.cuda.synchronize()
    return 1e6 * (time.perf_counter() - start) / steps / n_models


def splits(config: Config, n: int) -> Tensor:
    """The splits of seeds 0 to n - 1."""
    return torch.stack([pair_split(config.task, i) for i in range(n)])


def one_model(config: Config) -> Group:
    """A model that is about to be trained on a CPU."""
    return Group(initial_stack(config, [0]), [Member(0).config(config)], splits(config, 1))
