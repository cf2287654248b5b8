"""The arrays of a training step of one model on a CPU (`numba_step`), by name.

All are C-contiguous matrices in single precision, so that every function is compiled once. A name with _T is that of a
transposed matrix, one with g_ that of a gradient. `table.Tables` and `table.Activations` are the same for tensors.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float32, Float64, Int64

Array = np.ndarray


class Weights(NamedTuple):
    """The weights, or their gradients."""

    E: Float32[Array, "K d"]
    pos: Float32[Array, "T d"]
    Q1: Float32[Array, "d dh"]
    K1: Float32[Array, "d dh"]
    V1: Float32[Array, "d dh"]
    O1: Float32[Array, "dh d"]
    Q2: Float32[Array, "d dh"]
    K2: Float32[Array, "d dh"]
    V2: Float32[Array, "d dh"]
    O2: Float32[Array, "dh d"]
    W_in: Float32[Array, "d h"]
    W_out: Float32[Array, "h d"]
    U: Float32[Array, "d N"]


# From the shapes of the next three, `cpu_step` allocates them. C = K + T rows stand for K tokens and T positions; the
# scores of 2C rows have S columns, of which those after 2C only fill up a vector. n sequences pass at a time.


class Tables(NamedTuple):
    """What follows from the weights alone, for all sequences."""

    rows: Float32[Array, "4*C+1 d"]
    """C embeddings; what OV1 makes of each, C; the constant E_= + P_=, 1; what OV2 makes of the first two, 2C."""
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
    """The rows of positions and of E_= + P_=, in the order of `Chunk.amounts`."""
    read_out: Float32[Array, "h N"]
    """W_out W_U."""
    # Transposed copies: a product of MKL takes up to twice as long if its second factor is stored by columns.
    U_T: Float32[Array, "N d"]
    W_in_T: Float32[Array, "h d"]
    read_out_T: Float32[Array, "N h"]
    positions_T: Float32[Array, "d 3*T"]
    position_scores_2: Float32[Array, "S T"]


class Chunk(NamedTuple):
    """What the forward and backward pass of n sequences write."""

    attention_1: Float32[Array, "n*T T"]
    """0 for keys after the query, to which nothing is written."""
    attention_2: Float32[Array, "n T"]
    copied_scores: Float32[Array, "n T"]
    """The layer-2 score of what layer 1 copies from each position."""
    amounts: Float32[Array, "n 3*T+1"]
    """How much of each position's rows `=` uses: in layer 2, by way of layer 1's copies, in layer 1; then 1."""
    scores_2: Float32[Array, "n S"]
    """And then their gradient."""
    resid_mid: Float32[Array, "n d"]
    neurons: Float32[Array, "n h"]
    logits: Float32[Array, "n N"]
    """And then their gradient."""
    g_neurons: Float32[Array, "n h"]
    g_resid: Float32[Array, "n d"]
    g_amounts: Float32[Array, "n 3*T"]
    g_position_scores: Float32[Array, "n T"]
    g_passed_on: Float32[Array, "n T"]
    # Memory of `layer_1_backward`.
    g_by_key: Float32[Array, "T+1 T"]
    g_positions: Float32[Array, "C T"]


class Sums(NamedTuple):
    """Gradients of what all sequences share, added up over the chunks of a thread."""

    scores_1: Float32[Array, "C C"]
    scores_2_T: Float32[Array, "C+1 S"]
    outputs: Float32[Array, "3*C+1 d"]
    positions: Float32[Array, "3*T+1 d"]
    W_in: Float32[Array, "d h"]
    read_out_T: Float32[Array, "N h"]
    """Transposed, as MKL's products take longer where the result has fewer columns than rows."""
    U_T: Float32[Array, "N d"]


class Shared(NamedTuple):
    """What all threads read and write."""

    weights: Weights
    grads: Weights
    tables: Tables
    g_tables: Tables
    sums: Sums
    """Those of the first thread, to which those of the others are added."""
    all_sums: Float32[Array, "threads numbers"]
    """The memory of every thread's sums."""


class Batches(NamedTuple):
    """The sequences of several training steps, B in each, one step after the other, and their losses."""

    tokens: Int64[Array, "steps*B T"]
    labels: Int64[Array, " steps*B"]
    losses: Float32[Array, " B"]
    """Of each sequence of the last step that was taken."""
    loss: Float32[Array, " 1"]
    """Their mean."""
    diverged_at: Int64[Array, " 1"]
    """The step whose loss is not finite, after which nothing is trained; -1 where there is none."""


class Update(NamedTuple):
    """What AdamW reads and writes, P numbers each, and how; P = 0 where only gradients are asked for."""

    weights: Float32[Array, " P"]
    grad: Float32[Array, " P"]
    mean: Float32[Array, " P"]
    square: Float32[Array, " P"]
    rates: Float64[Array, " steps"]
    """The learning rate of every step."""
    settings: tuple[float, float, float, float]
    """Weight decay, beta1, beta2 and eps."""
    first_step: int
    """How many updates were made before."""


class Constants(NamedTuple):
    """The token `=`, 1 / sqrt(d_head), and whether the loss is computed in double precision."""

    equals: int
    scale: float
    loss_in_double: bool
