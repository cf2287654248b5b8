"""What depends on beta, the strength of W_0, which the paper leaves free: the theorem's conditions, bound and step.

Intervals of beta are found on a grid and refined by bisection. Where the stated step adds one variable and one number
needs no sampling, since it depends on one score only (`composition.operand_lead`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np

from assignadd.theory.composition import (
    Composition,
    after_step,
    balancing_length,
    composition,
    tested_assignments,
)
from assignadd.theory.setting import Setting, initial_attention
from assignadd.theory.symmetric import COPIED, OTHER, OWN, pulls_at
from assignadd.theory.theorem import MEMORY_NORM, Check, check

FACTOR = 4.0  # rho_1 = Theta(1) and rho_2 = Theta(1/T) are read as within this factor of 1 and of 1/T
SCAN_DRAWS = 2000
SIZES = ((13, 59, 199), (8, 16, 64, 256, 1024, 1 << 14, 1 << 20), (1, 2, 4, 8, 12))
LEADS = tuple(np.linspace(-0.6, 0.6, 7).tolist())  # within log 2 of balance, where one assignment is added

Band = tuple[float, float]


def lead_change(s: Setting, beta: np.ndarray) -> np.ndarray:
    """What the theorem's step adds to the second operand's lead at the sizes of `s` and each of these beta: the same as
    `operand_lead(update(s.at(beta)))`, for many beta at once."""
    rho_1, rho_2, rho_3 = initial_attention(s.T, np.exp(beta))
    m_uniform, n_uniform, m_r, n_r = pulls_at(s.N, s.alpha, rho_1, rho_2)
    a_m, a_n = m_uniform + m_r, n_uniform + n_r
    total = a_m + a_n
    prefix = (a_n - total * rho_2 - total * rho_3 * (s.T - 4)) / (s.T - 3)
    copied = (a_n - total * (rho_2 + rho_3)) / s.V
    rate = s.V * s.N / (2 * rho_1 * rho_2 * (s.N - 1))  # eta alpha
    return -rate * ((1 + 1 / s.V) * (a_m - total * rho_1 - prefix) - 2 * copied)


def bands(inside: Callable[[np.ndarray], np.ndarray], grid: np.ndarray) -> list[Band]:
    """The intervals in which `inside` is at least 0, between the ends of the grid."""
    positive = inside(grid) >= 0
    edge = np.flatnonzero(positive[1:] != positive[:-1])
    low, high, rising = grid[edge], grid[edge + 1], positive[edge + 1]
    for _ in range(40):
        middle = (low + high) / 2
        beyond = (inside(middle) >= 0) == rising
        low, high = np.where(beyond, low, middle), np.where(beyond, middle, high)
    first, last = grid[:1][positive[:1]], grid[-1:][positive[-1:]]
    ends = np.concatenate([first, (low + high) / 2, last]).tolist()
    return list(zip(ends[::2], ends[1::2], strict=True))


def beta_grid(s: Setting, step: float = 0.01) -> np.ndarray:
    """From near 0 to well above the larger beta at which the step composes, which is near V + 3 for large T."""
    return np.arange(step, min(300.0, s.V + math.log(s.T) + 8), step)


def condition_bands(s: Setting, factor: float = FACTOR, step: float = 0.01) -> list[Band]:
    """The beta that meet the theorem's conditions, within this factor."""

    def inside(beta: np.ndarray) -> np.ndarray:  # as Setting.theta_factor
        rho_1, rho_2, _ = initial_attention(s.T, np.exp(beta))
        return factor - np.maximum(1 / rho_1, np.maximum(s.T * rho_2, 1 / (s.T * rho_2)))

    return bands(inside, beta_grid(s, step))


def composing_bands(s: Setting, step: float = 0.01) -> list[Band]:
    """The beta at which the step of the stated length makes the model add one variable and one number."""
    return bands(lambda beta: math.log(2) - np.abs(beta + lead_change(s, beta)), beta_grid(s, step))


def common(first: Sequence[Band], second: Sequence[Band]) -> list[Band]:
    """The intervals in both."""
    both = [(max(a, c), min(b, d)) for a, b in first for c, d in second]
    return [(low, high) for low, high in both if low < high]


def spread(found: Sequence[Band], n: int) -> list[float]:
    """`n` evenly spaced beta in each interval, its ends included."""
    return [beta for low, high in found for beta in np.linspace(low, high, n).tolist()]


@dataclass(frozen=True)
class BetaPoint:
    """The theorem and its step at one beta."""

    check: Check
    stated: tuple[float, float]
    """Accuracy after the stated step, with one assignment and with the most."""
    length: float | None
    """Share of eta at which assignment and second operand get the same attention; None where there is none."""
    balanced: tuple[float, float]
    """Accuracy after a step of that length; NaN without one."""
    preference: float
    """Attention to the right assignment over that to each other one, after the stated step."""

    @property
    def beta(self) -> float:
        return self.check.s.actual_beta


@dataclass(frozen=True)
class Best:
    """The beta and step length that are best for some number of assignments in context."""

    beta: float
    length: float
    found: Composition
    """On values other than those it was chosen on."""


@dataclass(frozen=True)
class BetaScan:
    """The theorem and its step over beta, at the sizes of one setting."""

    s: Setting
    most: int
    """Assignments in context."""
    points: list[BetaPoint]
    conditions: list[Band]
    composing: list[Band]
    stated_one: Best
    """Stated step, one assignment: the middle of the widest of the intervals, or log T without any."""
    stated_many: Best
    stated_many_within: Best | None
    """Among the beta that also meet the conditions; None without any."""
    any_length_many: Best
    """Among the beta that meet the conditions, at the best length of the step."""
    here_many: Best
    """The same at the study's own beta alone."""

    @property
    def together(self) -> list[Band]:
        """The beta that meet the conditions and at which the stated step composes."""
        return common(self.conditions, self.composing)


def beta_point(s: Setting, most: int) -> BetaPoint:
    """The theorem's numbers and accuracies at the beta of `s`, with one and with `most` assignments."""
    stated, length = after_step(s), balancing_length(s)
    balanced = (math.nan, math.nan) if length is None else _accuracies(s, length, most)
    preference = math.exp(float(stated.variable[COPIED, OWN] - stated.variable[COPIED, OTHER]))
    return BetaPoint(check(s), _accuracies(s, 1.0, most), length, balanced, preference)


def _accuracies(s: Setting, length: float, most: int) -> tuple[float, float]:
    one, many = (composition(after_step(s, length), K, draws=SCAN_DRAWS).accuracy for K in (1, most))
    return one, many


def beta_scan(s: Setting, points: int = 60) -> BetaScan:
    """The theorem's numbers, intervals and best accuracies over beta, at the sizes of `s`."""
    most, grid = tested_assignments(s)[-1], beta_grid(s)
    composing, conditions = composing_bands(s), condition_bands(s)
    just_inside, just_outside = ([(low + x, high - x) for low, high in composing] for x in (1e-3, -1e-3))
    near = [*spread(just_inside, 9), *spread(just_outside, 2)]
    marks = sorted({*np.geomspace(0.2, grid[-1], points).tolist(), *near, math.log(s.T)})
    widest = max(composing, key=lambda band: band[1] - band[0], default=(math.log(s.T), math.log(s.T)))
    middle = sum(widest) / 2
    stated = [(beta, 1.0) for beta in [*spread(composing, 9), middle]]
    within = [(beta, 1.0) for beta in spread(common(conditions, composing), 9)]
    lengths = [
        (beta, length)
        for beta in spread(conditions, 31)
        for lead in LEADS
        if (length := balancing_length(s.at(beta), lead)) is not None and length < 10
    ]
    own = s.actual_beta
    here = [(own, length) for lead in LEADS if (length := balancing_length(s, lead)) is not None]
    return BetaScan(
        s,
        most,
        [beta_point(s.at(beta), most) for beta in marks],
        conditions,
        composing,
        Best(middle, 1.0, composition(after_step(s.at(middle)), 1)),
        _best(s, most, stated),
        _best(s, most, within) if within else None,
        _best(s, most, lengths or stated),
        _best(s, most, here or [(own, 1.0)]),
    )


def _best(s: Setting, K: int, candidates: Sequence[tuple[float, float]]) -> Best:
    """The candidate (beta, length) with the highest accuracy, chosen on one draw of values and measured on another."""

    def accuracy(candidate: tuple[float, float], draws: int, seed: int) -> Composition:
        return composition(after_step(s.at(candidate[0]), candidate[1]), K, draws=draws, seed=seed)

    best = max(candidates, key=lambda candidate: accuracy(candidate, SCAN_DRAWS, 1).accuracy)
    return Best(*best, accuracy(best, 20_000, 0))


@dataclass(frozen=True)
class Together:
    """The least remainder among the beta that meet the conditions and compose, at one triple of sizes."""

    N: int
    T: int
    V: int
    beta: float
    remainder: float
    """Over the memory's norm; infinite where no beta does both."""


def least_remainder(s: Setting, step: float = 0.01) -> Together:
    """The least remainder over the beta at which the conditions hold and the stated step composes."""
    both = common(condition_bands(s, step=step), composing_bands(s, step=step))
    found = [(check(s.at(beta)).remainder / MEMORY_NORM, beta) for beta in spread(both, 9)]
    remainder, beta = min(found, default=(math.inf, math.nan))
    return Together(s.N, s.T, s.V, beta, remainder)


@lru_cache(maxsize=1)
def together_over_sizes() -> tuple[Together, ...]:
    """`least_remainder` at every triple of SIZES; alpha is small, where it does not matter."""
    return tuple(least_remainder(Setting(N, T, V, 1e-6), 0.04) for N, T, V in product(*SIZES) if V <= N)


def condition_constants(V: int, factor: float) -> dict[int, float]:
    """T -> the largest constant of the bound over N, alpha and the beta that meet the conditions within this factor."""
    found = {}
    for T in (8, 16, 64, 256, 1024, 4096):
        sizes = [Setting(N, T, V, alpha) for N in (max(59, V), 9973) for alpha in (1e-9, 1e-3)]
        marks = spread(condition_bands(sizes[0], factor), 7)
        found[T] = max(check(s.at(beta)).constant for s in sizes for beta in marks)
    return found


def remainder_exponent(V: int, power: float) -> float:
    """How T times the remainder grows with T where e^beta = T^power: at most 0 where the remainder is O(V/T)."""
    sizes = [Setting(max(9973, V), T, V, 1e-12, power * math.log(T)) for T in (1 << 20, 1 << 24)]
    near, far = (check(s).remainder * s.T for s in sizes)
    return math.log(far / near) / math.log(16)


def constant_attention(s: Setting, K: int) -> float:
    """Attention of the last position to the constant operand under W_0 with K assignments in context; rho_1 for one."""
    e = s.e_beta
    return e * e / (e * e + (K + 1) * e + s.T - 2 - K)


def focusing_beta(s: Setting, K: int) -> float:
    """The beta from which W_0 puts more than half of the attention on the constant operand, with K assignments."""
    return math.log((K + 1 + math.sqrt((K + 1) ** 2 + 4 * (s.T - 2 - K))) / 2)


def listed_bands(found: Sequence[Band]) -> str:
    """Intervals in words, such as `1.47 to 1.61 and 15.31 to 16.69`."""
    return " and ".join(f"{low:.2f} to {high:.2f}" for low, high in found) or "none"


@dataclass(frozen=True)
class BetaNumbers:
    """Everything that depends on beta, at the sizes of one setting and over other sizes."""

    scan: BetaScan
    constants: dict[float, dict[int, float]]
    """Factor within which the theorem's conditions hold -> T -> the largest constant of the bound over such beta."""
    here: Together
    by_size: tuple[Together, ...]


def beta_numbers(s: Setting) -> BetaNumbers:
    """The scan at the sizes of `s`, the bound's constants at its V, and the least remainders over sizes."""
    constants = {factor: condition_constants(s.V, factor) for factor in (2.0, FACTOR)}
    return BetaNumbers(beta_scan(s), constants, least_remainder(s), together_over_sizes())
