"""Base and source prompts for interchange interventions, and the answers that the high-level program predicts.

The program looks up the first operand, looks up the second, and adds them (paper, section 5). If one of its variables
has its value on the source, its answer is that to a third prompt, the hybrid:

    binding tags     the base with the source's variables in its assignments
    operand query    the base with the source's variables in its operand slots
    operand values   the base with one or both of the source's operand values
    sum              the source

Pairs whose hybrid has the base's answer are left out: a network that ignores the intervention would be right.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from assignadd.config import Config, Task
from assignadd.measures.sequences import sequences
from assignadd.task.positions import Positions, answers, count_variables, operand_slots, roles, with_values
from assignadd.task.randomness import EvalSteps, Stream, TrainingLawDraws, digit, words
from assignadd.task.vocabulary import Vocabulary


@dataclass(frozen=True)
class Pairs:
    """Pairs of prompts, and the answer that the program predicts for each."""

    base: Int[Tensor, "n T"]
    source: Int[Tensor, "n T"]
    answer: Int[Tensor, " n"]
    """The answer to the hybrid."""


def prompts(config: Config, seen: Bool[Tensor, "N N"], n: int) -> tuple[Int[Tensor, "B T"], Int[Tensor, "B T"]]:
    """About n base prompts and as many source prompts, unrelated training sequences.

    There are equally many of each of the nine pairs of types, which are the numbers of variables 0, 1 and 2.
    """
    types = config.task.variable_counts
    n_each = max(1, n // len(types) ** 2)

    def draw(n_vars: int, number: int) -> Tensor:  # for each number other sequences, also of the same type
        return sequences([config], seen[None], n_vars, n_each, TrainingLawDraws.INTERCHANGE[number]).tokens[0]

    # No two draws of one type have the same number: with three types, bases have 0 to 2 and sources 3 to 5.
    base = torch.cat([draw(base_type, source_type) for base_type, source_type in product(types, types)])
    source = torch.cat([draw(source_type, len(types) + base_type) for base_type, source_type in product(types, types)])
    return base.contiguous(), source.contiguous()


def pairs_with(
    task: Task, base: Tensor, source: Tensor, hybrid: Tensor, has_hybrid: Bool[Tensor, " B"] | None = None
) -> Pairs:
    """The pairs that have a hybrid (all, if `has_hybrid` is None) whose answer is not the base's."""
    answer = answers(task, hybrid)
    chosen = answer != answers(task, base)
    if has_hybrid is not None:
        chosen &= has_hybrid
    return Pairs(base[chosen], source[chosen], answer[chosen])


def value_pairs(task: Task, base: Tensor, source: Tensor, operands: tuple[bool, bool]) -> Pairs:
    """Pairs whose hybrid is the base with the source's values for the operands (first, second) marked True."""
    values = torch.where(torch.tensor(operands), roles(task, source).values, roles(task, base).values)
    return pairs_with(task, base, source, with_values(task, base, values))


def tag_pairs(task: Task, base: Tensor) -> Pairs:
    """Pairs whose hybrid is the base with its variables moved cyclically to the next assignment.

    The source is the hybrid with new random values for the assigned numbers.
    """
    positions = Positions(task, base)
    is_variable = positions.mask("variables")  # (B, T), as all below
    n_variables = is_variable.sum(1, keepdim=True)  # (B, 1)
    rank = is_variable.cumsum(1) - 1  # at a variable, how many are to the left of it
    variables_first = (~is_variable).byte().argsort(dim=1, stable=True)  # positions, those of variables first
    position_of_next = variables_first.gather(1, (rank + 1) % n_variables)  # no meaning where no variable is
    hybrid = torch.where(is_variable, base.gather(1, position_of_next), base)
    token_index = torch.arange(base.numel()).view(base.shape)  # over all sequences
    step = torch.tensor(EvalSteps.INTERCHANGE_VALUES.start)
    new_values, _ = digit(words(torch.tensor(0), Stream.EVAL, step, token_index, 1)[0], task.modulus)
    source = torch.where(positions.mask("assigned"), new_values, hybrid)
    return pairs_with(task, base, source, hybrid)


def query_pairs(task: Task, base: Tensor, unrelated: Tensor) -> Pairs:
    """Pairs whose hybrid is the base with other assigned variables in its operand slots, in none that is banned for it.

    The source is made from an `unrelated` prompt for each base: its variables are renamed, such that its operands are
    the hybrid's variables in the same slots. It must have as many variable operands as the base; if they are in other
    slots, its operands are exchanged.
    """
    slots = list(operand_slots(task))
    is_variable = roles(task, base).is_variable  # (B, 2)
    in_other_slots = (roles(task, unrelated).is_variable != is_variable).any(1, keepdim=True)  # (B, 1)
    source = unrelated.clone()
    source[:, slots] = torch.where(in_other_slots, unrelated[:, slots[::-1]], unrelated[:, slots])
    new_variables, has_new = _other_variables(task, base, is_variable)  # (B, 2), (B,)
    hybrid = base.clone()
    for i, slot in enumerate(slots):
        # In the source, its operand and the new variable exchange their names wherever they occur; none for a literal.
        new_name = torch.where(is_variable[:, i], new_variables[:, i], source[:, slot])
        source = _swapped(source, source[:, slot, None], new_name[:, None])
        hybrid[:, slot] = torch.where(is_variable[:, i], new_variables[:, i], base[:, slot])
    has_hybrid = has_new & (count_variables(task, unrelated) == is_variable.sum(1))
    hybrid = torch.where(has_hybrid[:, None], hybrid, base)  # elsewhere it may ask for a variable without a value
    return pairs_with(task, base, source, hybrid, has_hybrid)


def _other_variables(task: Task, base: Tensor, is_variable: Tensor) -> tuple[Int[Tensor, "B 2"], Bool[Tensor, " B"]]:
    """For each variable operand another variable that the base assigns, and whether there is one for each.

    The two differ, and each is chosen at random among those allowed in its slot. The entry of a literal (`is_variable`
    is False) has no meaning.
    """
    variables = torch.tensor(Vocabulary(task).variables)  # tokens, (V,)
    in_prefix = Positions(task, base).mask("variables")[..., None]  # (B, T, 1)
    is_assigned = ((base[..., None] == variables) & in_prefix).any(1)  # (B, V)
    rows = torch.arange(len(base))
    step = torch.tensor(EvalSteps.INTERCHANGE_QUERIES.start)
    random = words(torch.tensor(0), Stream.EVAL, step, rows, 2 * task.n_vars).view(2, task.n_vars, -1).mT  # (2, B, V)
    has_new = is_variable.any(1)
    chosen: list[Tensor] = []  # for each slot, (B,)
    for i, (slot, banned) in enumerate(zip(operand_slots(task), (task.banned_first, task.banned_second), strict=True)):
        is_allowed = torch.tensor([letter not in banned for letter in task.variables])  # (V,)
        candidates = is_assigned & is_allowed & (variables != base[:, slot, None])  # (B, V)
        if chosen:  # the second differs from the first, if that is a variable
            candidates &= ~(is_variable[:, :1] & (variables == chosen[0][:, None]))
        best = torch.where(candidates, random[i], -1).max(1)  # the candidate with the largest random number, or -1
        chosen.append(variables[best.indices])
        has_new = has_new & ((best.values >= 0) | ~is_variable[:, i])
    return torch.stack(chosen, 1), has_new


def _swapped(tokens: Int[Tensor, "B T"], a: Int[Tensor, "B 1"], b: Int[Tensor, "B 1"]) -> Int[Tensor, "B T"]:
    """The sequences with token `a` instead of `b` and `b` instead of `a`; each sequence has its own a and b."""
    return torch.where(tokens == a, b, torch.where(tokens == b, a, tokens))
