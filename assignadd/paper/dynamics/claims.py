"""Claims of sections 1 and 4 and appendix B: the order of the skills, and the routing measures between the spikes.

Also what the claims about the two spikes share: numbers at evaluations and at checkpoints along training.
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
    """`measure(network, *arguments)` along all evaluations of the training; None where there is only one."""

    @uses(lambda network: curves_of(network).steps.tolist())
    def of_network(network: Network) -> Measured | None:
        return measure(network, *arguments) if followed(network) else None

    return of_network


def along_spike(which: str, measure: Callable[..., Measured | None], *arguments: Any) -> Measure:
    """`measure(network, spike, *arguments)` with the `first_spike` or `second_spike`; None where there is none."""

    def of_spike(network: Network) -> Measured | None:
        spike: Spike | None = getattr(phases_of(network), which)
        return None if spike is None else measure(network, spike, *arguments)

    return along(of_spike)


def share_of_sets(network: Network, accuracy: float, sets: Sequence[str]) -> Measured:
    """The mean accuracy on these sets at one evaluation, with the noise of their sequences."""
    n = curves_of(network).n * sum(name in curves_of(network).accuracy for name in sets)
    return Measured.share(round(accuracy * n), n, "sequences")


def recorded(network: Network, sets: Sequence[str], step: int) -> Measured:
    """The mean accuracy on these sets at the last evaluation up to a step."""
    curves = curves_of(network)
    return share_of_sets(network, float(curves.mean(sets)[curves.steps <= step][-1]), sets)


def rise_between_plateaus(network: Network, spike: Spike, sets: Sequence[str]) -> Measured:
    """The rise of the mean accuracy on these sets across a spike, with the sampling error on each side."""
    return difference(share_of_sets(network, spike.high, sets), share_of_sets(network, spike.low, sets))


def skill_delay(curves: Curves, earlier: Sequence[str], later: Sequence[str]) -> Measured | None:
    """Steps from the onset of the earlier sets to that of the later ones (95 %); None where the later never came."""
    delay = steps_between(skill_onset(curves, earlier), skill_onset(curves, later), int(curves.steps[-1]))
    if delay is None:
        return None
    return Measured(delay.steps, delay.low, delay.high, len(curves.steps), "evaluations")


# At checkpoints


def around_first_spike(network: Network) -> Steps | None:
    """The last checkpoint before the first spike and the first after it; None if there is no spike or none is near."""
    spike = phases_of(network).first_spike
    steps = network.steps
    if spike is None:
        return None
    near_before = any(spike.before - APART <= step <= spike.before for step in steps)
    near_after = any(spike.after <= step <= spike.after + APART for step in steps)
    return checkpoints_around(steps, spike) if near_before and near_after else None


def at_first_spike(measure: Callable[..., Measured | None], *arguments: Any) -> Measure:
    """`measure(network, steps, *arguments)` with the checkpoints around the first spike; None where there are none."""

    @uses(lambda network: around_first_spike(network) or ())
    def of_network(network: Network) -> Measured | None:
        steps = around_first_spike(network)
        return None if steps is None else measure(network, steps, *arguments)

    return of_network


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
    """The share of checkpoints whose number fulfils a rule; the interval has those that surely and that perhaps do."""
    n = len(measured)
    by_value = [rule.verdict(Interval(m.value, m.value)) for m in measured]
    by_interval = [rule.verdict(m) for m in measured]
    low = by_interval.count(HOLDS) / n
    high = (n - by_interval.count(FAILS)) / n
    return Measured(by_value.count(HOLDS) / n, low, high, n, "checkpoints")


# The order of the skills


def in_order(network: Network, earlier: Sequence[str], later: Sequence[str]) -> Measured | None:
    """Steps from the onset of the earlier sets to that of the later ones (95 %); None where the later never came."""
    return skill_delay(curves_of(network), earlier, later)


def number_of_phases(network: Network) -> Measured:
    """The number of phases of training; the lower end counts those that are certain in spite of evaluation noise."""
    phases = phases_of(network)
    onsets = [onset for onset in (phases.addition, phases.binding, phases.refinement) if onset is not None]
    certain = sum(onset.high is not None for onset in onsets)
    return Measured(len(onsets), certain, len(onsets), 3, "phases looked for")


def before_binding(set_name: str) -> Measure:
    """The accuracy on a set just before the first spike, or at the end of training where there is none.

    Accuracy is measured on new sequences at the last checkpoint before the spike. Without a checkpoint near it, it is
    that of the last evaluation, which may have too few sequences to tell 99 % from 100 %.
    """
    (evalset,) = [s for s in EVAL_SETS if s.name == set_name]

    @uses(lambda network: (around_first_spike(network) or (network.step,))[:1])
    def measure(network: Network) -> Measured | None:
        if not followed(network):
            return None
        spike = phases_of(network).first_spike
        if spike is None:
            return achieved(end_accuracies_of(network).get(set_name))
        steps = around_first_spike(network)
        if steps is None:
            return recorded(network, [set_name], spike.before)
        return accuracy_at(network, evalset, steps[BEFORE])

    return measure


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
    return next((step for step in network.steps if end.step <= step <= end.step + APART), None)


def probe(checkpoint: Callable[[Network], int | None], training_steps: int | None) -> Measure:
    """Test accuracy of the probe for the variable at assigned numbers, at one checkpoint.

    Counted by sequences. Each has several numbers, so the interval is conservative (see `measures.columns`).
    """

    @uses(lambda network: [step for step in [checkpoint(network)] if step is not None])
    def measure(network: Network) -> Measured | None:
        step = checkpoint(network)
        if step is None:
            return None
        tokens = exam(network, ONE_VARIABLE).tokens
        accuracy = float(probe_l1_var_from_num(network.stack_at(step), tokens, training_steps))
        tested = network.n - int(TRAIN_SHARE * network.n)
        return Measured.share(round(accuracy * tested), tested, "sequences")

    return measure


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
    """Which checkpoints are from the end of the first spike to the beginning of the second; none without both."""
    phases, steps = phases_of(network), trajectory_of(network)["step"]
    if not followed(network) or phases.first_spike is None or phases.second_spike is None:
        return np.zeros(len(steps), dtype=bool)
    return (steps >= phases.first_spike.end) & (steps <= phases.second_spike.begin)


def between_spikes(measure: Callable[..., Measured | None], *arguments: Any) -> Measure:
    """`measure(network, chosen, *arguments)` with the checkpoints between the spikes; None where there are none."""

    @uses(lambda network: trajectory_of(network)["step"][is_between_spikes(network)].tolist())
    def of_network(network: Network) -> Measured | None:
        chosen = is_between_spikes(network)
        return measure(network, chosen, *arguments) if chosen.any() else None

    return of_network


def pattern_stays(network: Network, chosen: np.ndarray, pattern: str) -> Measured | None:
    """The share of checkpoints with a rate on the plateau; None for a task without two-variable sums.

    The rate of the attention pattern is the mean over sums with one and with two variables.
    """
    if len(network.types) <= 2:
        return None
    n = 2 * SEQUENCES
    rates = (column_of(network, f"{pattern} (1-var)") + column_of(network, f"{pattern} (2-var)"))[chosen] / 2
    return share_of_checkpoints(PLATEAU, [Measured.share(rate * n, n, "sequences") for rate in rates.tolist()])


def identity_stays(network: Network, chosen: np.ndarray) -> Measured:
    """The share of checkpoints at which 80 to 99 % of the variables match themselves best under QK2."""
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
