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
from assignadd.model.trace import Trace
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
    task = stack.config.task
    parts = [pattern_counts(trace_of(stack, part), roles(task, part), task) for part in tokens.split(CHUNK, 1)]
    rows = torch.stack(list(subsets), -1).to(stack.flat.dtype)  # (M, B, subsets)
    rates: dict[str, Tensor] = {}
    for name in parts[0]:
        hits = torch.cat([part[name].hits for part in parts], 1).to(rows.dtype)  # (M, B, heads)
        cases = torch.cat([part[name].cases for part in parts], 1).to(rows.dtype)  # (M, B)
        rates[name] = hits.mT @ rows / (cases.unsqueeze(1) @ rows)  # (M, heads, subsets)
    return [Routing({name: values[..., i] for name, values in rates.items()}) for i in range(len(subsets))]


class Counts(NamedTuple):
    """A pattern in every sequence: a rate is the sum of the hits divided by that of the cases."""

    hits: Tensor  # (..., B, heads): how often the keys with the most attention are right, or the attention to them
    cases: Tensor  # (..., B): out of how many


def pattern_counts(trace: Trace, role: Roles, task: Task) -> dict[str, Counts]:
    """The hits and cases of each rate and mass in every sequence."""
    once = torch.ones_like(role.assigned[..., 0], dtype=torch.int64)  # a sequence is one case
    slots = torch.tensor(operand_slots(task), device=once.device).expand_as(role.value_positions)
    rates: dict[str, Counts] = {}
    masses: dict[str, Counts] = {}

    def count(pattern: str, hits_and_mass: tuple[Tensor, Tensor], cases: Tensor) -> None:
        hits, mass = hits_and_mass
        rates[f"attn_{pattern}"] = Counts(hits, cases)
        masses[f"mass_{pattern}"] = Counts(mass, cases)

    n_layers, prefix = len(trace.patterns), task.prefix
    for layer in range(1, n_layers + 1):
        attention = trace.attention(layer)  # (..., B, heads, queries, T)
        from_equals = attention[..., -1, :]
        if layer < n_layers:
            count(f"l{layer}_equal_to_operands", _to_each(from_equals, slots), once)
            # What is assigned is in the prefix, and so are the keys of its queries.
            to_previous = _to_previous(attention[..., :prefix, :prefix], role.assigned[..., :prefix])
            count(f"l{layer}_num_to_prev", to_previous, role.assigned.sum(-1))
        if layer > 1 or n_layers == 1:
            count(f"l{layer}_equal_to_values", _to_each(from_equals, role.value_positions), once)
    return rates | masses


def _to_each(from_equals: Float[Tensor, "*M B heads T"], keys: Int[Tensor, "*#M B k"]) -> tuple[Tensor, Tensor]:
    """Whether the k keys with the most attention of `=` are these, and their attention, (..., B, heads) each.

    Of keys with the same attention the first counts as the one with more. Attention that is NaN is no hit.
    """
    keys = keys.unsqueeze(-2).expand(*from_equals.shape[:-1], keys.shape[-1])
    mass = from_equals.gather(-1, keys).sum(-1)
    return top_keys_are(from_equals, keys) & ~mass.isnan(), mass


def _to_previous(attention: Float[Tensor, "*M B heads P P"], numbers: Bool[Tensor, "*#M B P"]) -> tuple[Tensor, Tensor]:
    """How many numbers attend most to the position before them, and their attention to it, (..., B, heads) each.

    Of keys with the same attention the first counts as the one with more. Attention that is NaN is no hit.
    """
    is_number = numbers.unsqueeze(-2)[..., 1:]  # (..., B, 1, P - 1); the first position is none
    best = attention[..., 1:, :].max(-1).indices
    previous = torch.arange(best.shape[-1], device=best.device)
    to_previous = attention.diagonal(-1, -2, -1)  # query t, key t - 1
    hits = (best == previous) & is_number & ~to_previous.isnan()
    return hits.sum(-1), to_previous.where(is_number, 0).sum(-1)


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


class AttentionRates:
    """Columns with the rates, and with `masses` the masses, of every model, on `n` sequences of each type.

    A column's name ends in the type: `(1-var)` for all its sequences, `(1-var, training law)` for those that training
    could contain.
    """

    def __init__(
        self,
        configs: Sequence[Config],
        seen: Bool[Tensor, "M ..."],
        types: Sequence[int],
        n: int,
        masses: bool = False,
    ):
        self.masses = masses
        self.tokens = torch.cat([any_sequences(configs, seen, n_vars, n).tokens for n_vars in types], 1)
        as_trained = as_in_training(configs[0].task, seen, self.tokens)  # (M, B), with n sequences of each type
        self.subsets: dict[str, Tensor] = {}
        for i, n_vars in enumerate(types):
            of_type = torch.zeros_like(as_trained)
            of_type[:, i * n : (i + 1) * n] = True
            self.subsets[f"{n_vars}-var"] = of_type
            self.subsets[f"{n_vars}-var, {TRAINING_LAW}"] = of_type & as_trained

    def __call__(self, stack: Stack) -> dict[str, Float[Tensor, " M"]]:
        columns: dict[str, Tensor] = {}
        of_subsets = routings(stack, self.tokens, list(self.subsets.values()))
        for types, rates in zip(self.subsets, of_subsets, strict=True):
            columns |= rates.columns(types)
        return {name: column for name, column in columns.items() if self.masses or name.startswith("attn_")}


@per_network(slow=True)
def routings_of(network: Network) -> dict[int, tuple[Routing, Routing]]:
    """By the number of variables: over any pairs and slots, and over the sequences that training could show."""
    by_type = {}
    for n_vars in network.types:
        tokens = any_sequences([network.config], network.seen[None], n_vars, network.n).tokens
        rows = as_in_training(network.config.task, network.seen[None], tokens)
        every, trained = routings(network.stack, tokens, [torch.ones_like(rows), rows])
        by_type[n_vars] = every, trained
    return by_type
