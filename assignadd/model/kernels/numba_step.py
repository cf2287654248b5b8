"""A training step of one model on a CPU, and its forward half: loss, gradients and update on one thread or several.

The formulas are those of `TableForward` (`model/table.py`), which explains them; a test holds both equal. Every thread
runs the same function on its share of the sequences, and waits for the others where it needs what is theirs. The
sequences pass a chunk at a time, each chunk in the memory of the one before, forward and at once backward: what is
written is so little that it is still in the processor's cache when it is read. `numba_arrays` says what the arrays are.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from assignadd.model.kernels.blas import add_dot, compiled, dot, gemm, wait_for_all
from assignadd.model.kernels.numba_functions import (
    adamw,
    cross_entropy,
    factors_of,
    gate,
    layer_1,
    layer_1_backward,
    layer_2,
    layer_2_backward,
    relu,
)
from assignadd.model.kernels.numba_vectors import SUMS, TABLE, WEIGHTS, add_rows, transpose

# For functions that only compiled code calls, with more arguments than it takes time to compile for Python.
inner = partial(compiled, no_cpython_wrapper=True)


@inner
def copy(x, out):
    """out = x"""
    for i in range(len(x)):
        row, out_row = x[i], out[i]
        for j in range(len(row)):
            out_row[j] = row[j]


@inner
def add(x, y, out):
    """out = x + y"""
    for i in range(len(x)):
        row, other, out_row = x[i], y[i], out[i]
        for j in range(len(row)):
            out_row[j] = row[j] + other[j]


@inner
def clear(x):
    """x = 0"""
    for i in range(len(x)):
        row = x[i]
        for j in range(len(row)):
            row[j] = 0


@inner
def write_tables(thread, threads, meeting, w, t, equals, scale):
    """Writes what follows from the weights; two threads have a half each."""
    K, T, C = len(w.E), len(w.pos), len(t.scores_1)
    embeddings, outputs_1 = t.rows[:C], t.rows[C : 2 * C]
    constant, outputs_2 = t.rows[2 * C : 2 * C + 1], t.rows[2 * C + 1 :]
    both, equal_rows = t.rows[: 2 * C], t.rows[C : 2 * C + 1]
    if thread == 0:
        copy(w.E, embeddings[:K])
        copy(w.pos, embeddings[K:])
        add(w.E[equals : equals + 1], w.pos[T - 1 :], constant)
    wait_for_all(meeting, threads)
    if thread == 0:
        dot(embeddings, w.V1, t.values_1)
        dot(t.values_1, w.O1, outputs_1)
        dot(w.V2, w.O2, t.OV2)
        gemm(scale, equal_rows, w.Q2, 0, t.equal_Q2)  # with C + 1 rows, fewer operations than Q2 K2^T
        dot(t.equal_Q2, w.K2.T, t.queries_2)
        dot(both, t.OV2, outputs_2)
        dot(t.queries_2, both.T, t.scores_2_T[:, : 2 * C])
        copy(outputs_2[C - T : C], t.positions[:T])
        copy(outputs_2[2 * C - T :], t.positions[T : 2 * T])
        copy(equal_rows[C - T :], t.positions[2 * T :])
    if thread == threads - 1:
        dot(embeddings, w.Q1, t.queries_1)
        dot(embeddings, w.K1, t.keys_1)
        gemm(scale, t.queries_1, t.keys_1.T, 0, t.scores_1)
        factors_of(t.scores_1, t.factors_1, T)
        dot(w.W_out, w.U, t.read_out)
    wait_for_all(meeting, threads)


@inner
def forward(w, t, chunk, tokens, logits):
    """Writes the logits of the sequences of a chunk."""
    n, T = tokens.shape
    C = len(t.scores_1)
    used, scores_2, resid_mid, neurons = chunk.used[:n], chunk.scores_2[:n], chunk.resid_mid[:n], chunk.neurons[:n]
    outputs = t.rows[C:]
    layer_1(t.scores_1, t.factors_1, tokens, chunk.attention_1, used)
    dot(used[:, 2 * T :], t.scores_2_T[C - T :], scores_2)
    add_rows(SUMS, t.scores_2_T, tokens, used, 2 * T, scores_2)
    layer_2(scores_2, tokens, chunk.attention_1, chunk.attention_2, chunk.copied, used, C)
    dot(used, t.positions, resid_mid)
    add_rows(SUMS, outputs, tokens, used, 2 * T, resid_mid)
    add_rows(SUMS, outputs[C + 1 :], tokens, used, 0, resid_mid)
    add_rows(SUMS, outputs[2 * C + 1 :], tokens, used, T, resid_mid)
    dot(resid_mid, w.W_in, neurons)
    relu(neurons)
    dot(neurons, t.read_out, logits)
    add_dot(resid_mid, w.U, logits)


@inner
def transpose_tables(w, t):
    T, C = len(w.pos), len(t.scores_1)
    transpose(w.U, t.U_T)
    transpose(w.W_in, t.W_in_T)
    transpose(t.read_out, t.read_out_T)
    transpose(t.positions[: 3 * T], t.positions_T)
    transpose(t.scores_2_T[C - T : C], t.position_scores_2)


@inner
def backward(t, chunk, sums, tokens, g_logits, beta):
    """Adds the gradients of a chunk to `beta` times the sums so far, which products do not read where it is 0."""
    n, T = tokens.shape
    C = len(t.scores_1)
    used, scores_2, resid_mid, neurons = chunk.used[:n], chunk.scores_2[:n], chunk.resid_mid[:n], chunk.neurons[:n]
    g_neurons, g_resid, g_used, g_scores_2 = chunk.g_neurons[:n], chunk.g_resid[:n], chunk.g_used[:n], scores_2
    outputs = t.rows[C:]
    dot(g_logits, t.U_T, g_resid)
    gemm(1, g_logits.T, neurons, beta, sums.read_out_T)
    gemm(1, g_logits.T, resid_mid, beta, sums.U_T)
    dot(g_logits, t.read_out_T, g_neurons)
    gate(neurons, g_neurons)
    gemm(1, resid_mid.T, g_neurons, beta, sums.W_in)
    add_dot(g_neurons, t.W_in_T, g_resid)
    dot(g_resid, t.positions_T, g_used)
    add_rows(WEIGHTS, outputs, tokens, g_used, 2 * T, g_resid)
    add_rows(WEIGHTS, outputs[C + 1 :], tokens, g_used, 0, g_resid)
    add_rows(WEIGHTS, outputs[2 * C + 1 :], tokens, g_used, T, g_resid)
    gemm(1, used.T, g_resid, beta, sums.positions)
    add_rows(TABLE, sums.outputs, tokens, used, 2 * T, g_resid)
    add_rows(TABLE, sums.outputs[C + 1 :], tokens, used, 0, g_resid)
    add_rows(TABLE, sums.outputs[2 * C + 1 :], tokens, used, T, g_resid)
    layer_2_backward(
        g_used, tokens, chunk.attention_1, chunk.attention_2, chunk.g_scores, chunk.g_passed_on, g_scores_2, C
    )
    gemm(1, used[:, 2 * T :].T, g_scores_2, beta, sums.scores_2_T[C - T :])
    add_rows(TABLE, sums.scores_2_T, tokens, used, 2 * T, g_scores_2)
    add_dot(g_scores_2, t.position_scores_2, g_used[:, 2 * T :])
    add_rows(WEIGHTS, t.scores_2_T, tokens, g_used, 2 * T, g_scores_2)
    layer_1_backward(
        g_used, tokens, chunk.attention_1, chunk.attention_2, chunk.copied, chunk.g_scores, chunk.g_passed_on,
        sums.scores_1, chunk.g_by_key, chunk.g_positions,
    )  # fmt: skip


@inner
def write_gradients(thread, threads, meeting, w, g, t, g_t, sums, equals, scale):
    """Writes the gradients of the weights from those of the tables; two threads have a half each."""
    K, T, C = len(w.E), len(w.pos), len(t.scores_1)
    embeddings, both, equal_rows = t.rows[:C], t.rows[: 2 * C], t.rows[C : 2 * C + 1]
    g_embeddings, g_outputs_1, g_both = g_t.rows[:C], g_t.rows[C : 2 * C], g_t.rows[: 2 * C]
    g_equal_rows, g_outputs_2 = sums.outputs[: C + 1], sums.outputs[C + 1 :]
    g_scores_2_T, g_through_scores = sums.scores_2_T[:, : 2 * C], g_t.rows[2 * C : 3 * C]
    if thread == 0:
        copy(sums.W_in, g.W_in)
        copy(sums.positions[:T], g_outputs_2[C - T : C])
        copy(sums.positions[T : 2 * T], g_outputs_2[2 * C - T :])
        copy(sums.positions[2 * T :], g_equal_rows[C - T :])
        dot(both.T, g_outputs_2, g_t.OV2)
        dot(g_t.OV2, w.O2.T, g.V2)
        dot(w.V2.T, g_t.OV2, g.O2)
        dot(g_outputs_2, t.OV2.T, g_both)
        add_dot(g_scores_2_T.T, t.queries_2, g_both)
        dot(g_scores_2_T, both, g_t.queries_2)
        dot(g_t.queries_2.T, t.equal_Q2, g.K2)
        gemm(scale, g_t.queries_2, w.K2, 0, g_t.equal_Q2)
        dot(equal_rows.T, g_t.equal_Q2, g.Q2)
        add_dot(g_t.equal_Q2, w.Q2.T, g_equal_rows)
    if thread == threads - 1:
        dot(sums.read_out_T.T, w.U.T, g.W_out)
        add_dot(sums.read_out_T, w.W_out, sums.U_T)
        transpose(sums.U_T, g.U)
        gemm(scale, sums.scores_1, t.keys_1, 0, g_t.queries_1)
        gemm(scale, sums.scores_1.T, t.queries_1, 0, g_t.keys_1)
        dot(embeddings.T, g_t.queries_1, g.Q1)
        dot(embeddings.T, g_t.keys_1, g.K1)
        dot(g_t.queries_1, w.Q1.T, g_through_scores)
        add_dot(g_t.keys_1, w.K1.T, g_through_scores)
    wait_for_all(meeting, threads)
    if thread == 0:
        g_constant = g_equal_rows[C:]  # E_= + P_=
        add(g_outputs_1, g_equal_rows[:C], g_outputs_1)
        add(g_embeddings[equals : equals + 1], g_constant, g_embeddings[equals : equals + 1])
        add(g_embeddings[C - 1 :], g_constant, g_embeddings[C - 1 :])
        dot(t.values_1.T, g_outputs_1, g.O1)
        dot(g_outputs_1, w.O1.T, g_t.values_1)
        dot(embeddings.T, g_t.values_1, g.V1)
        add_dot(g_t.values_1, w.V1.T, g_embeddings)
        add(g_embeddings[:K], g_through_scores[:K], g.E)
        add(g_embeddings[K:], g_through_scores[K:], g.pos)
    wait_for_all(meeting, threads)


@inner
def share(n, thread, threads):
    """The first and the last of a thread's share of n things."""
    return n * thread // threads, n * (thread + 1) // threads


@inner
def add_sums(total, sums_of_others, first, last):
    """Adds the sums of the other threads to the first thread's."""
    for i in range(len(sums_of_others)):
        other = sums_of_others[i]
        for j in range(first, last):
            total[j] += other[j]


@inner
def pass_share(w, t, chunk, sums, tokens, labels, losses, first, last, in_double):
    """Writes the losses of a batch's sequences from `first` to `last`, and the sums of their gradients."""
    n = len(chunk.used)
    clear(sums.scores_1)
    clear(sums.scores_2_T)
    clear(sums.outputs)
    for start in range(first, last, n):
        end = min(start + n, last)
        sequences, logits = tokens[start:end], chunk.logits[: end - start]
        forward(w, t, chunk, sequences, logits)
        cross_entropy(logits, labels[start:end], losses[start:end], len(losses), in_double)
        backward(t, chunk, sums, sequences, logits, 0 if start == first else 1)


@inner
def mean(x):
    """The mean of a vector, added up in double precision and in order."""
    total = 0.0
    for i in range(len(x)):
        total += x[i]
    return total / len(x)


@partial(compiled, nogil=True)
def train(thread, threads, meeting, shared, chunk, sums, batches, update, constants):
    """Loss and gradients of every step's batch, one after the other, with updates or without.

    A model whose loss is not finite stops before its update.
    """
    w, g, t, all_sums = shared.weights, shared.grads, shared.tables, shared.all_sums
    loss, losses, diverged_at = batches.loss, batches.losses, batches.diverged_at
    equals, scale = constants.equals, constants.scale
    B, P = len(losses), len(update.weights)
    for step in range(len(update.rates)):
        if diverged_at[0] >= 0:
            break
        write_tables(thread, threads, meeting, w, t, equals, scale)
        transpose_tables(w, t)
        tokens, labels = batches.tokens[step * B : step * B + B], batches.labels[step * B : step * B + B]
        first, last = share(B, thread, threads)
        pass_share(w, t, chunk, sums, tokens, labels, losses, first, last, constants.loss_in_double)
        wait_for_all(meeting, threads)
        first, last = share(all_sums.shape[1], thread, threads)
        add_sums(all_sums[0], all_sums[1:], first, last)
        if thread == 0:
            loss[0] = mean(losses)
        wait_for_all(meeting, threads)
        write_gradients(thread, threads, meeting, w, g, t, shared.g_tables, shared.sums, equals, scale)
        if P > 0 and np.isfinite(loss[0]):
            i, j = share(P, thread, threads)
            adamw(
                update.weights[i:j], update.grad[i:j], update.mean[i:j], update.square[i:j],
                update.rates[step], update.settings, update.first_step + step + 1,
            )  # fmt: skip
        if thread == 0 and P > 0 and not np.isfinite(loss[0]):
            diverged_at[0] = update.first_step + step
        wait_for_all(meeting, threads)


@partial(compiled, nogil=True)
def answer(thread, threads, meeting, w, t, chunk, tokens, logits, equals, scale):
    """Writes the logits of any number of sequences."""
    n = len(chunk.used)
    first, last = share(len(tokens), thread, threads)
    write_tables(thread, threads, meeting, w, t, equals, scale)
    for start in range(first, last, n):
        end = min(start + n, last)
        forward(w, t, chunk, tokens[start:end], logits[start:end])
