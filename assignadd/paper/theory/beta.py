"""How theorem C.1 depends on beta, the scale of W_0, which the paper leaves free: its conditions, bound and step."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from assignadd.paper.theory.composition import (
    Composition,
    balancing_length,
    composition,
    operand_lead,
    tested_assignments,
)
from assignadd.paper.theory.setting import Setting
from assignadd.paper.theory.symmetric import COPIED, OTHER, OWN
from assignadd.paper.theory.theorem import Check, after_step, check, fitted_constant

FACTOR = 4.0  # rho_1 = Theta(1) and rho_2 = Theta(1/T) are read as within this factor of 1 and of 1/T
SCAN_DRAWS = 2000
LEADS = tuple(np.linspace(-0.6, 0.6, 7).tolist())  # within log 2 of 0, where a single assignment is added correctly

Interval = tuple[float, float]


def beta_grid(s: Setting) -> np.ndarray:
    """From near 0 to well above the larger beta at which the step composes, which is near V + 3 for large T."""
    return np.arange(0.01, min(300.0, s.V + math.log(s.T) + 8), 0.01)


def intervals(inside: Callable[[float], float], grid: np.ndarray) -> list[Interval]:
    """The intervals in which `inside` is at least 0, between the ends of the grid; none is narrower than its steps."""
    values = [inside(x) >= 0 for x in grid.tolist()]
    padded = np.array([False, *values, False])
    ends = []
    for i in np.flatnonzero(padded[1:] != padded[:-1]).tolist():  # inside begins or ends between points i - 1 and i
        outermost = i in (0, len(grid))
        ends.append(grid[min(i, len(grid) - 1)] if outermost else brentq(inside, grid[i - 1], grid[i], xtol=1e-14))
    return [(float(low), float(high)) for low, high in zip(ends[::2], ends[1::2], strict=True)]


def condition_intervals(s: Setting) -> list[Interval]:
    """The beta that meet the conditions of theorem C.1 within `FACTOR`."""
    return intervals(lambda beta: FACTOR - s.at(beta).theta_factor, beta_grid(s))


def composing_intervals(s: Setting) -> list[Interval]:
    """The beta at which the step of the stated length makes the model add one variable and one number."""
    return intervals(lambda beta: math.log(2) - abs(operand_lead(after_step(s.at(beta)))), beta_grid(s))


def spaced(bands: Sequence[Interval], n: int) -> list[float]:
    """`n` evenly spaced beta in each interval, its ends included."""
    return [beta for low, high in bands for beta in np.linspace(low, high, n).tolist()]


def listed(bands: Sequence[Interval]) -> str:
    """Intervals in words, such as `1.47 to 1.61 and 15.31 to 16.69`."""
    return " and ".join(f"{low:.2f} to {high:.2f}" for low, high in bands) or "none"


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
        W = after_step(s, length)
        return composition(W, 1, SCAN_DRAWS).accuracy, composition(W, most, SCAN_DRAWS).accuracy

    stated, length = after_step(s).variable[COPIED], balancing_length(s)
    balanced = (math.nan, math.nan) if length is None else accuracies(length)
    return BetaPoint(check(s), accuracies(1.0), length, balanced, math.exp(stated[OWN] - stated[OTHER]))


@dataclass(frozen=True)
class Best:
    """The beta and step length with the highest accuracy among several candidates."""

    beta: float
    length: float
    result: Composition
    """On other random numbers than those on which it was chosen."""


def best_of(s: Setting, K: int, candidates: Sequence[tuple[float, float]]) -> Best:
    """The candidate (beta, length) with the highest accuracy with K assignments."""

    def after(candidate: tuple[float, float], **drawn: int) -> Composition:
        beta, length = candidate
        return composition(after_step(s.at(beta), length), K, **drawn)

    best = max(candidates, key=lambda candidate: after(candidate, draws=SCAN_DRAWS, seed=1).accuracy)
    return Best(*best, after(best))


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
    any_length_many: Best
    """`most` assignments, among the beta that meet the conditions, at the best length of the step."""


def beta_scan(s: Setting, points: int = 60) -> BetaScan:
    """The theorem's numbers, intervals and best accuracies over beta, at the sizes of `s`."""
    most, log_T = tested_assignments(s)[-1], math.log(s.T)
    composing, conditions = composing_intervals(s), condition_intervals(s)
    just_inside = [(low + 1e-3, high - 1e-3) for low, high in composing]
    just_outside = [(low - 1e-3, high + 1e-3) for low, high in composing]
    along = np.geomspace(0.2, beta_grid(s)[-1], points).tolist()
    shown = sorted({*along, *spaced(just_inside, 9), *spaced(just_outside, 2), log_T})
    low, high = max(composing, key=lambda band: band[1] - band[0], default=(log_T, log_T))
    middle = (low + high) / 2
    stated = [(beta, 1.0) for beta in [*spaced(composing, 9), middle]]
    lengths = [
        (beta, length)
        for beta in spaced(conditions, 31)
        for lead in LEADS
        if (length := balancing_length(s.at(beta), lead)) is not None and length < 10
    ]
    return BetaScan(
        s,
        most,
        [beta_point(s.at(beta), most) for beta in shown],
        conditions,
        composing,
        Best(middle, 1.0, composition(after_step(s.at(middle)), 1)),
        best_of(s, most, stated),
        best_of(s, most, lengths or stated),
    )


def condition_constants(V: int) -> dict[int, float]:
    """T -> the largest constant of the bound over N, alpha and the beta that meet the conditions within `FACTOR`."""
    constants = {}
    for T in (8, 16, 64, 256, 1024, 4096):
        sizes = [Setting(N, T, V, alpha) for N in (max(59, V), 9973) for alpha in (1e-9, 1e-3)]
        tried = spaced(condition_intervals(sizes[0]), 7)
        constants[T] = fitted_constant([check(s.at(beta)) for s in sizes for beta in tried])
    return constants
