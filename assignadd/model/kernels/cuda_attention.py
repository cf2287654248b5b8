"""The attention part for a stack on a GPU, by the CUDA programs of `attention.cu`.

They read and write places of shared memory that depend on the data, which a Triton program cannot. In memory sequences
come last, so that neighbouring threads read neighbouring numbers: tokens (M, T, B), patterns of layer 1 (M, H, query,
key, B), matrices (M, width, B). Tensors are views of it with the axes in the usual order, (M, B, ...). No atomic
operation is used: a step repeats bit for bit.

`tensor.TensorKernels` says what each operation returns.
"""

from __future__ import annotations

import math
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.cuda._utils import _cuda_load_module, _nvrtc_compile

from assignadd.model.kernels.tensor import TensorKernels

SOURCE = Path(__file__).with_name("attention.cu")
PROGRAMS = ["patterns", "attend", "attend_backward", "pairs_backward", "table_backward"]
BYTES_OF_FLOAT, LANES = 4, 32  # LANES: threads of a warp
DEFAULT_MEMORY = 48 * 1024  # bytes of shared memory that a block may have without asking for more
# Measured on an H200: sequences for each copy of the score table in `patterns`. The other two bound what a block takes:
# tokens whose rows are added up at once, and warps that each have a table.
PATTERN_SEQUENCES, MOST_TOKENS, MOST_WARPS = 256, 96, 8


class CudaAttention(TensorKernels):
    """Attention for weights and tokens with the leading axis M, in single precision."""

    token_dtype = torch.int32

    def __init__(self, n_tokens: int, length: int, device: torch.device, n_heads: int = 1):
        """Divides the shared memory of this device among the programs."""
        super().__init__(n_tokens, length, device, n_heads)
        device_properties = properties(device)
        self._processors = device_properties.multi_processor_count
        # All sizes of memory are counted in numbers, of 4 bytes each, and are of the shared memory that a block of
        # threads may have.
        memory = device_properties.shared_memory_per_block_optin // BYTES_OF_FLOAT
        # A block of `table_backward` has this many warps, each with this many rows of the score table in memory.
        self._table_rows = min(self.C, memory // self.C)
        self._warps = min(MOST_WARPS, memory // (self._table_rows * self.C))
        # `spread` adds up the rows of this many tokens at once.
        tokens_at_once = min(self.K, MOST_TOKENS)
        self._spread_memory = tokens_at_once * LANES
        # Shared memory is static, for arrays that a program declares, or dynamic, as much as its launch asks for. This
        # is the most that one of the programs declares.
        self._static_memory = (2 * n_heads + 3) * length * LANES
        # `patterns` has a copy of the score table in memory, if it fits.
        copies_table = self.C**2 + self._spread_memory + self._static_memory <= memory
        self._copied_table = self.C**2 if copies_table else 0
        self._constants = (
            ("K", self.K), ("T", self.T), ("H", n_heads), ("TABLE_ROWS", self._table_rows),
            ("TOKENS_AT_ONCE", tokens_at_once), ("COPIES_TABLE", int(copies_table)),
        )  # fmt: skip

    def matrix(self, tokens: Tensor, width: int, like: Tensor) -> Tensor:
        """A matrix (M, B, width) that is stored as (M, width, B), not initialised."""
        M, B, _ = tokens.shape
        return like.new_empty(M, width, B).mT

    def layer_1(self, scores: Tensor, tokens: Tensor, usage: Tensor) -> Tensor:
        """Attention of layer 1 from the score tables (M, H, C, C), by the program `patterns`.

        It also fills the first H C + 1 columns of `usage`: how much attention `=` pays to each row, and then 1.
        """
        stored_tokens = _tokens(tokens)
        M, T, B = stored_tokens.shape
        # A program counts the numbers of a model in 32 bits: `usage` has `n_used` columns, the attention H T T.
        if B * max(self.n_used, self.H * T * T) >= 2**31:
            raise ValueError(f"{B:,} sequences are too many at once for a GPU: split them")
        if not usage.mT.is_contiguous():
            raise ValueError("usage has another order in memory than that of `matrix`")
        attention = scores.new_empty(M, self.H, T, T, B)
        # Sequences of a block, in groups of LANES: PATTERN_SEQUENCES, or fewer where there would otherwise be less than
        # one block for each processor.
        groups_per_processor = M * self.H * B // (LANES * self._processors)
        n_sequences = LANES * max(1, min(PATTERN_SEQUENCES // LANES, groups_per_processor))
        blocks = math.ceil(B / n_sequences)
        grid, warps = (blocks, 1, M * self.H), T  # a warp for each position, as query
        memory = self._spread_memory + self._copied_table
        arguments = scores.contiguous(), stored_tokens, attention, usage, B, n_sequences
        self._launch("patterns", grid, warps, memory, *arguments)
        return attention.movedim(-1, 1)  # (M, B, H, query, key)

    def layer_2(self, scores: Tensor, tokens: Tensor, attention_1: Tensor, usage: Tensor) -> tuple[Tensor, Tensor]:
        """Attention of layer 2 and scores of copies, by the program `attend`, which also fills the rest of `usage`."""
        stored_tokens = _tokens(tokens)
        attention_2, copied_scores = self._memory_for_positions(stored_tokens, scores)
        inputs = _in_memory(scores), stored_tokens, _in_memory(attention_1)
        outputs = copied_scores, attention_2, usage
        self._over_sequences("attend", 1 + self.H, *inputs, *outputs)
        return attention_2.movedim(-1, 1), copied_scores.movedim(-1, 1)

    def _memory_for_positions(self, tokens: Tensor, like: Tensor) -> tuple[Tensor, Tensor]:
        """Memory for two arrays, one for each head of layer 2 and one for each pair of heads of layers 2 and 1.

        They are (M, H, T, B) and (M, H, H, T, B), not initialised.
        """
        M, H = len(tokens), self.H
        return like.new_empty(M, H, *tokens.shape[1:]), like.new_empty(M, H, H, *tokens.shape[1:])

    def layer_2_backward(
        self, g_usage: Tensor, tokens: Tensor, attention_1: Tensor, attention_2: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The gradients of layer 2, by the program `attend_backward`, which fills the memory that is allocated here.

        They are those of `scores`, a number for each row that a key is made of, (M, B, H (1 + H) C), of the softmax's
        input, (M, B, H, T), and of `passed_on`, (M, B, H, copied_by, T).
        """
        stored_tokens, n_rows = _tokens(tokens), self.n_used - self.n_used_by_1
        g_of_rows = self.matrix(tokens, n_rows, g_usage)
        g_position_scores, g_passed_on = self._memory_for_positions(stored_tokens, g_usage)
        inputs = _in_memory(g_usage), stored_tokens, _in_memory(attention_1), _in_memory(attention_2)
        outputs = g_position_scores, g_passed_on, g_of_rows
        self._over_sequences("attend_backward", 1 + self.H, *inputs, *outputs)
        return g_of_rows, g_position_scores.movedim(-1, 1), g_passed_on.movedim(-1, 1)

    def layer_1_backward(
        self, g_usage: Tensor, tokens: Tensor, attention_1: Tensor, attention_2: Tensor, copied_scores: Tensor,
        g_position_scores: Tensor, g_passed_on: Tensor,
    ) -> Tensor:  # fmt: skip
        """Gradient of layer 1's score table, by the programs `pairs_backward` and `table_backward`."""
        stored_tokens = _tokens(tokens)
        M, T, B = stored_tokens.shape
        inputs = (attention_1, attention_2, copied_scores, g_position_scores, g_passed_on)
        g_pairs = g_usage.new_empty(M, self.H, B, T, T)  # of every pair's score (query, key), filled below
        self._over_sequences("pairs_backward", 0, _in_memory(g_usage), stored_tokens, *map(_in_memory, inputs), g_pairs)
        with self.after_layer_1_backward(g_pairs, stored_tokens):
            return self._table_backward(g_pairs, stored_tokens)

    def _table_backward(self, g_pairs: Tensor, tokens: Tensor) -> Tensor:
        """Gradients of layer 1's score tables (M, H, C, C) from those of every pair's score (M, H, B, query, key)."""
        M, H, B = g_pairs.shape[:3]
        tiles = math.ceil(self.C / self._table_rows)  # parts of the table, by rows
        # Each block adds up one tile over a slice of the sequences. As many slices as fill the processors are wanted.
        wanted_slices = max(1, min(B, self._processors // (M * H * tiles)))
        n_sequences = max(1, math.ceil(B / wanted_slices))  # of a slice
        slices, warps = max(1, math.ceil(B / n_sequences)), min(self._warps, n_sequences)
        g_slices = g_pairs.new_empty(M, H, slices, self.C, self.C)  # filled below
        memory = warps * self._table_rows * self.C
        grid = slices, tiles, M * H
        self._launch("table_backward", grid, warps, memory, g_pairs, tokens, g_slices, B, n_sequences)
        return g_slices[:, :, 0] if slices == 1 else g_slices.sum(2)

    def _over_sequences(self, name: str, parts: int, first: Tensor, tokens: Tensor, *arrays: Tensor) -> None:
        """Launches a program whose blocks have a warp for each position of 32 sequences.

        Its arguments are `first`, the tokens, `arrays` and B. In each block `spread` adds up `parts` kinds of rows at
        once, and gets memory for each: 1 + H for the sources of layer 2's keys, 0 where the program does not call it.
        """
        M, T, B = tokens.shape
        grid, warps = (math.ceil(B / LANES), M * self.H, 1), T
        self._launch(name, grid, warps, parts * self._spread_memory, first, tokens, *arrays, B)

    def _launch(self, name: str, grid: tuple[int, int, int], warps: int, memory: int, *arguments: Tensor | int) -> None:
        """Launches a grid of blocks of (LANES, warps) threads, each block with `memory` numbers of dynamic memory.

        A block may have DEFAULT_MEMORY bytes of static and dynamic shared memory together. For more, the driver has to
        be told first how many of them may be dynamic.
        """
        if 0 in grid:  # no sequences
            return
        kernel = compiled(self._constants, torch.cuda.current_device())[name]
        dynamic_bytes = BYTES_OF_FLOAT * memory
        if dynamic_bytes + BYTES_OF_FLOAT * self._static_memory > DEFAULT_MEMORY:
            # Where the dynamic part alone is smaller than DEFAULT_MEMORY, that is named: torch does not pass on less.
            kernel.set_shared_memory_config(max(DEFAULT_MEMORY, dynamic_bytes))
        kernel(grid, (LANES, warps, 1), list(arguments), dynamic_bytes)


def properties(device: torch.device) -> Any:
    """The properties of a GPU as torch knows them; a separate function, so that a test can replace it."""
    return torch.cuda.get_device_properties(device)


@lru_cache(maxsize=16)
def compiled(constants: tuple[tuple[str, int], ...], device: int) -> Any:
    """The programs of `attention.cu` for these sizes, by name, on the current GPU, whose number is `device`."""
    from torch.utils import cpp_extension  # a tenth of a second

    # torch looks the current GPU up itself: `device` only keeps the results for several GPUs apart in the cache.
    # torch refuses to compile without knowing where CUDA's headers are. None is read here, so any folder will do.
    home = cpp_extension.CUDA_HOME
    cpp_extension.CUDA_HOME = home or "/"
    try:
        any_program = PROGRAMS[0]  # torch asks for the name of one; all that are in the text are compiled
        binary, _ = _nvrtc_compile(source(constants), any_program)
    finally:
        cpp_extension.CUDA_HOME = home
    return _cuda_load_module(binary, PROGRAMS)


def source(constants: tuple[tuple[str, int], ...]) -> str:
    """The text of the programs, with these constants in front."""
    declared = ", ".join(f"{name} = {value}" for name, value in constants)
    return f"constexpr int {declared};\n{SOURCE.read_text()}"


def _tokens(tokens: Tensor) -> Tensor:
    """The tokens (M, B, T) in the order and number format in which the programs read them, (M, T, B)."""
    return _in_memory(tokens.int())


def _in_memory(x: Tensor) -> Tensor:
    """The same numbers with sequences last, (M, ..., B), without gaps."""
    return x.movedim(1, -1).contiguous()
