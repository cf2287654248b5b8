"""Attention of a stack on a GPU by Triton programs that store no pattern: the backward pass computes it again.

`Attention` is causal attention at every position, `LastAttention` that of `=` alone and the norm before it. Both are
functions that autograd differentiates. A program has a few sequences of one model.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd import Function

from assignadd.model.transformer import NORM_EPS

# Measured on an H200: sequences of a program of `Attention`; warps of one of `LastAttention`; and how many numbers of a
# tile one warp of `Attention` has in registers.
SEQUENCES, LAST_WARPS, NUMBERS_OF_WARP = 1, 2, 1024
FEWEST_ROWS = 16  # that Triton's products take


class Attention(Function):
    """What heads write at every position before W_O: values, weighted by causal attention, (M, B T, H f).

    A row of `projections` has the queries, keys and values of all H heads, (M, rows, H e + H e + H f). With `keys`,
    (M, rows, e), it has queries and values alone, of one head. Queries are divided by sqrt(d_head) already.

    With `tokens`, (M, B, T), there is a row for each pair of a place and one of K tokens, place * K + token; without
    them one for each position. `residual`, (M, rows, f), is added to what the only head writes. It may be `keys`.
    """

    @staticmethod
    def forward(
        ctx: Any, projections: Tensor, keys: Tensor | None, residual: Tensor | None, tokens: Tensor | None,
        sizes: tuple[int, int, int], precision: str,
    ) -> Float[Tensor, "M positions values"]:  # fmt: skip
        """`sizes` are K, T and H; `precision` is that of products, `ieee` or `tf32`."""
        K, T, H = sizes
        M, rows, columns = projections.shape
        B = rows // T if tokens is None else tokens.shape[1]
        e = columns // (3 * H) if keys is None else keys.shape[-1]
        f = columns // H - 2 * e if keys is None else columns - e
        out = projections.new_empty(M, B * T, H * f)
        ctx.save_for_backward(projections, keys, tokens)
        ctx.adds_residual, ctx.adds_keys = residual is not None, residual is not None and residual is keys
        ctx.settings = {
            "B": B, "rows": rows, "K": K, "T": T, "H": H, "E": e, "F": f, "PRECISION": precision,
            "HAS_KEYS": keys is not None, "HAS_TOKENS": tokens is not None,
        }  # fmt: skip
        inputs = [projections if x is None else x for x in (projections, keys, residual, tokens)]  # None is not read
        attend[_grid(M, ctx.settings)](*inputs, out, **_tile(ctx.settings), ADDS_RESIDUAL=ctx.adds_residual)
        return out

    @staticmethod
    def backward(ctx: Any, g_out: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients by `projections`, `keys` and `residual`; by `keys` that of both, if they are one tensor."""
        projections, keys, tokens = ctx.saved_tensors
        settings, g_out = ctx.settings, g_out.contiguous()
        M, positions, values = g_out.shape
        # Where the residual is the keys, the program adds g_out to their gradient. Where it is another tensor, its
        # gradient is g_out or, with tokens, g_out beside the other gradients, added up by token as they are.
        has_residual = ctx.adds_residual and not ctx.adds_keys
        copies = has_residual and tokens is not None
        # Of the gradients by projections, keys and residual; 0 where there is none.
        widths = [projections.shape[-1], settings["E"] * (keys is not None), values * copies]
        if tokens is None:
            grads = [projections.new_empty(M, positions, width) for width in widths]
        else:  # sequences of a place lie together, with all gradients side by side
            by_place = projections.new_empty(M, settings["T"], settings["B"], sum(widths))
            grads = list(by_place.split(widths, -1))
        inputs = [projections if x is None else x for x in (projections, keys, tokens)]
        strides = [grad.stride(-2) for grad in grads]
        adds = {"ADDS_KEYS": ctx.adds_keys, "COPIES_RESIDUAL": copies}
        attend_backward[_grid(M, settings)](*inputs, g_out, *grads, *strides, **_tile(settings), **adds)
        if tokens is not None:
            grads = list(added_by_token(by_place, tokens, settings["K"]).split(widths, -1))
        elif has_residual:
            grads[2] = g_out
        g_keys, g_residual = grads[1] if keys is not None else None, grads[2] if has_residual else None
        return grads[0], g_keys, g_residual, None, None, None


class AtPositions(Function):
    """The row of every position, (M, B T, d), from those of pairs of place and token, as `Attention` has them."""

    @staticmethod
    def forward(ctx: Any, rows: Float[Tensor, "M rows d"], tokens: Int[Tensor, "M B T"], K: int) -> Tensor:
        T = tokens.shape[-1]
        ctx.save_for_backward(tokens)
        ctx.K = K
        index = (torch.arange(T, device=tokens.device) * K + tokens).flatten(1)  # (M, B T)
        return rows.gather(1, index.unsqueeze(-1).expand(-1, -1, rows.shape[-1]))

    @staticmethod
    def backward(ctx: Any, g_out: Tensor) -> tuple[Tensor, None, None]:
        (tokens,) = ctx.saved_tensors
        return added_by_token(g_out.unflatten(1, tokens.shape[1:]).transpose(1, 2), tokens, ctx.K), None, None


def added_by_token(
    g_by_place: Float[Tensor, "M T B columns"], tokens: Int[Tensor, "M B T"], K: int
) -> Float[Tensor, "M rows columns"]:
    """The sums over the sequences that have the same token at a place: a row for each place and token.

    They are products with one-hot rows, which are added up in a fixed order.
    """
    M, B, T = tokens.shape
    is_token = g_by_place.new_empty(M, T, K, B)
    torch.eq(
        tokens.mT.unsqueeze(2), torch.arange(K, dtype=tokens.dtype, device=tokens.device).unsqueeze(1), out=is_token
    )
    return (is_token @ g_by_place).flatten(1, 2)


class LastPosition(Function):
    """The residual stream, (M, B T, d), unchanged, and that of `=`, (M, B, d).

    The gradient of `=` is added in the memory of the gradient of all positions: only `LastAttention` reads these, and
    its gradient is new memory.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, T: int) -> tuple[Tensor, Tensor]:
        ctx.T = T
        return x.view_as(x), x.unflatten(1, (-1, T))[:, :, -1].contiguous()

    @staticmethod
    def backward(ctx: Any, g_x: Tensor, g_last: Tensor) -> tuple[Tensor, None]:
        g_x.unflatten(1, (-1, ctx.T))[:, :, -1] += g_last
        return g_x, None


class LastAttention(Function):
    """The mixture of normalised residuals that each head of `=` attends to, (M, B, H, d).

    `x` is the residual stream, (M, B T, d), and `queries` are the vectors, (M, B, H, d), whose products with normalised
    residuals are the scores. `norm` is that of the settings; its gains and biases are left to the caller.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, queries: Tensor, T: int, norm: str) -> Tensor:
        M, B, H, d = queries.shape
        mixture = torch.empty_like(queries)
        ctx.save_for_backward(x, queries)
        ctx.settings = {
            "T": T, "H": H, "D": d, "NORM": norm, "EPS": NORM_EPS, "T_PADDED": _padded(T), "D_PADDED": _padded(d),
            "num_warps": LAST_WARPS,
        }  # fmt: skip
        mix[B, M](x, queries, mixture, B, **ctx.settings)
        return mixture

    @staticmethod
    def backward(ctx: Any, g_mixture: Tensor) -> tuple[Tensor, Tensor, None, None]:
        x, queries = ctx.saved_tensors
        g_x, g_queries = torch.empty_like(x), torch.empty_like(queries)
        M, B = queries.shape[:2]
        mix_backward[B, M](x, queries, g_mixture.contiguous(), g_x, g_queries, B, **ctx.settings)
        return g_x, g_queries, None, None


def _grid(M: int, settings: dict[str, Any]) -> tuple[int, int, int]:
    """The programs of `attend`: blocks of sequences, heads, models."""
    return triton.cdiv(settings["B"], SEQUENCES), settings["H"], M


def _tile(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings of a call, with the sizes of its tile."""
    T, e, f = (_padded(settings[name]) for name in "TEF")
    warps = min(8, max(1, SEQUENCES * T * max(e, f) // NUMBERS_OF_WARP))
    return settings | {
        "T_PADDED": T, "E_PADDED": e, "F_PADDED": f, "SEQUENCES": SEQUENCES, "num_warps": warps,
    }  # fmt: skip


def _padded(size: int) -> int:
    """The power of 2 from `size` on, which Triton's ranges need."""
    return max(FEWEST_ROWS, 1 << (size - 1).bit_length())


# The Triton programs. Rows of a tile are positions, of one or more sequences; sizes are padded to powers of 2. Numbers
# outside of a tensor are read as 0 and not written.


@triton.jit
def places_of(tokens, m, B, rows, K, T: tl.constexpr, HAS_TOKENS: tl.constexpr,
              T_PADDED: tl.constexpr, SEQUENCES: tl.constexpr):  # fmt: skip
    """Of each row of the tile: sequence, place, whether there is one, and its row of the projections."""
    i = tl.arange(0, SEQUENCES * T_PADDED)
    t, b = i % T_PADDED, tl.program_id(0) * SEQUENCES + i // T_PADDED
    inside = (t < T) & (b < B)
    row = t * K + tl.load(tokens + (m * T + t) * B + b, mask=inside, other=0) if HAS_TOKENS else b * T + t
    return b, t, inside, m * rows + row


@triton.jit
def pattern_of(q, k, b, t, PRECISION: tl.constexpr):
    """The causal attention of each position to those of its sequence."""
    scores = tl.dot(q, tl.trans(k), input_precision=PRECISION)
    reaches = (b[:, None] == b[None, :]) & (t[:, None] >= t[None, :])
    scores = tl.where(reaches, scores, -float("inf"))
    weights = tl.exp(scores - tl.max(scores, 1)[:, None])
    return weights / tl.sum(weights, 1)[:, None]


@triton.jit
def attend(
    projections, keys, residual, tokens, out, B, rows, K,
    T: tl.constexpr, H: tl.constexpr, E: tl.constexpr, F: tl.constexpr, PRECISION: tl.constexpr,
    HAS_KEYS: tl.constexpr, HAS_TOKENS: tl.constexpr, T_PADDED: tl.constexpr, E_PADDED: tl.constexpr,
    F_PADDED: tl.constexpr, SEQUENCES: tl.constexpr, ADDS_RESIDUAL: tl.constexpr,
):  # fmt: skip
    """Writes `Attention` of some sequences and one head."""
    h, m = tl.program_id(1), tl.program_id(2).to(tl.int64)
    b, t, inside, row = places_of(tokens, m, B, rows, K, T, HAS_TOKENS, T_PADDED, SEQUENCES)
    e, f = tl.arange(0, E_PADDED)[None, :], tl.arange(0, F_PADDED)[None, :]
    in_e, in_f = inside[:, None] & (e < E), inside[:, None] & (f < F)
    row = row[:, None]
    VALUES: tl.constexpr = H * E if HAS_KEYS else 2 * H * E  # the first column of the values
    COLUMNS: tl.constexpr = VALUES + H * F
    q = tl.load(projections + row * COLUMNS + h * E + e, mask=in_e, other=0.0)
    k = tl.load(keys + row * E + e if HAS_KEYS else projections + row * COLUMNS + (H + h) * E + e, mask=in_e, other=0.0)
    v = tl.load(projections + row * COLUMNS + VALUES + h * F + f, mask=in_f, other=0.0)
    written = tl.dot(pattern_of(q, k, b, t, PRECISION), v, input_precision=PRECISION)
    if ADDS_RESIDUAL:
        written += tl.load(residual + row * F + f, mask=in_f, other=0.0)
    tl.store(out + ((m * B + b) * T + t)[:, None] * (H * F) + h * F + f, written, mask=in_f)


@triton.jit
def attend_backward(
    projections, keys, tokens, g_out, g_projections, g_keys, g_residual, projections_row, keys_row, residual_row,
    B, rows, K,
    T: tl.constexpr, H: tl.constexpr, E: tl.constexpr, F: tl.constexpr, PRECISION: tl.constexpr,
    HAS_KEYS: tl.constexpr, HAS_TOKENS: tl.constexpr, T_PADDED: tl.constexpr, E_PADDED: tl.constexpr,
    F_PADDED: tl.constexpr, SEQUENCES: tl.constexpr, ADDS_KEYS: tl.constexpr, COPIES_RESIDUAL: tl.constexpr,
):  # fmt: skip
    """Writes the gradients of `Attention` at every position; `projections_row` and the like are strides of rows.

    With tokens, the sequences of a place lie together. The output may have the keys added to it, or a residual, whose
    gradient is copied.
    """
    h, m = tl.program_id(1), tl.program_id(2).to(tl.int64)
    b, t, inside, row = places_of(tokens, m, B, rows, K, T, HAS_TOKENS, T_PADDED, SEQUENCES)
    e, f = tl.arange(0, E_PADDED)[None, :], tl.arange(0, F_PADDED)[None, :]
    in_e, in_f = inside[:, None] & (e < E), inside[:, None] & (f < F)
    row = row[:, None]
    VALUES: tl.constexpr = H * E if HAS_KEYS else 2 * H * E  # the first column of the values
    COLUMNS: tl.constexpr = VALUES + H * F
    q = tl.load(projections + row * COLUMNS + h * E + e, mask=in_e, other=0.0)
    k = tl.load(keys + row * E + e if HAS_KEYS else projections + row * COLUMNS + (H + h) * E + e, mask=in_e, other=0.0)
    v = tl.load(projections + row * COLUMNS + VALUES + h * F + f, mask=in_f, other=0.0)
    position = ((m * B + b) * T + t)[:, None]
    g = tl.load(g_out + position * (H * F) + h * F + f, mask=in_f, other=0.0)
    pattern = pattern_of(q, k, b, t, PRECISION)
    g_v = tl.dot(tl.trans(pattern), g, input_precision=PRECISION)
    g_pattern = tl.dot(g, tl.trans(v), input_precision=PRECISION)
    g_scores = pattern * (g_pattern - tl.sum(pattern * g_pattern, 1)[:, None])
    g_q = tl.dot(g_scores, k, input_precision=PRECISION)
    g_k = tl.dot(tl.trans(g_scores), q, input_precision=PRECISION)
    place = ((m * T + t) * B + b)[:, None] if HAS_TOKENS else position
    g_projections += place * projections_row
    tl.store(g_projections + h * E + e, g_q, mask=in_e)
    tl.store(g_projections + VALUES + h * F + f, g_v, mask=in_f)
    if ADDS_KEYS:
        g_k += g
    tl.store(g_keys + place * keys_row + e if HAS_KEYS else g_projections + (H + h) * E + e, g_k, mask=in_e)
    if COPIES_RESIDUAL:
        tl.store(g_residual + place * residual_row + f, g, mask=in_f)


@triton.jit
def normalised(x, inside, D: tl.constexpr, NORM: tl.constexpr, EPS: tl.constexpr):
    """The rows of x after the norm, and the factor of each row that is due to its length."""
    if NORM == "layer":
        x = tl.where(inside, x - (tl.sum(x, 1) / D)[:, None], 0.0)
    factor = 1.0 / tl.sqrt(tl.sum(x * x, 1) / D + EPS)[:, None]
    return x * factor, factor


@triton.jit
def mix(
    x, queries, mixture, B, T: tl.constexpr, H: tl.constexpr, D: tl.constexpr,
    NORM: tl.constexpr, EPS: tl.constexpr, T_PADDED: tl.constexpr, D_PADDED: tl.constexpr,
):  # fmt: skip
    """Writes `LastAttention` of one sequence."""
    b, m = tl.program_id(0), tl.program_id(1).to(tl.int64)
    t, d = tl.arange(0, T_PADDED), tl.arange(0, D_PADDED)
    inside = (t[:, None] < T) & (d[None, :] < D)
    rows = tl.load(x + ((m * B + b) * T + t[:, None]) * D + d[None, :], mask=inside, other=0.0)
    if NORM != "none":
        rows, _ = normalised(rows, inside, D, NORM, EPS)
    for h in tl.static_range(H):
        of_head = ((m * B + b) * H + h) * D + d
        query = tl.load(queries + of_head, mask=d < D, other=0.0)
        scores = tl.where(t < T, tl.sum(rows * query[None, :], 1), -float("inf"))
        weights = tl.exp(scores - tl.max(scores, 0))
        pattern = weights / tl.sum(weights, 0)
        tl.store(mixture + of_head, tl.sum(pattern[:, None] * rows, 0), mask=d < D)


@triton.jit
def mix_backward(
    x, queries, g_mixture, g_x, g_queries, B, T: tl.constexpr, H: tl.constexpr, D: tl.constexpr,
    NORM: tl.constexpr, EPS: tl.constexpr, T_PADDED: tl.constexpr, D_PADDED: tl.constexpr,
):  # fmt: skip
    """Writes the gradients of `LastAttention` of one sequence."""
    b, m = tl.program_id(0), tl.program_id(1).to(tl.int64)
    t, d = tl.arange(0, T_PADDED), tl.arange(0, D_PADDED)
    inside = (t[:, None] < T) & (d[None, :] < D)
    positions = ((m * B + b) * T + t[:, None]) * D + d[None, :]
    rows = tl.load(x + positions, mask=inside, other=0.0)
    factor = tl.full((T_PADDED, 1), 1.0, tl.float32)
    if NORM != "none":
        rows, factor = normalised(rows, inside, D, NORM, EPS)
    g_rows = tl.zeros_like(rows)
    for h in tl.static_range(H):
        of_head = ((m * B + b) * H + h) * D + d
        query = tl.load(queries + of_head, mask=d < D, other=0.0)
        g = tl.load(g_mixture + of_head, mask=d < D, other=0.0)
        scores = tl.where(t < T, tl.sum(rows * query[None, :], 1), -float("inf"))
        weights = tl.exp(scores - tl.max(scores, 0))
        pattern = weights / tl.sum(weights, 0)
        g_pattern = tl.sum(rows * g[None, :], 1)
        g_scores = pattern * (g_pattern - tl.sum(pattern * g_pattern, 0))
        tl.store(g_queries + of_head, tl.sum(g_scores[:, None] * rows, 0), mask=d < D)
        g_rows += pattern[:, None] * g[None, :] + g_scores[:, None] * query[None, :]
    if NORM == "layer":
        g_rows -= (tl.sum(g_rows, 1) / D)[:, None]
    if NORM != "none":
        g_rows = factor * (g_rows - rows * (tl.sum(g_rows * rows, 1) / D)[:, None])
    tl.store(g_x + positions, g_rows, mask=inside)
