"""Numbers along training: at the checkpoints around a spike, at an evaluation, and between the onsets of two skills."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from assignadd.dynamics.curves import LASTING, Delay, Spike, steps_between
from assignadd.dynamics.of_network import checkpoints_around, column_of, curves_of, phases_of, trajectory_of
from assignadd.dynamics.phases import APART, Curves, skill_onset
from assignadd.ledger.claim import Measure, uses
from assignadd.model.accuracy import Exam
from assignadd.network import Network, per_network
from assignadd.stats.measured import Measured, difference
from assignadd.task.evalsets import EvalSet

Steps = tuple[int, int]
"""The steps of the checkpoints before and after a spike."""
BEFORE, AFTER = 0, 1


def around_first_spike(e: Network) -> Steps | None:
    """The last checkpoint before the first spike and the first after it; None if there is no spike or none is near."""
    spike, steps = phases_of(e).first_spike, e.steps
    if spike is None or not any(spike.before - APART <= s <= spike.before for s in steps):
        return None
    return checkpoints_around(e.steps, spike) if any(spike.after <= s <= spike.after + APART for s in steps) else None


def at_first_spike(measure: Callable[[Network, Steps], Measured | None]) -> Measure:
    """`measure(e, steps)` at the checkpoints around the first spike; None where there are none."""

    @uses(lambda e: around_first_spike(e) or ())
    def ask(e: Network) -> Measured | None:
        return None if (steps := around_first_spike(e)) is None else measure(e, steps)

    return ask


def along(measure: Measure) -> Measure:
    """Marks a measure as one of all evaluations along training."""
    return uses(lambda e: curves_of(e).steps.tolist())(measure)


def evaluation(e: Network, step: int) -> int:
    """The index of the last evaluation up to a step."""
    return int(np.flatnonzero(curves_of(e).steps <= step)[-1])


def recorded(e: Network, name: str, step: int) -> Measured:
    """Accuracy on one set at the last evaluation up to a step."""
    accuracy = float(curves_of(e).accuracy[name][evaluation(e, step)])
    return Measured.share(round(accuracy * curves_of(e).n), curves_of(e).n, "sequences")


def recorded_rise(e: Network, name: str, steps: Sequence[int]) -> Measured:
    """The change of that accuracy from the first step to the second."""
    return difference(recorded(e, name, steps[AFTER]), recorded(e, name, steps[BEFORE]))


def exam(e: Network, evalset: EvalSet) -> Exam:
    """`e.n` sequences of one set."""
    return Exam([e.config], e.seen[None], [evalset], e.n)


@per_network()
def accuracy_at(e: Network, evalset: EvalSet, step: int) -> Measured:
    """Accuracy of one checkpoint on `e.n` sequences of one set."""
    return Measured.share(int(exam(e, evalset).count_correct(e.stack_at(step))), e.n, "sequences")


def trajectory_at(e: Network, name: str, step: int) -> float:
    """A column of the measured trajectory at one checkpoint."""
    return float(column_of(e, name)[np.flatnonzero(trajectory_of(e)["step"] == step)[0]])


def on_plateau(e: Network, name: str, spike: Spike, when: int) -> Measured:
    """Accuracy on one set, pooled over the evaluations of the 1,000 steps before a spike or after it."""
    steps = curves_of(e).steps
    before, after = (steps > spike.begin - LASTING) & (steps <= spike.begin), steps >= spike.end
    chosen = before if when == BEFORE else after & (steps < spike.end + LASTING)
    values = curves_of(e).accuracy[name][chosen]
    return Measured.share(float(values.sum()) * curves_of(e).n, curves_of(e).n * len(values), "sequences")


def rise_between_plateaus(spike_name: str, sets: Sequence[str]) -> Measure:
    """The rise of the mean accuracy on some sets across a spike, with the sampling error on each side."""

    @along
    def measure(e: Network) -> Measured | None:
        spike: Spike | None = getattr(phases_of(e), spike_name)
        if spike is None:
            return None
        n = curves_of(e).n * sum(name in curves_of(e).accuracy for name in sets)
        low, high = (Measured.share(round(level * n), n, "sequences") for level in (spike.low, spike.high))
        return difference(high, low)

    return measure


def skill_delay(curves: Curves, earlier: Sequence[str], later: Sequence[str]) -> Delay | None:
    """Steps from the onset of some sets to that of others, both at 95 %; None where the later one never came."""
    return steps_between(skill_onset(curves, earlier), skill_onset(curves, later), int(curves.steps[-1]))


def in_steps(delay: Delay | None, n: int, unit: str) -> Measured | None:
    """A delay as a measured number; None for None."""
    return None if delay is None else Measured(delay.steps, delay.low, delay.high, n, unit)
