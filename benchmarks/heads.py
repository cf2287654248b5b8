"""Networks with several heads on a GPU: gradients against double precision, and what a training step costs.

python -m benchmarks.heads [--profile]
"""

from __future__ import annotations

import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from traceback import print_exc

import torch

from assignadd.config import PRESETS, Config, Numerics
from assignadd.model.forward import table_forward
from assignadd.model.stack import Stack, initial_stack, views
from assignadd.model.table import Weights
from assignadd.model.trace import reference_trace
from assignadd.model.transformer import reference_logits
from assignadd.task.sampler import Sampler
from assignadd.training.speed import cuda_microseconds, splits
from assignadd.training.trainer import prepare

HEADS, MODELS = (1, 2, 4), (128, 32)
CHECKED = 9  # models: from 8 on, large products are those of Triton


def with_heads(heads: int, tf32: bool = False) -> Config:
    """The paper's configuration with this many heads, as wide together as its only one."""
    paper = PRESETS["paper"]
    model = replace(paper.model, n_heads=heads, d_head=paper.model.d_head // heads)
    return replace(paper, model=model, numerics=Numerics(tf32=tf32))


def check(heads: int) -> None:
    """Prints the relative errors of logits and gradients, those of a CPU beside them, and whether they repeat."""
    config, seeds = with_heads(heads), range(CHECKED)
    prepare("cuda", 1, config)
    stack, seen = initial_stack(config, seeds), splits(config, CHECKED)
    tokens = Sampler([config.task] * CHECKED, seen, seeds).sample(3, 128).tokens
    exact = Stack(replace(config, numerics=Numerics(dtype="float64")), stack.flat.double().cuda())
    flat = exact.flat.clone().requires_grad_()
    expected = reference_logits(Stack(exact.config, flat), tokens.cuda())
    grad = torch.randn(expected.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).cuda()
    # Rounding decides whether a neuron that gets about 0 is on: one such neuron changes a gradient by a thousandth.
    grad[reference_trace(exact, tokens.cuda(), chunk=128).preactivations.abs().amin(-1) < 1e-5] = 0
    (gradient,) = torch.autograd.grad(expected, [flat], grad)
    wanted = {"logits": expected.detach()} | views(exact.config, gradient)
    results = [of_tables(stack.to(device), tokens, grad) for device in ("cuda", "cuda", "cpu")]
    for name, want in wanted.items():
        on_cuda, _, on_cpu = (float((result[name] - want).norm() / want.norm()) for result in results)
        print(f"  {name:24s} {on_cuda:.1e} (on a CPU {on_cpu:.1e}){'' if on_cuda < 3 * on_cpu + 1e-6 else '  WRONG'}")
    repeats = all(torch.equal(results[0][name], results[1][name]) for name in wanted)
    print(f"  repeats bit for bit: {repeats}")


def of_tables(stack: Stack, tokens: torch.Tensor, grad: torch.Tensor) -> dict[str, torch.Tensor]:
    """Logits and gradients by the tables on the device of the stack, as double precision on the GPU."""
    device, out = stack.flat.device, torch.full_like(stack.flat, torch.nan)
    table, w = table_forward(stack.config, device, stacked=True), Weights.of(stack.weights)
    with torch.inference_mode():
        activations = table.forward(w, tokens.to(device))
        table.backward(w, activations, grad.to(device, stack.flat.dtype), Weights.of(views(stack.config, out)))
        found = {"logits": activations.logits} | views(stack.config, out)
    return {name: x.double().cuda() for name, x in found.items()}


def cost(heads: int, models: int, tf32: bool) -> None:
    """Prints the microseconds of a training step per model."""
    us = cuda_microseconds(with_heads(heads, tf32), models)
    print(f"  {us:.1f} us per model-step, {torch.cuda.max_memory_allocated() / 2**20:,.0f} MB at the peak")


def profile(heads: int, models: int) -> None:
    """Prints the kernels of 20 steps with TF32 that take longest, in microseconds per model-step."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as record:
        cuda_microseconds(with_heads(heads, tf32=True), models, steps=20)
    events = sorted(record.key_averages(), key=lambda event: -event.self_device_time_total)
    for event in events[:25]:
        each = event.self_device_time_total / models / 87  # 64 + 20 steps, and three to warm up
        print(f"  {each:7.3f} us  {event.count / 87:6.1f} times  {event.key[:110]}")


def parts(profiles: bool) -> Iterator[tuple[str, Callable[[], None]]]:
    """What is done, in words and as a function."""
    for heads in HEADS:
        yield f"{heads} heads: relative errors", partial(check, heads)
    for tf32 in (True, False):
        for models in MODELS:
            for heads in HEADS:
                label = f"{heads} heads, {models} models, {'TF32' if tf32 else 'fp32'}"
                yield label, partial(cost, heads, models, tf32)
    for heads in (2, 4) if profiles else ():
        yield f"{heads} heads, 128 models, TF32: kernels", partial(profile, heads, 128)


def main() -> None:
    """Does one part after the other; one that fails says so, and the next goes on."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--profile", action="store_true")
    for label, do in parts(parser.parse_args().profile):
        start = time.perf_counter()
        print(label, flush=True)
        try:
            do()
        except Exception:
            print_exc(limit=4)
        print(f"  ({time.perf_counter() - start:.1f} s)", flush=True)


if __name__ == "__main__":
    main()
