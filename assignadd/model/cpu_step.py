"""Training and answers of one model on a CPU by compiled code (`kernels.numba_step`): its arrays, threads, checks."""

from __future__ import annotations

import math
from functools import cache
from typing import Any, NamedTuple, get_type_hints

import numpy as np
import torch
from jaxtyping import Float32, Float64, Int64
from torch import Tensor

from assignadd.model.kernels import numba_step
from assignadd.model.kernels.blas import has_threads, on_threads
from assignadd.model.kernels.numba_vectors import SOME
from assignadd.model.kernels.tensor import Moments
from assignadd.model.stack import Stack
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


# The arrays of the compiled step, besides the weights (`table.Weights`). Matrices are C-contiguous and in single
# precision, so that every function is compiled once. A name with _T is that of a transposed matrix, one with g_ that of
# a gradient. docs/names.md, "Words of the fast pass", says what rows, copies and amounts are. `_matrices` allocates the
# first three classes by the shapes in their types, which `_sizes` explains.


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

    weights: Weights
    tables: Tables
    equals: int
    """The token `=`."""
    scale: float
    """1 / sqrt(d_head)."""


class Gradients(NamedTuple):
    """The gradients of a whole batch."""

    weights: Weights
    tables: Tables
    sums: Sums
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


def threads_for(sequences: int) -> int:
    """The number of threads for this number of sequences: as many as torch has, unless each would have too few."""
    if not has_threads():
        return 1
    return max(1, min(torch.get_num_threads(), sequences // FEWEST_SEQUENCES))


def chunk_size(sequences: int) -> int:
    """How many of a thread's sequences pass together: CHUNK with MKL, all with other libraries, which gain little."""
    return min(sequences, CHUNK) if torch.backends.mkl.is_available() else sequences


class CompiledGradient:
    """Computes loss and gradient of the only model of a stack, or trains it for several steps."""

    def __init__(self, stack: Stack):
        self.flat = torch.empty_like(stack.flat)
        """The gradient, (1, P)."""
        self._stack = stack
        self._weights, self._grads = _arrays_of(stack), _arrays_of(Stack(stack.config, self.flat))
        self._memory: TrainingMemory | None = None

    def __call__(self, batch: Batch) -> Tensor:
        """The mean cross entropy of a batch, (1, B, T), as a tensor (1,); writes its gradient into `flat`."""
        loss, never = self.flat.new_empty(1), torch.full((1,), -1)
        self._run(batch, loss, never, Update())
        return loss

    def train(
        self, batches: Batch, loss: Tensor, diverged_at: Tensor, moments: Moments, rates: Tensor, first: int
    ) -> None:
        """Takes a training step with each of n batches, tokens (n, 1, B, T), at its learning rate of `rates`, (n,).

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

        Raises a ValueError for other shapes: compiled code would read past the end of an array.
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
        gradients = Gradients(self._grads, memory.g_tables, memory.sums_of_thread[0], memory.all_sums)
        of_threads = zip(memory.chunk_of_thread, memory.sums_of_thread, strict=True)
        on_threads(numba_step.train, [(model, gradients, chunk, sums, arrays, update) for chunk, sums in of_threads])

    def _memory_for(self, batch_size: int) -> TrainingMemory:
        """Memory for batches of this size, made anew where the size or torch's number of threads has changed."""
        memory, threads = self._memory, threads_for(batch_size)
        if memory is None or (memory.batch_size, memory.threads) != (batch_size, threads):
            memory = self._memory = TrainingMemory(self._weights, batch_size, threads)
        return memory


class TrainingMemory:
    """The arrays that a training step writes besides gradients and weights; every thread has its chunk and its sums."""

    def __init__(self, w: Weights, batch_size: int, threads: int):
        self.batch_size, self.threads = batch_size, threads
        sizes = _sizes(w, chunk_size(math.ceil(batch_size / threads)))
        self.losses = np.zeros(batch_size, np.float32)
        self.tables = _matrices(Tables, sizes)
        self.g_tables = _matrices(Tables, sizes)
        self.chunk_of_thread = [_matrices(Chunk, sizes) for _ in range(threads)]
        self.all_sums = _zeros(threads, _numbers_of(Sums, sizes))
        self.sums_of_thread = [_matrices(Sums, sizes, row) for row in self.all_sums]


def answer_logits(w: Weights, tokens: Tensor, equals: int, scale: float) -> Tensor:
    """Logits (B, N) of one model for any number of sequences, (B, T), in compiled code.

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


def _arrays(w: Weights) -> Weights:
    """The weights as arrays, which are views of the tensors where these are contiguous."""
    arrays: list[Any] = [weight.detach().contiguous().numpy() for weight in w]
    return Weights(*arrays)


def _arrays_of(stack: Stack) -> Weights:
    """The weights of the only model of a stack as arrays without the axis M."""
    return _arrays(Weights.of(stack.of_model(0)))


def _integers(x: Tensor) -> Array:
    """The numbers as an array of 64-bit integers without gaps, which is what the compiled functions take."""
    return x.to(torch.int64).contiguous().numpy()


def _sizes(w: Weights, n: int) -> dict[str, int]:
    """The value of each letter in the shapes above, for `n` sequences that pass together."""
    K, d = w.E.shape
    T, dh = len(w.pos), w.Q1.shape[1]
    C = K + T  # rows: tokens, then positions
    S = math.ceil(2 * C / SOME) * SOME  # 2C, and as many more as make whole vectors (`numba_vectors`)
    return {"K": K, "T": T, "C": C, "S": S, "d": d, "dh": dh, "h": len(w.W_out), "N": w.U.shape[1], "n": n}


@cache
def _axes(kind: Any) -> dict[str, list[str]]:
    """The axes of each matrix of `kind`, a class above, by its name: such as ["n", "3*T+1"]."""
    return {name: hint.dim_str.split() for name, hint in get_type_hints(kind).items()}  # jaxtyping's


def _shapes(kind: Any, sizes: dict[str, int]) -> dict[str, list[int]]:
    """The shape of each matrix of `kind`, a class above, by its name."""
    return {name: [_length(axis, sizes) for axis in axes] for name, axes in _axes(kind).items()}


def _length(axis: str, sizes: dict[str, int]) -> int:
    """The length of an axis such as "T", "n*T" or "4*C+1": a product of letters and numbers, perhaps plus a number."""
    product, _, added = axis.partition("+")
    return math.prod(sizes.get(factor) or int(factor) for factor in product.split("*")) + int(added or 0)


def _in_whole_lines(shape: list[int]) -> int:
    """How many numbers a matrix takes in memory, so that the next one begins at a line of the cache."""
    return math.ceil(math.prod(shape) / LINE) * LINE


def _numbers_of(kind: Any, sizes: dict[str, int]) -> int:
    """How many numbers the matrices of `kind`, a class above, take in memory."""
    return sum(_in_whole_lines(shape) for shape in _shapes(kind, sizes).values())


def _zeros(*shape: int) -> Array:
    """New memory. It is 0: products read a few numbers that nothing writes, and those below 1e-38 make them slow."""
    return torch.zeros(shape).numpy()  # torch's begins at a line of the cache


def _matrices(kind: Any, sizes: dict[str, int], memory: Array | None = None) -> Any:
    """An instance of `kind`, a class above: views of `memory`, (numbers,), which is new by default."""
    memory = _zeros(_numbers_of(kind, sizes)) if memory is None else memory
    matrices, start = {}, 0
    for name, shape in _shapes(kind, sizes).items():
        matrices[name] = memory[start : start + math.prod(shape)].reshape(shape)
        start += _in_whole_lines(shape)
    return kind(**matrices)
