"""When a curve reaches a threshold to stay (onsets), and its sudden rises (spikes)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from assignadd.stats import wilson

# A crossing lasts when the curve is above the threshold at every evaluation up to the first one this many steps later,
# or to the end. Where evaluations are farther apart than this, the next one must be above the threshold too.
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
    middle = first_lasting(steps, values >= threshold, lasting)
    low = first_lasting(steps, highest >= threshold, lasting)
    high = first_lasting(steps, lowest >= threshold, lasting)
    if middle is None or low is None:
        return None
    return Onset(int(steps[middle]), int(steps[low - 1]) if low else 0, None if high is None else int(steps[high]))


def _intervals(values: np.ndarray, n: int | None) -> tuple[np.ndarray, np.ndarray]:
    """The ends of the 95 % intervals of shares; the values themselves for a curve without noise.

    The ends of a share that is NaN, of a diverged model, are NaN too.
    """
    if n is None:
        return values, values
    intervals = {value: wilson(round(value * n), n) for value in {*values[~np.isnan(values)].tolist()}}
    low = [intervals[v].low if v in intervals else v for v in values.tolist()]
    high = [intervals[v].high if v in intervals else v for v in values.tolist()]
    return np.array(low), np.array(high)


# What a further change point must take off the sum of squares. Accuracies on 512 sequences scatter by .02 at most, so
# noise alone takes off about 2 (.02)^2 ln(300) = .005; slow drift needs more. On 64 sequences noise takes off .05.
PENALTY, PENALTY_OF_64 = 0.02, 0.1
# A rise lasts from the first to the second of these shares of the way between its plateaus.
RISES_FROM, RISES_TO = 0.1, 0.9
# Rises with a plateau of fewer steps between them are one (the paper's second spike takes 1,500 steps).
GATHERED = 1500
# A rise is visible if it is this many times as large as the scatter on the plateaus on both sides.
VISIBLE = 3.0
# The standard deviation of normal noise, divided by its median absolute deviation.
NORMAL = 1.4826


@dataclass(frozen=True)
class Spike:
    """A visible rise from a plateau to another that is higher than all before it."""

    before: int
    """The last evaluation before the steepest step of the rise."""
    after: int
    """The first one behind it."""
    low: float
    high: float
    begin: int
    """The last evaluation with at most 10 % of the rise."""
    end: int
    """The first one with at least 90 %."""

    @property
    def rise(self) -> float:
        return self.high - self.low


def change_points(values: np.ndarray, penalty: float = PENALTY) -> list[int]:
    """Indices at which a new plateau begins, for a piecewise constant fit of least squares."""
    n = len(values)
    sums = np.concatenate([[0.0], np.cumsum(values, dtype=float)])
    squares = np.concatenate([[0.0], np.cumsum(values * values, dtype=float)])
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
    edges = []
    while n:
        n = begins[n]
        edges.append(n)
    return edges[-2::-1]  # from the front, without the first plateau's


def spikes(steps: np.ndarray, values: np.ndarray, since: int = 0, penalty: float = PENALTY) -> list[Spike]:
    """Every visible rise to a new level after step `since`, in the order of the steps.

    A rise in stairs is one. A recovery, to a level that was there before, is none, nor is a change of level that is
    lost in the scatter of the curve.
    """
    later = steps >= since
    steps, values = steps[later], values[later]
    if len(steps) < 2:
        return []
    edges = [0, *change_points(values, penalty), len(values)]
    plateaus = [values[a:b] for a, b in pairwise(edges)]
    levels = [float(np.median(plateau)) for plateau in plateaus]
    visible = []
    for first, last in _stairs(steps, edges, levels):
        gain = levels[last] - max(levels[: first + 1])
        if gain > 0 and gain >= VISIBLE * max(_scatter(plateaus[first]), _scatter(plateaus[last])):
            steepest = max(range(first + 1, last + 1), key=lambda i: levels[i] - levels[i - 1])
            low, high = levels[first], levels[last]
            below = np.flatnonzero(values[: edges[first + 1]] <= low + RISES_FROM * (high - low))
            above = np.flatnonzero(values[edges[steepest] :] >= low + RISES_TO * (high - low)) + edges[steepest]
            before, after = int(steps[edges[steepest] - 1]), int(steps[edges[steepest]])
            visible.append(Spike(before, after, low, high, int(steps[below[-1]]), int(steps[above[0]])))
    return visible


def _stairs(steps: np.ndarray, edges: Sequence[int], levels: Sequence[float]) -> list[tuple[int, int]]:
    """The plateaus before and behind each rise, by their numbers; rises with a short plateau between them are one."""
    stairs: list[tuple[int, int]] = []
    for i in range(1, len(levels)):
        if levels[i] <= levels[i - 1]:
            continue
        is_short = steps[edges[i]] - steps[edges[i - 1]] <= GATHERED
        if stairs and stairs[-1][1] == i - 1 and is_short:
            stairs[-1] = (stairs[-1][0], i)
        else:
            stairs.append((i - 1, i))
    return stairs


def _scatter(plateau: np.ndarray) -> float:
    """The robust standard deviation around the median."""
    return NORMAL * float(np.median(np.abs(plateau - np.median(plateau))))


def largest_spike(steps: np.ndarray, values: np.ndarray, since: int = 0, penalty: float = PENALTY) -> Spike | None:
    """The spike with the largest rise; None where there is none."""
    return max(spikes(steps, values, since, penalty), key=lambda s: s.rise, default=None)


def rise_time(steps: np.ndarray, values: np.ndarray, n: int, spike: Spike) -> Delay:
    """Steps from the last evaluation on the lower plateau of a spike to the first on the upper one.

    A rise lasts from 10 % to 90 % of the way and begins and ends between evaluations. It lasts longer than the distance
    of those that lie inside it, whatever the noise of `n` sequences.
    """
    lowest, highest = _intervals(values, n)
    is_rising = (lowest > spike.low + RISES_FROM * spike.rise) & (highest < spike.low + RISES_TO * spike.rise)
    inside = steps[(steps > spike.begin) & (steps < spike.end) & is_rising]
    most = spike.end - spike.begin
    return Delay(most, int(inside[-1] - inside[0]) + 1 if len(inside) else 0, most)
