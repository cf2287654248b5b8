"""Claims of section 6 on the second spike (figure late): the variable that is learned last, and why it fails before.

"Before" and "after" are the checkpoints on either side of the rise of that variable's accuracy.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from assignadd.dynamics.curves import onset, steps_between
from assignadd.dynamics.of_network import curves_of, late_variable_of, phases_of, trajectory_of
from assignadd.dynamics.phases import BINDING_SETS, LITERAL_SETS, REFINEMENT_SETS, LateVariable
from assignadd.ledger.claim import Claim, Measure, Reading, uses
from assignadd.measures.accuracies import SLOTS, variable_exam
from assignadd.measures.progress import PER_VARIABLE as PER_VARIABLE_ALONG
from assignadd.measures.routing import attn_l2_equal_to_value
from assignadd.measures.scores import qk1_equals_parts, qk2_path_terms
from assignadd.model.accuracy import Exam
from assignadd.network import Network, per_network
from assignadd.paper.dynamics.along_training import (
    AFTER,
    BEFORE,
    Steps,
    accuracy_at,
    along,
    exam,
    in_steps,
    on_plateau,
    rise_between_plateaus,
    trajectory_at,
)
from assignadd.paper.generalisation.claims import VARIABLES
from assignadd.stats.measured import Measured, difference, highest, lowest
from assignadd.stats.verdicts import FAILS, HOLDS, AtLeast, AtMost
from assignadd.task.evalsets import EVAL_SETS, EvalSet
from assignadd.task.sampling_tables import LITERAL, count_banned

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


@per_network()
def own_curve(e: Network) -> tuple[np.ndarray, np.ndarray]:
    """The checkpoints from the first spike on, and the accuracy on the late variable's sums at each of them."""
    first, late = phases_of(e).first_spike, late_variable_of(e)
    assert first is not None and late is not None
    steps = trajectory_of(e)["step"][trajectory_of(e)["step"] >= first.after]
    asked = Exam([e.config], e.seen[None], [own_set(e, late, largest_sum(e))], min(e.n, CURVE_SEQUENCES))
    counts = [int(asked.count_correct(e.stack_at(int(step)))) for step in steps]
    return steps, np.array(counts) / asked.n


@per_network()
def late_ends(e: Network) -> Steps | None:
    """The last checkpoint before the late variable's spike and the first after it; None without a spike.

    Before the spike at most a twentieth of the rise of its accuracy has come, after it all but a twentieth.
    """
    late = late_variable_of(e)
    if phases_of(e).first_spike is None or late is None or late.spike is None:
        return None
    steps, accuracy = own_curve(e)
    low, high = (float(np.median(accuracy[part])) for part in (steps <= late.spike.begin, steps >= late.spike.end))
    below = steps[(steps <= late.spike.after) & (accuracy <= low + ON_PLATEAU * (high - low))]
    above = steps[(steps >= late.spike.after) & (accuracy >= high - ON_PLATEAU * (high - low))]
    return int(below[-1] if len(below) else steps[0]), int(above[0] if len(above) else steps[-1])


def at_late_spike(measure: Callable[[Network, LateVariable, Steps], Measured | None]) -> Measure:
    """`measure(e, late, steps)` with the late variable and the checkpoints around its spike; None without a spike."""

    @uses(lambda e: late_ends(e) or ())
    def ask(e: Network) -> Measured | None:
        late, steps = late_variable_of(e), late_ends(e)
        return None if late is None or steps is None else measure(e, late, steps)

    return ask


def largest_sum(e: Network) -> int:
    """The number of variables in the sums of figure late (b): two, if the task has such sums."""
    return min(2, e.config.task.max_assignments)


@along
def late_is_banned(e: Network) -> Measured | None:
    """Whether the late variable is in a banned slot."""
    if (late := late_variable_of(e)) is None:
        return None
    return Measured.exactly(float(late.banned), 2 * e.config.task.n_vars, "variables in slots")


def own_set(e: Network, late: LateVariable, n_vars: int) -> EvalSet:
    """Sums with the late variable in its slot and no other variable in a banned slot."""
    v, first = e.config.task.variables.index(late.variable), late.slot == SLOTS[0]
    n_banned = count_banned(e.config.task, *((v, LITERAL) if first else (LITERAL, v)))
    slots = (v, None) if first else (None, v)
    return EvalSet(f"{late.variable} {late.slot}", n_vars, "seen", n_banned, *slots)


def own_accuracy_at(e: Network, late: LateVariable, step: int) -> Measured:
    """Accuracy on sums with the late variable in its slot, with two variables if possible (figure late (b))."""
    return accuracy_at(e, own_set(e, late, largest_sum(e)), step)


def own_accuracy(when: int) -> Measure:
    """That accuracy before or after the spike."""
    return at_late_spike(lambda e, late, steps: own_accuracy_at(e, late, steps[when]))


def times_chance(e: Network) -> Measured | None:
    """That accuracy before the spike, divided by the accuracy of guessing among all numbers."""
    found, N = own_accuracy(BEFORE)(e), e.config.task.modulus
    return found and Measured(N * found.value, N * found.low, N * found.high, found.n, found.unit)


@at_late_spike
def accuracy_rise(e: Network, late: LateVariable, steps: Steps) -> Measured:
    """The change of that accuracy across the spike."""
    before, after = (own_accuracy_at(e, late, step) for step in steps)
    return difference(after, before)


def others_correct(e: Network, late: LateVariable, step: int) -> tuple[list[int], int]:
    """For every other variable and slot the number of correct answers, and the number of sequences of each."""
    n = min(e.n, PER_VARIABLE)
    asked = variable_exam([e.config], e.seen[None], n)
    correct = zip(asked.names, asked.count_correct(e.stack_at(step))[0].tolist(), strict=True)
    return [k for name, k in correct if name != f"{late.variable} {late.slot}"], n


@at_late_spike
def others_before(e: Network, late: LateVariable, steps: Steps) -> Measured | None:
    """The lowest accuracy of any other variable in any slot before the spike."""
    correct, n = others_correct(e, late, steps[BEFORE])
    return lowest(Measured.share(k, n, "sequences") for k in correct)


def _other_banned(e: Network, late: LateVariable) -> list[str]:
    """The other variables in the slots that are banned for them, by their columns."""
    banned = zip(SLOTS, (e.config.task.banned_first, e.config.task.banned_second), strict=True)
    named = [f"accuracy {v} {slot}" for slot, letters in banned for v in letters]
    return [name for name in named if name != f"accuracy {late.variable} {late.slot}" and name in trajectory_of(e)]


def _before_late(e: Network) -> np.ndarray:
    """Which checkpoints are from the end of the first spike to the beginning of the late variable's."""
    steps, first, ends = trajectory_of(e)["step"], phases_of(e).first_spike, late_ends(e)
    if first is None or ends is None:
        return np.zeros(len(steps), dtype=bool)
    return (steps >= first.end) & (steps <= ends[BEFORE])


@uses(lambda e: trajectory_of(e)["step"][_before_late(e)].tolist())
def others_at_every_checkpoint(e: Network) -> Measured | None:
    """The share of checkpoints at which the other variables have 90 % in banned slots.

    The ends of the interval are the shares of those at which they surely have, and at which they may have.
    """
    inside, late = _before_late(e), late_variable_of(e)
    if late is None or not inside.any() or not (names := _other_banned(e, late)):
        return None
    accuracy = np.mean([trajectory_of(e)[name][inside] for name in names], axis=0)
    found = [Measured.share(float(a) * PER_VARIABLE_ALONG * len(names), PER_VARIABLE_ALONG * len(names), "sequences")
             for a in accuracy]  # fmt: skip
    verdicts, n = [MOSTLY_RIGHT.verdict(m) for m in found], len(found)
    surely, perhaps = verdicts.count(HOLDS), n - verdicts.count(FAILS)
    value = sum(m.value >= MOSTLY_RIGHT.threshold for m in found)
    return Measured(value / n, surely / n, perhaps / n, n, "checkpoints")


def against_others(when: int | None) -> Measure:
    """The late variable's accuracy minus that of all others: before, after, or (None) in the last network."""

    @at_late_spike
    def measure(e: Network, late: LateVariable, steps: Steps) -> Measured:
        step = e.step if when is None else steps[when]
        correct, n = others_correct(e, late, step)
        return difference(own_accuracy_at(e, late, step), Measured.share(sum(correct), n * len(correct), "sequences"))

    return measure


def attended(when: int, n_vars: int) -> Measure:
    """The share of sums with the late variable in which its value is among the top two keys of `=` in layer 2."""

    @at_late_spike
    def measure(e: Network, late: LateVariable, steps: Steps) -> Measured | None:
        if n_vars > e.config.task.max_assignments:
            return None
        tokens = exam(e, own_set(e, late, n_vars)).tokens
        share = float(attn_l2_equal_to_value(e.stack_at(steps[when]), tokens, SLOTS.index(late.slot)))
        return Measured.share(round(share * e.n), e.n, "sequences")

    return measure


def own_and_others(e: Network, late: LateVariable, step: int) -> tuple[float, np.ndarray]:
    """The QK1 score of `=` for the late variable, and for each other one."""
    scores = {v: trajectory_at(e, f"qk1 = to {v}", step) for v in e.config.task.variables}
    return scores.pop(late.variable), np.array(list(scores.values()))


@at_late_spike
def above_lowest_other(e: Network, late: LateVariable, steps: Steps) -> Measured:
    """The QK1 score of `=` for the late variable minus the lowest for another one, before the spike."""
    own, others = own_and_others(e, late, steps[BEFORE])
    return Measured.exactly(own - float(others.min()), len(others), "other variables")


@at_late_spike
def score_rise(e: Network, late: LateVariable, steps: Steps) -> Measured:
    """The change of that QK1 score across the spike, minus the median change of the other variables' scores."""
    (own_before, before), (own_after, after) = (own_and_others(e, late, step) for step in steps)
    return Measured.exactly(own_after - own_before - float(np.median(after - before)), len(after), "other variables")


@at_late_spike
def path_rise(e: Network, late: LateVariable, steps: Steps) -> Measured:
    """The change across the spike of the term of the QK2 score in figure late (d), with the variable in its slot."""
    at = SLOTS.index(late.slot), e.config.task.variables.index(late.variable)
    before, after = (float(qk2_path_terms(e.stack_at(step))[0, *at]) for step in steps)
    return Measured.exactly(after - before, 1, "network")


@at_late_spike
def score_before_accuracy(e: Network, late: LateVariable, steps: Steps) -> Measured | None:
    """Steps from half of the rise of the QK1 score (minus the others' median) to half of that of the accuracy.

    Both rises are from the first spike to the end of the late variable's; a crossing lasts for 1,000 steps. The
    interval covers the distance of checkpoints and the noise of the accuracies.
    """
    along, accuracy = own_curve(e)
    along, accuracy = along[along <= steps[AFTER]], accuracy[along <= steps[AFTER]]
    scores = np.array([own - float(np.median(others)) for own, others in (own_and_others(e, late, s) for s in along)])
    if scores[-1] <= scores[0] or accuracy[-1] <= accuracy[0]:
        return None
    n = min(e.n, CURVE_SEQUENCES)
    score = onset(along, scores, None, float(scores[0] + scores[-1]) / 2)
    correct = onset(along, accuracy, n, float(accuracy[0] + accuracy[-1]) / 2)
    return in_steps(steps_between(score, correct, steps[AFTER]), len(along), "checkpoints") if score else None


def below_others_in(row: int) -> Measure:
    """The score of one part of `=` (0: its token, 1: its position) for the late variable minus the lowest other."""

    @at_late_spike
    def measure(e: Network, late: LateVariable, steps: Steps) -> Measured:
        own, others = _row(e, late, row, steps[BEFORE])
        return Measured.exactly(own - float(others.min()), len(others), "other variables")

    return measure


def rise_in(row: int) -> Measure:
    """The change across the spike of that score, minus the median change of the other variables'."""

    @at_late_spike
    def measure(e: Network, late: LateVariable, steps: Steps) -> Measured:
        (own_before, before), (own_after, after) = (_row(e, late, row, step) for step in steps)
        change = own_after - own_before - float(np.median(after - before))
        return Measured.exactly(change, len(after), "other variables")

    return measure


def _row(e: Network, late: LateVariable, row: int, step: int) -> tuple[float, np.ndarray]:
    """A row of figure late (c): its score for the late variable, and for each other one."""
    scores = qk1_equals_parts(e.stack_at(step))[0, row].detach().numpy()
    own = e.config.task.variables.index(late.variable)
    return float(scores[own]), np.delete(scores, own)


@along
def largest_rise_elsewhere(e: Network) -> Measured | None:
    """The largest rise, across the second spike, of any set without banned slots."""
    if (spike := phases_of(e).second_spike) is None:
        return None
    sets = [s for s in (*LITERAL_SETS, *BINDING_SETS) if s in curves_of(e).accuracy]
    return highest(difference(on_plateau(e, s, spike, AFTER), on_plateau(e, s, spike, BEFORE)) for s in sets)


@along
def restricted_in_line(e: Network) -> Measured | None:
    """The lowest accuracy with banned slots minus that of trained sums with as many variables, after the spike."""
    if (spike := phases_of(e).second_spike) is None:
        return None
    named = [(s, like) for s, like in COMPARED.items() if s in curves_of(e).accuracy]
    return lowest(difference(on_plateau(e, s, spike, AFTER), on_plateau(e, like, spike, AFTER)) for s, like in named)


FAILS_BEFORE = "Before its spike, sums with the variable learned last, in its slot, are"
ASKS_LESS = "Before its spike, `=` has a lower QK1 score for the variable learned last than for any other"
LOWEST_OTHER = "The value is its score minus the lowest of the others"
MINUS_OTHERS = "The value is its accuracy in its slot minus that of all other variables."

ROWS = (("token", "the token `="), ("position", "the last position"))
SECOND_SPIKE = (
    Claim("second-spike", "late", "Accuracy on sums with a variable in a banned slot rises in a second spike.",
          "steps 14,500 to 16,000", rise_between_plateaus("second_spike", REFINEMENT_SETS), AtLeast(0.05),
          "The value is the rise of the mean over these sets."),
    Claim("second-spike-targeted", "late",
          "No set without banned slots rises with the second spike by more than five points.",
          "more targeted", largest_rise_elsewhere, AtMost(0.05),
          "The value is the largest rise among these sets, from the 1,000 steps before to those after it."),
    Claim("second-spike-in-line", "late",
          "After the second spike, sums with banned slots are within five points of trained sums.",
          "in line with the rest", restricted_in_line, AtLeast(IN_LINE),
          "The value is the lowest difference of a set from trained sums with as many variables, in the 1,000 steps "
          "after it."),
    Claim("late-variable", "late", "The variable that is learned last is one in a slot where training never puts it.",
          "b as second operand", late_is_banned, AtLeast(1)),
    Claim("late-variable-alone", "late",
          "Before the spike of the variable learned last, every other variable has 90 % accuracy in either slot.",
          "due to b", others_before, MOSTLY_RIGHT, "The value is the lowest accuracy.",
          readings=(Reading("every-checkpoint", "At every checkpoint from the first spike to this one, the other "
                            "variables have 90 % in banned slots. The value is the share of checkpoints.",
                            AtLeast(1.0), others_at_every_checkpoint),)),
    Claim("late-variable-fails", "late", f"{FAILS_BEFORE} almost never correct.",
          "completely fails", own_accuracy(BEFORE), AtMost(0.1),
          "The threshold lies between guessing (1/59) and the 0.47 of the paper's network before the first spike.",
          readings=(Reading("chance", "They are correct at most twice as often as by guessing (a ratio).", AtMost(2.0),
                            times_chance),)),
    Claim("late-variable-qk1", "late", f"{ASKS_LESS}: each other one gets 10 % more attention.",
          "less strongly", above_lowest_other, AtMost(-TENTH), f"{LOWEST_OTHER}; ln 1.1 is 10 % more attention.",
          readings=(Reading("substantially", "Each other one gets twice the attention (\"substantially below\").",
                            AtMost(-TWICE)),)),
    *(
        Claim(f"late-variable-qk1-{id}", "late",
              f"Before its spike, the row of {words} in figure late (c) is lower for the variable learned last than "
              "for any other.",
              "less strongly", below_others_in(row), AtMost(-TENTH), f"{LOWEST_OTHER}.",
              readings=(Reading("rises", "With the spike it rises relative to the others.", AtLeast(TENTH),
                                rise_in(row)),))
        for row, (id, words) in enumerate(ROWS)
    ),
    *(
        Claim(f"late-variable-{id}-{n_vars}-var", "late",
              f"{words} in layer 2 to the value of the variable learned last, on sums with {VARIABLES[n_vars, 0]}.",
              paper, attended(when, n_vars), rule,
              "The value is the share of sequences with this value among the two keys with the most attention.")
        for id, words, paper, when, rule in (
            ("unattended", "Before its spike, `=` does not attend", "fails to attend", BEFORE, AtMost(0.1)),
            ("attended", "After its spike, `=` attends", "improves", AFTER, AtLeast(0.9)),
        )
        for n_vars in (1, 2)
    ),
    Claim("late-variable-qk1-rises", "late",
          "With its spike, the QK1 score of `=` for the variable learned last rises relative to the others.",
          "QK1 scores improve", score_rise, AtLeast(TENTH),
          "The value is its change minus the median change of the others; ln 1.1 is 10 % more attention.",
          readings=(Reading("first", "It rises before the accuracy on its sums: the value is the number of steps "
                            "between half of both rises since the first spike.", AtLeast(1), score_before_accuracy),)),
    Claim("late-variable-qk2-rises", "late",
          "With its spike, the QK2 score between `=` and the value of the variable learned last rises.",
          "similarly improve", path_rise, AtLeast(TENTH),
          "The value is the change of the term in figure late (d); ln 1.1 is 10 % more attention."),
    Claim("late-variable-accuracy-rises", "late",
          "With its spike, accuracy on sums with the variable learned last, in its slot, rises by at least 0.5.",
          "similarly improve", accuracy_rise, AtLeast(0.5)),
    Claim("late-variable-in-line", "late",
          "After its spike, accuracy for the variable learned last is within five points of that for the others.",
          "in line with the rest", against_others(AFTER), AtLeast(IN_LINE), MINUS_OTHERS,
          readings=(Reading("end", "In the last network it is.", AtLeast(IN_LINE), against_others(None)),)),
)  # fmt: skip
