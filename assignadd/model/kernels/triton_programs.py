"""The Triton programs that `triton_gpu` launches; shapes and memory order are described there."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def product(
    a, b, out, other, rows, columns, depth,
    a_model, a_row, a_k, b_model, b_k, b_column, out_model, out_row, out_column,
    END: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """A tile of a (rows, depth) @ b (depth, columns) of one model, and what follows in the same pass over memory.

    END is `relu`, `add` (plus `other`), `gate` (zero where `other` is not positive) or empty; `other` has the strides
    of `out`.

    Tensor cores multiply bfloat16 numbers. Each factor goes in as the sum of three, which hold a float32; the products
    of small parts that a float32 would lose are left out. An infinite factor gives NaN. Tensor cores cut off digits
    where other units round, so only DEPTH terms are added up there.
    """
    m = tl.program_id(1).to(tl.int64)
    across = tl.cdiv(columns, COLUMNS)
    i = (tl.program_id(0) // across * ROWS + tl.arange(0, ROWS))[:, None]
    j = (tl.program_id(0) % across * COLUMNS + tl.arange(0, COLUMNS))[None, :]
    k = tl.arange(0, DEPTH)
    a += m * a_model + i * a_row + k[None, :] * a_k
    b += m * b_model + k[:, None] * b_k + j * b_column
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for start in range(0, depth, DEPTH):
        x = tl.load(a, mask=(i < rows) & (start + k[None, :] < depth), other=0.0)
        y = tl.load(b, mask=(j < columns) & (start + k[:, None] < depth), other=0.0)
        x0, y0 = x.to(tl.bfloat16), y.to(tl.bfloat16)
        x, y = x - x0.to(tl.float32), y - y0.to(tl.float32)
        x1, y1 = x.to(tl.bfloat16), y.to(tl.bfloat16)
        x2, y2 = (x - x1.to(tl.float32)).to(tl.bfloat16), (y - y1.to(tl.float32)).to(tl.bfloat16)
        small = tl.dot(x0, y2, tl.dot(x1, y1, tl.dot(x2, y0)))
        total += tl.dot(x0, y0, tl.dot(x0, y1, tl.dot(x1, y0, small)))
        a += DEPTH * a_k
        b += DEPTH * b_k
    at = m * out_model + i * out_row + j * out_column
    there = (i < rows) & (j < columns)
    if END == "relu":
        total = tl.where(total < 0, 0.0, total)  # keeps NaN, as torch does, and so does the gate
    elif END == "add":
        total += tl.load(other + at, mask=there, other=0.0)
    elif END == "gate":
        total = tl.where(tl.load(other + at, mask=there, other=0.0) <= 0, 0.0, total)
    tl.store(out + at, total, mask=there)


@triton.jit
def patterns(
    scores, tokens, attention, B, T: tl.constexpr, K: tl.constexpr, TP: tl.constexpr, BB: tl.constexpr, QB: tl.constexpr
):
    """Softmax over the keys k <= q of the four entries of the score table (C, C) that belong to (q, k); zero above."""
    C: tl.constexpr = K + T
    m = tl.program_id(2).to(tl.int64)
    b = tl.program_id(0) * BB + tl.arange(0, BB)
    k = tl.arange(0, TP)[:, None]
    inside = b[None, :] < B
    own = tokens + m * T * B
    key = tl.load(own + k * B + b[None, :], mask=(k < T) & inside, other=0)
    table = scores + m * C * C
    first = tl.program_id(1) * QB
    for q in range(first, tl.minimum(first + QB, T)):
        query = tl.load(own + q * B + b, mask=b < B, other=0)[None, :]
        causal = (k <= q) & inside
        score = tl.load(table + query * C + key, mask=causal, other=0.0)
        score += tl.load(table + query * C + K + k, mask=causal, other=0.0)
        score += tl.load(table + (K + q) * C + key, mask=causal, other=0.0)
        score += tl.load(table + (K + q) * C + K + k, mask=causal, other=0.0)
        score = tl.where(k <= q, score, -float("inf"))
        weight = tl.exp(score - tl.max(score, 0)[None, :])
        weight = weight / tl.sum(weight, 0)[None, :]
        tl.store(attention + ((m * T + q) * T + k) * B + b[None, :], weight, mask=(k < T) & inside)


@triton.jit
def spread(
    amount,
    tokens,
    rows,
    B,
    part_stride,
    amount_stride,
    rows_stride,
    T: tl.constexpr,
    K: tl.constexpr,
    CB: tl.constexpr,
    BB: tl.constexpr,
):
    """Rows (parts, C, B): adds each position's amount (T, B) to the row of its token and to the row of the position."""
    C: tl.constexpr = K + T
    m = tl.program_id(2).to(tl.int64)
    blocks: tl.constexpr = (C + CB - 1) // CB
    part = tl.program_id(1) // blocks
    amount += part.to(tl.int64) * part_stride
    rows += part * C * B
    b = tl.program_id(0) * BB + tl.arange(0, BB)
    c = (tl.program_id(1) % blocks * CB + tl.arange(0, CB))[:, None]
    total = tl.zeros((CB, BB), dtype=tl.float32)
    for t in tl.static_range(T):
        token = tl.load(tokens + (m * T + t) * B + b, mask=b < B, other=0)[None, :]
        a = tl.load(amount + m * amount_stride + t * B + b, mask=b < B, other=0.0)[None, :]
        total += tl.where((c == token) | (c == K + t), a, 0.0)
    tl.store(rows + m * rows_stride + c * B + b[None, :], total, mask=(c < C) & (b[None, :] < B))


@triton.jit
def attend(
    mixed, tokens, attention, copied_scores, attention_2, passed_on, B,
    T: tl.constexpr, K: tl.constexpr, TP: tl.constexpr, BB: tl.constexpr,
):  # fmt: skip
    """Layer 2 at `=`: its pattern from the scores of all rows (2C, B), and what each position passes on of layer 1."""
    C: tl.constexpr = K + T
    m = tl.program_id(1).to(tl.int64)
    b = tl.program_id(0) * BB + tl.arange(0, BB)[None, :]
    t = tl.arange(0, TP)[:, None]
    there = (t < T) & (b < B)
    token = tl.load(tokens + (m * T + t) * B + b, mask=there, other=0)
    rows = mixed + m * 2 * C * B + b
    own = tl.load(rows + token * B, mask=there, other=0.0) + tl.load(rows + (K + t) * B, mask=there, other=0.0)
    copied = tl.load(rows + (C + token) * B, mask=there, other=0.0) + tl.load(
        rows + (C + K + t) * B, mask=there, other=0.0
    )
    q, k = tl.arange(0, TP)[:, None, None], tl.arange(0, TP)[None, :, None]
    b3 = tl.program_id(0) * BB + tl.arange(0, BB)[None, None, :]
    a = tl.load(attention + ((m * T + q) * T + k) * B + b3, mask=(q < T) & (k < T) & (b3 < B), other=0.0)
    score = tl.where(t < T, own + tl.sum(a * copied[None, :, :], 1), -float("inf"))
    weight = tl.exp(score - tl.max(score, 0)[None, :])
    weight = weight / tl.sum(weight, 0)[None, :]
    at = (m * T + t) * B + b
    tl.store(copied_scores + at, copied, mask=there)
    tl.store(attention_2 + at, weight, mask=there)
    tl.store(passed_on + at, tl.sum(a * weight[:, None, :], 0), mask=there)


@triton.jit
def attend_backward(
    g_usage, tokens, attention, attention_2, g_scores, g_passed_on, g_copied, B,
    T: tl.constexpr, K: tl.constexpr, TP: tl.constexpr, BB: tl.constexpr,
):  # fmt: skip
    """From the gradient of the usage (3C + 1, B) to those of layer 2's scores, and of what each
    position passes on."""
    C: tl.constexpr = K + T
    m = tl.program_id(1).to(tl.int64)
    b = tl.program_id(0) * BB + tl.arange(0, BB)[None, :]
    t = tl.arange(0, TP)[:, None]
    there = (t < T) & (b < B)
    token = tl.load(tokens + (m * T + t) * B + b, mask=there, other=0)
    rows = g_usage + (m * (3 * C + 1) + C + 1) * B + b
    own = tl.load(rows + token * B, mask=there, other=0.0) + tl.load(rows + (K + t) * B, mask=there, other=0.0)
    copied = tl.load(rows + (C + token) * B, mask=there, other=0.0) + tl.load(
        rows + (C + K + t) * B, mask=there, other=0.0
    )
    q, k = tl.arange(0, TP)[:, None, None], tl.arange(0, TP)[None, :, None]
    b3 = tl.program_id(0) * BB + tl.arange(0, BB)[None, None, :]
    a = tl.load(attention + ((m * T + q) * T + k) * B + b3, mask=(q < T) & (k < T) & (b3 < B), other=0.0)
    at = (m * T + t) * B + b
    weight = tl.load(attention_2 + at, mask=there, other=0.0)
    g = own + tl.sum(a * copied[None, :, :], 1)
    g = weight * (g - tl.sum(weight * g, 0)[None, :])
    tl.store(g_scores + at, g, mask=there)
    tl.store(g_passed_on + at, copied, mask=there)
    tl.store(g_copied + at, tl.sum(a * g[:, None, :], 0), mask=there)


@triton.jit
def pairs_backward(
    g_used, tokens, attention, attention_2, copied_scores, g_scores, g_passed_on, g_pairs, B,
    T: tl.constexpr, K: tl.constexpr, TP: tl.constexpr, BB: tl.constexpr, QB: tl.constexpr,
):  # fmt: skip
    """Gradient of every causal pair's score in layer 1; g_used is the gradient of the usage (3C + 1, B).

    Its result is (B, query, key) in memory, as `table_backward` reads it.
    """
    C: tl.constexpr = K + T
    m = tl.program_id(2).to(tl.int64)
    b1 = tl.program_id(0) * BB + tl.arange(0, BB)
    b = b1[None, :]
    k = tl.arange(0, TP)[:, None]
    there = (k < T) & (b < B)
    token = tl.load(tokens + (m * T + k) * B + b, mask=there, other=0)
    rows = g_used + m * (3 * C + 1) * B + b
    from_equals = tl.load(rows + token * B, mask=there, other=0.0) + tl.load(rows + (K + k) * B, mask=there, other=0.0)
    at = (m * T + k) * B + b
    passed_on, copied = (
        tl.load(g_passed_on + at, mask=there, other=0.0),
        tl.load(copied_scores + at, mask=there, other=0.0),
    )
    first = tl.program_id(1) * QB
    for q in range(first, tl.minimum(first + QB, T)):
        of_query = (m * T + q) * B + b1
        weight = tl.load(attention_2 + of_query, mask=b1 < B, other=0.0)[None, :]
        g_key = tl.load(g_scores + of_query, mask=b1 < B, other=0.0)[None, :]
        a = tl.load(attention + ((m * T + q) * T + k) * B + b, mask=there, other=0.0)
        g = weight * passed_on + g_key * copied + tl.where(q == T - 1, from_equals, 0.0)
        tl.store(g_pairs + ((m * B + b) * T + q) * T + k, a * (g - tl.sum(a * g, 0)[None, :]), mask=there)


@triton.jit
def table_backward(
    g_pairs, tokens, g_table, B, n_sequences,
    T: tl.constexpr, K: tl.constexpr, TP: tl.constexpr, CR: tl.constexpr, CC: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """Gradient of layer 1's score table (C, C) from one slice of the sequences: sum of onehot(q) g(q, k) onehot(k).

    Both factors of ones and zeros are exact in bfloat16; the other factor goes in as the sum of PARTS bfloat16 numbers,
    three of which hold a float32.
    """
    C: tl.constexpr = K + T
    m = tl.program_id(2).to(tl.int64)
    piece = tl.program_id(0)
    columns: tl.constexpr = (C + CC - 1) // CC
    row = tl.program_id(1) // columns * CR + tl.arange(0, CR)
    column = tl.program_id(1) % columns * CC + tl.arange(0, CC)
    t = tl.arange(0, TP)
    total = tl.zeros((CR, CC), dtype=tl.float32)
    for i in range(n_sequences):
        b = piece * n_sequences + i
        there = t < T * (b < B)
        token = tl.load(tokens + (m * T + t) * B + b, mask=there, other=-1)
        at = ((m * B + b) * T + t[:, None]) * T + t[None, :]
        g = tl.load(g_pairs + at, mask=there[:, None] & there[None, :], other=0.0)  # (query, key)
        keys = ((column[None, :] == token[:, None]) | (column[None, :] == K + t[:, None])).to(tl.bfloat16)
        queries = ((row[:, None] == token[None, :]) | (row[:, None] == K + t[None, :])).to(tl.bfloat16)
        of_keys = tl.zeros((TP, CC), dtype=tl.float32)
        for _ in tl.static_range(PARTS):
            part = g.to(tl.bfloat16)
            of_keys = tl.dot(part, keys, of_keys)
            g -= part.to(tl.float32)
        for _ in tl.static_range(PARTS):
            part = of_keys.to(tl.bfloat16)
            total = tl.dot(queries, part, total)
            of_keys -= part.to(tl.float32)
    out = ((m * tl.num_programs(0) + piece) * C + row[:, None]) * C + column[None, :]
    tl.store(g_table + out, total, mask=(row[:, None] < C) & (column[None, :] < C))


@triton.jit
def cross_entropy(logits, labels, losses, B, N: tl.constexpr, NP: tl.constexpr, BB: tl.constexpr):
    """Loss of every sequence, and in place of its logits the gradient of their mean."""
    m = tl.program_id(1).to(tl.int64)
    b = tl.program_id(0) * BB + tl.arange(0, BB)
    n = tl.arange(0, NP)[None, :]
    there = (b[:, None] < B) & (n < N)
    at = logits + (m * B + b[:, None]) * N + n
    x = tl.load(at, mask=there, other=-float("inf"))
    x -= tl.where(b < B, tl.max(x, 1), 0.0)[:, None]
    label = tl.load(labels + m * B + b, mask=b < B, other=0)[:, None]
    e = tl.exp(x)
    total = tl.sum(e, 1)
    of_label = tl.sum(tl.where(n == label, x, 0.0), 1)
    tl.store(losses + m * B + b, tl.log(total) - of_label, mask=b < B)
    tl.store(at, (e / total[:, None] - tl.where(n == label, 1.0, 0.0)) / B, mask=there)


@triton.jit
def adamw(
    flat, grad, mean, square, rate, decay, averaging, betas, losses, diverged_at, count, P, BLOCK: tl.constexpr,
):  # fmt: skip
    """Update number `count` of one model's weights; `Moments` describes the numbers that every model has."""
    m = tl.program_id(1).to(tl.int64)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    trained, finite = tl.load(diverged_at + m) < 0, tl.abs(tl.load(losses + m)) < float("inf")
    if trained & (finite == 0) & (tl.program_id(0) == 0):
        tl.store(diverged_at + m, tl.load(count) - 1)  # programs that read it before and after do nothing either way
    if trained & finite:
        there, at = i < P, m * P + i
        g = tl.load(grad + at, mask=there, other=0.0)
        first = tl.load(mean + at, mask=there, other=0.0)
        second = tl.load(square + at, mask=there, other=0.0)
        w = tl.load(flat + at, mask=there, other=0.0)
        own = averaging + 4 * m
        first += tl.load(own) * (g - first)
        second = second * tl.load(own + 1) + tl.load(own + 2) * g * g
        steps = tl.load(count).to(tl.float64)  # 1 - 0.999 loses five digits in float32
        size = (tl.load(rate + m) / (1 - tl.exp(steps * tl.log(tl.load(betas + 2 * m))))).to(tl.float32)
        correction = tl.sqrt(1 - tl.exp(steps * tl.log(tl.load(betas + 2 * m + 1)))).to(tl.float32)
        update = first / (tl.sqrt(second) / correction + tl.load(own + 3))
        w = w * (1 - tl.load(decay + m)) - update * size
        tl.store(mean + at, first, mask=there)
        tl.store(square + at, second, mask=there)
        tl.store(flat + at, w, mask=there)
