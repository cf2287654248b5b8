"""Onsets of curves and thresholds of sweeps, computed in the most direct way."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import minimize


def onset(steps: Sequence[int], values: Sequence[float], level: float, lasting: int = 1000) -> int | None:
    """The first step from which the curve is at the level or above for `lasting` steps, or to its end.

    The curve is known at evaluations only: all count up to the first one that is at least `lasting` steps later.
    """
    for i, start in enumerate(steps):
        until = next((step for step in steps if step >= start + lasting), steps[-1])
        if all(value >= level for step, value in zip(steps[i:], values[i:], strict=True) if step <= until):
            return start
    return None


def rise(shares: Sequence[float]) -> int:
    """How many settings belong to the rise: up to the last one at which the largest share succeeds."""
    return max(i for i, share in enumerate(shares) if share == max(shares)) + 1


def logistic_threshold(settings: Sequence[float], wins: Sequence[int], trials: Sequence[int]) -> tuple[float, float]:
    """Threshold and lapse rate of P = (1 - lapse) / (1 + exp((threshold - setting) / width)), by maximum likelihood.

    The minimum is searched from many starting points, on the settings of the rise.
    """
    n = rise([k / max(m, 1) for k, m in zip(wins, trials, strict=True)])
    x, k, m = (np.array(values[:n], dtype=float) for values in (settings, wins, trials))

    def loss(parameters: np.ndarray) -> float:
        threshold, log_width, logit_lapse = parameters
        lapse = 1 / (1 + np.exp(-logit_lapse))
        p = (1 - lapse) / (1 + np.exp(np.clip((threshold - x) / np.exp(log_width), -50, 50)))
        p = np.clip(p, 1e-3, 1 - 1e-3)
        return -float(k @ np.log(p) + (m - k) @ np.log(1 - p))

    starts = [(t, np.log(w), lapse) for t in x[1:] for w in (0.005, 0.02, 0.08) for lapse in (-6.0, -1.0)]
    best = min((minimize(loss, start, method="Nelder-Mead") for start in starts), key=lambda found: found.fun)
    return float(best.x[0]), float(1 / (1 + np.exp(-best.x[2])))
