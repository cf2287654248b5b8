"""AdamW (Loshchilov and Hutter, 2019) on the flat weights of a stack, each model with its own rate and decay."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from assignadd.config import Optim
from assignadd.training.fused import fused_adamw, has_kernels

# Where a tensor that lasts is to lie: as it is, or in memory shared between processes.
Placed = Callable[[Tensor], Tensor]


class AdamW:
    """Moments of the flat weights (M, P). A model that is not alive keeps its weights bit for bit."""

    def __init__(self, flat: Tensor, optims: Sequence[Optim], placed: Placed = lambda tensor: tensor):
        self.flat = flat
        self.mean, self.square = placed(torch.zeros_like(flat)), placed(torch.zeros_like(flat))
        self.optims = optims
        self.lr = torch.tensor([[o.lr] for o in optims], dtype=flat.dtype, device=flat.device)
        self.decay = torch.tensor([[o.lr * o.weight_decay] for o in optims], dtype=flat.dtype, device=flat.device)

    def update(self, grad: Tensor, alive: Tensor, count: Tensor) -> None:
        """The update number `count`, counted from 1."""
        if self.flat.device.type == "cpu":
            self._update_fused(grad, alive, count)
        elif has_kernels(self.flat):
            self._update_kernel(grad, alive, count)
        else:
            self._update_stack(grad, alive, count)

    def _update_fused(self, grad: Tensor, alive: Tensor, count: Tensor) -> None:
        """Model by model through the kernel behind torch.optim.AdamW(fused=True), which reads memory once."""
        steps = count.float()
        for i in [i for i in range(len(alive)) if alive[i]]:
            o = self.optims[i]
            torch._fused_adamw_(
                [self.flat[i]], [grad[i]], [self.mean[i]], [self.square[i]], [], [steps], lr=o.lr, beta1=o.beta1, beta2=o.beta2,
                weight_decay=o.weight_decay, eps=o.eps, amsgrad=False, maximize=False,
            )  # fmt: skip

    def _update_kernel(self, grad: Tensor, alive: Tensor, count: Tensor) -> None:
        """All models at once in one pass over memory, on a GPU."""
        o, steps = self.optims[0], count.double()
        correction = torch.sqrt(1 - o.beta2**steps).to(self.flat.dtype)
        size = (self.lr / (1 - o.beta1**steps)).to(self.flat.dtype)
        fused_adamw(self.flat, grad, self.mean, self.square, self.decay, size, correction, alive, o)

    def _update_stack(self, grad: Tensor, alive: Tensor, count: Tensor) -> None:
        """All models at once, without a branch that would have to wait for the device."""
        o, steps, alive = self.optims[0], count.double(), alive.unsqueeze(1)  # 1 - 0.999 loses five digits in float32
        grad = torch.where(alive, grad, 0)
        self.mean.lerp_(grad, 1 - o.beta1)
        self.square.mul_(o.beta2).addcmul_(grad, grad, value=1 - o.beta2)
        correction = torch.sqrt(1 - o.beta2**steps)
        size = (alive * self.lr / (1 - o.beta1**steps)).to(self.flat.dtype)
        update = self.mean / (self.square.sqrt().div_(correction).add_(o.eps))
        self.flat.mul_(1 - alive * self.decay).sub_(update.mul_(size))
