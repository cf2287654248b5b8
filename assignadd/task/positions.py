"""Where the token of a role is in each sequence, as masks over positions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from assignadd.config import ConfigError, Task
from assignadd.task.roles import Roles, fixed_positions, roles
from assignadd.task.vocabulary import Vocabulary

if TYPE_CHECKING:
    from jaxtyping import Bool, Int


# Roles that are one token at most, and roles that many tokens may have.
SINGLE_ROLES = ("equals", "plus", "first", "second", "first_value", "second_value", "first_variable", "second_variable")
ROLES = (*SINGLE_ROLES, "assigned", "variables", "distractors", "pads")
Place = str | int
"""A role, or a position counted from 0."""


class Positions:
    """The positions of every role in a batch of sequences, tokens (B, T)."""

    def __init__(self, task: Task, tokens: Int[Tensor, "B T"]):
        self.task, self.tokens = task, tokens
        self.vocabulary = Vocabulary(task)
        self.roles: Roles = roles(task, tokens)
        self._at = torch.arange(task.length, device=tokens.device)

    def mask(self, place: Place) -> Bool[Tensor, "B T"]:
        """True where a sequence has this role, or at this position; nowhere where it has no such token."""
        if isinstance(place, int) or place.isdecimal():
            if int(place) >= self.task.length:
                raise ConfigError("position", place, f"0 to {self.task.length - 1}")
            return (self._at == int(place)).expand(self.tokens.shape)
        if place in SINGLE_ROLES:
            return self._at == self.position(place).unsqueeze(1)
        assigned = self.roles.assigned
        if place == "assigned":
            return assigned
        if place == "distractors":
            return assigned & ~self.mask("first_value") & ~self.mask("second_value")
        if place == "pads":
            return self.tokens == self.vocabulary.pad
        return (self.tokens >= self.vocabulary.first_variable) & (self._at < self.task.prefix)  # variables

    def position(self, role: str) -> Int[Tensor, " B"]:
        """Where the one token of a single role stands; -1 where a sequence has none (the variable of a literal operand)."""
        fixed = fixed_positions(self.task)
        if role in fixed:
            return torch.full_like(self.tokens[:, 0], fixed[role])
        operand = int(role.startswith("second"))
        value = self.roles.value_positions[:, operand]
        return value if role.endswith("_value") else torch.where(self.roles.is_variable[:, operand], value - 1, -1)

    def any_of(self, places: tuple[Place, ...] | None) -> Bool[Tensor, "B T"]:
        """Every position that one of these names; all where None."""
        found = torch.full(self.tokens.shape, places is None, device=self.tokens.device)
        for place in places or ():
            found = found | self.mask(place)
        return found
