"""The role of each token of a sequence (operator, operands, their values, assigned numbers), and its answer."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from assignadd.config import ConfigError, Task
from assignadd.task.arithmetic import answer_of, tuple_code
from assignadd.task.vocabulary import Vocabulary


@dataclass(frozen=True)
class Roles:
    """The operands of each sequence and the assigned numbers."""

    value_positions: Int[Tensor, "*M B k"]
    """The position of each operand's value: after its variable in the prefix (with hops, where its links lead), or the
    operand slot of a literal."""
    values: Int[Tensor, "*M B k"]
    is_variable: Bool[Tensor, "*M B k"]
    assigned: Bool[Tensor, "*M B T"]
    """A mask of the numbers in the prefix, each assigned to the variable before it."""
    variable_positions: Int[Tensor, "*M B k"]
    """The position where each operand's variable is assigned (for the last time); -1 for a literal."""


OPERANDS = ("first", "second", "third", "fourth")


def operand_names(task: Task) -> tuple[str, ...]:
    """The roles of the operands: `first`, `second` and so on."""
    return OPERANDS[: task.operands]


def fixed_positions(task: Task) -> dict[str, int]:
    """The positions of the roles that never change (12 to 15 in the paper); `plus` is the operator, whatever it is."""
    return {role: task.prefix + i for i, role in enumerate(("plus", *operand_names(task), "equals"))}


def operand_slots(task: Task) -> tuple[int, ...]:
    """The position of each operand (13 and 14 in the paper)."""
    return tuple(task.prefix + 1 + i for i in range(task.operands))


def roles(task: Task, tokens: Int[Tensor, "*M B T"]) -> Roles:
    """The roles of the tokens of every sequence."""
    slots = torch.tensor(operand_slots(task), device=tokens.device)
    operands = tokens[..., slots]  # (..., B, k)
    is_variable = operands >= Vocabulary(task).first_variable
    assigned_at, number_at = _follow_links(task, tokens, operands)
    value_positions = torch.where(is_variable, number_at, slots)
    assigned = tokens < task.modulus
    assigned[..., task.prefix :] = False
    variable_positions = torch.where(is_variable, assigned_at, -1)
    return Roles(value_positions, tokens.gather(-1, value_positions), is_variable, assigned, variable_positions)


def _assignment_starts(task: Task, tokens: Int[Tensor, "*M B T"]) -> Bool[Tensor, "*M B T"]:
    """A mask of the tokens on the left of an assignment: variables in the prefix that are not on the right of one."""
    starts = tokens >= Vocabulary(task).first_variable
    starts[..., task.prefix :] = False
    for t in range(1, task.prefix if task.hops else 0):
        starts[..., t] &= ~starts[..., t - 1]
    return starts


def _follow_links(task: Task, tokens: Tensor, variables: Tensor) -> tuple[Tensor, Tensor]:
    """Where each variable (..., B, k) is assigned last, and where the number is that its links lead to.

    A link refers to the last assignment of its variable before it. Literals have positions without a meaning.
    """
    starts = _assignment_starts(task, tokens)[..., None, :]
    at = torch.arange(task.length, device=tokens.device)
    limit = torch.full_like(variables, task.length)
    assigned_at = []
    for _ in range(task.hops + 1):
        matches = (tokens[..., None, :] == variables[..., None]) & starts & (at < limit[..., None])
        start = torch.where(matches, at, -1).amax(-1)
        start = torch.where(start < 0, limit, start).clamp(max=task.prefix - 2)  # a number stays where it is
        assigned_at.append(start)
        right = tokens.gather(-1, start + 1)
        is_link = right >= Vocabulary(task).first_variable
        variables = torch.where(is_link, right, -1)
        limit = start
    return assigned_at[0], assigned_at[-1] + 1


def answers(task: Task, tokens: Int[Tensor, "*M B T"]) -> Int[Tensor, "*M B"]:
    """The answer to each sequence."""
    return answer_of(task, roles(task, tokens).values.unbind(-1))


def count_variables(task: Task, tokens: Int[Tensor, "*M B T"]) -> Int[Tensor, "*M B"]:
    """The number of operands that are variables, in each sequence."""
    return roles(task, tokens).is_variable.sum(-1)


def with_values(task: Task, tokens: Int[Tensor, "*M B T"], values: Int[Tensor, "*#M B k"]) -> Int[Tensor, "*M B T"]:
    """The sequences with the values of the operands replaced, in the prefix or in the operand slots."""
    return tokens.scatter(-1, roles(task, tokens).value_positions, values.expand(*tokens.shape[:-1], task.operands))


def as_in_training(task: Task, seen: Bool[Tensor, "..."], tokens: Int[Tensor, "*M B T"]) -> Bool[Tensor, "*M B"]:
    """Which sequences training could contain: they add a seen pair, and no operand is in a slot banned for it.

    `seen` is (*M, N, N), or has another number of axes N for another number of operands.
    """
    codes = tuple_code(roles(task, tokens).values.unbind(-1), task.modulus)
    allowed = seen.flatten(-task.operands).gather(-1, codes)
    for slot, letters in zip(operand_slots(task), task.bans, strict=True):
        for letter in letters:
            allowed &= tokens[..., slot] != Vocabulary(task).variable(letter)
    return allowed


# The roles in a task with two operands: those that at most one token has, and all.
SINGLE_ROLES = (
    "equals", "plus", "first", "second", "first_value", "second_value", "first_variable", "second_variable",
)  # fmt: skip
ROLES = (*SINGLE_ROLES, "assigned", "variables", "distractors", "pads")
Place = str | int
"""A role, or a position counted from 0."""


class Positions:
    """The positions of every role in a batch of sequences, tokens (B, T)."""

    def __init__(self, task: Task, tokens: Int[Tensor, "B T"]):
        self.task = task
        self.tokens = tokens
        self.roles = roles(task, tokens)

    def mask(self, place: Place) -> Bool[Tensor, "B T"]:
        """A mask of the tokens with this role, or at this position."""
        at = torch.arange(self.task.length, device=self.tokens.device)
        if isinstance(place, int) or place.isdecimal():
            if int(place) >= self.task.length:
                raise ConfigError("position", place, f"0 to {self.task.length - 1}")
            return (at == int(place)).expand(self.tokens.shape)
        if place == "assigned":
            return self.roles.assigned
        if place == "distractors":
            values = tuple(f"{operand}_value" for operand in operand_names(self.task))
            return self.roles.assigned & ~self.any_of(values)
        if place == "pads":
            return self.tokens == Vocabulary(self.task).pad
        if place == "variables":
            return _assignment_starts(self.task, self.tokens)
        return at == self.position(place).unsqueeze(1)

    def position(self, role: str) -> Int[Tensor, " B"]:
        """The position of the token with a single role; -1 if there is none (the variable of a literal operand)."""
        fixed = fixed_positions(self.task)
        if role in fixed:
            return torch.full_like(self.tokens[:, 0], fixed[role])
        operand, _, part = role.partition("_")
        positions = self.roles.value_positions if part == "value" else self.roles.variable_positions
        return positions[:, operand_names(self.task).index(operand)]

    def any_of(self, places: tuple[Place, ...] | None) -> Bool[Tensor, "B T"]:
        """A mask of the tokens with any of these roles or positions; all tokens if None."""
        mask = torch.full(self.tokens.shape, places is None, device=self.tokens.device)
        for place in places or ():
            mask = mask | self.mask(place)
        return mask
