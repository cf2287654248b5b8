"""Where the heads attend: rates and masses of the attention patterns that the circuit needs (paper, figure attention;
App. B).

The paper's plateaus of 80 to 99 % (App. B) come from variables in slots where training never put them. So the sequences
add any pair of values with variables in any slot; what training could have shown is a subset with rates of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from assignadd.model.forward import traces
from assignadd.model.stack import Stack
from assignadd.model.table import Trace
from assignadd.task.roles import Roles, operand_slots, roles


@dataclass(frozen=True)
class Routing:
    """For each model, over some sequences: how often a pattern is as expected, and how much attention lies where it
    should."""

    attn_l1_equal_to_operands: Float[Tensor, " M"]
    """Share of sequences in which the top two keys of `=` in layer 1 are the operand slots."""
    attn_l1_num_to_prev: Float[Tensor, " M"]
    """Share of assigned numbers that attend most to the position before them in layer 1."""
    attn_l2_equal_to_values: Float[Tensor, " M"]
    """Share of sequences in which the top two keys of `=` in layer 2 are the operands' values."""
    mass_l1_equal_to_operands: Float[Tensor, " M"]
    mass_l1_num_to_prev: Float[Tensor, " M"]
    mass_l2_equal_to_values: Float[Tensor, " M"]


def routing(stack: Stack, tokens: Int[Tensor, "#M B T"], rows: Bool[Tensor, "#M B"] | None = None) -> Routing:
    """On every model's own sequences, or on shared ones (M = 1 in `tokens`); on some of them where `rows` says
    which."""
    return routings(stack, tokens, [torch.ones_like(tokens[..., 0], dtype=torch.bool) if rows is None else rows])[0]


def routings(stack: Stack, tokens: Int[Tensor, "#M B T"], subsets: Sequence[Bool[Tensor, "#M B"]]) -> list[Routing]:
    """The same for several subsets of the sequences, from one forward pass."""
    task = stack.config.task
    of = [roles(task, own) for own in tokens]
    found = []
    for i, trace in enumerate(traces(stack, tokens)):
        own = i % len(of)
        looks = _looks(trace, of[own], operand_slots(task))
        found.append([_rates(looks, rows[own]) for rows in subsets])
    return [
        Routing(*(torch.stack(values) for values in zip(*models, strict=True))) for models in zip(*found, strict=True)
    ]


# For each pattern, sequence by sequence: how much of it there is, and out of how much. (B,) each.
Looks = list[tuple[Tensor, Tensor]]


def _looks(trace: Trace, role: Roles, operands: tuple[int, int]) -> Looks:
    """In the order of the fields of `Routing`."""
    from_equals_1, from_equals_2 = trace.attention_1[:, -1], trace.attention_2  # (B, T) each
    to_previous = trace.attention_1.diagonal(-1, -2, -1)  # (B, T - 1): query t, key t - 1
    best = trace.attention_1.argmax(-1)[:, 1:]  # (B, T - 1)
    previous = torch.arange(best.shape[1], device=best.device)
    numbers = role.assigned[:, 1:]
    slots = torch.tensor(operands, device=best.device).expand_as(role.value_positions)
    one, n_numbers = torch.ones_like(from_equals_1[:, 0]), numbers.sum(1)
    return [
        (top_two_are(from_equals_1, slots), one),
        (((best == previous) & numbers).sum(1), n_numbers),
        (top_two_are(from_equals_2, role.value_positions), one),
        (from_equals_1.gather(1, slots).sum(1), one),
        ((to_previous * numbers).sum(1), n_numbers),
        (from_equals_2.gather(1, role.value_positions).sum(1), one),
    ]


def _rates(looks: Looks, rows: Tensor) -> tuple[Tensor, ...]:
    return tuple(part[rows].float().sum() / whole[rows].sum() for part, whole in looks)


def top_two_are(attention: Float[Tensor, "*rows T"], positions: Int[Tensor, "*#rows 2"]) -> Bool[Tensor, "*rows"]:
    """Whether the two keys with the most attention are these positions, in either order."""
    return (attention.topk(2, -1).indices.sort(-1).values == positions.sort(-1).values).all(-1)
