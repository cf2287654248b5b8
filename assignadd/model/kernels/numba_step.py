"""A training step of one model on a CPU: loss, gradients and update, on one thread or several.

The formulas are those of `TableForward` (`model/table.py`), which explains them, and with several heads those of
`numba_heads`; a test holds both equal to autograd. Every thread runs the same function on its share of the sequences,
and waits for the others where it needs what is theirs. The sequences pass a chunk at a time, forward and at once
backward, each chunk in the memory of the one before, so that it stays in the processor's cache.

`cpu_arrays` says what every array in the arguments is (`Model`, `Gradients`, `Chunk`, `Sums`, `Batches`, `Update`);
docs/names.md, "Words of the fast pass", says what copies and amounts are. K, T and C = K + T are the numbers of tokens,
of positions and of rows of a table for both. `dot(a, b, out)` writes a @ b, `add_dot` adds it, `gemm(scale, a, b, beta,
out)` writes scale * a @ b + beta * out. `add_rows` multiplies by the few rows that belong to a sequence's tokens.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numba.extending import overload

from assignadd.model.kernels import numba_heads
from assignadd.model.kernels.blas import add_dot, compiled, dot, gemm, wait_for_all
from assignadd.model.kernels.numba_functions import (
    add,
    clear,
    copy,
    cross_entropy,
    factors_of,
    gate,
    inner,
    layer_1,
    layer_1_backward,
    layer_2,
    layer_2_backward,
    relu,
)
from assignadd.model.kernels.numba_vectors import SUMS, TABLE, WEIGHTS, add_rows, transpose
from assignadd.model.table import Weights

# What depends on the number of heads: here for one, in `numba_heads` for several (`by_heads` chooses).


@inner
def tables_of_one_head(model, thread):
    """Writes the tables of the weights, as `TableForward.begin_tables` does with the same names.

    The first thread and the last each do about half of the work.
    """
    weights, tables, equals, scale = model
    K, T, C = len(weights.E), len(weights.pos), len(tables.scores_1)
    # The parts of `rows`, as `Tables` says. In each part of C rows, the last T are those of positions.
    embeddings, outputs_1 = tables.rows[:C], tables.rows[C : 2 * C]
    constant, outputs_2 = tables.rows[2 * C : 2 * C + 1], tables.rows[2 * C + 1 :]
    # The rows that make up the residual of any key in layer 2, and those that make up the residual of the query `=`.
    key_rows, equal_rows = tables.rows[: 2 * C], tables.rows[C : 2 * C + 1]
    if thread.number == 0:
        copy(weights.E, embeddings[:K])
        copy(weights.pos, embeddings[K:])
        add(weights.E[equals : equals + 1], weights.pos[T - 1 :], constant)
    wait_for_all(thread)
    if thread.number == 0:
        dot(embeddings, weights.V1, tables.values_1)
        dot(tables.values_1, weights.O1, outputs_1)
        dot(weights.V2, weights.O2, tables.OV2)
        gemm(scale, equal_rows, weights.Q2, 0, tables.equal_Q2)  # with C + 1 rows, fewer operations than Q2 K2^T
        dot(tables.equal_Q2, weights.K2.T, tables.queries_2)
        dot(key_rows, tables.OV2, outputs_2)
        dot(tables.queries_2, key_rows.T, tables.scores_2_T[:, : 2 * C])
        copy(outputs_2[C - T : C], tables.positions[:T])
        copy(outputs_2[2 * C - T :], tables.positions[T : 2 * T])
        copy(equal_rows[C - T :], tables.positions[2 * T :])  # T rows, and the constant
    if thread.number == thread.n_threads - 1:
        dot(embeddings, weights.Q1, tables.queries_1)
        dot(embeddings, weights.K1, tables.keys_1)
        gemm(scale, tables.queries_1, tables.keys_1.T, 0, tables.scores_1)
        factors_of(tables.scores_1, tables.factors_1, T)
    wait_for_all(thread)


@inner
def outputs_of_layers(outputs):
    """The parts of `outputs`, (3C + 1, d): what layer 1 writes for each row, layer 2 for each row and for its copy.

    Row C, between the first part and the second, is the constant E_= + P_=. The columns of their amounts begin at 2T,
    0 and T.
    """
    C = len(outputs) // 3
    return outputs[:C], outputs[C + 1 : 2 * C + 1], outputs[2 * C + 1 :]


@inner
def attend_with_one_head(model, chunk, tokens):
    """Writes the residual of `=` after layer 2's attention, (n, d), of the n sequences of a chunk."""
    tables = model.tables
    n, T = tokens.shape
    C = len(tables.scores_1)
    amounts, scores_2, resid_mid = chunk.amounts[:n], chunk.scores_2[:n], chunk.resid_mid[:n]
    layer_1(tables.scores_1, tables.factors_1, tokens, chunk.attention_1, amounts, 2 * T)
    # Scores of all rows in layer 2: from the positions and the constant, then from the tokens.
    dot(amounts[:, 2 * T :], tables.scores_2_T[C - T :], scores_2)
    add_rows(SUMS, tables.scores_2_T, tokens, amounts, 2 * T, scores_2)
    layer_2(scores_2, tokens, chunk.attention_1, chunk.attention_2, chunk.copied_scores, amounts, C)
    # The residual of `=`, again from positions and constant, then from tokens.
    dot(amounts, tables.positions, resid_mid)
    outputs_1, outputs_2_direct, outputs_2_of_copies = outputs_of_layers(tables.rows[C:])
    add_rows(SUMS, outputs_1, tokens, amounts, 2 * T, resid_mid)
    add_rows(SUMS, outputs_2_direct, tokens, amounts, 0, resid_mid)
    add_rows(SUMS, outputs_2_of_copies, tokens, amounts, T, resid_mid)


@inner
def transpose_tables_of_one_head(model):
    """Writes the transposes of tables that the backward pass of every chunk multiplies by."""
    tables = model.tables
    C, T = len(tables.scores_1), len(model.weights.pos)
    # Without the last row, that of the constant E_= + P_=: its amount is always 1, so no gradient passes through it.
    transpose(tables.positions[: 3 * T], tables.positions_T)
    transpose(tables.scores_2_T[C - T : C], tables.position_scores_2)


@inner
def one_head_backward(model, chunk, sums, tokens, beta):
    """Adds the gradients by way of `resid_mid` to the sums (`beta` 1), or writes them (`beta` 0)."""
    tables = model.tables
    n, T = tokens.shape
    C = len(tables.scores_1)
    amounts, g_resid, g_amounts = chunk.amounts[:n], chunk.g_resid[:n], chunk.g_amounts[:n]
    g_scores_2 = chunk.scores_2[:n]  # in the memory of the scores, which are not read any more
    if beta == 0:  # to these, sequences are added one by one; products write the others
        clear(sums.scores_1)
        clear(sums.scores_2_T)
        clear(sums.outputs)
    # resid_mid is the sum of all rows, each times its amount: the gradient of the amounts, then that of the rows.
    dot(g_resid, tables.positions_T, g_amounts)
    outputs_1, outputs_2_direct, outputs_2_of_copies = outputs_of_layers(tables.rows[C:])
    add_rows(WEIGHTS, outputs_1, tokens, g_amounts, 2 * T, g_resid)
    add_rows(WEIGHTS, outputs_2_direct, tokens, g_amounts, 0, g_resid)
    add_rows(WEIGHTS, outputs_2_of_copies, tokens, g_amounts, T, g_resid)
    gemm(1, amounts.T, g_resid, beta, sums.positions)
    g_outputs_1, g_outputs_2_direct, g_outputs_2_of_copies = outputs_of_layers(sums.outputs)
    add_rows(TABLE, g_outputs_1, tokens, amounts, 2 * T, g_resid)
    add_rows(TABLE, g_outputs_2_direct, tokens, amounts, 0, g_resid)
    add_rows(TABLE, g_outputs_2_of_copies, tokens, amounts, T, g_resid)
    # Attention of layer 2, whose scores come from the amounts of layer 1.
    layer_2_backward(chunk, tokens, C)  # fills g_scores_2, and what layer_1_backward reads
    gemm(1, amounts[:, 2 * T :].T, g_scores_2, beta, sums.scores_2_T[C - T :])
    add_rows(TABLE, sums.scores_2_T, tokens, amounts, 2 * T, g_scores_2)
    add_dot(g_scores_2, tables.position_scores_2, g_amounts[:, 2 * T :])
    add_rows(WEIGHTS, tables.scores_2_T, tokens, g_amounts, 2 * T, g_scores_2)
    # Attention of layer 1: of layer 2's amounts and scores, and of those columns of g_amounts.
    layer_1_backward(chunk, tokens, sums.scores_1)


@inner
def gradients_of_one_head(model, thread, gradients):
    """Writes the gradients of attention and embeddings from the sums of all sequences.

    As `TableForward._tables_backward` does, it goes through the tables from the end to the beginning; the first thread
    and the last each do about half.
    """
    weights, tables, equals, scale = model
    grads, g_tables, sums = gradients.weights, gradients.tables, gradients.sums
    K, T, C = len(weights.E), len(weights.pos), len(tables.scores_1)
    # The same parts of `rows`, and their gradients, as in `tables_of_one_head`.
    embeddings, key_rows, equal_rows = tables.rows[:C], tables.rows[: 2 * C], tables.rows[C : 2 * C + 1]
    g_embeddings, g_outputs_1, g_key_rows = g_tables.rows[:C], g_tables.rows[C : 2 * C], g_tables.rows[: 2 * C]
    g_equal_rows, g_outputs_2 = sums.outputs[: C + 1], sums.outputs[C + 1 :]
    g_scores_2_T = sums.scores_2_T[:, : 2 * C]
    g_embeddings_by_scores = g_tables.rows[2 * C : 3 * C]  # scratch memory: what layer 1's scores add to `g_embeddings`
    if thread.number == 0:
        # The rows of positions and the constant, whose gradients `one_head_backward` adds up apart.
        copy(sums.positions[:T], g_outputs_2[C - T : C])
        copy(sums.positions[T : 2 * T], g_outputs_2[2 * C - T :])
        copy(sums.positions[2 * T :], g_equal_rows[C - T :])
        dot(key_rows.T, g_outputs_2, g_tables.OV2)
        dot(g_tables.OV2, weights.O2.T, grads.V2)
        dot(weights.V2.T, g_tables.OV2, grads.O2)
        dot(g_outputs_2, tables.OV2.T, g_key_rows)
        add_dot(g_scores_2_T.T, tables.queries_2, g_key_rows)
        dot(g_scores_2_T, key_rows, g_tables.queries_2)
        dot(g_tables.queries_2.T, tables.equal_Q2, grads.K2)
        gemm(scale, g_tables.queries_2, weights.K2, 0, g_tables.equal_Q2)
        dot(equal_rows.T, g_tables.equal_Q2, grads.Q2)
        add_dot(g_tables.equal_Q2, weights.Q2.T, g_equal_rows)
    if thread.number == thread.n_threads - 1:
        gemm(scale, sums.scores_1, tables.keys_1, 0, g_tables.queries_1)
        gemm(scale, sums.scores_1.T, tables.queries_1, 0, g_tables.keys_1)
        dot(embeddings.T, g_tables.queries_1, grads.Q1)
        dot(embeddings.T, g_tables.keys_1, grads.K1)
        dot(g_tables.queries_1, weights.Q1.T, g_embeddings_by_scores)
        add_dot(g_tables.keys_1, weights.K1.T, g_embeddings_by_scores)
    wait_for_all(thread)
    if thread.number == 0:
        g_constant = g_equal_rows[C:]  # E_= + P_=, so it is added to both: the row of `=` and that of the last position
        add(g_outputs_1, g_equal_rows[:C], g_outputs_1)
        add(g_embeddings[equals : equals + 1], g_constant, g_embeddings[equals : equals + 1])
        add(g_embeddings[C - 1 :], g_constant, g_embeddings[C - 1 :])
        dot(tables.values_1.T, g_outputs_1, grads.O1)
        dot(g_outputs_1, weights.O1.T, g_tables.values_1)
        dot(embeddings.T, g_tables.values_1, grads.V1)
        add_dot(g_tables.values_1, weights.V1.T, g_embeddings)
        add(g_embeddings[:K], g_embeddings_by_scores[:K], grads.E)
        add(g_embeddings[K:], g_embeddings_by_scores[K:], grads.pos)
    wait_for_all(thread)


def by_heads(one, several):
    """The function `one` for a model with one head in each layer, `several` for others; `model` is the first argument.

    It is chosen by the type of the model, when what calls it is compiled.
    """

    def choose(n_axes):
        return one if n_axes == 2 else several

    def chosen(model, *rest):  # with the compiler switched off
        return choose(model.weights.Q1.ndim)(model, *rest)

    @overload(chosen)
    def compiled_choice(model, *rest):  # Numba gives the types of the arguments, and compiles what it gets
        types_of_weights = dict(zip(model.fields, model.types, strict=True))["weights"]
        function = choose(types_of_weights[Weights._fields.index("Q1")].ndim)
        return lambda model, *rest: function(model, *rest)

    return chosen


write_attention_tables = by_heads(tables_of_one_head, numba_heads.write_tables)
attend = by_heads(attend_with_one_head, numba_heads.attend)
transpose_tables = by_heads(transpose_tables_of_one_head, numba_heads.transpose_tables)
attend_backward = by_heads(one_head_backward, numba_heads.attend_backward)
write_attention_gradients = by_heads(gradients_of_one_head, numba_heads.write_gradients)


@inner
def forward(model, chunk, tokens, logits):
    """Writes the logits (n, N) of the n sequences of a chunk."""
    weights, n = model.weights, len(tokens)
    resid_mid, neurons = chunk.resid_mid[:n], chunk.neurons[:n]
    attend(model, chunk, tokens)
    dot(resid_mid, weights.W_in, neurons)
    relu(neurons)
    dot(neurons, model.tables.read_out, logits)
    add_dot(resid_mid, weights.U, logits)


@inner
def backward(model, chunk, sums, tokens, g_logits, beta):
    """Adds the gradients of a chunk, after `forward`, to the sums so far (`beta` 1), or writes them (`beta` 0)."""
    tables, n = model.tables, len(tokens)
    resid_mid, neurons = chunk.resid_mid[:n], chunk.neurons[:n]
    g_neurons, g_resid = chunk.g_neurons[:n], chunk.g_resid[:n]
    # Logits = neurons read_out + resid_mid U.
    dot(g_logits, tables.U_T, g_resid)  # without what goes through the neurons
    gemm(1, g_logits.T, neurons, beta, sums.read_out_T)
    gemm(1, g_logits.T, resid_mid, beta, sums.U_T)
    dot(g_logits, tables.read_out_T, g_neurons)
    # Neurons = relu(resid_mid W_in).
    gate(neurons, g_neurons)
    gemm(1, resid_mid.T, g_neurons, beta, sums.W_in)
    add_dot(g_neurons, tables.W_in_T, g_resid)  # now by resid_mid
    attend_backward(model, chunk, sums, tokens, beta)


@inner
def write_tables(thread, model):
    """Writes the tables that follow from the weights; the last thread also those of the MLP."""
    if thread.number == thread.n_threads - 1:
        dot(model.weights.W_out, model.weights.U, model.tables.read_out)
    write_attention_tables(model, thread)


@inner
def write_transposes(model):
    """Writes the transposes that the backward pass of every chunk multiplies by."""
    weights, tables = model.weights, model.tables
    transpose(weights.U, tables.U_T)
    transpose(weights.W_in, tables.W_in_T)
    transpose(tables.read_out, tables.read_out_T)
    transpose_tables(model)


@inner
def write_gradients(thread, model, gradients):
    """Writes the gradients of the weights from the sums of all sequences; the last thread also those of the MLP."""
    weights, grads, sums = model.weights, gradients.weights, gradients.sums
    if thread.number == thread.n_threads - 1:
        copy(sums.W_in, grads.W_in)
        dot(sums.read_out_T.T, weights.U.T, grads.W_out)
        add_dot(sums.read_out_T, weights.W_out, sums.U_T)  # read_out = W_out U
        transpose(sums.U_T, grads.U)
    write_attention_gradients(model, thread, gradients)


@inner
def share(thread, n):
    """The index at which a thread's share of n items begins, and the index after its last item."""
    return n * thread.number // thread.n_threads, n * (thread.number + 1) // thread.n_threads


@inner
def add_sums(thread, all_sums):
    """Adds the sums of the other threads to the first thread's; each thread adds its share of the numbers."""
    first, last = share(thread, all_sums.shape[1])
    total = all_sums[0]
    for i in range(1, len(all_sums)):
        other = all_sums[i]
        for j in range(first, last):
            total[j] += other[j]


@inner
def pass_share(thread, model, chunk, sums, batches, step):
    """Writes the losses of a thread's share of a step's batch, and the sums of their gradients, chunk by chunk."""
    B, n = len(batches.losses), len(chunk.logits)  # sequences of a batch, and of a chunk
    tokens, labels = batches.tokens[step * B : step * B + B], batches.labels[step * B : step * B + B]
    first, last = share(thread, B)
    for start in range(first, last, n):
        end = min(start + n, last)
        sequences, logits = tokens[start:end], chunk.logits[: end - start]
        forward(model, chunk, sequences, logits)
        cross_entropy(logits, labels[start:end], batches.losses[start:end], B, batches.loss_in_double)
        g_logits = logits  # which `cross_entropy` writes over the logits
        backward(model, chunk, sums, sequences, g_logits, 0 if start == first else 1)


@inner
def mean(x):
    """The mean of a vector, added up in double precision and in order."""
    total = 0.0
    for i in range(len(x)):
        total += x[i]
    return total / len(x)


@compiled
def adamw(update, first, last, rate, count):
    """AdamW's update number `count` (Loshchilov and Hutter, 2019) of the weights from `first` to `last` - 1.

    The running means of the gradient and of its square, `mean` and `square`, are updated too.
    """
    weights, grad = update.weights[first:last], update.grad[first:last]
    mean, square = update.mean[first:last], update.square[first:last]
    beta1, beta2 = update.beta1, update.beta2
    # The correction for a `square` that starts at 0 divides sqrt(square). To divide once per weight, the step size and
    # eps are multiplied by it instead.
    correction = np.sqrt(1 - beta2**count)
    step_size = np.float32(rate / (1 - beta1**count) * correction)
    scaled_eps = np.float32(update.eps * correction)
    decay = np.float32(rate * update.weight_decay)
    old_mean, new_mean = np.float32(beta1), np.float32(1 - beta1)  # shares of the old mean and of the gradient
    old_square, new_square = np.float32(beta2), np.float32(1 - beta2)
    for i in range(len(weights)):
        mean[i] = old_mean * mean[i] + new_mean * grad[i]
        square[i] = old_square * square[i] + new_square * (grad[i] * grad[i])
        # Multiplied by 1 - decay, weights would always be rounded in the same direction.
        weights[i] -= decay * weights[i] + step_size * mean[i] / (np.sqrt(square[i]) + scaled_eps)


@partial(compiled, nogil=True, note="compiling the training step, once: some 40 seconds")
def train(thread, model, gradients, chunk, sums, batches, update):
    """Writes loss and gradients of every step's batch, one after the other, and updates the weights by each.

    Without weights in `update` (P = 0), there is no update. A model whose loss is not finite stops before its update.
    """
    loss, diverged_at, P = batches.loss, batches.diverged_at, len(update.weights)
    for step in range(len(update.rates)):
        if diverged_at[0] >= 0:
            break
        write_tables(thread, model)
        write_transposes(model)  # all of them by every thread, each the same numbers, so that none waits for another
        pass_share(thread, model, chunk, sums, batches, step)
        wait_for_all(thread)
        add_sums(thread, gradients.all_sums)
        if thread.number == 0:
            loss[0] = mean(batches.losses)
        wait_for_all(thread)
        write_gradients(thread, model, gradients)
        if P > 0 and np.isfinite(loss[0]):
            first, last = share(thread, P)
            adamw(update, first, last, update.rates[step], update.first_step + step + 1)
        if thread.number == 0 and P > 0 and not np.isfinite(loss[0]):
            diverged_at[0] = update.first_step + step
        wait_for_all(thread)


@partial(compiled, nogil=True)
def answer(thread, model, chunk, tokens, logits):
    """Writes the logits (sequences, N) of any number of sequences, each thread its share, a chunk at a time."""
    n = len(chunk.logits)
    first, last = share(thread, len(tokens))
    write_tables(thread, model)
    for start in range(first, last, n):
        end = min(start + n, last)
        forward(model, chunk, tokens[start:end], logits[start:end])
