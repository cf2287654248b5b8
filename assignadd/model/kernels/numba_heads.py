"""Attention of several heads in the training step of one model on a CPU, forward and backward.

What a head of layer 1 writes into a position is a weighted sum of its values, times O1. Values are narrow, so `=` and
each head of layer 2 read these, and not what is written: the formulas are not those of `model/heads.py`, which has a
table of all outputs of layer 1. x(k) is position k's row of a table of C rows, the sum of its token's row and its own.

    read_1               sum of attention_1[=, k] values_1(k) over k, for each head of layer 1
    resid_pre            read_1 O1 + E_= + P_=
    queries_2            resid_pre Q2 / sqrt(d_head)
    queries_of_copies    queries_2 (O1 K2)^T
    copied_scores[k]     queries_of_copies . values_1(k)
    scores_2[q]          queries_2 . keys_2(q), plus the sum of attention_1[q, k] copied_scores[k]
    passed_on[k]         sum of attention_2[q] attention_1[q, k] over q
    read_copies          sum of passed_on[k] values_1(k) over k
    read_2               sum of attention_2[q] values_2(q) over q, plus read_copies O1 V2
    resid_mid            resid_pre + read_2 O2

What has "copies" or "copied" in its name, and `passed_on`, is of each head of layer 2 with each head of layer 1.
`numba_heads_functions` takes sums over positions and products with x(k) sequence by sequence; the other products are
of BLAS. `cpu_arrays` says what every array is (`HeadTables`, `HeadChunk`, `HeadSums`); names and shapes are those of
`numba_functions` and `numba_step`. A loop over h is over the heads of layer 1, one over g over those of layer 2, one
over blocks over LANES heads of layer 1 at a time. w is how many columns a head has, its dh and those that fill vectors.
"""

from __future__ import annotations

from assignadd.model.kernels.blas import add_dot, dot, gemm, wait_for_all
from assignadd.model.kernels.numba_functions import add, clear, copy, factors_of, inner
from assignadd.model.kernels.numba_heads_functions import (
    add_to_rows,
    layer_1,
    layer_1_backward,
    layer_2,
    layer_2_backward,
    products_with_rows,
    sum_rows,
)
from assignadd.model.kernels.numba_vectors import LANES, transpose


@inner
def write_tables(model, thread):
    """Writes the tables of the weights; each thread those of its share of the heads."""
    weights, tables, equals, scale = model
    K, T, (H, dh) = len(weights.E), len(weights.pos), weights.O1.shape[:2]
    C, width = K + T, len(tables.O2)
    w = width // H
    # The parts of `rows`; `key_rows` are those that keys and values of layer 2 come from.
    embeddings, O1, constant = tables.rows[:C], tables.rows[C : C + width], tables.rows[C + width :]
    key_rows = tables.rows[: C + width]
    if thread.number == 0:
        copy(weights.E, embeddings[:K])
        copy(weights.pos, embeddings[K:])
        add(weights.E[equals : equals + 1], weights.pos[T - 1 :], constant)
        for h in range(H):
            copy(weights.O1[h], O1[h * w : h * w + dh])
            copy(weights.O2[h], tables.O2[h * w : h * w + dh])
    wait_for_all(thread)
    for h in range(thread.number, H, thread.n_threads):
        dot(embeddings, weights.Q1[h], tables.queries_1[h])
        dot(embeddings, weights.K1[h], tables.keys_1[h])
        gemm(scale, tables.queries_1[h], tables.keys_1[h].T, 0, tables.scores_1[h])
        factors_of(tables.scores_1[h], tables.factors_of_head[h], T)
        into_lane(tables.factors_of_head[h], tables.factors_1[h // LANES], h % LANES)
    if thread.number == 0:
        for lane in range(H, tables.no_head.size):
            tables.no_head[lane // LANES, lane % LANES] = 1
        beside(weights.Q2, tables.Q2)
        beside(weights.K2, tables.K2)
        dot(key_rows, tables.K2, tables.keys_2)
        transpose(tables.keys_2[C:], tables.copied_keys_T)
    if thread.number == thread.n_threads - 1:
        beside(weights.V1, tables.V1)
        beside(weights.V2, tables.V2)
        dot(embeddings, tables.V1, tables.values_1)
        dot(key_rows, tables.V2, tables.values_2)
    wait_for_all(thread)


@inner
def of_head(g, width):
    """The columns of a head where each has `width` of them, beside one another."""
    return slice(g * width, g * width + width)


@inner
def beside(matrices, out):
    """Writes the matrices of all heads, (H, d, dh), beside one another, (d, H w)."""
    H, d, dh = matrices.shape
    w = out.shape[1] // H
    for g in range(H):
        for i in range(d):
            row, out_row = matrices[g, i], out[i, g * w :]
            for j in range(dh):
                out_row[j] = row[j]


@inner
def apart(matrix, out):
    """Writes the columns of a matrix, (d, H w), into the matrices of all heads, (H, d, dh): `beside` backward."""
    H, d, dh = out.shape
    w = matrix.shape[1] // H
    for g in range(H):
        for i in range(d):
            row, out_row = matrix[i, g * w :], out[g, i]
            for j in range(dh):
                out_row[j] = row[j]


@inner
def into_lane(matrix, matrices, lane):
    """Writes a matrix into one lane of several that stand there, number by number."""
    for i in range(len(matrix)):
        row, of_lanes = matrix[i], matrices[i]
        for j in range(len(row)):
            of_lanes[j, lane] = row[j]


@inner
def from_lane(matrices, lane, out):
    """Writes one of several matrices that stand in lanes into a matrix of its own: `into_lane` backward."""
    for i in range(len(out)):
        of_lanes, row = matrices[i], out[i]
        for j in range(len(row)):
            row[j] = of_lanes[j, lane]


@inner
def transpose_tables(model):
    """Writes the transposes of weights and tables that the backward pass of every chunk multiplies by."""
    tables = model.tables
    width, C = len(tables.O2), tables.scores_1.shape[1]
    transpose(tables.rows[C : C + width], tables.O1_T)
    transpose(tables.Q2, tables.Q2_T)
    transpose(tables.O2, tables.O2_T)
    transpose(tables.values_2[C:], tables.copied_values_T)


@inner
def attend(model, chunk, tokens):
    """Writes the residual of `=` after layer 2's attention, (n, d), of the n sequences of a chunk."""
    tables, scale = model.tables, model.scale
    n, (H, C), width = len(tokens), tables.scores_1.shape[:2], len(tables.O2)
    w = width // H
    resid_pre, resid_mid = chunk.resid_pre[:n], chunk.resid_mid[:n]
    read_1, queries_2, queries_of_copies = chunk.read_1[:n], chunk.queries_2[:n], chunk.queries_of_copies[:n]
    read_2, read_copies = chunk.read_2[:n], chunk.read_copies[:n]
    for block in range(len(tables.factors_1)):
        layer_1(tables, block, tokens, chunk.attention_1[block], chunk.attention_of_equals[block], chunk.of_keys)
    # What `=` reads in layer 1, and its residual; the last column of `read_1` is for the constant.
    sum_rows(chunk.attention_of_equals, tables.values_1, w, tokens, chunk.rows, read_1)
    for b in range(n):
        read_1[b, width] = 1
    dot(read_1, tables.rows[C:], resid_pre)
    # Its scores in layer 2: of embeddings, and of copies.
    gemm(scale, resid_pre, tables.Q2, 0, queries_2)
    for g in range(H):
        columns, of_copies = of_head(g, w), of_head(g, width)
        dot(queries_2[:, columns], tables.copied_keys_T[columns], queries_of_copies[:, of_copies])
    products_with_rows(queries_2, tables.keys_2[:C], w, tokens, chunk.rows, chunk.scores_2)
    products_with_rows(queries_of_copies, tables.values_1, w, tokens, chunk.rows, chunk.copied_scores)
    layer_2(chunk, n)
    # What the heads read of the same.
    sum_rows(chunk.attention_2, tables.values_2[:C], w, tokens, chunk.rows, read_2)
    sum_rows(chunk.passed_on, tables.values_1, w, tokens, chunk.rows, read_copies)
    for g in range(H):
        columns, of_copies = of_head(g, w), of_head(g, width)
        add_dot(read_copies[:, of_copies], tables.values_2[C:, columns], read_2[:, columns])
    copy(resid_pre, resid_mid)
    add_dot(read_2, tables.O2, resid_mid)


@inner
def attend_backward(model, chunk, sums, tokens, beta):
    """Adds the gradients by way of `resid_mid` to the sums (`beta` 1), or writes them (`beta` 0)."""
    tables, scale = model.tables, model.scale
    n, (H, C), width = len(tokens), tables.scores_1.shape[:2], len(tables.O2)
    w = width // H
    resid_pre, read_1, queries_2 = chunk.resid_pre[:n], chunk.read_1[:n], chunk.queries_2[:n]
    queries_of_copies, read_2, read_copies = chunk.queries_of_copies[:n], chunk.read_2[:n], chunk.read_copies[:n]
    g_resid, g_read_2, g_queries_2 = chunk.g_resid[:n], chunk.g_read_2[:n], chunk.g_queries_2[:n]
    g_read_1 = chunk.g_read_1[:n]
    # In the memory of these, each of which is written when its activations have been read.
    g_read_copies, g_queries_of_copies = read_copies, queries_of_copies
    if beta == 0:  # to these, sequences are added one by one; products write the others
        clear(sums.values_1)
        clear(sums.keys_2[:C])
        clear(sums.values_2[:C])
        clear(sums.scores_1.reshape(-1, LANES))
    # resid_mid = resid_pre + read_2 O2, and read_2 comes from attention_2 and passed_on.
    gemm(1, read_2.T, g_resid, beta, sums.O2)
    dot(g_resid, tables.O2_T, g_read_2)
    for g in range(H):
        columns, of_copies = of_head(g, w), of_head(g, width)
        gemm(1, read_copies[:, of_copies].T, g_read_2[:, columns], beta, sums.values_2[C:, columns])
        dot(g_read_2[:, columns], tables.copied_values_T[columns], g_read_copies[:, of_copies])
    products_with_rows(g_read_2, tables.values_2[:C], w, tokens, chunk.rows, chunk.g_attention_2)
    add_to_rows(chunk.attention_2, g_read_2, w, tokens, chunk.rows, sums.values_2[:C])
    products_with_rows(g_read_copies, tables.values_1, w, tokens, chunk.rows, chunk.g_passed_on)
    add_to_rows(chunk.passed_on, g_read_copies, w, tokens, chunk.rows, sums.values_1)
    layer_2_backward(chunk, n)
    # Scores are products of queries_2 with keys, and of queries_of_copies with values of layer 1.
    add_to_rows(chunk.g_scores_2, queries_2, w, tokens, chunk.rows, sums.keys_2[:C])
    sum_rows(chunk.g_scores_2, tables.keys_2[:C], w, tokens, chunk.rows, g_queries_2)
    add_to_rows(chunk.g_copied_scores, queries_of_copies, w, tokens, chunk.rows, sums.values_1)
    sum_rows(chunk.g_copied_scores, tables.values_1, w, tokens, chunk.rows, g_queries_of_copies)
    for g in range(H):
        columns, of_copies = of_head(g, w), of_head(g, width)
        gemm(1, g_queries_of_copies[:, of_copies].T, queries_2[:, columns], beta, sums.keys_2[C:, columns])
        add_dot(g_queries_of_copies[:, of_copies], tables.keys_2[C:, columns], g_queries_2[:, columns])
    gemm(scale, resid_pre.T, g_queries_2, beta, sums.Q2)
    gemm(scale, g_queries_2, tables.Q2_T, 1, g_resid)  # now by resid_pre
    # resid_pre is read_1, whose last column is 1, times O1 and the constant.
    gemm(1, read_1.T, g_resid, beta, sums.equal_rows)
    dot(g_resid, tables.O1_T, g_read_1)
    products_with_rows(g_read_1, tables.values_1, w, tokens, chunk.rows, chunk.g_attention_of_equals)
    add_to_rows(chunk.attention_of_equals, g_read_1, w, tokens, chunk.rows, sums.values_1)
    for block in range(len(tables.factors_1)):
        layer_1_backward(chunk, block, tokens, sums.scores_1[block])


@inner
def write_gradients(model, thread, gradients):
    """Writes the gradients of attention and embeddings from the sums of all sequences.

    It goes through `write_tables` from the end to the beginning; each thread has its share of the heads.
    """
    weights, tables, equals, scale = model
    grads, g_tables, sums = gradients.weights, gradients.tables, gradients.sums
    K, T, (H, dh) = len(weights.E), len(weights.pos), weights.O1.shape[:2]
    C, width = K + T, len(tables.O2)
    w = width // H
    embeddings, key_rows = tables.rows[:C], tables.rows[: C + width]
    g_embeddings, g_O1, g_key_rows = g_tables.rows[:C], g_tables.rows[C : C + width], g_tables.rows[: C + width]
    g_equal_rows, g_constant = sums.equal_rows[:width], sums.equal_rows[width:]
    for h in range(thread.number, H, thread.n_threads):
        from_lane(sums.scores_1[h // LANES], h % LANES, g_tables.scores_1[h])
        gemm(scale, g_tables.scores_1[h], tables.keys_1[h], 0, g_tables.queries_1[h])
        gemm(scale, g_tables.scores_1[h].T, tables.queries_1[h], 0, g_tables.keys_1[h])
        dot(embeddings.T, g_tables.queries_1[h], grads.Q1[h])
        dot(embeddings.T, g_tables.keys_1[h], grads.K1[h])
        copy(sums.O2[h * w : h * w + dh], grads.O2[h])
    if thread.number == thread.n_threads - 1:
        apart(sums.Q2, grads.Q2)
        dot(key_rows.T, sums.keys_2, g_tables.K2)
        apart(g_tables.K2, grads.K2)
        dot(key_rows.T, sums.values_2, g_tables.V2)
        apart(g_tables.V2, grads.V2)
        dot(embeddings.T, sums.values_1, g_tables.V1)
        apart(g_tables.V1, grads.V1)
    wait_for_all(thread)
    if thread.number == 0:
        dot(sums.keys_2, tables.K2.T, g_key_rows)
        add_dot(sums.values_2, tables.V2.T, g_key_rows)
        add_dot(sums.values_1, tables.V1.T, g_embeddings)
        # E_= + P_=, so it is added to both: the row of `=` and that of the last position.
        add(g_embeddings[equals : equals + 1], g_constant, g_embeddings[equals : equals + 1])
        add(g_embeddings[C - 1 :], g_constant, g_embeddings[C - 1 :])
        for h in range(H):
            add_dot(g_tables.queries_1[h], weights.Q1[h].T, g_embeddings)
            add_dot(g_tables.keys_1[h], weights.K1[h].T, g_embeddings)
            rows_of_h = slice(h * w, h * w + dh)
            add(g_O1[rows_of_h], g_equal_rows[rows_of_h], grads.O1[h])
        copy(g_embeddings[:K], grads.E)
        copy(g_embeddings[K:], grads.pos)
    wait_for_all(thread)
