"""Random sequences of the task on a CPU, drawn one after the other by compiled code (paper, section 3).

The functions return the same integers as the tensor operations of `assignadd.task.sampler`, several times faster. All
numbers are unsigned 64-bit integers: indices are then not tested for being negative.
Numba converts the sum of a signed and an unsigned integer to floating point, so constants are unsigned too.
"""

from __future__ import annotations

from collections import namedtuple
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from assignadd.compiler_cache import with_stored_code
from assignadd.task.randomness import MASK, MULTIPLIERS, ROUNDS, WEYL, Stream
from assignadd.task.sampler import Sampler

ZERO = np.uint64(0)
ONE = np.uint64(1)
TWO = np.uint64(2)
THREE = np.uint64(3)
FOUR = np.uint64(4)
WORD_BITS = np.uint64(32)
LOW = np.uint64(MASK)  # a mask of the low 32 bits
MULTIPLIER_0, MULTIPLIER_1 = np.uint64(MULTIPLIERS[0]), np.uint64(MULTIPLIERS[1])
WEYL_0, WEYL_1 = np.uint64(WEYL[0]), np.uint64(WEYL[1])
# Number of rows whose random words are computed together: 3 kB for the paper's task.
ROWS_AT_ONCE = np.uint64(64)
DATA = np.uint64(Stream.DATA)
SCRATCH = 32  # at least the number of variables, of assignments and of gaps between them
# Constants of the second file are compiled in.
compiled = partial(with_stored_code, sources=[Path(__file__), Path(__file__).with_name("randomness.py")])


# The tables of a `Sampler`, its sizes and its token ids, as compiled code takes them.
Law = namedtuple(
    "Law",
    "stream thresholds kinds choices n_pairs pairs new_words N V most prefix k plus equals pad first_variable "
    "random_padding",
)


class CompiledSampler:
    """Draws sequences by compiled code from the tables of a `Sampler`."""

    def __init__(self, sampler: Sampler):
        task, vocabulary = sampler.task, sampler.vocabulary
        self.length = task.length
        self.seeds = _unsigned(sampler.seeds)
        numbers = {
            "N": task.modulus, "V": task.n_vars, "most": task.max_assignments, "prefix": task.prefix,
            "k": task.operands, "plus": vocabulary.plus, "equals": vocabulary.equals, "pad": vocabulary.pad,
            "first_variable": vocabulary.first_variable, "random_padding": task.random_padding,
        }  # fmt: skip
        self.law = Law(
            stream=np.uint64(sampler.stream),
            thresholds=_unsigned(sampler.thresholds),
            kinds=_unsigned(sampler.kinds),
            choices=sampler.choices.numpy().astype(np.uint16),
            n_pairs=_unsigned(sampler.n_pairs),
            pairs=sampler.pairs.numpy().astype(np.uint16),
            new_words=np.array(sampler.new_words, dtype=np.uint8),
            **{name: np.uint64(number) for name, number in numbers.items()},
        )

    def sample(self, step: Tensor | int, rows: int, first_row: int) -> tuple[Tensor, Tensor]:
        """Tokens (M, B, T) and labels (M, B) of `rows` sequences for each model; (S, M, ...) for steps (S, 1, 1)."""
        has_axis_of_steps = isinstance(step, Tensor) and step.dim() > 0
        steps = np.asarray(step.cpu() if isinstance(step, Tensor) else step, dtype=np.int64).reshape(-1)
        axes = (len(steps), len(self.seeds), rows)
        shape = axes if has_axis_of_steps else axes[1:]
        # Arrays made by NumPy: tensors and their views cost 7 us more, a tenth of the time of a batch of 512.
        tokens = np.empty((*shape, self.length), dtype=np.int64)
        labels = np.empty(shape, dtype=np.int64)
        # Views with one axis of sequences, which `draw_sequences` fills.
        all_tokens, all_labels = tokens.view(np.uint64).reshape(-1, self.length), labels.view(np.uint64).reshape(-1)
        start, n_rows = np.int64(first_row), np.uint64(rows)
        draw_sequences(steps.view(np.uint64), start, n_rows, self.seeds, self.law, all_tokens, all_labels)
        return torch.from_numpy(tokens), torch.from_numpy(labels)


def _unsigned(tensor: Tensor) -> np.ndarray:
    """The integers of a tensor, none of which is negative, as unsigned 64-bit ones in the same memory."""
    return tensor.contiguous().numpy().view(np.uint64)


@compiled
def draw_sequences(steps, first_row, n_rows, seeds, law, tokens, labels):
    """Fills tokens (S M B, T) and labels (S M B): for each step and model `n_rows` sequences from `first_row` on."""
    n_words = law.new_words.max() + ONE
    n_blocks = (n_words + THREE) // FOUR  # of four words
    words = np.empty((ROWS_AT_ONCE, FOUR * n_blocks), dtype=np.uint32)
    out = ZERO  # the row of tokens and labels that is filled next
    for step in steps:
        for model in range(np.uint64(len(seeds))):
            for start in range(ZERO, n_rows, ROWS_AT_ONCE):
                n = min(ROWS_AT_ONCE, n_rows - start)
                fill_words(seeds[model], law.stream, step, np.uint64(first_row) + start, n, words)
                assemble(words, n, model, law, tokens, labels, out)
                out += n


@compiled
def fill_words(seed, stream, step, first_row, n_rows, words):
    """Fills `words` with the random words of consecutive rows, as `randomness.words`: Philox4x32-10.

    This is a separate loop so that the processor can overlap the long chains of dependent operations of several rows.
    """
    for row in range(n_rows):
        for block in range(np.uint64(words.shape[1] // 4)):
            c0, c1, c2, c3 = first_row + row, step, block, stream
            k0, k1 = seed & LOW, seed >> WORD_BITS
            for _ in range(ROUNDS):
                p0, p1 = c0 * MULTIPLIER_0, c2 * MULTIPLIER_1
                c0, c1 = ((p1 >> WORD_BITS) ^ c1 ^ k0) & LOW, p1 & LOW
                c2, c3 = ((p0 >> WORD_BITS) ^ c3 ^ k1) & LOW, p0 & LOW
                k0, k1 = (k0 + WEYL_0) & LOW, (k1 + WEYL_1) & LOW
            words[row, FOUR * block] = c0
            words[row, FOUR * block + ONE] = c1
            words[row, FOUR * block + TWO] = c2
            words[row, FOUR * block + THREE] = c3


@compiled
def digit(word, bound):
    """A uniform integer below `bound` from a random word, and what remains of the word, as `randomness.digit`."""
    product = word * bound
    return product >> WORD_BITS, product & LOW


# One function with all the draws: passing an array to a function costs more than a draw, as Numba counts references.
@compiled
def assemble(words, n_rows, model, law, tokens, labels, out):
    """Fills tokens and labels from row `out` on with sequences of a model from the first `n_rows` rows of `words`.

    The steps are those of `Sampler._assemble`. `new_words[i]` is the random word that draw i begins; where it is 0 the
    draw uses what remains of the word of the draw before. `most` is the largest number of assignments. The columns of
    `kinds`, `choices` and `pairs` are those of `Sampler`.
    """
    thresholds, kinds, choices = law.thresholds, law.kinds, law.choices
    n_pairs, pairs, new_words = law.n_pairs, law.pairs, law.new_words
    most, prefix, k = law.most, law.prefix, law.k
    is_training = law.stream == DATA
    most_pads = prefix - TWO  # with one assignment
    # The draws of a sequence in the order of `Sampler._bounds`: after the number of assignments come the operands'
    # slots, their variables and values, and then the PADs, the distractors' variables and the distractors' values.
    draw_n = ZERO
    draw_slots = ONE
    draw_choice = draw_slots + k
    draw_pair = draw_choice + ONE
    draw_pads = draw_pair + ONE
    draw_distractors = draw_pads + most_pads
    draw_values = draw_distractors + most
    pads = np.empty(SCRATCH, dtype=np.uint64)  # how many are in each gap before, between and after the assignments
    starts = np.empty(SCRATCH, dtype=np.uint64)  # where each assignment begins
    deck = np.empty(SCRATCH, dtype=np.uint64)  # the variables that are shuffled
    dealt = np.empty(SCRATCH, dtype=np.uint64)  # the distractors' tokens
    slots = np.empty(SCRATCH, dtype=np.uint64)  # the assignment of each operand
    taken = np.empty(SCRATCH, dtype=np.uint64)  # the same in increasing order, without literals
    for row in range(n_rows):
        # The kind of the sequence: bit i says whether operand i is a variable.
        word = np.uint64(words[row, ZERO])
        kind = ZERO
        for i in range(np.uint64(thresholds.shape[1])):
            kind += np.uint64(word >= thresholds[model, i])
        n_variables = ZERO
        for i in range(k):
            n_variables += kind >> i & ONE

        # The number n of assignments, as `Sampler._n_assignments`: in training drawn from 1..most and then raised.
        least = max(n_variables, ONE)
        word = np.uint64(words[row, new_words[draw_n]])
        drawn, word = digit(word, most if is_training else most + ONE - least)
        n = max(ONE + drawn, least) if is_training else least + drawn

        # Which assignment each operand has: a free one; `most`, past the end, for a literal.
        n_taken = ZERO
        for i in range(k):
            word = np.uint64(words[row, new_words[draw_slots + i]]) if new_words[draw_slots + i] else word
            drawn, word = digit(word, max(n - n_taken, ONE))
            slots[i] = most
            if kind >> i & ONE:
                slot = drawn  # counts the free slots alone, so it moves up past each taken one, from the first on
                for j in range(n_taken):
                    slot += np.uint64(slot >= taken[j])
                slots[i] = slot
                for j in range(n_taken):  # sorted in: from the first larger one on, each moves one place up
                    if taken[j] > slot:
                        taken[j], slot = slot, taken[j]
                taken[n_taken] = slot
                n_taken += ONE

        # The operands: which variables, and the values that they have.
        word = np.uint64(words[row, new_words[draw_choice]]) if new_words[draw_choice] else word
        drawn, word = digit(word, kinds[kind, ONE])
        choice = kinds[kind, ZERO] + drawn
        word = np.uint64(words[row, new_words[draw_pair]]) if new_words[draw_pair] else word
        pair, word = digit(word, n_pairs[model])
        labels[out] = pairs[model, pair, k]

        # The number of PADs before each assignment. With n assignments there are prefix - 2 n of them.
        pads[:] = ZERO
        for i in range(most_pads):
            word = np.uint64(words[row, new_words[draw_pads + i]]) if new_words[draw_pads + i] else word
            gap, word = digit(word, n + ONE)
            pads[gap if law.random_padding else ZERO] += np.uint64(i < prefix - TWO * n)

        # Distinct variables other than the operands, by a partial Fisher-Yates shuffle of 0..n_others-1.
        for i in range(law.V):
            deck[i] = i
        n_others = law.V - n_variables
        for i in range(most):
            word = np.uint64(words[row, new_words[draw_distractors + i]]) if new_words[draw_distractors + i] else word
            drawn, word = digit(word, n_others - i if n_others > i else ONE)
            variable = deck[i + drawn]
            deck[i + drawn] = deck[i]
            for j in range(n_variables):  # moves up past each operand, from the first on
                variable += np.uint64(variable >= choices[choice, j])
            dealt[i] = variable + law.first_variable

        # All assignments with distractors, then those of the operands over them. Assignments from the n-th on, and
        # those of literals, are written where the operator and what follows it overwrite them later.
        for i in range(prefix):
            tokens[out, i] = law.pad
        start = ZERO
        for i in range(most):
            word = np.uint64(words[row, new_words[draw_values + i]]) if new_words[draw_values + i] else word
            value, word = digit(word, law.N)
            start = min(start + pads[i], prefix)
            starts[i] = start
            n_distractors_before = i
            for j in range(n_taken):
                n_distractors_before -= np.uint64(i > taken[j])
            tokens[out, start] = dealt[n_distractors_before]
            tokens[out, start + ONE] = value
            start += TWO
        starts[most] = prefix
        for i in range(k):
            start = starts[slots[i]]
            tokens[out, start] = choices[choice, k + i]
            tokens[out, start + ONE] = pairs[model, pair, i]

        # The operator, the operands and `=`.
        tokens[out, prefix] = law.plus
        for i in range(k):
            is_variable = kind >> i & ONE
            tokens[out, prefix + ONE + i] = choices[choice, k + i] if is_variable else pairs[model, pair, i]
        tokens[out, prefix + ONE + k] = law.equals
        out += ONE
