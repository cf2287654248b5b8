"""What is between the matrix products, compiled for a CPU: attention one sequence after the other, in the cache.

Every function takes the arrays of one model. A sequence needs a few hundred numbers, so nothing is read from memory
twice. Sums are taken in a fixed order: a step repeats bit for bit. Slices from K on are faster than indices K + k,
which the compiler takes for possibly negative, and loops compile in less time than array expressions such as
`x[:] = y.T`, for which Numba compiles its error messages too. Numba keeps the compiled code on disk. At the end are
the same functions as `calls` needs them: their numbers are the addresses of the arrays, followed by sizes.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from assignadd.model.kernels.calls import compiled_call, floats_at, integers_at

# The compiler may reorder sums and fuse operations, but must keep NaN and infinity: they show that a model diverged.
compiled = njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz", "arcp"})
# A sum of exponentials, or a probability, above this has lost nothing to float32's smallest numbers.
SAFE_SUM = np.float32(1e-30)


@compiled
def below_largest(scores, out, T):
    """Each row less its largest entry, for tokens and the T positions by themselves: no pattern changes with it."""
    C = len(scores)
    for r in range(C):
        row, difference = scores[r], out[r]
        for first, last in ((0, C - T), (C - T, C)):
            largest = row[first]
            for c in range(first, last):
                largest = max(largest, row[c])
            for c in range(first, last):
                difference[c] = row[c] - largest


@compiled
def layer_1(scores, factors, tokens, attention, usage):
    """Attention of layer 1, (B, query, key); usage[:, : C + 1]: the amount of each row that `=` gets from it, and 1."""
    B, T = tokens.shape
    C = len(scores)
    K = C - T
    for b in range(B):
        own, used, safe = tokens[b], usage[b], True
        for q in range(T):
            of_token, of_position, row = factors[own[q]], factors[K + q], attention[b, q]
            token_at, position_at = of_token[K:], of_position[K:]
            for k in range(T):  # keys after the query keep 0
                row[k] = 0
            total = np.float32(0)
            for k in range(q + 1):
                key = own[k]
                row[k] = of_token[key] * of_position[key] * (token_at[k] * position_at[k])
                total += row[k]
            safe &= total > SAFE_SUM
            share = np.float32(1) / total
            for k in range(q + 1):
                row[k] *= share
        if not safe:  # a row may be NaN, as 1 / total is infinite
            _softmax_of_sums(scores, tokens, attention, b)
        for c in range(C):
            used[c] = 0
        used[C] = 1
        from_equals = attention[b, T - 1]
        for k in range(T):
            used[own[k]] += from_equals[k]
            used[K + k] = from_equals[k]


@compiled
def _softmax_of_sums(scores, tokens, attention, b):
    """The attention of one sequence score by score, safe for any weights."""
    K = len(scores) - tokens.shape[1]
    for q in range(tokens.shape[1]):
        of_token, of_position, row = scores[tokens[b, q]], scores[K + q], attention[b, q, : q + 1]
        for k in range(q + 1):
            key = tokens[b, k]
            row[k] = of_token[key] + of_position[key] + of_token[K + k] + of_position[K + k]
        _softmax(row)


@compiled
def _softmax(row):
    most = row[0]
    for k in range(len(row)):
        most = max(most, row[k])
    total = np.float32(0)
    for k in range(len(row)):
        row[k] = np.exp(row[k] - most)
        total += row[k]
    share = np.float32(1) / total
    for k in range(len(row)):
        row[k] *= share


@compiled
def layer_2(scores, tokens, attention_1, attention_2, copied, usage):
    """Attention of `=` in layer 2, the scores of copied rows, (B, T), and the amount of each row, usage[:, C + 1 :]."""
    B, T = tokens.shape
    C = scores.shape[1] // 2
    K = C - T
    for b in range(B):
        own, score, pattern, of_copies, used = tokens[b], scores[b], attention_2[b], copied[b], usage[b, C + 1 :]
        score_at, score_of_copy, score_of_copy_at = score[K:], score[C:], score[C + K :]
        for k in range(T):
            of_copies[k] = score_of_copy[own[k]] + score_of_copy_at[k]
        for q in range(T):
            total = score[own[q]] + score_at[q]
            for k in range(T):
                total += attention_1[b, q, k] * of_copies[k]
            pattern[q] = total
        _softmax(pattern)
        for c in range(len(used)):
            used[c] = 0
        passed_on = used[C + K :]
        for q in range(T):
            for k in range(T):
                passed_on[k] += pattern[q] * attention_1[b, q, k]
        for k in range(T):
            used[own[k]] += pattern[k]
            used[K + k] = pattern[k]
            used[C + own[k]] += passed_on[k]


@compiled
def after_layer_1(embeddings, copied, tokens, attention, after):
    """The residual of every position after layer 1, (B, T, d)."""
    B, T = tokens.shape
    K, d = len(embeddings) - T, embeddings.shape[1]
    written = np.empty((T, d), embeddings.dtype)
    for b in range(B):
        for q in range(T):
            token = tokens[b, q]
            for i in range(d):
                written[q, i] = copied[token, i] + copied[K + q, i]
                after[b, q, i] = embeddings[token, i] + embeddings[K + q, i]
            for k in range(q + 1):
                weight = attention[b, q, k]
                for i in range(d):
                    after[b, q, i] += weight * written[k, i]


@compiled
def layer_2_backward(g_usage, tokens, attention_1, attention_2, g_scores, g_passed_on, g_both):
    """Gradients of each position's score and of what it passes on, (B, T), and of the scores of all rows, (B, 2C)."""
    B, T = tokens.shape
    C = g_both.shape[1] // 2
    K = C - T
    for b in range(B):
        own, g, pattern = tokens[b], g_usage[b, C + 1 :], attention_2[b]
        g_score, g_passed, out = g_scores[b], g_passed_on[b], g_both[b]
        for k in range(T):
            g_passed[k] = g[C + own[k]] + g[C + K + k]
        mean = np.float32(0)
        for q in range(T):
            total = g[own[q]] + g[K + q]
            for k in range(T):
                total += attention_1[b, q, k] * g_passed[k]
            g_score[q] = total
            mean += total * pattern[q]
        for c in range(len(out)):
            out[c] = 0
        g_copied = out[C + K :]
        for q in range(T):
            g_score[q] = pattern[q] * (g_score[q] - mean)
            for k in range(T):
                g_copied[k] += g_score[q] * attention_1[b, q, k]
        for k in range(T):
            out[own[k]] += g_score[k]
            out[K + k] = g_score[k]
            out[C + own[k]] += g_copied[k]


@compiled
def layer_1_backward(g_usage, tokens, attention_1, attention_2, copied, g_scores, g_passed_on, g_table):
    """Adds the gradient of every sequence to that of layer 1's score table, (C, C)."""
    B, T = tokens.shape
    C = len(g_table)
    K = C - T
    g_row, g_by_key = np.empty(T, g_table.dtype), np.zeros((T, T), g_table.dtype)  # 0 for keys after the query
    g_positions = np.zeros((K, T), g_table.dtype)  # rows of query positions by key token: whole rows are added to
    for b in range(B):
        own = tokens[b]
        for q in range(T):
            row, weight, g_score = attention_1[b, q], attention_2[b, q], g_scores[b, q]
            for k in range(T):
                g_row[k] = weight * g_passed_on[b, k] + g_score * copied[b, k]
            if q == T - 1:
                for k in range(T):
                    g_row[k] += g_usage[b, own[k]] + g_usage[b, K + k]
            mean = np.float32(0)
            for k in range(T):
                mean += row[k] * g_row[k]
            of_token, token_at, position_at = g_table[own[q]], g_table[own[q], K:], g_table[K + q, K:]
            for k in range(T):
                g_row[k] = row[k] * (g_row[k] - mean)
                token_at[k] += g_row[k]
                position_at[k] += g_row[k]
            for k in range(q + 1):
                of_token[own[k]] += g_row[k]
                g_by_key[k, q] = g_row[k]
        for k in range(T):
            of_key = g_positions[own[k]]
            for q in range(T):
                of_key[q] += g_by_key[k, q]
    for q in range(T):
        of_position = g_table[K + q]
        for token in range(K):
            of_position[token] += g_positions[token, q]


@compiled
def cross_entropy(labels, logits, losses, grad):
    """The loss of every sequence, (B,), and the gradient of their mean, (B, N); `grad` holds probabilities on entry."""
    B, N = logits.shape
    for b in range(B):
        label = labels[b, 0]
        if grad[b, label] > SAFE_SUM:
            losses[b] = -np.log(grad[b, label])
        else:  # beyond what a probability can say in float32
            most, total = logits[b, label], np.float32(0)
            for n in range(N):
                most = max(most, logits[b, n])
            for n in range(N):
                total += np.exp(logits[b, n] - most)
            losses[b] = np.log(total) + most - logits[b, label]
        grad[b, label] -= np.float32(1)
        for n in range(N):
            grad[b, n] /= np.float32(B)


@compiled_call
def below_largest_call(n):
    below_largest(floats_at(n[0], (n[2], n[2])), floats_at(n[1], (n[2], n[2])), n[3])


@compiled_call
def layer_1_call(n):
    B, T, C, width = n[5], n[6], n[7], n[8]
    scores, factors, tokens = floats_at(n[0], (C, C)), floats_at(n[1], (C, C)), integers_at(n[2], (B, T))
    layer_1(scores, factors, tokens, floats_at(n[3], (B, T, T)), floats_at(n[4], (B, width)))


@compiled_call
def layer_2_call(n):
    B, T, C, width = n[6], n[7], n[8], n[9]
    scores, tokens, attention_1 = floats_at(n[0], (B, 2 * C)), integers_at(n[1], (B, T)), floats_at(n[2], (B, T, T))
    layer_2(scores, tokens, attention_1, floats_at(n[3], (B, T)), floats_at(n[4], (B, T)), floats_at(n[5], (B, width)))


@compiled_call
def layer_2_backward_call(n):
    B, T, C, width = n[7], n[8], n[9], n[10]
    g_usage, tokens, attention_1 = floats_at(n[0], (B, width)), integers_at(n[1], (B, T)), floats_at(n[2], (B, T, T))
    attention_2, g_scores, g_passed_on = floats_at(n[3], (B, T)), floats_at(n[4], (B, T)), floats_at(n[5], (B, T))
    layer_2_backward(g_usage, tokens, attention_1, attention_2, g_scores, g_passed_on, floats_at(n[6], (B, 2 * C)))


@compiled_call
def layer_1_backward_call(n):
    B, T, C, width = n[8], n[9], n[10], n[11]
    g_usage, tokens, attention_1 = floats_at(n[0], (B, width)), integers_at(n[1], (B, T)), floats_at(n[2], (B, T, T))
    attention_2, copied = floats_at(n[3], (B, T)), floats_at(n[4], (B, T))
    g_scores, g_passed_on, g_table = floats_at(n[5], (B, T)), floats_at(n[6], (B, T)), floats_at(n[7], (C, C))
    for r in range(C):
        for c in range(C):
            g_table[r, c] = 0
    layer_1_backward(g_usage, tokens, attention_1, attention_2, copied, g_scores, g_passed_on, g_table)
