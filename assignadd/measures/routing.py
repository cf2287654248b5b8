"""Rates and masses of the attention patterns that the circuit needs (paper, figure attention; App. B).

A rate is the share of cases in which the keys with the most attention are the right ones, a mass is the attention that
these keys get. The sequences add any pair of values with variables in any slot, as the paper's plateaus of 80 to 99 %
(App. B) are due to variables in banned slots. Rates on the subset that training could contain are measured beside them.

The patterns, in a network with any number of layers and heads (`{layer}` counts from 1):

    l{layer}_equal_to_operands  from `=` to the operand slots, in every layer but the last
    l{layer}_num_to_prev        from an assigned number to the position before it, in every layer but the last
    l{layer}_equal_to_values    from `=` to the values of the operands, in every layer but the first of several

The value of a layer is that of its best head: the one with the highest rate or mass on the same sequences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from assignadd.config import Config, Task
from assignadd.measures.sequences import any_sequences
from assignadd.model.architecture import SECOND_LAYER, needs
from assignadd.model.forward import CHUNK
from assignadd.model.forward import trace as trace_of
from assignadd.model.stack import Stack
from assignadd.network import Network, per_network
from assignadd.task.positions import Roles, as_in_training, operand_slots, roles

# The subset of the sequences that training could contain: seen pairs, no variable in a banned slot.
TRAINING_LAW = "training law"


@dataclass(frozen=True)
class Routing:
    """Rates (`attn_...`) and masses (`mass_...`) of the attention patterns over a set of sequences, for each model."""

    by_head: Mapping[str, Float[Tensor, "M heads"]]

    def __getitem__(self, name: str) -> Float[Tensor, " M"]:
        """The rate or mass of the best head of its layer."""
        return self.by_head[name].amax(1)

    def columns(self, subset: str) -> dict[str, Float[Tensor, " M"]]:
        """Columns by name, which ends in `subset`, such as `1-var`: of each pattern, and of each head if several."""
        columns = {f"{name} ({subset})": self[name] for name in self.by_head}
        for name, values in self.by_head.items():
            if values.shape[1] > 1:
                columns |= {f"{name} ({subset}, head {head})": rates for head, rates in enumerate(values.T)}
        return columns


def routings(
    stack: Stack, tokens: Int[Tensor, "#M B T"], subsets: Sequence[Bool[Tensor, "#M B"]], one_by_one: bool = False
) -> list[Routing]:
    """Rates and masses of the attention patterns on several subsets (masks) of the sequences, from one forward pass.

    With `one_by_one`, a CPU computes the attention of one model at a time, so that no model changes another's digits.
    """
    task = stack.config.task
    chunks: list[dict[str, Counts]] = []  # of each chunk of sequences the counts by pattern
    for chunk in tokens.split(CHUNK, 1):
        patterns = _patterns_one_by_one(stack, chunk) if one_by_one else trace_of(stack, chunk).patterns
        chunks.append(pattern_counts(patterns, roles(task, chunk), task))
    is_in_subset = torch.stack(list(subsets), -1).to(stack.flat.dtype)  # (M, B, subsets): 1 or 0
    values: dict[str, Tensor] = {}
    # The first word of a column's name, and the field of `Counts` that it is computed from.
    for kind, quantity in (("attn", "hits"), ("mass", "mass")):
        for pattern in chunks[0]:
            counted = torch.cat([getattr(counts[pattern], quantity) for counts in chunks], 1)  # (M, B, heads)
            cases = torch.cat([counts[pattern].cases for counts in chunks], 1)  # (M, B)
            # The products with a mask are sums over its sequences.
            sums = counted.to(is_in_subset.dtype).mT @ is_in_subset  # (M, heads, subsets)
            n_cases = cases.to(is_in_subset.dtype).unsqueeze(1) @ is_in_subset  # (M, 1, subsets)
            values[f"{kind}_{pattern}"] = sums / n_cases
    return [Routing({name: by_subset[..., i] for name, by_subset in values.items()}) for i in range(len(subsets))]


def _patterns_one_by_one(stack: Stack, tokens: Int[Tensor, "M B T"]) -> list[Float[Tensor, "M B heads queries T"]]:
    """Attention of every layer (`Trace.patterns`), computed for one of `stack.parts` after the other."""
    patterns_of_parts = [trace_of(models, tokens[part]).patterns for part, models in stack.parts]
    return [torch.cat(of_layer) for of_layer in zip(*patterns_of_parts, strict=True)]


class Counts(NamedTuple):
    """Counts of a pattern in every sequence, from which rates and masses follow.

    A rate is the sum of `hits` divided by that of `cases`, over sequences; a mass is the sum of `mass` divided by it.
    """

    hits: Tensor  # (..., B, heads): the number of cases in which the keys with the most attention are the right ones
    mass: Tensor  # (..., B, heads): the attention to the right keys, added up over the cases
    cases: Tensor  # (..., B): 1 for `=`, the number of assigned numbers for a pattern of these


def pattern_counts(
    patterns: Sequence[Float[Tensor, "*M B heads queries T"]], role: Roles, task: Task
) -> dict[str, Counts]:
    """The counts of each pattern, by its name; `patterns` are the attention of every layer (`Trace.patterns`)."""
    one_case = torch.ones_like(role.assigned[..., 0], dtype=torch.int64)  # (..., B): a sequence has one `=`
    values = role.value_positions  # (..., B, k), of the operands
    slots = torch.tensor(operand_slots(task), device=one_case.device).expand_as(values)
    counts: dict[str, Counts] = {}
    n_layers, prefix = len(patterns), task.prefix
    for layer, attention in enumerate(patterns, 1):  # (..., B, heads, queries, T)
        from_equals = attention[..., -1, :]  # (..., B, heads, T)
        if layer < n_layers:
            hits, mass = _to_each(from_equals, slots)
            counts[f"l{layer}_equal_to_operands"] = Counts(hits, mass, one_case)
            # Assigned numbers, of which `role.assigned` is the mask (..., B, T), are in the prefix.
            hits, mass = _to_previous(attention[..., :prefix, :prefix], role.assigned[..., :prefix])
            counts[f"l{layer}_num_to_prev"] = Counts(hits, mass, role.assigned.sum(-1))
        if layer > 1 or n_layers == 1:
            hits, mass = _to_each(from_equals, values)
            counts[f"l{layer}_equal_to_values"] = Counts(hits, mass, one_case)
    return counts


def _to_each(from_equals: Float[Tensor, "*M B heads T"], keys: Int[Tensor, "*#M B k"]) -> tuple[Tensor, Tensor]:
    """Whether the k keys with the most attention of `=` are `keys` (False for NaN), and the attention to them.

    Both are (..., B, heads). Of keys with the same attention the first counts as the one with more.
    """
    keys = keys.unsqueeze(-2).expand(*from_equals.shape[:-1], keys.shape[-1])
    mass = from_equals.gather(-1, keys).sum(-1)
    return top_keys_are(from_equals, keys) & ~mass.isnan(), mass


def _to_previous(attention: Float[Tensor, "*M B heads P P"], numbers: Bool[Tensor, "*#M B P"]) -> tuple[Tensor, Tensor]:
    """How many numbers attend most to the position before them (none where that is NaN), and their attention to it.

    Both are (..., B, heads). Of keys with the same attention the first counts as the one with more.
    """
    is_number = numbers.unsqueeze(-2)[..., 1:]  # (..., B, 1, P - 1); no number is assigned at the first position
    best = attention[..., 1:, :].max(-1).indices  # (..., B, heads, P - 1), from query 1 on
    previous = torch.arange(best.shape[-1], device=best.device)  # 0 for query 1, and so on
    to_previous = attention.diagonal(-1, -2, -1)  # query t, key t - 1
    hits = (best == previous) & is_number & ~to_previous.isnan()
    return hits.sum(-1), to_previous.where(is_number, 0).sum(-1)


def top_keys_are(attention: Float[Tensor, "*rows T"], positions: Int[Tensor, "*#rows k"]) -> Bool[Tensor, "*rows"]:
    """Whether the k keys with the most attention in a row are the k positions given for it, in any order."""
    k = positions.shape[-1]
    by_attention = attention.sort(stable=True, dim=-1, descending=True).indices
    top_keys = by_attention[..., :k].sort(-1).values
    return (top_keys == positions.sort(-1).values).all(-1)


@needs(SECOND_LAYER)
def attn_l2_equal_to_value(stack: Stack, tokens: Int[Tensor, "#M B T"], slot: int) -> Float[Tensor, " M"]:
    """Share of sequences with the value of operand `slot` (0 or 1) among the top two keys of `=` in layer 2."""
    from_equals = trace_of(stack, tokens).attention(2)[..., -1, :]  # (M, B, heads, T)
    top_keys = from_equals.topk(2, -1).indices  # (M, B, heads, 2)
    value_position = roles(stack.config.task, tokens).value_positions[..., slot, None, None]  # (M, B, 1, 1)
    rate = (top_keys == value_position).any(-1).float().mean(1)  # (M, heads)
    return rate.amax(-1)


class AttentionRates:
    """Measures the rates, and with `masses` the masses, of every model, on `n` sequences of each type.

    A type is a number of variables. A column's name ends in it: `(1-var)` for all its sequences,
    `(1-var, training law)` for those that training could contain.
    """

    def __init__(
        self, configs: Sequence[Config], seen: Bool[Tensor, "M ..."], types: Sequence[int], n: int, masses: bool = False
    ):
        self.masses = masses
        # The sequences of all types one after the other, so that one forward pass is enough.
        self.tokens = torch.cat([any_sequences(configs, seen, n_vars, n).tokens for n_vars in types], 1)  # (M, B, T)
        could_be_trained = as_in_training(configs[0].task, seen, self.tokens)  # (M, B)
        self.subsets: dict[str, Tensor] = {}  # masks (M, B), by what a column's name says of them
        for i, n_vars in enumerate(types):
            is_of_type = torch.zeros_like(could_be_trained)
            is_of_type[:, i * n : (i + 1) * n] = True
            self.subsets[f"{n_vars}-var"] = is_of_type
            self.subsets[f"{n_vars}-var, {TRAINING_LAW}"] = is_of_type & could_be_trained

    def __call__(self, stack: Stack, one_by_one: bool = False) -> dict[str, Float[Tensor, " M"]]:
        """The columns of the models of a stack, by name; `one_by_one` as in `routings`."""
        columns: dict[str, Tensor] = {}
        of_subsets = routings(stack, self.tokens, list(self.subsets.values()), one_by_one)
        for subset, of_subset in zip(self.subsets, of_subsets, strict=True):
            columns |= of_subset.columns(subset)
        # Names of rates begin with `attn_`, those of masses with `mass_`.
        return {name: column for name, column in columns.items() if self.masses or name.startswith("attn_")}


@per_network(slow=True)
def routing_columns(network: Network) -> dict[str, Tensor]:
    """The rates and masses over a network's sequences of each type, by column (`AttentionRates`)."""
    columns: dict[str, Tensor] = {}
    for n_vars in network.types:
        rates_of = AttentionRates([network.config], network.seen[None], [n_vars], network.n, masses=True)
        columns |= rates_of(network.stack)
    return columns
