"""Attention of several heads in the training step of one model on a CPU, forward and backward.

Every head of layer 1 has its score table, and what it writes is a row for each token and position, as with one head:

    residual of `=` after layer 1    amounts_1 @ [[E; P] OV1 of each head; E_= + P_=]

A table of layer 2's scores would have H (H C + 1) rows of (1 + H) C numbers: for four heads, more to compute than the
step itself. So each head of layer 2 has its query, and the keys and values of the (1 + H) C rows that a key is made of,
which are narrow:

    scores of rows = queries_2 keys_2^T, of which each position has two from each source of a key (`collect`)
    read_2 = used values_2, with how much is used of each row (`spread`), and read_2 W_O is added to the residual

These products are with all rows: sums over the rows of a sequence's tokens, as with one head, take longer where rows
are narrow.

`cpu_arrays` says what every array is (`HeadTables`, `HeadChunk`, `HeadSums`); names and shapes are those of
`numba_functions` and `numba_step`. A loop over h is over the heads of layer 1, one over g over those of layer 2.
"""

from __future__ import annotations

import numpy as np

from assignadd.model.kernels.blas import add_dot, dot, gemm, wait_for_all
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
from assignadd.model.kernels.numba_vectors import SUMS, TABLE, WEIGHTS, add_rows, add_small_product, transpose


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
        transpose(tables.keys_2[g], tables.keys_2_T[g])
    if thread.number == thread.n_threads - 1:
        for h in range(H):
            copy(outputs_1[h * C + K : h * C + C], tables.positions[h * T : h * T + T])
        copy(constant, tables.positions[H * T :])
    wait_for_all(thread)


@inner
def transpose_tables(model):
    """Writes the transposes of weights and tables that the backward pass of every chunk multiplies by."""
    weights, tables = model.weights, model.tables
    # Without the last row, that of the constant, whose amount is always 1.
    transpose(tables.positions[: len(tables.positions) - 1], tables.positions_T)
    for g in range(len(weights.Q2)):
        transpose(weights.Q2[g], tables.Q2_T[g])
        transpose(weights.O2[g], tables.O2_T[g])
        transpose(tables.values_2[g], tables.values_2_T[g])


@inner
def attend(model, chunk, tokens):
    """Writes the residual of `=` after layer 2's attention, (n, d), of the n sequences of a chunk."""
    weights, tables, scale = model.weights, model.tables, model.scale
    n, T = tokens.shape
    H, C = len(tables.scores_1), tables.scores_1.shape[1]
    amounts_1, resid_pre, resid_mid = chunk.amounts_1[:n], chunk.resid_pre[:n], chunk.resid_mid[:n]
    of_rows = chunk.of_rows[:n]
    # Behind its T columns of `amounts_1` every head writes 1. The next head overwrites it; the last 1 is for the
    # constant.
    for h in range(H):
        layer_1(tables.scores_1[h], tables.factors_1[h], tokens, chunk.attention_1[h], amounts_1, h * T)
    # The residual of `=`: from the positions and the constant, then from the tokens.
    dot(amounts_1, tables.positions, resid_pre)
    for h in range(H):
        add_rows(SUMS, tables.rows[C + h * C : C + h * C + C], tokens, amounts_1, h * T, resid_pre)
    # `of_rows` is scratch memory for one head: first its scores of all rows, then how much it reads of each.
    for g in range(H):
        gemm(scale, resid_pre, weights.Q2[g], 0, chunk.queries_2[g][:n])
        dot(chunk.queries_2[g][:n], tables.keys_2_T[g], of_rows)
        collect(of_rows, tokens, chunk.scores_2[g], C)
    layer_2(chunk.attention_1, chunk.pattern_T, chunk.scores_2, chunk.amounts_2, n)
    copy(resid_pre, resid_mid)
    for g in range(H):
        spread(chunk.amounts_2[g], tokens, of_rows, C)
        dot(of_rows, tables.values_2[g], chunk.read_2[g][:n])
        add_dot(chunk.read_2[g][:n], weights.O2[g], resid_mid)


@inner
def attend_backward(model, chunk, sums, tokens, beta):
    """Adds the gradients by way of `resid_mid` to the sums (`beta` 1), or writes them (`beta` 0)."""
    tables, scale = model.tables, model.scale
    n, T = tokens.shape
    H, C = len(tables.scores_1), tables.scores_1.shape[1]
    amounts_1, g_amounts_1 = chunk.amounts_1[:n], chunk.g_amounts_1[:n]
    g_resid, of_rows = chunk.g_resid[:n], chunk.of_rows[:n]
    if beta == 0:  # to these, sequences are added one by one; products write the others
        clear(sums.equal_rows)
        for h in range(H):
            clear(sums.scores_1[h])
    # resid_mid = resid_pre + read_2 O2, and read_2 is the sum of the values, each times its amount.
    for g in range(H):
        read, g_read = chunk.read_2[g][:n], chunk.g_read_2[g][:n]
        gemm(1, read.T, g_resid, beta, sums.O2[g])
        dot(g_resid, tables.O2_T[g], g_read)
        dot(g_read, tables.values_2_T[g], of_rows)
        collect(of_rows, tokens, chunk.g_amounts_2[g], C)
        spread(chunk.amounts_2[g], tokens, of_rows, C)
        gemm(1, of_rows.T, g_read, beta, sums.values_2[g])
    layer_2_backward(chunk.attention_1, chunk.pattern_T, chunk.amounts_2, chunk.g_amounts_2, chunk.g_scores_2, n)
    # Scores are products of queries, which resid_pre Q2 are, and keys.
    for g in range(H):
        queries, g_queries = chunk.queries_2[g][:n], chunk.g_queries_2[g][:n]
        spread(chunk.g_scores_2[g], tokens, of_rows, C)
        dot(of_rows, tables.keys_2[g], g_queries)
        gemm(1, of_rows.T, queries, beta, sums.keys_2[g])
        gemm(scale, chunk.resid_pre[:n].T, g_queries, beta, sums.Q2[g])
        gemm(scale, g_queries, tables.Q2_T[g], 1, g_resid)  # now by resid_pre
    # resid_pre is the sum of the rows that layer 1 writes, each times its amount, and the constant.
    dot(g_resid, tables.positions_T, g_amounts_1)
    gemm(1, amounts_1.T, g_resid, beta, sums.positions)
    for h in range(H):
        add_rows(WEIGHTS, tables.rows[C + h * C : C + h * C + C], tokens, g_amounts_1, h * T, g_resid)
        add_rows(TABLE, sums.equal_rows[h * C : h * C + C], tokens, amounts_1, h * T, g_resid)
    for h in range(H):
        layer_1_backward(chunk, h, tokens, sums.scores_1[h])


@fast
def collect(of_rows, tokens, numbers, C):
    """Writes for every position its number from each source of a key, (n, P), from those of all rows, (n, R).

    It is the number of the position's token plus that of the position.
    """
    n, T = tokens.shape
    for b in range(n):
        rows, of_positions, sequence = of_rows[b], numbers[b], tokens[b]
        for source in range(len(rows) // C):
            # The C rows of a source are those of tokens, then the T of positions.
            of_source, of_position_rows = rows[source * C :], rows[(source + 1) * C - T :]
            for k in range(T):
                of_positions[source * T + k] = of_source[sequence[k]] + of_position_rows[k]


@fast
def spread(numbers, tokens, of_rows, C):
    """Writes for all rows, (n, R), the sums of the numbers of positions, (n, P): `collect` transposed."""
    n, T = tokens.shape
    for b in range(n):
        rows, of_positions, sequence = of_rows[b], numbers[b], tokens[b]
        for row in range(len(rows)):
            rows[row] = 0
        for source in range(len(rows) // C):
            of_source, of_position_rows = rows[source * C :], rows[(source + 1) * C - T :]
            of_source_positions = of_positions[source * T :]
            for k in range(T):
                of_source[sequence[k]] += of_source_positions[k]
                of_position_rows[k] = of_source_positions[k]


@fast
def layer_2(attention_1, pattern_T, scores, amounts, n):
    """Writes, for n sequences and every head, how much `=` reads of each position's embedding and of its copies.

    `pattern_T`, (T, T), is scratch memory.
    """
    H, T = len(scores), attention_1.shape[2]
    for b in range(n):
        weights = amounts[:, b, :T]  # a view, (H, T): the scores of the keys, and after the softmax their attention
        with_copies(attention_1, pattern_T, scores, b, weights)
        for g in range(H):
            softmax(amounts[g, b, :T])
        pass_on(attention_1, weights, b, amounts)


@fast
def layer_2_backward(attention_1, pattern_T, amounts, g_amounts, g_scores, n):
    """Writes the gradient of `layer_2`'s scores from that of its amounts: the same passes over layer 1's attention."""
    H, T = len(amounts), attention_1.shape[2]
    for b in range(n):
        g_weights = g_scores[:, b, :T]  # a view, (H, T): first by the attention weights, after the loop by the scores
        with_copies(attention_1, pattern_T, g_amounts, b, g_weights)
        for g in range(H):
            weights, g_score, mean = amounts[g, b], g_scores[g, b], np.float32(0)
            for q in range(T):
                mean += g_score[q] * weights[q]
            for q in range(T):
                g_score[q] = weights[q] * (g_score[q] - mean)
        pass_on(attention_1, g_weights, b, g_scores)


@inlined
def with_copies(attention_1, pattern_T, numbers, b, totals):
    """Writes for every head and key q, (H, T), its number and, by q's attention, those of what layer 1 copies into it.

    The `numbers` (H, n, P) are those of T positions, then of what each head of layer 1 copies from there. `pattern_T`,
    (T, T), is scratch memory.
    """
    H, T = totals.shape
    for g in range(H):
        for q in range(T):
            totals[g, q] = numbers[g, b, q]
    for h in range(H):
        transpose(attention_1[h][b * T : b * T + T], pattern_T)
        add_small_product(numbers[:, b, (1 + h) * T : (2 + h) * T], pattern_T, totals)


@inlined
def pass_on(attention_1, weights, b, amounts):
    """Writes how much of each position's copies is passed on by the keys q, with these weights (H, T), to `=`.

    It is written into the last H T columns of `amounts` (H, n, P) for sequence b.
    """
    H, T = weights.shape
    for h in range(H):
        of_copies = amounts[:, b, (1 + h) * T : (2 + h) * T]
        for g in range(H):
            for k in range(T):
                of_copies[g, k] = 0
        add_small_product(weights, attention_1[h][b * T : b * T + T], of_copies)


@fast
def layer_1_backward(chunk, h, tokens, g_table):
    """Adds the gradient of every sequence to `g_table`, that of the score table of head h of layer 1, (C, C)."""
    B, T = tokens.shape
    H, g_by_key, g_positions = len(chunk.attention_1), chunk.g_by_key, chunk.g_positions
    clear(g_by_key)
    clear(g_positions)
    g_row = g_by_key[T]  # scratch memory, (T,), for one query: the row behind those of the T keys
    first_copy = (1 + h) * T  # the first of the T columns of what head h copies
    for b in range(B):
        g_of_equals = chunk.g_amounts_1[b, h * T :]  # by what layer 1 writes into `=` itself
        for q in range(T):
            for k in range(T):  # only the last query, `=`, is read directly
                g_row[k] = g_of_equals[k] if q == T - 1 else np.float32(0)
            # A weight passes copies on to each head of layer 2, and adds their scores to that of q.
            for g in range(H):
                weight, g_score = chunk.amounts_2[g, b, q], chunk.g_scores_2[g, b, q]
                g_passed_on, copied_scores = chunk.g_amounts_2[g, b, first_copy:], chunk.scores_2[g, b, first_copy:]
                for k in range(T):
                    g_row[k] += weight * g_passed_on[k] + g_score * copied_scores[k]
            add_query(chunk.attention_1[h, b * T + q], g_row, q, tokens[b], g_by_key, g_table)
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
            beta = 0 if g == 0 else 1  # the first head writes, the others add
            gemm(1, sums.keys_2[g], weights.K2[g].T, beta, g_key_rows)
            add_dot(sums.values_2[g], weights.V2[g].T, g_key_rows)
        for h in range(H):  # the rows of positions, whose gradients `attend_backward` adds up apart
            copy(sums.positions[h * T : h * T + T], g_equal_rows[h * C + K : h * C + C])
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
