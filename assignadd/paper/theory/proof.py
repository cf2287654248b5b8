"""The proof of theorem C.1, summed over every one-variable sequence: its identities, bounds and displays.

As in `setting`, s is the setting, X are the inputs of B sequences, (B, T, d), and W is a key-query matrix given by the
columns of p_T and of the Phi_1 e_v, (d, 1 + V).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from assignadd.paper.theory.setting import DTYPE, W_0, M, Setting, attention, fourier, grad_M, one_variable_sequences
from assignadd.paper.theory.theorem import gradient_parts

# Small enough to sum over every sequence; N is odd, and there is more than one of everything.
SUMMED = Setting(N=11, T=9, V=3, alpha=0.05)


@dataclass(frozen=True)
class ProofNumbers:
    """How far the proof's statements are from true; rounding where they are true."""

    mlp: float
    """Largest deviation of M_k(e_n + e_m) and of nabla M_k(e_n)^T e_m from what the appendix says."""
    bounded: float
    """Largest value of what the proof bounds, over its bound: at most 1."""
    expansion: float
    """Largest deviation of A_k from its three terms in rho_1^2, rho_2^2 and rho_1 rho_2."""
    gradient: float
    """Largest deviation of alpha nabla L_unif = alpha G_3 and of alpha R_alpha from their closed form."""


@lru_cache
def proof_numbers(s: Setting = SUMMED) -> ProofNumbers:
    """The numbers behind the proof's exact statements, over every one-variable sequence.

    Both parts of the gradient are summed here over the sequences, to be compared with their closed form.
    """
    W = W_0(s)
    uniform = torch.zeros_like(W)  # alpha nabla L_unif
    deviation = torch.zeros_like(W)  # alpha R_alpha
    bounded = 0.0
    expansion = 0.0
    for t, X, y in one_variable_sequences(s):
        A = A_k(s, X, W)  # (B, k, d)
        expansion = max(expansion, float((A - expanded_A_k(s, X, W, t)).abs().max()))
        bounded = max(bounded, largest_over_bound(s, X, W))
        z = torch.einsum("bt,btn->bn", attention(s, X, W), X[:, :, s.number])
        r = (s.alpha * M(s.N, z).real).softmax(-1) - 1 / s.N  # p_k - 1/N, (B, k)
        uniform_error = 1 / s.N - one_hot(y, s.N).to(DTYPE)  # 1/N - 1{k=y}, (B, k)
        query = X[:, -1, s.query]  # x_T, (B, 1 + V)
        share = s.alpha / (s.V * (s.T - 3) * s.N**2)  # of one sequence in the mean
        uniform += share * torch.einsum("bk,bkd,be->de", uniform_error, A, query)
        deviation += share * torch.einsum("bk,bkd,be->de", r, A, query)
    closed_form = torch.stack(gradient_parts(s))
    gradient = float((torch.stack([uniform, deviation]) - closed_form).abs().max())
    return ProofNumbers(mlp_error(s.N), bounded, expansion, gradient)


def mlp_error(N: int) -> float:
    """The largest deviation, over n, m and k, from M_k(e_n + e_m) = 2 1{k=n+m} + 1{k=2n} + 1{k=2m} and from
    nabla M_k(e_n)^T e_m = 2 1{k=n+m}."""
    e = torch.eye(N, dtype=DTYPE)  # e[n] is e_n
    k = torch.arange(N)
    m = k[:, None]
    n = k[:, None, None]
    at_sum = 2.0 * (k == (n + m) % N)  # (n, m, k)
    at_doubles = 1.0 * (k == 2 * n % N) + 1.0 * (k == 2 * m % N)
    value_errors = M(N, e[:, None] + e) - (at_sum + at_doubles)  # (n, m, k)
    gradient_errors = grad_M(N, e).mT - at_sum  # nabla M_k(e_n)^T e_m is entry m of the gradient
    return float(torch.maximum(value_errors.abs().max(), gradient_errors.abs().max()))


def A_k(s: Setting, X: Tensor, W: Tensor) -> Tensor:
    """The proof's A_k = sum_t sigma_t nabla M_k(z)^T Phi_2 x_t (x_t - x_bar) x_T^T without the factor x_T^T,
    (B, k, d)."""
    sigma = attention(s, X, W)  # (B, T)
    x_bar = torch.einsum("bt,btd->bd", sigma, X)
    z = x_bar[:, s.number]
    weight = grad_M(s.N, z).real @ X[:, :, s.number].mT * sigma[:, None]  # sigma_t nabla M_k(z)^T Phi_2 x_t, (B, k, t)
    return torch.einsum("bkt,btd->bkd", weight, X) - weight.sum(-1, keepdim=True) * x_bar[:, None]


def expanded_A_k(s: Setting, X: Tensor, W: Tensor, t: int) -> Tensor:
    """The proof's three terms of A_k, in rho_1^2, rho_2^2 and rho_1 rho_2, without the factor x_T^T, (B, k, d).

    The assignment of all sequences is at position t* = t: it has the number n, and the second operand is m.
    """
    x_bar = torch.einsum("bt,btd->bd", attention(s, X, W), X)
    k = torch.arange(s.N)
    n = X[:, t, s.number].argmax(-1, keepdim=True)  # (B, 1)
    m = X[:, -2, s.number].argmax(-1, keepdim=True)
    at_2m = (k == 2 * m % s.N).double()[:, :, None]  # 1{k=2m}, (B, k, 1)
    at_2n = (k == 2 * n % s.N).double()[:, :, None]
    at_sum = (k == (m + n) % s.N).double()[:, :, None]
    towards_m = (X[:, -2] - x_bar)[:, None]  # x_{T-1} - x_bar, (B, 1, d)
    towards_n = (X[:, t] - x_bar)[:, None]  # x_{t*} - x_bar
    squares = 2 * s.rho_1**2 * at_2m * towards_m + 2 * s.rho_2**2 * at_2n * towards_n
    return squares + 2 * s.rho_1 * s.rho_2 * at_sum * (towards_n + towards_m)


def largest_over_bound(s: Setting, X: Tensor, W: Tensor) -> float:
    """The largest of |v_j^T Phi_2 x_t|, |M_k(z)|, |nabla M_k(z)^T Phi_2 x_t| / 2 and |r_k| N / (e^{2 alpha} - 1) over
    these sequences."""
    numbers = X[:, :, s.number]  # Phi_2 x_t, (B, T, N)
    z = torch.einsum("bt,btn->bn", attention(s, X, W), numbers)
    v, _ = fourier(s.N)
    M_z = M(s.N, z)  # (B, k)
    r = (s.alpha * M_z.real).softmax(-1) - 1 / s.N
    ratios = (
        numbers.to(v.dtype) @ v.T,
        M_z,
        grad_M(s.N, z).real @ numbers.mT / 2,
        r * s.N / math.expm1(2 * s.alpha),
    )
    return max(float(ratio.abs().max()) for ratio in ratios)
