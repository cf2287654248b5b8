"""The arrays of the compiled step of a CPU (`cpu_step`), besides the weights (`table.Weights`), and their memory.

Matrices are C-contiguous and in single precision, so that every function is compiled once for each architecture: once
for one head, once for several. A name with _T is that of a transposed matrix, one with g_ that of a gradient.
docs/names.md, "Words of the fast pass", says what rows, copies and amounts are. `matrices` allocates the tables, chunks
and sums by the shapes in their types, whose letters `lengths_of` explains.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple, get_type_hints

import numpy as np
import torch
from jaxtyping import Float32, Float64, Int64

from assignadd.model.kernels.numba_vectors import SOME
from assignadd.model.table import Weights

Array = np.ndarray
# Numbers of a line of the processor's cache, where each matrix begins: this saves 5 % of a step.
LINE = 16


class Tables(NamedTuple):
    """The tables that follow from the weights alone, the same for all sequences; or the gradients of some of them."""

    rows: Float32[Array, "4*C+1 d"]
    """The embeddings [E; P], C rows; embeddings OV1, C; the constant E_= + P_=, 1; (the first two) OV2, 2C."""
    queries_1: Float32[Array, "C dh"]
    keys_1: Float32[Array, "C dh"]
    values_1: Float32[Array, "C dh"]
    scores_1: Float32[Array, "C C"]
    factors_1: Float32[Array, "C C"]
    """Exponentials of the scores (`numba_functions.factors_of`)."""
    OV2: Float32[Array, "d d"]
    equal_Q2: Float32[Array, "C+1 dh"]
    """rows[C : 2C + 1], of which the residual of `=` after layer 1 is made, times W_Q2 / sqrt(d_head)."""
    queries_2: Float32[Array, "C+1 d"]
    """The same times QK2."""
    scores_2_T: Float32[Array, "C+1 S"]
    """Scores in layer 2 of these C + 1 rows as queries and the first 2C rows as keys."""
    positions: Float32[Array, "3*T+1 d"]
    """Of `rows`, those of positions and of E_= + P_=, in the order of the columns of `Chunk.amounts`."""
    read_out: Float32[Array, "h N"]
    """W_out W_U."""
    # Transposed copies: a product of MKL takes up to twice as long if its second factor is stored by columns.
    U_T: Float32[Array, "N d"]
    W_in_T: Float32[Array, "h d"]
    read_out_T: Float32[Array, "N h"]
    positions_T: Float32[Array, "d 3*T"]
    """Without the constant, whose amount has no gradient."""
    position_scores_2: Float32[Array, "S T"]
    """Of `scores_2_T`, the rows of what layer 1 writes for positions."""


class Chunk(NamedTuple):
    """The arrays that the forward and the backward pass write for the n sequences of a chunk."""

    attention_1: Float32[Array, "n*T T"]
    """0 for keys after the query, to which nothing is written."""
    attention_2: Float32[Array, "n T"]
    copied_scores: Float32[Array, "n T"]
    """The layer-2 score of what layer 1 copies from each position."""
    amounts: Float32[Array, "n 3*T+1"]
    """How much `=` uses of each position's rows: T columns for what layer 2 reads directly, T for what it reads of
    layer 1's copies, T for layer 1; then 1."""
    scores_2: Float32[Array, "n S"]
    """The score that `=` gives to each row in layer 2; after `layer_2_backward`, the gradient."""
    resid_mid: Float32[Array, "n d"]
    neurons: Float32[Array, "n h"]
    logits: Float32[Array, "n N"]
    """The logits; after `cross_entropy`, their gradient."""
    g_neurons: Float32[Array, "n h"]
    g_resid: Float32[Array, "n d"]
    g_amounts: Float32[Array, "n 3*T"]
    g_position_scores: Float32[Array, "n T"]
    g_passed_on: Float32[Array, "n T"]
    """The gradient by how much of each position's copies is passed on to `=`."""
    # Scratch memory of `layer_1_backward`; the last row of `g_by_key` is that of a single query.
    g_by_key: Float32[Array, "T+1 T"]
    g_positions: Float32[Array, "C T"]


class Sums(NamedTuple):
    """Gradients of what all sequences share, added up over the chunks of a thread."""

    scores_1: Float32[Array, "C C"]
    scores_2_T: Float32[Array, "C+1 S"]
    outputs: Float32[Array, "3*C+1 d"]
    """Of `Tables.rows` from row C on: of what layer 1 writes, of the constant, of what layer 2 writes."""
    positions: Float32[Array, "3*T+1 d"]
    W_in: Float32[Array, "d h"]
    read_out_T: Float32[Array, "N h"]
    """Transposed, as MKL's products take longer where the result has fewer columns than rows."""
    U_T: Float32[Array, "N d"]


class HeadTables(NamedTuple):
    """The tables of several heads; of layer 1 and of layer 2 each head has its own."""

    rows: Float32[Array, "R+1 d"]
    """The embeddings [E; P], C rows; what each head of layer 1 writes for them, H C; the constant E_= + P_=, 1."""
    queries_1: Float32[Array, "H C dh"]
    keys_1: Float32[Array, "H C dh"]
    values_1: Float32[Array, "H C dh"]
    scores_1: Float32[Array, "H C C"]
    factors_1: Float32[Array, "H C C"]
    keys_2: Float32[Array, "H R dh"]
    """Of each head of layer 2, the keys of the first R of `rows`."""
    keys_2_T: Float32[Array, "H dh R"]
    values_2: Float32[Array, "H R dh"]
    positions: Float32[Array, "H*T+1 d"]
    """Of `rows`, what layer 1 writes for positions, and the constant: in the order of `HeadChunk.amounts_1`."""
    read_out: Float32[Array, "h N"]
    """W_out W_U."""
    # Transposed copies, as in `Tables`.
    U_T: Float32[Array, "N d"]
    W_in_T: Float32[Array, "h d"]
    read_out_T: Float32[Array, "N h"]
    Q2_T: Float32[Array, "H dh d"]
    O2_T: Float32[Array, "H d dh"]
    positions_T: Float32[Array, "d H*T"]
    """Without the constant, whose amount has no gradient."""
    values_2_T: Float32[Array, "H dh R"]


class HeadChunk(NamedTuple):
    """What the forward and the backward pass of several heads write for the n sequences of a chunk.

    The P columns of a head of layer 2 are T for each of the 1 + H sources of its keys: the embeddings at the T
    positions, then what each head of layer 1 copies from there.
    """

    attention_1: Float32[Array, "H n*T T"]
    """0 for keys after the query, to which nothing is written."""
    amounts_1: Float32[Array, "n H*T+1"]
    """How much each head of layer 1 writes into `=` of each position's rows; then 1 for the constant."""
    resid_pre: Float32[Array, "n d"]
    """The residual of `=` after layer 1."""
    queries_2: Float32[Array, "H n dh"]
    """The queries of `=`, times 1 / sqrt(d_head)."""
    scores_2: Float32[Array, "H n P"]
    """The score of each position's embeddings, and of the copies of them."""
    amounts_2: Float32[Array, "H n P"]
    """How much `=` reads of the same: its attention, T columns, and what that passes on of the copies."""
    of_rows: Float32[Array, "n R"]
    """For one head at a time: the scores of all rows, how much of each is read, or the gradients of these."""
    read_2: Float32[Array, "H n dh"]
    """What each head reads: the values, weighted by their amounts."""
    resid_mid: Float32[Array, "n d"]
    neurons: Float32[Array, "n h"]
    logits: Float32[Array, "n N"]
    """The logits; after `cross_entropy`, their gradient."""
    g_neurons: Float32[Array, "n h"]
    g_resid: Float32[Array, "n d"]
    g_read_2: Float32[Array, "H n dh"]
    g_amounts_2: Float32[Array, "H n P"]
    g_scores_2: Float32[Array, "H n P"]
    g_queries_2: Float32[Array, "H n dh"]
    g_amounts_1: Float32[Array, "n H*T"]
    # Scratch memory for a transposed pattern of layer 1, and for its backward pass, as in `Chunk`.
    pattern_T: Float32[Array, "T T"]
    g_by_key: Float32[Array, "T+1 T"]
    g_positions: Float32[Array, "C T"]


class HeadSums(NamedTuple):
    """Gradients of what all sequences share, of several heads, added up over the chunks of a thread."""

    scores_1: Float32[Array, "H C C"]
    equal_rows: Float32[Array, "H*C+1 d"]
    """Of `HeadTables.rows` from row C on: of what layer 1 writes, and of the constant."""
    keys_2: Float32[Array, "H R dh"]
    values_2: Float32[Array, "H R dh"]
    positions: Float32[Array, "H*T+1 d"]
    Q2: Float32[Array, "H d dh"]
    O2: Float32[Array, "H dh d"]
    W_in: Float32[Array, "d h"]
    read_out_T: Float32[Array, "N h"]
    """Transposed, as in `Sums`."""
    U_T: Float32[Array, "N d"]


class Model(NamedTuple):
    """The weights of a model, and what follows from them."""

    weights: Weights
    tables: Tables | HeadTables
    equals: int
    """The token `=`."""
    scale: float
    """1 / sqrt(d_head)."""


class Gradients(NamedTuple):
    """The gradients of a whole batch."""

    weights: Weights
    tables: Tables | HeadTables
    sums: Sums | HeadSums
    """The sums of the first thread, to which those of the other threads are added."""
    all_sums: Float32[Array, "threads numbers"]
    """The memory of every thread's sums, a row for each thread."""


class Batches(NamedTuple):
    """The sequences of several training steps, B in each, one step after the other, and their losses."""

    tokens: Int64[Array, "steps*B T"]
    labels: Int64[Array, " steps*B"]
    losses: Float32[Array, " B"]
    """The loss of each sequence, at the last step that was taken."""
    loss: Float32[Array, " 1"]
    """The mean of `losses`."""
    loss_in_double: bool
    """Whether the loss is computed in double precision."""
    diverged_at: Int64[Array, " 1"]
    """The step whose loss is not finite, after which nothing is trained; -1 where there is none."""


NO_NUMBERS = np.zeros(0, np.float32)


class Update(NamedTuple):
    """The arrays that AdamW reads and writes, of P numbers, and its settings.

    By default P is 0: one step, which writes the gradients and updates nothing.
    """

    weights: Float32[Array, " P"] = NO_NUMBERS
    grad: Float32[Array, " P"] = NO_NUMBERS
    mean: Float32[Array, " P"] = NO_NUMBERS
    square: Float32[Array, " P"] = NO_NUMBERS
    rates: Float64[Array, " steps"] = np.zeros(1)
    """The learning rate of every step."""
    weight_decay: float = 0.0
    beta1: float = 0.0
    beta2: float = 0.0
    eps: float = 0.0
    first_step: int = 0
    """How many updates were made before."""


def kinds_of(w: Weights) -> tuple[type, type, type]:
    """The classes of the tables, chunks and sums of a model: those for one head, or those for several."""
    return (Tables, Chunk, Sums) if w.Q1.ndim == 2 else (HeadTables, HeadChunk, HeadSums)


def lengths_of(w: Weights, n: int) -> dict[str, int]:
    """The length of each axis in the shapes above, for `n` sequences that pass together."""
    K, d = w.E.shape
    T, dh = len(w.pos), w.Q1.shape[-1]
    H = len(w.Q1) if w.Q1.ndim == 3 else 1
    C = K + T  # rows: tokens, then positions
    S = math.ceil(2 * C / SOME) * SOME  # 2C, and as many more as make whole vectors (`numba_vectors`)
    R, P = (1 + H) * C, (1 + H) * T  # the rows that keys of layer 2 are made of, and those among them of positions
    lengths = {"K": K, "T": T, "C": C, "S": S, "H": H, "R": R, "P": P, "d": d, "dh": dh}
    return lengths | {"h": len(w.W_out), "N": w.U.shape[1], "n": n}


class _Layout(NamedTuple):
    """Where the matrices of a class above are in memory: the one begins at a line of the cache after the other."""

    places: dict[str, tuple[slice, list[int]]]
    """The numbers of each matrix, and its shape, by its name."""
    size: int
    """How many numbers all of them take."""


def _layout(kind: Any, sizes: dict[str, int]) -> _Layout:
    """The layout of the matrices of `kind`, a class above."""
    return _layout_for(kind, tuple(sizes.items()))


@lru_cache(maxsize=64)
def _layout_for(kind: Any, sizes: tuple[tuple[str, int], ...]) -> _Layout:
    """As `_layout`, for sizes that the cache can store, a tuple of pairs.

    jaxtyping has the axes of each matrix in its type, such as "n 3*T+1".
    """
    places, start = {}, 0
    for name, hint in get_type_hints(kind).items():
        shape = [_length(axis, dict(sizes)) for axis in hint.dim_str.split()]
        places[name] = slice(start, start + math.prod(shape)), shape
        start += math.ceil(math.prod(shape) / LINE) * LINE
    return _Layout(places, start)


def _length(axis: str, sizes: dict[str, int]) -> int:
    """The length of an axis such as "T", "n*T" or "4*C+1": a product of letters and numbers, perhaps plus a number."""
    product, _, added = axis.partition("+")
    return math.prod(sizes.get(factor) or int(factor) for factor in product.split("*")) + int(added or 0)


def numbers_of(kind: Any, sizes: dict[str, int]) -> int:
    """How many numbers the matrices of `kind`, a class above, take in memory."""
    return _layout(kind, sizes).size


def zeros(*shape: int) -> Array:
    """New memory. It is 0: products read a few numbers that nothing writes, and those below 1e-38 make them slow."""
    return torch.zeros(shape).numpy()  # torch's begins at a line of the cache


def matrices(kind: Any, sizes: dict[str, int], memory: Array | None = None) -> Any:
    """An instance of `kind`, a class above: views of `memory`, (numbers,), which is new by default."""
    layout = _layout(kind, sizes)
    memory = zeros(layout.size) if memory is None else memory
    return kind(**{name: memory[place].reshape(shape) for name, (place, shape) in layout.places.items()})
