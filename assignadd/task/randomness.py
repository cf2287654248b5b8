"""Random numbers as a pure function: Philox4x32-10 (Salmon et al., 2011) in int64 tensor arithmetic.

A word depends only on (seed, stream, step, row, block), so the integers are the same on a CPU and on a GPU, for one
model or a stack, in any order. There is no generator whose state could be lost or shared.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

import torch
from torch import Tensor

MASK = 0xFFFFFFFF
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10
# Several digits are drawn from one word as long as the product of their bounds is at most 2^16. The probability of each
# joint outcome is then exact to one part in 2^16: there are 2^32 words for at most 2^16 outcomes.
DIGIT_SPACE = 1 << 16


class Stream(IntEnum):
    """The purpose of a random word; the streams of one seed share no words."""

    DATA = 0  # training sequences
    EVAL = 1  # evaluation sequences and choices made for them: see `EvalSteps`
    INIT = 2  # initial weights
    SPLIT = 3  # which pairs of numbers are seen
    PADDING = 4  # positions of the PADs in a typed sequence
    ORDER = 6  # the order in which sequences are resampled or searched


class EvalSteps:
    """The steps of the evaluation stream that are reserved for each purpose; no two ranges overlap.

    A study that draws sequences of its own declares their steps in its file, as `DRAWS = range(8000, 9000)`.
    """

    EXAMS = range(0, 900)  # one step for each evaluation set of an exam, in the order of its sets
    EXPLORER_EXAMPLES = range(900, 1000)  # the prompts that the explorer offers
    TRAINING_LAW = range(1000, 2000)  # sequences for the measures: three steps a draw, one for each number of variables
    SWEEP_TESTS = range(2000, 3000)  # the paper's tests of generalisation
    ANY_SUMS = range(5000, 6000)  # sequences that add any pair with variables in any slot
    EVERY_PAIR = range(6000, 7000)  # accuracy pair by pair
    FINAL_EXAM = range(7000, 8000)  # the last evaluation of a population
    END_EXAMS = range(11_000, 12_000)  # an exam for each of the last ten evaluations, 100 steps each
    PROBE_SPLIT = range(1 << 30, (1 << 30) + 1)  # which pairs an answer probe is trained on
    PROBE_CONTROL = range((1 << 30) + 1, (1 << 30) + 2)  # the shuffled labels of its control
    INTERCHANGE_VALUES = range((1 << 30) + 2, (1 << 30) + 3)  # fresh values of source prompts
    INTERCHANGE_QUERIES = range((1 << 30) + 3, (1 << 30) + 4)  # operands of source prompts


class TrainingLawDraws:
    """The draws of `EvalSteps.TRAINING_LAW` that are reserved for each purpose."""

    MEASURES = range(0, 50)  # a measure that averages over contexts uses one draw for each
    INTERCHANGE = range(100, 110)  # base and source prompts


# A step of the training stream that no run reaches (`optim.steps` is at most 2^31): the reference set of interventions.
REFERENCE_STEP = 1 << 31


def philox(
    counter: tuple[Tensor, Tensor, Tensor, Tensor], key: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Four 32-bit words (as int64) for each 128-bit counter under a 64-bit key."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(ROUNDS):
        # The product of two 32-bit words has 64 bits. int64 wraps around, so the low 32 bits are right, and the high
        # ones are right once the sign bits that the shift inserts are masked. Masking after the XOR is enough.
        p0, p1 = c0 * MULTIPLIERS[0], c2 * MULTIPLIERS[1]
        c0, c1 = ((p1 >> 32) ^ c1 ^ k0) & MASK, p1
        c2, c3 = ((p0 >> 32) ^ c3 ^ k1) & MASK, p0
        k0, k1 = (k0 + WEYL[0]) & MASK, (k1 + WEYL[1]) & MASK
    return c0, c1 & MASK, c2, c3 & MASK


def words(seed: Tensor, stream: Stream, step: Tensor, row: Tensor, n: int, first_block: int = 0) -> Tensor:
    """n random 32-bit words for every (seed, step, row), (n, ...); the three broadcast together.

    A block has four words; those before `first_block` are left out.
    """
    blocks = (n + 3) // 4
    shape = torch.broadcast_tensors(seed, step, row)[0].shape  # broadcast_shapes imports SymPy, which takes a second
    block = torch.arange(first_block, first_block + blocks, device=row.device).view(-1, *[1] * len(shape))
    counter = (row, step, block, torch.full_like(block, int(stream)))
    out = torch.stack(torch.broadcast_tensors(*philox(counter, (seed & MASK, (seed >> 32) & MASK))), 1)
    return out.reshape(4 * blocks, *shape)[:n]


def permutation(n: int, stream: Stream, step: int) -> Tensor:
    """A fixed random permutation of 0..n-1."""
    word = words(torch.tensor(0), stream, torch.tensor(step), torch.arange(n), 1)[0]
    return word.argsort(stable=True)


def digit(word: Tensor, bound: Tensor | int) -> tuple[Tensor, Tensor]:
    """A uniform integer below `bound` from a 32-bit word, read as a fraction in [0, 1), and the remaining fraction."""
    product = word * bound
    return product >> 32, product & MASK


def word_of_each_draw(bounds: Sequence[int]) -> tuple[int, ...]:
    """The random word that each draw begins, or 0 if it uses the rest of the word before.

    `bounds` are the largest bounds that the draws can have. Word 0 decides the kind of the sequence and is not used
    for draws.
    """
    begins, n_words, space_left = [], 0, 0
    for bound in bounds:
        is_new = space_left < bound
        if is_new:
            n_words, space_left = n_words + 1, DIGIT_SPACE
        space_left //= bound
        begins.append(n_words if is_new else 0)
    return tuple(begins)


class Digits:
    """Uniform integers drawn one after another from random words, several from each word (mixed radix)."""

    def __init__(self, random_words: Tensor, begins: Sequence[int]):
        """`begins` is `word_of_each_draw` of the bounds of all draws, in their order."""
        self._words = random_words
        self._begins = iter(begins)

    def below(self, bound: Tensor | int) -> Tensor:
        """A uniform integer in 0..bound-1."""
        begin = next(self._begins)
        if begin:
            self._word = self._words[begin]
        drawn, self._word = digit(self._word, bound)
        return drawn


def normals(seed: int, stream: Stream, row: Tensor) -> Tensor:
    """Standard normal numbers, one per row, by Box-Muller in float64; equal on all machines up to rounding in libm."""
    first, second = words(torch.tensor(seed), stream, torch.tensor(0), row, 2).double()
    radius = torch.sqrt(-2 * torch.log((first + 1) / 2**32))
    return radius * torch.cos(2 * torch.pi * second / 2**32)
