"""Any specification on any stack and any batch: logits, answers, and what it does to the accuracy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from assignadd.config import Config
from assignadd.interventions.hooked import HookedReference
from assignadd.interventions.lean import Lean
from assignadd.interventions.resolution import Forward, Resolver
from assignadd.interventions.specification import Intervention, Swap
from assignadd.interventions.swaps import Donors, no_donors, swapped
from assignadd.model.forward import CHUNK
from assignadd.model.stack import Stack, single_models
from assignadd.model.table import covers
from assignadd.task.roles import roles
from assignadd.task.sampler import Sampler

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

# Sequences of the reference set, and a step of the training stream that no training comes to.
REFERENCE_SEQUENCES, REFERENCE_STEP = 512, 1 << 31


def reference_sequences(config: Config, seen: Bool[Tensor, "N N"] | None = None, n: int = REFERENCE_SEQUENCES) -> Int[Tensor, "T n"]:
    """Of the training law, all types in its mix, of seed 0: what `mean` and `resample` refer to. All pairs unless `seen` says which."""
    N = config.task.modulus
    seen = torch.ones(N, N, dtype=torch.bool) if seen is None else seen
    return Sampler([config.task], seen[None], [0]).sample(REFERENCE_STEP, n).tokens[0]


@torch.no_grad()
def apply(
    stack: Stack,
    tokens: Int[Tensor, "M T B"],
    interventions: Sequence[Intervention],
    reference: Int[Tensor, "T R"] | None = None,
    donors: Donors = no_donors,
    engine: Literal["lean", "hooked"] | None = None,
) -> Float[Tensor, "M B N"]:
    """Answer logits of every model on its own sequences (or on shared ones, M = 1 in `tokens`) under the interventions.

    `lean` computes what `=` needs and is for the paper's architecture, `hooked` is the reference transformer; the fast
    one that covers the model unless one is named.
    """
    tokens = tokens.expand(len(stack), *tokens.shape[1:]).mT  # (M, B, T)
    reference = (reference_sequences(stack.config) if reference is None else reference).T.to(tokens.device)
    found = []
    for i, (one, own) in enumerate(zip(single_models(stack), tokens, strict=True)):
        for swap in [x for x in interventions if isinstance(x, Swap)]:
            one = swapped(one, donors(swap, i), swap.component)
        forward = _engine(one, engine)
        resolver, parts = Resolver(one, forward, reference), []
        for start in range(0, len(own), CHUNK):
            part = own[start : start + CHUNK].contiguous()
            parts.append(forward(part, resolver.edits(part, interventions, start)))
        found.append(torch.cat(parts))
    return torch.stack(found)


def _engine(one: Stack, name: str | None) -> Forward:
    if name == "hooked" or (name is None and not covers(one.config)):
        return HookedReference(one)
    return Lean(one)


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
    tokens: Int[Tensor, "M T B"],
    interventions: Sequence[Intervention],
    reference: Int[Tensor, "T R"] | None = None,
    donors: Donors = no_donors,
) -> Effect:
    values = roles(stack.config.task, tokens).values  # (M, 2, B)
    labels = (values.sum(1) % stack.config.task.modulus).expand(len(stack), -1)
    return Effect(apply(stack, tokens, ()), apply(stack, tokens, interventions, reference, donors), labels)
