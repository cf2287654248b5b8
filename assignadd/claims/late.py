"""Claims of section 6 on the second spike (figure late): the variable that is learned last, and why it fails until then.

"Before" and "after" are checkpoints around the variable's spike, 1,500 steps apart where there are such, as in the paper's figure (c).
"""

from __future__ import annotations

import math

import numpy as np

from assignadd.claims.along_training import (
    Measure,
    accuracy_at,
    column,
    difference,
    evaluated,
    evaluation,
    exam,
    lowest,
    rise,
)
from assignadd.claims.evidence import Evidence
from assignadd.claims.record import AtLeast, AtMost, Claim, Measured
from assignadd.dynamics.late_variable import LateVariable, surrounding
from assignadd.dynamics.phases import BINDING_SETS, LITERAL_SETS, REFINEMENT_SETS
from assignadd.measures.variables import SLOTS, attn_l2_equal_to_value, qk2_path_terms, variable_exam
from assignadd.task.evalsets import EVAL_SETS, EvalSet
from assignadd.task.operands import LITERAL, count_banned

# For each variable in each slot, where all of them are asked.
PER_VARIABLE = 500
# In line with the rest: within five points of it.
IN_LINE = -0.05
# Attention scores differ by this much where one weight is a tenth larger, and where it is twice the other.
TENTH, TWICE = math.log(1.1), math.log(2)
BEFORE, AFTER = 0, 1
COMPARED = {s.name: f"{s.n_vars}-var train" for s in EVAL_SETS if s.n_banned}


def around(e: Evidence) -> tuple[LateVariable, tuple[int, int]] | None:
    """The late variable with the checkpoints before and after its spike; None where there is none, or it never jumps."""
    first, late = e.phases.first_spike, e.late_variable
    if first is None or late is None or late.spike is None:
        return None
    steps = e.trajectory["step"]
    before, after = surrounding(steps[steps >= first.after], late.spike)
    return late, (int(before), int(after))


def late_is_banned(e: Evidence) -> Measured | None:
    late = e.late_variable
    return (
        None if late is None else Measured.exactly(float(late.banned), 2 * e.config.task.n_vars, "variables in slots")
    )


def own_set(e: Evidence, late: LateVariable, n_vars: int) -> EvalSet:
    """Sums with the late variable in its slot and nothing banned beside it."""
    v, first = e.config.task.variables.index(late.variable), late.slot == SLOTS[0]
    operands = (v, LITERAL) if first else (LITERAL, v)
    n_banned = count_banned(e.config.task, *operands)
    return EvalSet(
        f"{late.variable} {late.slot}",
        n_vars,
        n_banned=n_banned,
        first=v if first else None,
        second=None if first else v,
    )


def own_accuracy_at(e: Evidence, late: LateVariable, step: int) -> Measured:
    """Accuracy on sums with the late variable in its slot: of two variables, where the task has them, as in figure late (b)."""
    return accuracy_at(e, own_set(e, late, min(2, e.config.task.max_assignments)), step)


def own_accuracy(when: int) -> Measure:
    """That accuracy before or after the spike."""

    def measure(e: Evidence) -> Measured | None:
        found = around(e)
        return found and own_accuracy_at(e, found[0], found[1][when])

    return measure


def times_chance(e: Evidence) -> Measured | None:
    """That accuracy before the spike, in units of guessing among all numbers."""
    found, N = own_accuracy(BEFORE)(e), e.config.task.modulus
    return found and Measured(N * found.value, N * found.low, N * found.high, found.n, found.unit)


def accuracy_rise(e: Evidence) -> Measured | None:
    before, after = own_accuracy(BEFORE)(e), own_accuracy(AFTER)(e)
    return difference(after, before) if before and after else None


def all_accuracies(e: Evidence, step: int) -> dict[str, tuple[int, int]]:
    """For every variable and slot ("b second") the number of right answers, and of how many."""
    n = min(e.n, PER_VARIABLE)
    asked = variable_exam([e.config], e.seen[None], n)
    return {
        name: (k, n) for name, k in zip(asked.names, asked.count_correct(e.stack_at(step))[0].tolist(), strict=True)
    }


def others_before(e: Evidence) -> Measured | None:
    """The lowest accuracy of any other variable in any slot before the spike."""
    found = around(e)
    if found is None:
        return None
    late, (before, _) = found
    counts = all_accuracies(e, before)
    return lowest(
        [Measured.share(k, n, "sequences") for name, (k, n) in counts.items() if name != f"{late.variable} {late.slot}"]
    )


def against_others(when: int | None) -> Measure:
    """The late variable's accuracy in its slot less that of all others in all slots: before, after, or (None) in the last network."""

    def measure(e: Evidence) -> Measured | None:
        found = around(e)
        if found is None:
            return None
        late, steps = found
        step = e.step if when is None else steps[when]
        own, counts = own_accuracy_at(e, late, step), all_accuracies(e, step)
        del counts[f"{late.variable} {late.slot}"]
        right, asked = sum(k for k, _ in counts.values()), sum(n for _, n in counts.values())
        return difference(own, Measured.share(right, asked, "sequences"))

    return measure


def attended(when: int, n_vars: int) -> Measure:
    """Share of sums with the late variable in its slot in which its value is among the top two keys of `=` in layer 2."""

    def measure(e: Evidence) -> Measured | None:
        found = around(e)
        if found is None or n_vars > e.config.task.max_assignments:
            return None
        late, steps = found
        tokens = exam(e, own_set(e, late, n_vars)).tokens
        share = float(attn_l2_equal_to_value(e.stack_at(steps[when]), tokens, SLOTS.index(late.slot)))
        return Measured.share(round(share * e.n), e.n, "sequences")

    return measure


def own_and_others(e: Evidence, late: LateVariable, step: int) -> tuple[float, np.ndarray]:
    """The QK1 score of `=` for the late variable, and for each other one."""
    scores = {v: column(e, f"qk1 = to {v}", step) for v in e.config.task.variables}
    return scores.pop(late.variable), np.array(list(scores.values()))


def below_others(e: Evidence) -> Measured | None:
    """How far `=` asks for the late variable above the least asked for of the others before the spike, by QK1."""
    found = around(e)
    if found is None:
        return None
    own, others = own_and_others(e, found[0], found[1][BEFORE])
    return Measured.exactly(own - float(others.min()), len(others), "other variables")


def score_rise(e: Evidence) -> Measured | None:
    """Change of that QK1 score across the spike, less the median change of the other variables' scores."""
    found = around(e)
    if found is None:
        return None
    late, steps = found
    (own_before, before), (own_after, after) = (own_and_others(e, late, step) for step in steps)
    return Measured.exactly(own_after - own_before - float(np.median(after - before)), len(after), "other variables")


def path_rise(e: Evidence) -> Measured | None:
    """Change across the spike of the term of the QK2 score in figure late (d), with the variable in its slot."""
    found = around(e)
    if found is None:
        return None
    late, steps = found
    at = SLOTS.index(late.slot), e.config.task.variables.index(late.variable)
    before, after = (float(qk2_path_terms(e.stack_at(step))[0, *at]) for step in steps)
    return Measured.exactly(after - before, 1, "network")


def score_before_accuracy(e: Evidence) -> Measured | None:
    """Steps from half of the rise of the QK1 score (less the others' median) to half of that of the accuracy, between checkpoints."""
    found = around(e)
    if found is None:
        return None
    late, (before, after) = found
    steps = e.trajectory["step"]
    inside = steps[(steps >= before) & (steps <= after)].tolist()
    scores = [own - float(np.median(others)) for own, others in (own_and_others(e, late, step) for step in inside)]
    accuracy = [column(e, f"accuracy {late.variable} {late.slot}", step) for step in inside]
    score, right = _half_way(scores), _half_way(accuracy)
    if score is None or right is None:
        return None
    low, high = inside[right - 1] - inside[score], inside[right] - inside[score - 1]
    return Measured(inside[right] - inside[score], low, high, len(inside), "checkpoints")


def _half_way(values: list[float]) -> int | None:
    """The first index at which half of the way from the first to the last value is behind; None where they do not rise."""
    half = (values[0] + values[-1]) / 2
    return next(i for i, value in enumerate(values) if value >= half) if values[-1] > values[0] else None


def second_rise(e: Evidence) -> Measured | None:
    return rise(e, e.phases.second_spike, REFINEMENT_SETS)


def largest_rise_elsewhere(e: Evidence) -> Measured | None:
    """The largest rise, across the second spike, of any set without banned slots."""
    spike = e.phases.second_spike
    if spike is None:
        return None
    before, after = (evaluation(e, int(step)) for step in surrounding(e.curves.steps, spike))
    named = [s for s in (*LITERAL_SETS, *BINDING_SETS) if s in e.curves.accuracy]
    return max((difference(evaluated(e, s, after), evaluated(e, s, before)) for s in named), key=lambda m: m.value)


def restricted_in_line(e: Evidence) -> Measured | None:
    """The lowest var-restricted set against the trained sums with as many variables, after the second spike."""
    spike = e.phases.second_spike
    if spike is None:
        return None
    at = evaluation(e, int(surrounding(e.curves.steps, spike)[AFTER]))
    named = [(s, like) for s, like in COMPARED.items() if s in e.curves.accuracy]
    return lowest([difference(evaluated(e, s, at), evaluated(e, like, at)) for s, like in named])


LATE = (
    Claim(
        "second-spike", "late", "A later spike brings the sets with banned slots up: rise of their mean accuracy.",
        "steps 14,500 to 16,000", second_rise, AtLeast(0.05),
    ),
    Claim(
        "second-spike-targeted", "late", "That spike is targeted: no set without banned slots rises with it by five points.",
        "more targeted", largest_rise_elsewhere, AtMost(0.05), comment="The largest rise among those sets.",
    ),
    Claim(
        "second-spike-in-line", "late",
        "After that spike the var-restricted sets are within five points of the trained sums with as many variables.",
        "in line with the rest", restricted_in_line, AtLeast(IN_LINE), comment="The largest shortfall of the three sets.",
    ),
    Claim(
        "late-variable", "late", "The variable that comes last is one in a slot where training never put it.",
        "b as second operand", late_is_banned, AtLeast(1),
    ),
    Claim(
        "late-variable-alone", "late", "Before it comes, every other variable is looked up from either slot: the lowest accuracy.",
        "due to b", others_before, AtLeast(0.9),
    ),
    Claim(
        "late-variable-fails", "late", "Before it comes, sums with it in its slot are almost never right.",
        "completely fails", own_accuracy(BEFORE), AtMost(0.1),
        comment="A tenth is above guessing (1/59 in the paper's task) and below the .47 that its network has before the first spike.",
    ),
    Claim(
        "late-variable-fails-chance", "ours", "Before it comes, sums with it in its slot are right at most twice as often as by guessing.",
        "completely fails", times_chance, AtMost(2.0), comment="In units of guessing.",
    ),
    Claim(
        "late-variable-qk1", "late", "Before it comes, `=` asks for it less than for any other variable in layer 1, by a tenth.",
        "less strongly", below_others, AtMost(-TENTH),
        comment="Its QK1 score less the lowest of the others; .095 gives each of them a tenth more attention.",
    ),
    Claim(
        "late-variable-qk1-half", "late", "The same by half.",
        "substantially below the others", below_others, AtMost(-TWICE),
        comment="Its QK1 score less the lowest of the others; .69 gives each of them twice the attention.",
    ),
    *(
        Claim(
            f"late-variable-unattended-{n_vars}-var", "late",
            f"Before it comes, `=` does not attend to its value in layer 2: sums of {words}.", "fails to attend", attended(BEFORE, n_vars),
            AtMost(0.1), comment="Share of sequences with its value among the two keys with the most attention.",
        )
        for n_vars, words in ((1, "one variable"), (2, "two variables"))
    ),
    *(
        Claim(
            f"late-variable-attended-{n_vars}-var", "late",
            f"After it came, `=` attends to its value in layer 2: sums of {words}.", "improves", attended(AFTER, n_vars),
            AtLeast(0.9), comment="Share of sequences with its value among the two keys with the most attention.",
        )
        for n_vars, words in ((1, "one variable"), (2, "two variables"))
    ),
    Claim(
        "late-variable-qk1-rises", "late", "Across its spike the QK1 score of `=` for it rises against the other variables'.",
        "QK1 scores improve", score_rise, AtLeast(TENTH), comment="Change less the others' median change; a tenth more attention is .095.",
    ),
    Claim(
        "late-variable-qk2-rises", "late", "With it the term of the QK2 score between `=` and its value rises.",
        "similarly improve", path_rise, AtLeast(TENTH), comment="Change of the term in figure late (d); a tenth more attention is .095.",
    ),
    Claim(
        "late-variable-accuracy-rises", "late", "With them the accuracy on sums with it in its slot rises.",
        "similarly improve", accuracy_rise, AtLeast(0.5),
    ),
    Claim(
        "late-variable-qk1-first", "ours", "The QK1 score rises before the accuracy: steps from half of the one rise to half of the other.",
        "together", score_before_accuracy, AtLeast(1), comment="The interval is what lies between checkpoints.",
    ),
    Claim(
        "late-variable-in-line-after", "late", "After its spike it is looked up as well as the others, within five points.",
        "in line with the rest", against_others(AFTER), AtLeast(IN_LINE), comment="Its accuracy in its slot less that of all others.",
    ),
    Claim(
        "late-variable-in-line", "late", "In the last network it is looked up as well as the others, within five points.",
        "in line with the rest", against_others(None), AtLeast(IN_LINE), comment="Its accuracy in its slot less that of all others.",
    ),
)  # fmt: skip
