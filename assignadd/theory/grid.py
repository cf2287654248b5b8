"""The theorem's bound over a grid of N, T, V and alpha: the constant it needs, how the remainder grows, where it is small."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from assignadd.theory.setting import Setting
from assignadd.theory.theorem import Check, check

NUMBERS = (13, 29, 59, 97, 149, 199)
LENGTHS = (8, 16, 32, 64, 128, 256)
VARIABLES = (1, 2, 4, 6, 8, 12)
ALPHAS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)


def grid_checks(
    N: Sequence[int] = NUMBERS,
    T: Sequence[int] = LENGTHS,
    V: Sequence[int] = VARIABLES,
    alpha: Sequence[float] = ALPHAS,
    each: Callable[[], object] = lambda: None,
) -> list[Check]:
    """The theorem at every combination that is a setting (V at most N); `each` is called after every one."""
    found = []
    for n, t, v, a in product(N, T, V, alpha):
        if v <= n:
            found.append(check(Setting(n, t, v, a)))
        each()
    return found


@dataclass(frozen=True)
class Growth:
    """remainder ~ constant N^n T^t V^v alpha^a, by least squares on logarithms."""

    n: float
    t: float
    v: float
    a: float
    r2: float


def growth(checks: Sequence[Check], values: Sequence[float]) -> Growth:
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


def fitted_constant(checks: Sequence[Check]) -> float:
    """The least constant with which the bound is met at every setting of the grid."""
    return max(c.constant for c in checks)


@dataclass(frozen=True)
class Region:
    """How many settings of the grid are of each kind."""

    settings: int
    within_bound: int
    """Remainder at most V (1/N + 1/T + T alpha), with constant one."""
    informative: int
    """The bound is below the memory's norm, so that it says something."""
    small: int
    """The remainder is below the memory's norm."""
    informative_but_large: int
    """The bound is below the memory's norm and the remainder is not."""


def region(checks: Sequence[Check]) -> Region:
    return Region(
        len(checks),
        sum(c.constant <= 1 for c in checks),
        sum(c.informative for c in checks),
        sum(c.small for c in checks),
        sum(c.informative and not c.small for c in checks),
    )
