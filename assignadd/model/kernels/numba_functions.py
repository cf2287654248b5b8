"""What is between the matrix products of a training step, compiled for a CPU, one sequence after the other.

Every function takes the arrays of one model, each a C-contiguous matrix in single precision, so that it is compiled
once: rows of `attention_1` (B T, T) are those of every query of every sequence. A sequence needs a few hundred numbers,
so nothing is read from memory twice. Sums are taken in a fixed order: a step repeats bit for bit. Slices from K on are
faster than indices K + k, which the compiler takes for possibly negative, and loops compile in less time than array
expressions.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from assignadd.model.kernels.blas import compiled

# The compiler may reorder sums, whatever their brackets, and fuse operations. It must keep NaN and infinity, which show
# that a model diverged.
fast = partial(compiled, fastmath={"reassoc", "contract", "nsz", "arcp"})
# A sum of exponentials above this has lost nothing to float32's smallest numbers.
SAFE_SUM = np.float32(1e-30)
# For `_exp`: log2(e), log(2) in two parts, the first of which has so few digits that k times it is exact, the series,
# and the exponent below which float32 loses digits.
LOG2_E, LOG_2 = np.float32(1.44269504), (np.float32(0.693359375), np.float32(-2.12194440e-4))
EXP_SERIES = tuple(map(np.float32, (1.98756915e-4, 1.39819995e-3, 8.33345191e-3, 4.16657959e-2, 0.166666655, 0.5)))
LEAST = np.float32(-87)


@partial(compiled, fastmath={"contract"})
def _exp(x):
    """exp(x) for x of up to 88, as 2**k exp(r), to two units in the last place; 0 below -87.

    The compiler vectorises loops that call it. The polynomial is that of the Cephes library.
    """
    k = np.floor(x * LOG2_E + np.float32(0.5))
    r = (x - k * LOG_2[0]) - k * LOG_2[1]
    series = np.float32(0)
    for factor in EXP_SERIES:
        series = series * r + factor
    power = np.int32((np.int32(k) + np.int32(127)) << np.int32(23)).view(np.float32)  # 2**k by its bits
    return np.float32(0) if x < LEAST else (series * r * r + r + np.float32(1)) * power


@fast
def _largest(row):
    """The largest number of a row; NaN may be missed. Of four running maxima, as each waits for its last comparison."""
    n, a, b, c, d = len(row), row[0], row[0], row[0], row[0]
    for i in range(0, n - 3, 4):
        four = row[i:]
        a, b, c, d = max(a, four[0]), max(b, four[1]), max(c, four[2]), max(d, four[3])
    for i in range(n - n % 4, n):
        a = max(a, row[i])
    return max(max(a, b), max(c, d))


@fast
def _softmax(row):
    """Replaces a row of scores by its softmax."""
    largest, total = _largest(row), np.float32(0)
    for k in range(len(row)):
        row[k] = _exp(row[k] - largest)
    for k in range(len(row)):
        total += row[k]
    share = np.float32(1) / total
    for k in range(len(row)):
        row[k] *= share


@fast
def factors_of(scores, factors, T):
    """exp of each row minus its largest entry, for tokens and the T positions by themselves: patterns stay the same.

    exp(score) is a product of four entries: 8,100 exponentials for a table instead of 70,000 for a batch.
    """
    C = len(scores)
    for r in range(C):
        for first, last in ((0, C - T), (C - T, C)):
            row, out = scores[r, first:last], factors[r, first:last]
            largest = _largest(row)
            for c in range(len(row)):
                out[c] = _exp(row[c] - largest)


@fast
def layer_1(scores, factors, tokens, attention, used):
    """Attention of layer 1, and used[:, 2T :]: that of `=`, and 1 for the constant row of the table.

    For keys after the query, `attention` is not written, and has to be 0 before.
    """
    B, T = tokens.shape
    K = len(scores) - T
    for b in range(B):
        sequence, safe = tokens[b], True
        for q in range(T):
            of_token, of_position, row = factors[sequence[q]], factors[K + q], attention[b * T + q]
            token_at, position_at = of_token[K:], of_position[K:]
            total = np.float32(0)
            for k in range(q + 1):
                key = sequence[k]
                row[k] = of_token[key] * of_position[key] * (token_at[k] * position_at[k])
                total += row[k]
            safe &= total > SAFE_SUM
            share = np.float32(1) / total
            for k in range(q + 1):
                row[k] *= share
        if not safe:  # a row may be NaN, as 1 / total is infinite
            _softmax_of_sums(scores, sequence, attention[b * T :])
        of_equals, in_layer_1 = attention[b * T + T - 1], used[b, 2 * T :]
        for k in range(T):
            in_layer_1[k] = of_equals[k]
        in_layer_1[T] = 1


@fast
def _softmax_of_sums(scores, tokens, attention):
    """Layer 1's attention in one sequence score by score, safe for any weights."""
    T = len(tokens)
    K = len(scores) - T
    for q in range(T):
        of_token, of_position, row = scores[tokens[q]], scores[K + q], attention[q, : q + 1]
        for k in range(q + 1):
            key = tokens[k]
            row[k] = of_token[key] + of_position[key] + of_token[K + k] + of_position[K + k]
        _softmax(row)


@fast
def layer_2(scores, tokens, attention_1, attention_2, copied, used, C):
    """Attention of `=` in layer 2, the scores of copied rows, (B, T); used[:, : 2T]: that, and what is passed on."""
    B, T = tokens.shape
    K = C - T
    for b in range(B):
        sequence, score, pattern, of_copies = tokens[b], scores[b], attention_2[b], copied[b]
        direct, passed_on, mixed = used[b], used[b, T:], attention_1[b * T :]
        score_at, score_of_copy, score_of_copy_at = score[K:], score[C:], score[C + K :]
        for k in range(T):
            of_copies[k] = score_of_copy[sequence[k]] + score_of_copy_at[k]
        for q in range(T):
            total = score[sequence[q]] + score_at[q]
            for k in range(T):
                total += mixed[q, k] * of_copies[k]
            pattern[q] = total
        _softmax(pattern)
        for k in range(T):
            direct[k] = pattern[k]
            passed_on[k] = 0
        for q in range(T):
            for k in range(T):
                passed_on[k] += pattern[q] * mixed[q, k]


@fast
def relu(neurons):
    """Replaces negative numbers by 0."""
    for b in range(len(neurons)):
        row = neurons[b]
        for i in range(len(row)):
            row[i] = np.float32(0) if row[i] < 0 else row[i]  # keeps NaN, as torch does


@fast
def cross_entropy(logits, labels, losses, batch, in_double):
    """Writes the loss of every sequence, and over the logits the gradient of the mean over a batch of this size.

    With `in_double`, exponentials and gradient are in double precision, and rounded at the end.
    """
    N, part = logits.shape[1], np.float32(1) / np.float32(batch)
    for b in range(len(logits)):
        row, label = logits[b], labels[b]
        largest, of_label, total = _largest(row), np.float64(row[label]), 0.0
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
            share = np.float32(part / total)
            for n in range(N):
                row[n] *= share
            row[label] -= part
        losses[b] = np.log(total) + (np.float64(largest) - of_label)


@fast
def gate(neurons, grad):
    """The gradient before a ReLU: 0 where the neuron is 0 or less."""
    for b in range(len(neurons)):
        row, g_row = neurons[b], grad[b]
        for i in range(len(row)):
            above = g_row[i]  # read in any case: on ARM the compiler would otherwise branch at every neuron
            g_row[i] = np.float32(0) if row[i] <= 0 else above


@fast
def layer_2_backward(g_used, tokens, attention_1, attention_2, g_scores, g_passed_on, g_both, C):
    """Gradients of each position's score and of what it passes on, (B, T), and of the scores of all rows, g_both."""
    B, T = tokens.shape
    K = C - T
    for b in range(B):
        sequence, g_direct, pattern, mixed = tokens[b], g_used[b], attention_2[b], attention_1[b * T :]
        g_score, g_passed, out = g_scores[b], g_passed_on[b], g_both[b]
        for k in range(T):
            g_passed[k] = g_used[b, T + k]
        mean = np.float32(0)
        for q in range(T):
            total = g_direct[q]
            for k in range(T):
                total += mixed[q, k] * g_passed[k]
            g_score[q] = total
            mean += total * pattern[q]
        for c in range(len(out)):
            out[c] = 0
        g_copied = out[C + K :]
        for q in range(T):
            g_score[q] = pattern[q] * (g_score[q] - mean)
            for k in range(T):
                g_copied[k] += g_score[q] * mixed[q, k]
        for k in range(T):
            out[sequence[k]] += g_score[k]
            out[K + k] = g_score[k]
            out[C + sequence[k]] += g_copied[k]


@fast
def layer_1_backward(
    g_used, tokens, attention_1, attention_2, copied, g_scores, g_passed_on, g_table, g_by_key, g_positions
):
    """Adds the gradient of every sequence to that of layer 1's score table, (C, C).

    `g_by_key`, (T + 1, T), and `g_positions`, (C, T), are memory.
    """
    B, T = tokens.shape
    C = len(g_table)
    K = C - T
    # Rows of query positions by key, token or position, to which whole rows are added.
    g_row, at_positions = g_by_key[T], g_positions[K:]
    for row in range(C):
        for q in range(T):
            g_positions[row, q] = 0
    for key in range(T):
        for q in range(T):
            g_by_key[key, q] = 0  # and so it stays for keys after the query
    for b in range(B):
        sequence = tokens[b]
        for q in range(T):
            row, weight, g_score = attention_1[b * T + q], attention_2[b, q], g_scores[b, q]
            for k in range(T):
                g_row[k] = weight * g_passed_on[b, k] + g_score * copied[b, k]
            if q == T - 1:
                for k in range(T):
                    g_row[k] += g_used[b, 2 * T + k]
            mean = np.float32(0)
            for k in range(T):
                mean += row[k] * g_row[k]
            of_token, token_at = g_table[sequence[q]], g_table[sequence[q], K:]
            for k in range(T):
                g_row[k] = row[k] * (g_row[k] - mean)
                token_at[k] += g_row[k]
            for k in range(q + 1):
                of_token[sequence[k]] += g_row[k]
                g_by_key[k, q] = g_row[k]
        for k in range(T):
            of_key, at_position = g_by_key[k], at_positions[k]
            for q in range(T):
                at_position[q] += of_key[q]
        for k in range(T):
            of_key = g_positions[sequence[k]]
            for q in range(T):
                of_key[q] += g_by_key[k, q]
    for q in range(T):
        of_position = g_table[K + q]
        for key in range(C):
            of_position[key] += g_positions[key, q]


@compiled
def adamw(weights, grad, mean, square, rate, settings, count):
    """AdamW's update number `count` (Loshchilov and Hutter, 2019), in one pass over memory.

    `settings` are weight decay, beta1, beta2 and eps in double precision.
    """
    weight_decay, beta1, beta2, eps = settings
    # The correction for moments that start at 0 divides sqrt(square). To divide once per weight, the step size and eps
    # are multiplied by it instead.
    correction = np.sqrt(1 - beta2**count)
    step_size = np.float32(rate / (1 - beta1**count) * correction)
    scaled_eps = np.float32(eps * correction)
    decay = np.float32(rate * weight_decay)
    old_mean, new_mean = np.float32(beta1), np.float32(1 - beta1)  # shares of the old mean and of the gradient
    old_square, new_square = np.float32(beta2), np.float32(1 - beta2)
    for i in range(len(weights)):
        mean[i] = old_mean * mean[i] + new_mean * grad[i]
        square[i] = old_square * square[i] + new_square * (grad[i] * grad[i])
        # Multiplied by 1 - decay, weights would always be rounded in the same direction.
        weights[i] -= decay * weights[i] + step_size * mean[i] / (np.sqrt(square[i]) + scaled_eps)


# For traces, whose `usage` has all rows of the tables.


@fast
def spread(used, tokens, usage, source, target, C):
    """Writes how much of each of C rows is used, usage[:, target : target + C].

    Every position uses an amount, in used[:, source : source + T], of the row of its token and of its sequence row.
    """
    B, T = tokens.shape
    for b in range(B):
        rows, amounts, sequence = usage[b, target:], used[b, source:], tokens[b]
        at_positions = rows[C - T :]
        for c in range(C):
            rows[c] = 0
        for k in range(T):
            rows[sequence[k]] += amounts[k]
            at_positions[k] = amounts[k]


@fast
def after_layer_1(embeddings, copied, tokens, attention, after, written):
    """The residual of every position after layer 1, (B T, d); `written`, (T, d), is memory."""
    B, T = tokens.shape
    K, d = len(embeddings) - T, embeddings.shape[1]
    for b in range(B):
        for q in range(T):
            token, out, pattern = tokens[b, q], after[b * T + q], attention[b * T + q]
            for i in range(d):
                written[q, i] = copied[token, i] + copied[K + q, i]
                out[i] = embeddings[token, i] + embeddings[K + q, i]
            for k in range(q + 1):
                for i in range(d):
                    out[i] += pattern[k] * written[k, i]
