"""What sequences are drawn from: all choices of operands (paper, section 3), and the tables that compiled code reads.

The kind of a sequence says which operand slots hold variables: bit i of the number is 1 if slot i does. With two
operands the kinds are 0 (no variable), 1 (variable first), 2 (variable second) and 3 (two variables).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import torch
from jaxtyping import Int
from torch import Tensor

from assignadd.config import Task
from assignadd.task.randomness import Stream
from assignadd.task.vocabulary import Vocabulary

LITERAL = -1


def kinds(task: Task) -> range:
    """All kinds of sequences of a task."""
    return range(2**task.operands)


def operand_choices(task: Task, kind: int, n_banned: int | None) -> list[tuple[int, ...]]:
    """All operands of this kind, as variable numbers or LITERAL; no variable is in two slots.

    Exactly `n_banned` of them are in a slot that is banned for them (None: any number).
    """
    slots = [range(task.n_vars) if kind >> slot & 1 else [LITERAL] for slot in range(task.operands)]
    n_vars, banned = kind.bit_count(), _banned(task)
    return [
        choice
        for choice in product(*slots)
        if len({x for x in choice if x != LITERAL}) == n_vars and n_banned in (None, _count(choice, banned))
    ]


def count_banned(task: Task, *operands: int) -> int:
    """The number of operands in a slot that is banned for them; LITERAL is never banned."""
    return _count(operands, _banned(task))


def _count(operands: tuple[int, ...], banned: list[set[int]]) -> int:
    return sum(x in own for x, own in zip(operands, banned, strict=True))


def _banned(task: Task) -> list[set[int]]:
    """For each slot, the numbers of the variables that are banned from it."""
    return [{task.variables.index(letter) for letter in letters} for letters in task.bans]


@dataclass(frozen=True)
class SamplingTables:
    """What the sequences of a stack of models are drawn from; k is the number of operands."""

    task: Task
    stream: Stream
    seeds: Int[Tensor, " M"]
    thresholds: Int[Tensor, "M kinds_1"]
    """The kind of a sequence is the number of thresholds that its first random word reaches."""
    kinds: Int[Tensor, "kinds 2"]
    """For each kind, where its choices of operands begin, and how many there are."""
    choices: Int[Tensor, "n k2"]
    """For each choice of operands: its variables in increasing order (V where there are fewer than k), then the tokens
    of the operands (not used for a literal)."""
    n_pairs: Int[Tensor, " M"]
    """The number of tuples of values of each model."""
    pairs: Int[Tensor, "M P k1"]
    """The values of each tuple, and its answer."""
    begins: tuple[int, ...]
    """For each draw, the random word that it uses (`randomness.word_of_each_draw`)."""


def choice_table(choices: Int[Tensor, "n k"], vocabulary: Vocabulary) -> Int[Tensor, "n k2"]:
    """The table `SamplingTables.choices` of these choices of operands, given as variable numbers or LITERAL."""
    ordered = torch.where(choices == LITERAL, vocabulary.task.n_vars, choices).sort(1).values
    return torch.cat([ordered, choices + vocabulary.first_variable], 1)
