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

import torch
from jaxtyping import Int
from torch import Tensor

from assignadd.config import Task
from assignadd.task.evalsets import EvalSet
from assignadd.task.randomness import DIGIT_SPACE, Digits
from assignadd.task.sampling_tables import LITERAL
from assignadd.task.vocabulary import Vocabulary


def has_chains(task: Task) -> bool:
    """Whether sequences of this task are drawn here: not in the paper's task."""
    return task.hops > 0 or task.rebinding > 0


class Chains:
    """Draws the assignments of sequences in which operands are as `evalset` asks for."""

    def __init__(self, task: Task, evalset: EvalSet | None):
        self.task, self.vocabulary = task, Vocabulary(task)
        self.links, self.rebound = (evalset.links, evalset.rebound) if evalset else (None, None)
        most, h = task.max_assignments, task.hops
        self.n_groups = task.operands + most
        of_group = [h + 1, DIGIT_SPACE, h + 1]
        self.bounds = [*of_group * self.n_groups, *range(most, 0, -1), *[task.modulus] * most]

    @property
    def of_operand(self) -> int:
        """The least number of assignments of each operand that is a variable."""
        return 1 + (self.links or 0) + (self.rebound is True)

    def assignments(
        self,
        n: Int[Tensor, "*M B"],
        operands: Sequence[Int[Tensor, "*M B"]],
        values: Sequence[Int[Tensor, "*M B"]],
        dealt: Int[Tensor, "*M most B"],
        draw: Digits,
    ) -> tuple[Int[Tensor, "*M most B"], Int[Tensor, "*M most B"]]:
        """Left and right tokens of each assignment; `dealt` are different variables other than the operands."""
        k, N, most = self.task.operands, self.task.modulus, self.task.max_assignments
        links, twice, early, size = self._groups(n, operands, draw)  # (..., groups, B) each
        group = self._shuffled(size, n, draw).clamp(max=self.n_groups - 1)  # (..., most, B)
        drawn = torch.stack([draw.below(N, N) for _ in range(most)], -2)

        # The number of earlier assignments of the group; of these, `early` is the one that does not count.
        place = torch.arange(most, device=n.device)[:, None]
        valid = place < n.unsqueeze(-2)
        together = (group.unsqueeze(-2) == group.unsqueeze(-3)) & valid.unsqueeze(-2) & valid.unsqueeze(-3)
        before = together & (place > place.T).unsqueeze(-1)  # [place, other place]
        index = before.sum(-2)
        links, twice, early = (of_groups.gather(-2, group) for of_groups in (links, twice, early))
        superseded = (twice > 0) & (index == early) & valid
        link = index - ((twice > 0) & (index > early)).long()
        last = (link == links) & ~superseded & valid

        # The variable on the left: an operand's, a new one, or the one at the end of the group.
        of_operand = group.clamp(max=k - 1)
        is_operand = last & (group < k)
        new = valid & ~superseded & ~is_operand
        left = torch.where(new, dealt.gather(-2, (new.cumsum(-2) - 1).clamp(min=0)), 0)
        left = torch.where(is_operand, torch.stack(list(operands), -2).gather(-2, of_operand), left)
        at_end = (together & last.unsqueeze(-3)).long()
        left = torch.where(superseded, (at_end * left.unsqueeze(-3)).sum(-2), left)

        # On the right: the number of the operand or of the distractor, or the variable of the link before.
        source = before & ~superseded.unsqueeze(-3) & (link.unsqueeze(-3) == link.unsqueeze(-2) - 1)
        referred = (source.long() * left.unsqueeze(-3)).sum(-2) + self.vocabulary.first_variable
        number = torch.where(group < k, torch.stack(list(values), -2).gather(-2, of_operand), drawn)
        right = torch.where(superseded, drawn, torch.where(link == 0, number, referred))
        return left + self.vocabulary.first_variable, right

    def _groups(self, n: Tensor, operands: Sequence[Tensor], draw: Digits) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """For each group its links, whether its variable is assigned twice, where the earlier time, and its size."""
        k, h, threshold = self.task.operands, self.task.hops, round(self.task.rebinding * DIGIT_SPACE)
        n_operands = torch.stack([x != LITERAL for x in operands]).sum(0)
        quota, left = n // n_operands.clamp(min=1), n
        found = []
        for g in range(self.n_groups):
            room = torch.where(operands[g] == LITERAL, 0, quota) if g < k else left
            of_operand = g < k
            spare = int(of_operand and self.rebound is True)
            links = draw.below((room - spare).clamp(min=1, max=h + 1), h + 1)
            if of_operand and self.links is not None:
                links = torch.full_like(links, self.links)
            twice = (draw.below(DIGIT_SPACE, DIGIT_SPACE) < threshold) & (links + 2 <= room)
            if of_operand and self.rebound is not None:
                twice = torch.full_like(twice, self.rebound)
            early = draw.below(links + 1, h + 1)
            size = torch.where(room > 0, links + 1 + twice.long(), 0)
            left = left - size
            found.append((links, twice.long(), early, size))
        return tuple(torch.stack(part, -2) for part in zip(*found, strict=True))  # type: ignore[return-value]

    def _shuffled(self, size: Tensor, n: Tensor, draw: Digits) -> Tensor:
        """The group of each assignment, in a random order of the first n."""
        most = self.task.max_assignments
        ends = size.cumsum(-2).unsqueeze(-3)  # (..., 1, groups, B)
        place = torch.arange(most, device=n.device)[:, None, None]
        group = (place >= ends).sum(-2)  # (..., most, B)
        for i in range(most):
            j = (i + draw.below((n - i).clamp(min=1), most - i)).unsqueeze(-2)
            here, there = group[..., i : i + 1, :].clone(), group.gather(-2, j)
            group.scatter_(-2, j, here)
            group[..., i : i + 1, :] = there
        return group
