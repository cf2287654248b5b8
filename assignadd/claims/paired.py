"""Intervals for what two variants of a network do on the same sequences.

Zeros and ones get two more observations, one for each way in which a pair can differ (Bonett and Price, 2012): normal
intervals are then sound also where few pairs differ, and have a width where none was seen to.
"""

from __future__ import annotations

import math

import numpy as np

from assignadd.claims.record import Measured
from assignadd.stats import Z_95


def paired_difference(a: np.ndarray, b: np.ndarray, unit: str) -> Measured:
    """The share of successes in `a` less that in `b`; entry i of both is of the same sequence."""
    value, differences = float(a.mean() - b.mean()), np.append(a.astype(float) - b, (1.0, -1.0))
    half = Z_95 * float(differences.std()) / math.sqrt(len(differences))
    return _around(value, float(differences.mean()), half, len(a), unit)


def paired_share(a: np.ndarray, b: np.ndarray, unit: str) -> Measured | None:
    """The successes in `a` as a part of those in `b`; entry i of both is of the same sequence. None where `b` has none."""
    if not b.any():
        return None
    adjusted = ratio_of_means(np.append(a, (1, 0)).astype(float), np.append(b, (0, 1)).astype(float), unit)
    return _around(float(a.sum() / b.sum()), adjusted.value, adjusted.high - adjusted.value, len(a), unit)


def ratio_of_means(a: np.ndarray, b: np.ndarray, unit: str) -> Measured:
    """The mean of `a` divided by that of `b`, with the interval of the delta method; entry i of both is of the same sequence."""
    ratio = float(a.mean() / b.mean())
    half = Z_95 * float((a - ratio * b).std() / abs(b.mean())) / math.sqrt(len(a))
    return Measured(ratio, ratio - half, ratio + half, len(a), unit)


def _around(value: float, centre: float, half: float, n: int, unit: str) -> Measured:
    return Measured(value, min(value, centre - half), max(value, centre + half), n, unit)
