"""When a curve comes up for good: the first crossing of a threshold that lasts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from assignadd.stats import wilson

# A crossing lasts when the curve stays above the threshold for so many steps (or to the end, where less is left).
LASTING = 1000


@dataclass(frozen=True)
class Onset:
    """The step of the first evaluation of a lasting stay, and where evaluation noise would let it be.

    `low` and `high` are the onsets of the curves of the upper and the lower ends of Wilson's intervals: the earliest and
    the latest step that the noise of n sequences allows. `high` is None where the lower ends never come up.
    """

    step: int
    low: int
    high: int | None


def first_lasting(steps: np.ndarray, above: np.ndarray, lasting: int = LASTING) -> int | None:
    """The first index from which `above` is true for `lasting` steps, or to the end."""
    for i in np.flatnonzero(above):
        within = (steps >= steps[i]) & (steps <= steps[i] + lasting)
        if above[within].all():
            return int(i)
    return None


def onset(steps: np.ndarray, shares: np.ndarray, n: int, threshold: float, lasting: int = LASTING) -> Onset | None:
    """Onset of a curve of shares, each counted on `n` sequences (or pairs)."""
    intervals = [wilson(round(float(share) * n), n) for share in shares]
    curves = (shares, np.array([i.high for i in intervals]), np.array([i.low for i in intervals]))
    middle, low, high = (first_lasting(steps, curve >= threshold, lasting) for curve in curves)
    if middle is None or low is None:
        return None
    return Onset(int(steps[middle]), int(steps[low]), None if high is None else int(steps[high]))
