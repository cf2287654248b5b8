"""Random sequences of the task on a CPU, drawn one after the other by compiled code (paper, section 3).

The functions return the same integers as the tensor operations of `assignadd.task.sampler`, several times faster. All
numbers are unsigned 64-bit integers, since Numba converts the sum of a signed and an unsigned one to floating point.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from assignadd.compiler_cache import kept
from assignadd.task.randomness import MASK, MULTIPLIERS, ROUNDS, WEYL, Stream
from assignadd.task.sampler import SamplingTables
from assignadd.task.vocabulary import Vocabulary

ZERO, ONE, TWO, THREE, FOUR, WORD_BITS, LOW = (np.uint64(x) for x in (0, 1, 2, 3, 4, 32, MASK))
MULTIPLIER_0, MULTIPLIER_1 = (np.uint64(x) for x in MULTIPLIERS)
WEYL_0, WEYL_1 = (np.uint64(x) for x in WEYL)
# Number of rows whose random words are computed together: 3 kB for the paper's task.
ROWS_AT_ONCE = np.uint64(64)
DATA = np.uint64(Stream.DATA)
# Constants of the second file are compiled in.
compiled = partial(kept, sources=[Path(__file__), Path(__file__).with_name("randomness.py")])


class CompiledSampler:
    """Draws sequences by compiled code from the tables of a `Sampler`."""

    def __init__(self, tables: SamplingTables):
        task, vocabulary = tables.task, Vocabulary(tables.task)
        ids = (vocabulary.plus, vocabulary.equals, vocabulary.pad, vocabulary.first_variable)
        sizes = (task.modulus, task.n_vars, task.max_assignments, task.prefix, task.operands)
        self.length = task.length
        self.seeds = _unsigned(tables.seeds)
        self.law = (
            np.uint64(tables.stream),
            _unsigned(tables.thresholds),
            _unsigned(tables.kinds),
            tables.choices.numpy().astype(np.uint16),
            _unsigned(tables.n_pairs),
            tables.pairs.numpy().astype(np.uint16),
            np.array(tables.begins, dtype=np.uint8),
            tuple(np.uint64(size) for size in sizes),
            tuple(np.uint64(token) for token in ids),
        )

    def sample(self, step: Tensor | int, rows: int, first_row: int) -> tuple[Tensor, Tensor]:
        """Tokens (M, B, T) and labels (M, B) of `rows` sequences for each model; (S, M, ...) for steps (S, 1, 1)."""
        single = not isinstance(step, Tensor) or step.dim() == 0
        steps = (
            step.to("cpu", torch.int64).numpy().reshape(-1)
            if isinstance(step, Tensor)
            else np.array([step], dtype=np.int64)
        )
        shape = (len(self.seeds), rows) if single else (len(steps), len(self.seeds), rows)
        # Arrays made by NumPy: tensors and their views cost 7 us more, a tenth of the time of a batch of 512.
        tokens, labels = np.empty((*shape, self.length), dtype=np.int64), np.empty(shape, dtype=np.int64)
        draw_sequences(
            *(steps.view(np.uint64), np.int64(first_row), np.uint64(rows), self.seeds),
            *(self.law, tokens.view(np.uint64).reshape(-1, self.length), labels.view(np.uint64).reshape(-1)),
        )
        return torch.from_numpy(tokens), torch.from_numpy(labels)


def _unsigned(tensor: Tensor) -> np.ndarray:
    return tensor.contiguous().numpy().view(np.uint64)


@compiled
def draw_sequences(steps, first_row, n_rows, seeds, law, tokens, labels):
    """Fills tokens (S M B, T) and labels (S M B); `law` is `CompiledSampler.law`."""
    stream, begins = law[0], law[6]
    n_words = ONE
    for begin in begins:
        n_words = max(n_words, begin + ONE)
    words = np.empty((ROWS_AT_ONCE, (n_words + THREE) // FOUR * FOUR), dtype=np.uint32)
    scratch = np.empty((6, 32), dtype=np.uint64)  # 32 is at least the number of variables
    out = ZERO
    for step in steps:
        for model in range(np.uint64(len(seeds))):
            for start in range(ZERO, n_rows, ROWS_AT_ONCE):
                n = min(ROWS_AT_ONCE, n_rows - start)
                fill_words(seeds[model], stream, step, np.uint64(first_row) + start, n, words)
                assemble(words, n, model, law, tokens, labels, out, scratch)
                out += n


@compiled
def fill_words(seed, stream, step, first_row, n_rows, words):
    """Fills the random words of consecutive rows, as `randomness.words`: Philox4x32-10.

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
    """A uniform integer below `bound` and the rest of the random word, as `randomness.digit`."""
    product = word * bound
    return product >> WORD_BITS, product & LOW


# One function with all the draws: passing an array to a function costs more than a draw, as Numba counts references.
@compiled
def assemble(words, n_rows, model, law, tokens, labels, out, scratch):
    """Fills tokens and labels from `out` on with the sequences of a model for the first `n_rows` rows of `words`.

    The steps are those of `Sampler._assemble`.
    """
    stream, thresholds, kinds, choices, n_pairs, pairs, begins, sizes, ids = law
    N, V, most, prefix, k = sizes
    plus, equals, pad, first_variable = ids
    PADS, STARTS, DECK, DEALT, TAKEN, SLOTS = ZERO, ONE, TWO, THREE, FOUR, FOUR + ONE  # rows of `scratch`
    training, n_pads = stream == DATA, prefix - TWO
    # The draws of a sequence in the order of `Sampler._bounds`: after the number of assignments come the operands'
    # slots, their variables and values, and then the PADs, the distractors' variables and the distractors' values.
    draw_choice = ONE + k
    draw_pair = draw_choice + ONE
    draw_pads = draw_pair + ONE
    draw_distractors = draw_pads + n_pads
    draw_values = draw_distractors + most
    for row in range(n_rows):
        # How many assignments, and which of them are the operands' (`most`, past the end, for a literal).
        word = np.uint64(words[row, ZERO])
        kind = ZERO
        for i in range(np.uint64(thresholds.shape[1])):
            kind += np.uint64(word >= thresholds[model, i])
        n_operands = ZERO
        for i in range(k):
            n_operands += kind >> i & ONE
        least = max(n_operands, ONE)
        drawn, word = digit(np.uint64(words[row, ONE]), most if training else most + ONE - least)
        n = max(ONE + drawn, least) if training else least + drawn
        taken = ZERO
        for i in range(k):
            if begins[ONE + i]:
                word = np.uint64(words[row, begins[ONE + i]])
            drawn, word = digit(word, max(n - taken, ONE))
            scratch[SLOTS, i] = most
            if kind >> i & ONE:
                for j in range(taken):  # slots that are taken, in increasing order
                    drawn += np.uint64(drawn >= scratch[TAKEN, j])
                scratch[SLOTS, i] = drawn
                for j in range(taken):
                    if scratch[TAKEN, j] > drawn:
                        scratch[TAKEN, j], drawn = drawn, scratch[TAKEN, j]
                scratch[TAKEN, taken] = drawn
                taken += ONE

        # The operands: which variables, and the values that they have.
        if begins[draw_choice]:
            word = np.uint64(words[row, begins[draw_choice]])
        drawn, word = digit(word, kinds[kind, ONE])
        choice = kinds[kind, ZERO] + drawn
        if begins[draw_pair]:
            word = np.uint64(words[row, begins[draw_pair]])
        pair, word = digit(word, n_pairs[model])
        labels[out] = pairs[model, pair, k]

        # The number of PADs before each assignment.
        for i in range(most + ONE):
            scratch[PADS, i] = ZERO
        for i in range(n_pads):
            if begins[draw_pads + i]:
                word = np.uint64(words[row, begins[draw_pads + i]])
            gap, word = digit(word, n + ONE)
            scratch[PADS, gap] += np.uint64(i < prefix - TWO * n)

        # Distinct variables other than the operands, by a partial Fisher-Yates shuffle.
        for i in range(V):
            scratch[DECK, i] = i
        left = V - n_operands
        for i in range(most):
            if begins[draw_distractors + i]:
                word = np.uint64(words[row, begins[draw_distractors + i]])
            drawn, word = digit(word, left - i if left > i else ONE)
            variable = scratch[DECK, i + drawn]
            scratch[DECK, i + drawn] = scratch[DECK, i]
            for j in range(n_operands):
                variable += np.uint64(variable >= choices[choice, j])
            scratch[DEALT, i] = variable + first_variable

        # Assignments from the n-th on, and those of literals, are written where the addition overwrites them later.
        for i in range(prefix):
            tokens[out, i] = pad
        start = ZERO
        for i in range(most):
            if begins[draw_values + i]:
                word = np.uint64(words[row, begins[draw_values + i]])
            value, word = digit(word, N)
            start = min(start + scratch[PADS, i], prefix)
            scratch[STARTS, i] = start
            rank = i
            for j in range(taken):
                rank -= np.uint64(i > scratch[TAKEN, j])
            tokens[out, start], tokens[out, start + ONE] = scratch[DEALT, rank], value
            start += TWO
        scratch[STARTS, most] = prefix
        for i in range(k):
            start, value = scratch[STARTS, scratch[SLOTS, i]], pairs[model, pair, i]
            tokens[out, start], tokens[out, start + ONE] = choices[choice, k + i], value
        tokens[out, prefix] = plus
        for i in range(k):
            is_variable = kind >> i & ONE
            tokens[out, prefix + ONE + i] = choices[choice, k + i] if is_variable else pairs[model, pair, i]
        tokens[out, prefix + ONE + k] = equals
        out += ONE
