"""Training and answers of one model on a CPU by compiled code (`kernels.numba_step`): its arrays, threads, checks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple, get_type_hints

import numpy as np
import torch
from jaxtyping import Float32, Float64, Int64
from torch import Tensor

from assignadd.model.kernels import numba_step
from assignadd.model.kernels.blas import has_threads, on_threads
from assignadd.model.kernels.numba_vectors import SOME
from assignadd.model.kernels.tensor import Moments
from assignadd.model.stack import Stack, views
from assignadd.model.table import Weights
from assignadd.task.sampler import Batch
from assignadd.task.vocabulary import Vocabulary

Array = np.ndarray
# Sequences that pass together. With fewer, a step of the paper's model takes longer; with more, as long or, in a small
# cache, longer.
CHUNK = 128
# Sequences that a thread has at least: small products are slow, and each thread's gradients are added to the first's.
FEWEST_SEQUENCES = 64
# Numbers of a line of the processor's cache, where each matrix begins: this saves 5 % of a step.
LINE = 16


# The arrays of the compiled step. Matrices are C-contiguous and in single precision, so that every function is compiled
# once. A name with _T is that of a transposed matrix, one with g_ that of a gradient. docs/names.md, "Words of the fast
# pass", says what rows, copies and amounts are.


class WeightArrays(NamedTuple):
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


# From the shapes of the next three, `_matrices` allocates them. The scores of 2C rows have S columns, of which those
# after 2C only fill up a vector. n sequences pass at a time.


class Tables(NamedTuple):
    """The tables that follow from the weights alone, the same for all sequences."""

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
    layer 1's copies, T for layer 1; then 1 (`numba_step.columns_of_amounts`)."""
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
    # Memory of `layer_1_backward`.
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


class Model(NamedTuple):
    """The weights of a model, and what follows from them."""

    weights: WeightArrays
    tables: Tables
    equals: int
    """The token `=`."""
    scale: float
    """1 / sqrt(d_head)."""


class Gradients(NamedTuple):
    """The gradients of a whole batch."""

    weights: WeightArrays
    tables: Tables
    sums: Sums
    """The sums of the first thread, to which those of the other threads are added."""
    all_sums: Float32[Array, "threads numbers"]
    """The memory of every thread's sums."""


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


class Update(NamedTuple):
    """The arrays that AdamW reads and writes, of P numbers, and its settings; P = 0 where only gradients are wanted."""

    weights: Float32[Array, " P"]
    grad: Float32[Array, " P"]
    mean: Float32[Array, " P"]
    square: Float32[Array, " P"]
    rates: Float64[Array, " steps"]
    """The learning rate of every step."""
    weight_decay: float
    beta1: float
    beta2: float
    eps: float
    first_step: int
    """How many updates were made before."""


def threads_for(sequences: int) -> int:
    """The number of threads for this number of sequences: as many as torch has, unless each would have too few."""
    if not has_threads():
        return 1
    return max(1, min(torch.get_num_threads(), sequences // FEWEST_SEQUENCES))


def chunk_size(sequences: int) -> int:
    """The number of sequences that pass together: a chunk with MKL, all with other libraries, which gain little."""
    return min(sequences, CHUNK) if torch.backends.mkl.is_available() else sequences


class CompiledGradient:
    """Computes loss and gradient of the only model of a stack, or trains it for several steps."""

    def __init__(self, stack: Stack):
        self.flat = torch.empty_like(stack.flat)
        """The gradient, (1, P)."""
        self._stack = stack
        self._weights, self._grads = _arrays_of_one(stack.weights), _arrays_of_one(views(stack.config, self.flat))
        self._memory: TrainingMemory | None = None

    def __call__(self, batch: Batch) -> Tensor:
        """The mean cross entropy of a batch, (1, B, T), as a tensor (1,); writes its gradient into `flat`."""
        loss, never = self.flat.new_empty(1), torch.full((1,), -1)
        none = np.zeros(0, np.float32)
        without_weights = Update(
            weights=none, grad=none, mean=none, square=none, rates=np.zeros(1),
            weight_decay=0.0, beta1=0.0, beta2=0.0, eps=0.0, first_step=0,
        )  # fmt: skip
        self._run(batch, loss, never, without_weights)
        return loss

    def train(
        self, batches: Batch, loss: Tensor, diverged_at: Tensor, moments: Moments, rates: Tensor, first: int
    ) -> None:
        """Takes a training step with each of these batches, (n, 1, B, T), at its learning rate of `rates`, (n,).

        `first` updates were made before. Writes the last batch's loss into `loss`, (1,). At a loss that is not finite,
        its step is written into `diverged_at`, (1,), and nothing more is trained.
        """
        (optim,) = moments.optims  # of the only model
        update = Update(
            weights=self._stack.flat[0].numpy(),
            grad=self.flat[0].numpy(),
            mean=moments.mean[0].numpy(),
            square=moments.square[0].numpy(),
            rates=rates.numpy(),
            weight_decay=optim.weight_decay,
            beta1=optim.beta1,
            beta2=optim.beta2,
            eps=optim.eps,
            first_step=first,
        )
        self._run(batches, loss, diverged_at, update)

    def _run(self, batches: Batch, loss: Tensor, diverged_at: Tensor, update: Update) -> None:
        """Takes a step for each of the update's learning rates by compiled code, on every thread.

        The shapes are checked here: compiled code would read past the end of an array.
        """
        config = self._stack.config
        T, B = config.task.length, batches.tokens.shape[-2]
        n_sequences = len(update.rates) * B
        if batches.tokens.shape[-1] != T or batches.tokens.numel() != n_sequences * T:
            raise ValueError(f"tokens have shape {tuple(batches.tokens.shape)}: expected sequences of {T} tokens")
        if batches.labels.numel() != n_sequences or batches.labels.shape[-1] != B:
            raise ValueError(f"labels have shape {tuple(batches.labels.shape)}: expected {B} for each batch")
        memory = self._memory_for(B)
        arrays = Batches(
            tokens=_integers(batches.tokens).reshape(n_sequences, T),
            labels=_integers(batches.labels).reshape(n_sequences),
            losses=memory.losses,
            loss=loss.numpy(),
            loss_in_double=config.numerics.loss_in_float64,
            diverged_at=diverged_at.numpy(),
        )
        scale = 1 / math.sqrt(config.model.d_head)
        model = Model(self._weights, memory.tables, Vocabulary(config.task).equals, scale)
        gradients = Gradients(self._grads, memory.g_tables, memory.sums[0], memory.all_sums)
        arguments = []  # of `train` on each thread
        for chunk, sums in zip(memory.chunks, memory.sums, strict=True):
            arguments.append((model, gradients, chunk, sums, arrays, update))
        on_threads(numba_step.train, arguments)

    def _memory_for(self, batch_size: int) -> TrainingMemory:
        """Memory for batches of this size, made anew where the size or torch's number of threads has changed."""
        memory, threads = self._memory, threads_for(batch_size)
        if memory is None or len(memory.losses) != batch_size or len(memory.chunks) != threads:
            memory = self._memory = TrainingMemory(self._weights, batch_size, threads)
        return memory


class TrainingMemory:
    """The arrays that a training step writes besides gradients and weights; every thread has its chunk and its sums."""

    def __init__(self, w: WeightArrays, batch_size: int, threads: int):
        """Allocates the arrays; the arrays of `sums` are in the rows of `all_sums`, one row for each thread."""
        sizes = _sizes(w, chunk_size(math.ceil(batch_size / threads)))
        self.losses = np.zeros(batch_size, np.float32)
        self.tables = _matrices(Tables, sizes)
        self.g_tables = _matrices(Tables, sizes)
        self.chunks = [_matrices(Chunk, sizes) for _ in range(threads)]
        self.all_sums = _zeros(threads, _size(_shapes(Sums, sizes)))
        self.sums = [_matrices(Sums, sizes, memory) for memory in self.all_sums]


def answer_logits(w: Weights, tokens: Tensor, equals: int, scale: float) -> Tensor:
    """Logits (n, N) of one model for any number of sequences, (n, T), in compiled code.

    `equals` is the token `=`, `scale` is 1 / sqrt(d_head).
    """
    if tokens.shape[1:] != (len(w.pos),):
        raise ValueError(f"tokens have shape {tuple(tokens.shape)}: expected sequences of {len(w.pos)} tokens")
    weights, logits = _arrays(w), np.empty((len(tokens), w.U.shape[1]), np.float32)
    threads = threads_for(len(tokens))
    sizes = _sizes(weights, max(1, chunk_size(math.ceil(len(tokens) / threads))))
    model, sequences = Model(weights, _matrices(Tables, sizes), equals, scale), _integers(tokens)
    on_threads(numba_step.answer, [(model, _matrices(Chunk, sizes), sequences, logits) for _ in range(threads)])
    return torch.from_numpy(logits)


# The letters in the shapes above and what they stand for.
Sizes = tuple[tuple[str, int], ...]


def _arrays(w: Weights) -> WeightArrays:
    """The weights as arrays, which are views of the tensors where these are contiguous."""
    return WeightArrays(*[getattr(w, name).detach().contiguous().numpy() for name in WeightArrays._fields])


def _arrays_of_one(stacked: Mapping[str, Tensor]) -> WeightArrays:
    """The weights, by name, of a stack of one model as arrays without the axis M."""
    return _arrays(Weights.of({name: weight[0] for name, weight in stacked.items()}))


def _integers(x: Tensor) -> Array:
    """The numbers as an array of 64-bit integers without gaps, which is what the compiled functions take."""
    return x.to(torch.int64).contiguous().numpy()


def _sizes(w: WeightArrays, n: int) -> Sizes:
    """The value of each letter in the shapes above, for `n` sequences that pass together."""
    K, d = w.E.shape
    T, dh = len(w.pos), w.Q1.shape[1]
    h, N = len(w.W_out), w.U.shape[1]
    C = K + T
    S = math.ceil(2 * C / SOME) * SOME  # 2C, and as many more as make whole vectors (`numba_vectors`)
    return (("K", K), ("T", T), ("C", C), ("S", S), ("d", d), ("dh", dh), ("h", h), ("N", N), ("n", n))


@lru_cache(maxsize=64)
def _shapes(kind: Any, sizes: Sizes) -> dict[str, tuple[int, ...]]:
    """The shapes of the matrices that `kind`, a class above, declares, by name, for these sizes."""
    hints = get_type_hints(kind)  # jaxtyping's: `dim_str` is such as "n 3*T+1"
    return {name: tuple(_length(axis, dict(sizes)) for axis in hint.dim_str.split()) for name, hint in hints.items()}


def _length(axis: str, sizes: dict[str, int]) -> int:
    """The length of an axis such as "T", "n*T" or "4*C+1": a product of letters and numbers, perhaps plus a number."""
    product, _, added = axis.partition("+")
    return math.prod(sizes.get(factor) or int(factor) for factor in product.split("*")) + int(added or 0)


def _size(shapes: Mapping[str, tuple[int, ...]]) -> int:
    """How many numbers matrices of these shapes take in memory, one after the other."""
    return sum(_in_whole_cache_lines(shape) for shape in shapes.values())


def _in_whole_cache_lines(shape: tuple[int, ...]) -> int:
    """How many numbers a matrix takes in memory, so that the next one begins at a line of the cache."""
    return math.ceil(math.prod(shape) / LINE) * LINE


def _zeros(*shape: int) -> Array:
    """New memory. It is 0: products read a few numbers that nothing writes, and those below 1e-38 make them slow."""
    return torch.zeros(shape).numpy()  # torch's begins at a line of the cache


def _matrices(kind: Any, sizes: Sizes, memory: Array | None = None) -> Any:
    """An instance of `kind`, one of the classes above: its matrices, for these sizes, are views of the memory.

    They follow one another in `memory`, (numbers,), which is new by default.
    """
    shapes = _shapes(kind, sizes)
    memory = _zeros(_size(shapes)) if memory is None else memory
    matrices, start = {}, 0
    for name, shape in shapes.items():
        matrices[name] = memory[start : start + math.prod(shape)].reshape(shape)
        start += _in_whole_cache_lines(shape)
    return kind(**matrices)
