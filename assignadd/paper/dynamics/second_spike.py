"""Claims of section 6 on the second spike (figure late): the variable that is learned last, and why it fails before.

The late variable is that variable, with the slot in which it is learned last; for the paper it is b as the second
operand. "Before" and "after" are the checkpoints on either side of the rise of its accuracy (`around_late_spike`).
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from assignadd.dynamics.curves import LASTING, Spike
from assignadd.dynamics.phases import BINDING_SETS, LITERAL_SETS, REFINEMENT_SETS, LateVariable
from assignadd.dynamics.trajectory import curves_of, late_variable_of, phases_of, trajectory_of
from assignadd.ledger.claim import Claim, Reading
from assignadd.measures.accuracies import SLOTS, variable_exam, variable_sets
from assignadd.measures.routing import attn_l2_equal_to_value
from assignadd.measures.scores import qk1_equals_to_variables, qk2_path_terms
from assignadd.model.accuracy import Exam
from assignadd.network import Network, per_network
from assignadd.paper.dynamics.along import (
    AFTER,
    BEFORE,
    Steps,
    accuracy_at,
    along,
    along_spike,
    at,
    exam_of,
    rise_between_plateaus,
)
from assignadd.paper.generalisation.claims import VARIABLES
from assignadd.stats import AtLeast, AtMost, Measured, highest, lowest
from assignadd.task.evalsets import EVAL_SETS, EvalSet

# Sequences for each variable in each slot, where all of them are tested.
PER_VARIABLE = 500
# Sequences of the late variable at every checkpoint.
CURVE_SEQUENCES = 1000
# Before a spike at most this share of the rise has come, after it all but this share.
ON_PLATEAU = 0.05
# "In line with the rest": within five points of it.
IN_LINE = -0.05
# Differences of attention scores for ratios of weights of 1.1 and 2.
TENTH, TWICE = math.log(1.1), math.log(2)


def accuracy_around(network: Network, set_name: str, spike: Spike, when: int) -> Measured:
    """Accuracy on one set, pooled over the evaluations of the 1,000 steps before a spike or after it.

    `when` is BEFORE or AFTER.
    """
    curves = curves_of(network)
    if when == BEFORE:
        chosen = (curves.steps > spike.begin - LASTING) & (curves.steps <= spike.begin)
    else:
        chosen = (curves.steps >= spike.end) & (curves.steps < spike.end + LASTING)
    accuracies = curves.accuracy[set_name][chosen]
    return Measured.share(float(accuracies.sum()) * curves.n, curves.n * len(accuracies), "sequences")


def largest_rise_elsewhere(network: Network, spike: Spike) -> Measured | None:
    """The largest rise, across the second spike, of any set without banned slots."""
    rises = []
    for name in (*LITERAL_SETS, *BINDING_SETS):
        if name in curves_of(network).accuracy:
            after, before = accuracy_around(network, name, spike, AFTER), accuracy_around(network, name, spike, BEFORE)
            rises.append(after.minus(before))
    return highest(rises)


def banned_minus_trained(network: Network, spike: Spike) -> Measured | None:
    """The lowest, over the sets with banned slots, of its accuracy after the spike minus that of trained sums.

    A set is compared with trained sums of as many variables.
    """
    differences = []
    for evalset in EVAL_SETS:
        if evalset.n_banned and evalset.name in curves_of(network).accuracy:
            on_banned = accuracy_around(network, evalset.name, spike, AFTER)
            on_trained = accuracy_around(network, f"{evalset.n_vars}-var train", spike, AFTER)
            differences.append(on_banned.minus(on_trained))
    return lowest(differences)


def late_of(network: Network) -> LateVariable:
    """The late variable of a network that has one."""
    late = late_variable_of(network)
    assert late is not None
    return late


def sums_with_late(network: Network) -> EvalSet:
    """The set of sums with the late variable in its slot, of two variables if the task has such sums.

    Pairs of numbers are as trained, and no other variable is in a banned slot.
    """
    late = late_of(network)
    return next(sums for sums in variable_sets(network.config.task) if sums.name == f"{late.variable} {late.slot}")


@per_network()
def late_variable_curve(network: Network) -> tuple[np.ndarray, np.ndarray]:
    """The checkpoints from the first spike on, and the accuracy on the late variable's sums at each of them."""
    first_spike = phases_of(network).first_spike
    assert first_spike is not None
    all_steps = trajectory_of(network)["step"]
    steps = all_steps[all_steps >= first_spike.after]
    n = min(network.n, CURVE_SEQUENCES)
    exam = Exam([network.config], network.seen[None], [sums_with_late(network)], n)
    n_correct = [int(exam.count_correct(network.stack_at(step))) for step in steps.tolist()]
    return steps, np.array(n_correct) / n


@per_network()
def around_late_spike(network: Network) -> Steps:
    """The last checkpoint before the late variable's spike and the first after it; empty without a spike.

    Before the spike at most a twentieth of the rise of its accuracy has come, after it all but a twentieth.
    """
    late = late_variable_of(network)
    if phases_of(network).first_spike is None or late is None or late.spike is None:
        return ()
    steps, accuracy = late_variable_curve(network)
    low = float(np.median(accuracy[steps <= late.spike.begin]))  # the plateaus before and after the spike
    high = float(np.median(accuracy[steps >= late.spike.end]))
    margin = ON_PLATEAU * (high - low)
    on_low = steps[(steps <= late.spike.after) & (accuracy <= low + margin)]
    on_high = steps[(steps >= late.spike.after) & (accuracy >= high - margin)]
    before = on_low[-1] if len(on_low) else steps[0]
    after = on_high[0] if len(on_high) else steps[-1]
    return int(before), int(after)


def late_is_banned(network: Network) -> Measured | None:
    """Whether the late variable is in a banned slot, as 1 or 0; None where there is no late variable."""
    late = late_variable_of(network)
    if late is None:
        return None
    n_combinations = 2 * network.config.task.n_vars  # of a variable and one of two slots
    return Measured.exactly(float(late.banned), n_combinations, "variables in slots")


def accuracy_before(network: Network, steps: Steps) -> Measured:
    """Accuracy on sums with the late variable in its slot, before the spike."""
    return accuracy_at(network, sums_with_late(network), steps[BEFORE])


def lowest_of_others(network: Network, steps: Steps) -> Measured | None:
    """The lowest accuracy before the spike of any variable in any slot, without the late variable in its slot."""
    exam = variable_exam([network.config], network.seen[None], min(network.n, PER_VARIABLE))
    counts = exam.count_correct(network.stack_at(steps[BEFORE]))[0].tolist()
    late_sums = sums_with_late(network).name
    others = [count for name, count in zip(exam.names, counts, strict=True) if name != late_sums]
    return lowest(Measured.share(count, exam.n, "sequences") for count in others)


def attended_before(network: Network, steps: Steps, n_vars: int) -> Measured | None:
    """The share of sums in which the late variable's value is among the top two keys of `=` in layer 2, before.

    The sums have the late variable in its slot and `n_vars` variables; None where the task has no such sums.
    """
    if n_vars > network.config.task.max_assignments:
        return None
    tokens = exam_of(network, replace(sums_with_late(network), n_vars=n_vars)).tokens
    slot = SLOTS.index(late_of(network).slot)
    share = float(attn_l2_equal_to_value(network.stack_at(steps[BEFORE]), tokens, slot))
    return Measured.share(round(share * network.n), network.n, "sequences")


def qk1_scores(network: Network, step: int) -> tuple[float, np.ndarray]:
    """The QK1 score of `=` for the late variable, and those for all other variables, (V - 1,), at one checkpoint."""
    scores = qk1_equals_to_variables(network.stack_at(step))[0].detach().numpy()  # (V,)
    v = network.config.task.variables.index(late_of(network).variable)
    return float(scores[v]), np.delete(scores, v)


def above_lowest_other(network: Network, steps: Steps) -> Measured:
    """The QK1 score of `=` for the late variable minus the lowest of the other variables', before the spike."""
    score, other_scores = qk1_scores(network, steps[BEFORE])
    return Measured.exactly(score - float(other_scores.min()), len(other_scores), "other variables")


def rise_above_others(network: Network, steps: Steps) -> Measured:
    """The change across the spike of the QK1 score of `=` for the late variable, minus the others' median change."""
    score_before, others_before = qk1_scores(network, steps[BEFORE])
    score_after, others_after = qk1_scores(network, steps[AFTER])
    change = score_after - score_before - float(np.median(others_after - others_before))
    return Measured.exactly(change, len(others_after), "other variables")


def path_rise(network: Network, steps: Steps) -> Measured:
    """The change across the spike of the QK2 score between `=` and the late variable's value.

    It is the term of figure late (d), by which `=` finds the value of a variable in an operand slot.
    """
    late = late_of(network)
    v = network.config.task.variables.index(late.variable)
    before, after = qk2_path_terms(network.checkpoints(steps))[:, SLOTS.index(late.slot), v].tolist()
    return Measured.exactly(after - before, 1, "network")


SECOND = "second_spike"
SECOND_SPIKE = (
    Claim("second-spike", "late", "Accuracy on sums with a variable in a banned slot rises in a second spike.",
          "steps 14,500 to 16,000", along_spike(SECOND, rise_between_plateaus, REFINEMENT_SETS), AtLeast(0.05),
          "The value is the rise of the mean over these sets."),
    Claim("second-spike-targeted", "late",
          "No set without banned slots rises with the second spike by more than five points.",
          "more targeted", along_spike(SECOND, largest_rise_elsewhere), AtMost(0.05),
          "The value is the largest rise among these sets, from the 1,000 steps before to those after it."),
    Claim("second-spike-in-line", "late",
          "After the second spike, sums with banned slots are within five points of trained sums.",
          "in line with the rest", along_spike(SECOND, banned_minus_trained), AtLeast(IN_LINE),
          "The value is the lowest difference of a set from trained sums with as many variables, in the 1,000 steps "
          "after it."),
    Claim("late-variable", "late", "The variable that is learned last is one in a slot where training never puts it.",
          "b as second operand", along(late_is_banned), AtLeast(1)),
    Claim("late-variable-alone", "late",
          "Before the spike of the variable learned last, every other variable has 90 % accuracy in either slot.",
          "due to b", at(around_late_spike, lowest_of_others), AtLeast(0.9), "The value is the lowest accuracy."),
    Claim("late-variable-fails", "late",
          "Before its spike, sums with the variable learned last, in its slot, are almost never correct.",
          "completely fails", at(around_late_spike, accuracy_before), AtMost(0.1),
          "The threshold lies between guessing (1/59) and the 0.47 of the paper's network before the first spike."),
    Claim("late-variable-qk1", "late",
          "Before its spike, `=` has a lower QK1 score for the variable learned last than for any other: each other "
          "one gets 10 % more attention.",
          "less strongly", at(around_late_spike, above_lowest_other), AtMost(-TENTH),
          "The value is its score minus the lowest of the others; ln 1.1 is 10 % more attention.",
          readings=(Reading("substantially", "Each other one gets twice the attention (\"substantially below\").",
                            AtMost(-TWICE)),)),
    *(
        Claim(f"late-variable-unattended-{n_vars}-var", "late",
              "Before its spike, `=` does not attend in layer 2 to the value of the variable learned last, on sums "
              f"with {VARIABLES[n_vars, 0]}.",
              "fails to attend", at(around_late_spike, attended_before, n_vars), AtMost(0.1),
              "The value is the share of sequences with this value among the two keys with the most attention.")
        for n_vars in (1, 2)
    ),
    Claim("late-variable-qk1-rises", "late",
          "With its spike, the QK1 score of `=` for the variable learned last rises relative to the others.",
          "QK1 scores improve", at(around_late_spike, rise_above_others), AtLeast(TENTH),
          "The value is its change minus the median change of the others; ln 1.1 is 10 % more attention."),
    Claim("late-variable-qk2-rises", "late",
          "With its spike, the QK2 score between `=` and the value of the variable learned last rises.",
          "similarly improve", at(around_late_spike, path_rise), AtLeast(TENTH),
          "The value is the change of the term in figure late (d); ln 1.1 is 10 % more attention."),
)  # fmt: skip
