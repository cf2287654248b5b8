"""Sequences of the task on a GPU, in one kernel: the integers of `assignadd.task.sampler`.

A program draws a block of one model's sequences for one step. Arrays of a sequence that are indexed by a drawn number
(assignments, variables, positions) are columns of a matrix with a row for each sequence, and are read and written by
comparing column numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from assignadd.config import Task
from assignadd.task.randomness import MULTIPLIERS, ROUNDS, WEYL, Stream
from assignadd.task.sampling_tables import choice_table, pair_table, word_of_each_draw
from assignadd.task.vocabulary import Vocabulary

ROWS = 128


class CompiledSampler:
    """The law of a `Sampler`; the arguments are attributes of the `Sampler`. Steps and rows are below 2^32."""

    def __init__(
        self,
        task: Task,
        stream: Stream,
        seeds: Tensor,
        thresholds: Tensor,
        operands: tuple[Tensor, Tensor, Tensor],
        pairs: tuple[Tensor, Tensor],
        bounds: Sequence[int],
    ):
        starts, counts, choices = operands
        n_pairs, codes = pairs
        vocabulary, most = Vocabulary(task), task.max_assignments
        self.length, self.seeds = task.length, seeds.flatten()
        operand_tables = (torch.stack([starts, counts], 1), choice_table(choices, vocabulary))
        tables = (*operand_tables, n_pairs.flatten(), pair_table(codes, task.modulus))
        self._tables = [table.int().contiguous() for table in tables]
        self._thresholds, self._most_pairs = thresholds.contiguous(), codes.shape[1]
        self._law = {
            "STREAM": int(stream), "TRAINING": stream == Stream.DATA, "BEGINS": tuple(word_of_each_draw(bounds)),
            "N": task.modulus, "V": task.n_vars, "MOST": most, "PREFIX": task.prefix, "LENGTH": task.length,
            "PLUS": vocabulary.plus, "EQUALS": vocabulary.equals, "PAD": vocabulary.pad,
            "FIRST_VARIABLE": vocabulary.first_variable, "AP": triton.next_power_of_2(most + 1),
            "VP": triton.next_power_of_2(task.n_vars), "TP": triton.next_power_of_2(task.length + 2),
        }  # fmt: skip

    def sample(self, step: Tensor | int, rows: int, first_row: int) -> tuple[Tensor, Tensor]:
        """Tokens (M, B, T) and labels (M, B) of `rows` sequences for each model; (S, M, ...) for steps (S, 1, 1)."""
        M, device = len(self.seeds), self.seeds.device
        steps = torch.as_tensor(step, device=device).long()
        S = steps.numel()
        tokens = torch.empty(S, M, self.length, rows, dtype=torch.int64, device=device)
        labels = torch.empty(S, M, rows, dtype=torch.int64, device=device)
        draw_sequences[triton.cdiv(rows, ROWS), M, S](
            steps.reshape(-1), self.seeds, self._thresholds, *self._tables, tokens, labels, rows, first_row,
            self._most_pairs, M, **self._law, BB=ROWS,
        )  # fmt: skip
        tokens = tokens.mT
        return (tokens[0], labels[0]) if steps.dim() == 0 else (tokens, labels)


_M0, _M1 = (tl.constexpr(x) for x in MULTIPLIERS)
_W0, _W1 = (tl.constexpr(x) for x in WEYL)
_ROUNDS = tl.constexpr(ROUNDS)


@triton.jit
def random_word(row, step, k0, k1, stream: tl.constexpr, index: tl.constexpr):
    """Word number `index` of every row: Philox4x32-10, as `randomness.words`."""
    c0, c1 = row, tl.zeros_like(row) + step
    c2, c3 = tl.full(row.shape, index // 4, tl.uint32), tl.full(row.shape, stream, tl.uint32)
    m0, m1 = tl.full(row.shape, _M0, tl.uint32), tl.full(row.shape, _M1, tl.uint32)
    for _ in tl.static_range(_ROUNDS):
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
def digit(word, bound, row, step, k0, k1, stream: tl.constexpr, begins: tl.constexpr):
    """A uniform whole number below `bound` from a new word, or from what is left of this one; and what is left then."""
    if begins > 0:
        word = random_word(row, step, k0, k1, stream, begins)
    bound = tl.zeros_like(word) + bound.to(tl.uint32)
    return tl.umulhi(word, bound).to(tl.int32), word * bound


@triton.jit
def at_column(matrix, columns, index):
    """The entry of each row in the column that `index` names."""
    return tl.sum(tl.where(columns == index[:, None], matrix, 0), 1)


@triton.jit
def draw_sequences(
    steps, seeds, thresholds, kinds, choices, n_pairs, pairs, tokens, labels, B, first_row, most_pairs, M,
    STREAM: tl.constexpr, TRAINING: tl.constexpr, BEGINS: tl.constexpr,
    N: tl.constexpr, V: tl.constexpr, MOST: tl.constexpr, PREFIX: tl.constexpr, LENGTH: tl.constexpr,
    PLUS: tl.constexpr, EQUALS: tl.constexpr, PAD: tl.constexpr, FIRST_VARIABLE: tl.constexpr,
    AP: tl.constexpr, VP: tl.constexpr, TP: tl.constexpr, BB: tl.constexpr,
):  # fmt: skip
    """The sequences of one step and model, as `Sampler._assemble` assembles them; AP, VP and TP are powers of two."""
    m, s = tl.program_id(1).to(tl.int64), tl.program_id(2).to(tl.int64)
    b = tl.program_id(0) * BB + tl.arange(0, BB)
    row, step = (b + first_row).to(tl.uint32), tl.load(steps + s).to(tl.uint32)
    seed = tl.load(seeds + m)
    k0, k1 = seed.to(tl.uint32), (seed >> 32).to(tl.uint32)
    one, zero = tl.full((BB,), 1, tl.int32), tl.zeros((BB,), tl.int32)

    word = random_word(row, step, k0, k1, STREAM, 0)
    kind = zero
    for i in tl.static_range(3):
        kind += (word.to(tl.int64) >= tl.load(thresholds + m * 3 + i)).to(tl.int32)
    has_first, has_second = ((kind == 1) | (kind == 3)).to(tl.int32), (kind >= 2).to(tl.int32)
    least = 1 + (kind == 3).to(tl.int32)

    # The number of assignments, and which of them are the operands' (MOST, past the end, for a literal).
    drawn, word = digit(word, one * MOST if TRAINING else MOST + 1 - least, row, step, k0, k1, STREAM, BEGINS[0])
    n = tl.maximum(1 + drawn, least) if TRAINING else least + drawn
    drawn, word = digit(word, n, row, step, k0, k1, STREAM, BEGINS[1])
    slot_first = tl.where(has_first > 0, drawn, MOST)
    drawn, word = digit(word, tl.maximum(n - has_first, 1), row, step, k0, k1, STREAM, BEGINS[2])
    slot_second = tl.where(has_second > 0, drawn + (drawn >= slot_first).to(tl.int32), MOST)

    # The operands: their variables, and their pair of values.
    drawn, word = digit(word, tl.load(kinds + 2 * kind + 1), row, step, k0, k1, STREAM, BEGINS[3])
    choice = choices + 4 * (tl.load(kinds + 2 * kind) + drawn)
    low, high, first, second = tl.load(choice), tl.load(choice + 1), tl.load(choice + 2), tl.load(choice + 3)
    drawn, word = digit(word, one * tl.load(n_pairs + m), row, step, k0, k1, STREAM, BEGINS[4])
    pair = pairs + 3 * (m * most_pairs + drawn)
    first_value, second_value = tl.load(pair), tl.load(pair + 1)
    tl.store(labels + (s * M + m) * B + b, tl.load(pair + 2).to(tl.int64), mask=b < B)

    # How many PADs are before each assignment, hence where each assignment begins.
    slot = tl.arange(0, AP)[None, :]
    pads = tl.zeros((BB, AP), tl.int32)
    for i in tl.static_range(PREFIX - 2):
        gap, word = digit(word, n + 1, row, step, k0, k1, STREAM, BEGINS[5 + i])
        pads += ((slot == gap[:, None]) & (i < PREFIX - 2 * n)[:, None]).to(tl.int32)
    starts = tl.minimum(tl.cumsum(pads, 1) + 2 * slot, PREFIX)

    # Distinct variables other than the operands: a partial Fisher-Yates shuffle of as many numbers as are left.
    column = tl.arange(0, VP)[None, :]
    deck = tl.zeros((BB, VP), tl.int32) + column
    dealt = tl.zeros((BB, AP), tl.int32)
    for i in tl.static_range(MOST):
        left = tl.maximum(V - has_first - has_second - i, 1)
        drawn, word = digit(word, left, row, step, k0, k1, STREAM, BEGINS[3 + PREFIX + i])
        variable, top = at_column(deck, column, i + drawn), at_column(deck, column, one * i)
        deck = tl.where(column == (i + drawn)[:, None], top[:, None], deck)
        variable += (variable >= low).to(tl.int32)
        variable += (variable >= high).to(tl.int32)
        dealt = tl.where(slot == i, variable[:, None] + FIRST_VARIABLE, dealt)

    # Assignments from the n-th on, and those of literals, are written to where the addition overwrites them.
    t = tl.arange(0, TP)[None, :]
    out = tl.full((BB, TP), PAD, tl.int32)
    for i in tl.static_range(MOST):
        value, word = digit(word, one * N, row, step, k0, k1, STREAM, BEGINS[3 + PREFIX + MOST + i])
        rank = i - (i > slot_first).to(tl.int32) - (i > slot_second).to(tl.int32)
        start = at_column(starts, slot, one * i)[:, None]
        out = tl.where(t == start, at_column(dealt, slot, rank)[:, None], out)
        out = tl.where(t == start + 1, value[:, None], out)
    start = at_column(starts, slot, slot_first)[:, None]
    out = tl.where(t == start, first[:, None], tl.where(t == start + 1, first_value[:, None], out))
    start = at_column(starts, slot, slot_second)[:, None]
    out = tl.where(t == start, second[:, None], tl.where(t == start + 1, second_value[:, None], out))
    out = tl.where(t == PREFIX, PLUS, tl.where(t == PREFIX + 3, EQUALS, out))
    out = tl.where(t == PREFIX + 1, tl.where(has_first > 0, first, first_value)[:, None], out)
    out = tl.where(t == PREFIX + 2, tl.where(has_second > 0, second, second_value)[:, None], out)
    at = ((s * M + m) * LENGTH + t) * B + b[:, None]
    tl.store(tokens + at, out.to(tl.int64), mask=(t < LENGTH) & (b[:, None] < B))
