"""How fast training is, beside what it could be and beside other code.

The floor is the time in which this machine would do the floating-point operations of a step's matrix products, at the
rate of the largest of them (`product_gflops`).
"""

from __future__ import annotations

import math
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial

import torch
from torch import Tensor

from assignadd.config import Config, Member
from assignadd.model.accuracy import Exam
from assignadd.model.stack import Stack, initial_stack
from assignadd.model.table import covers
from assignadd.task.evalsets import EVAL_SETS
from assignadd.task.sampler import Batch
from assignadd.task.splits import pair_split
from assignadd.task.vocabulary import Vocabulary, sizes_of
from assignadd.training.cuda_graph import MOST_STEPS_AHEAD
from assignadd.training.plain import Step, plain_steps
from assignadd.training.trainer import Group, Trainer, prepare

# Parts of a round of steps, after each of which the machine's matrix products are timed.
PARTS = 8
FEWEST_ROUNDS = 3


def milliseconds(do: Callable[[], object], seconds: float, at_least: int = 5) -> float:
    """Median wall time of a call of `do`, over calls that take about `seconds` together; `at_least` this many."""
    for _ in range(3):  # the first calls are slower
        do()
    times: list[float] = []
    while len(times) < at_least or sum(times) < seconds:
        times.append(seconds_of(do))
    return 1000 * statistics.median(times)


def seconds_of(do: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    do()
    return time.perf_counter() - start


def flops(config: Config, device: str = "cpu") -> int:
    """Floating-point operations of the products in a training step of one model, forward and backward."""
    return 3 * forward_flops(config, config.optim.batch, device)  # backward takes twice as much as forward


def forward_flops(config: Config, n: int, device: str = "cpu") -> int:
    """Floating-point operations of the matrix products in a forward pass of `n` sequences."""
    products = _table_products(config, n, device) if covers(config) else _autograd_products(config, n)
    return 2 * products  # a multiplication and an addition each


def _table_products(config: Config, B: int, device: str) -> int:
    """Multiplications of a forward pass of B sequences by the tables, as `table_forward` computes them.

    Several heads on a CPU are those of the compiled step, `numba_heads`, where a sum over positions has T rows.
    Letters are those of the glossary (docs/names.md); H heads have the width dh.
    """
    model, N = config.model, config.task.modulus
    d, H, dh, h = model.d_model, model.n_heads, model.d_head, model.d_mlp[-1] or 0
    T = config.task.length
    C = Vocabulary(config.task).size + T
    of_tables = 3 * C * d * H * dh + H * C * dh * C  # of layer 1: queries, keys and values; its scores
    if H == 1:
        of_tables += C * dh * d  # its outputs
        of_tables += 2 * d * dh * d + (C + 1) * d * d  # of layer 2: QK and OV; queries
        of_tables += 2 * C * d * (C + 1) + 2 * C * d * d  # its scores of all pairs of rows; its outputs
        attention = 2 * C * (C + 1) + (3 * C + 1) * d  # scores of layer 2; residual before the MLP
    elif device == "cpu":
        of_tables += 2 * (C + H * dh) * d * H * dh  # of layer 2: keys and values of embeddings and of O1
        attention = (H * dh + 1) * d + 2 * d * H * dh  # residual after layer 1; queries and outputs of layer 2
        attention += 2 * (H * dh) ** 2  # queries of copies; what is read of copies, times O1 V2
        attention += 3 * T * H * dh + 2 * H * T * H * dh  # what is read in layer 1, scores and what is read; of copies
    else:
        n_key_rows = (1 + H) * C
        of_tables += H * C * dh * d  # of layer 1: outputs
        of_tables += 2 * n_key_rows * d * H * dh  # of layer 2: keys and values
        attention = (H * C + 1) * d + 2 * d * H * dh  # residual after layer 1; queries and outputs of layer 2
        attention += 2 * H * n_key_rows * dh  # scores of layer 2 and weighted values
    by_residual = B * h * d  # the neurons times W_out
    by_read_out = h * d * N + B * h * N  # W_out W_U, and the neurons times that
    after_mlp = by_residual if device == "cuda" else min(by_residual, by_read_out)  # a CPU takes the shorter way
    return of_tables + B * (attention + d * h + d * N) + after_mlp  # d * h for the neurons, d * N for the logits


def _autograd_products(config: Config, B: int) -> int:
    """Multiplications of a forward pass of B sequences that autograd differentiates (`model/answer.py`).

    Of the pairs of token and place that layer 1 reads, all are counted; a batch may not have them all.
    """
    model = config.model
    n_tokens, T, n_answers, everywhere = sizes_of(config.task)
    d, H, dh = model.d_model, model.n_heads, model.d_head
    positions = B * T
    # With one head as wide as the residual stream, queries are one product, with W_Q W_K^T, and values another, with
    # W_V W_O.
    wide = H == 1 and dh >= d
    products = B * (T if everywhere else 1) * d * n_answers
    for layer, h in enumerate(model.d_mlp, 1):
        if layer == model.n_layers and not everywhere:
            # At `=` alone: four weights of attention; scores and weighted residuals of all keys; the MLP.
            products += B * (4 * d * H * dh + 2 * T * H * d + 2 * d * (h or 0))
            continue
        rows = positions  # for which queries, keys and values are computed
        if layer == 1:
            rows = min(n_tokens * T, positions)  # once for each pair of token and place
        # Of each row queries, keys and values; what heads write, at each position.
        products += (2 * rows * d * d) if wide else ((3 * rows + positions) * d * H * dh)
        products += 2 * positions * T * (d if wide else H * dh)  # scores and weighted values
        products += 2 * positions * d * (h or 0)
    return products


def on_threads(
    config: Config, threads: int, seconds: float, peers: Callable[[Config, Batch], Mapping[str, Step]] = plain_steps
) -> dict[str, float]:
    """How fast one model trains on `threads` threads: the median of each number of `time_round` over several rounds.

    The rounds take about `seconds` together. `peers` makes steps of other implementations, which are timed in turns
    with ours.
    """
    prepare("cpu", threads, config)
    group = one_model(config)
    group.advance(3)  # the first steps are slower
    steps = peers(config, group.sampler.sample(0, config.optim.batch))
    return medians(lambda: time_round(config, group, steps), seconds)


def medians(time_once: Callable[[], dict[str, float]], seconds: float) -> dict[str, float]:
    """The median of each number, by name, that `time_once` returns, over calls of it for about `seconds`.

    It is called at least three times.
    """
    rounds: list[dict[str, float]] = []
    end = time.perf_counter() + seconds
    while len(rounds) < FEWEST_ROUNDS or time.perf_counter() < end:
        rounds.append(time_once())
    return {name: statistics.median(numbers[name] for numbers in rounds) for name in rounds[0]}


def time_round(config: Config, group: Group, peers: Mapping[str, Step]) -> dict[str, float]:
    """The time of a step, its floor, the rate of matrix products, and the time of each peer's step, over a round.

    Their names are `step_ms`, `floor_ms`, `step_over_floor`, `sgemm_gflops` and, for each peer, `NAME_ms` and
    `NAME_over_step`.

    A round is the steps whose sequences are drawn together, so that drawing counts in full. It has several parts, and
    after each of them matrix products and the peers are timed, as a busy machine is fast or slow for seconds at a time.
    A peer has every other turn with oneDNN, as torch comes, and the rest without, as we train: the faster one counts.
    """
    step_seconds = 0.0
    rates: list[float] = []
    # By the name of a peer and whether it has oneDNN, the times of its steps.
    peer_ms: dict[tuple[str, bool], list[float]] = {(name, onednn): [] for name in peers for onednn in (True, False)}
    for part in range(PARTS):
        steps = len(range(part, group.steps_ahead, PARTS))  # about a PARTS-th; the parts add up to steps_ahead
        step_seconds += seconds_of(partial(group.advance, steps))
        rates.append(product_gflops(config))
        onednn = part % 2 == 0
        for name, step in peers.items():
            peer_ms[name, onednn].append(_peer_ms(step, onednn))
    rate = statistics.median(rates)  # 1e9 operations a second, or 1e6 a millisecond
    step_ms = 1000 * step_seconds / group.steps_ahead
    floor_ms = flops(config) / (1e6 * rate)
    numbers = {"sgemm_gflops": rate, "step_ms": step_ms, "floor_ms": floor_ms, "step_over_floor": step_ms / floor_ms}
    for name in peers:
        ms = min(statistics.median(peer_ms[name, onednn]) for onednn in (True, False))
        numbers |= {f"{name}_ms": ms, f"{name}_over_step": ms / step_ms}
    return numbers


def _peer_ms(step: Step, onednn: bool) -> float:
    """The time of a step of another implementation, with oneDNN or without."""
    torch.backends.mkldnn.enabled = onednn  # type: ignore[assignment]
    step()  # not timed: after training steps of ours, the first takes longer
    ms = 1e3 * seconds_of(step)
    torch.backends.mkldnn.enabled = False  # type: ignore[assignment]
    return ms


def product_gflops(config: Config) -> float:
    """1e9 floating-point operations a second of a product of the MLP's shape, the largest of a step, over 20 ms."""
    B, d, h = config.optim.batch, config.model.d_model, config.model.d_mlp[-1] or config.model.d_model
    generator = torch.Generator().manual_seed(0)
    a, b = torch.randn(B, d, generator=generator), torch.randn(d, h, generator=generator)
    out = torch.empty(B, h)
    ms = milliseconds(lambda: torch.mm(a, b, out=out), 0.02)
    return 2 * B * d * h / (1e6 * ms)  # 1e6 operations a millisecond are 1e9 a second


def sampler_rate(config: Config, seconds: float) -> float:
    """Sequences a second on one thread, drawn as training draws them."""
    prepare("cpu", 1, config)
    group = one_model(config)
    batch_size = config.optim.batch
    steps = torch.arange(group.steps_ahead).view(-1, 1, 1)
    ms = milliseconds(lambda: group.sampler.sample(steps, batch_size), seconds)
    return 1000 * len(steps) * batch_size / ms


def evaluation_rate(config: Config, seconds: float) -> dict[str, float]:
    """Sequences a second that one thread answers and marks, and the time over that of its matrix products.

    Their names are `evaluation_per_second` and `evaluation_over_floor`.
    """
    prepare("cpu", 1, config)
    exam = Exam([Member(0).config(config)], splits(config, 1), EVAL_SETS, config.record.eval_sequences)
    stack = initial_stack(config, [0])
    n = exam.labels.numel()  # sequences
    ms = milliseconds(lambda: exam.count_correct(stack), seconds)
    floor_ms = forward_flops(config, n) / (1e6 * product_gflops(config))
    return {"evaluation_per_second": 1000 * n / ms, "evaluation_over_floor": ms / floor_ms}


def stack_step_ms(config: Config, n_models: int, threads: int) -> float:
    """Wall time of one step of a whole stack on `threads` threads."""
    members = [Member(seed) for seed in range(n_models)]
    with closing(Trainer(config, members, splits(config, n_models), threads=threads)) as trainer:
        steps = trainer.groups[0].steps_ahead  # whose sequences are drawn together, so that drawing counts in full
        trainer.advance(3)  # the first steps are slower
        return 1000 * seconds_of(lambda: trainer.advance(steps)) / steps


def peak_memory_mb() -> float:
    """The most memory that this process has had, in MB; NaN on Windows, which does not say."""
    try:
        import resource
    except ImportError:
        return math.nan
    bytes_of_unit = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes, Linux KiB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * bytes_of_unit / 2**20


def cuda_microseconds(config: Config, n_models: int, steps: int = 192) -> float:
    """Microseconds per model and step on a GPU, sampling included, by replaying the captured step."""
    prepare("cuda", 1, config)
    configs = [Member(seed).config(config) for seed in range(n_models)]
    # All models have the same weights and split: these cost time to make, and do not change the time of a step.
    model = initial_stack(config, [0]).to("cuda")
    stack = Stack(config, model.flat.repeat(n_models, 1))
    group = Group(stack, configs, splits(config, 1).expand(n_models, -1, -1))
    group.advance(MOST_STEPS_AHEAD)  # captures the CUDA graph; no stack draws sequences for more steps at once
    torch.cuda.synchronize()
    start = time.perf_counter()
    group.advance(steps)
    torch.cuda.synchronize()
    return 1e6 * (time.perf_counter() - start) / steps / n_models


def splits(config: Config, n: int) -> Tensor:
    """The splits of seeds 0 to n - 1: which pairs of numbers training adds, (n, N, N) for two operands."""
    return torch.stack([pair_split(config.task, seed) for seed in range(n)])


def one_model(config: Config) -> Group:
    """The untrained model of seed 0, as a group that trains on a CPU."""
    return Group(initial_stack(config, [0]), [Member(0).config(config)], splits(config, 1))
