"""What the claims about training share: networks around a spike, exams at a checkpoint, intervals of differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from torch import Tensor

from assignadd.claims.evidence import Evidence
from assignadd.claims.record import Measured
from assignadd.dynamics.late_variable import APART
from assignadd.dynamics.onsets import Delay
from assignadd.dynamics.spikes import Spike
from assignadd.model.accuracy import Exam
from assignadd.task.evalsets import EvalSet

Measure = Callable[[Evidence], Measured | None]


def around_first_spike(e: Evidence) -> tuple[int, int] | None:
    """The last checkpoint before the first spike and the first after it; None where there is no spike or none that is near."""
    spike, steps = e.phases.first_spike, e.steps
    if spike is None or not any(spike.before - APART <= s <= spike.before for s in steps):
        return None
    return e.checkpoint_steps(spike) if any(spike.after <= s <= spike.after + APART for s in steps) else None


def evaluation(e: Evidence, step: int) -> int:
    """The index of the last evaluation up to a step."""
    return int(np.flatnonzero(e.curves.steps <= step)[-1])


def evaluated(e: Evidence, name: str, index: int) -> Measured:
    """Accuracy on one set at one evaluation during training."""
    return Measured.share(round(float(e.curves.accuracy[name][index]) * e.curves.n), e.curves.n, "sequences")


def exam(e: Evidence, evalset: EvalSet) -> Exam:
    """`e.n` sequences of one set."""
    return Exam([e.config], e.seen[None], [evalset], e.n)


def accuracy_at(e: Evidence, evalset: EvalSet, step: int) -> Measured:
    """Accuracy of one checkpoint on `e.n` sequences of one set."""
    return Measured.share(int(exam(e, evalset).count_correct(e.stack_at(step))), e.n, "sequences")


def column(e: Evidence, name: str, step: int) -> float:
    """A column of the measured trajectory at one checkpoint."""
    return float(e.trajectory[name][np.flatnonzero(e.trajectory["step"] == step)[0]])


def difference(one: Measured, other: Measured) -> Measured:
    """The first less the second, with Newcombe's interval from the intervals of both (conservative where they share sequences)."""
    value = one.value - other.value
    below = np.hypot(one.value - one.low, other.high - other.value)
    above = np.hypot(one.high - one.value, other.value - other.low)
    return Measured(value, value - float(below), value + float(above), min(one.n, other.n), one.unit)


def mean_of(values: Tensor, unit: str) -> Measured:
    """The mean over sequences, with the interval from their scatter."""
    return Measured.mean(float(values.mean()), float(values.std()), len(values), unit)


def lowest(found: Sequence[Measured]) -> Measured | None:
    """The one with the lowest value, with its own interval; None of none."""
    return min(found, key=lambda m: m.value, default=None)


def rise(e: Evidence, spike: Spike | None, sets: Sequence[str]) -> Measured | None:
    """From plateau to plateau of the mean over sets, with the noise of one evaluation on each side."""
    if spike is None:
        return None
    n = e.curves.n * sum(name in e.curves.accuracy for name in sets)
    low, high = (Measured.share(round(level * n), n, "sequences") for level in (spike.low, spike.high))
    return difference(high, low)


def delay(found: Delay | None, e: Evidence) -> Measured | None:
    """Steps between two events as a measured number."""
    return None if found is None else Measured(found.steps, found.low, found.high, len(e.curves.steps), "evaluations")
