"""When a curve reaches a threshold to stay (onsets), and its sudden rises (spikes)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from assignadd.stats import Measured, wilson

# A crossing lasts when the curve is above the threshold at every evaluation up to the first one this many steps later,
# or to the end. Where evaluations are farther apart than this, the next one must be above the threshold too.
LASTING = 1000


@dataclass(frozen=True)
class Onset:
    """The first evaluation from which a curve stays above its threshold, and the steps between which it crossed.

    The steps allow for the noise of evaluation, by Wilson's intervals, and for a crossing between two evaluations.
    """

    step: int
    low: int
    """The evaluation before the onset of the upper ends of the intervals; 0 if there is none before it."""
    high: int | None
    """The onset of the lower ends of the intervals; None if they never stay above the threshold."""


def steps_between(first: Onset | None, second: Onset | None, steps: np.ndarray) -> Measured | None:
    """Steps from the first onset (the last of `steps` if it never came) to the second; None if that never came."""
    if second is None:
        return None
    end = int(steps[-1])
    if first is None:
        first = Onset(step=end, low=end, high=None)
    latest_first = end if first.high is None else first.high
    latest_second = end if second.high is None else second.high
    low, high = second.low - latest_first, latest_second - first.low
    return Measured(second.step - first.step, low, high, len(steps), "evaluations")


def first_lasting(steps: np.ndarray, above: np.ndarray, lasting: int = LASTING) -> int | None:
    """The first index from which `above` is true for `lasting` steps, or to the end; None if there is none."""
    ends = np.searchsorted(steps, steps + lasting)  # for each evaluation, the first at least `lasting` steps later
    for i in np.flatnonzero(above):
        if above[i : ends[i] + 1].all():
            return int(i)
    return None


def onset(
    steps: np.ndarray, values: np.ndarray, n: int | None, threshold: float, lasting: int = LASTING
) -> Onset | None:
    """The onset of a curve of shares of `n` sequences (None: of numbers without noise); None where there is none."""
    lower_ends, upper_ends = _intervals(values, n)
    i_reached = first_lasting(steps, values >= threshold, lasting)
    i_earliest = first_lasting(steps, upper_ends >= threshold, lasting)
    i_latest = first_lasting(steps, lower_ends >= threshold, lasting)
    if i_reached is None or i_earliest is None:
        return None
    return Onset(
        step=int(steps[i_reached]),
        low=int(steps[i_earliest - 1]) if i_earliest > 0 else 0,
        high=None if i_latest is None else int(steps[i_latest]),
    )


def _intervals(values: np.ndarray, n: int | None) -> tuple[np.ndarray, np.ndarray]:
    """The ends of the 95 % intervals of shares; the values themselves for a curve without noise, and for NaN."""
    if n is None:
        return values, values
    low, high = values.astype(float), values.astype(float)
    for i in np.flatnonzero(~np.isnan(values)):
        interval = wilson(round(float(values[i]) * n), n)
        low[i], high[i] = interval.low, interval.high
    return low, high


# What a further change point must take off the sum of squares. Accuracies on 512 sequences scatter by .02 at most, so
# noise alone takes off about 2 (.02)^2 ln(300) = .005; slow drift needs more. On 64 sequences noise takes off .05.
PENALTY = 0.02
PENALTY_OF_64 = 0.1
# A rise lasts from the first to the second of these shares of the way between its plateaus.
RISES_FROM, RISES_TO = 0.1, 0.9
GATHERED = 1500  # rises with a plateau of fewer steps between them are one (the paper's second spike takes 1,500 steps)
VISIBLE = 3.0  # a rise is visible if it is this many times as large as the scatter on the plateaus on both sides
NORMAL = 1.4826  # the standard deviation of normal noise, divided by its median absolute deviation


@dataclass(frozen=True)
class Spike:
    """A visible rise from a plateau at `low` to one at `high`, higher than all before; the other fields are steps."""

    before: int  # the last evaluation before the steepest step of the rise
    after: int  # the first evaluation after the steepest step
    low: float
    high: float
    begin: int  # the last evaluation of the lower plateau with at most 10 % of the rise
    end: int  # the first evaluation from the steepest step on with at least 90 % of the rise

    @property
    def rise(self) -> float:
        """The difference of the two levels."""
        return self.high - self.low


def change_points(values: np.ndarray, penalty: float = PENALTY) -> list[int]:
    """Indices at which a new plateau begins, for a piecewise constant fit of least squares.

    The fit has the least sum of squared deviations plus `penalty` for each change. The search is exact: the best fit
    of the first `end` values is that of the first `start` values, for some `start`, followed by a plateau (optimal
    partitioning).
    """
    n = len(values)
    sums = np.concatenate([[0.0], np.cumsum(values, dtype=float)])  # of the first 0..n values
    squares = np.concatenate([[0.0], np.cumsum(values * values, dtype=float)])
    # For each `end`, the cost of the best fit of the first `end` values, and where its last plateau begins. Below, each
    # plateau adds a penalty, but there is one change fewer than plateaus: hence the negative cost at 0.
    cost = np.full(n + 1, -penalty)
    last_start = np.zeros(n + 1, dtype=int)
    for end in range(1, n + 1):
        starts = np.arange(end)
        # For each start, the squared deviations of the values from start to end from their mean, added up.
        deviations = squares[end] - squares[starts] - (sums[end] - sums[starts]) ** 2 / (end - starts)
        last_start[end] = (cost[starts] + deviations).argmin()
        cost[end] = (cost[starts] + deviations).min() + penalty
    changes = []
    start = int(last_start[n])
    while start > 0:  # the first plateau, which begins at 0, is no change
        changes.append(start)
        start = int(last_start[start])
    return changes[::-1]


def spikes(steps: np.ndarray, values: np.ndarray, since: int = 0, penalty: float = PENALTY) -> list[Spike]:
    """Every visible rise to a new level (height of a plateau) from step `since` on, in the order of the steps.

    A rise in several stairs counts once. A recovery to a level that the curve had before does not count, nor does a
    change of level that is small against the scatter of the curve.
    """
    is_later = steps >= since
    steps, values = steps[is_later], values[is_later]
    if len(steps) < 2:
        return []
    edges = [0, *change_points(values, penalty), len(values)]  # plateau i has the values from edge i to edge i + 1
    plateaus = [values[start:end] for start, end in pairwise(edges)]
    levels = [float(np.median(plateau)) for plateau in plateaus]
    visible = []
    for first, last in _rises(steps, edges, levels):  # numbers of plateaus
        gain = levels[last] - max(levels[: first + 1])
        scatter = max(_scatter(plateaus[first]), _scatter(plateaus[last]))
        if gain > 0 and gain >= VISIBLE * scatter:
            steepest = first + 1 + int(np.argmax(np.diff(levels[first : last + 1])))  # the plateau it rises to most
            i_foot, i_steepest = edges[first + 1], edges[steepest]
            visible.append(_spike(steps, values, i_foot, i_steepest, (levels[first], levels[last])))
    return visible


def _spike(steps: np.ndarray, values: np.ndarray, i_foot: int, i_steepest: int, levels: tuple[float, float]) -> Spike:
    """The spike between two levels that leaves the lower plateau at index `i_foot` and rises most at `i_steepest`."""
    low, high = levels
    # Both have an entry: `low` and `high` are the medians of plateaus before `i_foot` and from `i_steepest` on.
    i_begin = np.flatnonzero(values[:i_foot] <= low + RISES_FROM * (high - low))[-1]
    i_end = i_steepest + np.flatnonzero(values[i_steepest:] >= low + RISES_TO * (high - low))[0]
    before, after = int(steps[i_steepest - 1]), int(steps[i_steepest])
    return Spike(before, after, low, high, begin=int(steps[i_begin]), end=int(steps[i_end]))


def _rises(steps: np.ndarray, edges: list[int], levels: list[float]) -> list[tuple[int, int]]:
    """The plateaus before and after each rise, by their numbers; rises with a short plateau between them are one.

    Plateau i begins at index `edges[i]` and has level `levels[i]`.
    """
    rises: list[tuple[int, int]] = []
    for i in range(1, len(levels)):
        if levels[i] <= levels[i - 1]:
            continue
        first = i - 1
        is_short = steps[edges[i]] - steps[edges[first]] <= GATHERED  # the plateau from which this rise starts
        if is_short and rises and rises[-1][1] == first:  # the last rise ended on this plateau: both are one
            first, _ = rises.pop()
        rises.append((first, i))
    return rises


def _scatter(plateau: np.ndarray) -> float:
    """The robust standard deviation around the median."""
    return NORMAL * float(np.median(np.abs(plateau - np.median(plateau))))


def largest_spike(steps: np.ndarray, values: np.ndarray, since: int = 0, penalty: float = PENALTY) -> Spike | None:
    """The spike with the largest rise; None where there is none."""
    return max(spikes(steps, values, since, penalty), key=lambda spike: spike.rise, default=None)


def rise_time(steps: np.ndarray, values: np.ndarray, n: int, spike: Spike) -> Measured:
    """Steps from the last evaluation on the lower plateau of a spike to the first on the upper one.

    The rise from 10 % to 90 % of the way begins and ends between evaluations, so it lasts at most that long. It lasts
    longer than the distance between any two evaluations that are between 10 % and 90 % with their whole intervals, for
    the noise of `n` sequences.
    """
    lower_ends, upper_ends = _intervals(values, n)
    has_begun = (steps > spike.begin) & (lower_ends > spike.low + RISES_FROM * spike.rise)
    has_not_ended = (steps < spike.end) & (upper_ends < spike.low + RISES_TO * spike.rise)
    inside = steps[has_begun & has_not_ended]
    least = (int(inside[-1] - inside[0]) + 1) if len(inside) else 0  # the next whole number: longer than the distance
    most = spike.end - spike.begin
    return Measured(most, least, most, len(steps), "evaluations")
