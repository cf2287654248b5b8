"""The setting of the paper's appendix C, "Theoretical Analysis of Gradient Dynamics", in its own letters.

All embeddings are orthonormal, so a vector is its coordinates in this order: p_1..p_T, e_n (N), e_pad, e_v (V),
Phi_1 e_v (V). Phi_2 carries them to a subspace of its own without changing a coordinate, and is left out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from assignadd.config import ConfigError

DTYPE = torch.float64


@dataclass(frozen=True)
class Setting:
    """Sizes and scales; the paper's own experiment has N = 59, T = 16, V = 12."""

    N: int = 59
    """Numbers, added mod N."""
    T: int = 16
    """Positions; the last three are first operand, second operand and `=`."""
    V: int = 12
    """Variables."""
    alpha: float = 1e-3
    """Scale of the final logits."""
    beta: float | None = None
    """Strength of the initial attention, which the paper leaves free; log T unless given, which makes rho_2 of order 1/T."""

    def __post_init__(self) -> None:
        _check_whole("N", self.N, 2, 9973, "a whole number from 2 to 9973")
        _check_whole("T", self.T, 4, 1 << 60, "a whole number from 4 (an assignment, two operands and `=`) to 2^60")
        _check_whole("V", self.V, 1, self.N, f"a whole number from 1 to theory.N = {self.N}")
        _check_positive("alpha", self.alpha, 500)  # beyond it e^alpha is no float
        if self.beta is not None:
            _check_positive("beta", self.beta, 300)

    @property
    def e_beta(self) -> float:
        return float(self.T) if self.beta is None else math.exp(self.beta)

    @property
    def _Z(self) -> float:
        return self.e_beta**2 + 2 * self.e_beta + self.T - 3

    @property
    def rho_1(self) -> float:
        """Attention to the second operand (position T-1) at W_0."""
        return self.e_beta**2 / self._Z

    @property
    def rho_2(self) -> float:
        """Attention to the one assignment, and to the first operand (position T-2), at W_0."""
        return self.e_beta / self._Z

    @property
    def rho_3(self) -> float:
        """Attention to each PAD and to `=` itself at W_0: rho_2^2 / rho_1, not of order 1/T."""
        return 1 / self._Z

    @property
    def theta_factor(self) -> float:
        """The least c with rho_1 >= 1/c and 1/c <= T rho_2 <= c: the theorem's rho_1 = Theta(1), rho_2 = Theta(1/T) as a number."""
        return max(1 / self.rho_1, self.T * self.rho_2, 1 / (self.T * self.rho_2))

    @property
    def bound(self) -> float:
        """V (1/N + 1/T + T alpha), which the theorem's remainder is claimed to stay within a constant of."""
        return self.V * (1 / self.N + 1 / self.T + self.T * self.alpha)

    @property
    def d(self) -> int:
        return self.T + self.N + 1 + 2 * self.V

    @property
    def number(self) -> slice:
        return slice(self.T, self.T + self.N)

    @property
    def pad(self) -> int:
        return self.T + self.N

    @property
    def variable(self) -> slice:
        return slice(self.pad + 1, self.pad + 1 + self.V)

    @property
    def copied(self) -> slice:
        """Phi_1 e_v."""
        return slice(self.pad + 1 + self.V, self.d)


def _check_whole(name: str, value: object, low: int, high: int, accepted: str) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ConfigError(f"theory.{name}", value, accepted)


def _check_positive(name: str, value: object, high: float) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= high:
        raise ConfigError(f"theory.{name}", value, f"a number above 0, up to {high:g}")


def W_0(s: Setting) -> Tensor:
    """beta (p_{T-2} + p_{T-1}) p_T^T + beta sum_n e_n p_T^T: keys are rows, queries columns."""
    W = torch.zeros(s.d, s.d, dtype=DTYPE)
    W[s.T - 3 : s.T - 1, s.T - 1] = math.log(s.e_beta)
    W[s.number, s.T - 1] = math.log(s.e_beta)
    return W


def augmented_inputs(s: Setting, tau: Tensor, v: Tensor, n: Tensor, m: Tensor) -> Tensor:
    """X of B sequences, (B, T, d): assignment i of variable v[:, i] and number n[:, i] stands at tau[:, i] (from 0), the
    first of them is the operand's, v* = v[:, 0], and m is the second operand (the appendix's display of x_t)."""
    B, T = len(m), s.T
    X = torch.zeros(B, T, s.d, dtype=DTYPE)
    row = torch.arange(B)
    X[:, range(T), range(T)] = 1
    X[:, : T - 3, s.pad] = 1
    for t, u, value in zip(tau.T, v.T, n.T, strict=True):
        X[row, t, s.pad] = 0
        X[row, t, s.number.start + value] = 1
        X[row, t, s.copied.start + u] = 1
    X[row, T - 3, s.variable.start + v[:, 0]] = 1
    X[row, T - 2, s.number.start + m] = 1
    X[row, T - 1, s.copied.start + v[:, 0]] = 1
    return X
