"""Key-query matrices that treat all variables, all numbers and all prefix positions alike, and the gradient at W_0.

W_0 is such a matrix, and so is the gradient there of every loss that treats them alike, so gradient descent stays
among them. A query is p_T + Phi_1 e_v, so only the columns p_T and Phi_1 e_v matter, and 18 numbers give the matrix:

    rows p_t (each of the first T-3), p_{T-2}, p_{T-1}, p_T, e_n (each), e_pad     (column p_T, column Phi_1 e_v)
    rows e_v (each), Phi_1 e_v (each)                  (column p_T, own column Phi_1 e_v, any other variable's)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from assignadd.paper.theory.setting import DTYPE, Setting

PREFIX, FIRST, SECOND, LAST, NUMBER, PAD = range(6)  # rows p_t, p_{T-2}, p_{T-1}, p_T, e_n, e_pad
VARIABLE, COPIED = range(2)  # rows e_v, Phi_1 e_v
P_T, OWN, OTHER = range(3)  # columns; the six plain rows have two: p_T, and Phi_1 e_v of any variable


@dataclass(frozen=True)
class Symmetric:
    """Such a matrix as its 18 numbers."""

    s: Setting
    plain: np.ndarray  # (6, 2)
    variable: np.ndarray  # (2, 3)

    @classmethod
    def zeros(cls, s: Setting) -> Symmetric:
        """The zero matrix."""
        return cls(s, np.zeros((6, 2)), np.zeros((2, 3)))

    def __add__(self, other: Symmetric) -> Symmetric:
        return Symmetric(self.s, self.plain + other.plain, self.variable + other.variable)

    def __sub__(self, other: Symmetric) -> Symmetric:
        return Symmetric(self.s, self.plain - other.plain, self.variable - other.variable)

    def __mul__(self, factor: float) -> Symmetric:
        return Symmetric(self.s, self.plain * factor, self.variable * factor)

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
        V, plain, variable = self.s.V, self.plain.tolist(), self.variable.tolist()
        sums = [abs(a) + V * abs(b) for a, b in plain] + [abs(a) + abs(b) + (V - 1) * abs(c) for a, b, c in variable]
        return max(sums)

    def largest_entry(self) -> float:
        """The largest absolute value of an entry."""
        return float(max(abs(self.plain).max(), abs(self.variable).max()))

    def dot(self, other: Symmetric) -> float:
        """Frobenius product of the full matrices."""
        plain, variable = multiplicity(self.s)
        return float((plain * self.plain * other.plain).sum() + (variable * self.variable * other.variable).sum())

    def frobenius(self) -> float:
        """Frobenius norm of the full matrix."""
        return math.sqrt(self.dot(self))


@lru_cache(maxsize=256)
def multiplicity(s: Setting) -> tuple[np.ndarray, np.ndarray]:
    """How many entries of the full matrix are equal to each of the 18 numbers, (6, 2) and (2, 3)."""
    rows, V = np.array([s.T - 3, 1, 1, 1, s.N, 1], dtype=float), float(s.V)
    return np.stack([rows, rows * V], 1), np.tile([V, V, V * (V - 1)], (2, 1))


def W_0(s: Setting) -> Symmetric:
    """The initial matrix beta (p_{T-2} + p_{T-1}) p_T^T + beta sum_n e_n p_T^T: equation init_w0."""
    W = Symmetric.zeros(s)
    W.plain[[FIRST, SECOND, NUMBER], P_T] = s.actual_beta
    return W


def _table_of_scores() -> tuple[np.ndarray, np.ndarray]:
    """Which of the 18 numbers each score of `scores` is a sum of, (6, 6, 2) and (6, 2, 3): zeros and ones."""
    rows = (PREFIX, NUMBER), (PREFIX, NUMBER), (SECOND, NUMBER), (FIRST,), (PREFIX, PAD), (LAST,)
    of_variable = (COPIED, OWN), (COPIED, OTHER), None, (VARIABLE, OWN), None, (COPIED, OWN)
    plain, variable = np.zeros((6, 6, 2)), np.zeros((6, 2, 3))
    for i, (some, entry) in enumerate(zip(rows, of_variable, strict=True)):
        plain[i, list(some)] = 1  # the query is p_T + Phi_1 e_v*: both columns
        if entry is not None:
            row, column = entry
            variable[i, row, [P_T, column]] = 1
    return plain, variable


OF_PLAIN, OF_VARIABLE = _table_of_scores()


def scores(W: Symmetric) -> np.ndarray:
    """Attention scores x_t^T W x_T, (6,), for these keys x_t: the assignment of the query's variable, another
    assignment, the second operand, the first operand, PAD, and `=` itself."""
    return OF_PLAIN.reshape(6, -1) @ W.plain.ravel() + OF_VARIABLE.reshape(6, -1) @ W.variable.ravel()


def scores_gradient(s: Setting, by_score: np.ndarray) -> Symmetric:
    """The gradient by W of a function of the scores, from its derivatives by them, (6,).

    The derivative by one of the 18 numbers is the sum over all entries of the matrix that are equal to it.
    """
    sums = by_score @ OF_PLAIN.reshape(6, -1), by_score @ OF_VARIABLE.reshape(6, -1)
    plain, variable = (x.reshape(many.shape) / many.clip(min=1) for x, many in zip(sums, multiplicity(s), strict=True))
    return Symmetric(s, plain, variable)


def gradient_weights(N: int, alpha: float, rho_1: Any, rho_2: Any) -> tuple[Any, Any, Any, Any]:
    """The weights a_m and a_n in nabla L(W_0) = alpha E[(a_m (x_{T-1} - x_bar) + a_n (x_{t*} - x_bar)) x_T^T], for
    numbers or arrays rho_1 and rho_2: a_m and a_n of a uniform prediction, then a_m and a_n of its deviation r.

    With q_k = p_k - 1{y=k}, the proof's expansion of A_k gives a_m = 2 rho_1^2 q_{2m} + 2 rho_1 rho_2 q_{n+m} and
    a_n = 2 rho_2^2 q_{2n} + 2 rho_1 rho_2 q_{n+m}. Both depend on n - m only, hence neither on n nor on m alone, so
    they can be averaged separately. M(z) is rho_1^2, 2 rho_1 rho_2, rho_2^2 at 2m, n+m, 2n, summed where these
    coincide.
    """
    a, b = rho_1, rho_2
    even = N % 2 == 0  # then 2n = 2m for n - m = N/2 as well
    cases = [  # probability; M at 2m, n+m and 2n; the values of M other than 0
        (1 / N, (a + b) ** 2, (a + b) ** 2, (a + b) ** 2, [(a + b) ** 2]),
        ((N - 1 - even) / N, a * a, 2 * a * b, b * b, [a * a, 2 * a * b, b * b]),
        (even / N, a * a + b * b, 2 * a * b, a * a + b * b, [a * a + b * b, 2 * a * b]),
    ]
    r = [0.0 * a, 0.0 * a, 0.0 * a]  # r_k = p_k - 1/N at 2m, n+m, 2n
    for probability, *at, peaks in (case for case in cases if case[0]):
        mean = sum(np.expm1(alpha * x) for x in peaks) / N
        for i, x in enumerate(at):
            r[i] = r[i] + probability * (np.expm1(alpha * x) - mean) / (N * (1 + mean))
    uniform = -2 * a * b * (N - 1) / N  # 1/N - 1{n=m} averages to 0, so 2m and 2n drop out: G_1 = G_2 = 0
    return uniform, uniform, 2 * a * a * r[0] + 2 * a * b * r[1], 2 * b * b * r[2] + 2 * a * b * r[1]


def gradient_rows(s: Setting, rho: Any, a_m: Any, a_n: Any) -> tuple[list[Any], list[Any]]:
    """Column p_T of E[(a_m (x_{T-1} - x_bar) + a_n (x_{t*} - x_bar)) x_T^T]: the six plain rows, and the rows e_v and
    Phi_1 e_v. Numbers or arrays."""
    total, (rho_1, rho_2, rho_3) = a_m + a_n, rho
    prefix = (a_n - total * rho_2 - total * rho_3 * (s.T - 4)) / (s.T - 3)
    numbers = (a_m + a_n - total * (rho_1 + rho_2)) / s.N
    plain = [prefix, -total * rho_2, a_m - total * rho_1, -total * rho_3, numbers, -total * rho_3 * (s.T - 4)]
    return plain, [-total * rho_2 / s.V, (a_n - total * (rho_2 + rho_3)) / s.V]


def gradient_parts(s: Setting) -> tuple[Symmetric, Symmetric]:
    """nabla L(W_0) in two parts: alpha G_3, of a uniform prediction, and alpha R_alpha, of its deviation r."""
    m_uniform, n_uniform, m_r, n_r = gradient_weights(s.N, s.alpha, s.rho_1, s.rho_2)
    return _gradient(s, m_uniform, n_uniform), _gradient(s, m_r, n_r)


def gradient(s: Setting) -> Symmetric:
    """nabla L(W_0), exactly, in time that does not grow with N, T or V."""
    m_uniform, n_uniform, m_r, n_r = gradient_weights(s.N, s.alpha, s.rho_1, s.rho_2)
    return _gradient(s, m_uniform + m_r, n_uniform + n_r)


def _gradient(s: Setting, a_m: float, a_n: float) -> Symmetric:
    plain, variable = (np.array(rows) for rows in gradient_rows(s, s.rho, a_m, a_n))
    return Symmetric(
        s,
        s.alpha * np.stack([plain, plain / s.V], 1),  # x_T = p_T + Phi_1 e_v, and v is uniform on V variables
        s.alpha * np.stack([variable, variable, np.zeros(2)], 1),
    )
