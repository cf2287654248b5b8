"""Numbers and their uncertainty: intervals of shares, medians and thresholds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

Z_95 = 1.959963984540054


@dataclass(frozen=True)
class Interval:
    """The two ends of a 95 % interval."""

    low: float
    high: float


@lru_cache(maxsize=1 << 16)  # curves ask for the same counts thousands of times
def wilson(successes: float, n: int) -> Interval:
    """Wilson's 95 % score interval for a proportion.

    `successes` need not be whole: for the mean of `n` independent shares between 0 and 1 it is their sum, and the
    interval is conservative, as no such share varies more than a single success or failure does.
    """
    if not 0 <= successes <= n or n == 0:
        raise ValueError(f"{successes} successes of {n}: expected 0 <= successes <= n and n > 0")
    p, z2 = successes / n, Z_95 * Z_95
    centre, spread = p + z2 / (2 * n), Z_95 * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n))
    scale = 1 + z2 / n
    low, high = (centre - spread) / scale, (centre + spread) / scale
    # Exact at the ends, where rounding is not.
    return Interval(low if successes else 0.0, high if successes < n else 1.0)


def median_interval(values: Sequence[float]) -> tuple[float, Interval | None]:
    """The median and its 95 % interval from order statistics; None below six values, where no interval reaches 95 %."""
    ordered, n = sorted(values), len(values)
    median = (ordered[(n - 1) // 2] + ordered[n // 2]) / 2
    # From the k-th smallest to the k-th largest: misses the median with probability 2 P(Binomial(n, 1/2) < k).
    miss, k = 2 * 0.5**n, 0
    while miss <= 0.05:
        k += 1
        miss += 2 * math.comb(n, k) * 0.5**n
    return median, Interval(ordered[k - 1], ordered[n - k]) if k else None


def mean_interval(values: Sequence[float]) -> Interval:
    """The 95 % interval of a mean by Student's t; of at least two values."""
    from scipy.special import stdtrit  # `scipy.stats` takes a second to import

    n, mean = len(values), math.fsum(values) / len(values)
    deviation = math.sqrt(math.fsum((x - mean) ** 2 for x in values) / (n - 1))
    half = float(stdtrit(n - 1, 0.975)) * deviation / math.sqrt(n)
    return Interval(mean - half, mean + half)


@dataclass(frozen=True)
class Threshold:
    """The setting at which the share of successes is half of the level that it reaches, one less the lapse rate."""

    value: float
    interval: Interval
    lapse: float
    n: int
    """Trials behind it."""
    seeds: int
    """Seeds behind these, which recur in every setting: the units of the interval."""


def threshold(
    settings: np.ndarray, succeeded: np.ndarray, asked: np.ndarray | None = None, resamples: int = 500
) -> Threshold | None:
    """The threshold of P(success) = (1 - lapse) / (1 + exp((threshold - setting) / width)), by maximum likelihood.

    Fitted to the rise alone, the settings up to the one at which the largest share succeeds: the curve has no fall.
    `succeeded` and `asked` are (settings, seeds). The same seed recurs in every setting, so the bootstrap for the
    interval (95 %, percentiles) draws seeds, with all of their trials, and not single trials. None where nothing rises:
    no success, or as many at the lowest setting as later on.
    """
    import numpy as np

    asked = np.ones_like(succeeded, dtype=bool) if asked is None else asked
    share = (succeeded & asked).sum(1) / np.maximum(asked.sum(1), 1)
    if not share.any():
        return None
    rise = slice(0, int(np.flatnonzero(share == share.max())[-1]) + 1)
    settings, succeeded, asked = np.asarray(settings, dtype=float)[rise], succeeded[rise], asked[rise]
    if len(settings) < 3:
        return None
    n_seeds = succeeded.shape[1]
    draws = np.random.default_rng(0).multinomial(n_seeds, np.full(n_seeds, 1 / n_seeds), resamples)
    weights = np.concatenate(
        [np.ones((1, n_seeds)), draws]
    ).T  # (seeds, 1 + resamples): the seeds as they are come first
    wins, trials = (succeeded & asked) @ weights, asked @ weights  # (settings, 1 + resamples)
    midpoint, width, lapse, likelihood = _curves(tuple(settings.tolist()))
    counts = np.concatenate([wins, trials - wins]).astype(np.float32)  # (2 settings, 1 + resamples)
    parts = np.array_split(counts, max(1, counts.shape[1] // 50), axis=1)  # a few at a time, to bound the memory
    best = np.concatenate([(part.T @ likelihood.T).argmax(1) for part in parts])  # along rows: ten times faster
    if midpoint[best[0]] == settings[0]:
        return None
    low, high = np.quantile(midpoint[best[1:]], [0.025, 0.975]).tolist()
    value, rate = _refined(settings, wins[:, 0], trials[:, 0], (midpoint[best[0]], width[best[0]], lapse[best[0]]))
    return Threshold(value, Interval(min(low, value), max(high, value)), rate, int(asked.sum()), n_seeds)


def _refined(
    settings: np.ndarray, wins: np.ndarray, trials: np.ndarray, start: tuple[float, float, float]
) -> tuple[float, float]:
    """Threshold and lapse rate of the most likely curve near one of the grid."""
    import numpy as np
    from scipy.optimize import minimize

    def loss(curve: np.ndarray) -> float:
        success = _success(settings, curve[0], abs(curve[1]) + 1e-9, min(abs(curve[2]), 0.99))
        return -float(wins @ np.log(success) + (trials - wins) @ np.log1p(-success))

    found = minimize(loss, start, method="Nelder-Mead").x
    return float(found[0]), min(abs(float(found[2])), 0.99)


def _success(
    settings: np.ndarray, midpoint: np.ndarray | float, width: np.ndarray | float, lapse: np.ndarray | float
) -> np.ndarray:
    """The curve at each setting; off 0 and 1, so that one unlucky seed far from the threshold does not rule it out."""
    import numpy as np

    return np.clip((1 - lapse) / (1 + np.exp(np.clip((midpoint - settings) / width, -50, 50))), 1e-3, 1 - 1e-3)


@lru_cache(maxsize=2)  # a sweep has several thresholds; 130,000 curves take 30 MB
def _curves(at: tuple[float, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """A grid of curves: thresholds, widths, lapse rates, and log P of success, then failure (curves, 2 settings)."""
    import numpy as np

    settings = np.array(at)
    span = settings[-1] - settings[0]
    # Sixteen thresholds between any two settings, so that the grid is fine where the settings are close.
    midpoints = np.interp(np.arange(16 * len(settings) - 15) / 16, np.arange(len(settings)), settings)
    grid = np.meshgrid(midpoints, np.geomspace(span / 400, span / 4, 20), np.linspace(0, 0.9, 31), indexing="ij")
    midpoint, width, lapse = (axis.ravel() for axis in grid)
    success = _success(settings, midpoint[:, None], width[:, None], lapse[:, None])
    return midpoint, width, lapse, np.concatenate([np.log(success), np.log1p(-success)], 1).astype(np.float32)
