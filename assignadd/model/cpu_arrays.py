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

from assignadd.model.kernels.blas import BYTES
from assignadd.model.kernels.numba_vectors import KEYS, LANES, NUMBERS, SOME
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
    """The tables of several heads.

    "all" is H w: the columns of all heads beside one another, each with as many zeros behind its dh numbers as make
    whole vectors. Where an axis is of lanes, the heads of layer 1 stand there, LANES in each block, and lanes without a
    head are 0.
    """

    rows: Float32[Array, "R+1 d"]
    """The embeddings [E; P], C rows; O1 of all heads, one below the other; the constant E_= + P_=, 1."""
    queries_1: Float32[Array, "H C dh"]
    keys_1: Float32[Array, "H C dh"]
    values_1: Float32[Array, "C all"]
    scores_1: Float32[Array, "H C C"]
    factors_of_head: Float32[Array, "H C C"]
    """Exponentials of the scores (`numba_functions.factors_of`)."""
    factors_1: Float32[Array, "blocks C C lanes"]
    """The same with the heads in lanes."""
    no_head: Float32[Array, "blocks lanes"]
    """1 in lanes without a head, 0 in the others."""
    V1: Float32[Array, "d all"]
    Q2: Float32[Array, "d all"]
    K2: Float32[Array, "d all"]
    V2: Float32[Array, "d all"]
    O2: Float32[Array, "all d"]
    keys_2: Float32[Array, "R all"]
    """Of the first R of `rows`: the keys of the embeddings, C rows; below them O1 K2."""
    values_2: Float32[Array, "R all"]
    """The same with V2."""
    read_out: Float32[Array, "h N"]
    """W_out W_U."""
    # Transposed copies, as in `Tables`.
    U_T: Float32[Array, "N d"]
    W_in_T: Float32[Array, "h d"]
    read_out_T: Float32[Array, "N h"]
    O1_T: Float32[Array, "d all"]
    Q2_T: Float32[Array, "all d"]
    O2_T: Float32[Array, "d all"]
    copied_keys_T: Float32[Array, "all all"]
    """Of `keys_2`, O1 K2."""
    copied_values_T: Float32[Array, "all all"]


class HeadChunk(NamedTuple):
    """What the forward and the backward pass of several heads write for the n sequences of a chunk.

    Axes H are of the heads of layer 2. Those of layer 1 are in lanes. Behind the T keys are more, which are 0, up to a
    multiple of KEYS.
    """

    attention_1: Float32[Array, "blocks n pairs lanes"]
    """The weights of the first query's keys, then those of the next, of each `numba_heads_functions.keys_of` it."""
    attention_of_equals: Float32[Array, "blocks n 1 keys lanes"]
    """Of these, the weights of the last query."""
    read_1: Float32[Array, "n all+1"]
    """What the heads of layer 1 read for `=`: their values, weighted; then 1 for the constant."""
    resid_pre: Float32[Array, "n d"]
    """The residual of `=` after layer 1."""
    queries_2: Float32[Array, "n all"]
    """The queries of `=`, times 1 / sqrt(d_head)."""
    queries_of_copies: Float32[Array, "n H*all"]
    """The same as queries of the values of layer 1: times (O1 K2)^T. Later the gradients."""
    scores_2: Float32[Array, "blocks n 1 keys lanes"]
    """The score of each position's embeddings; the heads of layer 2 are in lanes here."""
    copied_scores: Float32[Array, "blocks n H keys lanes"]
    """The score of what each head of layer 1 copies from each position."""
    attention_2: Float32[Array, "blocks n 1 keys lanes"]
    passed_on: Float32[Array, "blocks n H keys lanes"]
    """How much of each position's copies is passed on to `=`."""
    read_copies: Float32[Array, "n H*all"]
    """What each head of layer 2 reads of the values of each head of layer 1. Later the gradients."""
    read_2: Float32[Array, "n all"]
    """What the heads read: values, weighted by their attention and by what it passes on."""
    resid_mid: Float32[Array, "n d"]
    neurons: Float32[Array, "n h"]
    logits: Float32[Array, "n N"]
    """The logits; after `cross_entropy`, their gradient."""
    g_neurons: Float32[Array, "n h"]
    g_resid: Float32[Array, "n d"]
    g_read_2: Float32[Array, "n all"]
    g_attention_2: Float32[Array, "blocks n 1 keys lanes"]
    """Without what goes through the copies."""
    g_passed_on: Float32[Array, "blocks n H keys lanes"]
    g_scores_2: Float32[Array, "blocks n 1 keys lanes"]
    g_copied_scores: Float32[Array, "blocks n H keys lanes"]
    g_queries_2: Float32[Array, "n all"]
    g_read_1: Float32[Array, "n all"]
    g_attention_of_equals: Float32[Array, "blocks n 1 keys lanes"]
    # Scratch memory: the rows of a sequence, the scores of a query, and two of `layer_1_backward`.
    rows: Float32[Array, "T all"]
    of_keys: Float32[Array, " T"]
    g_row: Float32[Array, "keys lanes"]
    g_positions: Float32[Array, "C T lanes"]


class HeadSums(NamedTuple):
    """Gradients of what all sequences share, of several heads, added up over the chunks of a thread."""

    scores_1: Float32[Array, "blocks C C lanes"]
    values_1: Float32[Array, "C all"]
    equal_rows: Float32[Array, "all+1 d"]
    """Of `HeadTables.rows` from row C on: of O1, and of the constant."""
    keys_2: Float32[Array, "R all"]
    values_2: Float32[Array, "R all"]
    Q2: Float32[Array, "d all"]
    O2: Float32[Array, "all d"]
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
    lengths = {"K": K, "T": T, "C": C, "S": S, "H": H, "d": d, "dh": dh, "h": len(w.W_out), "N": w.U.shape[1], "n": n}
    # Of several heads: widths, T, and pairs of query and key in whole vectors; rows that keys of layer 2 are made of.
    width = math.ceil(dh / NUMBERS) * NUMBERS
    keys = math.ceil(T / KEYS) * KEYS
    pairs = sum(math.ceil((query + 1) / KEYS) * KEYS for query in range(T))
    lengths |= {"w": width, "all": H * width, "R": C + H * width, "keys": keys, "pairs": pairs}
    return lengths | {"blocks": math.ceil(H / LANES), "lanes": LANES}


@lru_cache(maxsize=64)
def _layout(kind: Any, lengths: tuple[tuple[str, int], ...]) -> tuple[dict[str, tuple[slice, Any, list[int]]], int]:
    """Where the matrices of `kind`, a class above, are in memory, and how many numbers of single precision all take.

    For the name of each matrix: its memory, which begins at a line of the cache, the type of its numbers and its shape.
    jaxtyping has the axes of each matrix in its type, such as "n 3*T+1"; `lengths` are pairs of a name and a length.
    """
    places, start = {}, 0
    for name, hint in get_type_hints(kind).items():
        shape = [_length(axis, dict(lengths)) for axis in hint.dim_str.split()]
        type_of_numbers = np.dtype(hint.dtypes[0])
        size = math.prod(shape) * type_of_numbers.itemsize // BYTES
        places[name] = slice(start, start + size), type_of_numbers, shape
        start += math.ceil(size / LINE) * LINE
    return places, start


def _length(axis: str, lengths: dict[str, int]) -> int:
    """The length of an axis such as "T", "n*T" or "4*C+1": a product of names and numbers, perhaps plus another one."""
    product, _, added = axis.partition("+")
    of_product = math.prod(lengths.get(factor) or int(factor) for factor in product.split("*"))
    return of_product + (lengths.get(added) or int(added or 0))


def numbers_of(kind: Any, lengths: dict[str, int]) -> int:
    """How many numbers the matrices of `kind`, a class above, take in memory."""
    return _layout(kind, tuple(lengths.items()))[1]


def zeros(*shape: int) -> Array:
    """New memory, all 0, as products also read numbers that nothing writes.

    Some of them have to be 0, such as the attention to later keys; the others are padding, in which numbers below 1e-38
    other than 0 would make products slow.
    """
    return torch.zeros(shape).numpy()  # torch's begins at a line of the cache


def matrices(kind: Any, lengths: dict[str, int], memory: Array | None = None) -> Any:
    """An instance of `kind`, a class above: views of `memory`, (numbers,), which is new by default."""
    places, size = _layout(kind, tuple(lengths.items()))
    memory = zeros(size) if memory is None else memory
    arrays = {}
    for name, (place, type_of_numbers, shape) in places.items():
        arrays[name] = memory[place].view(type_of_numbers).reshape(shape)
    return kind(**arrays)
