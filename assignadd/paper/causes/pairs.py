"""Base and source prompts for interchange interventions, and the answers that the high-level program predicts.

The program looks up the first operand, looks up the second, and adds them (paper, section 5). Setting one variable of
the program to its value on the source has the same result as running the program on a third prompt, the hybrid:

    binding tags     the base with the source's variables in its assignments
    operand query    the base with the source's variables in its operand slots
    operand values   the base with one or both of the source's operand values
    sum              the source

A pair counts if the answers of hybrid and base differ. Otherwise a network that ignores the intervention would be
right. An `Outcome` holds on which pairs the network gave the program's answer.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from assignadd.config import Config, Task
from assignadd.measures.sequences import sequences
from assignadd.task.positions import Positions, answers, count_variables, operand_slots, roles, with_values
from assignadd.task.randomness import EvalSteps, Stream, TrainingLawDraws, digit, words
from assignadd.task.vocabulary import Vocabulary


@dataclass(frozen=True)
class Pairs:
    """Pairs of prompts, and the answer that the program predicts for each."""

    base: Int[Tensor, "B T"]
    source: Int[Tensor, "B T"]
    answer: Int[Tensor, " B"]
    """The answer to the hybrid."""
    counts: Bool[Tensor, " B"]
    """Whether there is a hybrid and its answer differs from the base's."""
    base_vars: Int[Tensor, " B"]
    source_vars: Int[Tensor, " B"]
    """Number of variables in the sums of base and source."""
    first_is_variable: Bool[Tensor, " B"]
    """Whether the base's first operand is a variable."""

    @classmethod
    def of(cls, task: Task, base: Tensor, source: Tensor, hybrid: Tensor, defined: Tensor | bool = True) -> Pairs:
        """The pairs of these prompts; `defined` is a mask of the rows that have a hybrid."""
        answer = answers(task, hybrid)
        is_variable = roles(task, base).is_variable
        counts = (answer != answers(task, base)) & defined
        return cls(base, source, answer, counts, is_variable.sum(1), count_variables(task, source), is_variable[:, 0])

    def outcome(self, hits: dict[str, Tensor], chosen: Bool[Tensor, " B"]) -> Outcome:
        """The outcome on the chosen pairs; `hits` says of each variant which were answered as the program does."""
        return Outcome(hits, self.base_vars[chosen], self.source_vars[chosen], self.first_is_variable[chosen])


@dataclass(frozen=True)
class Outcome:
    """For one alignment and one model, whether the network gave the program's answer on each pair that counts."""

    hits: dict[str, Bool[Tensor, " n"]]
    """By variant."""
    base_vars: Int[Tensor, " n"]
    source_vars: Int[Tensor, " n"]
    first_is_variable: Bool[Tensor, " n"]
    """These three are as in `Pairs`."""

    @property
    def n(self) -> int:
        """Number of pairs."""
        return len(self.base_vars)

    def count(self, variant: str = "whole") -> int:
        """Number of pairs answered as the program does."""
        return int(self.hits[variant].sum())

    def accuracy(self, variant: str = "whole") -> float:
        """Interchange accuracy: the share of pairs answered as the program does."""
        return self.count(variant) / self.n if self.n else float("nan")

    def where(self, chosen: Bool[Tensor, " n"]) -> Outcome:
        """The outcome on the chosen pairs."""
        hits = {variant: of_all[chosen] for variant, of_all in self.hits.items()}
        return Outcome(hits, self.base_vars[chosen], self.source_vars[chosen], self.first_is_variable[chosen])

    def with_variables(self, n_vars: int) -> Outcome:
        """The outcome on pairs whose base is a sum with `n_vars` variables."""
        return self.where(self.base_vars == n_vars)

    def by_types(self) -> Float[Tensor, "3 3"]:
        """Accuracy by the number of variables in base (rows) and source (columns); NaN where there is no pair."""
        types = range(3)
        cells = [[(self.base_vars == i) & (self.source_vars == j) for j in types] for i in types]
        return torch.tensor([[self.hits["whole"][cell].float().mean() for cell in row] for row in cells])


def prompts(config: Config, seen: Bool[Tensor, "N N"], n: int) -> tuple[Int[Tensor, "B T"], Int[Tensor, "B T"]]:
    """About n pairs of unrelated training sequences, equally many of each of the nine pairs of types."""
    types = config.task.variable_counts
    each = max(1, n // len(types) ** 2)

    def draw(kind: int, number: int) -> Tensor:
        return sequences([config], seen[None], kind, each, TrainingLawDraws.INTERCHANGE[number]).tokens[0]

    base = torch.cat([draw(i, j) for i in types for j in types])
    source = torch.cat([draw(j, len(types) + i) for i in types for j in types])
    return base.contiguous(), source.contiguous()


def value_pairs(task: Task, base: Tensor, source: Tensor, operands: tuple[bool, bool]) -> Pairs:
    """Pairs whose hybrid is the base with the source's values for the operands marked True."""
    values = torch.where(torch.tensor(operands), roles(task, source).values, roles(task, base).values)
    return Pairs.of(task, base, source, with_values(task, base, values))


def tag_pairs(task: Task, base: Tensor) -> Pairs:
    """Pairs whose hybrid is the base with its variables moved cyclically to the next assignment.

    The source is the hybrid with new random values for the assigned numbers.
    """
    positions = Positions(task, base)
    variables = positions.mask("variables")
    numbers = positions.mask("assigned")
    n, rank = variables.sum(1, keepdim=True), variables.cumsum(1) - 1
    order = (~variables).byte().argsort(dim=1, stable=True)  # positions, those of variables first
    moved = base.gather(1, order.gather(1, (rank + 1) % n))
    hybrid = torch.where(variables, moved, base)
    rows = torch.arange(len(base))[:, None] * task.length + torch.arange(task.length)
    word = words(torch.tensor(0), Stream.EVAL, torch.tensor(EvalSteps.INTERCHANGE_VALUES.start), rows, 1)[0]
    values = digit(word, task.modulus)[0]
    return Pairs.of(task, base, torch.where(numbers, values, hybrid), hybrid)


def query_pairs(task: Task, base: Tensor, other: Tensor) -> Pairs:
    """Pairs whose hybrid is the base with other assigned variables in its operand slots.

    The source is `other` with variables renamed, such that its operands are the hybrid's variables in the same slots.
    `other` must have as many variable operands as the base; if they are in other slots, its operands are exchanged. No
    variable is put into a slot that is banned for it.
    """
    first, second = slots = operand_slots(task)
    is_variable = roles(task, base).is_variable  # (B, 2)
    in_other_slots = (roles(task, other).is_variable != is_variable).any(1, keepdim=True)
    source = other.clone()
    source[:, list(slots)] = torch.where(in_other_slots, other[:, [second, first]], other[:, [first, second]])
    new, defined = _other_variables(task, base, is_variable)  # (B, 2), (B,)
    hybrid = base.clone()
    for i, slot in enumerate(slots):
        chosen = torch.where(is_variable[:, i], new[:, i], source[:, slot])
        source = _swapped(source, source[:, slot], chosen)
        hybrid[:, slot] = torch.where(is_variable[:, i], new[:, i], base[:, slot])
    defined &= count_variables(task, other) == is_variable.sum(1)
    source = torch.where(defined[:, None], source, base)
    hybrid = torch.where(defined[:, None], hybrid, base)
    return Pairs.of(task, base, source, hybrid, defined)


def _other_variables(task: Task, base: Tensor, is_variable: Tensor) -> tuple[Tensor, Tensor]:
    """For each variable operand another variable that the base assigns, (B, 2), and whether there is one, (B,).

    The two variables differ, and each is chosen at random among those allowed in its slot.
    """
    slots = operand_slots(task)
    letters = torch.tensor(Vocabulary(task).variables)
    in_prefix = Positions(task, base).mask("variables")[..., None]  # (B, T, 1)
    assigned = ((base[..., None] == letters) & in_prefix).any(1)  # (B, V)
    rows, defined = torch.arange(len(base)), is_variable.any(1)
    step = torch.tensor(EvalSteps.INTERCHANGE_QUERIES.start)
    random = words(torch.tensor(0), Stream.EVAL, step, rows, 2 * task.n_vars).view(2, task.n_vars, -1).mT  # (2, B, V)
    chosen: list[Tensor] = []
    for i, banned in enumerate((task.banned_first, task.banned_second)):
        allowed = torch.tensor([v not in banned for v in task.variables])
        candidates = assigned & allowed & (letters != base[:, slots[i], None])
        if chosen:
            candidates &= ~(is_variable[:, :1] & (letters == chosen[0][:, None]))
        best = torch.where(candidates, random[i], -1).max(1)
        chosen.append(letters[best.indices])
        defined = defined & ((best.values >= 0) | ~is_variable[:, i])
    return torch.stack(chosen, 1), defined


def _swapped(tokens: Int[Tensor, "B T"], a: Int[Tensor, " B"], b: Int[Tensor, " B"]) -> Int[Tensor, "B T"]:
    """The sequences with a token `a` of each exchanged for `b`, and `b` for `a`."""
    a, b = a[:, None], b[:, None]
    return torch.where(tokens == a, b, torch.where(tokens == b, a, tokens))
