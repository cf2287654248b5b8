"""Attention of several heads between the matrix products of `numba_heads`, one sequence after the other.

The numbers of LANES heads of layer 1 stand beside one another: one vector has the weights that they give to a key, or
the scores of what they copy. So tables are read and gradients added once for all of them. Names, loops and formulas are
those of `numba_heads`.
"""

from __future__ import annotations

import numpy as np

from assignadd.model.kernels.numba_functions import SAFE_SUM, clear, fast, inlined, softmax
from assignadd.model.kernels.numba_vectors import (
    KEYS,
    LANES,
    NUMBERS,
    all_above,
    four_sums,
    keys_at,
    lanes_at,
    numbers_from,
    sum_of,
    write_keys,
    write_lanes,
    write_numbers_from,
    zero_keys,
    zero_lanes,
    zero_numbers,
)


@inlined
def keys_of(query):
    """How many keys have a weight for a query of layer 1: those up to the query, and more up to a multiple of KEYS.

    The weights of these are 0.
    """
    return query + KEYS - query % KEYS


@fast
def layer_1(tables, block, tokens, attention, attention_of_equals, of_keys):
    """Writes the attention of a block of heads of layer 1, (n, pairs, LANES), and of `=` alone, (n, 1, keys, LANES).

    It is `numba_functions.layer_1` with a vector of heads instead of a number. `of_keys`, (T,), is scratch memory.
    """
    factors, no_head = tables.factors_1[block], tables.no_head
    n, T = tokens.shape
    K, H, first_head = len(factors) - T, len(tables.scores_1), block * LANES
    for b in range(n):
        sequence, sums_are_safe, pair = tokens[b], True, 0
        for q in range(T):
            of_query_token, of_query_position, weights = factors[sequence[q]], factors[K + q], attention[b, pair:]
            query_token_at, query_position_at = of_query_token[K:], of_query_position[K:]
            total = lanes_at(no_head, block)  # 1 where there is no head, whose weights are then 0 / 1
            for k in range(q + 1):
                key = sequence[k]
                of_tokens = lanes_at(of_query_token, key) * lanes_at(of_query_position, key)
                weight = of_tokens * (lanes_at(query_token_at, k) * lanes_at(query_position_at, k))
                write_lanes(weight, weights, k)
                total = total + weight
            sums_are_safe &= all_above(total, SAFE_SUM)
            inverse = np.float32(1) / total
            for k in range(q + 1):
                write_lanes(lanes_at(weights, k) * inverse, weights, k)
            pair += keys_of(q)
        if not sums_are_safe:
            for h in range(first_head, min(H, first_head + LANES)):
                softmax_of_sums(tables.scores_1[h], sequence, attention[b], h - first_head, of_keys)
        of_last_query = attention[b, pair - keys_of(T - 1) :]
        for k in range(T):
            write_lanes(lanes_at(of_last_query, k), attention_of_equals[b, 0], k)


@fast
def softmax_of_sums(scores, sequence, attention, lane, of_keys):
    """Writes a head's attention in a sequence score by score: slower than factors, safe for any scores."""
    T = len(sequence)
    K, pair = len(scores) - T, 0
    for q in range(T):
        of_query_token, of_query_position, weights = scores[sequence[q]], scores[K + q], of_keys[: q + 1]
        for k in range(q + 1):
            key = sequence[k]
            weights[k] = of_query_token[key] + of_query_position[key] + of_query_token[K + k] + of_query_position[K + k]
        softmax(weights)
        for k in range(q + 1):
            attention[pair + k, lane] = weights[k]
        pair += keys_of(q)


# The next functions are of sums of x(k), the row of position k from a table, (C, H w), and of products with it. A head
# has w numbers of a row. A reader, `=` or a head of layer 2, has H w numbers too: `read`, (n, G H w), is of G readers.
# It has a weight for each position and head: `weights`, (blocks, n, G, keys, LANES). `rows` is scratch memory.


@inlined
def rows_of(table, sequence, rows):
    """Writes x(k) of every position of a sequence, (T, H w)."""
    T, width = rows.shape
    of_positions = table[len(table) - T :]
    for k in range(T):
        of_token, of_position, row = table[sequence[k]], of_positions[k], rows[k]
        for i in range(0, width, NUMBERS):
            write_numbers_from(numbers_from(of_token, i) + numbers_from(of_position, i), row, i)


@inlined
def vectors_from(first, width, w):
    """Where in a row four vectors begin, from number `first` on, and the lanes of their heads, all of one block.

    Those that would begin behind the end of the row are the last vector again.
    """
    last = width - NUMBERS
    i_0, i_1 = first, min(first + NUMBERS, last)
    i_2, i_3 = min(first + 2 * NUMBERS, last), min(first + 3 * NUMBERS, last)
    return (i_0, i_1, i_2, i_3), (i_0 // w % LANES, i_1 // w % LANES, i_2 // w % LANES, i_3 // w % LANES)


@fast
def sum_rows(weights, table, w, tokens, rows, read):
    """Writes for every reader the sum of x(k), each times its weight, over all positions: four vectors at once."""
    T, width = rows.shape
    for b in range(len(tokens)):
        rows_of(table, tokens[b], rows)
        for first in range(0, width, 4 * NUMBERS):
            (i_0, i_1, i_2, i_3), (lane_0, lane_1, lane_2, lane_3) = vectors_from(first, width, w)
            of_readers = weights[first // (LANES * w), b]
            for g in range(len(of_readers)):
                of_keys, of_reader = of_readers[g], read[b, g * width :]
                sum_0 = sum_1 = sum_2 = sum_3 = zero_numbers()
                for k in range(T):
                    weight, row = of_keys[k], rows[k]
                    sum_0 = sum_0 + weight[lane_0] * numbers_from(row, i_0)
                    sum_1 = sum_1 + weight[lane_1] * numbers_from(row, i_1)
                    sum_2 = sum_2 + weight[lane_2] * numbers_from(row, i_2)
                    sum_3 = sum_3 + weight[lane_3] * numbers_from(row, i_3)
                write_numbers_from(sum_0, of_reader, i_0)
                write_numbers_from(sum_1, of_reader, i_1)
                write_numbers_from(sum_2, of_reader, i_2)
                write_numbers_from(sum_3, of_reader, i_3)


@fast
def products_with_rows(read, table, w, tokens, rows, weights):
    """Writes as weights the inner products of every reader's numbers with x(k), head by head.

    It takes LANES heads at once, or the last one again: lanes without a head get numbers too, but their attention is 0.
    """
    T, width = rows.shape
    last = width - w
    for b in range(len(tokens)):
        rows_of(table, tokens[b], rows)
        for first in range(0, width, LANES * w):  # where the numbers of these heads begin
            i_0, i_1, i_2, i_3 = first, min(first + w, last), min(first + 2 * w, last), min(first + 3 * w, last)
            of_readers = weights[first // (LANES * w), b]
            for g in range(len(of_readers)):
                of_keys, of_reader = of_readers[g], read[b, g * width :]
                for k in range(T):
                    row = rows[k]
                    sum_0 = sum_1 = sum_2 = sum_3 = zero_numbers()
                    for i in range(0, w, NUMBERS):
                        sum_0 = sum_0 + numbers_from(of_reader, i_0 + i) * numbers_from(row, i_0 + i)
                        sum_1 = sum_1 + numbers_from(of_reader, i_1 + i) * numbers_from(row, i_1 + i)
                        sum_2 = sum_2 + numbers_from(of_reader, i_2 + i) * numbers_from(row, i_2 + i)
                        sum_3 = sum_3 + numbers_from(of_reader, i_3 + i) * numbers_from(row, i_3 + i)
                    write_lanes(four_sums(sum_0, sum_1, sum_2, sum_3), of_keys, k)


@fast
def add_to_rows(weights, read, w, tokens, rows, table):
    """Adds every reader's numbers, times its weight, to the two rows of the table that make up x(k)."""
    T, width = rows.shape
    of_positions = table[len(table) - T :]
    for b in range(len(tokens)):
        sequence, of_sequence = tokens[b], read[b]
        for first in range(0, width, 4 * NUMBERS):
            (i_0, i_1, i_2, i_3), (lane_0, lane_1, lane_2, lane_3) = vectors_from(first, width, w)
            of_readers = weights[first // (LANES * w), b]
            for k in range(T):
                row = rows[k]
                sum_0 = sum_1 = sum_2 = sum_3 = zero_numbers()
                for g in range(len(of_readers)):
                    weight, of_reader = of_readers[g, k], of_sequence[g * width :]
                    sum_0 = sum_0 + weight[lane_0] * numbers_from(of_reader, i_0)
                    sum_1 = sum_1 + weight[lane_1] * numbers_from(of_reader, i_1)
                    sum_2 = sum_2 + weight[lane_2] * numbers_from(of_reader, i_2)
                    sum_3 = sum_3 + weight[lane_3] * numbers_from(of_reader, i_3)
                write_numbers_from(sum_0, row, i_0)
                write_numbers_from(sum_1, row, i_1)
                write_numbers_from(sum_2, row, i_2)
                write_numbers_from(sum_3, row, i_3)
        for k in range(T):
            of_token, of_position, row = table[sequence[k]], of_positions[k], rows[k]
            for i in range(0, width, NUMBERS):
                numbers = numbers_from(row, i)
                write_numbers_from(numbers_from(of_token, i) + numbers, of_token, i)
                write_numbers_from(numbers_from(of_position, i) + numbers, of_position, i)


@fast
def layer_2(chunk, n):
    """Writes the attention of `=` in layer 2 and what it passes on of each position's copies, for every head."""
    row = chunk.of_keys
    for b in range(n):
        for g in range(chunk.passed_on.shape[2]):
            with_copied(chunk.attention_1, b, g, chunk.scores_2, chunk.copied_scores, row)
            softmax(row)
            of_block, lane = chunk.attention_2[g // LANES, b, 0], g % LANES
            for q in range(len(row)):
                of_block[q, lane] = row[q]
            pass_on(chunk.attention_1, b, g, row, chunk.passed_on)


@fast
def layer_2_backward(chunk, n):
    """Writes the gradients of all scores from those by attention and by what is passed on: `layer_2` from the end."""
    g_score = chunk.of_keys
    for b in range(n):
        for g in range(chunk.passed_on.shape[2]):
            # First the gradient by the attention, and after the loop that by the scores of keys.
            with_copied(chunk.attention_1, b, g, chunk.g_attention_2, chunk.g_passed_on, g_score)
            weights, g_scores, lane = chunk.attention_2[g // LANES, b, 0], chunk.g_scores_2[g // LANES, b, 0], g % LANES
            mean = np.float32(0)
            for q in range(len(g_score)):
                mean += g_score[q] * weights[q, lane]
            for q in range(len(g_score)):
                g_score[q] = weights[q, lane] * (g_score[q] - mean)
                g_scores[q, lane] = g_score[q]
            pass_on(chunk.attention_1, b, g, g_score, chunk.g_copied_scores)


@inlined
def with_copied(attention_1, b, g, numbers, copied, totals):
    """Writes for every key q its number and, by q's attention, those of its copies, (T,), of a head g."""
    T, of_head, lane = len(totals), numbers[g // LANES, b, 0], g % LANES
    for q in range(T):
        totals[q] = of_head[q, lane]
    for block in range(len(copied)):
        attention, of_copies, pair = attention_1[block, b], copied[block, b, g], 0
        for q in range(T):
            total = zero_keys()
            for k in range(0, keys_of(q), KEYS):
                total = total + keys_at(attention, pair + k) * keys_at(of_copies, k)
            totals[q] += sum_of(total)
            pair += keys_of(q)


@inlined
def pass_on(attention_1, b, g, weights, passed_on):
    """Writes how much of each position's copies is passed on by the keys q, with these weights (T,), to a head g."""
    T = len(weights)
    for block in range(len(passed_on)):
        attention, of_copies, first_pair = attention_1[block, b], passed_on[block, b, g], 0
        for k in range(0, T, KEYS):
            total, pair = zero_keys(), first_pair
            for q in range(k, T):
                total = total + weights[q] * keys_at(attention, pair + k)
                pair += keys_of(q)
            write_keys(total, of_copies, k)
            first_pair += KEYS * keys_of(k)


@fast
def layer_1_backward(chunk, block, tokens, g_table):
    """Adds the gradient of every sequence to `g_table`, that of the score tables of a block of heads of layer 1.

    It is `numba_functions.layer_1_backward` with a vector of heads instead of a number. `g_positions` adds up the rows
    of query positions, transposed.
    """
    n, T = tokens.shape
    C, H, g_row, g_positions = len(g_table), chunk.passed_on.shape[2], chunk.g_row, chunk.g_positions
    K = C - T
    clear(g_positions.reshape(-1, LANES))
    g_of_key_positions = g_positions[K:]
    for b in range(n):
        sequence, pair = tokens[b], 0
        for q in range(T):
            weights = chunk.attention_1[block, b, pair:]
            for k in range(0, keys_of(q), KEYS):
                write_keys(zero_keys(), g_row, k)
            if q == T - 1:  # `=`, which is read directly
                for k in range(T):
                    write_lanes(lanes_at(chunk.g_attention_of_equals[block, b, 0], k), g_row, k)
            # A weight passes copies on to each head of layer 2, and adds their scores to that of q.
            for g in range(H):
                weight = chunk.attention_2[g // LANES, b, 0, q, g % LANES]
                g_score = chunk.g_scores_2[g // LANES, b, 0, q, g % LANES]
                g_passed_on, copied_scores = chunk.g_passed_on[block, b, g], chunk.copied_scores[block, b, g]
                for k in range(0, keys_of(q), KEYS):
                    by_weight = weight * keys_at(g_passed_on, k) + g_score * keys_at(copied_scores, k)
                    write_keys(keys_at(g_row, k) + by_weight, g_row, k)
            mean = zero_lanes()
            for k in range(q + 1):
                mean = mean + lanes_at(weights, k) * lanes_at(g_row, k)
            of_query_token = g_table[sequence[q]]
            query_token_at = of_query_token[K:]
            for k in range(q + 1):
                g_score_of_pair = lanes_at(weights, k) * (lanes_at(g_row, k) - mean)
                key = sequence[k]
                of_key, of_key_position = g_positions[key], g_of_key_positions[k]
                write_lanes(lanes_at(query_token_at, k) + g_score_of_pair, query_token_at, k)
                write_lanes(lanes_at(of_query_token, key) + g_score_of_pair, of_query_token, key)
                write_lanes(lanes_at(of_key_position, q) + g_score_of_pair, of_key_position, q)
                write_lanes(lanes_at(of_key, q) + g_score_of_pair, of_key, q)
            pair += keys_of(q)
    for q in range(T):
        of_query_position = g_table[K + q]
        for key in range(C):
            write_lanes(lanes_at(of_query_position, key) + lanes_at(g_positions[key], q), of_query_position, key)
