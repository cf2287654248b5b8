"""Rates and masses of the attention patterns that the circuit needs (paper, figure attention; App. B).

A rate is the share of cases in which the keys with the most attention are the right ones, a mass is the attention that
these keys get. The paper's plateaus of 80 to 99 % (App. B) are due to variables in slots that are banned in training.
The sequences for these measures therefore add any pair of values with variables in any slot. Rates on the subset that
training could contain are reported separately.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from assignadd.config import Task
from assignadd.model.forward import traces
from assignadd.model.stack import Stack
from assignadd.model.table import Trace
from assignadd.task.roles import Roles, operand_slots, roles


@dataclass(frozen=True)
class Routing:
    """Rates and masses of three attention patterns over some sequences, for each model."""

    attn_l1_equal_to_operands: Float[Tensor, " M"]
    """Share of sequences in which the two keys with most attention of `=` in layer 1 are the operand slots."""
    attn_l1_num_to_prev: Float[Tensor, " M"]
    """Share of assigned numbers that attend most to the previous position in layer 1."""
    attn_l2_equal_to_values: Float[Tensor, " M"]
    """Share of sequences in which the two keys with most attention of `=` in layer 2 are the operands' values."""
    mass_l1_equal_to_operands: Float[Tensor, " M"]
    mass_l1_num_to_prev: Float[Tensor, " M"]
    mass_l2_equal_to_values: Float[Tensor, " M"]


def routing(stack: Stack, tokens: Int[Tensor, "#M B T"], rows: Bool[Tensor, "#M B"] | None = None) -> Routing:
    """Rates and masses on every model's own sequences or on shared ones (M = 1), or on those marked in `rows`."""
    return routings(stack, tokens, [torch.ones_like(tokens[..., 0], dtype=torch.bool) if rows is None else rows])[0]


def routings(stack: Stack, tokens: Int[Tensor, "#M B T"], subsets: Sequence[Bool[Tensor, "#M B"]]) -> list[Routing]:
    """Rates and masses on several subsets of the sequences, from one forward pass."""
    task, chosen = stack.config.task, torch.stack(list(subsets), -1)  # (M, B, S)
    of, names, found = [roles(task, own) for own in tokens], [f.name for f in fields(Routing)], []
    for i, trace in enumerate(traces(stack, tokens)):
        own = i % len(of)
        counts, rows = pattern_counts(trace, of[own], task), chosen[own].to(trace.attention_2.dtype)
        hits, out_of = (torch.stack([counts[name][k].to(rows.dtype) for name in names]) for k in (0, 1))  # (names, B)
        found.append((hits @ rows) / (out_of @ rows))
    return [Routing(*rates) for rates in torch.stack(found, -1).unbind(1)]


def pattern_counts(trace: Trace, role: Roles, task: Task) -> dict[str, tuple[Tensor, Tensor]]:
    """Numerator and denominator of each field of `Routing` in every sequence, (..., B) each."""
    from_equals_1, from_equals_2 = trace.attention_1[..., -1, :], trace.attention_2  # (..., B, T) each
    to_previous = trace.attention_1.diagonal(-1, -2, -1)  # (..., B, T - 1): query t, key t - 1
    best = trace.attention_1.max(-1).indices[..., 1:]  # (..., B, T - 1)
    previous = torch.arange(best.shape[-1], device=best.device)
    numbers = role.assigned[..., 1:]
    slots = torch.tensor(operand_slots(task), device=best.device).expand_as(role.value_positions)
    one, n_numbers = torch.ones_like(from_equals_1[..., 0]), numbers.sum(-1)
    return {
        "attn_l1_equal_to_operands": (top_two_are(from_equals_1, slots), one),
        "attn_l1_num_to_prev": (((best == previous) & numbers).sum(-1), n_numbers),
        "attn_l2_equal_to_values": (top_two_are(from_equals_2, role.value_positions), one),
        "mass_l1_equal_to_operands": (from_equals_1.gather(-1, slots).sum(-1), one),
        "mass_l1_num_to_prev": ((to_previous * numbers).sum(-1), n_numbers),
        "mass_l2_equal_to_values": (from_equals_2.gather(-1, role.value_positions).sum(-1), one),
    }


def top_two_are(attention: Float[Tensor, "*rows T"], positions: Int[Tensor, "*#rows k"]) -> Bool[Tensor, "*rows"]:
    """Whether the k keys with the most attention are these positions, one for each operand, in any order."""
    return (attention.topk(positions.shape[-1], -1).indices.sort(-1).values == positions.sort(-1).values).all(-1)
