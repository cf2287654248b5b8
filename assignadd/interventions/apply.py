"""Any specification on any stack and any batch: logits, answers, and what it does to the accuracy.

Edits hang on the hooks of the reference transformer, for every architecture. A swap takes the weights of one component
from another checkpoint, seed or run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from assignadd.config import Config, ConfigError
from assignadd.interventions.edits import EditBuilder, Edits
from assignadd.interventions.specification import COMPONENTS, Intervention, Swap
from assignadd.model.forward import CHUNK
from assignadd.model.stack import Stack, single_models
from assignadd.model.transformer import Transformer
from assignadd.runs.folder import Run, open_run
from assignadd.task.randomness import REFERENCE_STEP
from assignadd.task.roles import answers
from assignadd.task.sampler import Sampler

Donors = Callable[[Swap, int], Stack]
"""For a swap and the model's place in its stack, the model (a stack with M = 1) that gives the weights."""
REFERENCE_SEQUENCES = 512


def no_donors(swap: Swap, model: int) -> Stack:
    raise ConfigError("interventions", swap.component, "no swap here: there is no run to take weights from")


def reference_sequences(
    config: Config, seen: Bool[Tensor, "N N"] | None = None, n: int = REFERENCE_SEQUENCES
) -> Int[Tensor, "{n} T"]:
    """Of the training law, all types in its mix, of seed 0: what `mean` and `resample` refer to. All pairs unless
    `seen` says which."""
    N = config.task.modulus
    seen = torch.ones(N, N, dtype=torch.bool) if seen is None else seen
    return Sampler([config.task], seen[None], [0]).sample(REFERENCE_STEP, n).tokens[0]


@torch.no_grad()
def apply(
    stack: Stack,
    tokens: Int[Tensor, "#M B T"],
    interventions: Sequence[Intervention],
    reference: Int[Tensor, "R T"] | None = None,
    donors: Donors = no_donors,
) -> Float[Tensor, "M B N"]:
    """Answer logits of every model on its own sequences (or on shared ones, M = 1 in `tokens`) under the
    interventions."""
    tokens = tokens.expand(len(stack), *tokens.shape[1:])
    reference = (reference_sequences(stack.config) if reference is None else reference).to(tokens.device)
    found = []
    for i, (one, own) in enumerate(zip(single_models(stack), tokens, strict=True)):
        for swap in [x for x in interventions if isinstance(x, Swap)]:
            one = swapped(one, donors(swap, i), swap.component)
        forward = EditedTransformer(one)
        builder, parts = EditBuilder(one, forward, reference), []
        for start in range(0, len(own), CHUNK):
            part = own[start : start + CHUNK].contiguous()
            parts.append(forward(part, builder.edits(part, interventions, start)))
        found.append(torch.cat(parts))
    return torch.stack(found)


class EditedTransformer:
    """One model (a stack with M = 1): its answer logits with edits at hook points."""

    def __init__(self, one: Stack):
        self.model = Transformer.from_stack(one, 0)

    def __call__(self, tokens: Int[Tensor, "B T"], edits: Edits) -> Float[Tensor, "B N"]:
        for hook in edits.at:
            if hook not in self.model.hook_points:
                raise ConfigError("hook", hook, "one that this model has: " + ", ".join(self.model.hook_points))
        with self.model.hooks([(hook, lambda activation, point: edits(point.name, activation)) for hook in edits.at]):
            return self.model(tokens, last_only=True)[:, -1]


@dataclass(frozen=True)
class Effect:
    """The same sequences without and with an intervention."""

    before: Float[Tensor, "M B N"]
    after: Float[Tensor, "M B N"]
    labels: Int[Tensor, "M B"]

    @property
    def answers(self) -> tuple[Int[Tensor, "M B"], Int[Tensor, "M B"]]:
        return self.before.argmax(-1), self.after.argmax(-1)

    @property
    def accuracies(self) -> tuple[Float[Tensor, " M"], Float[Tensor, " M"]]:
        before, after = ((answer == self.labels).float().mean(1) for answer in self.answers)
        return before, after

    @property
    def accuracy_change(self) -> Float[Tensor, " M"]:
        before, after = self.accuracies
        return after - before


def effect(
    stack: Stack,
    tokens: Int[Tensor, "#M B T"],
    interventions: Sequence[Intervention],
    reference: Int[Tensor, "R T"] | None = None,
    donors: Donors = no_donors,
) -> Effect:
    labels = answers(stack.config.task, tokens).expand(len(stack), -1)
    return Effect(apply(stack, tokens, ()), apply(stack, tokens, interventions, reference, donors), labels)


def donors_of(run: Run, step: int) -> Donors:
    """Models of this run, at `step` unless the swap names another; of another run, its newest checkpoint and first
    model."""

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
