"""Attention of several heads in the training step of one model on a CPU, forward and backward.

Every head of layer 1 has its score table, and what it writes is a row for each token and position, as with one head:

    residual of `=` after layer 1    amounts_1 @ [[E; P] OV1 of each head; E_= + P_=]

A table of layer 2's scores would have H (H C + 1) rows of (1 + H) C numbers: for four heads, more to compute than the
step itself. So each head of layer 2 has its query, and the keys and values of the (1 + H) C rows that a key is made of:

    scores of rows = queries_2 keys_2^T, of which each position has two from each source of a key (`collect`)
    read_2 = used values_2, with how much is used of each row (`spread`), and read_2 W_O is added to the residual

These products are with all rows: they are so fast that sums over the rows of a sequence's tokens take as long.

Between the products are the functions of `numba_heads_functions`.

`cpu_arrays` says what every array is (`HeadTables`, `HeadChunk`, `HeadSums`); names and shapes are those of
`numba_functions` and `numba_step`. A loop over h is over the heads of layer 1, one over g over those of layer 2, one
over blocks over LANES heads of layer 1 at a time.
"""

from __future__ import annotations

from assignadd.model.kernels.blas import add_dot, dot, gemm, wait_for_all
from assignadd.model.kernels.numba_functions import add, clear, copy, factors_of, inner
from assignadd.model.kernels.numba_heads_functions import (
    collect,
    layer_1,
    layer_1_backward,
    layer_2,
    layer_2_backward,
    spread,
    write_copied_rows,
)
from assignadd.model.kernels.numba_vectors import LANES, SUMS, TABLE, WEIGHTS, add_rows, transpose


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
        dot(tables.values_1[h], weights.O1[h], outputs_1[h::H])
        dot(embeddings, weights.Q1[h], tables.queries_1[h])
        dot(embeddings, weights.K1[h], tables.keys_1[h])
        gemm(scale, tables.queries_1[h], tables.keys_1[h].T, 0, tables.scores_1[h])
        factors_of(tables.scores_1[h], tables.factors_of_head[h], T)
        into_lane(tables.factors_of_head[h], tables.factors_1[h // LANES], h % LANES)
    wait_for_all(thread)
    if thread.number == 0:
        for lane in range(H, tables.no_head.size):
            tables.no_head[lane // LANES, lane % LANES] = 1
        beside(weights.Q2, tables.Q2)
        beside(weights.K2, tables.K2)
        dot(key_rows, tables.K2, tables.keys_2)
        transpose(tables.keys_2, tables.keys_2_T)
    if thread.number == thread.n_threads - 1:
        beside(weights.V2, tables.V2)
        dot(key_rows, tables.V2, tables.values_2)
    wait_for_all(thread)


@inner
def beside(matrices, out):
    """Writes the matrices of all heads, (H, d, dh), beside one another, (d, H dh)."""
    H, d, dh = matrices.shape
    for g in range(H):
        for i in range(d):
            row, out_row = matrices[g, i], out[i, g * dh :]
            for j in range(dh):
                out_row[j] = row[j]


@inner
def apart(matrix, out):
    """Writes the columns of a matrix, (d, H dh), into the matrices of all heads, (H, d, dh): `beside` backward."""
    H, d, dh = out.shape
    for g in range(H):
        for i in range(d):
            row, out_row = matrix[i, g * dh :], out[g, i]
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
    weights, tables = model.weights, model.tables
    T, (H, dh, d) = len(weights.pos), weights.O2.shape
    constant = len(tables.rows) - 1  # the row, whose amount is always 1
    transpose(tables.rows[constant - H * T : constant], tables.positions_T)
    transpose(tables.Q2, tables.Q2_T)
    transpose(weights.O2.reshape(H * dh, d), tables.O2_T)
    transpose(tables.values_2, tables.values_2_T)


@inner
def attend(model, chunk, tokens):
    """Writes the residual of `=` after layer 2's attention, (n, d), of the n sequences of a chunk."""
    weights, tables, scale = model.weights, model.tables, model.scale
    (n, T), (H, dh, d) = tokens.shape, weights.O2.shape
    C = tables.scores_1.shape[1]
    copied_rows, amounts_1, of_rows = chunk.copied_rows[:n], chunk.amounts_1[:n], chunk.of_rows[:n]
    resid_pre, resid_mid = chunk.resid_pre[:n], chunk.resid_mid[:n]
    queries_2, read_2 = chunk.queries_2[:n], chunk.read_2[:n]
    for block in range(len(tables.factors_1)):
        layer_1(tables, block, tokens, chunk.attention_1[block], amounts_1, of_rows[0])
    # The residual of `=`: from the positions and the constant, then from the tokens.
    write_copied_rows(tokens, H, copied_rows)
    outputs_1 = tables.rows[C:]
    dot(amounts_1, outputs_1[H * (C - T) :], resid_pre)
    add_rows(SUMS, outputs_1, copied_rows, amounts_1, 0, resid_pre)
    gemm(scale, resid_pre, tables.Q2, 0, queries_2)
    # `of_rows` is scratch memory for one head: first its scores of all rows, then how much it reads of each.
    for g in range(H):
        of_head = slice(g * dh, g * dh + dh)
        dot(queries_2[:, of_head], tables.keys_2_T[of_head], of_rows[:, : C + H * C])
        collect(of_rows, tokens, tables.no_head, g, chunk.scores_2, chunk.copied_scores)
    layer_2(chunk, n)
    for g in range(H):
        of_head = slice(g * dh, g * dh + dh)
        spread(chunk.attention_2, chunk.passed_on, tokens, g, of_rows)
        dot(of_rows[:, : C + H * C], tables.values_2[:, of_head], read_2[:, of_head])
    copy(resid_pre, resid_mid)
    add_dot(read_2, weights.O2.reshape(H * dh, d), resid_mid)


@inner
def attend_backward(model, chunk, sums, tokens, beta):
    """Adds the gradients by way of `resid_mid` to the sums (`beta` 1), or writes them (`beta` 0)."""
    tables, scale = model.tables, model.scale
    (n, T), (H, dh) = tokens.shape, model.weights.O2.shape[:2]
    C = tables.scores_1.shape[1]
    copied_rows, amounts_1, resid_pre = chunk.copied_rows[:n], chunk.amounts_1[:n], chunk.resid_pre[:n]
    queries_2, read_2, of_rows = chunk.queries_2[:n], chunk.read_2[:n], chunk.of_rows[:n]
    g_resid, g_read_2, g_queries_2 = chunk.g_resid[:n], chunk.g_read_2[:n], chunk.g_queries_2[:n]
    g_amounts_1, of_all_rows = chunk.g_amounts_1[:n], of_rows[:, : C + H * C]
    if beta == 0:  # to these, sequences are added one by one; products write the others
        clear(sums.equal_rows)
        clear(sums.scores_1.reshape(-1, LANES))
    # resid_mid = resid_pre + read_2 O2, and read_2 is the sum of the values, each times its amount.
    gemm(1, read_2.T, g_resid, beta, sums.O2)
    dot(g_resid, tables.O2_T, g_read_2)
    for g in range(H):
        of_head = slice(g * dh, g * dh + dh)
        dot(g_read_2[:, of_head], tables.values_2_T[of_head], of_all_rows)
        collect(of_rows, tokens, tables.no_head, g, chunk.g_attention_2, chunk.g_passed_on)
        spread(chunk.attention_2, chunk.passed_on, tokens, g, of_rows)
        gemm(1, of_all_rows.T, g_read_2[:, of_head], beta, sums.values_2[:, of_head])
    layer_2_backward(chunk, n)
    # Scores are products of queries, which resid_pre Q2 are, and keys.
    for g in range(H):
        of_head = slice(g * dh, g * dh + dh)
        spread(chunk.g_scores_2, chunk.g_copied_scores, tokens, g, of_rows)
        dot(of_all_rows, tables.keys_2[:, of_head], g_queries_2[:, of_head])
        gemm(1, of_all_rows.T, queries_2[:, of_head], beta, sums.keys_2[:, of_head])
    gemm(scale, resid_pre.T, g_queries_2, beta, sums.Q2)
    gemm(scale, g_queries_2, tables.Q2_T, 1, g_resid)  # now by resid_pre
    # resid_pre is the sum of the rows that layer 1 writes, each times its amount, and the constant.
    dot(g_resid, tables.positions_T, g_amounts_1[:, : H * T])
    gemm(1, amounts_1.T, g_resid, 1, sums.equal_rows[H * (C - T) :])
    add_rows(WEIGHTS, tables.rows[C:], copied_rows, g_amounts_1, 0, g_resid)
    add_rows(TABLE, sums.equal_rows, copied_rows, amounts_1, 0, g_resid)
    for block in range(len(tables.factors_1)):
        layer_1_backward(chunk, tables.no_head, block, tokens, sums.scores_1[block])


@inner
def write_gradients(model, thread, gradients):
    """Writes the gradients of attention and embeddings from the sums of all sequences.

    It goes through `write_tables` from the end to the beginning; each thread has its share of the heads.
    """
    weights, tables, equals, scale = model
    grads, g_tables, sums = gradients.weights, gradients.tables, gradients.sums
    K, T, (H, dh, d) = len(weights.E), len(weights.pos), weights.O2.shape
    C = K + T
    embeddings, key_rows = tables.rows[:C], tables.rows[: C + H * C]
    g_embeddings, g_outputs_1, g_key_rows = g_tables.rows[:C], g_tables.rows[C : C + H * C], g_tables.rows[: C + H * C]
    g_equal_rows, g_constant = sums.equal_rows[: H * C], sums.equal_rows[H * C :]
    for h in range(thread.number, H, thread.n_threads):
        from_lane(sums.scores_1[h // LANES], h % LANES, g_tables.scores_1[h])
        gemm(scale, g_tables.scores_1[h], tables.keys_1[h], 0, g_tables.queries_1[h])
        gemm(scale, g_tables.scores_1[h].T, tables.queries_1[h], 0, g_tables.keys_1[h])
        dot(embeddings.T, g_tables.queries_1[h], grads.Q1[h])
        dot(embeddings.T, g_tables.keys_1[h], grads.K1[h])
    if thread.number == thread.n_threads - 1:
        copy(sums.O2, grads.O2.reshape(H * dh, d))
        apart(sums.Q2, grads.Q2)
        dot(key_rows.T, sums.keys_2, g_tables.K2)
        apart(g_tables.K2, grads.K2)
        dot(key_rows.T, sums.values_2, g_tables.V2)
        apart(g_tables.V2, grads.V2)
    if thread.number == 0:
        dot(sums.keys_2, tables.K2.T, g_key_rows)
        add_dot(sums.values_2, tables.V2.T, g_key_rows)
        add(g_outputs_1, g_equal_rows, g_outputs_1)
        # E_= + P_=, so it is added to both: the row of `=` and that of the last position.
        add(g_embeddings[equals : equals + 1], g_constant, g_embeddings[equals : equals + 1])
        add(g_embeddings[C - 1 :], g_constant, g_embeddings[C - 1 :])
    wait_for_all(thread)
    for h in range(thread.number, H, thread.n_threads):
        dot(tables.values_1[h].T, g_outputs_1[h::H], grads.O1[h])
        dot(g_outputs_1[h::H], weights.O1[h].T, g_tables.values_1[h])
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
