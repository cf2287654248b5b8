"""Sequences of the task on a GPU, in one kernel: the integers of `assignadd.task.sampler`.

A program draws a block of one model's sequences for one step. What a drawn number is an index into (assignments,
variables, positions) is a matrix with a row for each sequence, read and written by comparing column numbers.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from assignadd.task.randomness import DIGIT_SPACE, MULTIPLIERS, ROUNDS, WEYL, Stream
from assignadd.task.sampler import Sampler

ROWS = 128  # sequences that one program draws


class CompiledSampler:
    """Draws sequences in one kernel from the tables of a `Sampler`. Steps and rows are below 2^32."""

    def __init__(self, sampler: Sampler):
        task, vocabulary = sampler.task, sampler.vocabulary
        most, stream = task.max_assignments, sampler.stream
        self.length, self.seeds = task.length, sampler.seeds
        tables_read = (sampler.kinds, sampler.choices, sampler.n_pairs, sampler.pairs)
        self._tables = [table.int().contiguous() for table in tables_read]
        self._thresholds = sampler.thresholds.contiguous()
        self._most_pairs = sampler.pairs.shape[1]
        # The constants with which the kernel is compiled.
        self._law = {
            "STREAM": int(stream), "TRAINING": stream == Stream.DATA, "NEW_WORDS": sampler.new_words,
            "K": task.operands, "THRESHOLDS": sampler.thresholds.shape[1],
            "N": task.modulus, "V": task.n_vars, "MOST": most, "PREFIX": task.prefix, "LENGTH": task.length,
            "PLUS": vocabulary.plus, "EQUALS": vocabulary.equals, "PAD": vocabulary.pad,
            "FIRST_VARIABLE": vocabulary.first_variable, "MOST_COLUMNS": triton.next_power_of_2(most + 1),
            "V_COLUMNS": triton.next_power_of_2(task.n_vars), "T_COLUMNS": triton.next_power_of_2(task.length + 2),
            "PADDING": task.random_padding, "SLOTS": task.operands, "PER_VARIABLE": 1, "GROUPS": 0, "GROUP_COLUMNS": 1,
            "HOPS": 0, "REBINDING": 0, "LINKS": None, "REBOUND": None,
        }  # fmt: skip
        if chains := sampler.chains:
            self._law |= {
                "SLOTS": 0, "PER_VARIABLE": chains.per_variable, "GROUPS": chains.n_groups,
                "GROUP_COLUMNS": triton.next_power_of_2(chains.n_groups), "HOPS": task.hops,
                "REBINDING": chains.rebinding, "LINKS": chains.links, "REBOUND": chains.rebound,
            }  # fmt: skip

    def sample(self, step: Tensor | int, rows: int, first_row: int) -> tuple[Tensor, Tensor]:
        """Tokens (M, B, T) and labels (M, B) of `rows` sequences for each model; (S, M, ...) for steps (S, 1, 1)."""
        M, device = len(self.seeds), self.seeds.device
        steps = torch.as_tensor(step, device=device).long()
        S = steps.numel()  # 1 for a single step, without an axis for it in the result
        tokens = torch.empty(S, M, self.length, rows, dtype=torch.int64, device=device)
        labels = torch.empty(S, M, rows, dtype=torch.int64, device=device)
        draw_sequences[triton.cdiv(rows, ROWS), M, S](
            steps.reshape(-1), self.seeds, self._thresholds, *self._tables, tokens, labels, rows, first_row,
            self._most_pairs, M, **self._law, BLOCK=ROWS,
        )  # fmt: skip
        tokens = tokens.mT  # (S, M, B, T)
        return (tokens[0], labels[0]) if steps.dim() == 0 else (tokens, labels)


_M0, _M1 = map(tl.constexpr, MULTIPLIERS)
_W0, _W1 = map(tl.constexpr, WEYL)
_ROUNDS, _SPACE = tl.constexpr(ROUNDS), tl.constexpr(DIGIT_SPACE)
_NEVER = tl.constexpr(64)  # more than any number of assignments


@triton.jit
def random_word(row, step, k0, k1, stream: tl.constexpr, index: tl.constexpr):
    """Random word number `index` of every row: Philox4x32-10, as `randomness.words`; k0, k1 are the key's two words."""
    c0, c1 = row, tl.zeros_like(row) + step
    c2, c3 = tl.full(row.shape, index // 4, tl.uint32), tl.full(row.shape, stream, tl.uint32)
    m0, m1 = tl.full(row.shape, _M0, tl.uint32), tl.full(row.shape, _M1, tl.uint32)
    for _ in tl.static_range(_ROUNDS):
        # The high and low words of the two products.
        h0, l0, h1, l1 = tl.umulhi(c0, m0), c0 * m0, tl.umulhi(c2, m1), c2 * m1
        c0, c1, c2, c3 = h1 ^ c1 ^ k0, l1, h0 ^ c3 ^ k1, l0
        k0, k1 = (k0 + _W0).to(tl.uint32), (k1 + _W1).to(tl.uint32)
    if index % 4 == 0:
        return c0
    elif index % 4 == 1:
        return c1
    elif index % 4 == 2:
        return c2
    else:
        return c3


@triton.jit
def digit(word, bound, row, step, k0, k1, stream: tl.constexpr, new_word: tl.constexpr):
    """A uniform integer below `bound` from random word `new_word` (0: from `word`), and what remains of the word."""
    if new_word > 0:
        word = random_word(row, step, k0, k1, stream, new_word)
    bound = tl.zeros_like(word) + bound.to(tl.uint32)
    return tl.umulhi(word, bound).to(tl.int32), word * bound


@triton.jit
def at_column(matrix, columns, index):
    """The entry of each row in column `index` (one for each row); `columns` are the numbers of the columns."""
    return tl.sum(tl.where(columns == index[:, None], matrix, 0), 1)


@triton.jit
def with_chains(
    out, t, starts, slot_column, dealt, kind, n, n_variables, choice, pair, word, row, step, k0, k1,
    STREAM: tl.constexpr, NEW_WORDS: tl.constexpr, FIRST: tl.constexpr, K: tl.constexpr, N: tl.constexpr,
    MOST: tl.constexpr, GROUPS: tl.constexpr, GROUP_COLUMNS: tl.constexpr, HOPS: tl.constexpr,
    REBINDING: tl.constexpr, LINKS: tl.constexpr, REBOUND: tl.constexpr,
):  # fmt: skip
    """The tokens `out` with assignments in chains, as `chains.Chains` draws them; FIRST is the number of the next draw.

    The names are those of `draw_sequences`, which calls this. A group is a chain such as `c=5, b=c, a=b`. The first K
    groups end in the variables of the operands, the others in distractors. Where the variable at the end is assigned
    twice, the earlier assignment does not count, and is written once the chain has reached that variable. `choice` has
    the operands' variables in increasing order and then their tokens, `pair` their values, `dealt` other variables.
    """
    BLOCK: tl.constexpr = out.shape[0]
    one, zero = tl.full((BLOCK,), 1, tl.int32), tl.zeros((BLOCK,), tl.int32)
    # The groups, and the group of each assignment, in a random order of the first n.
    group_column = tl.arange(0, GROUP_COLUMNS)[None, :]
    links_of = tl.zeros((BLOCK, GROUP_COLUMNS), tl.int32)
    # The number of assignments before the one that does not count; _NEVER if all count.
    before_of = tl.zeros((BLOCK, GROUP_COLUMNS), tl.int32)
    group_at = tl.zeros_like(dealt) + GROUP_COLUMNS  # from the n-th assignment on in none
    place = zero  # the number of assignments that the groups have so far
    for g in tl.static_range(GROUPS):
        available = n - place
        if g < K:
            available = ((kind >> g) & 1) * (n // tl.maximum(n_variables, 1))
        for_links = available - 1 if g < K and REBOUND else available
        bound = tl.minimum(tl.maximum(for_links, 1), HOPS + 1)
        links, word = digit(word, bound, row, step, k0, k1, STREAM, NEW_WORDS[FIRST + 3 * g])
        if g < K and LINKS is not None:
            links = one * LINKS
        drawn, word = digit(word, one * _SPACE, row, step, k0, k1, STREAM, NEW_WORDS[FIRST + 3 * g + 1])
        twice = ((drawn < REBINDING) & (links + 2 <= available)).to(tl.int32)
        if g < K and REBOUND is not None:
            twice = one * REBOUND
        before, word = digit(word, links + 1, row, step, k0, k1, STREAM, NEW_WORDS[FIRST + 3 * g + 2])
        end = place + tl.where(available > 0, links + 1 + twice, 0)
        links_of = tl.where(group_column == g, links[:, None], links_of)
        before_of = tl.where(group_column == g, tl.where(twice > 0, before, _NEVER)[:, None], before_of)
        group_at = tl.where((slot_column >= place[:, None]) & (slot_column < end[:, None]), g, group_at)
        place = end
    for i in tl.static_range(MOST):  # exchanges the groups of assignments i and i + drawn
        n_left = tl.maximum(n - i, 1)
        drawn, word = digit(word, n_left, row, step, k0, k1, STREAM, NEW_WORDS[FIRST + 3 * GROUPS + i])
        here, there = at_column(group_at, slot_column, one * i), at_column(group_at, slot_column, i + drawn)
        group_at = tl.where(slot_column == (i + drawn)[:, None], here[:, None], group_at)
        group_at = tl.where(slot_column == i, there[:, None], group_at)

    # The assignments in their order. From the n-th on they are written to where the addition overwrites them.
    # Of each group: its number of assignments so far, its last variable, and where the one begins that does not count.
    so_far_of = tl.zeros((BLOCK, GROUP_COLUMNS), tl.int32)
    last_of = tl.zeros((BLOCK, GROUP_COLUMNS), tl.int32)
    rebound_of = tl.zeros((BLOCK, GROUP_COLUMNS), tl.int32)
    n_new = zero  # distractors' variables that are used
    for i in tl.static_range(MOST):
        value, word = digit(word, one * N, row, step, k0, k1, STREAM, NEW_WORDS[FIRST + 3 * GROUPS + MOST + i])
        start = at_column(starts, slot_column, one * i)
        group = at_column(group_at, slot_column, one * i)
        in_group = group_column == group[:, None]
        n_earlier, before = at_column(so_far_of, group_column, group), at_column(before_of, group_column, group)
        counts = n_earlier != before
        link = n_earlier - (n_earlier > before).to(tl.int32)
        is_end = counts & (link == at_column(links_of, group_column, group))
        operand = tl.minimum(group, K - 1)
        asked = is_end & (group < K)  # the variable is an operand
        variable = tl.where(asked, tl.load(choice + K + operand), at_column(dealt, slot_column, n_new))
        n_new += (counts & (asked == 0)).to(tl.int32)
        number = tl.where(counts & (group < K), tl.load(pair + operand), value)
        right = tl.where(counts & (link > 0), at_column(last_of, group_column, group), number)
        out = tl.where(t == start[:, None], variable[:, None], tl.where(t == start[:, None] + 1, right[:, None], out))
        is_written = (is_end & (before < _NEVER))[:, None] & (t == at_column(rebound_of, group_column, group)[:, None])
        out = tl.where(is_written, variable[:, None], out)
        so_far_of += in_group.to(tl.int32)
        last_of = tl.where(in_group & counts[:, None], variable[:, None], last_of)
        rebound_of = tl.where(in_group & (counts == 0)[:, None], start[:, None], rebound_of)
    return out


@triton.jit
def draw_sequences(
    steps, seeds, thresholds, kinds, choices, n_pairs, pairs, tokens, labels, B, first_row, most_pairs, M,
    STREAM: tl.constexpr, TRAINING: tl.constexpr, NEW_WORDS: tl.constexpr, K: tl.constexpr,
    THRESHOLDS: tl.constexpr,
    N: tl.constexpr, V: tl.constexpr, MOST: tl.constexpr, PREFIX: tl.constexpr, LENGTH: tl.constexpr,
    PLUS: tl.constexpr, EQUALS: tl.constexpr, PAD: tl.constexpr, FIRST_VARIABLE: tl.constexpr,
    MOST_COLUMNS: tl.constexpr, V_COLUMNS: tl.constexpr, T_COLUMNS: tl.constexpr, PADDING: tl.constexpr,
    SLOTS: tl.constexpr, PER_VARIABLE: tl.constexpr, GROUPS: tl.constexpr, GROUP_COLUMNS: tl.constexpr,
    HOPS: tl.constexpr, REBINDING: tl.constexpr, LINKS: tl.constexpr, REBOUND: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Stores a block of sequences of one step and model in `tokens` and `labels`, as `Sampler._assemble` makes them.

    NEW_WORDS[i] is the random word that draw i begins; 0 if it uses what the last draw left. The draws are in the order
    of `Sampler._bounds`: the number of assignments, K slots (none with chains), the choice of operands, their values,
    PREFIX - 2 PADs, MOST distractors' variables, those of GROUPS and their shuffle (with chains), MOST numbers. The
    numbers of columns of matrices are powers of two.
    """
    m, s = tl.program_id(1).to(tl.int64), tl.program_id(2).to(tl.int64)  # the model, the step
    b = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)  # the sequences of the block
    row, step = (b + first_row).to(tl.uint32), tl.load(steps + s).to(tl.uint32)
    seed = tl.load(seeds + m)
    k0, k1 = seed.to(tl.uint32), (seed >> 32).to(tl.uint32)
    one, zero = tl.full((BLOCK,), 1, tl.int32), tl.zeros((BLOCK,), tl.int32)

    # The kind of the sequence: bit i says whether operand i is a variable.
    word = random_word(row, step, k0, k1, STREAM, 0)
    kind = zero
    for i in tl.static_range(THRESHOLDS):
        kind += (word.to(tl.int64) >= tl.load(thresholds + m * THRESHOLDS + i)).to(tl.int32)
    n_variables = zero
    for i in tl.static_range(K):
        n_variables += (kind >> i) & 1
    least = tl.maximum(n_variables * PER_VARIABLE, 1)

    # The number n of assignments, and which of them each operand has: the drawn one of those that are free.
    drawn, word = digit(word, one * MOST if TRAINING else MOST + 1 - least, row, step, k0, k1, STREAM, NEW_WORDS[0])
    n = tl.maximum(1 + drawn, least) if TRAINING else least + drawn
    slot_column = tl.arange(0, MOST_COLUMNS)[None, :]
    slots = tl.full((BLOCK, 4), MOST, tl.int32)  # a column for each operand; MOST, past the end, for a literal
    operand_column = tl.arange(0, 4)[None, :]
    taken = tl.zeros((BLOCK, MOST_COLUMNS), tl.int32)  # 1 for each assignment that an operand has
    n_taken = zero
    for i in tl.static_range(SLOTS):
        drawn, word = digit(word, tl.maximum(n - n_taken, 1), row, step, k0, k1, STREAM, NEW_WORDS[1 + i])
        is_variable = (kind >> i) & 1
        free_before = tl.cumsum(1 - taken, 1) - (1 - taken)
        # `here` is 1 for the assignment that this operand has: the free one with the drawn number.
        here = ((taken == 0) & (free_before == drawn[:, None]) & (is_variable > 0)[:, None]).to(tl.int32)
        place = tl.where(is_variable > 0, tl.sum(here * slot_column, 1), MOST)
        slots = tl.where(operand_column == i, place[:, None], slots)
        taken += here
        n_taken += is_variable

    # The operands: their variables, and their values. `choice` and `pair` point to the drawn rows (`Sampler`):
    # that of `choices` has 2 K numbers, that of `pairs` K + 1.
    drawn, word = digit(word, tl.load(kinds + 2 * kind + 1), row, step, k0, k1, STREAM, NEW_WORDS[1 + SLOTS])
    choice = choices + 2 * K * (tl.load(kinds + 2 * kind) + drawn)
    drawn, word = digit(word, one * tl.load(n_pairs + m), row, step, k0, k1, STREAM, NEW_WORDS[2 + SLOTS])
    pair = pairs + (K + 1) * (m * most_pairs + drawn)
    tl.store(labels + (s * M + m) * B + b, tl.load(pair + K).to(tl.int64), mask=b < B)

    # How many PADs are before each assignment, hence where each assignment begins.
    pads = tl.zeros((BLOCK, MOST_COLUMNS), tl.int32)
    for i in tl.static_range(PREFIX - 2):
        gap, word = digit(word, n + 1, row, step, k0, k1, STREAM, NEW_WORDS[3 + SLOTS + i])
        if not PADDING:  # all of it is before the first assignment
            gap = zero
        pads += ((slot_column == gap[:, None]) & (i < PREFIX - 2 * n)[:, None]).to(tl.int32)
    starts = tl.minimum(tl.cumsum(pads, 1) + 2 * slot_column, PREFIX)

    # Distinct variables other than the operands: a partial Fisher-Yates shuffle of 0..V-n_variables-1.
    variable_column = tl.arange(0, V_COLUMNS)[None, :]
    deck = tl.zeros((BLOCK, V_COLUMNS), tl.int32) + variable_column
    dealt = tl.zeros((BLOCK, MOST_COLUMNS), tl.int32)
    for i in tl.static_range(MOST):
        n_left = tl.maximum(V - n_variables - i, 1)
        drawn, word = digit(word, n_left, row, step, k0, k1, STREAM, NEW_WORDS[1 + SLOTS + PREFIX + i])
        variable = at_column(deck, variable_column, i + drawn)
        top = at_column(deck, variable_column, one * i)
        deck = tl.where(variable_column == (i + drawn)[:, None], top[:, None], deck)
        for j in tl.static_range(K):  # moves up past each operand, from the first on
            variable += (variable >= tl.load(choice + j)).to(tl.int32)
        dealt = tl.where(slot_column == i, variable[:, None] + FIRST_VARIABLE, dealt)

    t = tl.arange(0, T_COLUMNS)[None, :]
    out = tl.full((BLOCK, T_COLUMNS), PAD, tl.int32)
    if GROUPS:
        out = with_chains(
            out, t, starts, slot_column, dealt, kind, n, n_variables, choice, pair, word, row, step, k0, k1, STREAM,
            NEW_WORDS, 1 + PREFIX + MOST, K, N, MOST, GROUPS, GROUP_COLUMNS, HOPS, REBINDING, LINKS, REBOUND,
        )  # fmt: skip

    # Assignments from the n-th on, and those of literals, are written to where the addition overwrites them.
    for i in tl.static_range(0 if GROUPS else MOST):
        value, word = digit(word, one * N, row, step, k0, k1, STREAM, NEW_WORDS[1 + SLOTS + PREFIX + MOST + i])
        n_distractors_before = i - tl.sum(tl.where(slot_column < i, taken, 0), 1)
        start = at_column(starts, slot_column, one * i)[:, None]
        out = tl.where(t == start, at_column(dealt, slot_column, n_distractors_before)[:, None], out)
        out = tl.where(t == start + 1, value[:, None], out)
    for i in tl.static_range(SLOTS):
        start = at_column(starts, slot_column, at_column(slots, operand_column, one * i))[:, None]
        token, value = tl.load(choice + K + i)[:, None], tl.load(pair + i)[:, None]
        out = tl.where(t == start, token, tl.where(t == start + 1, value, out))
    # The operator, `=` and the operands.
    out = tl.where(t == PREFIX, PLUS, tl.where(t == PREFIX + K + 1, EQUALS, out))
    for i in tl.static_range(K):
        token, value = tl.load(choice + K + i)[:, None], tl.load(pair + i)[:, None]
        out = tl.where(t == PREFIX + 1 + i, tl.where((((kind >> i) & 1) > 0)[:, None], token, value), out)
    # Tokens are stored as (S, M, T, B).
    offsets = ((s * M + m) * LENGTH + t) * B + b[:, None]
    tl.store(tokens + offsets, out.to(tl.int64), mask=(t < LENGTH) & (b[:, None] < B))
