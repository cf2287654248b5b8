"""The role of each token of a sequence (operator, operands, their values, assigned numbers), and its answer."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from assignadd.config import ConfigError, Task
from assignadd.task.arithmetic import answer_of, pair_code
from assignadd.task.vocabulary import Vocabulary


@dataclass(frozen=True)
class Roles:
    """The operands of each sequence and the assigned numbers."""

    value_positions: Int[Tensor, "*M B 2"]
    """The position of each operand's value: after its variable in the prefix, or the operand slot of a literal."""
    values: Int[Tensor, "*M B 2"]
    is_variable: Bool[Tensor, "*M B 2"]
    assigned: Bool[Tensor, "*M B T"]
    """A mask of the numbers in the prefix, each assigned to the variable before it."""


def fixed_positions(task: Task) -> dict[str, int]:
    """The positions of the roles that are the same in every sequence (12 to 15 in the paper)."""
    return {role: task.prefix + i for i, role in enumerate(("plus", "first", "second", "equals"))}


def operand_slots(task: Task) -> tuple[int, int]:
    """Positions of the first and second operand (13 and 14 in the paper)."""
    fixed = fixed_positions(task)
    return fixed["first"], fixed["second"]


def roles(task: Task, tokens: Int[Tensor, "*M B T"]) -> Roles:
    """The roles of the tokens of every sequence."""
    slots = torch.tensor(operand_slots(task), device=tokens.device)
    operands = tokens[..., slots]  # (..., B, 2)
    is_variable = operands >= Vocabulary(task).first_variable
    matches = tokens[..., None, : task.prefix] == operands[..., None]  # (..., B, 2, prefix)
    positions = torch.where(is_variable, matches.int().argmax(-1) + 1, slots)
    assigned = tokens < task.modulus
    assigned[..., task.prefix :] = False
    return Roles(positions, tokens.gather(-1, positions), is_variable, assigned)


def answers(task: Task, tokens: Int[Tensor, "*M B T"]) -> Int[Tensor, "*M B"]:
    """The answer to each sequence, a sum mod N."""
    first, second = roles(task, tokens).values.unbind(-1)
    return answer_of(first, second, task.modulus)


def count_variables(task: Task, tokens: Int[Tensor, "*M B T"]) -> Int[Tensor, "*M B"]:
    """The number of operands that are variables, in each sequence."""
    return roles(task, tokens).is_variable.sum(-1)


def with_values(task: Task, tokens: Int[Tensor, "*M B T"], values: Int[Tensor, "*#M B 2"]) -> Int[Tensor, "*M B T"]:
    """The sequences with the values of the two operands replaced, in the prefix or in the operand slots."""
    return tokens.scatter(-1, roles(task, tokens).value_positions, values.expand(*tokens.shape[:-1], 2))


def as_in_training(task: Task, seen: Bool[Tensor, "*M N N"], tokens: Int[Tensor, "*M B T"]) -> Bool[Tensor, "*M B"]:
    """Which sequences training could contain: they add a seen pair, and no operand is in a slot banned for it."""
    first, second = roles(task, tokens).values.unbind(-1)
    allowed = seen.flatten(-2).gather(-1, pair_code(first, second, task.modulus))
    for slot, letters in zip(operand_slots(task), (task.banned_first, task.banned_second), strict=True):
        for letter in letters:
            allowed &= tokens[..., slot] != Vocabulary(task).variable(letter)
    return allowed


# Roles that at most one token has, and roles that several tokens can have.
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
        """A mask of the tokens with this role, or at this position."""
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
        """The position of the token with a single role; -1 if there is none (the variable of a literal operand)."""
        fixed = fixed_positions(self.task)
        if role in fixed:
            return torch.full_like(self.tokens[:, 0], fixed[role])
        operand = int(role.startswith("second"))
        value = self.roles.value_positions[:, operand]
        return value if role.endswith("_value") else torch.where(self.roles.is_variable[:, operand], value - 1, -1)

    def any_of(self, places: tuple[Place, ...] | None) -> Bool[Tensor, "B T"]:
        """A mask of the tokens with any of these roles or positions; all tokens if None."""
        found = torch.full(self.tokens.shape, places is None, device=self.tokens.device)
        for place in places or ():
            found = found | self.mask(place)
        return found
