"""Theorem C.1, "One gradient step leads to composition": the exact gradient at W_0, the step and its remainder.

Key-query matrices are given by the columns of p_T and of the Phi_1 e_v, (d, 1 + V), as in `setting`. Rows are
coordinates, which count from 0: row T - 2 is that of p_{T-1}, the second operand's position.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import torch
from torch import Tensor

from assignadd.paper.theory.setting import DTYPE, W_0, Setting

# The values of N, T, V and alpha at which the bound is checked, in all combinations.
GRID = (
    (13, 29, 59, 97, 149, 199),
    (8, 16, 32, 64, 128, 256),
    (1, 2, 4, 6, 8, 12),
    (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1),
)
# N and alpha at which the constant is measured over beta: the bound is large in the first and small in the second.
EXTREMES = ((59, 1e-3), (499, 1e-9))
MEMORY_NORM = 2.0  # each row Phi_1 e_v of the associative memory has two ones


@lru_cache(maxsize=4)
def gradient(s: Setting) -> Tensor:
    """nabla L(W_0) of the population loss L, (d, 1 + V), exactly.

    With p_k the softmax of the logits and q_k = p_k - 1{y=k}, the proof's expansion of A_k gives nabla L = alpha
    E[(a_m (x_{T-1} - x_bar) + a_n (x_{t*} - x_bar)) x_T^T]: t* is the position of the assignment, x_bar the mean of
    the inputs x_t under the attention, a_m = 2 rho_1^2 q_{2m} + 2 rho_1 rho_2 q_{n+m}, and a_n = 2 rho_2^2 q_{2n} +
    2 rho_1 rho_2 q_{n+m}. As a_m and a_n depend on n - m alone, they can be averaged apart from the inputs.
    """
    q_2m, q_sum, q_2n = mean_errors(s)
    a_m = 2 * s.rho_1**2 * q_2m + 2 * s.rho_1 * s.rho_2 * q_sum
    a_n = 2 * s.rho_2**2 * q_2n + 2 * s.rho_1 * s.rho_2 * q_sum
    second, assignment, x_bar = mean_inputs(s)
    keys = a_m * (second - x_bar) + a_n * (assignment - x_bar)  # (V, d)
    query = torch.cat([torch.ones(s.V, 1, dtype=DTYPE), torch.eye(s.V, dtype=DTYPE)], 1)  # x_T by v, (V, 1 + V)
    return s.alpha * keys.T @ query / s.V


def mean_errors(s: Setting) -> tuple[float, float, float]:
    """The means over n and m of the error q_k = p_k - 1{y=k} at k = 2m, k = n+m and k = 2n, at W_0.

    The MLP's output M_k is rho_1^2, 2 rho_1 rho_2 and rho_2^2 there, summed where they coincide, and 0 elsewhere. As
    only n - m matters, m = 0 stands for all m; then 2m = 0 and n+m = n, the answer y.
    """
    n = torch.arange(s.N)
    double = 2 * n % s.N
    outputs = torch.zeros(s.N, s.N, dtype=DTYPE)  # M_k for each n: (n, k)
    outputs[n, 0] += s.rho_1**2
    outputs[n, n] += 2 * s.rho_1 * s.rho_2
    outputs[n, double] += s.rho_2**2
    p = (s.alpha * outputs).softmax(1)
    # 2m and 2n are the answer where n = m, once in N.
    return float(p[n, 0].mean() - 1 / s.N), float(p[n, n].mean() - 1), float(p[n, double].mean() - 1 / s.N)


def mean_inputs(s: Setting) -> tuple[Tensor, Tensor, Tensor]:
    """The means over t*, n and m of x_{T-1}, of x_{t*} and of x_bar at W_0, for each variable v, (V, d) each.

    Positions count from 0 here: the operands are at T-3 and T-2, `=` is at T-1, and t* is any position before T-3.
    """
    each_variable = torch.eye(s.V, dtype=DTYPE)
    second = torch.zeros(s.V, s.d, dtype=DTYPE)  # x_{T-1}: the second operand
    second[:, s.T - 2] = 1
    second[:, s.number] = 1 / s.N
    assignment = torch.zeros(s.V, s.d, dtype=DTYPE)  # x_{t*}
    assignment[:, : s.T - 3] = 1 / (s.T - 3)
    assignment[:, s.number] = 1 / s.N
    assignment[:, s.copied] = each_variable
    x_bar = s.rho_1 * second + s.rho_2 * assignment
    x_bar[:, s.T - 3] += s.rho_2  # the first operand
    x_bar[:, s.variable] += s.rho_2 * each_variable
    x_bar[:, : s.T - 3] += s.rho_3 * (s.T - 4) / (s.T - 3)  # the T - 4 PADs, at any position but t*
    x_bar[:, s.pad] += s.rho_3 * (s.T - 4)
    x_bar[:, s.T - 1] += s.rho_3  # `=`
    x_bar[:, s.copied] += s.rho_3 * each_variable
    return second, assignment, x_bar


def eta(s: Setting) -> float:
    """The learning rate of theorem C.1, V N / (2 alpha rho_1 rho_2 (N - 1))."""
    return s.V * s.N / (2 * s.alpha * s.rho_1 * s.rho_2 * (s.N - 1))


def after_step(s: Setting, length: float = 1.0) -> Tensor:
    """W_0 - length eta nabla L(W_0), where `length` is a share of the theorem's step; its W_1 for length 1."""
    return W_0(s) - length * eta(s) * gradient(s)


def memory(s: Setting) -> Tensor:
    """The associative memory sum_v Phi_1 e_v (Phi_1 e_v + p_T)^T, (d, 1 + V): column 0 is p_T, the others Phi_1 e_v."""
    term = torch.zeros(s.d, 1 + s.V, dtype=DTYPE)
    term[s.copied, 0] = 1
    term[s.copied, 1:] = torch.eye(s.V, dtype=DTYPE)
    return term


def attenuation(s: Setting) -> Tensor:
    """The other displayed term, W~_0 - W_0 = -(2 rho_1 - 1) p_{T-1} (V p_T + sum_v Phi_1 e_v)^T, (d, 1 + V)."""
    term = torch.zeros(s.d, 1 + s.V, dtype=DTYPE)
    term[s.T - 2, 0] = -(2 * s.rho_1 - 1) * s.V
    term[s.T - 2, 1:] = -(2 * s.rho_1 - 1)
    return term


def remainder(s: Setting) -> Tensor:
    """W_1 - W~_0 - memory: what the theorem's displayed terms leave of the step, (d, 1 + V)."""
    return -eta(s) * gradient(s) - attenuation(s) - memory(s)


@dataclass(frozen=True)
class Check:
    """Theorem C.1 at one setting: the infinity norms (largest row sums) of its remainder and of its other term."""

    s: Setting
    remainder: float
    attenuation: float

    @property
    def bound(self) -> float:
        """V (1/N + 1/T + T alpha), to which the remainder is compared."""
        return self.s.V * (1 / self.s.N + 1 / self.s.T + self.s.T * self.s.alpha)

    @property
    def constant(self) -> float:
        """The least constant with which the theorem's bound holds here."""
        return self.remainder / self.bound


def check(s: Setting) -> Check:
    """The sizes of the theorem's terms at this setting."""
    remainder_norm = float(remainder(s).abs().sum(1).max())
    attenuation_norm = float(attenuation(s).abs().sum(1).max())
    return Check(s, remainder_norm, attenuation_norm)


@lru_cache
def grid_checks() -> list[Check]:
    """The theorem at every combination of the numbers in `GRID`, at beta = log T."""
    return [check(Setting(N, T, V, alpha)) for N, T, V, alpha in product(*GRID)]


@lru_cache
def constants_over_beta(V: int) -> dict[int, float]:
    """By T, the largest constant of the bound over `EXTREMES` and over the beta that meet the theorem's conditions.

    The beta are quarters from 1/4 to 14 3/4.
    """
    constants = {}
    for T in (16, 64, 256, 1024, 4096):
        betas = [i / 4 for i in range(1, 60) if Setting(T=T, beta=i / 4).meets_conditions]
        settings = [Setting(max(N, V), T, V, alpha, beta) for N, alpha in EXTREMES for beta in betas]  # V <= N
        constants[T] = max(check(s).constant for s in settings)
    return constants
