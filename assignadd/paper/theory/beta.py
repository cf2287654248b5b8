"""How theorem C.1 depends on beta, the scale of W_0, which the paper leaves free: its conditions, bound and step.

Intervals of beta are found on a grid and refined on ever finer ones. Whether the stated step adds one variable and one
number depends on one score only (`composition.operand_lead`), so finding these intervals needs no random sequences.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np

from assignadd.paper.theory.composition import (
    Composition,
    after_step,
    balancing_length,
    composition,
    tested_assignments,
)
from assignadd.paper.theory.setting import Setting, initial_attention
from assignadd.paper.theory.symmetric import COPIED, OTHER, OWN, PREFIX, SECOND, gradient_rows, gradient_weights
from assignadd.paper.theory.theorem import MEMORY_NORM, Check, check, fitted_constant

FACTOR = 4.0  # rho_1 = Theta(1) and rho_2 = Theta(1/T) are read as within this factor of 1 and of 1/T
SCAN_DRAWS = 2000
SIZES = ((13, 59, 199), (8, 16, 64, 256, 1024, 1 << 14, 1 << 20), (1, 2, 4, 8, 12))  # N, T, V
LEADS = tuple(np.linspace(-0.6, 0.6, 7).tolist())  # within log 2 of 0, where a single assignment is added correctly

Interval = tuple[float, float]


def lead_change(s: Setting, beta: np.ndarray) -> np.ndarray:
    """`operand_lead(update(s.at(b)))` for each b in `beta`: what the step of theorem C.1 adds to the score of the
    second operand minus that of the assignment."""
    rho_1, rho_2, _ = rho = initial_attention(s.T, np.exp(beta))
    m_uniform, n_uniform, m_r, n_r = gradient_weights(s.N, s.alpha, rho_1, rho_2)
    plain, (_, copied) = gradient_rows(s, rho, m_uniform + m_r, n_uniform + n_r)
    eta_alpha = s.V * s.N / (2 * rho_1 * rho_2 * (s.N - 1))
    return -eta_alpha * ((1 + 1 / s.V) * (plain[SECOND] - plain[PREFIX]) - 2 * copied)


def intervals(inside: Callable[[np.ndarray], np.ndarray], grid: np.ndarray) -> list[Interval]:
    """The intervals in which `inside` is at least 0, between the ends of the grid."""
    positive = inside(grid) >= 0
    edge = np.flatnonzero(positive[1:] != positive[:-1])
    low, high, rising = grid[edge], grid[edge + 1], positive[edge + 1]
    for _ in range(7):  # 64 parts at a time: 2^42 in all
        points = np.linspace(low, high, 65)  # (65, edges)
        beyond = (inside(points) >= 0) == rising
        beyond[0], beyond[-1] = False, True  # as is known, whatever they are rounded to
        low, high = (np.take_along_axis(points, beyond.argmax(0)[None] - i, 0)[0] for i in (1, 0))
    first, last = grid[:1][positive[:1]], grid[-1:][positive[-1:]]
    ends = np.concatenate([first, (low + high) / 2, last]).tolist()
    return list(zip(ends[::2], ends[1::2], strict=True))


def beta_grid(s: Setting, step: float = 0.01) -> np.ndarray:
    """From near 0 to well above the larger beta at which the step composes, which is near V + 3 for large T."""
    return np.arange(step, min(300.0, s.V + math.log(s.T) + 8), step)


def condition_intervals(s: Setting, factor: float = FACTOR, step: float = 0.01) -> list[Interval]:
    """The beta that meet the conditions of theorem C.1 within this factor."""

    def inside(beta: np.ndarray) -> np.ndarray:  # as Setting.theta_factor
        rho_1, rho_2, _ = initial_attention(s.T, np.exp(beta))
        return factor - np.maximum(1 / rho_1, np.maximum(s.T * rho_2, 1 / (s.T * rho_2)))

    return intervals(inside, beta_grid(s, step))


def composing_intervals(s: Setting, step: float = 0.01) -> list[Interval]:
    """The beta at which the step of the stated length makes the model add one variable and one number."""
    return intervals(lambda beta: math.log(2) - np.abs(beta + lead_change(s, beta)), beta_grid(s, step))


def intersection(first: Sequence[Interval], second: Sequence[Interval]) -> list[Interval]:
    """The intervals that lie in both."""
    both = [(max(a, c), min(b, d)) for a, b in first for c, d in second]
    return [(low, high) for low, high in both if low < high]


def spaced(found: Sequence[Interval], n: int) -> list[float]:
    """`n` evenly spaced beta in each interval, its ends included."""
    return [beta for low, high in found for beta in np.linspace(low, high, n).tolist()]


def listed(found: Sequence[Interval]) -> str:
    """Intervals in words, such as `1.47 to 1.61 and 15.31 to 16.69`."""
    return " and ".join(f"{low:.2f} to {high:.2f}" for low, high in found) or "none"


@dataclass(frozen=True)
class BetaPoint:
    """Theorem C.1 and its step at one beta."""

    check: Check
    stated: tuple[float, float]
    """Accuracy after the stated step, with one assignment and with the most."""
    length: float | None
    """Share of eta at which assignment and second operand get the same attention; None if there is none."""
    balanced: tuple[float, float]
    """Accuracy after a step of that length; NaN if there is none."""
    preference: float
    """Attention to the right assignment over that to each other one, after the stated step."""

    @property
    def beta(self) -> float:
        return self.check.s.actual_beta


def beta_point(s: Setting, most: int) -> BetaPoint:
    """The theorem's numbers and accuracies at the beta of `s`, with one and with `most` assignments."""

    def accuracies(length: float) -> tuple[float, float]:
        one, many = (composition(after_step(s, length), K, draws=SCAN_DRAWS).accuracy for K in (1, most))
        return one, many

    stated, length = after_step(s).variable[COPIED], balancing_length(s)
    balanced = (math.nan, math.nan) if length is None else accuracies(length)
    return BetaPoint(check(s), accuracies(1.0), length, balanced, math.exp(float(stated[OWN] - stated[OTHER])))


@dataclass(frozen=True)
class Best:
    """The beta and step length with the highest accuracy among some candidates."""

    beta: float
    length: float
    found: Composition
    """On other random numbers than those on which it was chosen."""


def best_of(s: Setting, K: int, candidates: Sequence[tuple[float, float]]) -> Best:
    """The candidate (beta, length) with the highest accuracy with K assignments."""

    def at(candidate: tuple[float, float], draws: int, seed: int) -> Composition:
        return composition(after_step(s.at(candidate[0]), candidate[1]), K, draws=draws, seed=seed)

    best = max(candidates, key=lambda candidate: at(candidate, SCAN_DRAWS, 1).accuracy)
    return Best(*best, at(best, 20_000, 0))


@dataclass(frozen=True)
class BetaScan:
    """Theorem C.1 and its step over beta, at the sizes of one setting."""

    s: Setting
    most: int
    """The largest number of assignments in context."""
    points: list[BetaPoint]
    conditions: list[Interval]
    """The beta that meet the theorem's conditions."""
    composing: list[Interval]
    """The beta at which the stated step adds one variable and one number."""
    stated_one: Best
    """Stated step, one assignment: the middle of the widest `composing` interval, or log T without any."""
    stated_many: Best
    """Stated step, `most` assignments."""
    stated_many_within: Best | None
    """The same among the beta that also meet the conditions; None without any."""
    any_length_many: Best
    """`most` assignments, among the beta that meet the conditions, at the best length of the step."""
    here_many: Best
    """The same at the setting's own beta."""


def beta_scan(s: Setting, points: int = 60) -> BetaScan:
    """The theorem's numbers, intervals and best accuracies over beta, at the sizes of `s`."""
    most, grid, own = tested_assignments(s)[-1], beta_grid(s), s.actual_beta
    composing, conditions = composing_intervals(s), condition_intervals(s)
    just_inside, just_outside = ([(low + x, high - x) for low, high in composing] for x in (1e-3, -1e-3))
    near = [*spaced(just_inside, 9), *spaced(just_outside, 2)]
    shown = sorted({*np.geomspace(0.2, grid[-1], points).tolist(), *near, math.log(s.T)})
    widest = max(composing, key=lambda band: band[1] - band[0], default=(math.log(s.T), math.log(s.T)))
    middle = sum(widest) / 2
    stated = [(beta, 1.0) for beta in [*spaced(composing, 9), middle]]
    within = [(beta, 1.0) for beta in spaced(intersection(conditions, composing), 9)]

    def balanced(beta: float, at: Setting) -> list[tuple[float, float]]:
        return [(beta, length) for lead in LEADS if (length := balancing_length(at, lead)) is not None]

    lengths = [found for beta in spaced(conditions, 31) for found in balanced(beta, s.at(beta)) if found[1] < 10]
    return BetaScan(
        s,
        most,
        [beta_point(s.at(beta), most) for beta in shown],
        conditions,
        composing,
        Best(middle, 1.0, composition(after_step(s.at(middle)), 1)),
        best_of(s, most, stated),
        best_of(s, most, within) if within else None,
        best_of(s, most, lengths or stated),
        best_of(s, most, balanced(own, s) or [(own, 1.0)]),
    )


class LeastRemainder(NamedTuple):
    """The least remainder among the beta that meet the theorem's conditions and at which the stated step composes."""

    s: Setting
    beta: float
    remainder: float
    """Over the memory's norm; infinite if no beta does both."""


def least_remainder(s: Setting, step: float = 0.01) -> LeastRemainder:
    """The least remainder at the sizes of `s`."""
    both = intersection(condition_intervals(s, step=step), composing_intervals(s, step=step))
    found = [(check(s.at(beta)).remainder / MEMORY_NORM, beta) for beta in spaced(both, 9)]
    remainder, beta = min(found, default=(math.inf, math.nan))
    return LeastRemainder(s, beta, remainder)


@lru_cache(maxsize=1)
def least_remainders() -> tuple[LeastRemainder, ...]:
    """`least_remainder` at every triple of SIZES; alpha is so small that it has no effect."""
    return tuple(least_remainder(Setting(N, T, V, 1e-6), 0.04) for N, T, V in product(*SIZES) if V <= N)


def condition_constants(V: int, factor: float) -> dict[int, float]:
    """T -> the largest constant of the bound over N, alpha and the beta that meet the conditions within this factor."""
    found = {}
    for T in (8, 16, 64, 256, 1024, 4096):
        sizes = [Setting(N, T, V, alpha) for N in (max(59, V), 9973) for alpha in (1e-9, 1e-3)]
        tried = spaced(condition_intervals(sizes[0], factor), 7)
        found[T] = fitted_constant([check(s.at(beta)) for s in sizes for beta in tried])
    return found


def remainder_exponent(V: int, power: float) -> float:
    """The exponent of T in T times the remainder where e^beta = T^power: at most 0 if the remainder is O(V/T)."""
    sizes = [Setting(max(9973, V), T, V, 1e-12, power * math.log(T)) for T in (1 << 20, 1 << 24)]
    near, far = (check(s).remainder * s.T for s in sizes)
    return math.log(far / near) / math.log(16)


def constant_attention(s: Setting, K: int) -> float:
    """Attention of the last position to the second operand under W_0 with K assignments in context; rho_1 for one."""
    e = s.e_beta
    return e * e / (e * e + (K + 1) * e + s.T - 2 - K)


def focusing_beta(s: Setting, K: int) -> float:
    """The beta above which W_0 puts more than half of the attention on the second operand, with K assignments."""
    return math.log((K + 1 + math.sqrt((K + 1) ** 2 + 4 * (s.T - 2 - K))) / 2)
