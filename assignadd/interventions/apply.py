"""Answer logits and accuracy of models under a list of interventions (`specification`).

Activations are edited at the hooks of the reference transformer, so every architecture is covered. A swap takes the
weights of one component from another checkpoint, seed or run. The paper makes no interventions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from assignadd.config import Config, ConfigError
from assignadd.interventions.edits import EditBuilder, Edits
from assignadd.interventions.specification import Intervention, Swap, component_weights
from assignadd.model.forward import CHUNK
from assignadd.model.stack import Stack, single_models
from assignadd.model.transformer import Transformer
from assignadd.runs.folder import Run, open_run
from assignadd.task.positions import answers
from assignadd.task.randomness import REFERENCE_STEP
from assignadd.task.sampler import Sampler

Donors = Callable[[Swap, int], Stack]
"""Returns the model (a stack with M = 1) that a swap takes weights from, given the index of the edited model."""
REFERENCE_SEQUENCES = 512


def no_donors(swap: Swap, model: int) -> Stack:
    """Raises an error: there is no run whose weights could be swapped in."""
    raise ConfigError("interventions", swap.component, "no swap here: there is no run to take weights from")


def reference_sequences(
    config: Config, seen: Bool[Tensor, "..."] | None = None, n: int = REFERENCE_SEQUENCES
) -> Int[Tensor, "{n} T"]:
    """Training sequences of seed 0, over which `mean` averages and from which `resample` draws.

    They combine all tuples of numbers, or those in `seen`.
    """
    seen = torch.ones(config.task.tuples, dtype=torch.bool) if seen is None else seen
    return Sampler([config.task], seen[None], [0]).sample(REFERENCE_STEP, n).tokens[0]


@torch.no_grad()
def apply(
    stack: Stack,
    tokens: Int[Tensor, "#M B T"],
    interventions: Sequence[Intervention],
    reference: Int[Tensor, "R T"] | None = None,
    donors: Donors = no_donors,
) -> Float[Tensor, "M B N"]:
    """Answer logits of every model under the interventions, on its own sequences or on shared ones (M = 1)."""
    tokens = tokens.expand(len(stack), *tokens.shape[1:])
    reference = (reference_sequences(stack.config) if reference is None else reference).to(tokens.device)
    logits = []
    for i, (one, own) in enumerate(zip(single_models(stack), tokens, strict=True)):
        for swap in [x for x in interventions if isinstance(x, Swap)]:
            one = swapped(one, donors(swap, i), swap.component)
        forward = EditedTransformer(one)
        builder, parts = EditBuilder(one, forward, reference), []
        for start in range(0, len(own), CHUNK):
            part = own[start : start + CHUNK].contiguous()
            parts.append(forward(part, builder.edits(part, interventions, start)))
        logits.append(torch.cat(parts))
    return torch.stack(logits)


class EditedTransformer:
    """Answer logits of one model (a stack with M = 1) with edits at hook points."""

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
    """Answer logits on the same sequences before and after an intervention."""

    before: Float[Tensor, "M B N"]
    after: Float[Tensor, "M B N"]
    labels: Int[Tensor, "M B"]

    @property
    def answers(self) -> tuple[Int[Tensor, "M B"], Int[Tensor, "M B"]]:
        """The answers before and after."""
        return self.before.argmax(-1), self.after.argmax(-1)

    @property
    def accuracies(self) -> tuple[Float[Tensor, " M"], Float[Tensor, " M"]]:
        """The accuracy of each model before and after."""
        before, after = ((answer == self.labels).float().mean(1) for answer in self.answers)
        return before, after


def effect(
    stack: Stack,
    tokens: Int[Tensor, "#M B T"],
    interventions: Sequence[Intervention],
    reference: Int[Tensor, "R T"] | None = None,
    donors: Donors = no_donors,
) -> Effect:
    """The answer logits of every model without and with the interventions."""
    labels = answers(stack.config.task, tokens).expand(len(stack), -1)
    return Effect(apply(stack, tokens, (), reference), apply(stack, tokens, interventions, reference, donors), labels)


def donors_of(run: Run, step: int) -> Donors:
    """Donors from this run at `step`, unless the swap names another step, seed or run.

    From another run the default is the first model at its newest checkpoint.
    """

    def donor(swap: Swap, model: int) -> Stack:
        other = open_run(swap.run) if swap.run is not None else run
        index = model if swap.run is None and swap.seed is None else other.index_of(swap.seed)
        at = step if swap.run is None and swap.step is None else swap.step
        return other.model_at(at, index)[1]

    return donor


def swapped(one: Stack, other: Stack, component: str) -> Stack:
    """A copy of the model with one component's weights taken from another model."""
    result, prefixes = one.clone(), component_weights(component)
    names = [name for name in result.weights if name.startswith(prefixes)]
    if not names:
        raise ConfigError("component", component, "a component that this model has")
    for name in names:
        if name not in other.weights or other[name].shape != result[name].shape:
            raise ConfigError("component", component, f"weights of the same shape: {name} differs")
        result[name].copy_(other[name])
    return result
