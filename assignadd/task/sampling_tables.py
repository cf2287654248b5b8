"""Tables of a `Sampler` in the form in which compiled code reads them, on a CPU or a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from assignadd.config import Task
from assignadd.task.arithmetic import tuple_values
from assignadd.task.operands import LITERAL
from assignadd.task.randomness import DIGIT_SPACE, Stream
from assignadd.task.vocabulary import Vocabulary


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
    """For each draw, the random word that it uses (`word_of_each_draw`)."""


def pair_table(codes: Int[Tensor, "M P"], answers: Int[Tensor, "M P"], task: Task) -> Int[Tensor, "M P k1"]:
    """The values and the answer of each tuple, which is given as a code."""
    return torch.stack([*tuple_values(codes, task.modulus, task.operands), answers], -1)


def choice_table(choices: Int[Tensor, "n k"], vocabulary: Vocabulary) -> Int[Tensor, "n k2"]:
    """The table `SamplingTables.choices` of these choices of operands, given as variable numbers or LITERAL."""
    ordered = torch.where(choices == LITERAL, vocabulary.task.n_vars, choices).sort(1).values
    return torch.cat([ordered, choices + vocabulary.first_variable], 1)


def word_of_each_draw(bounds: Sequence[int]) -> tuple[int, ...]:
    """The random word that each draw uses, or 0 if it uses the rest of the previous word (`randomness.Digits`).

    Word 0 decides the kind of the sequence and is not used for draws.
    """
    begins, count, room = [], 0, 0
    for bound in bounds:
        fresh = room < bound
        count, room = count + fresh, (DIGIT_SPACE if fresh else room) // bound
        begins.append(count * fresh)
    return tuple(begins)
