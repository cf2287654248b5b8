"""Claims of section 6 on the second spike (figure late): the variable that is learned last, and why it fails before.

"Before" and "after" are the checkpoints on either side of the rise of that variable's accuracy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from assignadd.dynamics.curves import LASTING, Spike, onset, steps_between
from assignadd.dynamics.phases import BINDING_SETS, LITERAL_SETS, REFINEMENT_SETS, LateVariable
from assignadd.dynamics.trajectory import curves_of, late_variable_of, phases_of, trajectory_of
from assignadd.ledger.claim import Claim, Measure, Reading, uses
from assignadd.measures.accuracies import SLOTS, variable_exam
from assignadd.measures.columns import PER_VARIABLE as PER_VARIABLE_ALONG
from assignadd.measures.routing import attn_l2_equal_to_value
from assignadd.measures.scores import qk1_equals_parts, qk2_path_terms
from assignadd.model.accuracy import Exam
from assignadd.network import Network, per_network
from assignadd.paper.dynamics.claims import (
    AFTER,
    BEFORE,
    Steps,
    accuracy_at,
    along,
    along_spike,
    exam,
    in_steps,
    rise_between_plateaus,
    share_of_checkpoints,
    trajectory_at,
)
from assignadd.paper.generalisation.claims import VARIABLES
from assignadd.stats import AtLeast, AtMost, Measured, difference, highest, lowest
from assignadd.task.evalsets import EVAL_SETS, LITERAL, EvalSet, count_banned

# Sequences for each variable in each slot, where all of them are tested.
PER_VARIABLE = 500
# Sequences of the late variable at every checkpoint.
CURVE_SEQUENCES = 1000
# Before a spike at most this share of the rise has come, after it all but this share.
ON_PLATEAU = 0.05
MOSTLY_RIGHT = AtLeast(0.9)
# "In line with the rest": within five points of it.
IN_LINE = -0.05
# Differences of attention scores for ratios of weights of 1.1 and 2.
TENTH, TWICE = math.log(1.1), math.log(2)
# Sets with banned slots, and the trained sums with as many variables.
COMPARED = {s.name: f"{s.n_vars}-var train" for s in EVAL_SETS if s.n_banned}


# The spike of the sets with banned slots


def on_plateau(network: Network, set_name: str, spike: Spike, when: int) -> Measured:
    """Accuracy on one set, pooled over the evaluations of the 1,000 steps before a spike or after it."""
    curves = curves_of(network)
    if when == BEFORE:
        chosen = (curves.steps > spike.begin - LASTING) & (curves.steps <= spike.begin)
    else:
        chosen = (curves.steps >= spike.end) & (curves.steps < spike.end + LASTING)
    accuracies = curves.accuracy[set_name][chosen]
    return Measured.share(float(accuracies.sum()) * curves.n, curves.n * len(accuracies), "sequences")


def largest_rise_elsewhere(network: Network, spike: Spike) -> Measured | None:
    """The largest rise, across the second spike, of any set without banned slots."""
    return highest(
        difference(on_plateau(network, name, spike, AFTER), on_plateau(network, name, spike, BEFORE))
        for name in (*LITERAL_SETS, *BINDING_SETS)
        if name in curves_of(network).accuracy
    )


def restricted_in_line(network: Network, spike: Spike) -> Measured | None:
    """The lowest accuracy with banned slots minus that of trained sums with as many variables, after the spike."""
    return lowest(
        difference(on_plateau(network, banned, spike, AFTER), on_plateau(network, trained, spike, AFTER))
        for banned, trained in COMPARED.items()
        if banned in curves_of(network).accuracy
    )


# The spike of the late variable


def late_variable_set(network: Network, late: LateVariable, n_vars: int | None = None) -> EvalSet:
    """Sums with the late variable in its slot and no other variable in a banned slot.

    They have two variables, if the task has such sums (figure late (b)), or `n_vars`.
    """
    task = network.config.task
    v, first = task.variables.index(late.variable), late.slot == SLOTS[0]
    n_banned = count_banned(task, *((v, LITERAL) if first else (LITERAL, v)))
    n_vars = min(2, task.max_assignments) if n_vars is None else n_vars
    return EvalSet(f"{late.variable} {late.slot}", n_vars, "seen", n_banned, (v,) if first else (None, v))


@per_network()
def late_variable_curve(network: Network) -> tuple[np.ndarray, np.ndarray]:
    """The checkpoints from the first spike on, and the accuracy on the late variable's sums at each of them."""
    first, late = phases_of(network).first_spike, late_variable_of(network)
    assert first is not None and late is not None
    steps = trajectory_of(network)["step"]
    steps = steps[steps >= first.after]
    n = min(network.n, CURVE_SEQUENCES)
    sums = Exam([network.config], network.seen[None], [late_variable_set(network, late)], n)
    return steps, np.array([int(sums.count_correct(network.stack_at(int(step)))) for step in steps]) / n


@per_network()
def around_late_spike(network: Network) -> Steps | None:
    """The last checkpoint before the late variable's spike and the first after it; None without a spike.

    Before the spike at most a twentieth of the rise of its accuracy has come, after it all but a twentieth.
    """
    late = late_variable_of(network)
    if phases_of(network).first_spike is None or late is None or late.spike is None:
        return None
    steps, accuracy = late_variable_curve(network)
    low = float(np.median(accuracy[steps <= late.spike.begin]))
    high = float(np.median(accuracy[steps >= late.spike.end]))
    below = steps[(steps <= late.spike.after) & (accuracy <= low + ON_PLATEAU * (high - low))]
    above = steps[(steps >= late.spike.after) & (accuracy >= high - ON_PLATEAU * (high - low))]
    return int(below[-1] if len(below) else steps[0]), int(above[0] if len(above) else steps[-1])


def at_late_spike(measure: Callable[..., Measured | None], *arguments: Any) -> Measure:
    """`measure(network, late, steps, *arguments)` with the late variable and the checkpoints around its spike.

    None where it has no spike.
    """

    @uses(lambda network: around_late_spike(network) or ())
    def of_network(network: Network) -> Measured | None:
        steps = around_late_spike(network)
        return None if steps is None else measure(network, late_variable_of(network), steps, *arguments)

    return of_network


def late_is_banned(network: Network) -> Measured | None:
    """Whether the late variable is in a banned slot."""
    late = late_variable_of(network)
    if late is None:
        return None
    return Measured.exactly(float(late.banned), 2 * network.config.task.n_vars, "variables in slots")


# Its accuracy, and that of the other variables


def late_accuracy(network: Network, late: LateVariable, steps: Steps, when: int) -> Measured:
    """Accuracy on sums with the late variable in its slot, before or after the spike."""
    return accuracy_at(network, late_variable_set(network, late), steps[when])


def times_chance(network: Network, late: LateVariable, steps: Steps) -> Measured:
    """That accuracy before the spike, divided by the accuracy of guessing among all numbers."""
    accuracy, N = late_accuracy(network, late, steps, BEFORE), network.config.task.modulus
    return Measured(N * accuracy.value, N * accuracy.low, N * accuracy.high, accuracy.n, accuracy.unit)


def accuracy_rise(network: Network, late: LateVariable, steps: Steps) -> Measured:
    """The change of that accuracy across the spike."""
    return difference(late_accuracy(network, late, steps, AFTER), late_accuracy(network, late, steps, BEFORE))


def others_correct(network: Network, late: LateVariable, step: int) -> tuple[list[int], int]:
    """For every other variable and slot the number of correct answers, and the number of sequences of each."""
    sums = variable_exam([network.config], network.seen[None], min(network.n, PER_VARIABLE))
    correct = dict(zip(sums.names, sums.count_correct(network.stack_at(step))[0].tolist(), strict=True))
    del correct[f"{late.variable} {late.slot}"]
    return list(correct.values()), sums.n


def lowest_of_others(network: Network, late: LateVariable, steps: Steps) -> Measured | None:
    """The lowest accuracy of any other variable in any slot before the spike."""
    correct, n = others_correct(network, late, steps[BEFORE])
    return lowest(Measured.share(k, n, "sequences") for k in correct)


def minus_others(network: Network, late: LateVariable, steps: Steps, when: int | None) -> Measured:
    """The late variable's accuracy minus that of all others: before, after, or (None) in the last network."""
    step = network.step if when is None else steps[when]
    correct, n = others_correct(network, late, step)
    accuracy = accuracy_at(network, late_variable_set(network, late), step)
    return difference(accuracy, Measured.share(sum(correct), n * len(correct), "sequences"))


def is_before_late_spike(network: Network) -> np.ndarray:
    """Which checkpoints are from the end of the first spike to the beginning of the late variable's."""
    steps = trajectory_of(network)["step"]
    first = phases_of(network).first_spike
    around = around_late_spike(network)
    if first is None or around is None:
        return np.zeros(len(steps), dtype=bool)
    return (steps >= first.end) & (steps <= around[BEFORE])


@uses(lambda network: trajectory_of(network)["step"][is_before_late_spike(network)].tolist())
def others_at_every_checkpoint(network: Network) -> Measured | None:
    """The share of checkpoints before the spike at which the other variables have 90 % in banned slots."""
    chosen = is_before_late_spike(network)
    late = late_variable_of(network)
    task = network.config.task
    if late is None or not chosen.any():
        return None
    banned = [*((v, "first") for v in task.banned_first), *((v, "second") for v in task.banned_second)]
    columns = [f"accuracy {v} {slot}" for v, slot in banned if (v, slot) != (late.variable, late.slot)]
    accuracies = [trajectory_of(network)[name][chosen] for name in columns if name in trajectory_of(network)]
    if not accuracies:
        return None
    n = PER_VARIABLE_ALONG * len(accuracies)
    means = np.mean(accuracies, axis=0).tolist()
    return share_of_checkpoints(MOSTLY_RIGHT, [Measured.share(mean * n, n, "sequences") for mean in means])


# Its attention scores


def attended(network: Network, late: LateVariable, steps: Steps, when: int, n_vars: int) -> Measured | None:
    """The share of sums with the late variable in which its value is among the top two keys of `=` in layer 2."""
    if n_vars > network.config.task.max_assignments:
        return None
    tokens = exam(network, late_variable_set(network, late, n_vars)).tokens
    share = float(attn_l2_equal_to_value(network.stack_at(steps[when]), tokens, SLOTS.index(late.slot)))
    return Measured.share(round(share * network.n), network.n, "sequences")


def qk1_scores(network: Network, late: LateVariable, step: int) -> tuple[float, np.ndarray]:
    """The QK1 score of `=` for the late variable, and for each other one."""
    scores = {v: trajectory_at(network, f"qk1 = to {v}", step) for v in network.config.task.variables}
    return scores.pop(late.variable), np.array(list(scores.values()))


def qk1_scores_of_token(network: Network, late: LateVariable, step: int) -> tuple[float, np.ndarray]:
    """The part of both that is due to the token `=`: the first row of figure late (c)."""
    return _qk1_scores_of_part(network, late, step, 0)


def qk1_scores_of_position(network: Network, late: LateVariable, step: int) -> tuple[float, np.ndarray]:
    """The part of both that is due to the last position: the second row of figure late (c)."""
    return _qk1_scores_of_part(network, late, step, 1)


def _qk1_scores_of_part(network: Network, late: LateVariable, step: int, part: int) -> tuple[float, np.ndarray]:
    scores = qk1_equals_parts(network.stack_at(step))[0, part].detach().numpy()
    v = network.config.task.variables.index(late.variable)
    return float(scores[v]), np.delete(scores, v)


Scores = Callable[[Network, LateVariable, int], tuple[float, np.ndarray]]


def above_lowest_other(network: Network, late: LateVariable, steps: Steps, scores: Scores) -> Measured:
    """The late variable's score minus the lowest of the other variables, before the spike."""
    score, others = scores(network, late, steps[BEFORE])
    return Measured.exactly(score - float(others.min()), len(others), "other variables")


def rise_above_others(network: Network, late: LateVariable, steps: Steps, scores: Scores) -> Measured:
    """The change of the late variable's score across the spike, minus the median change of the others' scores."""
    score_before, others_before = scores(network, late, steps[BEFORE])
    score_after, others_after = scores(network, late, steps[AFTER])
    change = score_after - score_before - float(np.median(others_after - others_before))
    return Measured.exactly(change, len(others_after), "other variables")


def score_before_accuracy(network: Network, late: LateVariable, steps: Steps) -> Measured | None:
    """Steps from half of the rise of the QK1 score (minus the others' median) to half of that of the accuracy.

    Both rises are from the first spike to the end of the late variable's; a crossing lasts for 1,000 steps. The
    interval covers the distance of checkpoints and the noise of the accuracies.
    """
    checkpoints, accuracy = late_variable_curve(network)
    until = checkpoints <= steps[AFTER]
    checkpoints, accuracy = checkpoints[until], accuracy[until]
    both = [qk1_scores(network, late, step) for step in checkpoints]
    scores = np.array([score - float(np.median(others)) for score, others in both])
    if scores[-1] <= scores[0] or accuracy[-1] <= accuracy[0]:
        return None
    half_of_score = onset(checkpoints, scores, None, float(scores[0] + scores[-1]) / 2)
    n = min(network.n, CURVE_SEQUENCES)
    half_of_accuracy = onset(checkpoints, accuracy, n, float(accuracy[0] + accuracy[-1]) / 2)
    if half_of_score is None:
        return None
    return in_steps(steps_between(half_of_score, half_of_accuracy, steps[AFTER]), len(checkpoints), "checkpoints")


def path_rise(network: Network, late: LateVariable, steps: Steps) -> Measured:
    """The change across the spike of the term of the QK2 score in figure late (d), with the variable in its slot."""
    slot = SLOTS.index(late.slot)
    v = network.config.task.variables.index(late.variable)
    before = float(qk2_path_terms(network.stack_at(steps[BEFORE]))[0, slot, v])
    after = float(qk2_path_terms(network.stack_at(steps[AFTER]))[0, slot, v])
    return Measured.exactly(after - before, 1, "network")


FAILS_BEFORE = "Before its spike, sums with the variable learned last, in its slot, are"
ASKS_LESS = "Before its spike, `=` has a lower QK1 score for the variable learned last than for any other"
LOWEST_OTHER = "The value is its score minus the lowest of the others"
MINUS_OTHERS = "The value is its accuracy in its slot minus that of all other variables."

SECOND = "second_spike"
PARTS = (
    ("token", "the token `=", qk1_scores_of_token),
    ("position", "the last position", qk1_scores_of_position),
)
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
          "in line with the rest", along_spike(SECOND, restricted_in_line), AtLeast(IN_LINE),
          "The value is the lowest difference of a set from trained sums with as many variables, in the 1,000 steps "
          "after it."),
    Claim("late-variable", "late", "The variable that is learned last is one in a slot where training never puts it.",
          "b as second operand", along(late_is_banned), AtLeast(1)),
    Claim("late-variable-alone", "late",
          "Before the spike of the variable learned last, every other variable has 90 % accuracy in either slot.",
          "due to b", at_late_spike(lowest_of_others), MOSTLY_RIGHT, "The value is the lowest accuracy.",
          readings=(Reading("every-checkpoint", "At every checkpoint from the first spike to this one, the other "
                            "variables have 90 % in banned slots. The value is the share of checkpoints.",
                            AtLeast(1.0), others_at_every_checkpoint),)),
    Claim("late-variable-fails", "late", f"{FAILS_BEFORE} almost never correct.",
          "completely fails", at_late_spike(late_accuracy, BEFORE), AtMost(0.1),
          "The threshold lies between guessing (1/59) and the 0.47 of the paper's network before the first spike.",
          readings=(Reading("chance", "They are correct at most twice as often as by guessing (a ratio).", AtMost(2.0),
                            at_late_spike(times_chance)),)),
    Claim("late-variable-qk1", "late", f"{ASKS_LESS}: each other one gets 10 % more attention.",
          "less strongly", at_late_spike(above_lowest_other, qk1_scores), AtMost(-TENTH),
          f"{LOWEST_OTHER}; ln 1.1 is 10 % more attention.",
          readings=(Reading("substantially", "Each other one gets twice the attention (\"substantially below\").",
                            AtMost(-TWICE)),)),
    *(
        Claim(f"late-variable-qk1-{id}", "late",
              f"Before its spike, the row of {words} in figure late (c) is lower for the variable learned last than "
              "for any other.",
              "less strongly", at_late_spike(above_lowest_other, scores), AtMost(-TENTH), f"{LOWEST_OTHER}.",
              readings=(Reading("rises", "With the spike it rises relative to the others.", AtLeast(TENTH),
                                at_late_spike(rise_above_others, scores)),))
        for id, words, scores in PARTS
    ),
    *(
        Claim(f"late-variable-{id}-{n_vars}-var", "late",
              f"{words} in layer 2 to the value of the variable learned last, on sums with {VARIABLES[n_vars, 0]}.",
              paper, at_late_spike(attended, when, n_vars), rule,
              "The value is the share of sequences with this value among the two keys with the most attention.")
        for id, words, paper, when, rule in (
            ("unattended", "Before its spike, `=` does not attend", "fails to attend", BEFORE, AtMost(0.1)),
            ("attended", "After its spike, `=` attends", "improves", AFTER, AtLeast(0.9)),
        )
        for n_vars in (1, 2)
    ),
    Claim("late-variable-qk1-rises", "late",
          "With its spike, the QK1 score of `=` for the variable learned last rises relative to the others.",
          "QK1 scores improve", at_late_spike(rise_above_others, qk1_scores), AtLeast(TENTH),
          "The value is its change minus the median change of the others; ln 1.1 is 10 % more attention.",
          readings=(Reading("first", "It rises before the accuracy on its sums: the value is the number of steps "
                            "between half of both rises since the first spike.", AtLeast(1),
                            at_late_spike(score_before_accuracy)),)),
    Claim("late-variable-qk2-rises", "late",
          "With its spike, the QK2 score between `=` and the value of the variable learned last rises.",
          "similarly improve", at_late_spike(path_rise), AtLeast(TENTH),
          "The value is the change of the term in figure late (d); ln 1.1 is 10 % more attention."),
    Claim("late-variable-accuracy-rises", "late",
          "With its spike, accuracy on sums with the variable learned last, in its slot, rises by at least 0.5.",
          "similarly improve", at_late_spike(accuracy_rise), AtLeast(0.5)),
    Claim("late-variable-in-line", "late",
          "After its spike, accuracy for the variable learned last is within five points of that for the others.",
          "in line with the rest", at_late_spike(minus_others, AFTER), AtLeast(IN_LINE), MINUS_OTHERS,
          readings=(Reading("end", "In the last network it is.", AtLeast(IN_LINE),
                            at_late_spike(minus_others, None)),)),
)  # fmt: skip
