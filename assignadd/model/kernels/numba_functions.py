"""The operations between the matrix products of a training step, compiled for a CPU; the kernels for traces use them.

Names and shapes, the same in all functions (one model, single precision):

    B, T                 sequences, and tokens of each; every token stands at a position 0 ... T - 1, `=` at the last
    K, C                 tokens of the vocabulary; rows of a table, C = K + T: K for tokens, then T for positions
    tokens               (B, T)
    attention_1          (B T, T), row b T + q: weight of every key k in layer 1, for query q of sequence b; 0 for k > q
    attention_2          (B, T): weight of every key in layer 2; the only query is `=`
    copied_scores        (B, T): layer-2 score that a key gains for each unit of its attention in layer 1 to a position
    amounts              (B, 3T + 1): how much `=` uses of the rows of each position's token and place. T columns for
                         what layer 2 reads directly, T for what it reads of layer 1's copies, T for layer 1; then 1
                         for the constant row, the embedding of `=`
    g_...                the gradient of the loss by what follows
    ..._at               the part of a row of the tables that belongs to positions, its columns from K on

docs/names.md, "Words of the fast pass", says what rows, copies, amounts and usage are. All arrays are C-contiguous, so
that every function is compiled once. Sums are taken in a fixed order: a step repeats bit for bit. Slices from K on are
faster than indices K + k, which may be negative; loops compile in less time than array expressions.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from torch import Tensor

from assignadd.model.kernels.blas import compiled
from assignadd.model.kernels.tensor import TensorKernels

# The compiler may reorder sums, whatever their brackets, and fuse operations. It must keep NaN and infinity, which show
# that a model diverged.
fast = partial(compiled, fastmath={"reassoc", "contract", "nsz", "arcp"})
inlined = partial(fast, forceinline=True)
# For functions that only compiled code calls: a wrapper for Python takes time to compile where the arguments are many.
inner = partial(compiled, no_cpython_wrapper=True)
# A sum of exponentials above this has lost nothing to float32's smallest numbers.
SAFE_SUM = np.float32(1e-30)
# For `_exp`: log2(e); log(2) as the sum of two numbers, the first with so few digits that k times it is exact; the
# coefficients of the series, highest power first; and the exponent below which float32 loses digits.
LOG2_E, LOG_2 = np.float32(1.44269504), (np.float32(0.693359375), np.float32(-2.12194440e-4))
EXP_SERIES = tuple(map(np.float32, (1.98756915e-4, 1.39819995e-3, 8.33345191e-3, 4.16657959e-2, 0.166666655, 0.5)))
LEAST_EXPONENT = np.float32(-87)


@inner
def copy(x, out):
    """out = x, for matrices."""
    for i in range(len(x)):
        row, out_row = x[i], out[i]
        for j in range(len(row)):
            out_row[j] = row[j]


@inner
def add(x, y, out):
    """out = x + y, for matrices; `out` may be one of them."""
    for i in range(len(x)):
        x_row, y_row, out_row = x[i], y[i], out[i]
        for j in range(len(x_row)):
            out_row[j] = x_row[j] + y_row[j]


@inner
def clear(x):
    """x = 0, for a matrix."""
    for i in range(len(x)):
        row = x[i]
        for j in range(len(row)):
            row[j] = 0


@partial(compiled, fastmath={"contract"})
def _exp(x):
    """exp(x) for x of up to 88, to two units in the last place; 0 below -87.

    x = k log(2) + r with a whole number k, so exp(x) = 2**k exp(r), and exp(r) = 1 + r + r**2 series(r). The compiler
    vectorises loops that call it. The polynomial is that of the Cephes library.
    """
    k = np.floor(x * LOG2_E + np.float32(0.5))
    r = (x - k * LOG_2[0]) - k * LOG_2[1]
    series = np.float32(0)
    for coefficient in EXP_SERIES:
        series = series * r + coefficient
    # A float32 with exponent bits k + 127 (above 23 bits of fraction, which are 0) is 2**k.
    power_of_2 = np.int32((np.int32(k) + np.int32(127)) << np.int32(23)).view(np.float32)
    return np.float32(0) if x < LEAST_EXPONENT else (series * r * r + r + np.float32(1)) * power_of_2


@fast
def _largest(row):
    """The largest number of a row; NaN may be missed.

    It is the largest of four running maxima, each over every fourth number: a single one would have to wait for its
    last comparison each time.
    """
    n, max_0, max_1, max_2, max_3 = len(row), row[0], row[0], row[0], row[0]
    for i in range(0, n - 3, 4):
        four = row[i:]
        max_0, max_1, max_2, max_3 = max(max_0, four[0]), max(max_1, four[1]), max(max_2, four[2]), max(max_3, four[3])
    for i in range(n - n % 4, n):  # the last ones, fewer than four
        max_0 = max(max_0, row[i])
    return max(max(max_0, max_1), max(max_2, max_3))


@fast
def softmax(row):
    """Replaces a row of scores by its softmax."""
    largest, total = _largest(row), np.float32(0)
    for k in range(len(row)):
        row[k] = _exp(row[k] - largest)
    for k in range(len(row)):
        total += row[k]
    inverse = np.float32(1) / total
    for k in range(len(row)):
        row[k] *= inverse


@fast
def factors_of(scores, factors, T):
    """Writes `factors` (C, C), the exponentials of layer 1's score table (C, C), for `layer_1`.

    The score of a pair is the sum of four entries of the table, so its exponential is a product of four factors: 8,100
    exponentials for a table instead of 70,000 for a batch. From each row the largest entry among the tokens is
    subtracted first, and likewise among the T positions: all keys of a query lose the same, so its attention stays.
    """
    C = len(scores)
    for row in range(C):
        for first, last in ((0, C - T), (C - T, C)):  # the columns of tokens, those of positions
            part_of_row, factors_of_part = scores[row, first:last], factors[row, first:last]
            largest = _largest(part_of_row)
            for column in range(len(part_of_row)):
                factors_of_part[column] = _exp(part_of_row[column] - largest)


@fast
def layer_1(scores, factors, tokens, attention, amounts, first):
    """Writes a head's attention of layer 1, (B T, T), and into amounts[:, first:] that of `=`, then 1.

    `scores` is layer 1's score table (C, C), (query row, key row); `factors_of` writes its `factors`. For keys after
    the query, `attention` is not written, and has to be 0 before.
    """
    B, T = tokens.shape
    K = len(scores) - T
    for b in range(B):
        sequence, sums_are_safe = tokens[b], True
        for q in range(T):
            of_query_token, of_query_position, weights = factors[sequence[q]], factors[K + q], attention[b * T + q]
            # The columns of key positions in the rows of the query's token and position.
            query_token_at, query_position_at = of_query_token[K:], of_query_position[K:]
            total = np.float32(0)
            for k in range(q + 1):
                key = sequence[k]
                weights[k] = of_query_token[key] * of_query_position[key] * (query_token_at[k] * query_position_at[k])
                total += weights[k]
            sums_are_safe &= total > SAFE_SUM
            inverse = np.float32(1) / total
            for k in range(q + 1):
                weights[k] *= inverse
        if not sums_are_safe:  # a row may be NaN, as 1 / total is infinite
            _softmax_of_sums(scores, sequence, attention[b * T :])
        attention_of_equals, amounts_1 = attention[b * T + T - 1], amounts[b, first:]
        for k in range(T):
            amounts_1[k] = attention_of_equals[k]
        amounts_1[T] = 1


@fast
def _softmax_of_sums(scores, sequence, attention):
    """Writes layer 1's attention (T, T) in a sequence (T,) score by score: slower than factors, safe for any scores."""
    T = len(sequence)
    K = len(scores) - T
    for q in range(T):
        of_query_token, of_query_position, weights = scores[sequence[q]], scores[K + q], attention[q, : q + 1]
        for k in range(q + 1):
            key = sequence[k]
            weights[k] = of_query_token[key] + of_query_position[key] + of_query_token[K + k] + of_query_position[K + k]
        softmax(weights)


@fast
def layer_2(scores, tokens, attention_1, attention_2, copied_scores, amounts, C):
    """Writes the attention of `=` in layer 2, the scores of copied rows, and amounts[:, : 2T].

    `scores` (B, at least 2C) are those that `=` gives to every row of the table, then to layer 1's copy of it.
    """
    B, T = tokens.shape
    K = C - T
    for b in range(B):
        sequence, score, weights, copied_score = tokens[b], scores[b], attention_2[b], copied_scores[b]
        direct, passed_on, pattern_1 = amounts[b], amounts[b, T:], attention_1[b * T :]
        # The scores of: positions, copies of tokens, copies of positions.
        score_at, score_of_copy, score_of_copy_at = score[K:], score[C:], score[C + K :]
        for k in range(T):
            copied_score[k] = score_of_copy[sequence[k]] + score_of_copy_at[k]
        for q in range(T):  # the key of layer 2, which was a query of layer 1 and copied from k
            total = score[sequence[q]] + score_at[q]
            for k in range(T):
                total += pattern_1[q, k] * copied_score[k]
            weights[q] = total
        softmax(weights)
        for k in range(T):
            direct[k] = weights[k]
            passed_on[k] = 0
        for q in range(T):
            for k in range(T):
                passed_on[k] += weights[q] * pattern_1[q, k]


@fast
def relu(neurons):
    """Replaces negative numbers of a matrix (B, h) by 0."""
    for b in range(len(neurons)):
        row = neurons[b]
        for i in range(len(row)):
            row[i] = np.float32(0) if row[i] < 0 else row[i]  # keeps NaN, as torch does


@fast
def cross_entropy(logits, labels, losses, batch, in_double):
    """Writes the loss of every sequence, and over the logits (B, N) the gradient of the mean over `batch` sequences.

    With `in_double`, exponentials and gradient are in double precision, and rounded at the end.
    """
    N, one_over_batch = logits.shape[1], np.float32(1) / np.float32(batch)
    for b in range(len(logits)):
        row, label = logits[b], labels[b]
        largest, logit_of_label, total = _largest(row), np.float64(row[label]), 0.0
        if in_double:
            for n in range(N):
                total += np.exp(np.float64(row[n]) - largest)
            for n in range(N):
                row[n] = (np.exp(np.float64(row[n]) - largest) / total - (n == label)) / batch
        else:
            for n in range(N):
                row[n] = _exp(row[n] - largest)
            for n in range(N):  # in double precision: 1 + 1e-8 is the total where an answer is certain
                total += row[n]
            scale = np.float32(one_over_batch / total)
            for n in range(N):
                row[n] *= scale
            row[label] -= one_over_batch
        losses[b] = np.log(total) + (np.float64(largest) - logit_of_label)


@fast
def gate(neurons, grad):
    """Replaces `grad` (B, h), the gradient after a ReLU, by that before it: 0 where the neuron is 0 or less."""
    for b in range(len(neurons)):
        row, g_row = neurons[b], grad[b]
        for i in range(len(row)):
            g_after = g_row[i]  # read in any case: on ARM the compiler would otherwise branch at every neuron
            g_row[i] = np.float32(0) if row[i] <= 0 else g_after


@fast
def layer_2_backward(chunk, tokens, C):
    """Fills three arrays of a chunk from the gradient of the amounts that layer 2 uses, g_amounts[:, : 2T].

    g_position_scores    (B, T), the gradient by each position's score
    g_passed_on          (B, T), the gradient by how much of each position's copies is passed on to `=`
    scores_2             (B, at least 2C), over the scores of the rows and their copies: the gradient by these
    """
    B, T = tokens.shape
    K = C - T
    for b in range(B):
        sequence, weights, pattern_1 = tokens[b], chunk.attention_2[b], chunk.attention_1[b * T :]
        # By the amounts of what layer 2 reads directly, and by those of what it reads of copies.
        g_direct, g_of_copies = chunk.g_amounts[b], chunk.g_amounts[b, T:]
        g_score, g_passed_on, g_row_score = chunk.g_position_scores[b], chunk.g_passed_on[b], chunk.scores_2[b]
        for k in range(T):
            g_passed_on[k] = g_of_copies[k]
        mean = np.float32(0)  # of the gradients of the weights, by weight: what a softmax subtracts
        for q in range(T):
            g_weight = g_direct[q]
            for k in range(T):
                g_weight += pattern_1[q, k] * g_passed_on[k]
            g_score[q] = g_weight  # by the weight so far; by the score once the softmax is passed, below
            mean += g_weight * weights[q]
        for row in range(len(g_row_score)):
            g_row_score[row] = 0
        # By the scores of: positions, copies of tokens, copies of positions; in `layer_2` a position's score is a sum.
        g_score_at, g_copy_score, g_copy_score_at = g_row_score[K:], g_row_score[C:], g_row_score[C + K :]
        for q in range(T):
            g_score[q] = weights[q] * (g_score[q] - mean)
            for k in range(T):
                g_copy_score_at[k] += g_score[q] * pattern_1[q, k]
        for k in range(T):
            g_row_score[sequence[k]] += g_score[k]
            g_score_at[k] = g_score[k]
            g_copy_score[sequence[k]] += g_copy_score_at[k]


# The gradient of a pair's score (query q, key k) is added to four entries of layer 1's table, (C, C): in the rows of
# q's token and position, the columns of k's. `g_by_key`, (T + 1, T), has the gradients of a sequence, (key, query); its
# last row is scratch memory. `g_positions`, (C, T), adds up the rows of query positions, transposed, until the end.


@fast
def layer_1_backward(chunk, tokens, g_table):
    """Adds the gradient of every sequence to `g_table`, that of layer 1's score table, (C, C).

    It follows from the gradients that `layer_2_backward` writes and from g_amounts[:, 2T:].
    """
    B, T = tokens.shape
    g_by_key, g_positions = chunk.g_by_key, chunk.g_positions
    clear(g_by_key)  # entries for keys after the query are never written, and stay 0
    clear(g_positions)
    g_row = g_by_key[T]  # scratch memory, (T,), for one query: the row behind those of the T keys
    for b in range(B):
        sequence, copied_scores, g_passed_on = tokens[b], chunk.copied_scores[b], chunk.g_passed_on[b]
        g_of_equals = chunk.g_amounts[b, 2 * T :]  # by what layer 1 writes into `=` itself
        for q in range(T):
            weight_2, g_score = chunk.attention_2[b, q], chunk.g_position_scores[b, q]
            # The gradient of each weight: it passes rows on to `=`, and adds their scores to that of q.
            for k in range(T):
                g_row[k] = weight_2 * g_passed_on[k] + g_score * copied_scores[k]
            if q == T - 1:  # `=`
                for k in range(T):
                    g_row[k] += g_of_equals[k]
            # Through the softmax; then to the row of q's token in g_table, and into column q of g_by_key.
            add_query(chunk.attention_1[b * T + q], g_row, q, sequence, g_by_key, g_table)
        add_keys(sequence, g_by_key, g_positions)
    add_query_positions(g_positions, g_table)  # once for all sequences


@inlined
def add_query(weights, g_row, q, sequence, g_by_key, g_table):
    """Adds the gradient of the scores of query q to the row of its token in `g_table`.

    It is written into column q of `g_by_key` too, from which the rows of keys and of query positions get it. `g_row`,
    (T,), is the gradient of the query's attention `weights` before the call, and that of its scores after it.
    """
    T, K, mean = len(sequence), len(g_table) - len(sequence), np.float32(0)
    for k in range(T):
        mean += weights[k] * g_row[k]
    of_query_token, query_token_at = g_table[sequence[q]], g_table[sequence[q], K:]
    for k in range(T):
        g_row[k] = weights[k] * (g_row[k] - mean)  # of the score, through the softmax
        query_token_at[k] += g_row[k]
    for k in range(q + 1):
        of_query_token[sequence[k]] += g_row[k]
        g_by_key[k, q] = g_row[k]


@inlined
def add_keys(sequence, g_by_key, g_positions):
    """Adds the gradients of a sequence to `g_positions`, in the rows of each key's position and token."""
    T = len(sequence)
    g_of_key_positions = g_positions[len(g_positions) - T :]  # (key's position, query's position)
    for k in range(T):
        of_key, of_key_position = g_by_key[k], g_of_key_positions[k]
        for q in range(T):
            of_key_position[q] += of_key[q]
    for k in range(T):
        of_key_token = g_positions[sequence[k]]
        for q in range(T):
            of_key_token[q] += g_by_key[k, q]


@inlined
def add_query_positions(g_positions, g_table):
    """Adds `g_positions`, transposed, to the rows of query positions in `g_table`."""
    C, T = g_positions.shape
    for q in range(T):
        of_query_position = g_table[C - T + q]
        for key in range(C):
            of_query_position[key] += g_positions[key, q]


# For traces, whose `usage` (B, 3C + 1) says how much `=` uses of each row of the tables (`table.Activations`).


@fast
def spread(amounts, tokens, usage, source, target, C):
    """Writes how much is used of each of C rows, usage[:, target : target + C].

    Every position uses an amount, in amounts[:, source : source + T], of the row of its token and of its own row.
    """
    B, T = tokens.shape
    for b in range(B):
        row_usage, amount, sequence = usage[b, target:], amounts[b, source:], tokens[b]
        row_usage_at = row_usage[C - T :]
        for row in range(C):
            row_usage[row] = 0
        for k in range(T):
            row_usage[sequence[k]] += amount[k]
            row_usage_at[k] = amount[k]


@fast
def after_layer_1(embeddings, copies, tokens, attention, after, written):
    """Writes the residual of every position after layer 1, `after`, (B T, d).

    `copies` (C, d) is what OV1 writes for each of the `embeddings` (C, d); `written`, (T, d), is scratch memory.
    """
    B, T = tokens.shape
    K, d = len(embeddings) - T, embeddings.shape[1]
    for b in range(B):
        for q in range(T):
            token, residual, weights = tokens[b, q], after[b * T + q], attention[b * T + q]
            for i in range(d):
                written[q, i] = copies[token, i] + copies[K + q, i]
                residual[i] = embeddings[token, i] + embeddings[K + q, i]
            for k in range(q + 1):  # these are written, as no key comes after its query
                for i in range(d):
                    residual[i] += weights[k] * written[k, i]


class CompiledKernels(TensorKernels):
    """Attention of one head by the functions above; loss, gradients and update in tensor operations.

    A model that trains alone has them compiled too, in `model/cpu_step.py`.
    """

    name = "numba"

    def layer_1(self, scores: Tensor, tokens: Tensor, usage: Tensor) -> Tensor:
        """Attention of layer 1, model by model; also writes its columns of the usage, from the amounts of positions."""
        scores = scores.squeeze(-3)  # of the one head
        attention = usage.new_zeros(*tokens.shape[:-1], 1, self.T, self.T)  # 0 stays for keys after the query
        amounts = usage.new_zeros(*tokens.shape[:-1], 3 * self.T + 1)  # of each position's rows: (..., B, 3T + 1)
        factors = scores.new_empty(scores.shape)
        for scores_m, factors_m, tokens_m, attention_m, amounts_m, usage_m in _of_each_model(
            scores, factors, tokens, attention, amounts, usage
        ):
            factors_of(scores_m, factors_m, self.T)
            layer_1(scores_m, factors_m, tokens_m, attention_m.reshape(-1, self.T), amounts_m, 2 * self.T)
            spread(amounts_m, tokens_m, usage_m, 2 * self.T, 0, self.C)  # from layer 1's columns of the amounts
        usage[..., self.C] = 1  # the constant
        return attention

    def layer_2(self, scores: Tensor, tokens: Tensor, attention_1: Tensor, usage: Tensor) -> tuple[Tensor, Tensor]:
        """Attention of layer 2 and the scores of copies, model by model; also writes its columns of the usage."""
        attention_2 = usage.new_empty(tokens.shape)  # (..., B, T)
        copied_scores = usage.new_empty(tokens.shape)
        amounts = usage.new_empty(*tokens.shape[:-1], 2 * self.T)  # those that layer 2 uses
        for scores_m, tokens_m, attention_1_m, attention_2_m, copied_m, amounts_m, usage_m in _of_each_model(
            scores, tokens, attention_1, attention_2, copied_scores, amounts, usage
        ):
            layer_2(scores_m, tokens_m, attention_1_m.reshape(-1, self.T), attention_2_m, copied_m, amounts_m, self.C)
            spread(amounts_m, tokens_m, usage_m, 0, self.C + 1, self.C)  # what layer 2 reads directly
            spread(amounts_m, tokens_m, usage_m, self.T, 2 * self.C + 1, self.C)  # what it reads of copies
        return attention_2.unsqueeze(-2), copied_scores[..., None, None, :]

    def after_layer_1(self, embeddings: Tensor, copied: Tensor, tokens: Tensor, attention_1: Tensor) -> Tensor:
        """The residual of every position after layer 1, model by model."""
        d = embeddings.shape[-1]
        after = embeddings.new_empty(*tokens.shape, d)  # (..., B, T, d)
        written = embeddings.new_empty(self.T, d).numpy()  # scratch memory for one sequence
        for embeddings_m, copied_m, tokens_m, attention_m, after_m in _of_each_model(
            embeddings, copied.squeeze(-3), tokens, attention_1, after
        ):
            pattern, residual = attention_m.reshape(-1, self.T), after_m.reshape(-1, d)
            after_layer_1(embeddings_m, copied_m, tokens_m, pattern, residual, written)
        return after


def _of_each_model(*tensors: Tensor) -> Iterator[tuple[Any, ...]]:
    """For each model of a stack its part of the tensors, as arrays; of tensors without the axis M, these once.

    The first tensor is a matrix for each model. Only a contiguous tensor can be written into: of others, the array is a
    copy.
    """
    arrays = [tensor.contiguous().numpy() for tensor in tensors]
    has_axis_M = arrays[0].ndim == 3
    return zip(*arrays, strict=True) if has_axis_M else iter([tuple(arrays)])
