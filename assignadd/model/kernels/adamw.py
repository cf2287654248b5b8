"""AdamW in tensor operations: for the models of a stack, and for a few weights that are fitted outside of training."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.optim.adamw import adamw

from assignadd.config import Optim

# Where a tensor that lasts is stored: where it is, or in memory that processes share.
Placed = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Moments:
    """What AdamW keeps of a stack: running means of the gradient and of its square, and each model's settings."""

    mean: Float[Tensor, "M P"]
    square: Float[Tensor, "M P"]
    optims: Sequence[Optim]
    exact_rate: Float[Tensor, "M 1"]
    """Learning rate in double precision."""
    rate: Float[Tensor, "M 1"]
    decay: Float[Tensor, "M 1"]
    """Learning rate, and learning rate times weight decay."""
    averaging: Float[Tensor, "M 4"]
    """1 - beta1, beta2, 1 - beta2 and eps."""
    betas: Float[Tensor, "M 2"]
    """beta1 and beta2 in double precision: in float32, 1 - 0.999 has only five correct digits."""

    @classmethod
    def zeros(cls, flat: Tensor, optims: Sequence[Optim], placed: Placed = lambda tensor: tensor) -> Moments:
        column = partial(torch.tensor, dtype=flat.dtype, device=flat.device)
        double = partial(torch.tensor, dtype=torch.float64, device=flat.device)
        rate, decay = column([[o.lr] for o in optims]), column([[o.lr * o.weight_decay] for o in optims])
        averaging = column([[1 - o.beta1, o.beta2, 1 - o.beta2, o.eps] for o in optims])
        betas, exact_rate = double([[o.beta1, o.beta2] for o in optims]), double([[o.lr] for o in optims])
        mean, square = placed(torch.zeros_like(flat)), placed(torch.zeros_like(flat))
        return cls(mean, square, optims, exact_rate, rate, decay, averaging, betas)

    def corrections(self, count: Int[Tensor, ""]) -> tuple[Float[Tensor, "M 1"], Float[Tensor, "M 1"]]:
        """The step size, with the correction for the mean's start at 0, and the root of that for the square's."""
        first, second = (1 - self.betas ** count.double()).split(1, 1)
        return (self.rate / first).to(self.rate.dtype), second.sqrt().to(self.rate.dtype)


def fused_adamw(flat: Tensor, grad: Tensor, moments: Moments, loss: Tensor, diverged_at: Tensor, count: Tensor) -> None:
    """Model by model through the kernel behind torch.optim.AdamW(fused=True), which reads memory once.

    Called directly, since `torch.optim.adamw.adamw`, which gives the same bits, takes 40 us more for each call.
    """
    steps, rates, losses, ends = count.float(), moments.exact_rate.tolist(), loss.tolist(), diverged_at.tolist()
    for i, o in enumerate(moments.optims):
        if ends[i] < 0 and not math.isfinite(losses[i]):
            diverged_at[i] = count - 1
        elif ends[i] < 0:
            torch._fused_adamw_(
                [flat[i]], [grad[i]], [moments.mean[i]], [moments.square[i]], [], [steps],
                lr=rates[i][0], beta1=o.beta1, beta2=o.beta2, weight_decay=o.weight_decay,
                eps=o.eps, amsgrad=False, maximize=False,
            )  # fmt: skip


def stacked_adamw(
    flat: Tensor, grad: Tensor, moments: Moments, loss: Tensor, diverged_at: Tensor, count: Tensor
) -> None:
    """All models at once, without a branch that would have to wait for the device."""
    diverged_at.copy_(torch.where(loss.isfinite() | (diverged_at >= 0), diverged_at, count - 1))
    alive, (size, correction) = diverged_at.unsqueeze(1) < 0, moments.corrections(count)
    new, beta2, added, eps = moments.averaging.split(1, 1)  # 1 - beta1, beta2, 1 - beta2 and eps
    grad = torch.where(alive, grad, 0)
    moments.mean.lerp_(grad, new)
    moments.square.mul_(beta2).add_(grad.square().mul_(added))
    update = moments.mean / (moments.square.sqrt().div_(correction).add_(eps))
    flat.mul_(1 - alive * moments.decay).sub_(update.mul_(alive * size))


class AdamW:
    """AdamW with the defaults of `torch.optim.AdamW`, for a few weights that are fitted outside of training.

    Updates contiguous weights in place. The classes of `torch.optim` give the same bits, but import torch's compiler
    when they are first used, which takes longer than a fit.
    """

    def __init__(self, weights: Sequence[Tensor], weight_decay: float = 0.0):
        self.weights, self.weight_decay = [w.detach() for w in weights], weight_decay
        self.means, self.squares = ([torch.zeros_like(w) for w in weights] for _ in range(2))
        self.counts = [torch.zeros(()) for _ in weights]

    def step(self, grads: Sequence[Tensor], lr: float) -> None:
        in_order = [grad.contiguous() for grad in grads]  # the kernel reads memory, not strides
        adamw(
            self.weights, in_order, self.means, self.squares, [], self.counts, fused=True,
            lr=lr, beta1=0.9, beta2=0.999, weight_decay=self.weight_decay, eps=1e-8, amsgrad=False, maximize=False,
        )  # fmt: skip
