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
    """The groups of each sequence: first those of the operands, then those of distractors; the last may be empty."""

    links: Int[Tensor, "*M groups B"]
    """How many links the variable at the end is away from the number at the beginning."""
    twice: Int[Tensor, "*M groups B"]
    """1 where the variable at the end is assigned twice."""
    n_before: Int[Tensor, "*M groups B"]
    """How many assignments of the group come before the one that does not count, if there is one."""
    size: Int[Tensor, "*M groups B"]
    """The number of assignments; 0 for the group of an operand that is a literal."""


class InGroup(NamedTuple):
    """What each assignment is in its group. In the last axes but B, an assignment; in `earlier`, two of them."""

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
    """Draws the assignments of sequences in which operands are as `evalset` asks for."""

    def __init__(self, task: Task, evalset: EvalSet | None):
        self.task, self.first_variable = task, Vocabulary(task).first_variable
        self.links, self.rebound = (evalset.links, evalset.rebound) if evalset else (None, None)
        most, h = task.max_assignments, task.hops
        self.n_groups = task.operands + most
        of_group = [h + 1, DIGIT_SPACE, h + 1]
        self.bounds = [*of_group * self.n_groups, *range(most, 0, -1), *[task.modulus] * most]
        """The largest bound of every draw, in their order."""

    @property
    def per_variable(self) -> int:
        """The least number of assignments for each operand that is a variable."""
        return 1 + (self.links or 0) + (self.rebound is True)

    def assignments(
        self,
        n: Int[Tensor, "*M B"],
        operands: Sequence[Int[Tensor, "*M B"]],
        values: Sequence[Int[Tensor, "*M B"]],
        distractors: Int[Tensor, "*M most B"],
        draw: Digits,
    ) -> tuple[Int[Tensor, "*M most B"], Int[Tensor, "*M most B"]]:
        """Left and right tokens of each assignment; operands and distractors are tokens of different variables."""
        k, most = self.task.operands, self.task.max_assignments
        groups = self._groups(n, [operand >= self.first_variable for operand in operands], draw)
        group = self._shuffled(groups.size, n, draw).clamp(max=self.n_groups - 1)  # (..., most, B)
        drawn = torch.stack([draw.below(self.task.modulus) for _ in range(most)], -2)
        here = self._in_groups(groups, group, n)

        # On the left: at the end of an operand's chain its variable, elsewhere a new one.
        of_operand = group < k
        operand_index = group.clamp(max=k - 1)
        ends_operand = here.last & of_operand
        new = here.exists & ~here.superseded & ~ends_operand
        left = torch.where(new, distractors.gather(-2, (new.cumsum(-2) - 1).clamp(min=0)), self.first_variable)
        left = torch.where(ends_operand, torch.stack(list(operands), -2).gather(-2, operand_index), left)
        # An assignment that does not count has the variable of the end of its chain, which comes later.
        end_of_chain = here.earlier.transpose(-3, -2) & here.last.unsqueeze(-3)
        left = torch.where(here.superseded, (end_of_chain.long() * left.unsqueeze(-3)).sum(-2), left)

        # On the right: at the beginning of a chain the number of the operand or of the distractor, then the variable of
        # the link before.
        is_link_before = here.link.unsqueeze(-3) == here.link.unsqueeze(-2) - 1
        previous = here.earlier & ~here.superseded.unsqueeze(-3) & is_link_before
        referred = (previous.long() * left.unsqueeze(-3)).sum(-2)
        number = torch.where(of_operand, torch.stack(list(values), -2).gather(-2, operand_index), drawn)
        right = torch.where(here.superseded, drawn, torch.where(here.link == 0, number, referred))
        return left, right

    def _groups(self, n: Tensor, is_variable: Sequence[Tensor], draw: Digits) -> Groups:
        """The groups of sequences with n assignments, by the law at the top of this file."""
        quota = n // torch.stack(list(is_variable)).sum(0).clamp(min=1)
        groups = [
            self._group(torch.where(variable, quota, 0), draw, self.links, self.rebound) for variable in is_variable
        ]
        n_left = n - torch.stack([group.size for group in groups]).sum(0)
        for _ in range(self.task.max_assignments):
            groups.append(self._group(n_left, draw))
            n_left = n_left - groups[-1].size
        return Groups(*(torch.stack(part, -2) for part in zip(*groups, strict=True)))

    def _group(self, available: Tensor, draw: Digits, links: int | None = None, twice: bool | None = None) -> Groups:
        """One group of every sequence, (..., B), of at most `available` assignments.

        The number of links, and whether the variable at the end is assigned twice, are drawn unless they are stated.
        """
        n_links = draw.below((available - int(twice is True)).clamp(min=1, max=self.task.hops + 1))
        if links is not None:
            n_links = torch.full_like(n_links, links)
        is_twice = draw.below(DIGIT_SPACE) < round(self.task.rebinding * DIGIT_SPACE)
        is_twice = is_twice & (n_links + 2 <= available) if twice is None else torch.full_like(is_twice, twice)
        n_before = draw.below(n_links + 1)
        size = torch.where(available > 0, n_links + 1 + is_twice.long(), 0)
        return Groups(n_links, is_twice.long(), n_before, size)

    def _in_groups(self, groups: Groups, group: Int[Tensor, "*M most B"], n: Tensor) -> InGroup:
        """What each of the n assignments is in its group."""
        place = torch.arange(self.task.max_assignments, device=n.device)[:, None]
        exists = place < n.unsqueeze(-2)
        both_exist = exists.unsqueeze(-2) & exists.unsqueeze(-3)
        same_group = group.unsqueeze(-2) == group.unsqueeze(-3)  # [assignment, another one]
        earlier = same_group & both_exist & (place > place.T).unsqueeze(-1)
        index = earlier.sum(-2)  # in the group
        links = groups.links.gather(-2, group)
        twice = groups.twice.gather(-2, group) > 0
        n_before = groups.n_before.gather(-2, group)
        superseded = twice & (index == n_before) & exists
        link = index - (twice & (index > n_before)).long()
        return InGroup(exists, earlier, link, superseded, last=(link == links) & ~superseded & exists)

    def _shuffled(self, size: Int[Tensor, "*M groups B"], n: Tensor, draw: Digits) -> Int[Tensor, "*M most B"]:
        """The group of each assignment, in a random order of the first n."""
        most = self.task.max_assignments
        ends = size.cumsum(-2).unsqueeze(-3)  # (..., 1, groups, B)
        place = torch.arange(most, device=n.device)[:, None, None]
        group = (place >= ends).sum(-2)  # (..., most, B)
        for i in range(most):
            j = (i + draw.below((n - i).clamp(min=1))).unsqueeze(-2)
            group_i, group_j = group[..., i : i + 1, :].clone(), group.gather(-2, j)
            group.scatter_(-2, j, group_i)
            group[..., i : i + 1, :] = group_j
        return group
