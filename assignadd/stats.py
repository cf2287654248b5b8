"""Numbers with 95 % intervals, the rules that decide a claim from the interval, and their verdicts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor

Z_95 = 1.959963984540054  # standard deviations on either side of the mean that hold 95 % of a normal distribution


@dataclass(frozen=True)
class Interval:
    """The two ends of a 95 % interval."""

    low: float
    high: float


@lru_cache(maxsize=1 << 16)  # curves ask for the same counts thousands of times
def wilson(successes: float, n: int) -> Interval:
    """Wilson's 95 % score interval for a proportion.

    `successes` need not be whole: for the mean of `n` independent shares between 0 and 1 it is their sum. The interval
    is then conservative.
    """
    if not 0 <= successes <= n or n == 0:
        raise ValueError(f"{successes} successes of {n}: expected 0 <= successes <= n and n > 0")
    p = successes / n
    z2 = Z_95 * Z_95
    centre = p + z2 / (2 * n)
    spread = Z_95 * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n))
    scale = 1 + z2 / n
    # Where no trial succeeds the low end is 0, and where all do the high end is 1, which rounding might miss.
    low = (centre - spread) / scale if successes else 0.0
    high = (centre + spread) / scale if successes < n else 1.0
    return Interval(low, high)


def median_interval(values: Sequence[float]) -> tuple[float, Interval | None]:
    """The median and its 95 % interval from order statistics; None below six values, where no interval reaches 95 %.

    The interval is from the k-th smallest to the k-th largest value. It misses the median with probability
    2 P(Binomial(n, 1/2) < k), and k is the largest number for which that is at most .05.
    """
    n = len(values)
    ordered = sorted(values)
    median = (ordered[(n - 1) // 2] + ordered[n // 2]) / 2  # twice the same value if n is odd
    k = 0
    missed_by_next = 2 * 0.5**n  # the probability of a miss for k + 1
    while missed_by_next <= 0.05:
        k += 1
        missed_by_next += 2 * math.comb(n, k) * 0.5**n
    if k == 0:
        return median, None
    return median, Interval(ordered[k - 1], ordered[n - k])


def mean_interval(values: Sequence[float]) -> Interval:
    """The 95 % interval of the mean of at least two values, by Student's t."""
    from scipy.special import stdtrit  # and not `scipy.stats`, which takes a second to import

    n = len(values)
    mean = math.fsum(values) / n
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    half_width = float(stdtrit(n - 1, 0.975)) * deviation / math.sqrt(n)
    return Interval(mean - half_width, mean + half_width)


@dataclass(frozen=True)
class Measured:
    """A number, its 95 % interval from `low` to `high`, and the `n` units, such as sequences, that it was counted on.

    Both ends of the interval of an exact number, for which nothing was sampled, are the number.
    """

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
        """A share of `n` units with Wilson's interval; `successes` is a sum of shares if a unit has several trials."""
        interval = wilson(successes, n)
        return cls(successes / n, interval.low, interval.high, n, unit)

    @classmethod
    def mean(cls, mean: float, deviation: float, n: int, unit: str) -> Measured:
        """A mean with its normal interval, from the standard deviation of single values."""
        half_width = Z_95 * deviation / math.sqrt(n)
        return cls(mean, mean - half_width, mean + half_width, n, unit)

    @classmethod
    def median(cls, values: Sequence[float], unit: str) -> Measured | None:
        """A median with its interval; None where there are too few values for an interval."""
        median, interval = median_interval(values) if values else (0.0, None)
        if interval is None:
            return None
        return cls(median, interval.low, interval.high, len(values), unit)

    @classmethod
    def over_evaluations(cls, shares: Sequence[float], n: int) -> Measured:
        """The median of the shares at several evaluations, each on other sequences, `n` in all, with its interval.

        The interval of the median covers both how the network changes and how the sequences do. It is widened to
        Wilson's interval for `n` sequences, which is not empty where all shares are equal.
        """
        median, over_evaluations = _median_over_evaluations(shares)
        over_sequences = wilson(median * n, n)
        low = min(over_evaluations.low, over_sequences.low)
        high = max(over_evaluations.high, over_sequences.high)
        return cls(median, low, high, n, "sequences")

    @classmethod
    def over_evaluations_and_pairs(cls, shares: Sequence[float], n: int) -> Measured:
        """The median of the shares at several evaluations, all on the same `n` pairs of numbers, with its interval.

        The interval of the median covers how the network changes, and Wilson's interval covers which pairs were held
        out. The two errors are independent, so their squares are added, separately on each side of the median.
        """
        median, over_evaluations = _median_over_evaluations(shares)
        over_pairs = wilson(median * n, n)
        below = math.hypot(median - over_evaluations.low, median - over_pairs.low)
        above = math.hypot(over_evaluations.high - median, over_pairs.high - median)
        return cls(median, max(0.0, median - below), min(1.0, median + above), n, "pairs")

    @classmethod
    def paired_difference(cls, a: np.ndarray, b: np.ndarray, unit: str) -> Measured:
        """The share of successes in `a` minus that in `b`, both (sequences,): whether each sequence is a success.

        The interval is Bonett's and Price's (2012): the normal one after adding two sequences that were not observed,
        one with a success in `a` alone and one with a success in `b` alone. The value is the one without these two.
        """
        with_two_more = np.append(a.astype(float) - b, (1.0, -1.0))
        centre = float(with_two_more.mean())
        half_width = Z_95 * float(with_two_more.std()) / math.sqrt(len(with_two_more))
        value = float(a.mean() - b.mean())
        return cls(value, min(value, centre - half_width), max(value, centre + half_width), len(a), unit)

    def minus(self, other: Measured) -> Measured:
        """The difference from another number, with Newcombe's interval (conservative where they share sequences).

        The squared distance of its low end from the difference is the sum of two squared errors, of this number
        downwards and of the other upwards; likewise for the high end.
        """
        value = self.value - other.value
        below = math.hypot(self.value - self.low, other.high - other.value)
        above = math.hypot(self.high - self.value, other.value - other.low)
        return Measured(value, value - below, value + above, min(self.n, other.n), self.unit)

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


def _median_over_evaluations(shares: Sequence[float]) -> tuple[float, Interval]:
    """The median of the shares at several evaluations, and its interval: the range of fewer than six shares."""
    median, interval = median_interval(shares)
    if interval is None:
        interval = Interval(min(shares), max(shares))
    return median, interval


def lowest(measured: Iterable[Measured | None]) -> Measured | None:
    """The lowest of these numbers, with the lowest low end and the lowest high end of all; None if there are none.

    So `AtLeast` holds where every number is clearly above the threshold, and fails where one is clearly below.
    """
    return _extreme(min, measured)


def highest(measured: Iterable[Measured | None]) -> Measured | None:
    """The highest of these numbers, with the highest low end and the highest high end of all; None if there are none.

    So `AtMost` holds where every number is clearly below the threshold, and fails where one is clearly above.
    """
    return _extreme(max, measured)


def _extreme(choose: Callable[..., Any], measured: Iterable[Measured | None]) -> Measured | None:
    """`lowest` if `choose` is `min`, `highest` if it is `max`; n and unit are those of the extreme number."""
    numbers = [number for number in measured if number is not None]
    if not numbers:
        return None
    extreme: Measured = choose(numbers, key=lambda number: number.value)
    low = choose(number.low for number in numbers)
    high = choose(number.high for number in numbers)
    return replace(extreme, low=low, high=high)


def mean_of(values: Tensor, unit: str) -> Measured:
    """The mean of the values of single sequences (or other units), with its normal interval."""
    return Measured.mean(float(values.mean()), float(values.std()), len(values), unit)


def paired_share(a: np.ndarray, b: np.ndarray, unit: str) -> Measured | None:
    """The successes in `a` divided by those in `b`, both (sequences,), of the same sequences; None if `b` has none.

    The interval is that of `ratio_of_means` after adding two sequences as in `Measured.paired_difference`.
    """
    if not b.any():
        return None
    interval = ratio_of_means(np.append(a, (1, 0)).astype(float), np.append(b, (0, 1)).astype(float), unit)
    value = float(a.sum() / b.sum())
    return Measured(value, min(value, interval.low), max(value, interval.high), len(a), unit)


def ratio_of_means(a: np.ndarray, b: np.ndarray, unit: str) -> Measured:
    """The mean of `a` divided by that of `b`, both (sequences,), with the interval of the delta method."""
    ratio = float(a.mean() / b.mean())
    half_width = Z_95 * float((a - ratio * b).std() / abs(b.mean())) / math.sqrt(len(a))
    return Measured(ratio, ratio - half_width, ratio + half_width, len(a), unit)


def threshold(
    settings: np.ndarray, succeeded: np.ndarray, counted: np.ndarray | None = None, resamples: int = 500
) -> Measured | None:
    """The setting at which the share of seeds that succeed is half of what it reaches, with an interval over seeds.

    `succeeded` says which seeds succeed at each setting, and `counted` which count there (all by default), both
    (settings, seeds). The threshold is that of P(success) = (1 - lapse) / (1 + exp((threshold - setting) / width)) with
    the greatest likelihood; `lapse` is the share of seeds that fail at any setting. This curve does not fall, so it is
    fitted to the settings up to the one at which the largest share succeeds. The bootstrap for the interval (95 %,
    percentiles) draws seeds with all of their trials. None where no seed succeeds, where as many succeed at the lowest
    setting as later on, and where the share is largest at one of the first two settings.
    """
    counted = np.ones_like(succeeded, dtype=bool) if counted is None else counted
    share = (succeeded & counted).sum(1) / np.maximum(counted.sum(1), 1)  # (settings,); 0 where no seed counts
    n_rising = int(np.flatnonzero(share == share.max())[-1]) + 1  # settings up to the last with the largest share
    if not share.any() or n_rising < 3:  # too few settings for the three parameters of the curve
        return None
    settings = np.asarray(settings, dtype=float)[:n_rising]
    succeeded, counted = succeeded[:n_rising], counted[:n_rising]
    n_seeds = succeeded.shape[1]
    # How often each seed is drawn: once in the first column, which is the sample itself, then in each resample.
    draws = np.random.default_rng(0).multinomial(n_seeds, np.full(n_seeds, 1 / n_seeds), resamples)
    weights = np.concatenate([np.ones((1, n_seeds)), draws]).T  # (seeds, 1 + resamples)
    n_successes = (succeeded & counted) @ weights  # (settings, 1 + resamples)
    n_trials = counted @ weights  # (settings, 1 + resamples)
    curves = _most_likely_curves(settings, n_successes, n_trials)  # (3, 1 + resamples)
    thresholds = curves[0]  # of the sample, then of each resample
    if thresholds[0] == settings[0]:  # at the lowest setting as many succeed as later on
        return None
    low, high = np.quantile(thresholds[1:], [0.025, 0.975]).tolist()
    value = _refined_threshold(settings, n_successes[:, 0], n_trials[:, 0], start=curves[:, 0])
    return Measured(value, min(low, value), max(high, value), n_seeds, "seeds")


def _most_likely_curves(settings: np.ndarray, n_successes: np.ndarray, n_trials: np.ndarray) -> np.ndarray:
    """The most likely curve of a grid for each sample, by its threshold, width and lapse rate: (3, samples).

    The counts of a sample at each setting are a column of `n_successes` and `n_trials`, both (settings, samples).
    """
    curves, log_probabilities = _grid_of_curves(tuple(settings.tolist()))  # (3, curves), (curves, 2 settings)
    # Successes at every setting, then failures, as in the columns of `log_probabilities`: one product sums over both.
    counts = np.concatenate([n_successes, n_trials - n_successes]).astype(np.float32)  # (2 settings, samples)
    parts = np.array_split(counts, max(1, counts.shape[1] // 50), axis=1)  # about 50 samples at a time, to bound memory
    # Log-likelihoods are (samples, curves), and not transposed: `argmax` along rows is ten times faster.
    best = [(part.T @ log_probabilities.T).argmax(1) for part in parts]
    return curves[:, np.concatenate(best)]


def _refined_threshold(settings: np.ndarray, n_successes: np.ndarray, n_trials: np.ndarray, start: np.ndarray) -> float:
    """The threshold of the most likely curve for one sample, searched from the curve `start`.

    A curve is (threshold, width, lapse rate); the counts are (settings,).
    """
    from scipy.optimize import minimize

    def minus_log_likelihood(curve: np.ndarray) -> float:
        threshold, width, lapse = curve  # the search may leave the range of width and lapse rate
        success = _probability_of_success(settings, threshold, abs(width) + 1e-9, min(abs(lapse), 0.99))
        return -float(n_successes @ np.log(success) + (n_trials - n_successes) @ np.log1p(-success))

    best_curve = minimize(minus_log_likelihood, start, method="Nelder-Mead").x
    return float(best_curve[0])


def _probability_of_success(
    settings: np.ndarray, threshold: np.ndarray | float, width: np.ndarray | float, lapse: np.ndarray | float
) -> np.ndarray:
    """P(success) at each setting under a curve, or under several whose parameters are (curves, 1).

    It is kept from .001 to .999: otherwise one unlucky seed far from the threshold would decide which curve fits.
    """
    exponent = np.clip((threshold - settings) / width, -50, 50)  # beyond 50 the exponential changes nothing
    return np.clip((1 - lapse) / (1 + np.exp(exponent)), 1e-3, 1 - 1e-3)


@lru_cache(maxsize=2)  # a sweep has several thresholds; 130,000 curves take 30 MB
def _grid_of_curves(settings: tuple[float, ...]) -> tuple[np.ndarray, np.ndarray]:
    """All curves of a grid of thresholds, widths and lapse rates, (3, curves), and their log-probabilities.

    Of each curve these are log P(success) at every setting, then log P(failure) at every setting: (curves, 2 settings).
    """
    n_settings, span = len(settings), settings[-1] - settings[0]
    # Every sixteenth of the way from each setting to the next, so that the grid is fine where the settings are close.
    places = np.arange(16 * (n_settings - 1) + 1) / 16
    thresholds = np.interp(places, np.arange(n_settings), settings)
    widths = np.geomspace(span / 400, span / 4, 20)
    lapses = np.linspace(0, 0.9, 31)
    grid = np.meshgrid(thresholds, widths, lapses, indexing="ij")
    curves = np.stack([parameter.ravel() for parameter in grid])  # (3, curves)
    threshold, width, lapse = curves[:, :, None]  # (curves, 1) each
    success = _probability_of_success(np.array(settings), threshold, width, lapse)  # (curves, settings)
    return curves, np.concatenate([np.log(success), np.log1p(-success)], 1).astype(np.float32)


Verdict = Literal[
    "holds", "does not hold", "undecided", "cannot be tested", "not applicable", "not measured yet",
    "could not be measured",
]  # fmt: skip
HOLDS: Final = "holds"
FAILS: Final = "does not hold"
UNDECIDED: Final = "undecided"
UNTESTABLE: Final = "cannot be tested"
NOT_APPLICABLE: Final = "not applicable"  # to the architecture
UNMEASURED: Final = "not measured yet"
BROKEN: Final = "could not be measured"  # its measure raised an error
SOME_SEEDS: Final = "differs by seed"  # of several networks whose verdicts differ


def decided(holds: bool, fails: bool | None = None) -> Verdict:
    """The verdict on a statement, from whether it holds, or fails, for all of an interval; undecided for neither.

    For an exact number `fails` is left out: what does not hold fails.
    """
    if holds:
        return HOLDS
    if fails is None or fails:
        return FAILS
    return UNDECIDED


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
