"""Assignments that refer to other variables, and variables that are assigned twice (docs/tasks.md).

The assignments of a sequence form groups. A group is a chain `c=5, b=c, a=b` of 0 to h links, which ends in an
operand's variable or in a distractor, and with probability rho an earlier assignment of the variable at its end, which
does not count: a number, at any place before the end of the group. The groups are shuffled together; each keeps its
order.

Where v operands are variables and there are n assignments, each operand's group has at most n // v of them: the number
of its links is uniform on 0..min(h, n // v - 1), and its variable is assigned twice with probability rho if there is
room. Distractors' groups follow, by the same law, each with all assignments that are left, until none is left.
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


def has_chains(task: Task) -> bool:
    """Whether sequences of this task are drawn here: not in the paper's task."""
    return task.hops > 0 or task.rebinding > 0


class Groups(NamedTuple):
    """The groups of each sequence: first those of the operands, then those of distractors; some may be empty."""

    links: Int[Tensor, "*M groups B"]
    """How many links the variable at the end is away from the number at the beginning."""
    twice: Int[Tensor, "*M groups B"]
    """1 where the variable at the end is assigned twice."""
    n_before: Int[Tensor, "*M groups B"]
    """How many assignments of the group come before the one that does not count, if there is one."""
    size: Int[Tensor, "*M groups B"]
    """The number of assignments; 0 for the group of an operand that is a literal."""


class InGroup(NamedTuple):
    """What each of the `most` possible assignments of a sequence is in its group."""

    exists: Bool[Tensor, "*M most B"]
    """It is one of the first n, and not a place that a shorter sequence leaves empty."""
    earlier: Bool[Tensor, "*M most most B"]
    """[assignment, another one]: the other one is in the same group, and comes before."""
    link: Int[Tensor, "*M most B"]
    """How many links its variable is away from the number."""
    superseded: Bool[Tensor, "*M most B"]
    """It does not count, as its variable is assigned again."""
    last: Bool[Tensor, "*M most B"]
    """It is the end of the chain."""


class Chains:
    """Draws the assignments of sequences whose operands are as `evalset` asks for (None: as in training).

    `most` is the largest number of assignments in a sequence. Every sequence has as many draws, whatever n is.
    """

    def __init__(self, task: Task, evalset: EvalSet | None):
        self.task = task
        self.first_variable = Vocabulary(task).first_variable
        self.links = evalset.links if evalset else None
        """How many links the operands' variables are away from their numbers; None: drawn."""
        self.rebound = evalset.rebound if evalset else None
        """Whether the operands' variables are assigned twice; None: drawn."""
        most = task.max_assignments
        self.n_groups = task.operands + most  # with a distractor's group for every assignment
        draws_of_group = [task.hops + 1, DIGIT_SPACE, task.hops + 1]  # as `_group` makes them
        draws_of_shuffle = range(most, 0, -1)
        draws_of_numbers = [task.modulus] * most
        self.bounds = [*draws_of_group * self.n_groups, *draws_of_shuffle, *draws_of_numbers]
        """The largest bound of every draw, in their order."""

    @property
    def per_variable(self) -> int:
        """The least number of assignments for each operand that is a variable."""
        least_links = self.links or 0
        return least_links + (2 if self.rebound else 1)

    def assignments(
        self,
        n: Int[Tensor, "*M B"],
        operands: Sequence[Int[Tensor, "*M B"]],
        values: Sequence[Int[Tensor, "*M B"]],
        distractors: Int[Tensor, "*M most B"],
        draw: Digits,
    ) -> tuple[Int[Tensor, "*M most B"], Int[Tensor, "*M most B"]]:
        """Left and right tokens of each assignment, of which the first n count.

        `operands` (tokens) and `values` have an entry for each operand. Operands and `distractors` are different
        variables.
        """
        most = self.task.max_assignments
        groups = self._groups(n, [operand >= self.first_variable for operand in operands], draw)
        group = self._shuffled(groups.size, n, draw).clamp(max=self.n_groups - 1)  # (..., most, B)
        drawn_numbers = torch.stack([draw.below(self.task.modulus) for _ in range(most)], -2)  # (..., most, B)
        in_group = self._in_groups(groups, group, n)

        # The operand's group k has the operand k; the bound is for distractors, for which it is not used.
        is_of_operand = group < self.task.operands
        operand_index = group.clamp(max=self.task.operands - 1)
        operand = torch.stack(list(operands), -2).gather(-2, operand_index)  # (..., most, B)
        value = torch.stack(list(values), -2).gather(-2, operand_index)

        left = self._left_sides(in_group, is_of_operand, operand, distractors)
        first_number = torch.where(is_of_operand, value, drawn_numbers)
        return left, _right_sides(in_group, left, first_number, drawn_numbers)

    def _left_sides(
        self,
        in_group: InGroup,
        is_of_operand: Bool[Tensor, "*M most B"],
        operand: Int[Tensor, "*M most B"],
        distractors: Int[Tensor, "*M most B"],
    ) -> Int[Tensor, "*M most B"]:
        """The variable of each assignment: at the end of an operand's chain the operand, elsewhere a new variable.

        An assignment that does not count has the variable of the end of its chain.
        """
        ends_at_operand = in_group.last & is_of_operand
        is_new = in_group.exists & ~in_group.superseded & ~ends_at_operand
        n_new_before = (is_new.cumsum(-2) - 1).clamp(min=0)  # new variables are taken in the order of `distractors`
        left = torch.where(is_new, distractors.gather(-2, n_new_before), self.first_variable)
        left = torch.where(ends_at_operand, operand, left)
        later = in_group.earlier.transpose(-3, -2)  # [assignment, another one that comes later]
        end_of_chain = later & in_group.last.unsqueeze(-3)  # at most one for each assignment, which the sum selects
        variable_at_end = (end_of_chain.long() * left.unsqueeze(-3)).sum(-2)
        return torch.where(in_group.superseded, variable_at_end, left)

    def _groups(self, n: Tensor, is_variable: Sequence[Tensor], draw: Digits) -> Groups:
        """The groups of sequences with n assignments, by the law at the top of this file."""
        n_variables = torch.stack(list(is_variable)).sum(0)
        quota = n // n_variables.clamp(min=1)  # the most assignments for each operand's group
        groups = []
        for operand_is_variable in is_variable:
            available = torch.where(operand_is_variable, quota, 0)
            groups.append(self._group(available, draw, self.links, self.rebound))
        n_left = n - torch.stack([group.size for group in groups]).sum(0)
        for _ in range(self.task.max_assignments):  # distractors
            group = self._group(n_left, draw)
            groups.append(group)
            n_left = n_left - group.size
        return Groups(
            links=torch.stack([group.links for group in groups], -2),
            twice=torch.stack([group.twice for group in groups], -2),
            n_before=torch.stack([group.n_before for group in groups], -2),
            size=torch.stack([group.size for group in groups], -2),
        )

    def _group(self, available: Tensor, draw: Digits, links: int | None = None, twice: bool | None = None) -> Groups:
        """One group of every sequence, (..., B), of at most `available` assignments; empty where that is 0.

        The number of links, and whether the variable at the end is assigned twice, are drawn unless they are stated.
        All draws are made in any case, so that every sequence has as many.
        """
        available_for_chain = available - 1 if twice else available
        n_links = draw.below(available_for_chain.clamp(min=1, max=self.task.hops + 1))
        if links is not None:
            n_links = torch.full_like(n_links, links)
        drawn_twice = draw.below(DIGIT_SPACE) < round(self.task.rebinding * DIGIT_SPACE)
        drawn_twice = drawn_twice & (n_links + 2 <= available)
        is_twice = drawn_twice if twice is None else torch.full_like(drawn_twice, twice)
        n_before = draw.below(n_links + 1)
        size = torch.where(available > 0, n_links + 1 + is_twice.long(), 0)
        return Groups(n_links, is_twice.long(), n_before, size)

    def _in_groups(self, groups: Groups, group: Int[Tensor, "*M most B"], n: Tensor) -> InGroup:
        """What each assignment is in its group, whose number is in `group`; n of them exist."""
        place = torch.arange(self.task.max_assignments, device=n.device)[:, None]  # in the sequence
        exists = place < n.unsqueeze(-2)
        # Matrices of pairs [assignment, another one].
        both_exist = exists.unsqueeze(-2) & exists.unsqueeze(-3)
        same_group = group.unsqueeze(-2) == group.unsqueeze(-3)
        comes_before = (place > place.T).unsqueeze(-1)  # the other one does
        earlier = same_group & both_exist & comes_before
        place_in_group = earlier.sum(-2)  # (..., most, B)
        links = groups.links.gather(-2, group)
        twice = groups.twice.gather(-2, group) > 0
        n_before = groups.n_before.gather(-2, group)
        superseded = twice & (place_in_group == n_before) & exists
        # Links are counted without the assignment that does not count.
        link = place_in_group - (twice & (place_in_group > n_before)).long()
        return InGroup(exists, earlier, link, superseded, last=(link == links) & ~superseded & exists)

    def _shuffled(self, size: Int[Tensor, "*M groups B"], n: Tensor, draw: Digits) -> Int[Tensor, "*M most B"]:
        """The group of each assignment, in a random order of the first n (Fisher-Yates)."""
        most = self.task.max_assignments
        place = torch.arange(most, device=n.device)[:, None, None]
        ends = size.cumsum(-2).unsqueeze(-3)  # (..., 1, groups, B): where each group ends before the shuffle
        group = (place >= ends).sum(-2)  # (..., most, B)
        for i in range(most):
            # Exchanges i with a random j of i..n-1, or with itself from the n-th on.
            j = (i + draw.below((n - i).clamp(min=1))).unsqueeze(-2)
            group_i = group[..., i : i + 1, :].clone()
            group_j = group.gather(-2, j)
            group.scatter_(-2, j, group_i)
            group[..., i : i + 1, :] = group_j
        return group


def _right_sides(
    in_group: InGroup,
    left: Int[Tensor, "*M most B"],
    first_number: Int[Tensor, "*M most B"],
    drawn_numbers: Int[Tensor, "*M most B"],
) -> Int[Tensor, "*M most B"]:
    """The right token of each assignment: `first_number` at the beginning of a chain, then the variable one link back.

    An assignment that does not count has a drawn number.
    """
    is_one_link_back = in_group.link.unsqueeze(-3) == in_group.link.unsqueeze(-2) - 1
    # [assignment, another one]: at most one for each assignment, which the sum selects.
    is_previous = in_group.earlier & ~in_group.superseded.unsqueeze(-3) & is_one_link_back
    previous_variable = (is_previous.long() * left.unsqueeze(-3)).sum(-2)
    of_chain = torch.where(in_group.link == 0, first_number, previous_variable)
    return torch.where(in_group.superseded, drawn_numbers, of_chain)
