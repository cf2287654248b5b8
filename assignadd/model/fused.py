"""The table forward of a whole stack on a GPU: the same quantities as `table`, its attention part in Triton kernels."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from assignadd.config import Config
from assignadd.model.table import TableForward
from assignadd.model.trace import Tables, Trace, Weights, plus_product

if TYPE_CHECKING:
    from jaxtyping import Int

# A pattern of T x T keys and queries for a block of sequences has to fit into a program's registers.
LONGEST = 32
# Tiles of layer 1's score table, sequences in a tile, slices of the batch added up at the end; measured on an H200.
TILE, TILE_SEQUENCES, SLICES, KEYS, TILE_WARPS = 128, 32, 8, 8, 4


def fits(config: Config, device: torch.device) -> bool:
    """Whether the kernels serve these models there: float32 on a GPU for which torch brought Triton along."""
    in_range = config.numerics.dtype == "float32" and config.task.length <= LONGEST
    return in_range and device.type == "cuda" and importlib.util.find_spec("triton") is not None


class FusedTable(TableForward):
    """`forward` and `backward` for stacks: weights with, tokens with the leading axis M."""

    def __init__(self, config: Config, device: str | torch.device = "cuda"):
        super().__init__(config, device)
        from assignadd.model import kernels

        self._kernels: Any = kernels
        self._TP = 1 << (self.T - 1).bit_length()
        self._wide, self._deep = (64, 4), (32 * 256 // self._TP**2, 8)  # sequences and warps of a program

    def forward(self, w: Weights, tokens: Int[Tensor, "M B T"], tables: Tables | None = None) -> Trace:
        C, T, K, tables = self.C, self.T, self.K, self.tables(w) if tables is None else tables
        tokens = tokens.mT.contiguous()
        M, _, B = tokens.shape
        scores_1 = tables.queries_1 @ tables.keys_1.mT
        usage = scores_1.new_empty(M, 3 * C + 1, B)
        attention_1 = scores_1.new_empty(M, T, T, B)
        block, warps = self._wide
        self._kernels.patterns[_ceil(B, block), M](
            scores_1, tokens, attention_1, self.scale, B, T=T, K=K, TP=self._TP, BB=block, num_warps=warps
        )
        self._spread_stack(attention_1[:, -1], tokens, usage[:, :C])
        usage[:, C].fill_(1)
        mixed = tables.scores_2 @ usage[:, : C + 1]  # (M, 2C, B)
        key_scores, attention_2, carried = (scores_1.new_empty(M, T, B) for _ in range(3))
        block, warps = self._deep
        self._kernels.attend[_ceil(B, block), M](
            mixed,
            tokens,
            attention_1,
            key_scores,
            attention_2,
            carried,
            B,
            T=T,
            K=K,
            TP=self._TP,
            BB=block,
            num_warps=warps,
        )
        self._spread_stack(attention_2, tokens, usage[:, C + 1 : 2 * C + 1])
        self._spread_stack(carried, tokens, usage[:, 2 * C + 1 :])
        return Trace(w, attention_1, attention_2, tokens, (), usage, key_scores, tables)

    def _attention_backward(self, trace: Trace, g_usage: Tensor) -> tuple[Tensor, Tensor]:
        C, T, K, tokens, a1, a2 = self.C, self.T, self.K, trace.tokens_tb, trace.attention_1_qkb, trace.attention_2_kb
        M, _, B = tokens.shape
        g_keys, g_carried, g_through = (a2.new_empty(M, T, B) for _ in range(3))
        block, warps = self._deep
        self._kernels.attend_backward[_ceil(B, block), M](
            g_usage, tokens, a1, a2, g_keys, g_carried, g_through, B, T=T, K=K, TP=self._TP, BB=block, num_warps=warps
        )
        g_scores = g_usage.new_empty(M, 2 * C, B)
        self._spread_stack(g_keys, tokens, g_scores[:, :C])
        self._spread_stack(g_through, tokens, g_scores[:, C:])
        g_scores_2 = g_scores @ trace.usage[:, : C + 1].mT
        plus_product(g_usage[:, : C + 1], trace.tables.scores_2.mT, g_scores)
        g_pairs = torch.empty_like(a1)
        block, warps = self._wide
        self._kernels.pairs_backward[_ceil(B, block), M](
            g_usage, tokens, a1, a2, trace.key_scores, g_keys, g_carried, g_pairs, B,
            T=T, K=K, TP=self._TP, BB=block, num_warps=warps,
        )  # fmt: skip
        return self._g_scores_1(g_pairs, tokens), g_scores_2

    def _g_scores_1(self, g_pairs: Tensor, tokens: Tensor) -> Tensor:
        M, _, B = tokens.shape
        blocks = _ceil(_ceil(B, TILE_SEQUENCES), SLICES)
        g_table = g_pairs.new_empty(M, SLICES, self.C, self.C)
        self._kernels.table_backward[SLICES, _ceil(self.C, TILE) ** 2, M](
            g_pairs, tokens, g_table, B, blocks,
            T=self.T, K=self.K, CR=TILE, CC=TILE, BB=TILE_SEQUENCES, PARTS=3, KEYS=KEYS, num_warps=TILE_WARPS,
        )  # fmt: skip
        return g_table.sum(1)

    def _spread_stack(self, amount: Tensor, tokens: Tensor, rows: Tensor) -> None:
        """The kernel writes every row, so `rows` need not be zero."""
        M, _, B = tokens.shape
        self._kernels.spread[_ceil(B, 128), _ceil(self.C, 32), M](
            amount, tokens, rows, B, amount.stride(0), rows.stride(0), T=self.T, K=self.K, CB=32, BB=128, num_warps=4
        )


def _ceil(a: int, b: int) -> int:
    return -(-a // b)
