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
from assignadd.task.randomness import DIGIT_SPACE, MASK, MULTIPLIERS, ROUNDS, WEYL, Stream
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
REBINDING_SPACE = np.uint64(DIGIT_SPACE)  # bound of the draw that decides whether a variable is assigned twice
NONE = np.uint64(64)  # more than any number of links or assignments: for what is drawn, or does not exist
# Rows of the memory in which sequences are assembled, with an entry for each operand, assignment, gap or variable.
PADS = ZERO  # how many PADs are in each gap before, between and after the assignments
STARTS = ONE  # where each assignment begins
DECK = TWO  # the variables that are shuffled
DEALT = THREE  # the distractors' tokens
TAKEN = FOUR  # the operands' assignments in increasing order
SLOTS = FOUR + ONE  # the assignment of each operand
# With chains, the tokens and values of the operands, and the group of each assignment. Then of each group: its number
# of links, the number of assignments before the one that does not count, the number of assignments so far, the last
# variable, and where the one begins that does not count.
OPERANDS, VALUES, GROUP, LINKS, BEFORE, SO_FAR, LAST, REBOUND = (np.uint64(row) for row in range(6, 14))
SCRATCH_ROWS = 14
SCRATCH_COLUMNS = 32  # at least the number of variables, and the number of groups
# Constants of the second file are compiled in.
compiled = partial(with_stored_code, sources=[Path(__file__), Path(__file__).with_name("randomness.py")])


# The tables of a `Sampler`, its sizes and its token ids, as compiled code takes them.
Law = namedtuple(
    "Law",
    "stream thresholds kinds choices n_pairs pairs new_words N V most prefix k plus equals pad first_variable "
    "random_padding",
)
# The numbers of a task with chains; without chains None, for which functions are compiled without what is about them.
ChainLaw = namedtuple("ChainLaw", "per_variable n_groups k most N hops rebinding links rebound")


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
        self.chains = None
        if chains := sampler.chains:
            links = NONE if chains.links is None else chains.links
            rebound = NONE if chains.rebound is None else chains.rebound
            of_task = (chains.per_variable, chains.n_groups, task.operands, task.max_assignments, task.modulus)
            self.chains = ChainLaw(*map(np.uint64, (*of_task, task.hops, chains.rebinding, links, rebound)))

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
        draw_sequences(steps.view(np.uint64), start, n_rows, self.seeds, self.law, self.chains, all_tokens, all_labels)
        return torch.from_numpy(tokens), torch.from_numpy(labels)


def _unsigned(tensor: Tensor) -> np.ndarray:
    """The 64-bit integers of a tensor, none of which is negative, as unsigned ones."""
    return tensor.contiguous().numpy().view(np.uint64)


@compiled
def draw_sequences(steps, first_row, n_rows, seeds, law, chains, tokens, labels):
    """Fills tokens (S M B, T) and labels (S M B): for each step and model `n_rows` sequences from `first_row` on."""
    n_words = law.new_words.max() + ONE
    n_blocks = (n_words + THREE) // FOUR  # of four words
    words = np.empty((ROWS_AT_ONCE, FOUR * n_blocks), dtype=np.uint32)
    scratch = np.empty((SCRATCH_ROWS, SCRATCH_COLUMNS), dtype=np.uint64)
    out = ZERO  # the row of tokens and labels that is filled next
    for step in steps:
        for model in range(np.uint64(len(seeds))):
            for start in range(ZERO, n_rows, ROWS_AT_ONCE):
                n = min(ROWS_AT_ONCE, n_rows - start)
                fill_words(seeds[model], law.stream, step, np.uint64(first_row) + start, n, words)
                assemble(words, n, model, law, chains, tokens, labels, out, scratch)
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
def assemble(words, n_rows, model, law, chains, tokens, labels, out, scratch):
    """Fills tokens and labels from row `out` on with sequences of a model from the first `n_rows` rows of `words`.

    The steps are those of `Sampler._assemble`. `new_words[i]` is the random word that draw i begins; where it is 0 the
    draw uses what remains of the word of the draw before. `most` is the largest number of assignments. The columns of
    `kinds`, `choices` and `pairs` are those of `Sampler`, the rows of `scratch` are named above.
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
    n_slots = k if chains is None else ZERO  # chains have draws of their own instead, after all others
    per_variable = ONE if chains is None else chains.per_variable
    draw_choice = draw_slots + n_slots
    draw_pair = draw_choice + ONE
    draw_pads = draw_pair + ONE
    draw_distractors = draw_pads + most_pads
    draw_values = draw_distractors + most
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
        least = max(n_variables * per_variable, ONE)
        word = np.uint64(words[row, new_words[draw_n]])
        drawn, word = digit(word, most if is_training else most + ONE - least)
        n = max(ONE + drawn, least) if is_training else least + drawn

        # Which assignment each operand has: a free one; `most`, past the end, for a literal.
        n_taken = ZERO
        for i in range(n_slots):
            if new_words[draw_slots + i]:
                word = np.uint64(words[row, new_words[draw_slots + i]])
            drawn, word = digit(word, max(n - n_taken, ONE))
            scratch[SLOTS, i] = most
            if kind >> i & ONE:
                slot = drawn  # counts the free slots alone, so it moves up past each taken one, from the first on
                for j in range(n_taken):
                    slot += np.uint64(slot >= scratch[TAKEN, j])
                scratch[SLOTS, i] = slot
                for j in range(n_taken):  # sorted in: from the first larger one on, each moves one place up
                    if scratch[TAKEN, j] > slot:
                        scratch[TAKEN, j], slot = slot, scratch[TAKEN, j]
                scratch[TAKEN, n_taken] = slot
                n_taken += ONE

        # The operands: which variables, and the values that they have.
        if new_words[draw_choice]:
            word = np.uint64(words[row, new_words[draw_choice]])
        drawn, word = digit(word, kinds[kind, ONE])
        choice = kinds[kind, ZERO] + drawn
        if new_words[draw_pair]:
            word = np.uint64(words[row, new_words[draw_pair]])
        pair, word = digit(word, n_pairs[model])
        labels[out] = pairs[model, pair, k]

        # The number of PADs before each assignment. With n assignments there are prefix - 2 n of them.
        for i in range(most + ONE):
            scratch[PADS, i] = ZERO
        for i in range(most_pads):
            if new_words[draw_pads + i]:
                word = np.uint64(words[row, new_words[draw_pads + i]])
            gap, word = digit(word, n + ONE)
            scratch[PADS, gap if law.random_padding else ZERO] += np.uint64(i < prefix - TWO * n)

        # Distinct variables other than the operands, by a partial Fisher-Yates shuffle of 0..n_others-1.
        for i in range(law.V):
            scratch[DECK, i] = i
        n_others = law.V - n_variables
        for i in range(most):
            if new_words[draw_distractors + i]:
                word = np.uint64(words[row, new_words[draw_distractors + i]])
            drawn, word = digit(word, n_others - i if n_others > i else ONE)
            variable = scratch[DECK, i + drawn]
            scratch[DECK, i + drawn] = scratch[DECK, i]
            for j in range(n_variables):  # moves up past each operand, from the first on
                variable += np.uint64(variable >= choices[choice, j])
            scratch[DEALT, i] = variable + law.first_variable

        for i in range(prefix):
            tokens[out, i] = law.pad
        if chains is None:
            # All assignments with distractors, then those of the operands over them. Assignments from the n-th on, and
            # those of literals, are written where the operator and what follows it overwrite them later.
            start = ZERO
            for i in range(most):
                if new_words[draw_values + i]:
                    word = np.uint64(words[row, new_words[draw_values + i]])
                value, word = digit(word, law.N)
                start = min(start + scratch[PADS, i], prefix)
                scratch[STARTS, i] = start
                n_distractors_before = i
                for j in range(n_taken):
                    n_distractors_before -= np.uint64(i > scratch[TAKEN, j])
                tokens[out, start] = scratch[DEALT, n_distractors_before]
                tokens[out, start + ONE] = value
                start += TWO
            scratch[STARTS, most] = prefix
            for i in range(k):
                start = scratch[STARTS, scratch[SLOTS, i]]
                tokens[out, start] = choices[choice, k + i]
                tokens[out, start + ONE] = pairs[model, pair, i]
        else:
            for i in range(k):
                scratch[OPERANDS, i] = choices[choice, k + i]
                scratch[VALUES, i] = pairs[model, pair, i]
            write_chains(words, row, word, new_words, draw_values, n, kind, n_variables, chains, scratch, tokens, out)

        # The operator, the operands and `=`.
        tokens[out, prefix] = law.plus
        for i in range(k):
            is_variable = kind >> i & ONE
            tokens[out, prefix + ONE + i] = choices[choice, k + i] if is_variable else pairs[model, pair, i]
        tokens[out, prefix + ONE + k] = law.equals
        out += ONE


@partial(compiled, inline="always")
def write_chains(words, row, word, new_words, draw, n, kind, n_variables, chains, scratch, tokens, out):
    """Writes n assignments in chains to row `out` of `tokens`, as `Chains.draw_assignments` draws them.

    `word` is what remains of the word of the last draw, and `draw` the number of the next one. `scratch` has the PADs,
    the distractors and the operands.
    """
    k = chains.k
    draw_order = draw + THREE * chains.n_groups
    draw_values = draw_order + chains.most

    # The groups, first those of the operands. `place` is the number of assignments that they have so far.
    place = ZERO
    for group in range(chains.n_groups):
        # The groups that remain are empty. Their draws are skipped, but the next draw may use the word of the last one.
        if place == n and group >= k:
            if new_words[draw_order - ONE]:
                word = np.uint64(words[row, new_words[draw_order - ONE]])
            break
        available, links_wanted, rebound = n - place, NONE, NONE
        if group < k:
            available = n // n_variables if kind >> group & ONE else ZERO
            links_wanted, rebound = chains.links, chains.rebound
        for_links = max(available, TWO) - ONE if rebound == ONE else max(available, ONE)
        if new_words[draw]:
            word = np.uint64(words[row, new_words[draw]])
        links, word = digit(word, min(for_links, chains.hops + ONE))
        if links_wanted != NONE:
            links = links_wanted
        if new_words[draw + ONE]:
            word = np.uint64(words[row, new_words[draw + ONE]])
        drawn, word = digit(word, REBINDING_SPACE)
        twice = np.uint64(drawn < chains.rebinding and links + TWO <= available) if rebound == NONE else rebound
        if new_words[draw + TWO]:
            word = np.uint64(words[row, new_words[draw + TWO]])
        n_before, word = digit(word, links + ONE)
        draw += THREE
        scratch[LINKS, group] = links
        scratch[BEFORE, group] = n_before if twice else NONE
        scratch[SO_FAR, group] = ZERO
        for _ in range(links + ONE + twice if available else ZERO):
            scratch[GROUP, place] = group
            place += ONE

    # A random order of the assignments: exchanges i with a random one of i..n-1.
    for i in range(chains.most):
        if new_words[draw_order + i]:
            word = np.uint64(words[row, new_words[draw_order + i]])
        if i < n:
            drawn, word = digit(word, n - i)
            scratch[GROUP, i], scratch[GROUP, i + drawn] = scratch[GROUP, i + drawn], scratch[GROUP, i]

    # The assignments. `n_new` is the number of distractors' variables used so far.
    n_new, start = ZERO, ZERO
    for i in range(n):
        if new_words[draw_values + i]:
            word = np.uint64(words[row, new_words[draw_values + i]])
        value, word = digit(word, chains.N)
        start += scratch[PADS, i]
        group = scratch[GROUP, i]
        n_earlier, n_before = scratch[SO_FAR, group], scratch[BEFORE, group]
        scratch[SO_FAR, group] += ONE
        if n_earlier == n_before:  # does not count; its variable is written at the end of the chain
            scratch[REBOUND, group] = start
        else:
            link = n_earlier - np.uint64(n_earlier > n_before)
            is_end = link == scratch[LINKS, group]
            if is_end and group < k:
                variable = scratch[OPERANDS, group]
            else:
                variable = scratch[DEALT, n_new]
                n_new += ONE
            if link:
                value = scratch[LAST, group]
            elif group < k:
                value = scratch[VALUES, group]
            if is_end and n_before != NONE:
                tokens[out, scratch[REBOUND, group]] = variable
            scratch[LAST, group] = variable
            tokens[out, start] = variable
        tokens[out, start + ONE] = value
        start += TWO
