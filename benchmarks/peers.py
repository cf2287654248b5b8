"""A training step as a user would write it without this package, timed in turns with ours.

python -m benchmarks.peers                              one model on one and two CPU threads
python -m benchmarks.peers --device cuda --models 128   a stack on a GPU, against vmap
"""

from __future__ import annotations

import importlib
import json
import time
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call, vmap

from assignadd.config import PRESETS, Config
from assignadd.model.stack import Stack, initial_stack
from assignadd.model.transformer import Transformer
from assignadd.runs.manifest import cpu_model
from assignadd.runs.transformer_lens import LENS, lens_config, lens_installed
from assignadd.task.sampler import Batch, Sampler
from assignadd.training.cuda_graph import captured
from assignadd.training.plain import Step, plain_steps, step_of
from assignadd.training.speed import cuda_microseconds, on_threads, splits
from assignadd.training.trainer import prepare


def cpu_peers(config: Config, batch: Batch) -> dict[str, Step]:
    """What a user would write for one model: plain PyTorch, and TransformerLens where it is installed.

    In TransformerLens, native models have an MLP in every layer, as the paper's code has.
    """
    peers = dict(plain_steps(config, batch))
    if lens_installed():
        native: Any = importlib.import_module(f"{LENS}.model_bridge.sources.native")
        model = native.boot(lens_config(config))
        peers["lens"] = step_of(config, batch, model, lambda tokens: model(tokens)[:, -1])
    return peers


VMAP = ("vmap, eager", "vmap, eager, CUDA graph", "vmap, compiled", "vmap, compiled, CUDA graph")


def vmap_step(name: str, stack: Stack, batch: Batch) -> Step:
    """A step of a stack on a GPU by `torch.func.vmap` of the reference transformer with fused AdamW, one of VMAP."""
    torch.compiler.reset()  # torch compiles a function for a few shapes only
    loss = torch.compile(_vmap_loss) if "compiled" in name else _vmap_loss
    step = _vmap_step(stack, batch, loss)
    return captured(step).replay if "graph" in name else step


def _vmap_loss(model: Transformer, tokens: Tensor, labels: Tensor, weights: dict[str, Tensor]) -> Tensor:
    def answer(own: dict[str, Tensor], own_tokens: Tensor) -> Tensor:
        return functional_call(model, own, (own_tokens, True))[:, -1]  # the last layer at the last position only

    logits = vmap(answer)(weights, tokens)
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten()) * len(labels)


def _vmap_step(stack: Stack, batch: Batch, loss: Callable[..., Tensor]) -> Step:
    model = Transformer(stack.config).to(stack.flat.device)
    optim, tokens, labels = stack.config.optim, batch.tokens.contiguous(), batch.labels
    weights = {name: w.detach().clone().requires_grad_() for name, w in stack.weights.items()}
    parameters = list(weights.values())
    optimizer = torch.optim.AdamW(
        parameters, lr=optim.lr, weight_decay=optim.weight_decay, fused=True, capturable=True
    )  # fmt: skip

    def step() -> None:
        for parameter, grad in zip(
            parameters, torch.autograd.grad(loss(model, tokens, labels, weights), parameters), strict=True
        ):
            parameter.grad = grad.contiguous()  # the fused update refuses another order in memory
        optimizer.step()

    return step


def cuda_peers(config: Config, n_models: int, names: Sequence[str] = VMAP, steps: int = 20) -> dict[str, float]:
    """Microseconds per model and step of what a user would write instead, on one batch that is drawn beforehand."""
    prepare("cuda", 1, config)
    stack = Stack(config, initial_stack(config, [0]).flat.repeat(n_models, 1)).to("cuda")
    seen = splits(config, 1).expand(n_models, -1, -1)
    batch = Sampler([config.task] * n_models, seen, [0] * n_models, device="cuda").sample(0, config.optim.batch)
    found = {}
    for name in names:
        step = vmap_step(name, stack, batch)
        step()
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(steps):
            step()
        torch.cuda.synchronize()
        found[name] = 1e6 * (time.perf_counter() - start) / steps / n_models
    return found


def main() -> None:
    """Prints the times of a training step as JSON."""
    parser = ArgumentParser(description=main.__doc__)
    parser.add_argument("--preset", choices=PRESETS, default="paper", help="whose task and network")
    parser.add_argument("--device", default="cpu", help="cpu (one model), or cuda (a stack)")
    parser.add_argument("--models", type=int, default=128, help="networks in the stack on a GPU")
    parser.add_argument("--tf32", action="store_true", help="round inputs of matrix products to TF32 on a GPU")
    parser.add_argument("--seconds", type=float, default=4.0, help="about how long our steps are timed")
    args = parser.parse_args()
    base, models, tf32 = PRESETS[args.preset], args.models, args.tf32
    config = replace(base, numerics=replace(base.numerics, tf32=tf32))
    if args.device == "cpu":
        found: dict[str, Any] = {str(n): on_threads(config, n, args.seconds, cpu_peers) for n in (1, 2)}
        print(json.dumps({"machine": cpu_model(), "threads": found}, indent=1))
        return
    found = {"device": torch.cuda.get_device_name(), "tf32": tf32, "models": models}
    found["us_per_model_step"] = cuda_microseconds(config, models)
    print(json.dumps(found | {"peers_us": cuda_peers(config, models)}, indent=1))


if __name__ == "__main__":
    main()
