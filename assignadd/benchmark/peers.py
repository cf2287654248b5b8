"""Training steps as a user would write them without this package, for the benchmark to compare with."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call, vmap

from assignadd.config import Config
from assignadd.model.stack import Stack, initial_stack
from assignadd.model.transformer import Transformer
from assignadd.runs.transformer_lens import LENS, lens_config
from assignadd.task.sampler import Batch
from assignadd.training.cuda_graph import captured

Step = Callable[[], object]


def plain_step(config: Config, batch: Batch) -> Step:
    """One model: the reference transformer at all positions, autograd and torch's AdamW."""
    return _autograd_step(config, batch, Transformer.from_stack(initial_stack(config, [0]), 0))


def lens_step(config: Config, batch: Batch) -> Step:
    """One model in TransformerLens, whose native models have an MLP in every layer, as the paper's code has."""
    native: Any = importlib.import_module(f"{LENS}.model_bridge.sources.native")
    return _autograd_step(config, batch, native.boot(lens_config(config)))


def _autograd_step(config: Config, batch: Batch, model: Any) -> Step:
    tokens, labels = batch.tokens[0].contiguous(), batch.labels[0]
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.optim.lr, weight_decay=config.optim.weight_decay)

    def step() -> None:
        loss = torch.nn.functional.cross_entropy(model(tokens)[:, -1], labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def vmap_steps(stack: Stack, batch: Batch) -> dict[str, Step]:
    """A stack on a GPU by `torch.func.vmap` of the reference transformer with fused AdamW, in the four usual ways."""
    losses: dict[str, Callable[..., Tensor]] = {"eager": _vmap_loss}
    losses["compiled"] = torch.compile(_vmap_loss)
    steps: dict[str, Step] = {}
    for name, loss in losses.items():
        steps[f"vmap, {name}"] = step = _vmap_step(stack, batch, loss)
        steps[f"vmap, {name}, CUDA graph"] = captured(step).replay
    return steps


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
