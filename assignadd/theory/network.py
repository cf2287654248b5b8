"""F_alpha: one softmax attention from the last position, and the complex quadratic MLP that adds mod N (appendix)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from assignadd.theory.setting import Setting


def fourier(N: int) -> tuple[Tensor, Tensor]:
    """v_j on the numbers' coordinates, e^{2 i pi j n / N} (j, n), and u_{k,j} = e^{-2 i pi j k / N} (k, j), both (N, N)."""
    angle = 2 * math.pi * (torch.outer(torch.arange(N), torch.arange(N)) % N).double() / N
    wave = torch.polar(torch.ones_like(angle), angle)
    return wave, wave.conj().resolve_conj()


def M(N: int, z: Tensor) -> Tensor:
    """M_k(z) = (1/N) sum_j u_{k,j} (v_j^T z)^2, as complex as it comes, from z on the numbers' coordinates (..., N)."""
    v, u = fourier(N)
    return (z.to(v.dtype) @ v.T) ** 2 @ u.T / N  # (..., N)


def grad_M(N: int, z: Tensor) -> Tensor:
    """nabla M_k(z) on the numbers' coordinates: (2/N) sum_j u_{k,j} (v_j^T z) v_j, (..., k, n)."""
    v, u = fourier(N)
    return 2 / N * (u * (z.to(v.dtype) @ v.T).unsqueeze(-2)) @ v


def attention(X: Tensor, W: Tensor) -> Tensor:
    """sigma(X^T W x_T), (B, T)."""
    return torch.einsum("btd,bd->bt", X, X[:, -1] @ W.T).softmax(-1)


def F_alpha(s: Setting, X: Tensor, W: Tensor) -> Tensor:
    """Logits alpha M(Phi_2 X sigma), (B, N)."""
    z = torch.einsum("bt,btd->bd", attention(X, W), X)
    return s.alpha * M(s.N, z[:, s.number]).real


def cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    """l(y, xi) = -xi_y + log sum_k exp xi_k, (B,)."""
    return torch.logsumexp(logits, -1) - logits.gather(-1, y[:, None]).squeeze(-1)
