"""Rates and masses of the attention patterns that the circuit needs (paper, figure attention; App. B).

A rate is the share of cases in which the keys with the most attention are the right ones, a mass is the attention that
these keys get. The paper's plateaus of 80 to 99 % (App. B) are due to variables in slots that are banned in training.
The sequences for these measures therefore add any pair of values with variables in any slot. Rates on the subset that
training could contain are reported separately.

The patterns, in a network with any number of layers and heads (`{layer}` counts from 1):

    l{layer}_equal_to_operands  from `=` to the operand slots, in every layer but the last
    l{layer}_num_to_prev        from an assigned number to the position before it, in every layer but the last
    l{layer}_equal_to_values    from `=` to the values of the operands, in every layer but the first of several

The value of a layer is that of its best head: the one with the highest rate or mass on the same sequences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from assignadd.config import Task
from assignadd.measures.sequences import any_sequences
from assignadd.model.architecture import SECOND_LAYER, needs
from assignadd.model.forward import trace as trace_of
from assignadd.model.forward import traces_in_parts
from assignadd.model.stack import Stack, single_models
from assignadd.model.trace import Trace
from assignadd.network import Network, per_network
from assignadd.task.positions import Roles, as_in_training, operand_slots, roles

# Sequences in one forward pass on a CPU: with fewer, calls cost time; with more, memory.
PART = 20_480


@dataclass(frozen=True)
class Routing:
    """Rates (`attn_...`) and masses (`mass_...`) of the attention patterns over some sequences, for each model."""

    by_head: Mapping[str, Float[Tensor, "M heads"]]

    def __getitem__(self, name: str) -> Float[Tensor, " M"]:
        """The rate or mass of the best head of its layer."""
        return self.by_head[name].amax(1)

    def columns(self, types: str) -> dict[str, Float[Tensor, " M"]]:
        """A column for each pattern, and where a layer has several heads one for each of them; `types` follows the
        name."""
        columns = {f"{name} ({types})": self[name] for name in self.by_head}
        for name, values in self.by_head.items():
            if values.shape[1] > 1:
                columns |= {f"{name} ({types}, head {head})": column for head, column in enumerate(values.T)}
        return columns


def routing(stack: Stack, tokens: Int[Tensor, "#M B T"]) -> Routing:
    """Rates and masses on every model's own sequences or on shared ones (M = 1)."""
    return routings(stack, tokens, [torch.ones_like(tokens[..., 0], dtype=torch.bool)])[0]


def routings(stack: Stack, tokens: Int[Tensor, "#M B T"], subsets: Sequence[Bool[Tensor, "#M B"]]) -> list[Routing]:
    """Rates and masses on several subsets of the sequences, from one forward pass."""
    task, n_layers = stack.config.task, stack.config.model.n_layers
    size = PART if stack.flat.device.type == "cpu" else max(1, tokens.shape[1])
    parts = [[(part, roles(task, part)) for part in own.split(size)] for own in tokens]
    chosen = torch.stack(list(subsets), -1).to(stack.flat.dtype)  # (M, B, S)
    found: list[dict[str, Tensor]] = []
    for i, one in enumerate(single_models(stack)):
        own, rows = parts[i % len(parts)], chosen[i % len(parts)]
        passes = zip(traces_in_parts(one, [part for part, _ in own]), own, strict=True)
        counts = [pattern_counts(trace, role, task, n_layers) for trace, (_, role) in passes]
        found.append({})
        for name in counts[0]:
            hits, n = (torch.cat([part[name][x] for part in counts]).to(rows.dtype) for x in (0, 1))
            found[i][name] = (hits.mT @ rows) / (n @ rows)  # (heads, S) over (S,)
    rates = {name: torch.stack([one[name] for one in found]) for name in found[0]}  # (M, heads, S)
    return [Routing({name: values[..., s] for name, values in rates.items()}) for s in range(len(subsets))]


def pattern_counts(trace: Trace, role: Roles, task: Task, n_layers: int) -> dict[str, tuple[Tensor, Tensor]]:
    """Numerator (..., B, heads) and denominator (..., B) of each rate and mass in every sequence."""
    one, n_numbers = torch.ones_like(role.assigned[..., 0], dtype=torch.int64), role.assigned.sum(-1)
    slots = torch.tensor(operand_slots(task), device=one.device).expand_as(role.value_positions)
    rates, masses, prefix = {}, {}, task.prefix  # what is assigned is in the prefix, and so are the keys of its queries
    for layer in range(1, n_layers + 1):
        attention = trace.attention(layer)  # (..., B, heads, queries, T)
        from_equals = attention[..., -1, :]
        if layer < n_layers:
            name = f"l{layer}_equal_to_operands"
            rates[f"attn_{name}"], masses[f"mass_{name}"] = ((x, one) for x in _to_each(from_equals, slots))
            name = f"l{layer}_num_to_prev"
            to_previous = _to_previous(attention[..., :prefix, :prefix], role.assigned[..., :prefix])
            rates[f"attn_{name}"], masses[f"mass_{name}"] = ((x, n_numbers) for x in to_previous)
        if layer > 1 or n_layers == 1:
            name = f"l{layer}_equal_to_values"
            values = _to_each(from_equals, role.value_positions)
            rates[f"attn_{name}"], masses[f"mass_{name}"] = ((x, one) for x in values)
    return rates | masses


def _to_each(from_equals: Float[Tensor, "*M B heads T"], keys: Int[Tensor, "*M B k"]) -> tuple[Tensor, Tensor]:
    """Whether the k keys with the most attention of `=` are these, and their attention, (..., B, heads) each.

    Of keys with the same attention the first counts as the one with more. Attention that is NaN is no hit.
    """
    keys = keys.unsqueeze(-2).expand(*from_equals.shape[:-1], keys.shape[-1])
    if _is_compiled(from_equals):
        from assignadd.measures import numba_patterns

        hits, mass = numba_patterns.to_each(from_equals.flatten(0, -2), keys.flatten(0, -2))
        return hits.view(keys.shape[:-1]), mass.view(keys.shape[:-1])
    mass = from_equals.gather(-1, keys).sum(-1)
    return top_keys_are(from_equals, keys) & ~mass.isnan(), mass


def _to_previous(attention: Float[Tensor, "*M B heads P P"], numbers: Bool[Tensor, "*M B P"]) -> tuple[Tensor, Tensor]:
    """How many numbers attend most to the position before them, and their attention to it, (..., B, heads) each.

    Of keys with the same attention the first counts as the one with more. Attention that is NaN is no hit.
    """
    chosen = numbers.unsqueeze(-2).expand(attention.shape[:-1])  # (..., B, heads, P)
    if _is_compiled(attention):
        from assignadd.measures import numba_patterns

        hits, mass = numba_patterns.to_previous(attention.flatten(0, -3), chosen.flatten(0, -2))
        return hits.view(chosen.shape[:-1]), mass.view(chosen.shape[:-1])
    best, chosen = attention[..., 1:, :].max(-1).indices, chosen[..., 1:]
    previous = torch.arange(best.shape[-1], device=best.device)
    to_previous = attention.diagonal(-1, -2, -1)  # query t, key t - 1
    hits = (best == previous) & chosen & ~to_previous.isnan()
    return hits.sum(-1), to_previous.where(chosen, 0).sum(-1)


def _is_compiled(attention: Tensor) -> bool:
    """Whether compiled code counts the patterns."""
    return attention.device.type == "cpu" and attention.dtype == torch.float32 and find_spec("numba") is not None


def top_keys_are(attention: Float[Tensor, "*rows T"], positions: Int[Tensor, "*#rows k"]) -> Bool[Tensor, "*rows"]:
    """Whether the k keys with the most attention are these positions, one for each operand, in any order."""
    by_attention = attention.sort(stable=True, dim=-1, descending=True).indices
    return (by_attention[..., : positions.shape[-1]].sort(-1).values == positions.sort(-1).values).all(-1)


@needs(SECOND_LAYER)
def attn_l2_equal_to_value(stack: Stack, tokens: Int[Tensor, "#M B T"], slot: int) -> Float[Tensor, " M"]:
    """Share of sequences in which `=` attends to the value of one operand in layer 2 (section 6), of the best head.

    The value must be among the two keys with the most attention. `slot` is 0 for the first operand, 1 for the second.
    """
    top = trace_of(stack, tokens).attention(2)[..., -1, :].topk(2, -1).indices  # (M, B, heads, 2)
    value = roles(stack.config.task, tokens).value_positions[..., slot, None, None]  # (M, B, 1, 1)
    return (top == value).any(-1).float().mean(1).amax(-1)


@per_network(slow=True)
def routings_of(network: Network) -> dict[int, tuple[Routing, Routing]]:
    """By the number of variables: over any pairs and slots, and over the sequences that training could show."""
    found = {}
    for n_vars in network.types:
        tokens = any_sequences([network.config], network.seen[None], n_vars, network.n).tokens
        rows = as_in_training(network.config.task, network.seen[None], tokens)
        every, trained = routings(network.stack, tokens, [torch.ones_like(rows), rows])
        found[n_vars] = every, trained
    return found
