"""Where the heads look: rates and masses of the attention patterns that the circuit needs (paper, figure attention; App. B)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from assignadd.model.forward import traces
from assignadd.model.stack import Stack
from assignadd.model.table import Trace
from assignadd.task.roles import Roles, operand_slots, roles

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int


@dataclass(frozen=True)
class Routing:
    """For each model, over a batch: how often a pattern is as expected, and how much attention lies where it should."""

    attn_l1_equal_to_operands: Float[Tensor, " M"]
    """Share of sequences in which the top two keys of `=` in layer 1 are the operand slots."""
    attn_l1_num_to_prev: Float[Tensor, " M"]
    """Share of assigned numbers that attend most to the position before them in layer 1."""
    attn_l2_equal_to_values: Float[Tensor, " M"]
    """Share of sequences in which the top two keys of `=` in layer 2 are the operands' values."""
    mass_l1_equal_to_operands: Float[Tensor, " M"]
    mass_l1_num_to_prev: Float[Tensor, " M"]
    mass_l2_equal_to_values: Float[Tensor, " M"]


def routing(stack: Stack, tokens: Int[Tensor, "M T B"]) -> Routing:
    """On every model's own sequences, or on shared ones (M = 1 in `tokens`)."""
    task = stack.config.task
    of = [roles(task, own) for own in tokens]
    slots = torch.tensor(operand_slots(task), device=tokens.device)[:, None].expand(2, tokens.shape[-1])
    found = [_rates(trace, of[i % len(of)], slots) for i, trace in enumerate(traces(stack, tokens))]
    return Routing(*(torch.stack(values) for values in zip(*found, strict=True)))


def _rates(trace: Trace, role: Roles, slots: Tensor) -> tuple[Tensor, ...]:
    from_equals_1, from_equals_2 = trace.attention_1[-1], trace.attention_2  # (T, B) each
    to_previous = trace.attention_1.diagonal(-1, 0, 1).T  # (T - 1, B): query t, key t - 1
    best = trace.attention_1.argmax(1)  # (T, B)
    previous = torch.arange(len(best) - 1, device=best.device)[:, None]
    numbers = role.assigned[1:]
    return (
        top_two_are(from_equals_1, slots).float().mean(),
        (best[1:] == previous)[numbers].float().mean(),
        top_two_are(from_equals_2, role.value_positions).float().mean(),
        from_equals_1.gather(0, slots).sum(0).mean(),
        to_previous[numbers].mean(),
        from_equals_2.gather(0, role.value_positions).sum(0).mean(),
    )


def top_two_are(attention: Float[Tensor, "T B"], positions: Int[Tensor, "2 B"]) -> Bool[Tensor, " B"]:
    """Whether the two keys with the most attention are these positions, in either order."""
    return (attention.topk(2, 0).indices.sort(0).values == positions.sort(0).values).all(0)
