"""Measured numbers with 95 % intervals: shares, means, differences, and comparisons on the same sequences."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from assignadd.stats.intervals import Z_95, Interval, median_interval, wilson


@dataclass(frozen=True)
class Measured:
    """A number with its 95 % interval (the number itself where nothing was sampled) and what it was counted on."""

    value: float
    low: float
    high: float
    n: int
    unit: str

    @classmethod
    def exactly(cls, value: float, n: int, unit: str) -> Measured:
        """A number without sampling error."""
        return cls(value, value, value, n, unit)

    @classmethod
    def share(cls, successes: float, n: int, unit: str) -> Measured:
        """A share with Wilson's interval; `successes` is a sum of shares where a unit is more than one trial."""
        interval = wilson(successes, n)
        return cls(successes / n, interval.low, interval.high, n, unit)

    @classmethod
    def mean(cls, mean: float, deviation: float, n: int, unit: str) -> Measured:
        """A mean with its normal interval, from the standard deviation of single values."""
        half = Z_95 * deviation / math.sqrt(n)
        return cls(mean, mean - half, mean + half, n, unit)

    @classmethod
    def over_evaluations(cls, shares: Sequence[float], n: int, unit: str = "sequences") -> Measured:
        """The median of the shares at several evaluations, each on its own sequences, `n` in all, with its interval.

        The interval of the median (the range of fewer than six values) has the noise of both evaluations and sequences;
        it is at least as wide as Wilson's, which is not empty where all shares are equal.
        """
        value, over, sampled = _over(shares, n)
        return cls(value, min(over.low, sampled.low), max(over.high, sampled.high), n, unit)

    @classmethod
    def over_evaluations_and_pairs(cls, shares: Sequence[float], n: int) -> Measured:
        """The same where the units are `n` pairs of numbers, the same at every evaluation: both errors are added."""
        value, over, sampled = _over(shares, n)
        below = math.hypot(value - over.low, value - sampled.low)
        above = math.hypot(over.high - value, sampled.high - value)
        return cls(value, max(0.0, value - below), min(1.0, value + above), n, "pairs")

    @classmethod
    def median(cls, values: Sequence[float], unit: str) -> Measured | None:
        """A median with its interval; None where there are too few values for one."""
        value, interval = median_interval(values) if values else (0.0, None)
        return cls(value, interval.low, interval.high, len(values), unit) if interval else None

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


def _over(shares: Sequence[float], n: int) -> tuple[float, Interval, Interval]:
    """The median of some shares, its interval, and Wilson's for `n` units with that share."""
    value, interval = median_interval(shares)
    return value, interval or Interval(min(shares), max(shares)), wilson(value * n, n)


def lowest(found: Iterable[Measured | None]) -> Measured | None:
    """The number with the lowest value, with its own interval; None where nothing was measured."""
    return min((m for m in found if m is not None), key=lambda m: m.value, default=None)


def highest(found: Iterable[Measured | None]) -> Measured | None:
    """The number with the highest value, with its own interval; None where nothing was measured."""
    return max((m for m in found if m is not None), key=lambda m: m.value, default=None)


def mean_of(values: Tensor, unit: str) -> Measured:
    """The mean over sequences, with the normal interval from their standard deviation."""
    return Measured.mean(float(values.mean()), float(values.std()), len(values), unit)


def difference(one: Measured, other: Measured) -> Measured:
    """`one` minus `other`, with Newcombe's interval from both intervals (conservative where they share sequences)."""
    value = one.value - other.value
    below = np.hypot(one.value - one.low, other.high - other.value)
    above = np.hypot(one.high - one.value, other.value - other.low)
    return Measured(value, value - float(below), value + float(above), min(one.n, other.n), one.unit)


# For zeros and ones on the same sequences, two observations are added, one for each way in which a pair can differ
# (Bonett and Price, 2012). Normal intervals are then valid also where few pairs differ, and not empty where none does.


def paired_difference(a: np.ndarray, b: np.ndarray, unit: str) -> Measured:
    """The share of successes in `a` minus that in `b`; entry i of both belongs to the same sequence."""
    value, differences = float(a.mean() - b.mean()), np.append(a.astype(float) - b, (1.0, -1.0))
    half = Z_95 * float(differences.std()) / math.sqrt(len(differences))
    return _around(value, float(differences.mean()), half, len(a), unit)


def paired_share(a: np.ndarray, b: np.ndarray, unit: str) -> Measured | None:
    """The successes in `a` divided by those in `b`, on the same sequences; None where `b` has none."""
    if not b.any():
        return None
    adjusted = ratio_of_means(np.append(a, (1, 0)).astype(float), np.append(b, (0, 1)).astype(float), unit)
    return _around(float(a.sum() / b.sum()), adjusted.value, adjusted.high - adjusted.value, len(a), unit)


def ratio_of_means(a: np.ndarray, b: np.ndarray, unit: str) -> Measured:
    """The mean of `a` divided by that of `b` on the same sequences, with the interval of the delta method."""
    ratio = float(a.mean() / b.mean())
    half = Z_95 * float((a - ratio * b).std() / abs(b.mean())) / math.sqrt(len(a))
    return Measured(ratio, ratio - half, ratio + half, len(a), unit)


def _around(value: float, centre: float, half: float, n: int, unit: str) -> Measured:
    return Measured(value, min(value, centre - half), max(value, centre + half), n, unit)
