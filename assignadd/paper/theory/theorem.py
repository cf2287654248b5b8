"""Theorem C.1, "One gradient step leads to composition", and its proof, display by display."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from assignadd.paper.theory.setting import DTYPE, M, Setting, attention, fourier, grad_M, one_variable_sequences
from assignadd.paper.theory.symmetric import COPIED, OWN, P_T, SECOND, W_0, Symmetric, gradient, gradient_parts

# The grid at which the bound is checked.
NUMBERS = (13, 29, 59, 97, 149, 199)
LENGTHS = (8, 16, 32, 64, 128, 256)
VARIABLES = (1, 2, 4, 6, 8, 12)
ALPHAS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)

MEMORY_NORM = 2.0  # each row Phi_1 e_v of the associative memory has two ones


def eta(s: Setting) -> float:
    """The learning rate of theorem C.1, V N / (2 alpha rho_1 rho_2 (N - 1))."""
    return s.V * s.N / (2 * s.alpha * s.rho_1 * s.rho_2 * (s.N - 1))


def update(s: Setting) -> Symmetric:
    """W_1 - W_0 = -eta nabla L(W_0)."""
    return gradient(s) * -eta(s)


def after_step(s: Setting, length: float = 1.0) -> Symmetric:
    """W_0 - length eta nabla L(W_0); the theorem's W_1 for length 1."""
    return W_0(s) + update(s) * length


def memory(s: Setting) -> Symmetric:
    """The associative memory sum_v Phi_1 e_v (Phi_1 e_v + p_T)^T."""
    term = Symmetric.zeros(s)
    term.variable[COPIED, [P_T, OWN]] = 1
    return term


def attenuation(s: Setting) -> Symmetric:
    """W~_0 - W_0 = -(2 rho_1 - 1) p_{T-1} (V p_T + sum_v Phi_1 e_v)^T."""
    term = Symmetric.zeros(s)
    term.plain[SECOND, P_T] = -(2 * s.rho_1 - 1) * s.V
    term.plain[SECOND, OWN] = -(2 * s.rho_1 - 1)
    return term


def remainder(s: Setting) -> Symmetric:
    """W_1 - W~_0 - memory, which theorem C.1 bounds by a constant times `bound`."""
    return update(s) - memory(s) - attenuation(s)


def bound(s: Setting) -> float:
    """V (1/N + 1/T + T alpha)."""
    return s.V * (1 / s.N + 1 / s.T + s.T * s.alpha)


@dataclass(frozen=True)
class Check:
    """Theorem C.1 at one setting; norms are the matrix infinity norm (largest row sum)."""

    s: Setting
    remainder: float
    attenuation: float
    """Norm of W~_0 - W_0."""
    softmax_part: float
    """Norm of eta alpha R_alpha, the softmax's deviation from uniform, which is part of the remainder."""

    @property
    def bound(self) -> float:
        """The theorem's bound on the remainder, up to a constant."""
        return bound(self.s)

    @property
    def constant(self) -> float:
        """The least constant with which the theorem's bound holds here."""
        return self.remainder / self.bound


def check(s: Setting) -> Check:
    """The sizes of the theorem's terms at this setting."""
    _, deviation = gradient_parts(s)
    terms = remainder(s), attenuation(s), deviation * eta(s)
    return Check(s, *(term.infinity_norm() for term in terms))


def grid_checks(
    N: Sequence[int] = NUMBERS,
    T: Sequence[int] = LENGTHS,
    V: Sequence[int] = VARIABLES,
    alpha: Sequence[float] = ALPHAS,
) -> list[Check]:
    """The theorem at every combination with V at most N, at beta = log T."""
    return [check(Setting(n, t, v, a)) for n, t, v, a in product(N, T, V, alpha) if v <= n]


def extreme_constant(V: int) -> float:
    """The least constant with which the bound holds at the extremes of N, T, V and alpha."""
    extremes = product((max(V, 2), 9973), (4, 16, 1000, 1 << 40), (1, V), (1e-12, 0.1))
    return fitted_constant([check(Setting(*sizes)) for sizes in extremes])


def fitted_constant(checks: Sequence[Check]) -> float:
    """The least constant with which the theorem's bound is met by all of these checks."""
    return max(c.constant for c in checks)


def direction_cosine(s: Setting, alpha: float) -> float:
    """Cosine between nabla L(W_0) at this alpha and its limit as alpha vanishes."""
    return gradient(replace(s, alpha=alpha)).cosine(gradient(replace(s, alpha=1e-9)))


def addition_error(N: int) -> float:
    """|M_k(e_n + e_m) - 2 1{k=n+m} - 1{k=2n} - 1{k=2m}|, the largest over n, m, k."""
    numbers, k = torch.eye(N, dtype=DTYPE), torch.arange(N)
    n, m = k[:, None, None], k[:, None]
    expected = 2.0 * (k == (n + m) % N) + 1.0 * (k == 2 * n % N) + 1.0 * (k == 2 * m % N)  # (n, m, k)
    return float((M(N, numbers[:, None] + numbers) - expected).abs().max())


def gradient_error(N: int) -> float:
    """|nabla M_k(e_n)^T e_m - 2 1{k=n+m}|, the largest over n, m, k."""
    k = torch.arange(N)
    expected = 2.0 * (k[:, None] == (k[:, None, None] + k) % N)  # (n, k, m)
    return float((grad_M(N, torch.eye(N, dtype=DTYPE)) - expected).abs().max())


def A_k(s: Setting, X: Tensor, W: Tensor) -> Tensor:
    """The proof's A_k = sum_t sigma_t nabla M_k(z)^T Phi_2 x_t (x_t - x_bar) x_T^T without the factor x_T^T,
    (B, k, d)."""
    sigma = attention(X, W)
    x_bar = torch.einsum("bt,btd->bd", sigma, X)
    weight = grad_M(s.N, x_bar[:, s.number]).real @ X[:, :, s.number].mT * sigma[:, None]  # (B, k, t)
    return torch.einsum("bkt,btd->bkd", weight, X) - weight.sum(-1, keepdim=True) * x_bar[:, None]


def expanded_A_k(s: Setting, X: Tensor, W: Tensor, t: int) -> Tensor:
    """The proof's three terms of A_k, in rho_1^2, rho_2^2 and rho_1 rho_2, where t* = t, (B, k, d)."""
    x_bar = torch.einsum("bt,btd->bd", attention(X, W), X)
    k = torch.arange(s.N)
    n = X[:, t, s.number].argmax(-1, keepdim=True)
    m = X[:, -2, s.number].argmax(-1, keepdim=True)
    delta_mm = (k == 2 * m % s.N).double()[:, :, None]
    delta_nn = (k == 2 * n % s.N).double()[:, :, None]
    delta_mn = (k == (m + n) % s.N).double()[:, :, None]
    to_m = (X[:, -2] - x_bar)[:, None]
    to_n = (X[:, t] - x_bar)[:, None]
    alone = 2 * s.rho_1**2 * delta_mm * to_m + 2 * s.rho_2**2 * delta_nn * to_n
    return alone + 2 * s.rho_1 * s.rho_2 * delta_mn * (to_n + to_m)


class Bounds(NamedTuple):
    """The largest absolute values at W_0, over every one-variable sequence, of what the proof bounds."""

    v_x: float  # v_j^T Phi_2 x_t: at most 1
    M: float  # M_k(z): at most 1
    r: float  # r_k N / (e^{2 alpha} - 1): at most 1
    grad_M: float  # nabla M_k(z)^T Phi_2 x_t: at most 2
    expansion: float  # difference between A_k and its expansion: 0
    sigma_spread: float  # difference of sigma_{T-1} from rho_1, and of sigma_{t*} from rho_2: 0


def bounds(s: Setting) -> Bounds:
    """The largest values over every one-variable sequence."""
    v, _ = fourier(s.N)
    W = W_0(s).dense()
    largest = torch.zeros(len(Bounds._fields), dtype=DTYPE)
    for t, X, _ in one_variable_sequences(s):
        sigma, numbers = attention(X, W), X[:, :, s.number]
        z = torch.einsum("bt,btn->bn", sigma, numbers)
        unscaled = M(s.N, z)
        r = (s.alpha * unscaled.real).softmax(-1) - 1 / s.N
        bounded = (
            numbers.to(v.dtype) @ v.T,
            unscaled,
            r * s.N / math.expm1(2 * s.alpha),
            grad_M(s.N, z).real @ numbers.mT,
            A_k(s, X, W) - expanded_A_k(s, X, W, t),
            sigma[:, [t, -2]] - torch.tensor([s.rho_2, s.rho_1], dtype=DTYPE),
        )
        largest = torch.maximum(largest, torch.stack([x.abs().max() for x in bounded]))
    return Bounds(*largest.tolist())


def G(s: Setting) -> tuple[Tensor, Tensor, Tensor]:
    """The proof's G_1, G_2, G_3 as expectations over every one-variable sequence, (d, d) each."""
    total = torch.zeros(3, s.d, s.d, dtype=DTYPE)
    W, rho = W_0(s).dense(), (s.rho_1**2, s.rho_2**2, s.rho_1 * s.rho_2)
    count = s.V * (s.T - 3) * s.N**2
    for t, X, _ in one_variable_sequences(s):
        x_bar = torch.einsum("bt,btd->bd", attention(X, W), X)
        n_is_m = (X[:, t, s.number] == X[:, -2, s.number]).all(-1)[:, None].double()
        # For each of G_1, G_2, G_3 the deviation 1/N - 1{..}, and the direction that it weights.
        deviations = (1 / s.N - n_is_m, 1 / s.N - n_is_m, 1 / s.N - torch.ones_like(n_is_m))
        directions = (X[:, -2] - x_bar, X[:, t] - x_bar, X[:, t] + X[:, -2] - 2 * x_bar)
        for G_i, deviation, direction, factor in zip(total, deviations, directions, rho, strict=True):
            G_i += 2 * factor * (deviation * direction).T @ X[:, -1] / count
    return total[0], total[1], total[2]


class ProofNumbers(NamedTuple):
    """The numbers that the proof's statements are about, at a setting small enough to sum over every sequence."""

    s: Setting
    addition_error: float
    gradient_error: float
    bounds: Bounds
    G_1: float
    G_2: float
    G_3_error: float
    """Between G_3 as summed and -2 rho_1 rho_2 (N-1)/N E[(x_{t*} + x_{T-1} - 2 x_bar) x_T^T] in closed form."""
    G_3_columns: float
    """The largest coefficient of G_3's small terms in the columns Phi_1 e_v, where the memory's is 1."""


def proof_numbers(s: Setting) -> ProofNumbers:
    """The number behind each of the proof's exact statements."""
    G_1, G_2, G_3 = G(s)
    uniform, _ = gradient_parts(s)  # alpha G_3 in closed form
    small_terms = uniform * -eta(s) - memory(s) - attenuation(s)
    in_columns = np.concatenate([small_terms.plain[:, OWN], small_terms.variable[:, OWN]])
    return ProofNumbers(
        s,
        addition_error(s.N),
        gradient_error(s.N),
        bounds(s),
        G_1=float(G_1.abs().max()),
        G_2=float(G_2.abs().max()),
        G_3_error=float((G_3 - uniform.dense() / s.alpha).abs().max()),
        G_3_columns=float(abs(in_columns).max()),
    )
