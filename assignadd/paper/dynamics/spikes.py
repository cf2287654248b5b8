"""Claims of section 6 on the two spikes: accuracy jumps when routing emerges (figure early), and later for the variable
that is learned last (figure late).

Measures get two checkpoints, BEFORE and AFTER a spike. The late variable is the one that is learned last, in a certain
slot (the paper's is b as the second operand); its spike is the rise of the accuracy on sums with it there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from assignadd.dynamics.curves import LASTING, Spike, rise_time
from assignadd.dynamics.phases import BINDING_SETS, LITERAL_SETS, REFINEMENT_SETS, LateVariable
from assignadd.dynamics.trajectory import curves_of, late_variable_of, phases_of, trajectory_of
from assignadd.ledger.claim import Claim, Reading
from assignadd.measures.accuracies import SLOTS, variable_exam, variable_sets
from assignadd.measures.routing import attn_l2_equal_to_value, top_keys_are
from assignadd.measures.scores import qk1_equals_to_variables, qk2_ov1_var_margin, qk2_path_terms
from assignadd.model.accuracy import Exam
from assignadd.model.architecture import ONE_HEAD, SECOND_LAYER, require
from assignadd.model.forward import trace
from assignadd.network import Network, per_network
from assignadd.paper.dynamics.claims import (
    AFTER,
    BEFORE,
    ONE_VARIABLE,
    Steps,
    accuracy_at,
    along,
    along_spike,
    around_first_spike,
    at,
    exam_of,
    recorded,
    rise_between_plateaus,
    sequences_evaluated,
    trajectory_at,
)
from assignadd.paper.generalisation.claims import VARIABLES
from assignadd.stats import AtLeast, AtMost, Measured, highest, lowest, mean_of
from assignadd.task.evalsets import EVAL_SETS, EvalSet
from assignadd.task.positions import operand_slots, roles

WITHIN = 100  # steps: the duration of the paper's first spike
PER_VARIABLE = 500  # sequences for each variable in each slot
CURVE_SEQUENCES = 1000  # sequences with the late variable, at every checkpoint
ON_PLATEAU = 0.05  # before a spike at most this share of the rise has come, after it all but this share
IN_LINE = -0.05  # "in line with the rest": within five points of it
TENTH, TWICE = math.log(1.1), math.log(2)  # differences of scores for 10 % and 100 % more attention


def duration(network: Network, spike: Spike) -> Measured:
    """Steps from the last evaluation on the lower plateau of the spike to the first on the upper one."""
    curves = curves_of(network)
    return rise_time(curves.steps, curves.mean(BINDING_SETS), sequences_evaluated(network, BINDING_SETS), spike)


def share_within(network: Network, spike: Spike) -> Measured | None:
    """The share of the spike's rise between the evaluations around its steepest step; None if over 100 steps apart."""
    if spike.after - spike.before > WITHIN:
        return None
    jump = rise_of_mean(network, spike, BINDING_SETS)
    return Measured(jump.value / spike.rise, jump.low / spike.rise, jump.high / spike.rise, jump.n, jump.unit)


def rise_of_mean(network: Network, spike: Spike, sets: Sequence[str]) -> Measured:
    """The rise of the mean accuracy on these sets from the evaluation before the spike to the one after it."""
    return recorded(network, sets, spike.after).minus(recorded(network, sets, spike.before))


def smallest_rise(network: Network, spike: Spike) -> Measured | None:
    """The smallest rise of any set with variables in trained slots, between the evaluations around the spike."""
    recorded_sets = [name for name in BINDING_SETS if name in curves_of(network).accuracy]
    return lowest(rise_of_mean(network, spike, [name]) for name in recorded_sets)


class FromEquals(NamedTuple):
    """Layer-1 attention of `=` in B sums with one variable, as in training."""

    attention: Tensor  # (B, T), by key
    is_variable: Tensor  # (B, 2): which operand is the variable


@per_network()
def attention_from_equals(network: Network, step: int) -> FromEquals:
    """Layer-1 attention of `=` at the checkpoint of this step, on `network.n` sums."""
    require(network.config, "the attention of = in layer 1", ONE_HEAD, SECOND_LAYER)
    tokens = exam_of(network, ONE_VARIABLE).tokens  # (1, B, T)
    attention = trace(network.stack_at(step), tokens).attention(1)  # (1, B, head, query, key)
    from_equals = attention[0, :, 0, -1]  # (B, T)
    is_variable = roles(network.config.task, tokens[0]).is_variable
    return FromEquals(from_equals.clone(), is_variable)  # a copy: the attention of other queries is not stored


def on_both_slots(network: Network, step: int) -> Tensor:
    """Whether the two keys that `=` attends to most in layer 1 are the operand slots, for each sequence, (B,)."""
    from_equals = attention_from_equals(network, step)
    slots = torch.tensor(operand_slots(network.config.task)).expand_as(from_equals.is_variable)  # (B, 2)
    return top_keys_are(from_equals.attention, slots)


def attention_change(network: Network, steps: Steps) -> Measured:
    """The change across the spike of the share of sequences in which both operand slots are the top two keys of `=`."""
    before, after = on_both_slots(network, steps[BEFORE]), on_both_slots(network, steps[AFTER])
    return mean_of(after.float() - before.float(), "sequences")


def attention_after(network: Network, steps: Steps) -> Measured:
    """The share of sequences in which both operand slots are the top two keys of `=` in layer 1, after the spike."""
    n_attending = int(on_both_slots(network, steps[AFTER]).sum())
    return Measured.share(n_attending, network.n, "sequences")


def weight_on_variable(network: Network, steps: Steps, slot: int) -> Measured:
    """The mean layer-1 attention of `=` to a variable in this slot (0 or 1), just before the spike."""
    from_equals = attention_from_equals(network, steps[BEFORE])
    is_in_slot = from_equals.is_variable[:, slot]  # (B,): whether the variable is in this slot
    position = operand_slots(network.config.task)[slot]
    return mean_of(from_equals.attention[is_in_slot, position], "sequences")


def margins_grown(network: Network, steps: Steps) -> Measured:
    """The share of variables whose margin (QK2 score with themselves minus the best other) grows with the spike."""
    before, after = qk2_ov1_var_margin(network.checkpoints(steps))  # (V,) each
    return Measured.share(int((after > before).sum()), len(after), "variables")


def margin_of_final(network: Network, steps: Steps, when: int) -> Measured | None:
    """The mean QK2 margin BEFORE or AFTER the spike as a share of that at the end; None if that is not positive."""
    margin = float(qk2_ov1_var_margin(network.stack_at(steps[when])).mean())
    final = float(qk2_ov1_var_margin(network.stack).mean())
    return Measured.exactly(margin / final, network.config.task.n_vars, "variables") if final > 0 else None


def matched_before(network: Network, steps: Steps) -> Measured:
    """The share of variables that match themselves best under QK2 just before the spike."""
    share = trajectory_at(network, "qk2_ov1_var_identity", steps)[BEFORE]
    return Measured.exactly(share, network.config.task.n_vars, "variables")


FIRST = "first_spike"
FIRST_SPIKE = (
    Claim("first-spike", "early",
          "Accuracy on sums with variables in trained slots jumps from one plateau to another (the first spike).",
          "rapidly, steps 5,300 to 5,400", along_spike(FIRST, rise_between_plateaus, BINDING_SETS),
          AtLeast(0.2),
          f"The value is the rise of the mean over {', '.join(BINDING_SETS)}."),
    Claim("first-spike-within-100-steps", "early",
          "Most of the rise of the first spike falls within 100 steps.",
          "between steps 5,300 and 5,400", along_spike(FIRST, share_within), AtLeast(0.5),
          "Measured between the two evaluations around its steepest step, if they are at most 100 steps apart.",
          readings=(Reading("whole", "The whole rise, from 10 % to 90 % of it, takes at most 100 steps. The value is "
                            "its duration; the rise lasts longer than the distance of the evaluations inside it.",
                            AtMost(WITHIN), along_spike(FIRST, duration)),)),
    Claim("first-spike-every-set", "early",
          "Each set with variables in trained slots rises with the first spike by at least 0.1 (the smallest rise).",
          "on all non-var-restricted sets", along_spike(FIRST, smallest_rise), AtLeast(0.1),
          "From the evaluation before the spike to the one after it."),
    Claim("first-spike-attention", "early",
          "With the first spike, `=` begins to attend in layer 1 to both operand slots of sums with one variable.",
          "emergence of the routing circuit", at(around_first_spike, attention_change), AtLeast(0.3),
          "The value is the change of the share of sequences whose two keys with the most attention are these slots."),
    Claim("first-spike-only-constants", "early",
          "Just before the first spike, `=` attends in layer 1 only to the literal of a sum with one variable, with "
          "the variable in the first slot.",
          "only to constant operands", at(around_first_spike, weight_on_variable, 0), AtMost(0.1),
          "The value is the mean attention to the variable. The paper shows such a sequence.",
          readings=(Reading("second-slot", "With the variable in the second slot.", AtMost(0.1),
                            at(around_first_spike, weight_on_variable, 1)),)),
    Claim("first-spike-attention-after", "early",
          "Just after the first spike, `=` attends to both operand slots in 90 % of the sums with one variable.",
          "cleanly", at(around_first_spike, attention_after), AtLeast(0.9),
          "The value is the share of sequences whose two keys with the most attention are the operand slots.",
          readings=(Reading("strict", "In 99 % of them.", AtLeast(0.99)),)),
    Claim("first-spike-weakly-diagonal", "early",
          "Just before the first spike, QK2 is only weakly diagonal: the mean margin of its diagonal is at most a "
          "quarter of that in the last network.",
          "only weakly diagonal", at(around_first_spike, margin_of_final, BEFORE), AtMost(0.25),
          readings=(Reading("identity", "At most half of the variables match themselves best.", AtMost(0.5),
                            at(around_first_spike, matched_before)),)),
    Claim("first-spike-margin", "early",
          "With the first spike, the diagonal of (E OV1) QK2 (E OV1)^T grows relative to the rest for most variables.",
          "becomes strongly diagonal", at(around_first_spike, margins_grown), AtLeast(0.5),
          "The value is the share of variables whose margin over the best other match grows (a sign test).",
          readings=(Reading("half-of-final", "The mean margin is at least half of that in the last network.",
                            AtLeast(0.5), at(around_first_spike, margin_of_final, AFTER)),)),
)  # fmt: skip


def accuracy_around(network: Network, set_name: str, spike: Spike, when: int) -> Measured:
    """Accuracy on one set, pooled over the evaluations of the 1,000 steps BEFORE or AFTER a spike."""
    curves = curves_of(network)
    first_step = spike.begin - LASTING + 1 if when == BEFORE else spike.end
    is_near = (curves.steps >= first_step) & (curves.steps < first_step + LASTING)
    accuracies = curves.accuracy[set_name][is_near]
    return Measured.share(float(accuracies.sum()) * curves.n, curves.n * len(accuracies), "sequences")


def largest_rise_elsewhere(network: Network, spike: Spike) -> Measured | None:
    """The largest rise, across a spike, of the accuracy on any set without banned slots."""
    rises = []
    for name in (*LITERAL_SETS, *BINDING_SETS):
        if name in curves_of(network).accuracy:
            before = accuracy_around(network, name, spike, BEFORE)
            after = accuracy_around(network, name, spike, AFTER)
            rises.append(after.minus(before))
    return highest(rises)


def banned_minus_trained(network: Network, spike: Spike) -> Measured | None:
    """The lowest accuracy after the spike on a set with banned slots, minus trained sums with as many variables."""
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
    """The evaluation set of sums with the late variable in its slot, of two variables if the task has such sums."""
    late = late_of(network)
    sets_by_name = {evalset.name: evalset for evalset in variable_sets(network.config.task)}
    return sets_by_name[f"{late.variable} {late.slot}"]


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

    Before the spike at most a twentieth of the rise in accuracy has come, after it all but a twentieth. Without such a
    checkpoint it is the first, or the last, from the first spike on.
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
    """Accuracy on sums with the late variable in its slot, before its spike."""
    return accuracy_at(network, sums_with_late(network), steps[BEFORE])


def lowest_of_others(network: Network, steps: Steps) -> Measured | None:
    """The lowest accuracy over all variables and slots, but for the late one in its slot, before its spike."""
    exam = variable_exam([network.config], network.seen[None], min(network.n, PER_VARIABLE))
    counts = exam.count_correct(network.stack_at(steps[BEFORE]))[0].tolist()
    late_sums = sums_with_late(network).name
    other_counts = [count for name, count in zip(exam.names, counts, strict=True) if name != late_sums]
    return lowest(Measured.share(count, exam.n, "sequences") for count in other_counts)


def attended_before(network: Network, steps: Steps, n_vars: int) -> Measured | None:
    """Before its spike, the share of sums with the late variable's value among the top two keys of `=` in layer 2."""
    if n_vars > network.config.task.max_assignments:
        return None
    tokens = exam_of(network, replace(sums_with_late(network), n_vars=n_vars)).tokens
    slot = SLOTS.index(late_of(network).slot)
    share = float(attn_l2_equal_to_value(network.stack_at(steps[BEFORE]), tokens, slot))
    return Measured.share(round(share * network.n), network.n, "sequences")


def qk1_scores(network: Network, step: int) -> tuple[float, np.ndarray]:
    """The QK1 score of `=` for the late variable, and those for the other variables, (V - 1,), at one checkpoint."""
    scores = qk1_equals_to_variables(network.stack_at(step))[0].detach().numpy()  # (V,)
    v = network.config.task.variables.index(late_of(network).variable)
    return float(scores[v]), np.delete(scores, v)


def above_lowest_other(network: Network, steps: Steps) -> Measured:
    """The QK1 score of `=` for the late variable minus the lowest of the other variables', before its spike."""
    score, other_scores = qk1_scores(network, steps[BEFORE])
    return Measured.exactly(score - float(other_scores.min()), len(other_scores), "other variables")


def rise_above_others(network: Network, steps: Steps) -> Measured:
    """The change, across the spike, of the QK1 score of `=` for the late variable minus the others' median change."""
    score_before, others_before = qk1_scores(network, steps[BEFORE])
    score_after, others_after = qk1_scores(network, steps[AFTER])
    change = score_after - score_before - float(np.median(others_after - others_before))
    return Measured.exactly(change, len(others_after), "other variables")


def path_rise(network: Network, steps: Steps) -> Measured:
    """The change, across the spike, of the late variable's term of a QK2 score (`qk2_path_terms`)."""
    late = late_of(network)
    v = network.config.task.variables.index(late.variable)
    terms = qk2_path_terms(network.checkpoints(steps))  # (2, 2, V): before and after; slot; variable
    before, after = terms[:, SLOTS.index(late.slot), v].tolist()
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
