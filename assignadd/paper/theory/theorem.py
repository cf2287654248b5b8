"""Theorem C.1, "One gradient step leads to composition": W_1, the predicted terms, the remainder and its bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np

from assignadd.paper.theory.setting import Setting
from assignadd.paper.theory.symmetric import COPIED, OWN, P_T, SECOND, Symmetric, gradient, gradient_parts

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


def memory(s: Setting) -> Symmetric:
    """The associative memory sum_v Phi_1 e_v (Phi_1 e_v + p_T)^T."""
    term = Symmetric.zeros(s)
    term.variable[COPIED, P_T] = term.variable[COPIED, OWN] = 1
    return term


def attenuation(s: Setting) -> Symmetric:
    """W~_0 - W_0 = -(2 rho_1 - 1) p_{T-1} (V p_T + sum_v Phi_1 e_v)^T."""
    term = Symmetric.zeros(s)
    term.plain[SECOND, P_T], term.plain[SECOND, OWN] = -(2 * s.rho_1 - 1) * s.V, -(2 * s.rho_1 - 1)
    return term


def remainder(s: Setting) -> Symmetric:
    """W_1 - W~_0 - memory, which theorem C.1 bounds by a constant times V (1/N + 1/T + T alpha)."""
    return update(s) - memory(s) - attenuation(s)


@dataclass(frozen=True)
class Check:
    """Theorem C.1 at one setting."""

    s: Setting
    remainder: float
    """In the matrix infinity norm (largest row sum)."""
    largest_entry: float
    """In absolute value: the appendix's own reading of O_infinity for vectors."""
    softmax_part: float
    """Norm of the softmax's deviation, eta alpha R_alpha, which is part of the remainder."""
    attenuation: float
    """Norm of W~_0 - W_0."""
    cosine: float
    """Between the whole update and the associative memory."""

    @property
    def constant(self) -> float:
        """The least constant with which the theorem's bound holds here."""
        return self.remainder / self.s.bound


def check(s: Setting) -> Check:
    """The theorem's terms and remainder at this setting."""
    uniform, deviation = (part * -eta(s) for part in gradient_parts(s))
    step, M, W = uniform + deviation, memory(s), attenuation(s)
    left = step - M - W
    cosine = step.dot(M) / (step.frobenius() * M.frobenius())
    norms = left.infinity_norm(), left.largest_entry(), deviation.infinity_norm(), W.infinity_norm()
    return Check(s, *norms, cosine)


def direction_cosine(s: Setting, alpha: float) -> float:
    """Cosine between nabla L(W_0) at this alpha and its limit as alpha vanishes."""
    small, large = (gradient(Setting(s.N, s.T, s.V, a, s.beta)) for a in (1e-9, alpha))
    return small.dot(large) / (small.frobenius() * large.frobenius())


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


class Growth(NamedTuple):
    """value ~ constant N^n T^t V^v alpha^a, by least squares on logarithms."""

    n: float
    t: float
    v: float
    a: float
    r2: float


def growth(checks: Sequence[Check], values: Sequence[float]) -> Growth:
    """The exponents with which these values, one per check, grow."""
    x = np.log([(c.s.N, c.s.T, c.s.V, c.s.alpha) for c in checks])
    y = np.log(values)
    x = np.column_stack([x, np.ones(len(x))])
    exponents = np.linalg.lstsq(x, y, rcond=None)[0]
    return Growth(*exponents[:4].tolist(), r2=float(1 - (y - x @ exponents).var() / y.var()))


def term_weights(checks: Sequence[Check]) -> tuple[float, float, float]:
    """a, b, c in remainder = a V/N + b V/T + c V T alpha, by least squares on relative errors."""
    terms = np.array([(c.s.V / c.s.N, c.s.V / c.s.T, c.s.V * c.s.T * c.s.alpha) for c in checks])
    size = np.array([c.remainder for c in checks])
    a, b, c = np.linalg.lstsq(terms / size[:, None], np.ones(len(size)), rcond=None)[0].tolist()
    return a, b, c
