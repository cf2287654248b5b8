"""Onsets of curves and thresholds of sweeps, written out."""

from __future__ import annotations

from collections.abc import Sequence


def onset(steps: Sequence[int], values: Sequence[float], level: float, lasting: int = 1000) -> int | None:
    """The first step from which the curve is at the level or above for `lasting` steps, or to its end.

    The curve is known at evaluations alone: all are looked at up to the first one that is `lasting` steps later or more.
    """
    for i, start in enumerate(steps):
        until = next((step for step in steps if step >= start + lasting), steps[-1])
        if all(value >= level for step, value in zip(steps[i:], values[i:], strict=True) if step <= until):
            return start
    return None


def pooled(values: Sequence[float]) -> list[float]:
    """The closest non-decreasing sequence in least squares, by pooling adjacent violators."""
    blocks: list[tuple[float, int]] = []  # sum and size
    for value in values:
        blocks.append((value, 1))
        while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] > blocks[-1][0] / blocks[-1][1]:
            (a, n), (b, m) = blocks[-2:]
            blocks[-2:] = [(a + b, n + m)]
    return [total / size for total, size in blocks for _ in range(size)]


def half_crossing(settings: Sequence[float], shares: Sequence[float]) -> float | None:
    """The setting at which the pooled shares reach one half, linear between settings; None where they never do."""
    rising = pooled(shares)
    for i, share in enumerate(rising):
        if share >= 0.5:
            if i == 0:
                return settings[0]
            before, x, width = rising[i - 1], settings[i - 1], settings[i] - settings[i - 1]
            return x + width * (0.5 - before) / (share - before)
    return None
