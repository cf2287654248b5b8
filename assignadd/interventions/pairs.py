"""Base and source prompts for interchange interventions, and the prompt whose answer the high-level program gives.

The program looks up the first operand, looks up the second, and adds. To give one of its variables the value that it
has on the source is to run it on a third prompt, the hybrid of the two:

    binding tags     the base with the source's variables in its assignments
    operand query    the base with the source's variables in its operand slots
    operand values   the base with one or both of the source's operand values
    sum              the source

A pair counts where the hybrid's answer is not the base's: elsewhere a network that ignores the intervention is right.
An `Outcome` says on which pairs the network's answer was the program's.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from assignadd.config import Config, Task
from assignadd.measures.sequences import sequences
from assignadd.task.randomness import EvalSteps, Stream, TrainingLawDraws, digit, words
from assignadd.task.roles import Positions, answers, count_variables, operand_slots, roles, with_values
from assignadd.task.vocabulary import Vocabulary


@dataclass(frozen=True)
class Pairs:
    base: Int[Tensor, "B T"]
    source: Int[Tensor, "B T"]
    answer: Int[Tensor, " B"]
    """What the program says: the hybrid's sum."""
    counts: Bool[Tensor, " B"]
    """Whether there is a hybrid, and its sum is not the base's."""
    base_vars: Int[Tensor, " B"]
    source_vars: Int[Tensor, " B"]

    @classmethod
    def of(cls, task: Task, base: Tensor, source: Tensor, hybrid: Tensor, defined: Tensor | bool = True) -> Pairs:
        answer = answers(task, hybrid)
        counts = (answer != answers(task, base)) & defined
        return cls(base, source, answer, counts, count_variables(task, base), count_variables(task, source))


@dataclass(frozen=True)
class Outcome:
    """One alignment on one model: for every pair that counts, whether the answer was the program's."""

    hits: dict[str, Bool[Tensor, " n"]]
    """By variant."""
    base_vars: Int[Tensor, " n"]
    source_vars: Int[Tensor, " n"]
    first_is_variable: Bool[Tensor, " n"]
    """Whether the base's first operand is a variable."""

    @property
    def n(self) -> int:
        return len(self.base_vars)

    def count(self, variant: str = "whole") -> int:
        return int(self.hits[variant].sum())

    def accuracy(self, variant: str = "whole") -> float:
        return self.count(variant) / self.n if self.n else float("nan")

    def where(self, chosen: Bool[Tensor, " n"]) -> Outcome:
        """The outcome on some of the pairs."""
        hits = {variant: found[chosen] for variant, found in self.hits.items()}
        return Outcome(hits, self.base_vars[chosen], self.source_vars[chosen], self.first_is_variable[chosen])

    def with_variables(self, n_vars: int) -> Outcome:
        """The outcome on pairs whose base is a sum with so many variables."""
        return self.where(self.base_vars == n_vars)

    def by_types(self, variant: str = "whole") -> Float[Tensor, "3 3"]:
        """Accuracy by the numbers of variables in base (rows) and source (columns); NaN where no pair counts."""
        found = torch.full((3, 3), torch.nan)
        for i in range(3):
            for j in range(3):
                own = (self.base_vars == i) & (self.source_vars == j)
                if own.any():
                    found[i, j] = self.hits[variant][own].float().mean()
        return found


def prompts(config: Config, seen: Bool[Tensor, "N N"], n: int) -> tuple[Int[Tensor, "B T"], Int[Tensor, "B T"]]:
    """About n pairs of unrelated prompts of the training law, as many of each of the nine pairs of types."""
    types = range(1 + min(2, config.task.max_assignments))
    each = max(1, n // len(types) ** 2)

    def draw(kind: int, number: int) -> Tensor:
        return sequences([config], seen[None], kind, each, TrainingLawDraws.INTERCHANGE[number]).tokens[0]

    pairs = [(draw(i, j), draw(j, len(types) + i)) for i in types for j in types]
    base, source = (torch.cat(part) for part in zip(*pairs, strict=True))
    return base.contiguous(), source.contiguous()


def value_pairs(task: Task, base: Tensor, source: Tensor, operands: tuple[bool, bool]) -> Pairs:
    """The source's value for these operands, the base's for the others."""
    own, other = roles(task, base).values, roles(task, source).values
    hybrid = with_values(task, base, torch.where(torch.tensor(operands), other, own))
    return Pairs.of(task, base, source, hybrid)


def tag_pairs(task: Task, base: Tensor) -> Pairs:
    """The source has the base's layout, its variables passed on by one assignment, and values of its own."""
    positions = Positions(task, base)
    variables, numbers = positions.mask("variables"), positions.mask("assigned")
    n, rank = variables.sum(1, keepdim=True), variables.cumsum(1) - 1
    places = (~variables).byte().argsort(dim=1, stable=True)  # the variables' positions come first
    passed = base.gather(1, places.gather(1, (rank + 1) % n))
    hybrid = torch.where(variables, passed, base)
    rows = torch.arange(len(base))[:, None] * task.length + torch.arange(task.length)
    fresh = digit(
        words(torch.tensor(0), Stream.EVAL, torch.tensor(EvalSteps.INTERCHANGE_VALUES.start), rows, 1)[0], task.modulus
    )[0]
    return Pairs.of(task, base, torch.where(numbers, fresh, hybrid), hybrid)


def query_pairs(task: Task, base: Tensor, other: Tensor) -> Pairs:
    """The source is `other`, its variables renamed so that it asks for variables that the base assigns, in the same
    slots.

    A pair counts where `other` has as many variable operands as the base; where these stand in other slots its operands
    are exchanged. No variable comes into a banned slot.
    """
    first, second = slots = operand_slots(task)
    is_variable = roles(task, base).is_variable  # (B, 2)
    moved = roles(task, other).is_variable != is_variable
    source = other.clone()
    source[:, list(slots)] = torch.where(
        moved.any(1, keepdim=True), other[:, [second, first]], other[:, [first, second]]
    )
    wanted, defined = _wanted(task, base, is_variable)  # (B, 2)
    hybrid = base.clone()
    for i, slot in enumerate(slots):
        chosen = torch.where(is_variable[:, i], wanted[:, i], source[:, slot])
        source = _exchanged(source, source[:, slot], chosen)
        hybrid[:, slot] = torch.where(is_variable[:, i], wanted[:, i], base[:, slot])
    defined &= count_variables(task, other) == is_variable.sum(1)
    source, hybrid = (torch.where(defined[:, None], tokens, base) for tokens in (source, hybrid))
    return Pairs.of(task, base, source, hybrid, defined)


def _wanted(task: Task, base: Tensor, is_variable: Tensor) -> tuple[Tensor, Tensor]:
    """Other variables of the base's prefix for its variable slots, two different ones; and whether there are such."""
    slots, letters = operand_slots(task), torch.tensor(Vocabulary(task).variables)
    there = Positions(task, base).mask("variables")[..., None]  # (B, T, 1)
    assigned = ((base[..., None] == letters) & there).any(1)  # (B, V)
    rows, defined = torch.arange(len(base)), is_variable.any(1)
    chosen: list[Tensor] = []
    luck = (
        words(torch.tensor(0), Stream.EVAL, torch.tensor(EvalSteps.INTERCHANGE_QUERIES.start), rows, 2 * task.n_vars)
        .view(2, task.n_vars, -1)
        .mT
    )
    for i, banned in enumerate((task.banned_first, task.banned_second)):
        allowed = torch.tensor([v not in banned for v in task.variables])
        open_to = assigned & allowed & (letters != base[:, slots[i], None])
        if chosen:
            open_to &= ~(is_variable[:, :1] & (letters == chosen[0][:, None]))
        best = torch.where(open_to, luck[i], -1).max(1)
        chosen.append(letters[best.indices])
        defined = defined & ((best.values >= 0) | ~is_variable[:, i])
    return torch.stack(chosen, 1), defined


def _exchanged(tokens: Int[Tensor, "B T"], a: Int[Tensor, " B"], b: Int[Tensor, " B"]) -> Int[Tensor, "B T"]:
    """Every token a for b and every b for a, in each sequence its own."""
    a, b = a[:, None], b[:, None]
    return torch.where(tokens == a, b, torch.where(tokens == b, a, tokens))
