"""Key-query matrices that treat all variables, all numbers and all prefix positions alike, and the gradient at W_0.

W_0 is such a matrix, and so is the gradient there of every loss that treats them alike, so gradient descent stays
among them. A query is p_T + Phi_1 e_v, so only the columns p_T and Phi_1 e_v matter, and 18 numbers give the matrix:

    rows p_t (each of the first T-3), p_{T-2}, p_{T-1}, p_T, e_n (each), e_pad     (column p_T, column Phi_1 e_v)
    rows e_v (each), Phi_1 e_v (each)                  (column p_T, own column Phi_1 e_v, any other variable's)

So the gradient at W_0 takes no time that grows with N, T or V.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from assignadd.paper.theory.setting import DTYPE, Setting

PREFIX, FIRST, SECOND, LAST, NUMBER, PAD = range(6)  # rows p_t, p_{T-2}, p_{T-1}, p_T, e_n, e_pad
VARIABLE, COPIED = range(2)  # rows e_v, Phi_1 e_v
P_T, OWN, OTHER = range(3)  # columns; the six plain rows have two: p_T, and Phi_1 e_v of any variable


@dataclass(frozen=True)
class Symmetric:
    """Such a matrix as its 18 numbers: those of the six plain rows, then those of the rows of variables."""

    s: Setting
    numbers: np.ndarray  # (18,)

    @classmethod
    def zeros(cls, s: Setting) -> Symmetric:
        """The zero matrix."""
        return cls(s, np.zeros(18))

    @property
    def plain(self) -> np.ndarray:
        """The rows PREFIX to PAD, a view of shape (6, 2)."""
        return self.numbers[:12].reshape(6, 2)

    @property
    def variable(self) -> np.ndarray:
        """The rows VARIABLE and COPIED, a view of shape (2, 3)."""
        return self.numbers[12:].reshape(2, 3)

    def __add__(self, other: Symmetric) -> Symmetric:
        return Symmetric(self.s, self.numbers + other.numbers)

    def __sub__(self, other: Symmetric) -> Symmetric:
        return Symmetric(self.s, self.numbers - other.numbers)

    def __mul__(self, factor: float) -> Symmetric:
        return Symmetric(self.s, self.numbers * factor)

    def dense(self) -> Tensor:
        """The matrix itself, (d, d)."""
        s, W = self.s, torch.zeros(self.s.d, self.s.d, dtype=DTYPE)
        rows: tuple[slice | int, ...] = (slice(0, s.T - 3), s.T - 3, s.T - 2, s.T - 1, s.number, s.pad)
        for row, (to_p_T, to_copied) in zip(rows, self.plain.tolist(), strict=True):
            W[row, s.T - 1], W[row, s.copied] = to_p_T, to_copied
        for row, (to_p_T, own, other) in zip((s.variable, s.copied), self.variable.tolist(), strict=True):
            W[row, s.T - 1] = to_p_T
            W[row, s.copied] = other + (own - other) * torch.eye(s.V, dtype=DTYPE)
        return W

    def infinity_norm(self) -> float:
        """The matrix infinity norm: the largest sum of absolute values in a row."""
        V, plain, variable = self.s.V, abs(self.plain), abs(self.variable)
        return float(max((plain @ [1, V]).max(), (variable @ [1, 1, V - 1]).max()))

    def dot(self, other: Symmetric) -> float:
        """Frobenius product of the full matrices."""
        return float(multiplicity(self.s) @ (self.numbers * other.numbers))

    def cosine(self, other: Symmetric) -> float:
        """Frobenius cosine of the full matrices."""
        return self.dot(other) / math.sqrt(self.dot(self) * other.dot(other))


@lru_cache(maxsize=256)
def multiplicity(s: Setting) -> np.ndarray:
    """How many entries of the full matrix are equal to each of the 18 numbers, (18,)."""
    V = float(s.V)
    counts = Symmetric.zeros(s)
    counts.plain[:] = np.outer([s.T - 3, 1, 1, 1, s.N, 1], [1.0, V])
    counts.variable[:] = V, V, V * (V - 1)
    return counts.numbers


def W_0(s: Setting) -> Symmetric:
    """The initial matrix beta (p_{T-2} + p_{T-1}) p_T^T + beta sum_n e_n p_T^T: equation init_w0."""
    W = Symmetric.zeros(s)
    W.plain[[FIRST, SECOND, NUMBER], P_T] = s.actual_beta
    return W


def _score_table() -> np.ndarray:
    """Which of the 18 numbers each score of `scores` is a sum of, (6, 18): zeros and ones.

    The query is p_T + Phi_1 e_v*, so a key with a plain row has both columns of it.
    """
    plain = (PREFIX, NUMBER), (PREFIX, NUMBER), (SECOND, NUMBER), (FIRST,), (PREFIX, PAD), (LAST,)
    of_variable = (COPIED, OWN), (COPIED, OTHER), None, (VARIABLE, OWN), None, (COPIED, OWN)
    table = np.zeros((6, 18))
    for sums, rows, entry in zip(table, plain, of_variable, strict=True):
        sums[:12].reshape(6, 2)[list(rows)] = 1
        if entry is not None:
            row, column = entry
            sums[12:].reshape(2, 3)[row, [P_T, column]] = 1
    return table


SCORES = _score_table()


def scores(W: Symmetric) -> np.ndarray:
    """Attention scores x_t^T W x_T, (6,), for these keys x_t: the assignment of the query's variable, another
    assignment, the second operand, the first operand, PAD, and `=` itself."""
    return SCORES @ W.numbers


def scores_gradient(s: Setting, by_score: np.ndarray) -> Symmetric:
    """The gradient by W of a function of the scores, from its derivatives by them, (6,).

    The derivative by one of the 18 numbers is the sum over all entries of the matrix that are equal to it.
    """
    return Symmetric(s, by_score @ SCORES / multiplicity(s).clip(min=1))


@lru_cache(maxsize=256)  # asked of the same setting with many step lengths
def gradient_parts(s: Setting) -> tuple[Symmetric, Symmetric]:
    """nabla L(W_0), exactly, in two parts: alpha G_3, of a uniform prediction, and alpha R_alpha, of its deviation r.

    With q_k = p_k - 1{y=k}, the proof's expansion of A_k gives nabla L = alpha E[(a_m (x_{T-1} - x_bar) + a_n (x_{t*} -
    x_bar)) x_T^T], where a_m = 2 rho_1^2 q_{2m} + 2 rho_1 rho_2 q_{n+m} and a_n = 2 rho_2^2 q_{2n} + 2 rho_1 rho_2
    q_{n+m}. Both depend on n - m only, hence neither on n nor on m alone, so they can be averaged separately.
    """
    a, b = s.rho_1, s.rho_2
    uniform = -2 * a * b * (s.N - 1) / s.N  # 1/N - 1{n=m} averages to 0, so 2m and 2n drop out: G_1 = G_2 = 0
    at_2m, at_sum, at_2n = _mean_deviations(s)
    deviation = 2 * a * a * at_2m + 2 * a * b * at_sum, 2 * b * b * at_2n + 2 * a * b * at_sum
    return _weighted(s, uniform, uniform), _weighted(s, *deviation)


def gradient(s: Setting) -> Symmetric:
    """nabla L(W_0)."""
    uniform, deviation = gradient_parts(s)
    return uniform + deviation


def _mean_deviations(s: Setting) -> tuple[float, float, float]:
    """The mean of r_k = p_k - 1/N at k = 2m, k = n+m and k = 2n.

    M_k(z) is rho_1^2, 2 rho_1 rho_2, rho_2^2 at these k, summed where they coincide, and 0 elsewhere.
    """
    a, b = s.rho_1, s.rho_2
    even = s.N % 2 == 0  # then 2n = 2m for n - m = N/2 as well
    cases = [  # probability; M at 2m, n+m and 2n; the values of M other than 0
        (1 / s.N, ((a + b) ** 2, (a + b) ** 2, (a + b) ** 2), [(a + b) ** 2]),
        ((s.N - 1 - even) / s.N, (a * a, 2 * a * b, b * b), [a * a, 2 * a * b, b * b]),
        (even / s.N, (a * a + b * b, 2 * a * b, a * a + b * b), [a * a + b * b, 2 * a * b]),
    ]
    r = [0.0, 0.0, 0.0]
    for probability, M, peaks in cases:
        mean = sum(math.expm1(s.alpha * x) for x in peaks) / s.N
        for i, x in enumerate(M):
            r[i] += probability * (math.expm1(s.alpha * x) - mean) / (s.N * (1 + mean))
    return r[0], r[1], r[2]


def _weighted(s: Setting, a_m: float, a_n: float) -> Symmetric:
    """alpha E[(a_m (x_{T-1} - x_bar) + a_n (x_{t*} - x_bar)) x_T^T]."""
    total = a_m + a_n
    gradient = Symmetric.zeros(s)
    plain = np.array([
        (a_n - total * s.rho_2 - total * s.rho_3 * (s.T - 4)) / (s.T - 3),
        -total * s.rho_2,
        a_m - total * s.rho_1,
        -total * s.rho_3,
        (total - total * (s.rho_1 + s.rho_2)) / s.N,
        -total * s.rho_3 * (s.T - 4),
    ])  # fmt: skip
    variable = np.array([-total * s.rho_2 / s.V, (a_n - total * (s.rho_2 + s.rho_3)) / s.V])
    gradient.plain[:] = np.stack([plain, plain / s.V], 1)  # x_T = p_T + Phi_1 e_v, and v is uniform on V variables
    gradient.variable[:, [P_T, OWN]] = variable[:, None]
    return gradient * s.alpha
