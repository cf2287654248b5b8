"""Edits of activations at named hook points that carry out a specification, for one model and one batch.

Activations have the layout of the reference transformer: (B, T, d) in the residual stream, (B, heads, queries, keys) in
attention. The outputs of heads (`hook_z`) are edited as (B, heads, T, d_head). After its last attention layer a forward
pass may compute only the last position. The activation then has one row, and masks and recorded activations are cut to
the same last rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from assignadd.config import ConfigError
from assignadd.interventions.specification import Cut, Intervention, Pattern, Replace, Swap
from assignadd.measures.addition import at_frequencies, circuit_waves
from assignadd.model.stack import Stack
from assignadd.task.positions import SINGLE_ROLES, Positions
from assignadd.task.randomness import Stream, permutation
from assignadd.task.text import parse

# The outputs of each head: positions come before heads there.
HEAD_OUTPUT = "attn.hook_z"
Forward = Callable[[Tensor, "Edits"], Tensor]
Edit = Callable[[Tensor], Tensor]


class Edits:
    """The functions that change the activation at each hook, in the order in which they are applied."""

    def __init__(self, *pairs: tuple[str, Edit]):
        self.at: dict[str, list[Edit]] = {}
        for hook, edit in pairs:
            self.add(hook, edit)

    def add(self, hook: str, edit: Edit) -> None:
        self.at.setdefault(hook, []).append(edit)

    def __call__(self, hook: str, activation: Tensor) -> Tensor:
        for edit in self.at.get(hook, ()):
            activation = edit(activation)
        return activation


def rows(mask: Bool[Tensor, "B T"], activation: Tensor) -> Bool[Tensor, "..."]:
    """A mask over positions (over queries, for attention) in a shape that broadcasts with this activation."""
    last = mask[:, mask.shape[1] - activation.shape[-2] :]
    return last[:, None, :, None] if activation.dim() == 4 else last[:, :, None]


def last_rows(value: Tensor, activation: Tensor) -> Tensor:
    """The last rows of a recorded activation, as many as `activation` has."""
    return value[..., value.shape[-2] - activation.shape[-2] :, :]


def _by_heads(edit: Edit) -> Edit:
    """An edit of (B, heads, T, d_head) as one of (B, T, heads, d_head)."""
    return lambda activation: edit(activation.transpose(1, 2)).transpose(1, 2)


class EditBuilder:
    """Builds the edits for one model; means and resampled activations come from its pass over a reference set."""

    def __init__(self, one: Stack, forward: Forward, reference: Int[Tensor, "R T"]):
        self.one, self.forward, self.reference, self.task = one, forward, reference, one.config.task
        self._on_reference: dict[object, Tensor] = {}

    def edits(self, tokens: Int[Tensor, "B T"], interventions: Sequence[Intervention], first_row: int = 0) -> Edits:
        """The edits for these sequences, which begin at row `first_row` of a larger batch."""
        positions, found, n_layers = Positions(self.task, tokens), Edits(), self.one.config.model.n_layers
        cuts = [one for one in interventions if isinstance(one, Cut)]
        for one in interventions:
            if isinstance(one, Cut | Pattern) and one.layer > n_layers:
                raise ConfigError("layer", one.layer, f"a layer from 1 to {n_layers}")
        for layer, head in dict.fromkeys((one.layer, one.head) for one in cuts):
            together = [one for one in cuts if (one.layer, one.head) == (layer, head)]
            for hook, edit in zip(("hook_attn_scores", "hook_pattern"), _cut(together, positions), strict=True):
                found.add(f"blocks.{layer - 1}.attn.{hook}", self._on_head(head, edit))
        for one in interventions:
            if isinstance(one, Pattern):
                found.add(
                    f"blocks.{one.layer - 1}.attn.hook_pattern", self._on_head(one.head, _set_row(one, positions))
                )
            elif isinstance(one, Replace):
                edit = self._on_head(one.head, self._replacement(one, positions, first_row))
                found.add(one.hook, _by_heads(edit) if one.hook.endswith(HEAD_OUTPUT) else edit)
        return found

    def _on_head(self, head: int | None, edit: Edit) -> Edit:
        """The edit restricted to one head of an activation (B, heads, queries, keys); unchanged if `head` is None."""
        n_heads = self.one.config.model.n_heads
        if head is None:
            return edit
        if head >= n_heads:
            raise ConfigError("head", head, f"a head from 0 to {n_heads - 1}")
        here = (torch.arange(n_heads, device=self.one.flat.device) == head).view(1, -1, 1, 1)
        return lambda activation: torch.where(here, edit(activation), activation)

    def _replacement(self, one: Replace, positions: Positions, first_row: int) -> Edit:
        """The edit that replaces an activation at some positions, for some neurons or frequencies."""
        where = positions.any_of(one.positions)
        value, where = self._value(one, positions, where, first_row)
        if one.hook == "hook_embed" and one.frequencies is not None:
            own = self._components(one.frequencies)[positions.tokens]
            return lambda activation: torch.where(rows(where, activation), activation + value - own, activation)
        chosen = self._neurons(one)

        def edit(activation: Tensor) -> Tensor:
            there = rows(where, activation)
            return torch.where(there if chosen is None else there & chosen, last_rows(value, activation), activation)

        return edit

    def _value(self, one: Replace, positions: Positions, where: Tensor, first_row: int) -> tuple[Tensor, Tensor]:
        """The replacement, with rows for all T positions or for the last one, and the mask of replaced positions."""
        if one.action == "zero":
            return self.one.flat.new_zeros(1, self.task.length, 1), where
        if one.action == "patch":
            return self._patched(one, positions, where)
        recorded = self._of_reference(one)  # (R, ...)
        if one.action == "mean":
            return recorded.mean(0, keepdim=True), where
        order = shuffled(len(recorded))
        return recorded[order[(first_row + torch.arange(len(positions.tokens))) % len(order)]], where

    def _patched(self, one: Replace, positions: Positions, where: Tensor) -> tuple[Tensor, Tensor]:
        """The activation on the source prompt, and the mask of replaced positions.

        A role of a single token takes the source's activation at the token with that role, and is not replaced if the
        source has no such token, which is an error where nothing else would be. All other roles and positions take the
        activation at the same position.
        """
        tokens = torch.tensor([parse(one.source or "", self.task)], device=positions.tokens.device)
        source, value = Positions(self.task, tokens), self._recorded(one, tokens)
        shifted = value.expand(len(positions.tokens), *value.shape[1:])
        places = one.positions or ()
        if places and all(p in SINGLE_ROLES and int(source.position(str(p))) < 0 for p in places):
            raise ConfigError("source", one.source, f"a prompt that has {' or '.join(map(str, places))}")
        for role in [p for p in places if p in SINGLE_ROLES]:
            at, own = int(source.position(str(role))), positions.mask(role)
            if at < 0:
                where = where & ~own
            elif value.shape[-2] == self.task.length:
                shifted = torch.where(rows(own, shifted), value[..., at : at + 1, :], shifted)
        return shifted, where

    def _of_reference(self, one: Replace) -> Tensor:
        """The activations on the reference set, stored after the first call."""
        key = (one.hook, one.frequencies if one.hook == "hook_embed" else None)
        if key not in self._on_reference:
            self._on_reference[key] = self._recorded(one, self.reference)
        return self._on_reference[key]

    def _recorded(self, one: Replace, tokens: Int[Tensor, "B T"]) -> Tensor:
        """The unedited model's activation at the hook, or the chosen Fourier components of its embeddings."""
        if one.hook == "hook_embed" and one.frequencies is not None:
            return self._components(one.frequencies)[tokens]
        recorded: list[Tensor] = []

        def record(activation: Tensor) -> Tensor:
            recorded.append(activation)
            return activation

        self.forward(tokens, Edits((one.hook, record)))
        return recorded[0].transpose(1, 2) if one.hook.endswith(HEAD_OUTPUT) else recorded[0]

    def _components(self, frequencies: tuple[int, ...]) -> Float[Tensor, "K d"]:
        """The part of each number's embedding at these frequencies; zero for the other tokens."""
        N, components = self.task.modulus, torch.zeros_like(self.one.W_E[0])
        components[:N] = at_frequencies(self.one.W_E[:, :N], self._frequency_mask(frequencies))[0]
        return components

    def _neurons(self, one: Replace) -> Bool[Tensor, " h"] | None:
        """Which neurons are replaced; None for all of them, or for a hook that is not at the neurons."""
        if one.neurons is None and one.frequencies is None:
            return None
        h = self.one[f"{one.hook.rsplit('.', 1)[0]}.W_in"].shape[-1]
        chosen = torch.ones(h, dtype=torch.bool, device=self.one.flat.device)
        if one.neurons is not None:
            if max(one.neurons) >= h:
                raise ConfigError("neurons", list(one.neurons), f"neurons from 0 to {h - 1}")
            chosen &= torch.isin(torch.arange(h, device=chosen.device), torch.tensor(one.neurons, device=chosen.device))
        if one.frequencies is not None:
            chosen &= self._frequency_mask(one.frequencies)[circuit_waves(self.one).frequency[0] - 1]
        if not chosen.any():
            raise ConfigError("frequencies", list(one.frequencies or ()), "frequencies that some chosen neuron has")
        return chosen

    def _frequency_mask(self, frequencies: tuple[int, ...]) -> Bool[Tensor, " F"]:
        """A mask of these frequencies, where entry k - 1 is frequency k."""
        most = self.task.modulus // 2
        if max(frequencies) > most:
            raise ConfigError("frequencies", list(frequencies), f"frequencies from 1 to {most}")
        mask = torch.zeros(most, dtype=torch.bool, device=self.one.flat.device)
        mask[[k - 1 for k in frequencies]] = True
        return mask


def matches(one: Intervention, positions: Positions) -> bool:
    """Whether there is anything in these sequences that an intervention acts on."""
    if isinstance(one, Cut):
        edges = positions.mask(one.query)[:, :, None] & positions.mask(one.key)[:, None]
        return bool(edges.tril().any())  # no query attends to a later key
    if isinstance(one, Pattern):
        return bool(positions.mask(one.query).any())
    return isinstance(one, Swap) or bool(positions.any_of(one.positions).any())


def shuffled(n: int) -> Int[Tensor, " {n}"]:
    """A fixed random permutation of n rows."""
    return permutation(n, Stream.ORDER, 0)


def _cut(cuts: Sequence[Cut], positions: Positions) -> tuple[Edit, Edit]:
    """Two edits: one removes these edges from the scores, the other zeroes the pattern of queries without keys."""
    T = positions.task.length
    removed = torch.zeros(*positions.tokens.shape, T, dtype=torch.bool, device=positions.tokens.device)
    for one in cuts:
        removed |= positions.mask(one.query)[:, :, None] & positions.mask(one.key)[:, None]
    future = torch.ones(T, T, dtype=torch.bool, device=removed.device).triu(1)
    without_keys = (removed | future).all(-1)  # (B, T)
    return (
        lambda scores: scores.masked_fill(last_rows(removed, scores)[:, None], -math.inf),
        lambda pattern: pattern.masked_fill(rows(without_keys, pattern), 0.0),
    )


def _set_row(one: Pattern, positions: Positions) -> Edit:
    """The edit that sets a query's attention to these weights; weights of one position add up, later keys get zero."""
    query = positions.mask(one.query)
    row = sum(
        (weight * positions.mask(key).float() for key, weight in one.weights.items()),
        torch.zeros(positions.tokens.shape),
    )

    def edit(pattern: Tensor) -> Tensor:
        causal = torch.ones(pattern.shape[-1], pattern.shape[-1], device=pattern.device).tril()[-pattern.shape[-2] :]
        return torch.where(rows(query, pattern), row.to(pattern)[:, None, None] * causal, pattern)

    return edit
