"""Every curve of a run that has a level to reach, and when it got there to last.

A point of most curves is a share of n sequences, and their noise widens what is open about the onset. What is read off the
weights alone, over all pairs, positions or variables, has none: there only the distance between checkpoints is open. Norms,
scores, the number of frequencies, and accuracies with frequencies taken out have no level to reach, and no onset; nor do the
variants of attention rates on the training law.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from assignadd.dynamics import late
from assignadd.dynamics.onsets import LASTING, onset
from assignadd.dynamics.phases import ADDITION_THRESHOLD, THRESHOLD, Curves
from assignadd.measures.probes import TRAIN_SHARE
from assignadd.measures.progress import PER_VARIABLE, SEQUENCES
from assignadd.measures.variables import SLOTS
from assignadd.task.evalsets import RECORDED_SETS


@dataclass(frozen=True)
class Level:
    threshold: float
    n: int | None = None
    """Sequences behind a point of the curve; None where nothing is sampled."""


# Nine in ten: of eleven positions or twelve variables, all but one.
MOST = 0.9
# Assigned numbers are counted sequence by sequence: those of one sequence share a context, so that n is on the safe side
# (over fresh sequences their share scatters as if a few times as many were independent). A mean of masses between 0 and 1
# has at most the variance of a share of the same size.
RATE, MASS = Level(MOST, SEQUENCES), Level(0.5, SEQUENCES)
PROBE = Level(MOST, SEQUENCES - int(TRAIN_SHARE * SEQUENCES))
VARIABLE = Level(late.THRESHOLD, PER_VARIABLE)
# By the names of `measures.progress`, their types (0-var, 1-var, 2-var) left out.
MEASURES = {
    "ov2_mlp2_accuracy": Level(MOST),
    "fourier_restricted_accuracy": Level(MOST),
    "qk1_num_to_prev_var": Level(MOST),
    "qk1_num_to_prev_var (rows 3 on)": Level(MOST),
    "qk2_ov1_var_identity": Level(MOST),
    "qk2_ov1_var_margin": Level(0.0),
    "qk2_ov1_var_margin (least)": Level(0.0),
    "probe_l1_var_from_num": PROBE,
    "probe_l1_var_from_num (four steps)": PROBE,
    "attn_l1_num_to_prev": RATE,
    "attn_l1_equal_to_operands": RATE,
    "attn_l2_equal_to_values": RATE,
    "mass_l1_num_to_prev": MASS,
    "mass_l1_equal_to_operands": MASS,
    "mass_l2_equal_to_values": MASS,
}


@dataclass(frozen=True)
class CurveOnset:
    """When one curve came up to last: its `onset` with what is open about it (see `Onset`), or None where it never did."""

    curve: str
    threshold: float
    lasting: int
    onset: int | None
    low: int | None
    high: int | None
    n: int | None


def curve_onsets(curves: Curves, columns: Mapping[str, np.ndarray]) -> list[CurveOnset]:
    """Of every evaluation set, and of the columns of a measured trajectory; one checkpoint is no trajectory, and has no onsets."""
    found = [_onset(name, curves.steps, curves.accuracy[name], level) for name, level in _set_levels(curves)]
    measured = _column_levels(columns) if len(columns["step"]) > 1 else ()
    return found + [_onset(name, columns["step"], columns[name], level) for name, level in measured]


def _set_levels(curves: Curves) -> Iterator[tuple[str, Level]]:
    """The levels of the phases: held-out sums as for addition, the others as for binding and refinement."""
    for evalset in RECORDED_SETS:
        if evalset.name in curves.accuracy:
            yield evalset.name, Level(THRESHOLD if evalset.pair == "seen" else ADDITION_THRESHOLD, curves.n)


def _column_levels(columns: Mapping[str, np.ndarray]) -> Iterator[tuple[str, Level]]:
    """Measure by measure, its types one after the other; then the variables in the slots that the task has sums for."""
    for measure, level in MEASURES.items():
        yield from ((name, level) for name in columns if re.sub(r" \(\d-var\)$", "", name) == measure)
    for name in columns:
        if name.startswith("accuracy ") and name.endswith(SLOTS) and not np.isnan(columns[name]).all():
            yield name, VARIABLE


def _onset(curve: str, steps: np.ndarray, values: np.ndarray, level: Level) -> CurveOnset:
    found = onset(steps, values, level.n, level.threshold)
    step, low, high = (found.step, found.low, found.high) if found else (None, None, None)
    return CurveOnset(curve, level.threshold, LASTING, step, low, high, level.n)
