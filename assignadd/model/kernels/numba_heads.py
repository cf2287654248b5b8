"""Attention of several heads in the training step of one model on a CPU, forward and backward.

Every head of layer 1 has its score table, and what it writes is a row for each token and position, as with one head:

    residual of `=` after layer 1    amounts_1 @ [[E; P] OV1 of each head; E_= + P_=]

A table of layer 2's scores would have H (H C + 1) rows of (1 + H) C numbers: for four heads, more to compute than the
step itself. So each head of layer 2 has its query, and the keys and values of the (1 + H) C rows that a key is made of,
which are narrow:

    scores_2 = queries_2 keys_2^T, of the (1 + H) T rows that a sequence has, and as much for the copies in each key
    read_2 = amounts_2 values_2, and read_2 W_O is added to the residual

Each of these is a product with the rows of positions, which all sequences share, and a sum over the rows of a
sequence's tokens. For batches of 512 of the paper's task, two heads of 64 take 1.4 times the multiplications of one
head, four of 32 1.6 times.

`cpu_arrays` says what every array is (`HeadTables`, `HeadChunk`, `HeadSums`); names and shapes are those of
`numba_functions` and `numba_step`. A loop over h is over the heads of layer 1, one over g over those of layer 2.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numba import types

from assignadd.model.kernels.blas import add_dot, compiled, dot, gemm, wait_for_all
from assignadd.model.kernels.numba_functions import (
    add,
    add_keys,
    add_query,
    add_query_positions,
    clear,
    copy,
    factors_of,
    fast,
    inlined,
    inner,
    layer_1,
    softmax,
)
from assignadd.model.kernels.numba_vectors import MATRIX, SUMS, TABLE, TOKENS, WEIGHTS, add_rows, transpose


@inner
def write_tables(model, thread):
    """Writes the tables of the weights; each thread those of its share of the heads."""
    weights, tables, equals, scale = model
    K, T, H = len(weights.E), len(weights.pos), len(weights.Q1)
    C = K + T
    # The parts of `rows`; `key_rows` make up the residual of any key in layer 2.
    embeddings, outputs_1, constant = tables.rows[:C], tables.rows[C : C + H * C], tables.rows[C + H * C :]
    key_rows = tables.rows[: C + H * C]
    if thread.number == 0:
        copy(weights.E, embeddings[:K])
        copy(weights.pos, embeddings[K:])
        add(weights.E[equals : equals + 1], weights.pos[T - 1 :], constant)
    wait_for_all(thread)
    for h in range(thread.number, H, thread.n_threads):
        dot(embeddings, weights.V1[h], tables.values_1[h])
        dot(tables.values_1[h], weights.O1[h], outputs_1[h * C : h * C + C])
        dot(embeddings, weights.Q1[h], tables.queries_1[h])
        dot(embeddings, weights.K1[h], tables.keys_1[h])
        gemm(scale, tables.queries_1[h], tables.keys_1[h].T, 0, tables.scores_1[h])
        factors_of(tables.scores_1[h], tables.factors_1[h], T)
    wait_for_all(thread)
    for g in range(thread.number, H, thread.n_threads):
        dot(key_rows, weights.K2[g], tables.keys_2[g])
        dot(key_rows, weights.V2[g], tables.values_2[g])
        take_positions(tables.keys_2[g], C, tables.position_keys[g])
        take_positions(tables.values_2[g], C, tables.position_values[g])
    if thread.number == thread.n_threads - 1:
        take_positions(outputs_1, C, tables.positions[: H * T])
        copy(constant, tables.positions[H * T :])
    wait_for_all(thread)


@inner
def take_positions(rows, C, of_positions):
    """Copies the rows of positions, the last of every C `rows`, into `of_positions`."""
    sources = len(rows) // C
    T = len(of_positions) // sources
    for source in range(sources):
        copy(rows[source * C + C - T : source * C + C], of_positions[source * T : source * T + T])


@inner
def put_positions(of_positions, C, rows):
    """Copies the rows of positions back to where `take_positions` takes them from."""
    sources = len(rows) // C
    T = len(of_positions) // sources
    for source in range(sources):
        copy(of_positions[source * T : source * T + T], rows[source * C + C - T : source * C + C])


@inner
def transpose_tables(model):
    """Writes the transposes of weights and tables that the backward pass of every chunk multiplies by."""
    weights, tables = model.weights, model.tables
    # Without the last row, that of the constant, whose amount is always 1.
    transpose(tables.positions[: len(tables.positions) - 1], tables.positions_T)
    for g in range(len(weights.Q2)):
        transpose(weights.Q2[g], tables.Q2_T[g])
        transpose(weights.O2[g], tables.O2_T[g])
        transpose(tables.position_values[g], tables.position_values_T[g])


@inner
def attend(model, chunk, tokens):
    """Writes the residual of `=` after layer 2's attention, (n, d), of the n sequences of a chunk."""
    weights, tables, scale = model.weights, model.tables, model.scale
    n, T = tokens.shape
    H, C = len(tables.scores_1), tables.scores_1.shape[1]
    amounts_1, resid_pre, resid_mid = chunk.amounts_1[:n], chunk.resid_pre[:n], chunk.resid_mid[:n]
    for h in range(H):
        layer_1(tables.scores_1[h], tables.factors_1[h], tokens, chunk.attention_1[h], amounts_1, h * T)
    dot(amounts_1, tables.positions, resid_pre)
    add_sources(SUMS, tables.rows[C:], C, tokens, amounts_1, resid_pre)
    for g in range(H):
        queries, scores = chunk.queries_2[g][:n], chunk.scores_2[g][:n]
        gemm(scale, resid_pre, weights.Q2[g], 0, queries)
        dot(queries, tables.position_keys[g].T, scores)
        add_sources(WEIGHTS, tables.keys_2[g], C, tokens, scores, queries)
    layer_2(chunk.attention_1, chunk.scores_2, chunk.amounts_2, n)
    copy(resid_pre, resid_mid)
    for g in range(H):
        amounts, read = chunk.amounts_2[g][:n], chunk.read_2[g][:n]
        dot(amounts, tables.position_values[g], read)
        add_sources(SUMS, tables.values_2[g], C, tokens, amounts, read)
        add_dot(read, weights.O2[g], resid_mid)


@inner
def attend_backward(model, chunk, sums, tokens, beta):
    """Adds the gradients by way of `resid_mid` to the sums (`beta` 1), or writes them (`beta` 0)."""
    tables, scale, n = model.tables, model.scale, len(tokens)
    H, C = len(tables.scores_1), tables.scores_1.shape[1]
    amounts_1, resid_pre = chunk.amounts_1[:n], chunk.resid_pre[:n]
    g_resid, g_amounts_1 = chunk.g_resid[:n], chunk.g_amounts_1[:n]
    if beta == 0:  # to these, sequences are added one by one; products write the others
        clear(sums.equal_rows)
        for h in range(H):
            clear(sums.scores_1[h])
            clear(sums.keys_2[h])
            clear(sums.values_2[h])
    # resid_mid = resid_pre + read_2 O2, and read_2 is the sum of the values, each times its amount.
    for g in range(H):
        amounts, g_amounts = chunk.amounts_2[g][:n], chunk.g_amounts_2[g][:n]
        read, g_read = chunk.read_2[g][:n], chunk.g_read_2[g][:n]
        gemm(1, read.T, g_resid, beta, sums.O2[g])
        dot(g_resid, tables.O2_T[g], g_read)
        dot(g_read, tables.position_values_T[g], g_amounts)
        add_sources(WEIGHTS, tables.values_2[g], C, tokens, g_amounts, g_read)
        gemm(1, amounts.T, g_read, beta, sums.position_values[g])
        add_sources(TABLE, sums.values_2[g], C, tokens, amounts, g_read)
    layer_2_backward(chunk.attention_1, chunk.amounts_2, chunk.g_amounts_2, chunk.g_scores_2, n)
    # Scores are products of queries, which resid_pre Q2 are, and keys.
    for g in range(H):
        queries, g_queries, g_scores = chunk.queries_2[g][:n], chunk.g_queries_2[g][:n], chunk.g_scores_2[g][:n]
        dot(g_scores, tables.position_keys[g], g_queries)
        add_sources(SUMS, tables.keys_2[g], C, tokens, g_scores, g_queries)
        gemm(1, g_scores.T, queries, beta, sums.position_keys[g])
        add_sources(TABLE, sums.keys_2[g], C, tokens, g_scores, queries)
        gemm(scale, resid_pre.T, g_queries, beta, sums.Q2[g])
        gemm(scale, g_queries, tables.Q2_T[g], 1, g_resid)  # now by resid_pre
    # resid_pre is the sum of the rows that layer 1 writes, each times its amount, and the constant.
    dot(g_resid, tables.positions_T, g_amounts_1)
    add_sources(WEIGHTS, tables.rows[C:], C, tokens, g_amounts_1, g_resid)
    gemm(1, amounts_1.T, g_resid, beta, sums.positions)
    add_sources(TABLE, sums.equal_rows, C, tokens, amounts_1, g_resid)
    for h in range(H):
        layer_1_backward(chunk, h, tokens, sums.scores_1[h])


@partial(compiled, signature=types.void(types.intp, MATRIX, types.intp, TOKENS, MATRIX, MATRIX))
def add_sources(to, table, C, tokens, weights, sums):
    """Does `add_rows` for every source, which has C rows of the table and T columns of the weights."""
    T = tokens.shape[1]
    for source in range(weights.shape[1] // T):
        add_rows(to, table[source * C : source * C + C], tokens, weights, source * T, sums)


@fast
def layer_2(attention_1, scores, amounts, n):
    """Writes, for n sequences and every head, how much `=` reads of each position's embedding and of its copies."""
    H, T = len(scores), attention_1.shape[2]
    for b in range(n):
        for g in range(H):
            score, amount = scores[g, b], amounts[g, b]
            weights = amount[:T]
            with_copies(attention_1, score, b, weights)
            softmax(weights)
            pass_on(attention_1, weights, b, amount)


@fast
def layer_2_backward(attention_1, amounts, g_amounts, g_scores, n):
    """Writes the gradient of `layer_2`'s scores from that of its amounts: the same passes over layer 1's attention."""
    H, T = len(amounts), attention_1.shape[2]
    for b in range(n):
        for g in range(H):
            weights, g_score = amounts[g, b], g_scores[g, b]
            g_weights = g_score[:T]
            with_copies(attention_1, g_amounts[g, b], b, g_weights)
            mean = np.float32(0)
            for q in range(T):
                mean += g_weights[q] * weights[q]
            for q in range(T):
                g_weights[q] = weights[q] * (g_weights[q] - mean)
            pass_on(attention_1, g_weights, b, g_score)


@inlined
def with_copies(attention_1, numbers, b, totals):
    """totals[q] = numbers[q] + what key q has of each head's copies: its attention times their numbers, (1 + H) T."""
    H, T = len(attention_1), attention_1.shape[2]
    for q in range(T):
        totals[q] = numbers[q]
    for h in range(H):
        of_copies = numbers[(1 + h) * T :]
        for q in range(T):
            pattern, total = attention_1[h, b * T + q], np.float32(0)
            for k in range(T):
                total += pattern[k] * of_copies[k]
            totals[q] += total


@inlined
def pass_on(attention_1, weights, b, amounts):
    """amounts[(1 + h) T + k] = the sum over the keys q of weights[q] times head h's attention from q to k."""
    H, T = len(attention_1), attention_1.shape[2]
    for h in range(H):
        of_copies = amounts[(1 + h) * T :]
        for k in range(T):
            of_copies[k] = 0
        for q in range(T):
            pattern, weight = attention_1[h, b * T + q], weights[q]
            for k in range(T):
                of_copies[k] += weight * pattern[k]


@fast
def layer_1_backward(chunk, h, tokens, g_table):
    """Adds the gradient of every sequence to `g_table`, that of the score table of head h of layer 1, (C, C)."""
    B, T = tokens.shape
    H, g_by_key, g_positions = len(chunk.attention_1), chunk.g_by_key, chunk.g_positions
    clear(g_by_key)
    clear(g_positions)
    g_row, first = g_by_key[T], (1 + h) * T
    for b in range(B):
        g_of_equals = chunk.g_amounts_1[b, h * T :]  # by what layer 1 writes into `=` itself
        for q in range(T):
            for k in range(T):
                g_row[k] = g_of_equals[k] if q == T - 1 else np.float32(0)
            # A weight passes copies on to each head of layer 2, and adds their scores to that of q.
            for g in range(H):
                weight, g_score = chunk.amounts_2[g, b, q], chunk.g_scores_2[g, b, q]
                g_passed_on, copied_scores = chunk.g_amounts_2[g, b, first:], chunk.scores_2[g, b, first:]
                for k in range(T):
                    g_row[k] += weight * g_passed_on[k] + g_score * copied_scores[k]
            add_query(chunk.attention_1[h, b * T + q], q, tokens[b], g_by_key, g_table)
        add_keys(tokens[b], g_by_key, g_positions)
    add_query_positions(g_positions, g_table)


@inner
def write_gradients(model, thread, gradients):
    """Writes the gradients of attention and embeddings from the sums of all sequences.

    It goes through `write_tables` from the end to the beginning; each thread has its share of the heads.
    """
    weights, tables, equals, scale = model
    grads, g_tables, sums = gradients.weights, gradients.tables, gradients.sums
    K, T, H = len(weights.E), len(weights.pos), len(weights.Q1)
    C = K + T
    embeddings, key_rows = tables.rows[:C], tables.rows[: C + H * C]
    g_embeddings, g_outputs_1, g_key_rows = g_tables.rows[:C], g_tables.rows[C : C + H * C], g_tables.rows[: C + H * C]
    g_equal_rows, g_constant = sums.equal_rows[: H * C], sums.equal_rows[H * C :]
    for g in range(thread.number, H, thread.n_threads):
        # The rows of positions, whose gradients `attend_backward` adds up apart.
        put_positions(sums.position_keys[g], C, sums.keys_2[g])
        put_positions(sums.position_values[g], C, sums.values_2[g])
        dot(key_rows.T, sums.keys_2[g], grads.K2[g])
        dot(key_rows.T, sums.values_2[g], grads.V2[g])
        copy(sums.Q2[g], grads.Q2[g])
        copy(sums.O2[g], grads.O2[g])
    for h in range(thread.number, H, thread.n_threads):
        gemm(scale, sums.scores_1[h], tables.keys_1[h], 0, g_tables.queries_1[h])
        gemm(scale, sums.scores_1[h].T, tables.queries_1[h], 0, g_tables.keys_1[h])
        dot(embeddings.T, g_tables.queries_1[h], grads.Q1[h])
        dot(embeddings.T, g_tables.keys_1[h], grads.K1[h])
    wait_for_all(thread)
    if thread.number == 0:
        for g in range(H):
            gemm(1, sums.keys_2[g], weights.K2[g].T, 0 if g == 0 else 1, g_key_rows)
            add_dot(sums.values_2[g], weights.V2[g].T, g_key_rows)
        put_positions(sums.positions[: H * T], C, g_equal_rows)
        copy(sums.positions[H * T :], g_constant)
        add(g_outputs_1, g_equal_rows, g_outputs_1)
        # E_= + P_=, so it is added to both: the row of `=` and that of the last position.
        add(g_embeddings[equals : equals + 1], g_constant, g_embeddings[equals : equals + 1])
        add(g_embeddings[C - 1 :], g_constant, g_embeddings[C - 1 :])
    wait_for_all(thread)
    for h in range(thread.number, H, thread.n_threads):
        dot(tables.values_1[h].T, g_outputs_1[h * C : h * C + C], grads.O1[h])
        dot(g_outputs_1[h * C : h * C + C], weights.O1[h].T, g_tables.values_1[h])
        dot(embeddings.T, g_tables.values_1[h], grads.V1[h])
    wait_for_all(thread)
    if thread.number == 0:
        for h in range(H):
            add_dot(g_tables.queries_1[h], weights.Q1[h].T, g_embeddings)
            add_dot(g_tables.keys_1[h], weights.K1[h].T, g_embeddings)
            add_dot(g_tables.values_1[h], weights.V1[h].T, g_embeddings)
        copy(g_embeddings[:K], grads.E)
        copy(g_embeddings[K:], grads.pos)
    wait_for_all(thread)
