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
from jaxtyping import Int
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
    twice: Int[Tensor, "*M groups B"]
    """1 where the variable at the end is assigned twice."""
    early: Int[Tensor, "*M groups B"]
    """How many assignments of the group come before the one that does not count."""
    size: Int[Tensor, "*M groups B"]


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
        k, N, most = self.task.operands, self.task.modulus, self.task.max_assignments
        groups = self._groups(n, [operand >= self.first_variable for operand in operands], draw)
        group = self._shuffled(groups.size, n, draw).clamp(max=self.n_groups - 1)  # (..., most, B)
        drawn = torch.stack([draw.below(N) for _ in range(most)], -2)

        # How many assignments of the same group come before each, and which of the group's does not count.
        place = torch.arange(most, device=n.device)[:, None]
        valid = place < n.unsqueeze(-2)
        together = (group.unsqueeze(-2) == group.unsqueeze(-3)) & valid.unsqueeze(-2) & valid.unsqueeze(-3)
        before = together & (place > place.T).unsqueeze(-1)  # [place, other place]
        index = before.sum(-2)
        links, twice, early = (x.gather(-2, group) for x in (groups.links, groups.twice, groups.early))
        superseded = (twice > 0) & (index == early) & valid
        link = index - ((twice > 0) & (index > early)).long()
        last = (link == links) & ~superseded & valid

        # The variable on the left: an operand's, a new one, or the one at the end of the group.
        of_operand = group.clamp(max=k - 1)
        is_operand = last & (group < k)
        new = valid & ~superseded & ~is_operand
        left = torch.where(new, distractors.gather(-2, (new.cumsum(-2) - 1).clamp(min=0)), self.first_variable)
        left = torch.where(is_operand, torch.stack(list(operands), -2).gather(-2, of_operand), left)
        at_end = (together & last.unsqueeze(-3)).long()
        left = torch.where(superseded, (at_end * left.unsqueeze(-3)).sum(-2), left)

        # On the right: the number of the operand or of the distractor, or the variable of the link before.
        previous = before & ~superseded.unsqueeze(-3) & (link.unsqueeze(-3) == link.unsqueeze(-2) - 1)
        referred = (previous.long() * left.unsqueeze(-3)).sum(-2)
        number = torch.where(group < k, torch.stack(list(values), -2).gather(-2, of_operand), drawn)
        right = torch.where(superseded, drawn, torch.where(link == 0, number, referred))
        return left, right

    def _groups(self, n: Tensor, is_variable: Sequence[Tensor], draw: Digits) -> Groups:
        """The groups of sequences with n assignments, by the law at the top of this file."""
        h, threshold = self.task.hops, round(self.task.rebinding * DIGIT_SPACE)
        quota = n // torch.stack(list(is_variable)).sum(0).clamp(min=1)
        n_left = n  # assignments that no group has yet
        groups = []
        for g in range(self.n_groups):
            of_operand = g < self.task.operands
            available = torch.where(is_variable[g], quota, 0) if of_operand else n_left
            reserved = int(of_operand and self.rebound is True)
            links = draw.below((available - reserved).clamp(min=1, max=h + 1))
            if of_operand and self.links is not None:
                links = torch.full_like(links, self.links)
            twice = (draw.below(DIGIT_SPACE) < threshold) & (links + 2 <= available)
            if of_operand and self.rebound is not None:
                twice = torch.full_like(twice, self.rebound)
            early = draw.below(links + 1)
            size = torch.where(available > 0, links + 1 + twice.long(), 0)
            n_left = n_left - size
            groups.append((links, twice.long(), early, size))
        return Groups(*(torch.stack(part, -2) for part in zip(*groups, strict=True)))

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
