"""When a curve reaches a threshold to stay (onsets), and its sudden rises (spikes)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from assignadd.stats import wilson

# A crossing lasts when the curve is above the threshold at every evaluation up to the first one that is so many steps
# later, or to the end. Where evaluations are farther apart than this, the next one must be above the threshold too.
LASTING = 1000


@dataclass(frozen=True)
class Onset:
    """The first evaluation from which a curve stays above its threshold, and the steps between which it crossed.

    With the noise of evaluation, that first evaluation lies between the onset of the upper ends of Wilson's intervals
    and the onset of the lower ends. `low` is the evaluation before the former (0 where there is none), as the curve
    crosses between two evaluations; `high` is the latter, None where the lower ends never reach the threshold.
    """

    step: int
    low: int
    high: int | None


@dataclass(frozen=True)
class Delay:
    """Steps from one event to another, with the least and the most that noise and the evaluation interval allow."""

    steps: int
    low: int
    high: int


def steps_between(first: Onset | None, second: Onset | None, end: int) -> Delay | None:
    """Steps from the first onset to the second; None where the second never came.

    An onset, or its latest possible step, that did not come by the last evaluation at step `end` counts as `end`.
    """
    if second is None:
        return None
    first = Onset(end, end, None) if first is None else first
    return Delay(second.step - first.step, second.low - _latest(first, end), _latest(second, end) - first.low)


def _latest(onset: Onset, end: int) -> int:
    return end if onset.high is None else onset.high  # step 0 is a step: `onset.high or end` would take it for None


def first_lasting(steps: np.ndarray, above: np.ndarray, lasting: int = LASTING) -> int | None:
    """The first index from which `above` is true for `lasting` steps, or to the end."""
    ends = np.searchsorted(steps, steps + lasting)
    return next((int(i) for i in np.flatnonzero(above) if above[i : ends[i] + 1].all()), None)


def onset(
    steps: np.ndarray, values: np.ndarray, n: int | None, threshold: float, lasting: int = LASTING
) -> Onset | None:
    """Onset of a curve of shares, each counted on `n` sequences; of any curve without noise where `n` is None."""
    lowest, highest = _intervals(values, n)
    middle, low, high = (first_lasting(steps, curve >= threshold, lasting) for curve in (values, highest, lowest))
    if middle is None or low is None:
        return None
    return Onset(int(steps[middle]), int(steps[low - 1]) if low else 0, None if high is None else int(steps[high]))


def _intervals(values: np.ndarray, n: int | None) -> tuple[np.ndarray, np.ndarray]:
    """The ends of the 95 % intervals of shares; the values themselves for a curve without noise.

    The ends of a share that is NaN, of a diverged model, are NaN too.
    """
    if n is None:
        return values, values
    ends = {value: wilson(round(value * n), n) for value in {*values[~np.isnan(values)].tolist()}}
    low, high = ([getattr(ends[v], end) if v in ends else v for v in values.tolist()] for end in ("low", "high"))
    return np.array(low), np.array(high)


# What a further change point must take off the sum of squares. Accuracies on 512 sequences scatter by .02 at most, so
# noise alone takes off about 2 (.02)^2 ln(300) = .005; slow drift needs some more room.
PENALTY = 0.02
# A rise lasts from the first to the second of these shares of the way between its plateaus.
RISES_FROM, RISES_TO = 0.1, 0.9


@dataclass(frozen=True)
class Spike:
    """The steepest step of a rise between two plateaus, and the plateaus' levels."""

    before: int
    """The last evaluation before the change point."""
    after: int
    """The first one behind it."""
    low: float
    high: float

    @property
    def rise(self) -> float:
        return self.high - self.low


def change_points(values: np.ndarray, penalty: float = PENALTY) -> list[int]:
    """Indices at which a new plateau begins, for a piecewise constant fit of least squares."""
    n = len(values)
    sums, squares = (np.concatenate([[0.0], np.cumsum(x, dtype=float)]) for x in (values, values * values))
    # The least cost of a fit of the first `end` values, and where its last plateau begins.
    cost, begins, places = np.full(n + 1, -penalty), [0] * (n + 1), np.arange(n + 1)
    starts = places[:1]
    for end in range(1, n + 1):
        sum_of_squares = squares[end] - squares[starts] - (sums[end] - sums[starts]) ** 2 / (end - starts)
        tried = cost[starts] + sum_of_squares
        best = int(tried.argmin())
        cost[end], begins[end] = tried[best] + penalty, int(starts[best])
        # The other starts are worse for every later end.
        starts = np.concatenate((starts[tried <= cost[end]], places[end : end + 1]))
    found = []
    while n:
        n = begins[n]
        found.append(n)
    return found[-2::-1]


def spikes(steps: np.ndarray, values: np.ndarray, since: int = 0) -> list[Spike]:
    """Every rise between neighbouring plateaus after step `since`, in the order of the steps."""
    kept = steps >= since
    steps, values = steps[kept], values[kept]
    if len(steps) < 2:
        return []
    edges = [0, *change_points(values), len(values)]
    levels = [float(np.median(values[a:b])) for a, b in pairwise(edges)]
    return [
        Spike(int(steps[edge - 1]), int(steps[edge]), low, high)
        for edge, (low, high) in zip(edges[1:-1], pairwise(levels), strict=True)
        if high > low
    ]


def largest_spike(steps: np.ndarray, values: np.ndarray, since: int = 0) -> Spike | None:
    return max(spikes(steps, values, since), key=lambda s: s.rise, default=None)


def rise_time(steps: np.ndarray, values: np.ndarray, spike: Spike) -> Delay:
    """Steps from the last evaluation on the lower plateau of a spike to the first on the upper one.

    A rise lasts from 10 % to 90 % of the way and begins and ends between evaluations: `low` counts those inside it.
    """
    below = (steps <= spike.before) & (values <= spike.low + RISES_FROM * spike.rise)
    above = (steps >= spike.after) & (values >= spike.low + RISES_TO * spike.rise)
    start = int(np.flatnonzero(below)[-1]) if below.any() else 0
    stop = int(np.flatnonzero(above)[0]) if above.any() else len(steps) - 1
    most = int(steps[stop] - steps[start])
    return Delay(most, max(0, int(steps[stop - 1] - steps[start + 1])), most)


def fast_rises(
    steps: np.ndarray, values: np.ndarray, since: int = 0, least: float = 0.1, within: int = 100
) -> list[int]:
    """The steps at which rises by `least` or more within so many steps begin; rises that overlap are one."""
    ends = np.searchsorted(steps, steps + within, "right") - 1
    jumps = np.flatnonzero((values[ends] - values >= least) & (steps >= since))
    return _apart(steps[jumps], within)


def bursts(
    steps: np.ndarray, losses: np.ndarray, since: int = 0, factor: float = 2.0, least: float = 0.02, within: int = 200
) -> list[int]:
    """The steps at which a loss goes to `factor` times its median over the steps `within` before, and `least` above it.

    A burst lasts until the loss has not been so high for `within` steps.
    """
    begins = np.searchsorted(steps, steps - within)
    usual = np.array([np.median(losses[b:i]) if i > b else np.inf for i, b in enumerate(begins)])
    high = np.flatnonzero((losses > factor * usual) & (losses > usual + least) & (steps >= since))
    return _apart(steps[high], within)


def _apart(steps: np.ndarray, gap: int) -> list[int]:
    """The first of each group of steps that follow one another within the gap."""
    return [int(step) for i, step in enumerate(steps) if i == 0 or step - steps[i - 1] > gap]
