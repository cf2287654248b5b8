"""When every recorded accuracy and every measure with a level reached that level to stay.

A point of most curves is a share of n sequences; this noise widens the interval of the onset. What is read off the
weights alone, over all pairs, positions or variables, has no noise: its interval is the distance between checkpoints.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from assignadd.dynamics.onsets import LASTING, onset
from assignadd.dynamics.phases import ADDITION_THRESHOLD, THRESHOLD, Curves
from assignadd.measures.columns import COLUMNS, VARIABLE_ACCURACY, column_label
from assignadd.task.evalsets import LABELS, RECORDED_SETS


@dataclass(frozen=True)
class CurveOnset:
    """When one curve reached its level to stay: the step and what is open about it (see `Onset`), or None for never."""

    curve: str
    threshold: float
    lasting: int
    onset: int | None
    low: int | None
    high: int | None
    n: int | None

    @property
    def label(self) -> str:
        """The curve in plain words."""
        return LABELS[self.curve] if self.curve in LABELS else column_label(self.curve)


def curve_onsets(curves: Curves, columns: Mapping[str, np.ndarray]) -> list[CurveOnset]:
    """The onsets of all evaluation sets, and of the columns of a measured trajectory that have a level.

    One checkpoint is not a trajectory, so that its columns have no onsets.
    """
    found, steps = [], columns["step"]
    for s in RECORDED_SETS:
        if s.name in curves.accuracy:
            # The levels of the phases: held-out sums as for addition, the others as for binding and refinement.
            level = THRESHOLD if s.pair == "seen" else ADDITION_THRESHOLD
            found.append(_onset(s.name, curves.steps, curves.accuracy[s.name], level, curves.n))
    with_level = [(m, m.level) for m in COLUMNS if m.level is not None and len(steps) > 1]
    for measure, level in with_level:
        for name in measure.columns(columns):
            # A task may have no sums with a variable in some slot.
            if measure is not VARIABLE_ACCURACY or not np.isnan(columns[name]).all():
                found.append(_onset(name, steps, columns[name], level, measure.n))
    return found


def _onset(curve: str, steps: np.ndarray, values: np.ndarray, level: float, n: int | None) -> CurveOnset:
    found = onset(steps, values, n, level)
    step, low, high = (found.step, found.low, found.high) if found else (None, None, None)
    return CurveOnset(curve, level, LASTING, step, low, high, n)
