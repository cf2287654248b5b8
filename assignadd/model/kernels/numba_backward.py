"""The backward pass of what `numba_functions` computes, but for the loss, which has its gradient there."""

from __future__ import annotations

import numpy as np

from assignadd.model.kernels.calls import compiled_call, floats_at, integers_at
from assignadd.model.kernels.numba_functions import compiled


@compiled
def layer_2_backward(g_used, tokens, attention_1, attention_2, g_scores, g_passed_on, g_both, C):
    """Gradients of each position's score and of what it passes on, (B, T), and of the scores of all rows, g_both."""
    B, T = tokens.shape
    K = C - T
    for b in range(B):
        own, g_direct, pattern = tokens[b], g_used[b], attention_2[b]
        g_score, g_passed, out = g_scores[b], g_passed_on[b], g_both[b]
        for k in range(T):
            g_passed[k] = g_used[b, T + k]
        mean = np.float32(0)
        for q in range(T):
            total = g_direct[q]
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
def layer_1_backward(g_used, tokens, attention_1, attention_2, copied, g_scores, g_passed_on, g_table):
    """Adds the gradient of every sequence to that of layer 1's score table, (C, C)."""
    B, T = tokens.shape
    C = len(g_table)
    K = C - T
    g_row, g_by_key = np.empty(T, g_table.dtype), np.zeros((T, T), g_table.dtype)  # 0 for keys after the query
    # Rows of query positions by key, token or position: whole rows are added to, those of all positions at once.
    g_positions = np.zeros((C, T), g_table.dtype)
    g_keys, at_positions = g_by_key.reshape(T * T), g_positions[K:].reshape(T * T)
    for b in range(B):
        own = tokens[b]
        for q in range(T):
            row, weight, g_score = attention_1[b, q], attention_2[b, q], g_scores[b, q]
            for k in range(T):
                g_row[k] = weight * g_passed_on[b, k] + g_score * copied[b, k]
            if q == T - 1:
                for k in range(T):
                    g_row[k] += g_used[b, 2 * T + k]
            mean = np.float32(0)
            for k in range(T):
                mean += row[k] * g_row[k]
            of_token, token_at = g_table[own[q]], g_table[own[q], K:]
            for k in range(T):
                g_row[k] = row[k] * (g_row[k] - mean)
                token_at[k] += g_row[k]
            for k in range(q + 1):
                of_token[own[k]] += g_row[k]
                g_by_key[k, q] = g_row[k]
        for i in range(T * T):
            at_positions[i] += g_keys[i]
        for k in range(T):
            of_key = g_positions[own[k]]
            for q in range(T):
                of_key[q] += g_by_key[k, q]
    for q in range(T):
        of_position = g_table[K + q]
        for key in range(C):
            of_position[key] += g_positions[key, q]


@compiled_call
def layer_2_backward_call(n):
    B, T, C, width = n[7], n[8], n[9], n[10]
    g_used, tokens, attention_1 = floats_at(n[0], (B, 3 * T)), integers_at(n[1], (B, T)), floats_at(n[2], (B, T, T))
    attention_2, g_scores, g_passed_on = floats_at(n[3], (B, T)), floats_at(n[4], (B, T)), floats_at(n[5], (B, T))
    g_both = floats_at(n[6], (B, width))
    layer_2_backward(g_used, tokens, attention_1, attention_2, g_scores, g_passed_on, g_both, C)


@compiled_call
def layer_1_backward_call(n):
    B, T, C = n[8], n[9], n[10]
    g_used, tokens, attention_1 = floats_at(n[0], (B, 3 * T)), integers_at(n[1], (B, T)), floats_at(n[2], (B, T, T))
    attention_2, copied = floats_at(n[3], (B, T)), floats_at(n[4], (B, T))
    g_scores, g_passed_on, g_table = floats_at(n[5], (B, T)), floats_at(n[6], (B, T)), floats_at(n[7], (C, C))
    layer_1_backward(g_used, tokens, attention_1, attention_2, copied, g_scores, g_passed_on, g_table)
