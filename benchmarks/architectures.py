"""Networks other than the paper's on a GPU: gradients against double precision, and a step beside compiled vmap.

python -m benchmarks.architectures [--models 32 128] [--fp32] [--profile] [--out FILE.json]
"""

from __future__ import annotations

import json
from argparse import ArgumentParser
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from assignadd.config import PRESETS, Config, Numerics
from assignadd.model.stack import Stack, initial_stack, views
from assignadd.task.sampler import Sampler
from assignadd.training.gradient import ReferenceGradient, gradient_of
from assignadd.training.speed import cuda_microseconds, splits
from assignadd.training.trainer import prepare
from benchmarks.peers import cuda_peers

PEER = "vmap, compiled, CUDA graph"
CHECKED = 9  # models: from 8 on, large products are those of Triton
THREE_LAYERS: dict[str, Any] = {"n_layers": 3, "d_mlp": (None, None, 512)}
NETWORKS: dict[str, dict[str, Any]] = {
    "the paper's": {},
    "two heads": {"n_heads": 2, "d_head": 64},
    "four heads": {"n_heads": 4, "d_head": 32},
    "layer norm": {"norm": "layer"},
    "three layers": THREE_LAYERS,
    "MLP in both layers": {"d_mlp": (512, 512)},
    "two heads, three layers, layer norm": THREE_LAYERS | {"n_heads": 2, "d_head": 64, "norm": "layer"},
}


def network(name: str, tf32: bool) -> Config:
    """The paper's configuration with the settings of this network."""
    paper = PRESETS["paper"]
    return replace(paper, model=replace(paper.model, **NETWORKS[name]), numerics=Numerics(tf32=tf32))


def errors(name: str) -> dict[str, Any]:
    """How far gradients in single precision are from double precision, ours and the reference's; if ours repeat.

    The error of all weights together, relative to the length of the gradient. One neuron whose input is about 0, and
    that rounding switches, is an error of 1e-5 to 1e-3, in either.
    """
    config, seeds = network(name, tf32=False), range(CHECKED)
    prepare("cuda", 1, config)
    stack = initial_stack(config, seeds).to("cuda")
    batch = Sampler([config.task] * CHECKED, splits(config, CHECKED), seeds, device="cuda").sample(3, 512)
    exact = Stack(replace(config, numerics=Numerics(dtype="float64")), stack.flat.double())
    gradients = [gradient_of(stack), gradient_of(stack), ReferenceGradient(stack), ReferenceGradient(exact)]
    for gradient in gradients:
        gradient(batch)
    ours, again, reference, expected = (gradient.flat for gradient in gradients)
    size = expected.norm()
    worst = max(
        float((part - wanted).norm() / wanted.norm())
        for part, wanted in zip(views(config, ours).values(), views(config, expected).values(), strict=True)
    )
    return {
        "error": float((ours - expected).norm() / size), "worst_weight": worst,
        "reference_error": float((reference - expected).norm() / size), "repeats": torch.equal(ours, again),
    }  # fmt: skip


def profile(name: str, models: int) -> None:
    """Prints the kernels of steps with TF32 that take longest, in microseconds per model-step."""
    steps, before = 20, 67  # counted, and those that `cuda_microseconds` takes before
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as record:
        cuda_microseconds(network(name, tf32=True), models, steps)
    for event in sorted(record.key_averages(), key=lambda event: -event.self_device_time_total)[:25]:
        microseconds, launches = (x / (steps + before) for x in (event.self_device_time_total / models, event.count))
        print(f"  {microseconds:7.3f} us  {launches:5.1f} times  {event.key[:100]}")


def main() -> None:
    """Prints errors and times, and writes them to a file if one is named."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, nargs="+", default=[32, 128])
    parser.add_argument("--fp32", action="store_true", help="time steps in fp32 instead of TF32")
    parser.add_argument("--profile", action="store_true", help="print the kernels of a step, too")
    parser.add_argument("--out", type=Path, help="where to write the numbers as JSON")
    args = parser.parse_args()
    found: dict[str, Any] = {"device": torch.cuda.get_device_name(), "tf32": not args.fp32, "errors": {}, "us": {}}
    for name in NETWORKS:
        found["errors"][name] = errors(name)
        print(name, found["errors"][name], flush=True)
    for models in args.models:
        for name in NETWORKS:
            config = network(name, not args.fp32)
            ours, peer = cuda_microseconds(config, models), cuda_peers(config, models, [PEER])[PEER]
            found["us"][f"{name}, {models} models"] = {"ours": ours, PEER: peer, "ratio": peer / ours}
            print(f"{name}, {models} models: {ours:.1f} us, vmap {peer:.1f}, {peer / ours:.2f} times", flush=True)
            if args.profile:
                profile(name, models)
            torch.cuda.empty_cache()
    if args.out is not None:
        args.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
