"""Assignments that refer to other variables, and variables that are assigned twice (docs/tasks.md).

The assignments of a sequence form groups. A group is a chain `c=5, b=c, a=b` of 0 to h links, which ends in an
operand's variable or in a distractor, and with probability rho an earlier assignment of the variable at its end, a
number, which does not count. The groups are shuffled together; each keeps its order.

Where v operands are variables and there are n assignments, each operand's group has at most n // v of them: the number
of its links is uniform on 0..min(h, n // v - 1), and its variable is assigned twice with probability rho if one more
assignment is allowed. Groups of distractors are drawn in the same way from the assignments that are left.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from assignadd.config import Task
from assignadd.task.evalsets import EvalSet
from assignadd.task.randomness import DIGIT_SPACE, Digits
from assignadd.task.vocabulary import Vocabulary


class Groups(NamedTuple):
    """The groups of each sequence: first those of the operands, then those of distractors; some may be empty."""

    links: Int[Tensor, "*M groups B"]  # how many links the variable at the end is away from the number at the beginning
    twice: Bool[Tensor, "*M groups B"]  # whether the variable at the end is assigned twice
    n_before: Int[Tensor, "*M groups B"]
    """How many assignments of the group come before the one that does not count, if there is one."""
    size: Int[Tensor, "*M groups B"]  # the number of assignments; 0 for the group of an operand that is a literal


class Chains:
    """Draws the assignments of sequences whose operands are as `evalset` asks for (None: as in training).

    Shapes have `most`, the largest number of assignments in a sequence. Every sequence has the same number of draws.
    """

    def __init__(self, task: Task, evalset: EvalSet | None):
        self.task = task
        self.first_variable = Vocabulary(task).first_variable
        self.links = evalset.links if evalset else None
        """How many links the operands' variables are away from their numbers; None: drawn."""
        self.rebound = evalset.rebound if evalset else None
        """Whether the operands' variables are assigned twice; None: drawn."""
        self.rebinding = round(task.rebinding * DIGIT_SPACE)
        """A variable is assigned twice, where that is possible, if a number below DIGIT_SPACE is below this."""
        most = task.max_assignments
        self.n_groups = task.operands + most  # with a distractor's group for every assignment
        of_group = [task.hops + 1, DIGIT_SPACE, task.hops + 1]  # as `_draw_group` draws them
        of_groups, of_numbers = of_group * self.n_groups, [task.modulus] * most
        self.bounds = [*of_groups, *range(most, 0, -1), *of_numbers]
        """The largest bound of every draw, in their order: for the groups, their shuffle, and the numbers."""

    @property
    def per_variable(self) -> int:
        """The least number of assignments for each operand that is a variable."""
        least_links = self.links or 0
        return least_links + (2 if self.rebound else 1)

    def draw_assignments(
        self,
        n: Int[Tensor, "*M B"],
        operands: Sequence[Int[Tensor, "*M B"]],
        values: Sequence[Int[Tensor, "*M B"]],
        distractors: Int[Tensor, "*M most B"],
        draw: Digits,
    ) -> tuple[Int[Tensor, "*M most B"], Int[Tensor, "*M most B"]]:
        """Left and right tokens of each assignment; in each sequence only the first n are used.

        `operands` (tokens) and `values` have an entry for each operand. Operands and `distractors` are different
        variables.
        """
        k, most = len(operands), self.task.max_assignments
        groups = self._draw_groups(n, [operand >= self.first_variable for operand in operands], draw)
        group_at = self._shuffled(groups.size, n, draw)  # (..., most, B)
        all_operands, all_values = torch.stack(list(operands), -2), torch.stack(list(values), -2)  # (..., k, B)
        # Of each group: how many assignments it has so far, and the variable that its chain has assigned last.
        n_so_far, last_variable = torch.zeros_like(groups.size), torch.zeros_like(groups.size)
        n_taken = torch.zeros_like(n).unsqueeze(-2)  # how many distractors are assigned so far
        left, right, is_counted = [], [], []
        for i in range(most):
            group = group_at[..., i : i + 1, :]  # (..., 1, B), as all below
            n_earlier, n_before = n_so_far.gather(-2, group), groups.n_before.gather(-2, group)
            is_twice = groups.twice.gather(-2, group)
            counts = ~is_twice | (n_earlier != n_before)
            link = n_earlier - (is_twice & (n_earlier > n_before)).long()  # its number in the chain
            is_end = counts & (link == groups.links.gather(-2, group))
            # The assignments of a chain are to different variables: the last one of an operand's chain is to the
            # operand, and each other takes the next of the distractors.
            is_of_operand, operand = group < k, group.clamp(max=k - 1)
            is_to_operand = is_end & is_of_operand
            variable = torch.where(is_to_operand, all_operands.gather(-2, operand), distractors.gather(-2, n_taken))
            n_taken = n_taken + (counts & ~is_to_operand).long()
            number = draw.below(self.task.modulus).unsqueeze(-2)
            first_number = torch.where(counts & is_of_operand, all_values.gather(-2, operand), number)
            before = last_variable.gather(-2, group)
            left.append(variable)
            right.append(torch.where(counts & (link > 0), before, first_number))
            is_counted.append(counts)
            n_so_far.scatter_(-2, group, n_earlier + 1)
            last_variable.scatter_(-2, group, torch.where(counts, variable, before))
        # What does not count is assigned to the variable at the end of its group's chain.
        variable_at_end = last_variable.gather(-2, group_at)
        return torch.where(torch.cat(is_counted, -2), torch.cat(left, -2), variable_at_end), torch.cat(right, -2)

    def _draw_groups(self, n: Tensor, is_variable: Sequence[Tensor], draw: Digits) -> Groups:
        """The groups of sequences with n assignments; `is_variable` says of each operand where it is a variable."""
        n_variables = torch.stack(list(is_variable)).sum(0)
        quota = n // n_variables.clamp(min=1)  # the most assignments for each operand's group; none for a literal
        groups = [self._draw_group(quota * of_operand, draw, self.links, self.rebound) for of_operand in is_variable]
        n_left = n - torch.stack([group.size for group in groups]).sum(0)
        for _ in range(self.task.max_assignments):  # distractors
            groups.append(self._draw_group(n_left, draw))
            n_left = n_left - groups[-1].size
        fields = zip(*groups, strict=True)  # for each field of `Groups`, those of all groups
        return Groups(*(torch.stack(of_groups, -2) for of_groups in fields))

    def _draw_group(
        self, available: Tensor, draw: Digits, links: int | None = None, twice: bool | None = None
    ) -> Groups:
        """One group of every sequence, of at most `available` (..., B) assignments; empty where that is 0.

        Its tensors have no axis of groups: they are (..., B).
        `links`, their number, and `twice`, whether the variable at the end is assigned twice, are drawn if they are
        None. All draws are made in any case, so that every sequence has the same number.
        """
        available_for_chain = available - 1 if twice else available
        n_links = draw.below(available_for_chain.clamp(min=1, max=self.task.hops + 1))
        if links is not None:
            n_links = torch.full_like(n_links, links)
        is_twice = draw.below(DIGIT_SPACE) < self.rebinding
        is_twice &= n_links + 2 <= available
        if twice is not None:
            is_twice = torch.full_like(is_twice, twice)
        n_before = draw.below(n_links + 1)
        size = torch.where(available > 0, n_links + 1 + is_twice, 0)
        return Groups(n_links, is_twice, n_before, size)

    def _shuffled(self, size: Int[Tensor, "*M groups B"], n: Tensor, draw: Digits) -> Int[Tensor, "*M most B"]:
        """The group of each assignment, in a random order of the first n (Fisher-Yates)."""
        most = self.task.max_assignments
        place = torch.arange(most, device=n.device)[:, None, None]
        ends = size.cumsum(-2).unsqueeze(-3)  # (..., 1, groups, B): where each group ends before the shuffle
        # From the n-th on, assignments belong to no group. They get the number of the last one, and are not used.
        group = (place >= ends).sum(-2).clamp(max=self.n_groups - 1)  # (..., most, B)
        for i in range(most):
            # Exchanges i with a random j of i..n-1, or with itself from the n-th on.
            j = (i + draw.below((n - i).clamp(min=1))).unsqueeze(-2)
            group_i = group[..., i : i + 1, :].clone()
            group_j = group.gather(-2, j)
            group.scatter_(-2, j, group_i)
            group[..., i : i + 1, :] = group_j
        return group
