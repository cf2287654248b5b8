"""From a specification to edits of activations at named hook points, for one model and one batch.

Activations have the layout of the reference transformer: (B, T, d) in the residual stream, (B, heads, queries, keys) in
attention. Where a pass computes the last position alone, an activation has that row alone, and masks are read from the
end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from assignadd.config import ConfigError
from assignadd.interventions.specification import Cut, Intervention, Pattern, Replace
from assignadd.measures.fourier import circuit_waves, kept
from assignadd.model.stack import Stack
from assignadd.task.randomness import Stream, permutation
from assignadd.task.roles import SINGLE_ROLES, Positions
from assignadd.task.text import parse

Forward = Callable[[Tensor, "Edits"], Tensor]
Edit = Callable[[Tensor], Tensor]


class Edits:
    """For each hook the functions that change its activation, one after another."""

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


class Record:
    """Keeps what it sees and changes nothing."""

    def __init__(self) -> None:
        self.seen: Tensor | None = None

    def __call__(self, activation: Tensor) -> Tensor:
        self.seen = activation
        return activation

    @property
    def value(self) -> Tensor:
        assert self.seen is not None, "the pass did not come by this hook"
        return self.seen


def rows(mask: Bool[Tensor, "B T"], activation: Tensor) -> Bool[Tensor, "..."]:
    """A mask over positions (queries, in attention) that broadcasts over this activation."""
    last = mask[:, mask.shape[1] - activation.shape[-2] :]
    return last[:, None, :, None] if activation.dim() == 4 else last[:, :, None]


def last_rows(value: Tensor, activation: Tensor) -> Tensor:
    """The rows of a recorded activation that this one has."""
    return value[..., value.shape[-2] - activation.shape[-2] :, :]


class EditBuilder:
    """Edits of one model's activations; what they refer to are its own activations, and those on a reference set (R,
    T)."""

    def __init__(self, one: Stack, forward: Forward, reference: Int[Tensor, "R T"]):
        self.one, self.forward, self.reference, self.task = one, forward, reference, one.config.task
        self._on_reference: dict[object, Tensor] = {}

    def edits(self, tokens: Int[Tensor, "B T"], interventions: Sequence[Intervention], first_row: int = 0) -> Edits:
        """The changes for these sequences, the first of which is row `first_row` of its batch."""
        positions, found = Positions(self.task, tokens), Edits()
        cuts = [one for one in interventions if isinstance(one, Cut)]
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
                found.add(one.hook, self._on_head(one.head, self._replacement(one, positions, first_row)))
        return found

    def _on_head(self, head: int | None, edit: Edit) -> Edit:
        """The same change in one head alone; activations (B, heads, queries, keys)."""
        n_heads = self.one.config.model.n_heads
        if head is None:
            return edit
        if head >= n_heads:
            raise ConfigError("head", head, f"a head from 0 to {n_heads - 1}")
        here = (torch.arange(n_heads, device=self.one.flat.device) == head).view(1, -1, 1, 1)
        return lambda activation: torch.where(here, edit(activation), activation)

    def _replacement(self, one: Replace, positions: Positions, first_row: int) -> Edit:
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
        """What the activation is replaced with, and where; rows of T positions, or of the last alone."""
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
        """A role of one token takes the source's activation at its own such token (none where it has none), others that
        at the same position."""
        tokens = torch.tensor([parse(one.source or "", self.task)], device=positions.tokens.device)
        source, value = Positions(self.task, tokens), self._recorded(one, tokens)
        shifted = value.expand(len(positions.tokens), *value.shape[1:])
        for role in [p for p in one.positions or () if p in SINGLE_ROLES]:
            at, own = int(source.position(str(role))), positions.mask(role)
            if at < 0:
                where = where & ~own
            elif value.shape[-2] == self.task.length:
                shifted = torch.where(rows(own, shifted), value[..., at : at + 1, :], shifted)
        return shifted, where

    def _of_reference(self, one: Replace) -> Tensor:
        key = (one.hook, one.frequencies if one.hook == "hook_embed" else None)
        if key not in self._on_reference:
            self._on_reference[key] = self._recorded(one, self.reference)
        return self._on_reference[key]

    def _recorded(self, one: Replace, tokens: Int[Tensor, "B T"]) -> Tensor:
        """The activation (or the component of the embedding) that the unchanged model has there."""
        if one.hook == "hook_embed" and one.frequencies is not None:
            return self._components(one.frequencies)[tokens]
        record = Record()
        self.forward(tokens, Edits((one.hook, record)))
        return record.value

    def _components(self, frequencies: tuple[int, ...]) -> Float[Tensor, "K d"]:
        """What each number's embedding has in these frequencies; nothing for the other tokens."""
        keep, N = self._frequency_mask(frequencies), self.task.modulus
        numbers = self.one.W_E[:, :N]
        found = torch.zeros_like(self.one.W_E[0])
        found[:N] = (kept(numbers, keep) - numbers.mean(1, keepdim=True))[0]
        return found

    def _neurons(self, one: Replace) -> Bool[Tensor, " h"] | None:
        if one.neurons is None and one.frequencies is None:
            return None
        h = self.one["blocks.1.mlp.W_in"].shape[-1]
        chosen = torch.ones(h, dtype=torch.bool, device=self.one.flat.device)
        if one.neurons is not None:
            if max(one.neurons) >= h:
                raise ConfigError("neurons", list(one.neurons), f"neurons from 0 to {h - 1}")
            chosen &= torch.isin(torch.arange(h, device=chosen.device), torch.tensor(one.neurons, device=chosen.device))
        if one.frequencies is not None:
            keep = self._frequency_mask(one.frequencies)
            chosen &= keep[circuit_waves(self.one).frequency[0] - 1]
        return chosen

    def _frequency_mask(self, frequencies: tuple[int, ...]) -> Bool[Tensor, " K"]:
        most = self.task.modulus // 2
        if max(frequencies) > most:
            raise ConfigError("frequencies", list(frequencies), f"frequencies from 1 to {most}")
        mask = torch.zeros(most, dtype=torch.bool, device=self.one.flat.device)
        mask[[k - 1 for k in frequencies]] = True
        return mask


def shuffled(n: int) -> Int[Tensor, " {n}"]:
    """A fixed permutation of n rows."""
    return permutation(n, Stream.ORDER, 0)


def _cut(cuts: Sequence[Cut], positions: Positions) -> tuple[Edit, Edit]:
    """Scores without these edges; and where a query has none left, a row of zeros: it attends nowhere."""
    T = positions.task.length
    gone = torch.zeros(*positions.tokens.shape, T, dtype=torch.bool, device=positions.tokens.device)
    for one in cuts:
        gone |= positions.mask(one.query)[:, :, None] & positions.mask(one.key)[:, None]
    future = torch.ones(T, T, dtype=torch.bool, device=gone.device).triu(1)
    alone = (gone | future).all(-1)  # (B, T)
    return (
        lambda scores: scores.masked_fill(last_rows(gone, scores)[:, None], -math.inf),
        lambda pattern: pattern.masked_fill(rows(alone, pattern), 0.0),
    )


def _set_row(one: Pattern, positions: Positions) -> Edit:
    """The row of a query set to these weights, with no look ahead; weights that fall on one position add up."""
    query = positions.mask(one.query)
    row = sum(
        (weight * positions.mask(key).float() for key, weight in one.weights.items()),
        torch.zeros(positions.tokens.shape),
    )

    def edit(pattern: Tensor) -> Tensor:
        causal = torch.ones(pattern.shape[-1], pattern.shape[-1], device=pattern.device).tril()[-pattern.shape[-2] :]
        return torch.where(rows(query, pattern), row.to(pattern)[:, None, None] * causal, pattern)

    return edit
