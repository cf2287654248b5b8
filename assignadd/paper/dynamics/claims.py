"""Claims of sections 1 and 4 and appendix B: the order of the skills, and the routing measures between the spikes.

First come measures along training that the claims on spikes use too. A claim's measure is a function of a network;
`along`, `along_spike` and `at` make one from a function that also takes a spike, steps or other arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

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
from assignadd.dynamics.trajectory import checkpoints_around, curves_of, followed, phases_of, trajectory_of
from assignadd.ledger.claim import CheckpointsOf, Claim, Measure, Reading, uses
from assignadd.measures.accuracies import end_accuracies_of
from assignadd.measures.columns import SEQUENCES, require_column
from assignadd.measures.probes import TRAIN_SHARE, probe_l1_var_from_num
from assignadd.model.accuracy import Exam
from assignadd.network import Network, per_network
from assignadd.paper.generalisation.claims import INTERVAL_OF_LOWEST, OVER_THE_END, achieved, lowest_on
from assignadd.stats import FAILS, HOLDS, AtLeast, AtMost, Between, Interval, Measured, Rule
from assignadd.task.evalsets import EVAL_SETS, EvalSet

TRAINED_LITERALS = "0-var train"
ONE_VARIABLE = EvalSet("1-var train", n_vars=1)
# 100 %, rounded to the whole percent as in the paper.
ROUNDED = 0.995
Steps = Sequence[int]
"""The steps of the checkpoints that a measure looks at; around a spike there are two, with the indices below."""
BEFORE, AFTER = 0, 1


def along(measure: Callable[..., Measured | None], *arguments: Any) -> Measure:
    """A claim's measure: `measure(network, *arguments)` if training has several evaluations, None if it has one.

    The record of the claim names all evaluations as its checkpoints.
    """

    @uses(lambda network: curves_of(network).steps.tolist())
    def measured_along_training(network: Network) -> Measured | None:
        return measure(network, *arguments) if followed(network) else None

    return measured_along_training


def along_spike(spike_name: str, measure: Callable[..., Measured | None], *arguments: Any) -> Measure:
    """A claim's measure along training: `measure(network, spike, *arguments)`; None without this spike of `Phases`."""

    def measured_at_spike(network: Network) -> Measured | None:
        spike: Spike | None = getattr(phases_of(network), spike_name)
        return None if spike is None else measure(network, spike, *arguments)

    return along(measured_at_spike)


def at(checkpoints_of: CheckpointsOf, measure: Callable[..., Measured | None], *arguments: Any) -> Measure:
    """A claim's measure: `measure(network, steps, *arguments)` at `steps = checkpoints_of(network)`, None if empty."""

    @uses(checkpoints_of)
    def measured_at_checkpoints(network: Network) -> Measured | None:
        steps = checkpoints_of(network)
        return measure(network, steps, *arguments) if steps else None

    return measured_at_checkpoints


def around_first_spike(network: Network) -> Steps:
    """The last checkpoint before the first spike and the first after it; empty without both within `APART` steps."""
    spike = phases_of(network).first_spike
    if spike is None:
        return ()
    near_before = any(spike.before - APART <= step <= spike.before for step in network.steps)
    near_after = any(spike.after <= step <= spike.after + APART for step in network.steps)
    return checkpoints_around(network.steps, spike) if near_before and near_after else ()


def skill_delay(curves: Curves, earlier: Sequence[str], later: Sequence[str]) -> Measured | None:
    """Steps from the onset of the `earlier` sets to that of the `later` ones; None where the later never came.

    An onset is the first step with lasting accuracy of 95 % on all of the sets; an earlier one that never came counts
    as the last step.
    """
    return steps_between(skill_onset(curves, earlier), skill_onset(curves, later), curves.steps)


def sequences_evaluated(network: Network, sets: Sequence[str]) -> int:
    """The number of sequences of these sets, all sets together, in each evaluation of training."""
    curves = curves_of(network)
    return curves.n * sum(name in curves.accuracy for name in sets)


def recorded(network: Network, sets: Sequence[str], step: int) -> Measured:
    """The mean accuracy on these sets at the last evaluation up to a step."""
    curves = curves_of(network)
    accuracy = float(curves.mean(sets)[curves.steps <= step][-1])  # there is one: the first evaluation is at step 0
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
    """The values of a column of the measured trajectory at these steps; `NotDefined` if the architecture has none."""
    require_column(network.config, column)
    all_steps = trajectory_of(network)["step"].tolist()
    value_at = dict(zip(all_steps, trajectory_of(network)[column].tolist(), strict=True))
    return [value_at[step] for step in steps]


def learning_delay(network: Network, earlier: Sequence[str], later: Sequence[str]) -> Measured | None:
    """Steps from learning the `earlier` sets to learning the `later` ones (`skill_delay`), negative in other order."""
    return skill_delay(curves_of(network), earlier, later)


def number_of_phases(network: Network) -> Measured:
    """The number of phases of training; the low end of its interval leaves out those that may be evaluation noise."""
    phases = phases_of(network)
    onsets = [onset for onset in (phases.addition, phases.binding, phases.refinement) if onset is not None]
    n_certain = sum(onset.high is not None for onset in onsets)  # where it is None, the onset may be noise
    return Measured(value=len(onsets), low=n_certain, high=len(onsets), n=3, unit="phases looked for")


def before_binding(set_name: str) -> Measure:
    """The claim's measure of the accuracy on a set just before the first spike; at the end without a spike.

    It is measured on new sequences at the last checkpoint before the spike. Without a checkpoint near the spike, it is
    that of the last evaluation before it, on fewer sequences. None if training has a single evaluation.
    """
    evalset = next(evalset for evalset in EVAL_SETS if evalset.name == set_name)

    @uses(lambda network: before_first_spike(network) or [network.step])
    def accuracy_before_spike(network: Network) -> Measured | None:
        if not followed(network):
            return None
        spike = phases_of(network).first_spike
        if spike is None:
            return achieved(end_accuracies_of(network).get(set_name))
        steps = before_first_spike(network)
        if not steps:
            return recorded(network, [set_name], spike.before)
        return accuracy_at(network, evalset, steps[0])

    return accuracy_before_spike


def circuit_accuracy(network: Network, steps: Steps) -> Measured:
    """The share of all pairs of numbers that the OV-MLP circuit adds just before the first spike."""
    accuracy = trajectory_at(network, "ov2_mlp2_accuracy", steps)[BEFORE]
    return Measured.exactly(accuracy, network.config.task.modulus**2, "pairs")


def before_first_spike(network: Network) -> Steps:
    """The last checkpoint before the first spike; empty without one near it."""
    return around_first_spike(network)[:1]


def after_second_phase(network: Network) -> Steps:
    """The first checkpoint from the end of the second phase on; empty without one near it."""
    end = phases_of(network).trained if followed(network) else None
    if end is None:
        return []
    return [step for step in network.steps if end.step <= step <= end.step + APART][:1]


def probe(network: Network, steps: Steps, training_steps: int | None) -> Measured:
    """The test accuracy of the probe for the variable at assigned numbers, at the checkpoint `steps[0]`.

    The probe is trained for `training_steps`, or until it converges if that is None. The interval is conservative: it
    counts sequences, which have several numbers each.
    """
    tokens = exam_of(network, ONE_VARIABLE).tokens
    accuracy = float(probe_l1_var_from_num(network.stack_at(steps[0]), tokens, [training_steps]))
    n_tested = network.n - int(TRAIN_SHARE * network.n)
    return Measured.share(round(accuracy * n_tested), n_tested, "sequences")


PLATEAU = Between(0.8, 0.99)  # of the routing measures between the spikes, by the paper


def between_spikes(network: Network) -> Steps:
    """The checkpoints from the end of the first spike to the beginning of the second; empty without both."""
    phases = phases_of(network)
    if not followed(network) or phases.first_spike is None or phases.second_spike is None:
        return []
    steps = trajectory_of(network)["step"].tolist()
    return [step for step in steps if phases.first_spike.end <= step <= phases.second_spike.begin]


def share_of_checkpoints(rule: Rule, measured: Sequence[Measured]) -> Measured:
    """The share of checkpoints whose number fulfils a rule; `measured` has the number of each.

    The low end of its interval is the share of checkpoints at which the rule holds by the number's interval, the high
    end the share at which it does not fail.
    """
    n = len(measured)
    by_value = [rule.verdict(Interval(number.value, number.value)) for number in measured]
    by_interval = [rule.verdict(number) for number in measured]
    low = by_interval.count(HOLDS) / n
    high = (n - by_interval.count(FAILS)) / n
    return Measured(by_value.count(HOLDS) / n, low, high, n, "checkpoints")


def pattern_stays(network: Network, steps: Steps, pattern: str) -> Measured | None:
    """The share of these checkpoints with a rate of 80 to 99 %, the mean of sums with one and with two variables."""
    if len(network.types) <= 2:
        return None
    one_variable = trajectory_at(network, f"{pattern} (1-var)", steps)
    two_variables = trajectory_at(network, f"{pattern} (2-var)", steps)
    n = 2 * SEQUENCES  # of both types at each checkpoint
    rates = [sum(of_types) / 2 for of_types in zip(one_variable, two_variables, strict=True)]
    return share_of_checkpoints(PLATEAU, [Measured.share(rate * n, n, "sequences") for rate in rates])


def identity_stays(network: Network, steps: Steps) -> Measured:
    """The share of these checkpoints at which 80 to 99 % of the variables match themselves best under QK2."""
    V = network.config.task.n_vars
    shares = trajectory_at(network, "qk2_ov1_var_identity", steps)
    return share_of_checkpoints(PLATEAU, [Measured.exactly(share, V, "variables") for share in shares])


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
          "prior to", along(learning_delay, [TRAINED_LITERALS], TRAINED_SETS), AtLeast(1), ONSET),
    Claim("addition-first-held-out", "section 1",
          "Held-out sums of literals are learned before held-out sums with variables (steps between the onsets).",
          "prior to", along(learning_delay, [ADDITION_SET], HELD_OUT_SETS), AtLeast(1), ONSET),
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
          "in this order", along(learning_delay, TRAINED_SETS, REFINEMENT_SETS), AtLeast(1),
          f"{ONSET} Both have trained pairs of numbers."),
    Claim("circuit-in-first-phase", "progress_measures",
          "The OV-MLP circuit adds 95 % of all pairs before the first spike.",
          "rises sharply in the first phase", at(around_first_spike, circuit_accuracy), AtLeast(0.95)),
    Claim("probe-80", "progress_measures", f"Before the first spike, {PROBE} 80 % accuracy, if trained for four steps.",
          "reaching 80 %", at(before_first_spike, probe, FOUR_STEPS), AtLeast(0.8), TAUGHT,
          readings=(Reading("not-yet", "The variable is not yet there for a converged probe (at most 90 %).",
                            AtMost(0.9), at(before_first_spike, probe, None)),)),
    Claim("probe-100", "progress_measures",
          f"At the end of the second phase, {PROBE} 100 % accuracy (rounded), if trained for four steps.",
          "reaching 100 %", at(after_second_phase, probe, FOUR_STEPS), AtLeast(ROUNDED),
          "Measured at the first checkpoint with 95 % on trained sums of one and of two variables."),
    Claim("over-99-all-sets", "progress_measures", "In the end, accuracy exceeds 99 % on all nine evaluation sets.",
          "> 99 % across all benchmarks", lowest_on(EVAL_SETS), AtLeast(0.99),
          f"{OVER_THE_END} {INTERVAL_OF_LOWEST}"),
)  # fmt: skip

STAYS = "The value is the share of the checkpoints between the spikes; all of them must be there."
ANY_SUM = f"{STAYS} Any pair of numbers and any slots."
ROUTING_PLATEAU = tuple(
    Claim(f"routing-plateau-{id}", "progress_measures", f"Between the two spikes, {words} stays between 80 % and 99 %.",
          "80 % to 99 %", measure, AtLeast(1.0), comment)
    for id, words, measure, comment in (
        ("attn-l1-equal-to-operands", "the rate of attention from `=` to the operands in layer 1",
         at(between_spikes, pattern_stays, "attn_l1_equal_to_operands"), ANY_SUM),
        ("attn-l2-equal-to-values", "the rate of attention from `=` to the values in layer 2",
         at(between_spikes, pattern_stays, "attn_l2_equal_to_values"), ANY_SUM),
        ("qk2-identity", "the share of variables that match themselves best under QK2",
         at(between_spikes, identity_stays), STAYS),
    )
)  # fmt: skip
