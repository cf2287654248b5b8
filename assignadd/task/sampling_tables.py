"""Tables of a `Sampler` in the form in which compiled code reads them, on a CPU or a GPU."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from assignadd.task.arithmetic import answer_of, pair_values
from assignadd.task.operands import LITERAL
from assignadd.task.randomness import DIGIT_SPACE
from assignadd.task.vocabulary import Vocabulary


def pair_table(codes: Int[Tensor, "M P"], N: int) -> Int[Tensor, "M P 3"]:
    """First value, second value and answer of each pair, given as N n + m."""
    first, second = pair_values(codes, N)
    return torch.stack([first, second, answer_of(first, second, N)], -1)


def choice_table(choices: Int[Tensor, "n 2"], vocabulary: Vocabulary) -> Int[Tensor, "n 4"]:
    """For each choice of operands: the lower and the higher variable (V if there is none), and the tokens of the first
    and the second operand (not used for a literal)."""
    low_high = torch.where(choices == LITERAL, vocabulary.task.n_vars, choices).sort(1).values
    return torch.cat([low_high, choices + vocabulary.first_variable], 1)


def word_of_each_draw(bounds: Sequence[int]) -> list[int]:
    """The random word that each draw uses, or 0 if it uses the rest of the previous word (`randomness.Digits`).

    Word 0 decides the kind of the sequence and is not used for draws.
    """
    begins, count, room = [], 0, 0
    for bound in bounds:
        fresh = room < bound
        count, room = count + fresh, (DIGIT_SPACE if fresh else room) // bound
        begins.append(count * fresh)
    return begins
