"""The role of each token of a sequence (operator, operands, their values, assigned numbers), and its answer.

Shapes: k operands; tokens are (M, B, T), or (B, T) for one model.
"""

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
    assigned: Bool[Tensor, "*M B T"]  # a mask of the numbers in the prefix, each assigned to the variable before it
    variable_positions: Int[Tensor, "*M B k"]
    """The position where each operand's variable is assigned (for the last time); -1 for a literal."""


OPERANDS = ("first", "second", "third", "fourth")


def operand_names(task: Task) -> tuple[str, ...]:
    """The names of the task's operands: `first`, `second` and so on."""
    return OPERANDS[: task.operands]


def fixed_positions(task: Task) -> dict[str, int]:
    """The positions after the prefix by their roles, `plus` for any operator (12 to 15 in the paper)."""
    fixed_roles = ("plus", *operand_names(task), "equals")
    return {role: position for position, role in enumerate(fixed_roles, start=task.prefix)}


def operand_slots(task: Task) -> tuple[int, ...]:
    """The position of each operand (13 and 14 in the paper)."""
    first_slot = task.prefix + 1  # after the operator
    return tuple(range(first_slot, first_slot + task.operands))


def roles(task: Task, tokens: Int[Tensor, "*M B T"]) -> Roles:
    """The roles of the tokens of every sequence."""
    slots = torch.tensor(operand_slots(task), device=tokens.device)
    operands = tokens[..., slots]  # (..., B, k)
    is_variable = operands >= Vocabulary(task).first_variable
    assigned_at, number_at = _follow_links(task, tokens, operands)
    value_positions = torch.where(is_variable, number_at, slots)
    return Roles(
        value_positions=value_positions,
        values=tokens.gather(-1, value_positions),
        is_variable=is_variable,
        assigned=(tokens < task.modulus) & _in_prefix(task, tokens),
        variable_positions=torch.where(is_variable, assigned_at, -1),
    )


def _in_prefix(task: Task, tokens: Int[Tensor, "*M B T"]) -> Bool[Tensor, " T"]:
    """Which positions are before the operator."""
    return torch.arange(task.length, device=tokens.device) < task.prefix


def _assignment_starts(task: Task, tokens: Int[Tensor, "*M B T"]) -> Bool[Tensor, "*M B T"]:
    """A mask of the tokens on the left of an assignment: variables in the prefix that are not on the right of one."""
    starts = (tokens >= Vocabulary(task).first_variable) & _in_prefix(task, tokens)
    if task.hops:  # variables may be on the right too: directly after a variable on the left
        for t in range(1, task.prefix):
            starts[..., t] &= ~starts[..., t - 1]
    return starts


def _follow_links(
    task: Task, tokens: Int[Tensor, "*M B T"], operands: Int[Tensor, "*M B k"]
) -> tuple[Int[Tensor, "*M B k"], Int[Tensor, "*M B k"]]:
    """Where each operand's variable is assigned last, and where the number is that its links lead to.

    A link such as `b=c` refers to the last assignment of `c` before it. Without hops the number is the token after the
    variable. For an operand that is a literal, both positions have no meaning.
    """
    is_left_side = _assignment_starts(task, tokens)[..., None, :]  # (..., B, 1, T)
    position = torch.arange(task.length, device=tokens.device)
    variables = operands  # what is looked up next; -1 where a chain has reached its number
    before = torch.full_like(operands, task.length)  # only assignments before this position count
    assignments = []  # for each hop, the position where the variable that is looked up is assigned
    for _ in range(task.hops + 1):
        is_same = tokens[..., None, :] == variables[..., None]  # (..., B, k, T)
        matches = is_same & is_left_side & (position < before[..., None])
        last_match = torch.where(matches, position, -1).amax(-1)  # (..., B, k); -1 for none
        # A chain that has reached its number stays where it is, and a literal, which is not assigned, at `length`: the
        # bound keeps `assignment + 1` inside the sequence.
        assignment = torch.where(last_match < 0, before, last_match).clamp(max=task.prefix - 2)
        assignments.append(assignment)
        right_side = tokens.gather(-1, assignment + 1)
        is_link = right_side >= Vocabulary(task).first_variable
        variables = torch.where(is_link, right_side, -1)
        before = assignment
    number_at = assignments[-1] + 1
    return assignments[0], number_at


def answers(task: Task, tokens: Int[Tensor, "*M B T"]) -> Int[Tensor, "*M B"]:
    """The answer to each sequence."""
    return answer_of(task, roles(task, tokens).values.unbind(-1))


def count_variables(task: Task, tokens: Int[Tensor, "*M B T"]) -> Int[Tensor, "*M B"]:
    """The number of operands that are variables, in each sequence."""
    return roles(task, tokens).is_variable.sum(-1)


def with_values(task: Task, tokens: Int[Tensor, "*M B T"], values: Int[Tensor, "*#M B k"]) -> Int[Tensor, "*M B T"]:
    """The sequences with the values of the operands replaced, in the prefix or in the operand slots."""
    value_positions = roles(task, tokens).value_positions
    return tokens.scatter(-1, value_positions, values.expand(value_positions.shape))


def as_in_training(task: Task, seen: Bool[Tensor, "..."], tokens: Int[Tensor, "*M B T"]) -> Bool[Tensor, "*M B"]:
    """Which sequences training could contain: they add a seen pair, and no operand is in a slot banned for it.

    `seen` is (*M, N, N), or has another number of axes N for another number of operands.
    """
    codes = tuple_code(roles(task, tokens).values.unbind(-1), task.modulus)  # (*M, B)
    could_be_trained = seen.flatten(-task.operands).gather(-1, codes)
    for slot, banned_letters in zip(operand_slots(task), task.bans, strict=True):
        for letter in banned_letters:
            could_be_trained &= tokens[..., slot] != Vocabulary(task).variable(letter)
    return could_be_trained


# The roles in a task with two operands: those that at most one token of a sequence has, and below all of them.
SINGLE_ROLES = (
    "equals", "plus", "first", "second", "first_value", "second_value", "first_variable", "second_variable",
)  # fmt: skip
ROLES = (*SINGLE_ROLES, "assigned", "variables", "distractors", "pads")
Place = str | int  # a role, or a position counted from 0


class Positions:
    """The positions of every role in a batch of sequences, tokens (B, T)."""

    def __init__(self, task: Task, tokens: Int[Tensor, "B T"]):
        self.task = task
        self.tokens = tokens
        self.roles = roles(task, tokens)

    def mask(self, place: Place) -> Bool[Tensor, "B T"]:
        """A mask of the tokens with this role, or at this position."""
        position = torch.arange(self.task.length, device=self.tokens.device)  # (T,)
        if str(place).isdecimal():  # a position, which is text as a key of a JSON object
            if int(place) >= self.task.length:
                raise ConfigError("position", place, f"0 to {self.task.length - 1}")
            return (position == int(place)).expand(self.tokens.shape)
        if place == "assigned":
            return self.roles.assigned
        if place == "distractors":
            is_value = (position == self.roles.value_positions[..., None]).any(1)  # of any operand
            return self.roles.assigned & ~is_value
        if place == "pads":
            return self.tokens == Vocabulary(self.task).pad
        if place == "variables":
            return _assignment_starts(self.task, self.tokens)
        return position == self.position(str(place))[:, None]

    def position(self, role: str) -> Int[Tensor, " B"]:
        """The position of the token with one of SINGLE_ROLES; -1 if there is none (as of a literal's variable)."""
        fixed = fixed_positions(self.task)
        if role in fixed:
            return torch.full_like(self.tokens[:, 0], fixed[role])
        operand, _, value_or_variable = role.partition("_")  # such as `second_value`
        of_operands = self.roles.value_positions if value_or_variable == "value" else self.roles.variable_positions
        return of_operands[:, operand_names(self.task).index(operand)]

    def any_of(self, places: tuple[Place, ...] | None) -> Bool[Tensor, "B T"]:
        """A mask of the tokens with any of these roles or positions; all tokens if None."""
        mask = torch.full(self.tokens.shape, places is None, device=self.tokens.device)
        for place in places or ():
            mask = mask | self.mask(place)
        return mask
