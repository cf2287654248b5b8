"""Random numbers as a pure function: Philox4x32-10 (Salmon et al., 2011) in int64 tensor arithmetic.

A word depends only on (seed, stream, step, row, block), so the integers are the same on a CPU and on a GPU, for one
model or a stack, in any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

import torch
from torch import Tensor

MASK = 0xFFFFFFFF  # of the low 32 bits
# The constants of Philox4x32-10; the WEYL constants are added to the key after each round.
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
    """Four random 32-bit words for each 128-bit counter under a 64-bit key; the letters are those of Salmon et al."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(ROUNDS):
        # The product p of two 32-bit words has 64 bits. int64 wraps around, so the low 32 bits are right, and the high
        # ones are right once the sign bits that the shift inserts are masked. Masking after the XOR is enough. The low
        # ones (c1, c3) may keep high bits until the end: the next XOR is masked.
        p0, p1 = c0 * MULTIPLIERS[0], c2 * MULTIPLIERS[1]
        c0, c1 = ((p1 >> 32) ^ c1 ^ k0) & MASK, p1
        c2, c3 = ((p0 >> 32) ^ c3 ^ k1) & MASK, p0
        k0, k1 = (k0 + WEYL[0]) & MASK, (k1 + WEYL[1]) & MASK
    return c0, c1 & MASK, c2, c3 & MASK


def words(seed: Tensor | int, stream: Stream, step: Tensor | int, row: Tensor, n: int, first_block: int = 0) -> Tensor:
    """n random 32-bit words for every (seed, step, row), (n, ...), from block `first_block` (of four words) on."""
    seed = torch.as_tensor(seed, device=row.device)
    step = torch.as_tensor(step, device=row.device)
    n_blocks = (n + 3) // 4
    shape = torch.broadcast_tensors(seed, step, row)[0].shape  # broadcast_shapes imports SymPy, which takes a second
    block = torch.arange(first_block, first_block + n_blocks, device=row.device)
    block = block.view(-1, *[1] * len(shape))  # (n_blocks, 1, ...)
    counter = (row, step, block, torch.full_like(block, int(stream)))
    key = (seed & MASK, (seed >> 32) & MASK)
    four_words = torch.broadcast_tensors(*philox(counter, key))  # (n_blocks, ...) each
    return torch.stack(four_words, 1).reshape(4 * n_blocks, *shape)[:n]


def permutation(n: int, stream: Stream, step: int) -> Tensor:
    """The random permutation of 0..n-1 that belongs to this stream and step: always the same."""
    (word_of_number,) = words(seed=0, stream=stream, step=step, row=torch.arange(n), n=1)
    return word_of_number.argsort(stable=True)


def digit(word: Tensor, bound: Tensor | int) -> tuple[Tensor, Tensor]:
    """A uniform integer below `bound` from a random 32-bit word, and what remains of the word for further draws.

    The word is read as a fraction in [0, 1). Times the bound, its whole part is the integer, its fraction remains.
    """
    product = word * bound
    return product >> 32, product & MASK


def word_of_each_draw(bounds: Sequence[int]) -> tuple[int, ...]:
    """For each draw of a sequence the number of the random word that it begins; 0 if it uses what the last draw left.

    `bounds` are the largest bounds that the draws can have, in their order. Word 0 decides the kind of the sequence and
    is not used for draws.
    """
    new_words = []
    last_word = 0
    space_left = 0  # of the last word: how large the product of further bounds may be
    for bound in bounds:
        needs_new_word = bound > space_left
        if needs_new_word:
            last_word += 1
            space_left = DIGIT_SPACE
        new_words.append(last_word if needs_new_word else 0)
        space_left //= bound
    return tuple(new_words)


class Digits:
    """Uniform integers drawn one after another from random words, several from each word (mixed radix)."""

    def __init__(self, random_words: Tensor, new_words: Sequence[int]):
        """`new_words` is `word_of_each_draw` of the bounds of all draws, in their order."""
        self._words = random_words
        self._new_words = iter(new_words)

    def below(self, bound: Tensor | int) -> Tensor:
        """The next draw: a uniform integer in 0..bound-1 for every row."""
        new_word = next(self._new_words)
        if new_word:  # 0 stands for what remains of the word of the last draw
            self._word = self._words[new_word]
        drawn, self._word = digit(self._word, bound)
        return drawn


def normals(seed: int, stream: Stream, row: Tensor) -> Tensor:
    """Standard normal numbers, one per row, by Box-Muller in float64; equal on all machines up to rounding in libm."""
    first, second = words(seed, stream, step=0, row=row, n=2).double()  # whole numbers below 2^32
    radius = torch.sqrt(-2 * torch.log((first + 1) / 2**32))  # + 1, as 0 has no logarithm
    return radius * torch.cos(2 * torch.pi * second / 2**32)
