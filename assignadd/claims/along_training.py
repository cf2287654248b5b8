"""Numbers along training: at the checkpoints around a spike, at an evaluation, and between the onsets of two skills."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeVar

import numpy as np

from assignadd.claims.evidence import Evidence
from assignadd.claims.measured import Measured, difference
from assignadd.claims.record import Measure, uses
from assignadd.dynamics.curves import LASTING, Delay, Spike, steps_between
from assignadd.dynamics.phases import APART, Curves, skill_onset
from assignadd.model.accuracy import Exam
from assignadd.task.evalsets import EvalSet

Steps = tuple[int, int]
"""The steps of the checkpoints before and after a spike."""
BEFORE, AFTER = 0, 1
Result = TypeVar("Result")


def around_first_spike(e: Evidence) -> Steps | None:
    """The last checkpoint before the first spike and the first after it; None if there is no spike or none is near."""
    spike, steps = e.phases.first_spike, e.steps
    if spike is None or not any(spike.before - APART <= s <= spike.before for s in steps):
        return None
    return e.checkpoint_steps(spike) if any(spike.after <= s <= spike.after + APART for s in steps) else None


def at_first_spike(measure: Callable[[Evidence, Steps], Measured | None]) -> Measure:
    """`measure(e, steps)` at the checkpoints around the first spike; None where there are none."""

    @uses(lambda e: around_first_spike(e) or ())
    def ask(e: Evidence) -> Measured | None:
        return None if (steps := around_first_spike(e)) is None else measure(e, steps)

    return ask


def along(measure: Measure) -> Measure:
    """Marks a measure as one of all evaluations along training."""
    return uses(lambda e: e.curves.steps.tolist())(measure)


def evaluation(e: Evidence, step: int) -> int:
    """The index of the last evaluation up to a step."""
    return int(np.flatnonzero(e.curves.steps <= step)[-1])


def recorded(e: Evidence, name: str, step: int) -> Measured:
    """Accuracy on one set at the last evaluation up to a step."""
    accuracy = float(e.curves.accuracy[name][evaluation(e, step)])
    return Measured.share(round(accuracy * e.curves.n), e.curves.n, "sequences")


def recorded_rise(e: Evidence, name: str, steps: Sequence[int]) -> Measured:
    """The change of that accuracy from the first step to the second."""
    return difference(recorded(e, name, steps[AFTER]), recorded(e, name, steps[BEFORE]))


def exam(e: Evidence, evalset: EvalSet) -> Exam:
    """`e.n` sequences of one set."""
    return Exam([e.config], e.seen[None], [evalset], e.n)


def kept(function: Callable[..., Result]) -> Callable[..., Result]:
    """A function of an `Evidence` and further arguments, whose results are kept there, as several claims need them."""

    @wraps(function)
    def once(e: Evidence, *arguments: Any) -> Result:
        key = (function, *arguments)
        if key not in e.kept:
            e.kept[key] = function(e, *arguments)
        result: Result = e.kept[key]
        return result

    return once


@kept
def accuracy_at(e: Evidence, evalset: EvalSet, step: int) -> Measured:
    """Accuracy of one checkpoint on `e.n` sequences of one set."""
    return Measured.share(int(exam(e, evalset).count_correct(e.stack_at(step))), e.n, "sequences")


def trajectory_at(e: Evidence, name: str, step: int) -> float:
    """A column of the measured trajectory at one checkpoint."""
    return float(e.column(name)[np.flatnonzero(e.trajectory["step"] == step)[0]])


def on_plateau(e: Evidence, name: str, spike: Spike, when: int) -> Measured:
    """Accuracy on one set, pooled over the evaluations of the 1,000 steps before a spike or after it."""
    steps = e.curves.steps
    before, after = (steps > spike.begin - LASTING) & (steps <= spike.begin), steps >= spike.end
    chosen = before if when == BEFORE else after & (steps < spike.end + LASTING)
    values = e.curves.accuracy[name][chosen]
    return Measured.share(float(values.sum()) * e.curves.n, e.curves.n * len(values), "sequences")


def rise_between_plateaus(spike_name: str, sets: Sequence[str]) -> Measure:
    """The rise of the mean accuracy on some sets across a spike, with the sampling error on each side."""

    @along
    def measure(e: Evidence) -> Measured | None:
        spike: Spike | None = getattr(e.phases, spike_name)
        if spike is None:
            return None
        n = e.curves.n * sum(name in e.curves.accuracy for name in sets)
        low, high = (Measured.share(round(level * n), n, "sequences") for level in (spike.low, spike.high))
        return difference(high, low)

    return measure


def skill_delay(curves: Curves, earlier: Sequence[str], later: Sequence[str]) -> Delay | None:
    """Steps from the onset of some sets to that of others, both at 95 %; None where the later one never came."""
    return steps_between(skill_onset(curves, earlier), skill_onset(curves, later), int(curves.steps[-1]))


def in_steps(delay: Delay | None, n: int, unit: str) -> Measured | None:
    """A delay as a measured number; None for None."""
    return None if delay is None else Measured(delay.steps, delay.low, delay.high, n, unit)
