"""Claims of sections 1 and 4 and appendix B: the order of the skills, and the routing measures between the spikes.

Also what the claims about the two spikes share: numbers at evaluations and at checkpoints along training. `uses` marks
a measure with the checkpoints that it looks at, which its record names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from assignadd.dynamics.curves import Spike, steps_between
from assignadd.dynamics.phases import (
    ADDITION_SET,
    APART,
    HELD_OUT_SETS,
    REFINEMENT_SETS,
    THRESHOLD,
    TRAINED_SETS,
    Curves,
    skill_onset,
)
from assignadd.dynamics.trajectory import checkpoints_around, column_of, curves_of, followed, phases_of, trajectory_of
from assignadd.ledger.claim import Claim, Measure, Reading, uses
from assignadd.measures.accuracies import end_accuracies_of
from assignadd.measures.columns import SEQUENCES
from assignadd.measures.probes import TRAIN_SHARE, probe_l1_var_from_num
from assignadd.model.accuracy import Exam
from assignadd.network import Network, per_network
from assignadd.paper.generalisation.claims import OVER_THE_END, achieved, lowest_on
from assignadd.stats import FAILS, HOLDS, AtLeast, AtMost, Between, Interval, Measured, Rule, difference
from assignadd.task.evalsets import EVAL_SETS, EvalSet

TRAINED_LITERALS = "0-var train"
ONE_VARIABLE = EvalSet("1-var train", n_vars=1)
# 100 %, rounded to the whole percent as in the paper.
ROUNDED = 0.995

Steps = tuple[int, int]
"""The steps of the evaluations, or of the checkpoints, before and after a spike."""
BEFORE, AFTER = 0, 1


# At evaluations


def along(measure: Callable[..., Measured | None], *arguments: Any) -> Measure:
    """`measure(network, *arguments)` as a measure that looks at all evaluations; None where there is only one."""

    @uses(lambda network: curves_of(network).steps.tolist())
    def measured_along_training(network: Network) -> Measured | None:
        return measure(network, *arguments) if followed(network) else None

    return measured_along_training


def along_spike(which: str, measure: Callable[..., Measured | None], *arguments: Any) -> Measure:
    """`measure(network, spike, *arguments)` as a measure; None where there is no such spike.

    `which` is `first_spike` or `second_spike`.
    """

    def measured_at_spike(network: Network) -> Measured | None:
        spike: Spike | None = getattr(phases_of(network), which)
        return None if spike is None else measure(network, spike, *arguments)

    return along(measured_at_spike)


def share_of_sets(network: Network, accuracy: float, sets: Sequence[str]) -> Measured:
    """A mean accuracy on these sets at one evaluation as a number with the interval of their sequences."""
    curves = curves_of(network)
    n_recorded = sum(name in curves.accuracy for name in sets)
    n = curves.n * n_recorded  # sequences of these sets together
    return Measured.share(round(accuracy * n), n, "sequences")


def recorded(network: Network, sets: Sequence[str], step: int) -> Measured:
    """The mean accuracy on these sets at the last evaluation up to a step."""
    curves = curves_of(network)
    up_to_step = curves.mean(sets)[curves.steps <= step]
    return share_of_sets(network, float(up_to_step[-1]), sets)


def rise_between_plateaus(network: Network, spike: Spike, sets: Sequence[str]) -> Measured:
    """The rise of the mean accuracy on these sets across a spike, with the sampling error on each side."""
    return difference(share_of_sets(network, spike.high, sets), share_of_sets(network, spike.low, sets))


def skill_delay(curves: Curves, earlier: Sequence[str], later: Sequence[str]) -> Measured | None:
    """Steps from the onset of the `earlier` sets to that of the `later` ones; None where the later never came.

    An onset is the first step with lasting accuracy of 95 % on all of the sets.
    """
    last_step = int(curves.steps[-1])
    delay = steps_between(skill_onset(curves, earlier), skill_onset(curves, later), last_step)
    if delay is None:
        return None
    return Measured(delay.steps, delay.low, delay.high, len(curves.steps), "evaluations")


# At checkpoints


def around_first_spike(network: Network) -> Steps | None:
    """The last checkpoint before the first spike and the first after it.

    None if there is no spike, or if no checkpoint is within `APART` steps of it on one of its sides.
    """
    spike = phases_of(network).first_spike
    steps = network.steps
    if spike is None:
        return None
    near_before = any(spike.before - APART <= step <= spike.before for step in steps)
    near_after = any(spike.after <= step <= spike.after + APART for step in steps)
    return checkpoints_around(steps, spike) if near_before and near_after else None


def at_first_spike(measure: Callable[..., Measured | None], *arguments: Any) -> Measure:
    """`measure(network, steps, *arguments)` as a measure; None where there are no checkpoints near the first spike.

    `steps` are those of the checkpoints before and after this spike.
    """

    @uses(lambda network: around_first_spike(network) or ())
    def measured_at_spike(network: Network) -> Measured | None:
        steps = around_first_spike(network)
        return None if steps is None else measure(network, steps, *arguments)

    return measured_at_spike


def exam(network: Network, evalset: EvalSet) -> Exam:
    """`network.n` sequences of one evaluation set."""
    return Exam([network.config], network.seen[None], [evalset], network.n)


@per_network()
def accuracy_at(network: Network, evalset: EvalSet, step: int) -> Measured:
    """Accuracy of one checkpoint on `network.n` sequences of one set."""
    correct = int(exam(network, evalset).count_correct(network.stack_at(step)))
    return Measured.share(correct, network.n, "sequences")


def trajectory_at(network: Network, column: str, step: int) -> float:
    """A column of the measured trajectory at one checkpoint."""
    steps = trajectory_of(network)["step"].tolist()
    return float(column_of(network, column)[steps.index(step)])


def share_of_checkpoints(rule: Rule, measured: Sequence[Measured]) -> Measured:
    """The share of checkpoints whose number fulfils a rule; `measured` has the number of each.

    The interval reaches from the share that fulfils it with its whole interval to the share whose interval does not
    rule it out.
    """
    n = len(measured)
    by_value = [rule.verdict(Interval(number.value, number.value)) for number in measured]
    by_interval = [rule.verdict(number) for number in measured]
    low = by_interval.count(HOLDS) / n
    high = (n - by_interval.count(FAILS)) / n
    value = by_value.count(HOLDS) / n
    return Measured(value, low, high, n, "checkpoints")


# The order of the skills


def in_order(network: Network, earlier: Sequence[str], later: Sequence[str]) -> Measured | None:
    """`skill_delay` of one network: positive where the `earlier` sets are learned before the `later` ones."""
    return skill_delay(curves_of(network), earlier, later)


def number_of_phases(network: Network) -> Measured:
    """The number of phases of training; the lower end counts those that are certain in spite of evaluation noise."""
    phases = phases_of(network)
    onsets = [onset for onset in (phases.addition, phases.binding, phases.refinement) if onset is not None]
    # An onset without a latest possible step may be due to the noise of the evaluations.
    n_certain = sum(onset.high is not None for onset in onsets)
    return Measured(len(onsets), n_certain, len(onsets), 3, "phases looked for")


def before_binding(set_name: str) -> Measure:
    """The measure of the accuracy on a set just before the first spike, or at the end of training without a spike.

    Accuracy is measured on new sequences at the last checkpoint before the spike. Without a checkpoint near it, it is
    that of the last evaluation, which may have too few sequences to tell 99 % from 100 %.
    """
    evalset = next(evalset for evalset in EVAL_SETS if evalset.name == set_name)

    def checkpoints(network: Network) -> list[int]:
        """The checkpoint that the measure looks at."""
        steps = around_first_spike(network)
        return [network.step] if steps is None else [steps[BEFORE]]

    @uses(checkpoints)
    def accuracy_before_spike(network: Network) -> Measured | None:
        """The accuracy of one network; None where its training was evaluated only once."""
        if not followed(network):
            return None
        spike = phases_of(network).first_spike
        if spike is None:
            return achieved(end_accuracies_of(network).get(set_name))
        steps = around_first_spike(network)
        if steps is None:
            return recorded(network, [set_name], spike.before)
        return accuracy_at(network, evalset, steps[BEFORE])

    return accuracy_before_spike


def circuit_accuracy(network: Network, steps: Steps) -> Measured:
    """The share of all pairs of numbers that the OV-MLP circuit adds just before the first spike."""
    accuracy = trajectory_at(network, "ov2_mlp2_accuracy", steps[BEFORE])
    return Measured.exactly(accuracy, network.config.task.modulus**2, "pairs")


def before_first_spike(network: Network) -> int | None:
    """The last checkpoint before the first spike; None without one near it."""
    steps = around_first_spike(network)
    return None if steps is None else steps[BEFORE]


def after_second_phase(network: Network) -> int | None:
    """The first checkpoint from the end of the second phase on; None without one near it."""
    end = phases_of(network).trained if followed(network) else None
    if end is None:
        return None
    steps_near = [step for step in network.steps if end.step <= step <= end.step + APART]
    return steps_near[0] if steps_near else None


def probe(checkpoint: Callable[[Network], int | None], training_steps: int | None) -> Measure:
    """The measure of the test accuracy of the probe for the variable at assigned numbers, at one checkpoint.

    `checkpoint` chooses it; where it has none, the measure is None. The probe is trained for this number of steps, or
    until it converges where that is None. Counted by sequences: each has several numbers, so the interval is
    conservative (see `measures.columns`).
    """

    def checkpoints(network: Network) -> list[int]:
        """The checkpoint that the measure looks at, if there is one."""
        step = checkpoint(network)
        return [] if step is None else [step]

    @uses(checkpoints)
    def probe_accuracy(network: Network) -> Measured | None:
        """The share of the probe's test sequences that it classifies correctly; None without this checkpoint."""
        step = checkpoint(network)
        if step is None:
            return None
        tokens = exam(network, ONE_VARIABLE).tokens
        accuracy = float(probe_l1_var_from_num(network.stack_at(step), tokens, training_steps))
        n_tested = network.n - int(TRAIN_SHARE * network.n)
        return Measured.share(round(accuracy * n_tested), n_tested, "sequences")

    return probe_accuracy


ONSET = f"An onset is the start of 1,000 steps with at least {100 * THRESHOLD:.0f} % on each of the sets."
NEVER_BIND = "The value is that at the end of training for seeds that never bind."

FOUR_STEPS = 4  # of training in the paper's code
PROBE = "a linear probe reads the variable at assigned numbers with"
TAUGHT = (
    "The paper trains its probe for four steps, so that its accuracy is partly how far four steps get. The reading "
    "asks a converged probe: where it finds the variable before the spike, the way from 80 % to 100 % is the probe's "
    "own training, and says nothing of what the network has learned."
)
PHASES = (
    Claim("addition-first-train", "section 1",
          "Trained sums of literals are learned before trained sums with variables (steps between the onsets).",
          "prior to", along(in_order, [TRAINED_LITERALS], TRAINED_SETS), AtLeast(1), ONSET),
    Claim("addition-first-held-out", "section 1",
          "Held-out sums of literals are learned before held-out sums with variables (steps between the onsets).",
          "prior to", along(in_order, [ADDITION_SET], HELD_OUT_SETS), AtLeast(1), ONSET),
    Claim("addition-independent", "section 1",
          "Addition is learned independently: accuracy on held-out sums of literals is 95 % before the first spike.",
          "near-perfect", before_binding(ADDITION_SET), AtLeast(0.95), NEVER_BIND, if_binding=False,
          readings=(Reading("strict", "It is 99 % before the first spike.", AtLeast(0.99)),)),
    Claim("addition-100", "progress_measures",
          "At the end of the first phase, accuracy on trained sums of literals is 100 %, rounded to the whole percent.",
          "100 %", before_binding(TRAINED_LITERALS), AtLeast(ROUNDED), NEVER_BIND, if_binding=False),
    Claim("three-phases", "progress_measures", "Training has three phases: addition, binding and refinement.",
          "three", along(number_of_phases), AtLeast(3)),
    Claim("binding-before-refinement", "progress_measures",
          "Sums with variables in trained slots are learned before sums with banned slots (steps between onsets).",
          "in this order", along(in_order, TRAINED_SETS, REFINEMENT_SETS), AtLeast(1),
          f"{ONSET} Both have trained pairs of numbers."),
    Claim("circuit-in-first-phase", "progress_measures",
          "The OV-MLP circuit adds 95 % of all pairs before the first spike.",
          "rises sharply in the first phase", at_first_spike(circuit_accuracy), AtLeast(0.95)),
    Claim("probe-80", "progress_measures", f"Before the first spike, {PROBE} 80 % accuracy, if trained for four steps.",
          "reaching 80 %", probe(before_first_spike, FOUR_STEPS), AtLeast(0.8), TAUGHT,
          readings=(Reading("not-yet", "The variable is not yet there for a converged probe (at most 90 %).",
                            AtMost(0.9), probe(before_first_spike, None)),)),
    Claim("probe-100", "progress_measures",
          f"At the end of the second phase, {PROBE} 100 % accuracy (rounded), if trained for four steps.",
          "reaching 100 %", probe(after_second_phase, FOUR_STEPS), AtLeast(ROUNDED),
          "Measured at the first checkpoint with 95 % on trained sums of one and of two variables."),
    Claim("over-99-all-sets", "progress_measures", "In the end, accuracy exceeds 99 % on all nine evaluation sets.",
          "> 99 % across all benchmarks", lowest_on(EVAL_SETS), AtLeast(0.99),
          f"The value and its interval are those of the lowest set. {OVER_THE_END}"),
)  # fmt: skip


# Between the spikes


PLATEAU = Between(0.8, 0.99)


def is_between_spikes(network: Network) -> np.ndarray:
    """A mask of the checkpoints from the end of the first spike to the beginning of the second; empty without both."""
    phases = phases_of(network)
    steps = trajectory_of(network)["step"]  # (checkpoints,)
    if not followed(network) or phases.first_spike is None or phases.second_spike is None:
        return np.zeros(len(steps), dtype=bool)
    return (steps >= phases.first_spike.end) & (steps <= phases.second_spike.begin)


def between_spikes(measure: Callable[..., Measured | None], *arguments: Any) -> Measure:
    """`measure(network, chosen, *arguments)` as a measure; None where there are no checkpoints between the spikes.

    `chosen` is the mask of these checkpoints.
    """

    @uses(lambda network: trajectory_of(network)["step"][is_between_spikes(network)].tolist())
    def measured_between_spikes(network: Network) -> Measured | None:
        chosen = is_between_spikes(network)
        return measure(network, chosen, *arguments) if chosen.any() else None

    return measured_between_spikes


def pattern_stays(network: Network, chosen: np.ndarray, pattern: str) -> Measured | None:
    """The share of the chosen checkpoints at which the rate of an attention pattern is from 80 to 99 %.

    The rate is the mean over sums with one and with two variables. None for a task without two-variable sums.
    """
    if len(network.types) <= 2:
        return None
    one_variable = column_of(network, f"{pattern} (1-var)")
    two_variables = column_of(network, f"{pattern} (2-var)")
    rates = (one_variable + two_variables)[chosen] / 2
    n = 2 * SEQUENCES  # of both types at each checkpoint
    return share_of_checkpoints(PLATEAU, [Measured.share(rate * n, n, "sequences") for rate in rates.tolist()])


def identity_stays(network: Network, chosen: np.ndarray) -> Measured:
    """The share of the chosen checkpoints at which 80 to 99 % of the variables match themselves best under QK2."""
    V = network.config.task.n_vars
    shares = column_of(network, "qk2_ov1_var_identity")[chosen].tolist()
    return share_of_checkpoints(PLATEAU, [Measured.exactly(share, V, "variables") for share in shares])


STAYS = "The value is the share of the checkpoints between the spikes; all of them must be there."
ANY_SUM = f"{STAYS} Any pair of numbers and any slots."
ROUTING_PLATEAU = tuple(
    Claim(f"routing-plateau-{id}", "progress_measures", f"Between the two spikes, {words} stays between 80 % and 99 %.",
          "80 % to 99 %", measure, AtLeast(1.0), comment)
    for id, words, measure, comment in (
        ("attn-l1-equal-to-operands", "the rate of attention from `=` to the operands in layer 1",
         between_spikes(pattern_stays, "attn_l1_equal_to_operands"), ANY_SUM),
        ("attn-l2-equal-to-values", "the rate of attention from `=` to the values in layer 2",
         between_spikes(pattern_stays, "attn_l2_equal_to_values"), ANY_SUM),
        ("qk2-identity", "the share of variables that match themselves best under QK2",
         between_spikes(identity_stays), STAYS),
    )
)  # fmt: skip
