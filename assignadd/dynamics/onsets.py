"""When a curve reaches a threshold to stay: the first crossing that holds for 1,000 steps or to the end."""

from __future__ import annotations

from dataclasses import dataclass

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
