"""AdamW (Loshchilov and Hutter, 2019) for what interventions fit: a new MLP2, or maps that are exchanged."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class AdamW:
    """Updates contiguous weights in place, with the kernel behind `torch.optim.AdamW(fused=True)` and its defaults.

    The classes of `torch.optim` import torch's compiler when they are first used, which takes longer than a fit.
    """

    def __init__(self, weights: Sequence[Tensor], weight_decay: float = 0.0):
        self.weights, self.weight_decay = [w.detach() for w in weights], weight_decay
        self.means, self.squares = ([torch.zeros_like(w) for w in weights] for _ in range(2))
        self.counts = [torch.zeros(()) for _ in weights]

    def step(self, grads: Sequence[Tensor], lr: float) -> None:
        torch._foreach_add_(self.counts, 1)
        in_order = [grad.contiguous() for grad in grads]  # the kernel reads memory, not strides
        torch._fused_adamw_(
            self.weights, in_order, self.means, self.squares, [], self.counts,
            lr=lr, beta1=0.9, beta2=0.999, weight_decay=self.weight_decay, eps=1e-8, amsgrad=False, maximize=False,
        )  # fmt: skip
