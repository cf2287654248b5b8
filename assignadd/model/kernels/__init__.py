"""The operations of a training step between its matrix products, with a choice of kernels for them.

`tensor` has them in tensor operations: this is the specification, and serves every device and precision. `numba_cpu` and
`triton_gpu` are the same operations compiled for a CPU and for a GPU, in single precision. Tests hold them equal.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from assignadd.config import Config, Optim
from assignadd.task.vocabulary import Vocabulary

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

# A GPU program keeps a pattern of T x T keys and queries in its registers.
LONGEST_ON_GPU = 32


# Where a tensor that lasts is kept: as it is, or in memory that processes share.
Placed = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Moments:
    """What AdamW keeps of a stack: running means of the gradient and of its square, and each model's settings."""

    mean: Float[Tensor, "M P"]
    square: Float[Tensor, "M P"]
    optims: Sequence[Optim]
    rate: Float[Tensor, "M 1"]
    decay: Float[Tensor, "M 1"]
    """Learning rate, and learning rate times weight decay."""

    @classmethod
    def zeros(cls, flat: Tensor, optims: Sequence[Optim], placed: Placed = lambda tensor: tensor) -> Moments:
        column = partial(torch.tensor, dtype=flat.dtype, device=flat.device)
        rate, decay = column([[o.lr] for o in optims]), column([[o.lr * o.weight_decay] for o in optims])
        return cls(placed(torch.zeros_like(flat)), placed(torch.zeros_like(flat)), optims, rate, decay)


class Kernels(Protocol):
    """C = K + T rows of a table stand for K tokens and T positions. `...` is the axis M of a stack, or nothing."""

    token_dtype: torch.dtype
    """What the tokens of a training batch are stored as."""

    def matrix(self, tokens: Tensor, width: int, like: Tensor) -> Float[Tensor, "*M B width"]:
        """A matrix with a row for each sequence, not initialised, in the memory order these kernels read fastest."""

    def layer_1(
        self, scores: Float[Tensor, "*M C C"], tokens: Int[Tensor, "*M B T"], usage: Float[Tensor, "*M B rows"]
    ) -> Float[Tensor, "*M B T T"]:
        """Attention (query, key) of layer 1; writes what `=` holds of each row into the first C columns of `usage`."""

    def layer_2(
        self,
        scores: Float[Tensor, "*M B both"],
        tokens: Int[Tensor, "*M B T"],
        attention_1: Float[Tensor, "*M B T T"],
        usage: Float[Tensor, "*M B rows"],
    ) -> tuple[Float[Tensor, "*M B T"], Float[Tensor, "*M B T"]]:
        """Attention of `=` in layer 2, and the score of each position's rows once layer 1 has copied them.

        `scores` are those of all 2C rows: embeddings, and what layer 1 copies of them. Writes the last 2C columns of `usage`.
        """

    def layer_2_backward(
        self,
        g_usage: Float[Tensor, "*M B rows"],
        tokens: Int[Tensor, "*M B T"],
        attention_1: Float[Tensor, "*M B T T"],
        attention_2: Float[Tensor, "*M B T"],
    ) -> tuple[Float[Tensor, "*M B both"], Float[Tensor, "*M B T"], Float[Tensor, "*M B T"]]:
        """Gradients of the scores of all 2C rows, of each position's score, and of what each position passes on."""

    def layer_1_backward(
        self,
        g_usage: Float[Tensor, "*M B rows"],
        tokens: Int[Tensor, "*M B T"],
        attention_1: Float[Tensor, "*M B T T"],
        attention_2: Float[Tensor, "*M B T"],
        copied_scores: Float[Tensor, "*M B T"],
        g_position_scores: Float[Tensor, "*M B T"],
        g_passed_on: Float[Tensor, "*M B T"],
    ) -> Float[Tensor, "*M C C"]:
        """Gradient of layer 1's score table."""

    def cross_entropy(
        self, logits: Float[Tensor, "*M B N"], labels: Int[Tensor, "*M B"]
    ) -> tuple[Float[Tensor, "*M"], Float[Tensor, "*M B N"]]:
        """Mean cross entropy of each model, and its gradient (in place of the logits, perhaps)."""

    def adamw(
        self,
        flat: Float[Tensor, "M P"],
        grad: Float[Tensor, "M P"],
        moments: Moments,
        alive: Bool[Tensor, " M"],
        count: Int[Tensor, ""],
    ) -> None:
        """Update number `count` of the weights (Loshchilov and Hutter, 2019); a model that is not alive keeps its own."""


def kernels_for(config: Config, device: torch.device, stacked: bool) -> Kernels:
    """The fastest kernels there are for these models on this device; those for a GPU take stacks alone."""
    from assignadd.model.kernels.tensor import TensorKernels

    K, T = Vocabulary(config.task).size, config.task.length
    single = config.numerics.dtype == "float32"
    if single and device.type == "cpu" and _installed("numba"):
        from assignadd.model.kernels.numba_cpu import CompiledKernels

        return CompiledKernels(K, T, device)
    if single and stacked and device.type == "cuda" and T <= LONGEST_ON_GPU and _installed("triton"):
        from assignadd.model.kernels.triton_gpu import TritonKernels

        return TritonKernels(K, T, device)
    return TensorKernels(K, T, device)


def _installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None
