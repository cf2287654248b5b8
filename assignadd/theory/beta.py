"""What depends on beta, the strength of W_0, which the paper leaves free: the theorem's conditions, its bound, what its step does.

Intervals of beta are found on a grid and refined by bisection; where the stated step adds one variable and one number needs no
sampling, since it depends on one score alone (`descent.operand_lead`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np

from assignadd.theory.composition import Composition, composition
from assignadd.theory.descent import ASSIGNMENTS, after_step, operand_lead
from assignadd.theory.setting import Setting
from assignadd.theory.symmetric import COPIED, OTHER, OWN, W_0, pulls
from assignadd.theory.theorem import MEMORY_NORM, Check, check, eta

FACTOR = 4.0  # rho_1 = Theta(1) and rho_2 = Theta(1/T) are read as within this factor of 1 and of 1/T
SCAN_DRAWS = 2000
SIZES = ((13, 59, 199), (8, 16, 64, 256, 1024, 1 << 14, 1 << 20), (1, 2, 4, 8, 12))
LEADS = tuple(np.linspace(-0.6, 0.6, 7).tolist())  # within log 2 of balance, where one assignment is added

Band = tuple[float, float]


def at(s: Setting, beta: float) -> Setting:
    """The same sizes with another beta."""
    return Setting(s.N, s.T, s.V, s.alpha, beta)


def lead_change(s: Setting) -> float:
    """operand_lead(update(s)) in plain numbers: what the theorem's step adds to the second operand's lead."""
    m_uniform, n_uniform, m_r, n_r = pulls(s)
    a_m, a_n = m_uniform + m_r, n_uniform + n_r
    total, rho_2, rho_3 = a_m + a_n, s.rho_2, s.rho_3
    prefix = (a_n - total * rho_2 - total * rho_3 * (s.T - 4)) / (s.T - 3)
    copied = (a_n - total * (rho_2 + rho_3)) / s.V
    return -eta(s) * s.alpha * ((1 + 1 / s.V) * (a_m - total * s.rho_1 - prefix) - 2 * copied)


def bands(inside: Callable[[float], float], grid: Sequence[float]) -> list[Band]:
    """The intervals in which `inside` is at least 0, between the ends of the grid."""
    found: list[Band] = []
    start, before = None, -1.0
    for i, beta in enumerate(grid):
        value = inside(beta)
        if (value >= 0) != (before >= 0):
            edge = beta if i == 0 else _crossing(inside, grid[i - 1], beta)
            if value >= 0:
                start = edge
            elif start is not None:
                found.append((start, edge))
                start = None
        before = value
    return [*found, (start, grid[-1])] if start is not None else found


def _crossing(inside: Callable[[float], float], low: float, high: float) -> float:
    rising = inside(high) >= 0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if (inside(middle) >= 0) == rising else (middle, high)
    return (low + high) / 2


def beta_grid(s: Setting, step: float = 0.01) -> list[float]:
    """From near 0 to well above the larger beta at which the step composes, which is near V + 3 for large T."""
    return np.arange(step, min(300.0, s.V + math.log(s.T) + 8), step).tolist()


def condition_bands(s: Setting, factor: float = FACTOR, step: float = 0.01) -> list[Band]:
    """The beta that meet the theorem's conditions, within this factor."""
    return bands(lambda beta: factor - at(s, beta).theta_factor, beta_grid(s, step))


def composing_bands(s: Setting, step: float = 0.01) -> list[Band]:
    """The beta at which the step of the stated length makes the model add one variable and one number."""
    return bands(lambda beta: math.log(2) - abs(beta + lead_change(at(s, beta))), beta_grid(s, step))


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
    """Share of eta at which assignment and second operand get the same attention; None where no step along the gradient does that."""
    balanced: tuple[float, float]
    """Accuracy after a step of that length; NaN without one."""
    preference: float
    """Attention to the right assignment over that to each other one, after the stated step."""

    @property
    def beta(self) -> float:
        return math.log(self.check.s.e_beta)


@dataclass(frozen=True)
class Best:
    """The beta and step length that are best for some number of assignments in context."""

    beta: float
    length: float
    found: Composition
    """On values other than those it was chosen on."""


@dataclass(frozen=True)
class BetaScan:
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


def most_assignments(s: Setting) -> int:
    """The largest number of assignments that is tested and fits."""
    return max(K for K in ASSIGNMENTS if min(s.V, s.T - 3) >= K)


def balancing_length(s: Setting, lead: float = 0.0) -> float | None:
    """The share of eta after which the second operand leads by this much; None where no step along the negative gradient gives it."""
    length = (lead - operand_lead(W_0(s))) / lead_change(s)
    return length if 0 < length < math.inf else None


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
    """Everything over beta at the sizes of `s`."""
    most, grid = most_assignments(s), beta_grid(s)
    composing, conditions = composing_bands(s), condition_bands(s)
    just_inside, just_outside = ([(low + side, high - side) for low, high in composing] for side in (1e-3, -1e-3))
    near = [*spread(just_inside, 9), *spread(just_outside, 2)]
    marks = sorted({*np.geomspace(0.2, grid[-1], points).tolist(), *near, math.log(s.T)})
    widest = max(composing, key=lambda band: band[1] - band[0], default=(math.log(s.T), math.log(s.T)))
    stated = [(beta, 1.0) for beta in [*spread(composing, 9), sum(widest) / 2]]
    within = [(beta, 1.0) for beta in spread(common(conditions, composing), 9)]
    lengths = [
        (beta, length)
        for beta in spread(conditions, 31)
        for lead in LEADS
        if (length := balancing_length(at(s, beta), lead)) is not None and length < 10
    ]
    own = math.log(s.e_beta)
    here = [(own, length) for lead in LEADS if (length := balancing_length(s, lead)) is not None]
    return BetaScan(
        s,
        most,
        [beta_point(at(s, beta), most) for beta in marks],
        conditions,
        composing,
        Best(sum(widest) / 2, 1.0, composition(after_step(at(s, sum(widest) / 2)), 1)),
        _best(s, most, stated),
        _best(s, most, within) if within else None,
        _best(s, most, lengths or stated),
        _best(s, most, here or [(own, 1.0)]),
    )


def _best(s: Setting, K: int, candidates: Sequence[tuple[float, float]]) -> Best:
    """Chosen on one draw of values, measured on another."""

    def accuracy(candidate: tuple[float, float], draws: int, seed: int) -> Composition:
        return composition(after_step(at(s, candidate[0]), candidate[1]), K, draws=draws, seed=seed)

    best = max(candidates, key=lambda candidate: accuracy(candidate, SCAN_DRAWS, 1).accuracy)
    return Best(*best, accuracy(best, 20_000, 0))


@dataclass(frozen=True)
class Together:
    """At one triple of sizes: the least remainder, over the memory's norm, among the beta that meet conditions and compose."""

    N: int
    T: int
    V: int
    beta: float
    remainder: float
    """Infinite where no beta does both."""


def least_remainder(s: Setting, step: float = 0.01) -> Together:
    """Over the beta at which the conditions hold and the stated step composes."""
    both = common(condition_bands(s, step=step), composing_bands(s, step=step))
    found = [(check(at(s, beta)).remainder / MEMORY_NORM, beta) for beta in spread(both, 9)]
    remainder, beta = min(found, default=(math.inf, math.nan))
    return Together(s.N, s.T, s.V, beta, remainder)


@lru_cache(maxsize=1)
def together_over_sizes() -> tuple[Together, ...]:
    """`least_remainder` at every triple of SIZES; alpha is small, where it does not matter."""
    return tuple(least_remainder(Setting(N, T, V, 1e-6), 0.04) for N, T, V in product(*SIZES) if V <= N)


def condition_constants(V: int, factor: float) -> dict[int, float]:
    """For each T the largest constant of the bound over N, alpha and the beta that meet the conditions within this factor."""
    found = {}
    for T in (8, 16, 64, 256, 1024, 4096):
        sizes = [Setting(N, T, V, alpha) for N in (max(59, V), 9973) for alpha in (1e-9, 1e-3)]
        marks = spread(condition_bands(sizes[0], factor), 7)
        found[T] = max(check(at(s, beta)).constant for s in sizes for beta in marks)
    return found


def remainder_exponent(V: int, power: float) -> float:
    """How T times the remainder grows with T where e^beta = T^power: at most 0 where the remainder is O(V/T)."""
    near, far = (check(Setting(max(9973, V), T, V, 1e-12, power * math.log(T))).remainder * T for T in (1 << 20, 1 << 24))
    return math.log(far / near) / math.log(16)


def constant_attention(s: Setting, K: int) -> float:
    """Attention of the last position to the constant operand under W_0 with K assignments in context; rho_1 for one."""
    e = s.e_beta
    return e * e / (e * e + (K + 1) * e + s.T - 2 - K)


def focusing_beta(s: Setting, K: int) -> float:
    """The beta from which W_0 puts more than half of the attention on the constant operand, with K assignments in context."""
    return math.log((K + 1 + math.sqrt((K + 1) ** 2 + 4 * (s.T - 2 - K))) / 2)
