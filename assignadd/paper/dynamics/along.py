"""Measures along training that several claims share: at evaluations, at checkpoints, and on both sides of a spike.

`along`, `along_spike` and `at` make the measure of a claim, a function of a network alone, from a function with more
arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from assignadd.dynamics.curves import Spike, steps_between
from assignadd.dynamics.phases import APART, Curves, skill_onset
from assignadd.dynamics.trajectory import checkpoints_around, column_of, curves_of, followed, phases_of, trajectory_of
from assignadd.ledger.claim import Measure, uses
from assignadd.model.accuracy import Exam
from assignadd.network import Network, per_network
from assignadd.stats import Measured
from assignadd.task.evalsets import EvalSet

Steps = Sequence[int]
"""The steps of the checkpoints that a measure looks at; around a spike there are two, with the indices below."""
BEFORE, AFTER = 0, 1


def along(measure: Callable[..., Measured | None], *arguments: Any) -> Measure:
    """The claim's measure `measure(network, *arguments)`, over all evaluations of training; None with only one."""

    @uses(lambda network: curves_of(network).steps.tolist())
    def measured_along_training(network: Network) -> Measured | None:
        return measure(network, *arguments) if followed(network) else None

    return measured_along_training


def along_spike(which: str, measure: Callable[..., Measured | None], *arguments: Any) -> Measure:
    """The claim's measure `measure(network, spike, *arguments)`; None where training has no such spike.

    `which` is the name of a field of `Phases`: `first_spike` or `second_spike`.
    """

    def measured_at_spike(network: Network) -> Measured | None:
        spike: Spike | None = getattr(phases_of(network), which)
        return None if spike is None else measure(network, spike, *arguments)

    return along(measured_at_spike)


def at(checkpoints: Callable[[Network], Steps], measure: Callable[..., Measured | None], *arguments: Any) -> Measure:
    """The claim's measure `measure(network, steps, *arguments)`; None where there are no such checkpoints.

    `checkpoints` chooses the steps, as `around_first_spike` does.
    """

    @uses(checkpoints)
    def measured_at_checkpoints(network: Network) -> Measured | None:
        steps = checkpoints(network)
        return measure(network, steps, *arguments) if steps else None

    return measured_at_checkpoints


def around_first_spike(network: Network) -> Steps:
    """The last checkpoint before the first spike and the first after it.

    Empty if there is no spike, or if no checkpoint is within `APART` steps of it on one of its sides.
    """
    spike = phases_of(network).first_spike
    if spike is None:
        return ()
    near_before = any(spike.before - APART <= step <= spike.before for step in network.steps)
    near_after = any(spike.after <= step <= spike.after + APART for step in network.steps)
    return checkpoints_around(network.steps, spike) if near_before and near_after else ()


def skill_delay(curves: Curves, earlier: Sequence[str], later: Sequence[str]) -> Measured | None:
    """Steps from the onset of the `earlier` sets to that of the `later` ones; None where the later never came.

    An onset is the first step with lasting accuracy of 95 % on all of the sets; where that of the `earlier` ones never
    came, it counts as the last step.
    """
    last_step = int(curves.steps[-1])
    delay = steps_between(skill_onset(curves, earlier), skill_onset(curves, later), last_step)
    if delay is None:
        return None
    return Measured(delay.steps, delay.low, delay.high, len(curves.steps), "evaluations")


def sequences_evaluated(network: Network, sets: Sequence[str]) -> int:
    """The number of sequences of these sets, all sets together, in each evaluation of training."""
    curves = curves_of(network)
    return curves.n * sum(name in curves.accuracy for name in sets)


def recorded(network: Network, sets: Sequence[str], step: int) -> Measured:
    """The mean accuracy on these sets at the last evaluation up to a step."""
    curves = curves_of(network)
    accuracy = float(curves.mean(sets)[curves.steps <= step][-1])
    n = sequences_evaluated(network, sets)
    return Measured.share(round(accuracy * n), n, "sequences")


def rise_between_plateaus(network: Network, spike: Spike, sets: Sequence[str]) -> Measured:
    """The rise of the mean accuracy on these sets across a spike, with the sampling error on each side."""
    n = sequences_evaluated(network, sets)
    low = Measured.share(round(spike.low * n), n, "sequences")
    high = Measured.share(round(spike.high * n), n, "sequences")
    return high.minus(low)


def exam_of(network: Network, evalset: EvalSet) -> Exam:
    """`network.n` sequences of one evaluation set."""
    return Exam([network.config], network.seen[None], [evalset], network.n)


@per_network()
def accuracy_at(network: Network, evalset: EvalSet, step: int) -> Measured:
    """Accuracy of one checkpoint on `network.n` sequences of one set."""
    correct = int(exam_of(network, evalset).count_correct(network.stack_at(step)))
    return Measured.share(correct, network.n, "sequences")


def trajectory_at(network: Network, column: str, steps: Steps) -> list[float]:
    """A column of the measured trajectory at some checkpoints."""
    values = dict(zip(trajectory_of(network)["step"].tolist(), column_of(network, column).tolist(), strict=True))
    return [values[step] for step in steps]
