"""The task for a reader that knows of a variable's name only from which slots it is banned.

Variables that are banned from the same slots form a group: the common ones, banned from none, and one group for each
slot. A reader without names cannot tell the assignments of a group apart. The rule for its answers: if every variable
of the sum is common, any common variable may be meant, otherwise any assigned one; and a pair that training held out is
an answer only where no other is left. Such networks exist: see docs/findings.md, "What a stuck network computes".
"""

from __future__ import annotations

from functools import lru_cache

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from assignadd.config import Task
from assignadd.task.arithmetic import answer_of
from assignadd.task.chains import has_chains
from assignadd.task.evalsets import EvalSet
from assignadd.task.randomness import EvalSteps
from assignadd.task.roles import operand_slots, roles
from assignadd.task.sampler import Sampler
from assignadd.task.splits import pair_split
from assignadd.task.vocabulary import Vocabulary

SEQUENCES = 20_000


def has_rule(task: Task) -> bool:
    """Whether the rule is about this task: two operands, and every variable assigned a number, once."""
    return task.operands == 2 and not has_chains(task)


def name_groups(task: Task) -> list[list[int]]:
    """The tokens of the variables by the slots that they are banned from; the common ones come first."""
    groups: dict[tuple[bool, ...], list[int]] = {tuple(False for _ in task.bans): []}
    for letter in task.variables:
        banned = tuple(letter in letters for letters in task.bans)
        groups.setdefault(banned, []).append(Vocabulary(task).variable(letter))
    return list(groups.values())


def _groups(task: Task) -> list[Tensor]:
    """The groups that have variables, as tensors."""
    return [torch.tensor(group) for group in name_groups(task) if group]


def considered(task: Task, tokens: Int[Tensor, "B T"]) -> tuple[Bool[Tensor, "B T"], Bool[Tensor, " B"]]:
    """A mask of the numbers that a variable of the sum may have by the rule; whether all variables of it are common."""
    role, operands = roles(task, tokens), tokens[:, list(operand_slots(task))]
    common = torch.tensor(name_groups(task)[0], dtype=tokens.dtype)
    all_common = (torch.isin(operands, common) | ~role.is_variable).all(1)
    return role.assigned & (torch.isin(tokens.roll(1, 1), common) | ~all_common[:, None]), all_common


def nameless_answers(task: Task, seen: Bool[Tensor, "N N"], tokens: Int[Tensor, "B T"]) -> Bool[Tensor, "B N"]:
    """The answers to each sequence that the rule without names allows."""
    used, is_variable = considered(task, tokens)[0], roles(task, tokens).is_variable
    at = torch.arange(task.length)
    # The positions of the numbers that may be meant by each operand: a literal stands in its own slot.
    may = [torch.where(is_variable[:, [k]], used, at == slot) for k, slot in enumerate(operand_slots(task))]
    first, second = tokens[:, :, None].clamp(max=task.modulus - 1), tokens[:, None].clamp(max=task.modulus - 1)
    ways = may[0][:, :, None] & may[1][:, None] & (at[:, None] != at)  # (B, T, T)
    trained = ways & seen[first, second]
    ways = torch.where(trained.any((1, 2), keepdim=True), trained, ways)
    answers = answer_of(task, (first, second)).expand_as(ways)
    return torch.zeros(len(tokens), task.modulus).scatter_add_(1, answers.flatten(1), ways.flatten(1).float()) > 0


@lru_cache(maxsize=16)
def nameless_accuracy(task: Task, evalset: EvalSet, split: int = 0) -> float:
    """The accuracy of a uniform choice among the answers that the rule allows, for the split of this seed."""
    seen = pair_split(task, split)
    batch = Sampler([task], seen[None], [split], evalset).sample(EvalSteps.NAMELESS[-1], SEQUENCES)
    allowed = nameless_answers(task, seen, batch.tokens[0])
    hit = allowed.gather(1, batch.labels[0][:, None])[:, 0]
    return float((hit / allowed.sum(1).clamp(min=1)).mean())


def with_other_names(task: Task, tokens: Int[Tensor, "B T"], generator: torch.Generator) -> Int[Tensor, "B T"]:
    """The sequences with every variable of the sum replaced by another one of its group, assigned or not."""
    names = torch.arange(Vocabulary(task).size).repeat(len(tokens), 1)
    for group in _groups(task):
        shift = torch.randint(1, max(len(group), 2), (len(tokens), 1), generator=generator)
        names[:, group] = group[(torch.arange(len(group)) + shift) % len(group)]
    return _with_operands(task, tokens, names.gather(1, tokens))


def rearranged(task: Task, tokens: Int[Tensor, "B T"], generator: torch.Generator) -> Int[Tensor, "B T"]:
    """The sequences with the assignments in random order, and all names permuted within their groups.

    The names in the prefix and those of the sum are permuted independently, so that nothing connects them.
    """
    starts = (tokens >= Vocabulary(task).first_variable)[:, : task.prefix]
    at = torch.arange(task.prefix).expand(starts.shape)
    order = torch.where(starts, torch.rand(starts.shape, generator=generator), 2.0 + at).argsort(1)
    places = torch.where(starts, at, task.prefix + at).argsort(1)
    source = at.scatter(1, places, order)  # of a variable or PAD; a number follows its variable
    source = torch.where(starts.roll(1, 1), source.roll(1, 1) + 1, source)
    moved = torch.cat([tokens[:, : task.prefix].gather(1, source), tokens[:, task.prefix :]], 1)
    prefix, operands = (_permuted_names(task, len(tokens), generator).gather(1, moved) for _ in range(2))
    return _with_operands(task, prefix, operands)


def _permuted_names(task: Task, n: int, generator: torch.Generator) -> Int[Tensor, "n K"]:
    """All tokens, with the variables of each group in random order."""
    names = torch.arange(Vocabulary(task).size).repeat(n, 1)
    for group in _groups(task):
        names[:, group] = group[torch.rand(n, len(group), generator=generator).argsort(1)]
    return names


def _with_operands(task: Task, tokens: Int[Tensor, "B T"], others: Int[Tensor, "B T"]) -> Int[Tensor, "B T"]:
    """The sequences `tokens` with the operands of `others`."""
    slots = list(operand_slots(task))
    return tokens.index_copy(1, torch.tensor(slots), others[:, slots])
