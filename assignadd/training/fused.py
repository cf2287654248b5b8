"""Loss and update of a stack through one kernel each, on a GPU (`kernels`); the formulas are `objective`'s and `adamw`'s."""

from __future__ import annotations

import importlib.util
from typing import Any

import torch
from torch import Tensor

from assignadd.config import Optim

LOSS_ROWS, UPDATE_BLOCK = 16, 1024


def has_kernels(flat: Tensor) -> bool:
    return flat.device.type == "cuda" and flat.dtype == torch.float32 and importlib.util.find_spec("triton") is not None


def fused_cross_entropy(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Mean cross entropy over the sequences (M, B, N), and its gradient, which takes the place of the logits."""
    kernels = _kernels()
    M, B, N = logits.shape
    losses = logits.new_empty(M, B)
    width = 1 << (N - 1).bit_length()
    kernels.cross_entropy[-(-B // LOSS_ROWS), M](logits, labels.contiguous(), losses, B, N=N, NP=width, BB=LOSS_ROWS)
    return losses.mean(1), logits


def fused_adamw(
    flat: Tensor,
    grad: Tensor,
    mean: Tensor,
    square: Tensor,
    decay: Tensor,
    size: Tensor,
    correction: Tensor,
    alive: Tensor,
    optim: Optim,
) -> None:
    """The update of all models that are alive; `decay`, `size` and `alive` are (M, 1), the rest (M, P)."""
    M, P = flat.shape
    _kernels().adamw[-(-P // UPDATE_BLOCK), M](
        flat, grad, mean, square, decay, size, correction, alive, P,
        beta1=optim.beta1, beta2=optim.beta2, eps=optim.eps, BLOCK=UPDATE_BLOCK,
    )  # fmt: skip


def _kernels() -> Any:
    from assignadd.training import kernels

    return kernels
