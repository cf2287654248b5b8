"""Attention of several heads between the matrix products of `numba_heads`, one sequence after the other.

The numbers of LANES heads of layer 1 stand beside one another: one vector has the weights that they give to a key, or
the scores of what they copy. So tables are read and gradients added once for all of them. Names and loops are those of
`numba_heads`.
"""

from __future__ import annotations

import numpy as np

from assignadd.model.kernels.numba_functions import SAFE_SUM, clear, fast, inlined, softmax
from assignadd.model.kernels.numba_vectors import (
    KEYS,
    LANES,
    all_above,
    keys_at,
    lanes_at,
    lanes_from,
    sum_of,
    where_zero,
    write_keys,
    write_lanes,
    write_lanes_from,
    zero_keys,
    zero_lanes,
)


@fast
def write_copied_rows(tokens, H, copied_rows):
    """Writes at which place, among what layer 1 writes, is what each head copies from each position's token."""
    n, T = tokens.shape
    for b in range(n):
        for k in range(T):
            for h in range(H):
                copied_rows[b, k * H + h] = tokens[b, k] * H + h


@inlined
def keys_of(query):
    """How many keys have a weight for a query of layer 1: those up to the query, and more up to a multiple of KEYS.

    The weights of these are 0.
    """
    return query + KEYS - query % KEYS


@fast
def layer_1(tables, block, tokens, attention, amounts, row):
    """Writes the attention of a block of heads of layer 1, (n, pairs, LANES), and into `amounts` that of `=`, then 1.

    It is `numba_functions.layer_1` with a vector of heads instead of a number. `row`, of at least T numbers, is scratch
    memory.
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
                softmax_of_sums(tables.scores_1[h], sequence, attention[b], h - first_head, row)
        of_equals, amounts_of_equals = attention[b, pair - keys_of(T - 1) :], amounts[b]
        for k in range(T):
            for h in range(first_head, min(H, first_head + LANES)):
                amounts_of_equals[k * H + h] = of_equals[k, h - first_head]
        amounts_of_equals[H * T] = 1


@fast
def softmax_of_sums(scores, sequence, attention, lane, row):
    """Writes a head's attention in a sequence score by score: slower than factors, safe for any scores."""
    T = len(sequence)
    K, pair = len(scores) - T, 0
    for q in range(T):
        of_query_token, of_query_position, weights = scores[sequence[q]], scores[K + q], row[: q + 1]
        for k in range(q + 1):
            key = sequence[k]
            weights[k] = of_query_token[key] + of_query_position[key] + of_query_token[K + k] + of_query_position[K + k]
        softmax(weights)
        for k in range(q + 1):
            attention[pair + k, lane] = weights[k]
        pair += keys_of(q)


@fast
def collect(of_rows, tokens, no_head, g, direct, copied):
    """Writes for every position its number from each source of a key, of a head g, from those of all rows, (n, R).

    It is the number of the position's token plus that of the position: of their embeddings to `direct`, and of what the
    heads of layer 1 copy of these to `copied`.
    """
    n, T = tokens.shape
    H = direct.shape[1]
    C = (of_rows.shape[1] - LANES) // (1 + H)
    K = C - T
    for b in range(n):
        rows, rows_of_copies, sequence, of_positions = of_rows[b], of_rows[b, C:], tokens[b], direct[b, g]
        rows_of_places = rows[K:]
        for k in range(T):
            of_positions[k] = rows[sequence[k]] + rows_of_places[k]
        for block in range(len(copied)):
            of_copies, first = copied[block, b, g], block * LANES
            for k in range(T):
                of_token = lanes_from(rows_of_copies, sequence[k] * H + first)
                of_place = lanes_from(rows_of_copies, (K + k) * H + first)
                # Lanes without a head have read what is behind that.
                write_lanes(where_zero(lanes_at(no_head, block), of_token + of_place), of_copies, k)


@fast
def spread(direct, copied, tokens, g, of_rows):
    """Writes for all rows, (n, R), the sums of the numbers of positions: `collect` transposed.

    Lanes without a head are 0: they add nothing to what is behind, or are overwritten.
    """
    n, T = tokens.shape
    H = direct.shape[1]
    C = (of_rows.shape[1] - LANES) // (1 + H)
    K = C - T
    for b in range(n):
        rows, rows_of_copies, sequence, of_positions = of_rows[b], of_rows[b, C:], tokens[b], direct[b, g]
        rows_of_places = rows[K:]
        for row in range(len(rows)):
            rows[row] = 0
        for k in range(T):
            rows[sequence[k]] += of_positions[k]
        for k in range(T):
            rows_of_places[k] = of_positions[k]
        for block in range(len(copied)):
            of_copies, first = copied[block, b, g], block * LANES
            for k in range(T):
                place = sequence[k] * H + first
                write_lanes_from(lanes_from(rows_of_copies, place) + lanes_at(of_copies, k), rows_of_copies, place)
        for k in range(T):
            for block in range(len(copied)):
                write_lanes_from(lanes_at(copied[block, b, g], k), rows_of_copies, (K + k) * H + block * LANES)


@fast
def layer_2(chunk, n):
    """Writes the attention of `=` in layer 2 and what it passes on of each position's copies, for every head."""
    for b in range(n):
        with_copied(chunk.attention_1, b, chunk.scores_2[b], chunk.copied_scores, chunk.attention_2[b])
        for g in range(chunk.attention_2.shape[1]):
            softmax(chunk.attention_2[b, g])
        pass_on(chunk.attention_1, b, chunk.attention_2[b], chunk.passed_on)


@fast
def layer_2_backward(chunk, n):
    """Writes the gradients of all scores from those by attention and by what is passed on: `layer_2` from the end."""
    H, T = chunk.attention_2.shape[1:]
    for b in range(n):
        # First the gradient by the attention, and after the loop that by the scores of keys.
        with_copied(chunk.attention_1, b, chunk.g_attention_2[b], chunk.g_passed_on, chunk.g_scores_2[b])
        for g in range(H):
            weights, g_score, mean = chunk.attention_2[b, g], chunk.g_scores_2[b, g], np.float32(0)
            for q in range(T):
                mean += g_score[q] * weights[q]
            for q in range(T):
                g_score[q] = weights[q] * (g_score[q] - mean)
        pass_on(chunk.attention_1, b, chunk.g_scores_2[b], chunk.g_copied_scores)


@inlined
def with_copied(attention_1, b, numbers, copied, totals):
    """Writes for every key q its number and, by q's attention, those of what layer 1 copies into it, (H, T)."""
    H, T = totals.shape
    for g in range(H):
        numbers_of_head, totals_of_head = numbers[g], totals[g]
        for q in range(T):
            totals_of_head[q] = numbers_of_head[q]
        for block in range(len(copied)):
            attention, of_copies, pair = attention_1[block, b], copied[block, b, g], 0
            for q in range(T):
                total = zero_keys()
                for k in range(0, keys_of(q), KEYS):
                    total = total + keys_at(attention, pair + k) * keys_at(of_copies, k)
                totals_of_head[q] += sum_of(total)
                pair += keys_of(q)


@inlined
def pass_on(attention_1, b, weights, passed_on):
    """Writes how much of each position's copies is passed on by the keys q, with these weights (H, T), to `=`."""
    H, T = weights.shape
    for g in range(H):
        weights_of_head = weights[g]
        for block in range(len(passed_on)):
            attention, of_copies, first_pair = attention_1[block, b], passed_on[block, b, g], 0
            for k in range(0, T, KEYS):
                total, pair = zero_keys(), first_pair
                for q in range(k, T):
                    total = total + weights_of_head[q] * keys_at(attention, pair + k)
                    pair += keys_of(q)
                write_keys(total, of_copies, k)
                first_pair += KEYS * keys_of(k)


@fast
def layer_1_backward(chunk, no_head, block, tokens, g_table):
    """Adds the gradient of every sequence to `g_table`, that of the score tables of a block of heads of layer 1.

    It is `numba_functions.layer_1_backward` with a vector of heads instead of a number. `g_positions` adds up the rows
    of query positions, transposed.
    """
    n, T = tokens.shape
    C, H, g_row, g_positions = len(g_table), chunk.attention_2.shape[1], chunk.g_row, chunk.g_positions
    K, first_head = C - T, block * LANES
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
                    g_of_equals = lanes_from(chunk.g_amounts_1[b], k * H + first_head)
                    write_lanes(where_zero(lanes_at(no_head, block), g_of_equals), g_row, k)
            # A weight passes copies on to each head of layer 2, and adds their scores to that of q.
            for g in range(H):
                weight, g_score = chunk.attention_2[b, g, q], chunk.g_scores_2[b, g, q]
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
