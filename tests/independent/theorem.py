"""Theorem C.1 of the paper by brute force: every t*, v, n, m, dense matrices, and the gradient of the softmax by hand.

Coordinates in the orthonormal basis: p_1..p_T, e_n (N), e_pad, e_v (V), Phi_1 e_v (V). Phi_2 changes none of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np


@dataclass(frozen=True)
class Sizes:
    """The sizes and scales of appendix C, and its basis vectors."""

    N: int
    T: int
    V: int
    alpha: float
    beta: float

    @property
    def d(self) -> int:
        return self.T + self.N + 1 + 2 * self.V

    def p(self, t: int) -> np.ndarray:
        """p_t, t = 1..T."""
        return np.eye(self.d)[t - 1]

    def e(self, n: int) -> np.ndarray:
        return np.eye(self.d)[self.T + n]

    @property
    def e_pad(self) -> np.ndarray:
        return np.eye(self.d)[self.T + self.N]

    def e_v(self, v: int) -> np.ndarray:
        return np.eye(self.d)[self.T + self.N + 1 + v]

    def Phi_1_e_v(self, v: int) -> np.ndarray:
        return np.eye(self.d)[self.T + self.N + 1 + self.V + v]


def W_0(s: Sizes) -> np.ndarray:
    """beta (p_{T-2} + p_{T-1}) p_T^T + beta sum_n e_n p_T^T."""
    return s.beta * np.outer(s.p(s.T - 2) + s.p(s.T - 1) + sum(s.e(n) for n in range(s.N)), s.p(s.T))


def inputs(s: Sizes, t: int, v: int, n: int, m: int) -> np.ndarray:
    """x_1..x_T as rows, with one assignment of n to v at t."""
    prefix = [s.p(i) + (s.e(n) + s.Phi_1_e_v(v) if i == t else s.e_pad) for i in range(1, s.T - 2)]
    return np.array([*prefix, s.p(s.T - 2) + s.e_v(v), s.p(s.T - 1) + s.e(m), s.p(s.T) + s.Phi_1_e_v(v)])


def waves(s: Sizes) -> np.ndarray:
    """v_j = sum_n e^{2 i pi j n / N} e_n, j = 1..N, as rows (N, d)."""
    j, n = np.arange(1, s.N + 1)[:, None], np.arange(s.N)
    found = np.zeros((s.N, s.d), dtype=complex)
    found[:, s.T : s.T + s.N] = np.exp(2j * np.pi * j * n / s.N)
    return found


def readouts(s: Sizes) -> np.ndarray:
    """u_{k,j} = e^{-2 i pi j k / N}, (k, j)."""
    return np.exp(-2j * np.pi * np.arange(s.N)[:, None] * np.arange(1, s.N + 1) / s.N)


def sequence_loss(s: Sizes, X: np.ndarray, y: int, W: np.ndarray) -> float:
    """l(y, alpha M(X sigma(X^T W x_T)))."""
    sigma = _softmax(X @ W @ X[-1])
    logits = s.alpha * (readouts(s) @ (waves(s) @ (sigma @ X)) ** 2).real / s.N
    return float(np.log(np.exp(logits).sum()) - logits[y])


def sequence_gradient(s: Sizes, X: np.ndarray, y: int, W: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The gradient of the loss in W, and the attention sigma.

    d sigma_t / d score_t' = sigma_t (1{t = t'} - sigma_t'), and score_t = x_t^T W x_T.
    """
    v, u, sigma = waves(s), readouts(s), _softmax(X @ W @ X[-1])
    z = sigma @ X
    p = _softmax(s.alpha * (u @ (v @ z) ** 2).real / s.N)
    of_logits = p - (np.arange(s.N) == y)
    of_z = s.alpha * sum(q * 2 / s.N * ((u_k * (v @ z)) @ v).real for q, u_k in zip(of_logits, u, strict=True))
    of_sigma = X @ of_z
    of_scores = sigma * (of_sigma - sigma @ of_sigma)
    return np.outer(of_scores @ X, X[-1]), sigma


def population(s: Sizes) -> list[tuple[np.ndarray, int]]:
    """Every sequence with one assignment and its label; all are equally likely."""
    ranges = range(1, s.T - 2), range(s.V), range(s.N), range(s.N)
    return [(inputs(s, t, v, n, m), (n + m) % s.N) for t, v, n, m in product(*ranges)]


def population_loss(s: Sizes, W: np.ndarray) -> float:
    return float(np.mean([sequence_loss(s, X, y, W) for X, y in population(s)]))


def population_gradient(s: Sizes, W: np.ndarray) -> np.ndarray:
    return np.mean([sequence_gradient(s, X, y, W)[0] for X, y in population(s)], axis=0)


def remainder(s: Sizes) -> np.ndarray:
    """W_1 minus the terms of the theorem: W~_0 and the associative memory."""
    W = W_0(s)
    _, sigma = sequence_gradient(s, inputs(s, 1, 0, 0, 0), 0, W)
    rho_1, rho_2 = sigma[s.T - 2], sigma[0]  # of position T-1, and of t* = 1
    eta = s.V * s.N / (2 * s.alpha * rho_1 * rho_2 * (s.N - 1))
    W_1 = W - eta * population_gradient(s, W)
    variables = [s.Phi_1_e_v(v) for v in range(s.V)]
    W_tilde = W - (2 * rho_1 - 1) * np.outer(s.p(s.T - 1), s.V * s.p(s.T) + sum(variables))
    return W_1 - W_tilde - sum(np.outer(x, x + s.p(s.T)) for x in variables)


def infinity_norm(matrix: np.ndarray) -> float:
    """The largest sum of absolute values in a row."""
    return float(np.abs(matrix).sum(1).max())


def bound(s: Sizes) -> float:
    """V (1/N + 1/T + T alpha)."""
    return s.V * (1 / s.N + 1 / s.T + s.T * s.alpha)


def _softmax(x: np.ndarray) -> np.ndarray:
    weights = np.exp(x - x.max())
    return weights / weights.sum()
