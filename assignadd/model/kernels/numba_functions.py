"""What is between the matrix products of a forward pass, compiled for a CPU: attention one sequence after the other.

Every function takes the arrays of one model. A sequence needs a few hundred numbers, so nothing is read from memory
twice. Sums are taken in a fixed order: a step repeats bit for bit. Slices from K on are faster than indices K + k,
which the compiler takes for possibly negative, and loops compile in less time than array expressions such as
`x[:] = y.T`, for which Numba compiles its error messages too. Numba keeps the compiled code on disk, and compiles a
function anew where its own file has changed: functions that call each other are in one file. At the end are the same
functions as `calls` needs them: their numbers are the addresses of the arrays, followed by sizes.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from assignadd.model.kernels.calls import compiled_call, floats_at, integers_at

# The compiler may reorder sums, whatever their brackets, and fuse operations. It must keep NaN and infinity, which show
# that a model diverged.
compiled = njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz", "arcp"})
# A sum of exponentials above this has lost nothing to float32's smallest numbers.
SAFE_SUM = np.float32(1e-30)
# For `_exp`: log2(e), log(2) in two parts, the first of which has so few digits that k times it is exact, the series,
# and the exponent below which float32 loses digits.
LOG2_E, LOG_2 = np.float32(1.44269504), (np.float32(0.693359375), np.float32(-2.12194440e-4))
EXP_SERIES = tuple(map(np.float32, (1.98756915e-4, 1.39819995e-3, 8.33345191e-3, 4.16657959e-2, 0.166666655, 0.5)))
LEAST = np.float32(-87)
# Sequences whose attention is still in the processor's cache when it is read again.
FEW = 32


@njit(cache=True, error_model="numpy", fastmath={"contract"})
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


@compiled
def _largest(row):
    """The largest number of a row; NaN may be missed. Of four running maxima, as each waits for its last comparison."""
    n, a, b, c, d = len(row), row[0], row[0], row[0], row[0]
    for i in range(0, n - 3, 4):
        some = row[i:]
        a, b, c, d = max(a, some[0]), max(b, some[1]), max(c, some[2]), max(d, some[3])
    for i in range(n - n % 4, n):
        a = max(a, row[i])
    return max(max(a, b), max(c, d))


@compiled
def factors_of(scores, out, T):
    """exp of each row less its largest entry, for tokens and the T positions by themselves: patterns stay the same."""
    C = len(scores)
    for r in range(C):
        for first, last in ((0, C - T), (C - T, C)):
            row, factors = scores[r, first:last], out[r, first:last]
            largest = _largest(row)
            for c in range(len(row)):
                factors[c] = _exp(row[c] - largest)


@compiled
def layer_1(scores, factors, tokens, attention):
    """Attention of layer 1, (B, query, key). For keys after the query it is not written, and has to be 0 before."""
    B, T = tokens.shape
    K = len(scores) - T
    for b in range(B):
        own, safe = tokens[b], True
        for q in range(T):
            of_token, of_position, row = factors[own[q]], factors[K + q], attention[b, q]
            token_at, position_at = of_token[K:], of_position[K:]
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
    most, total = _largest(row), np.float32(0)
    for k in range(len(row)):
        row[k] = _exp(row[k] - most)
    for k in range(len(row)):
        total += row[k]
    share = np.float32(1) / total
    for k in range(len(row)):
        row[k] *= share


@compiled
def layer_2(scores, tokens, attention_1, attention_2, copied, used, C):
    """Attention of `=` in layer 2, the scores of copied rows, (B, T); used[:, : 2T]: that, and what is passed on."""
    B, T = tokens.shape
    K = C - T
    for b in range(B):
        own, score, pattern, of_copies = tokens[b], scores[b], attention_2[b], copied[b]
        direct, passed_on = used[b], used[b, T:]
        score_at, score_of_copy, score_of_copy_at = score[K:], score[C:], score[C + K :]
        for k in range(T):
            of_copies[k] = score_of_copy[own[k]] + score_of_copy_at[k]
        for q in range(T):
            total = score[own[q]] + score_at[q]
            for k in range(T):
                total += attention_1[b, q, k] * of_copies[k]
            pattern[q] = total
        _softmax(pattern)
        for k in range(T):
            direct[k] = pattern[k]
            passed_on[k] = 0
        for q in range(T):
            for k in range(T):
                passed_on[k] += pattern[q] * attention_1[b, q, k]


@compiled
def layer_1_usage(scores, factors, tokens, attention, usage):
    """What `layer_1` writes, and usage[:, : C + 1]: the amount of each row that `=` gets from it, and 1."""
    (B, T), C = tokens.shape, len(scores)
    for first in range(0, B, FEW):
        some = slice(first, first + FEW)
        layer_1(scores, factors, tokens[some], attention[some])
        _spread(attention[some, T - 1], tokens[some], usage[some], 0, C)
    for b in range(B):
        usage[b, C] = 1


@compiled
def layer_2_usage(scores, tokens, attention_1, attention_2, copied, usage):
    """What `layer_2` writes, but for the amount of each row, usage[:, C + 1 :], in place of `used`."""
    (B, T), C = tokens.shape, scores.shape[1] // 2
    used = np.empty((FEW, 2 * T), usage.dtype)
    for first in range(0, B, FEW):
        some = slice(first, first + FEW)
        layer_2(scores[some], tokens[some], attention_1[some], attention_2[some], copied[some], used, C)
        _spread(used, tokens[some], usage[some], C + 1, C)
        _spread(used[:, T:], tokens[some], usage[some], 2 * C + 1, C)


@compiled
def _spread(amounts, tokens, usage, first, C):
    """How much of each of C rows is used if every position uses an amount of its token's row and of its own."""
    B, T = tokens.shape
    for b in range(B):
        rows, own = usage[b, first:], amounts[b]
        at_positions = rows[C - T :]
        for c in range(C):
            rows[c] = 0
        for k in range(T):
            rows[tokens[b, k]] += own[k]
            at_positions[k] = own[k]


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
def cross_entropy(logits, labels, losses, grad, n_all):
    """The loss of every sequence, (B,), and the gradient of the mean, (B, N), where these are some of `n_all`."""
    N, part = logits.shape[1], np.float32(1) / np.float32(n_all)
    for b in range(len(logits)):
        row, out, label = logits[b], grad[b], labels[b]
        most, total = _largest(row), 0.0  # in double precision: 1 + 1e-8 is the total where an answer is certain
        for n in range(N):
            out[n] = _exp(row[n] - most)
        for n in range(N):
            total += out[n]
        losses[b] = np.log(total) + (np.float64(most) - row[label])
        share = np.float32(part / total)
        for n in range(N):
            out[n] *= share
        out[label] -= part


@compiled
def cross_entropy_in_double(logits, labels, losses, grad, n_all):
    """The same with exponentials and gradient in double precision, rounded at the end."""
    N = logits.shape[1]
    exponentials = np.empty(N, np.float64)
    for b in range(len(logits)):
        row, out, label = logits[b], grad[b], labels[b]
        most, total = np.float64(_largest(row)), 0.0
        for n in range(N):
            exponentials[n] = np.exp(row[n] - most)
            total += exponentials[n]
        losses[b] = np.log(total) + (most - row[label])
        for n in range(N):
            out[n] = (exponentials[n] / total - (n == label)) / n_all


@compiled
def answers(logits, out):
    """Where each row has its largest number, the first of several; NaN counts as the largest."""
    for b in range(len(logits)):
        row, at, spoiled = logits[b], 0, False
        for n in range(len(row)):
            spoiled |= row[n] != row[n]  # NaN
        most = _largest(row)
        while row[at] == row[at] if spoiled else row[at] != most:
            at += 1
        out[b] = at


@compiled_call
def answers_call(n):
    answers(floats_at(n[0], (n[2], n[3])), integers_at(n[1], n[2]))


@compiled_call
def factors_call(n):
    factors_of(floats_at(n[0], (n[2], n[2])), floats_at(n[1], (n[2], n[2])), n[3])


@compiled_call
def layer_1_call(n):
    B, T, C = n[5], n[6], n[7]
    scores, factors, tokens = floats_at(n[0], (C, C)), floats_at(n[1], (C, C)), integers_at(n[2], (B, T))
    attention, used = floats_at(n[3], (B, T, T)), floats_at(n[4], (B, 3 * T + 1))
    layer_1(scores, factors, tokens, attention)
    for b in range(B):
        for k in range(T):
            used[b, 2 * T + k] = attention[b, T - 1, k]
        used[b, 3 * T] = 1


@compiled_call
def layer_2_call(n):
    B, T, C, width = n[6], n[7], n[8], n[9]
    scores, tokens, attention_1 = floats_at(n[0], (B, width)), integers_at(n[1], (B, T)), floats_at(n[2], (B, T, T))
    attention_2, copied, used = floats_at(n[3], (B, T)), floats_at(n[4], (B, T)), floats_at(n[5], (B, 3 * T + 1))
    layer_2(scores, tokens, attention_1, attention_2, copied, used, C)


@compiled_call
def cross_entropy_call(n):
    B, N, n_all, in_double = n[4], n[5], n[6], n[7]
    logits, labels, losses = floats_at(n[0], (B, N)), integers_at(n[1], B), floats_at(n[2], B)
    if in_double:
        cross_entropy_in_double(logits, labels, losses, floats_at(n[3], (B, N)), n_all)
    else:
        cross_entropy(logits, labels, losses, floats_at(n[3], (B, N)), n_all)
