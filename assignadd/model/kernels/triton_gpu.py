"""The kernels for a stack on a GPU, in Triton: one pass over memory where tensor operations take ten.

In memory sequences come last, so that neighbouring threads read neighbouring numbers: tokens (M, T, B), patterns of
layer 1 (M, query, key, B), matrices (M, width, B). A program computes a block of one model's sequences. TP is T rounded
up to a power of two, BB the number of sequences in a block. No atomic operation is used: a step repeats bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import triton
from torch import Tensor

from assignadd.model.kernels import triton_programs
from assignadd.model.kernels.tensor import Moments, TensorKernels

# Measured on an H200: tiles of layer 1's score table, slices of the batch that are summed at the end (more where few
# models would not fill the device), and queries of one program of layer 1's patterns.
TILE, SLICES, MOST_SLICES, TILE_WARPS = 128, 8, 64, 4
QUERIES = 4
LOSS_ROWS, UPDATE_BLOCK = 16, 1024
# On an H200, products of this many models with this many multiplications each are faster here than in cuBLAS, with
# these tiles. It takes tensor cores that are much faster than the units for float32, as those of data centres have
# (A100, H100 and H200, B200).
MANY_MODELS, LARGE = 8, 1 << 24
FAST_TENSOR_CORES = {(8, 0), (9, 0), (10, 0)}
PRODUCT_TILE = {"ROWS": 128, "COLUMNS": 64, "DEPTH": 32, "num_warps": 8, "num_stages": 3}


class TritonKernels(TensorKernels):
    """All operations for weights and tokens with the leading axis M."""

    name = "triton"
    token_dtype = torch.int32

    def __init__(self, n_tokens: int, length: int, device: torch.device, tf32: bool = False):
        super().__init__(n_tokens, length, device)
        self._has_large = not tf32 and torch.cuda.get_device_capability(device) in FAST_TENSOR_CORES
        self._parts = 2 if tf32 else 3  # bfloat16 numbers that add up to a float32, or to more digits than TF32 has
        TP = 1 << (length - 1).bit_length()
        shared = {"T": length, "K": n_tokens, "TP": TP}
        self._wide = shared | {"BB": 64, "QB": QUERIES, "num_warps": 4}
        self._deep = shared | {"BB": 32 * 256 // TP**2, "num_warps": 8}
        self._aside, self._kept = torch.cuda.Stream(device), list[Tensor]()

    def product(self, a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor:
        return self._product(a, b, out) if self._is_large(a, b) else super().product(a, b, out)

    def plus_product(self, total: Tensor, a: Tensor, b: Tensor) -> Tensor:
        return self._product(a, b, total, total, "add") if self._is_large(a, b) else super().plus_product(total, a, b)

    def relu_product(self, a: Tensor, b: Tensor) -> Tensor:
        return self._product(a, b, end="relu") if self._is_large(a, b) else super().relu_product(a, b)

    def gated_product(self, a: Tensor, b: Tensor, neurons: Tensor) -> Tensor:
        if self._is_large(a, b):
            return self._product(a, b, None, neurons.contiguous(), "gate")
        return super().gated_product(a, b, neurons)

    def _is_large(self, a: Tensor, b: Tensor) -> bool:
        """Whether the product is faster here than in cuBLAS, which is faster with TF32."""
        return self._has_large and len(a) >= MANY_MODELS and math.prod(a.shape[1:]) * b.shape[-1] >= LARGE

    def _product(
        self, a: Tensor, b: Tensor, out: Tensor | None = None, other: Tensor | None = None, end: str = ""
    ) -> Tensor:
        """a @ b and what follows it (`end`) in one pass; `other` is the sum so far, or neurons; strides as `out`."""
        (M, rows, depth), columns = a.shape, b.shape[-1]
        out = a.new_empty(M, rows, columns) if out is None else out
        tiles = triton.cdiv(rows, PRODUCT_TILE["ROWS"]) * triton.cdiv(columns, PRODUCT_TILE["COLUMNS"])
        triton_programs.product[tiles, M](
            a, b, out, out if other is None else other, rows, columns, depth, *a.stride(), *b.stride(), *out.stride(),
            END=end, **PRODUCT_TILE,
        )  # fmt: skip
        return out

    def product_aside(self, a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor:
        out = a.new_empty(*a.shape[:-1], b.shape[-1]) if out is None else out
        with self._on_second_stream(a, b, out):
            return self.product(a, b, out)

    @contextmanager
    def _on_second_stream(self, *used: Tensor) -> Iterator[None]:
        """Work that nothing on the first stream waits for before `join`: small products do not fill the device."""
        self._kept += used  # their memory must not be given to others before that
        self._aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._aside):
            yield

    def join(self) -> None:
        torch.cuda.current_stream().wait_stream(self._aside)
        self._kept.clear()

    def matrix(self, tokens: Tensor, width: int, like: Tensor) -> Tensor:
        M, B, _ = tokens.shape
        return like.new_empty(M, width, B).mT

    def layer_1(self, scores: Tensor, tokens: Tensor, usage: Tensor) -> Tensor:
        tokens = _in_memory(tokens)
        M, T, B = tokens.shape
        attention = scores.new_empty(M, T, T, B)
        grid = _blocks(B, self._wide), triton.cdiv(T, QUERIES), M
        triton_programs.patterns[grid](scores, tokens, attention, B, **self._wide)
        self._spread(attention[None, :, -1], tokens, usage.mT[:, : self.C])
        usage[..., self.C] = 1
        return attention.permute(0, 3, 1, 2)

    def layer_2(self, scores: Tensor, tokens: Tensor, attention_1: Tensor, usage: Tensor) -> tuple[Tensor, Tensor]:
        tokens, C = _in_memory(tokens), self.C
        M, T, B = tokens.shape
        copied, attention_2, passed_on = parts = scores.new_empty(3, M, T, B)
        triton_programs.attend[_blocks(B, self._deep), M](
            _in_memory(scores), tokens, _in_memory(attention_1), copied, attention_2, passed_on, B, **self._deep
        )
        self._spread(parts[1:], tokens, usage.mT[:, C + 1 :])
        return attention_2.mT, copied.mT

    def layer_2_backward(
        self, g_usage: Tensor, tokens: Tensor, attention_1: Tensor, attention_2: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        tokens, C = _in_memory(tokens), self.C
        M, T, B = tokens.shape
        g_passed_on, g_scores, g_copied = parts = g_usage.new_empty(3, M, T, B)
        arrays = (_in_memory(x) for x in (g_usage, tokens.mT, attention_1, attention_2))
        triton_programs.attend_backward[_blocks(B, self._deep), M](
            *arrays, g_scores, g_passed_on, g_copied, B, **self._deep
        )
        g_both = g_usage.new_empty(M, 2 * C, B)
        self._spread(parts[1:], tokens, g_both)
        return g_both.mT, g_scores.mT, g_passed_on.mT

    def layer_1_backward(
        self,
        g_usage: Tensor,
        tokens: Tensor,
        attention_1: Tensor,
        attention_2: Tensor,
        copied_scores: Tensor,
        g_position_scores: Tensor,
        g_passed_on: Tensor,
    ) -> Tensor:
        given = (g_usage, tokens, attention_1, attention_2, copied_scores, g_position_scores, g_passed_on)
        arrays = [_in_memory(x) for x in given]
        M, T, B = arrays[1].shape
        g_pairs = attention_1.new_empty(M, B, T, T)
        grid = _blocks(B, self._wide), triton.cdiv(T, QUERIES), M
        triton_programs.pairs_backward[grid](*arrays, g_pairs, B, **self._wide)
        slices = max(SLICES, MOST_SLICES // M)
        g_slices, g_table = (g_pairs.new_empty(*shape, self.C, self.C) for shape in ((M, slices), (M,)))
        with self._on_second_stream(g_pairs, arrays[1], g_slices, g_table):
            triton_programs.table_backward[slices, triton.cdiv(self.C, TILE) ** 2, M](
                g_pairs, arrays[1], g_slices, B, triton.cdiv(B, slices),
                T=T, K=self.K, TP=max(16, self._wide["TP"]), CR=TILE, CC=TILE, PARTS=self._parts, num_warps=TILE_WARPS,
            )  # fmt: skip
            return torch.sum(g_slices, 1, out=g_table)

    def cross_entropy(self, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        M, B, N = logits.shape
        losses, width = logits.new_empty(M, B), 1 << (N - 1).bit_length()
        blocks = triton.cdiv(B, LOSS_ROWS)
        triton_programs.cross_entropy[blocks, M](logits, labels.contiguous(), losses, B, N=N, NP=width, BB=LOSS_ROWS)
        return losses.mean(1), logits

    def adamw(
        self, flat: Tensor, grad: Tensor, moments: Moments, loss: Tensor, diverged_at: Tensor, count: Tensor
    ) -> None:
        (M, P), o = flat.shape, moments
        triton_programs.adamw[triton.cdiv(P, UPDATE_BLOCK), M](
            flat, grad, o.mean, o.square, o.rate, o.decay, o.averaging, o.betas, loss, diverged_at, count, P,
            BLOCK=UPDATE_BLOCK,
        )  # fmt: skip

    def _spread(self, amounts: Tensor, tokens: Tensor, rows: Tensor) -> None:
        """Writes all rows (M, parts x C, B) from amounts (parts, M, T, B)."""
        (parts, M, T, B), blocks = amounts.shape, triton.cdiv(self.C, 32)
        strides = (*amounts.stride()[:2], rows.stride(0))
        triton_programs.spread[triton.cdiv(B, 128), parts * blocks, M](
            amounts, tokens, rows, B, *strides, T=T, K=self.K, CB=32, BB=128, num_warps=4
        )


def _in_memory(x: Tensor) -> Tensor:
    """The same numbers with sequences last, (M, ..., B), without gaps."""
    return x.movedim(1, -1).contiguous()


def _blocks(B: int, settings: dict[str, int]) -> int:
    return triton.cdiv(B, settings["BB"])
