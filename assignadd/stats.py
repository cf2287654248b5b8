"""Numbers with 95 % intervals, the rules that decide a claim from the interval, and their verdicts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor

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
    p = successes / n
    z2 = Z_95 * Z_95
    centre = p + z2 / (2 * n)
    spread = Z_95 * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n))
    scale = 1 + z2 / n
    # At no or only successes the end is exact, where rounding would not be.
    low = (centre - spread) / scale if successes else 0.0
    high = (centre + spread) / scale if successes < n else 1.0
    return Interval(low, high)


def median_interval(values: Sequence[float]) -> tuple[float, Interval | None]:
    """The median and its 95 % interval from order statistics; None below six values, where no interval reaches 95 %."""
    n = len(values)
    ordered = sorted(values)
    median = (ordered[(n - 1) // 2] + ordered[n // 2]) / 2
    # From the k-th smallest to the k-th largest value: misses the median with probability 2 P(Binomial(n, 1/2) < k).
    k = 0
    missed = 2 * 0.5**n  # by the interval of k + 1
    while missed <= 0.05:
        k += 1
        missed += 2 * math.comb(n, k) * 0.5**n
    return median, Interval(ordered[k - 1], ordered[n - k]) if k else None


def mean_interval(values: Sequence[float]) -> Interval:
    """The 95 % interval of a mean by Student's t; of at least two values."""
    from scipy.special import stdtrit  # `scipy.stats` takes a second to import

    n, mean = len(values), math.fsum(values) / len(values)
    deviation = math.sqrt(math.fsum((x - mean) ** 2 for x in values) / (n - 1))
    half = float(stdtrit(n - 1, 0.975)) * deviation / math.sqrt(n)
    return Interval(mean - half, mean + half)


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
    def median(cls, values: Sequence[float], unit: str) -> Measured | None:
        """A median with its interval; None where there are too few values for one."""
        value, interval = median_interval(values) if values else (0.0, None)
        return cls(value, interval.low, interval.high, len(values), unit) if interval else None

    @classmethod
    def over_evaluations(cls, shares: Sequence[float], n: int) -> Measured:
        """The median of the shares at several evaluations, each on its own sequences, `n` in all, with its interval.

        The interval of the median (the range of fewer than six values) has the noise of both evaluations and sequences;
        it is at least as wide as Wilson's, which is not empty where all shares are equal.
        """
        value, scatter, sampled = _over_evaluations(shares, n)
        return cls(value, min(scatter.low, sampled.low), max(scatter.high, sampled.high), n, "sequences")

    @classmethod
    def over_evaluations_and_pairs(cls, shares: Sequence[float], n: int) -> Measured:
        """The same where the units are `n` pairs of numbers, the same at every evaluation: both errors are added."""
        value, scatter, sampled = _over_evaluations(shares, n)
        below = math.hypot(value - scatter.low, value - sampled.low)
        above = math.hypot(scatter.high - value, sampled.high - value)
        return cls(value, max(0.0, value - below), min(1.0, value + above), n, "pairs")

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


def _over_evaluations(shares: Sequence[float], n: int) -> tuple[float, Interval, Interval]:
    """The median of the shares at several evaluations, its interval, and Wilson's for `n` units with that share."""
    value, interval = median_interval(shares)
    return value, interval or Interval(min(shares), max(shares)), wilson(value * n, n)


def lowest(measured: Iterable[Measured | None]) -> Measured | None:
    """The number with the lowest value, with its own interval; None where nothing was measured."""
    return min((m for m in measured if m is not None), key=lambda m: m.value, default=None)


def highest(measured: Iterable[Measured | None]) -> Measured | None:
    """The number with the highest value, with its own interval; None where nothing was measured."""
    return max((m for m in measured if m is not None), key=lambda m: m.value, default=None)


def mean_of(values: Tensor, unit: str) -> Measured:
    """The mean over sequences, with the normal interval from their standard deviation."""
    return Measured.mean(float(values.mean()), float(values.std()), len(values), unit)


def difference(a: Measured, b: Measured) -> Measured:
    """`a` minus `b`, with Newcombe's interval from both intervals (conservative where they share sequences)."""
    value = a.value - b.value
    below = np.hypot(a.value - a.low, b.high - b.value)
    above = np.hypot(a.high - a.value, b.value - b.low)
    return Measured(value, value - float(below), value + float(above), min(a.n, b.n), a.unit)


def paired_difference(a: np.ndarray, b: np.ndarray, unit: str) -> Measured:
    """The share of successes in `a` minus that in `b`; entry i of both belongs to the same sequence.

    The interval is Bonett's and Price's (2012): the normal one after adding two sequences that were not observed, one
    with a success in `a` alone and one with a success in `b` alone. It is valid also where few sequences differ, and
    not empty where none does. The value is that of the observed sequences.
    """
    differences = a.astype(float) - b
    with_two_more = np.append(differences, (1.0, -1.0))
    centre = float(with_two_more.mean())
    half = Z_95 * float(with_two_more.std()) / math.sqrt(len(with_two_more))
    value = float(a.mean() - b.mean())
    return Measured(value, min(value, centre - half), max(value, centre + half), len(a), unit)


def paired_share(a: np.ndarray, b: np.ndarray, unit: str) -> Measured | None:
    """The successes in `a` divided by those in `b`, on the same sequences; None where `b` has none.

    The interval is that of the same two added sequences as in `paired_difference`.
    """
    if not b.any():
        return None
    with_two_more = ratio_of_means(np.append(a, (1, 0)).astype(float), np.append(b, (0, 1)).astype(float), unit)
    value = float(a.sum() / b.sum())
    low, high = min(value, with_two_more.low), max(value, with_two_more.high)
    return Measured(value, low, high, len(a), unit)


def ratio_of_means(a: np.ndarray, b: np.ndarray, unit: str) -> Measured:
    """The mean of `a` divided by that of `b` on the same sequences, with the interval of the delta method."""
    ratio = float(a.mean() / b.mean())
    half = Z_95 * float((a - ratio * b).std() / abs(b.mean())) / math.sqrt(len(a))
    return Measured(ratio, ratio - half, ratio + half, len(a), unit)


def threshold(
    settings: np.ndarray, succeeded: np.ndarray, asked: np.ndarray | None = None, resamples: int = 500
) -> Measured | None:
    """The setting at which the share of successes is half of the level that it reaches, one minus the lapse rate.

    The threshold of P(success) = (1 - lapse) / (1 + exp((threshold - setting) / width)), by maximum likelihood, fitted
    to the rise alone, the settings up to the one at which the largest share succeeds: the curve has no fall.
    `succeeded` and `asked` are (settings, seeds). The same seed recurs in every setting, so the bootstrap for the
    interval (95 %, percentiles) draws seeds, with all of their trials, and not single trials. None where nothing rises:
    no success, or as many at the lowest setting as later on.
    """
    asked = np.ones_like(succeeded, dtype=bool) if asked is None else asked
    share = (succeeded & asked).sum(1) / np.maximum(asked.sum(1), 1)
    if not share.any():
        return None
    n_rising = int(np.flatnonzero(share == share.max())[-1]) + 1
    if n_rising < 3:
        return None
    settings = np.asarray(settings, dtype=float)[:n_rising]
    succeeded, asked = succeeded[:n_rising], asked[:n_rising]
    n_seeds = succeeded.shape[1]
    draws = np.random.default_rng(0).multinomial(n_seeds, np.full(n_seeds, 1 / n_seeds), resamples)
    weights = np.concatenate([np.ones((1, n_seeds)), draws]).T  # (seeds, 1 + resamples): first every seed once
    wins = (succeeded & asked) @ weights  # (settings, 1 + resamples)
    trials = asked @ weights
    best = _most_likely_curves(settings, wins, trials)  # (3, 1 + resamples)
    midpoints = best[0]
    if midpoints[0] == settings[0]:
        return None
    low, high = np.quantile(midpoints[1:], [0.025, 0.975]).tolist()
    value = _refined_threshold(settings, wins[:, 0], trials[:, 0], best[:, 0])
    return Measured(value, min(low, value), max(high, value), n_seeds, "seeds")


def _most_likely_curves(settings: np.ndarray, wins: np.ndarray, trials: np.ndarray) -> np.ndarray:
    """Threshold, width and lapse rate of the most likely curve of a grid for each column of counts, (3, columns)."""
    curves, log_probabilities = _grid_of_curves(tuple(settings.tolist()))
    counts = np.concatenate([wins, trials - wins]).astype(np.float32)  # (2 settings, columns)
    parts = np.array_split(counts, max(1, counts.shape[1] // 50), axis=1)  # a few at a time, to bound the memory
    best = [(part.T @ log_probabilities.T).argmax(1) for part in parts]  # along rows: ten times faster
    return curves[:, np.concatenate(best)]


def _refined_threshold(settings: np.ndarray, wins: np.ndarray, trials: np.ndarray, start: np.ndarray) -> float:
    """The threshold of the most likely curve near one of the grid (its threshold, width and lapse rate)."""
    from scipy.optimize import minimize

    def loss(curve: np.ndarray) -> float:
        success = _probability_of_success(settings, curve[0], abs(curve[1]) + 1e-9, min(abs(curve[2]), 0.99))
        return -float(wins @ np.log(success) + (trials - wins) @ np.log1p(-success))

    return float(minimize(loss, start, method="Nelder-Mead").x[0])


def _probability_of_success(
    settings: np.ndarray, midpoint: np.ndarray | float, width: np.ndarray | float, lapse: np.ndarray | float
) -> np.ndarray:
    """P(success) at each setting, as in `threshold`.

    It is at least .001 and at most .999: otherwise a single unlucky seed far from the threshold would rule a curve out.
    """
    exponent = np.clip((midpoint - settings) / width, -50, 50)  # beyond 50 the exponential changes nothing
    return np.clip((1 - lapse) / (1 + np.exp(exponent)), 1e-3, 1 - 1e-3)


@lru_cache(maxsize=2)  # a sweep has several thresholds; 130,000 curves take 30 MB
def _grid_of_curves(at: tuple[float, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Thresholds, widths and lapse rates (3, curves), and log P of success, then of failure (curves, 2 settings)."""
    settings = np.array(at)
    span = settings[-1] - settings[0]
    # Sixteen thresholds between any two settings, so that the grid is fine where the settings are close.
    midpoints = np.interp(np.arange(16 * len(settings) - 15) / 16, np.arange(len(settings)), settings)
    grid = np.meshgrid(midpoints, np.geomspace(span / 400, span / 4, 20), np.linspace(0, 0.9, 31), indexing="ij")
    curves = np.stack([axis.ravel() for axis in grid])
    success = _probability_of_success(settings, *curves[:, :, None])
    return curves, np.concatenate([np.log(success), np.log1p(-success)], 1).astype(np.float32)


Verdict = Literal[
    "holds",
    "does not hold",
    "undecided",
    "cannot be tested",
    "not applicable",
    "not measured yet",
    "could not be measured",
]
HOLDS: Final = "holds"
FAILS: Final = "does not hold"
UNDECIDED: Final = "undecided"
UNTESTABLE: Final = "cannot be tested"
NOT_APPLICABLE: Final = "not applicable"  # to the architecture
UNMEASURED: Final = "not measured yet"
BROKEN: Final = "could not be measured"  # its measure raised an error
SOME_SEEDS: Final = "holds in some seeds"  # of several networks whose verdicts differ


def decided(holds: bool, fails: bool | None = None) -> Verdict:
    """The verdict on an exact number, or, with `fails`, on an interval: undecided where it neither holds nor fails."""
    if holds:
        return HOLDS
    return FAILS if fails is None or fails else UNDECIDED


@dataclass(frozen=True)
class AtLeast:
    """Holds if the number is at least the threshold."""

    threshold: float

    def verdict(self, measured: Interval | Measured) -> Verdict:
        return decided(measured.low >= self.threshold, measured.high < self.threshold)

    def __str__(self) -> str:
        return f"at least {self.threshold:g}"


@dataclass(frozen=True)
class AtMost:
    """Holds if the number is at most the threshold."""

    threshold: float

    def verdict(self, measured: Interval | Measured) -> Verdict:
        return decided(measured.high <= self.threshold, measured.low > self.threshold)

    def __str__(self) -> str:
        return f"at most {self.threshold:g}"


@dataclass(frozen=True)
class Between:
    """Holds if the number is from `low` to `high`."""

    low: float
    high: float

    def verdict(self, measured: Interval | Measured) -> Verdict:
        outside = measured.high < self.low or measured.low > self.high
        return decided(self.low <= measured.low and measured.high <= self.high, outside)

    def __str__(self) -> str:
        return f"from {self.low:g} to {self.high:g}"


Rule = AtLeast | AtMost | Between
