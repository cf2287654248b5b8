"""The proof of the theorem, statement by statement, each as a number computed from the sums it speaks of."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from assignadd.theory.network import M, attention, fourier, grad_M, one_variable_sequences
from assignadd.theory.setting import DTYPE, W_0, Setting
from assignadd.theory.symmetric import gradient_from, pulls


def addition_error(N: int) -> float:
    """|M_k(e_n + e_m) - 2 1{k=n+m} - 1{k=2n} - 1{k=2m}|, the largest over n, m, k."""
    one, k = torch.eye(N, dtype=DTYPE), torch.arange(N)
    n, m = k[:, None, None], k[:, None]
    expected = 2.0 * (k == (n + m) % N) + 1.0 * (k == 2 * n % N) + 1.0 * (k == 2 * m % N)  # (n, m, k)
    return float((M(N, one[:, None] + one) - expected).abs().max())


def gradient_error(N: int) -> float:
    """|nabla M_k(e_n)^T e_m - 2 1{k=n+m}|, the largest over n, m, k."""
    k = torch.arange(N)
    expected = 2.0 * (k[:, None] == (k[:, None, None] + k) % N)  # (n, k, m)
    return float((grad_M(N, torch.eye(N, dtype=DTYPE)) - expected).abs().max())


@dataclass(frozen=True)
class Bounds:
    """The largest value at W_0, over the whole population, of what the proof bounds."""

    v_x: float
    """|v_j^T Phi_2 x_t|, at most 1."""
    M: float
    """|M_k(z)|, at most 1."""
    r: float
    """|r_k| N / (e^{2 alpha} - 1), at most 1."""
    grad_M: float
    """|nabla M_k(z)^T Phi_2 x_t|, at most 2."""
    A: float
    """Entries of A_k, O(1)."""
    expansion: float
    """Difference between A_k and its expansion in rho_1, rho_2 and delta."""
    sigma_spread: float
    """How much rho_1 and rho_2 vary between sequences: not at all."""


def bounds(s: Setting) -> Bounds:
    v, _ = fourier(s.N)
    W, top = W_0(s), torch.zeros(7, dtype=DTYPE)
    for t, X, _ in one_variable_sequences(s):
        sigma = attention(X, W)
        z = torch.einsum("bt,btd->bd", sigma, X)
        unscaled = M(s.N, z[:, s.number])
        r = (s.alpha * unscaled.real).softmax(-1) - 1 / s.N
        along = grad_M(s.N, z[:, s.number]).real @ X[:, :, s.number].mT  # (B, k, t)
        A = torch.einsum("bkt,btd->bkd", along * sigma[:, None], X) - (along * sigma[:, None]).sum(-1, keepdim=True) * z[:, None]
        spread = (sigma[:, [t, -2]] - torch.tensor([s.rho_2, s.rho_1], dtype=DTYPE)).abs()
        found = [(X[:, :, s.number].to(v.dtype) @ v.T).abs(), unscaled.abs(), r.abs() * s.N / math.expm1(2 * s.alpha), along.abs(), A.abs()]
        found += [(A - _expanded(s, X, z, t)).abs(), spread]
        top = torch.maximum(top, torch.stack([x.max() for x in found]))
    return Bounds(*top.tolist())


def _expanded(s: Setting, X: Tensor, x_bar: Tensor, t: int) -> Tensor:
    """The proof's three terms of A_k, without the factor x_T^T, (B, k, d)."""
    k, n, m = torch.arange(s.N), X[:, t, s.number].argmax(-1, keepdim=True), X[:, -2, s.number].argmax(-1, keepdim=True)
    delta_mm, delta_nn, delta_mn = ((k == x % s.N).double()[:, :, None] for x in (2 * m, 2 * n, m + n))
    to_m, to_n = (X[:, -2] - x_bar)[:, None], (X[:, t] - x_bar)[:, None]
    rho_1, rho_2 = s.rho_1, s.rho_2
    return 2 * rho_1**2 * delta_mm * to_m + 2 * rho_2**2 * delta_nn * to_n + 2 * rho_1 * rho_2 * delta_mn * (to_n + to_m)


def G(s: Setting) -> tuple[Tensor, Tensor, Tensor]:
    """G_1, G_2, G_3 as expectations over the population, (d, d) each."""
    total = torch.zeros(3, s.d, s.d, dtype=DTYPE)
    W, rho = W_0(s), (s.rho_1**2, s.rho_2**2, s.rho_1 * s.rho_2)
    count = s.V * (s.T - 3) * s.N**2
    for t, X, _ in one_variable_sequences(s):
        x_bar = torch.einsum("bt,btd->bd", attention(X, W), X)
        same = (X[:, t, s.number] == X[:, -2, s.number]).all(-1)[:, None].double()
        weights = (1 / s.N - same, 1 / s.N - same, 1 / s.N - torch.ones_like(same))
        moved = (X[:, -2] - x_bar, X[:, t] - x_bar, X[:, t] + X[:, -2] - 2 * x_bar)
        for part, w, x, c in zip(total, weights, moved, rho, strict=True):
            part += 2 * c * (w * x).T @ X[:, -1] / count
    return total[0], total[1], total[2]


def R_alpha(s: Setting) -> float:
    """The largest entry of R_alpha over e^{2 alpha} - 1; the proof bounds it by a universal constant."""
    _, _, m_r, n_r = pulls(s)
    return gradient_from(s, m_r, n_r).largest_entry() / s.alpha / math.expm1(2 * s.alpha)
