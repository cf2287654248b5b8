"""Numbers and their uncertainty: intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

Z_95 = 1.959963984540054


@dataclass(frozen=True)
class Interval:
    low: float
    high: float


def wilson(successes: int, n: int, z: float = Z_95) -> Interval:
    """Wilson's score interval for a proportion; 95 % unless another z is given."""
    if not 0 <= successes <= n or n == 0:
        raise ValueError(f"{successes} successes of {n}: expected 0 <= successes <= n and n > 0")
    p, z2 = successes / n, z * z
    centre, spread = p + z2 / (2 * n), z * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n))
    scale = 1 + z2 / n
    low, high = (centre - spread) / scale, (centre + spread) / scale
    return Interval(low if successes else 0.0, high if successes < n else 1.0)  # exact at the ends, where rounding is not


def median_interval(values: Sequence[float]) -> tuple[float, Interval | None]:
    """The median and its distribution-free 95 % interval from order statistics; None below six values, where none reaches 95 %."""
    ordered, n = sorted(values), len(values)
    median = (ordered[(n - 1) // 2] + ordered[n // 2]) / 2
    # The interval from the k-th smallest to the k-th largest misses the median with probability 2 P(Binomial(n, 1/2) < k).
    miss, k = 2 * 0.5**n, 0
    while miss <= 0.05:
        k += 1
        miss += 2 * math.comb(n, k) * 0.5**n
    return median, Interval(ordered[k - 1], ordered[n - k]) if k else None


def threshold(settings: Sequence[float], shares: Sequence[float], weights: Sequence[float] | None = None) -> float | None:
    """The setting at which a rising share crosses one half: linear between settings, after isotonic regression; None if it never does."""
    from scipy.optimize import isotonic_regression

    rising = isotonic_regression(shares, weights=weights).x
    above = [i for i, share in enumerate(rising) if share >= 0.5]
    if not above or above[0] == 0:
        return settings[0] if above else None
    i = above[0]
    return settings[i - 1] + (0.5 - rising[i - 1]) / (rising[i] - rising[i - 1]) * (settings[i] - settings[i - 1])


def threshold_interval(
    settings: Sequence[float], outcomes: Sequence[Sequence[bool]], resamples: int = 2000
) -> tuple[float, Interval] | None:
    """The threshold of a share of successes, and its 95 % bootstrap interval: outcomes are drawn anew within every setting."""
    import numpy as np

    found = threshold(settings, [sum(o) / len(o) for o in outcomes])
    if found is None:
        return None
    generator = np.random.default_rng(0)
    shares = [generator.binomial(len(o), sum(o) / len(o), resamples) / len(o) for o in outcomes]
    drawn = [threshold(settings, row.tolist()) for row in np.array(shares).T]
    low, high = np.quantile([settings[-1] if t is None else t for t in drawn], [0.025, 0.975])
    return found, Interval(float(low), float(high))
