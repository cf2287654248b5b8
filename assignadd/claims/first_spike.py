"""Claims of section 6 on the first spike (figure early): accuracies jump when routing emerges."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from assignadd.claims.along_training import (
    Measure,
    around_first_spike,
    column,
    delay,
    difference,
    evaluated,
    evaluation,
    exam,
    lowest,
    mean_of,
    rise,
)
from assignadd.claims.evidence import Evidence
from assignadd.claims.phases import ONE_VARIABLE
from assignadd.claims.record import AtLeast, AtMost, Claim, Measured
from assignadd.dynamics.phases import BINDING_SETS, LITERAL_SETS
from assignadd.dynamics.spikes import rise_time
from assignadd.measures.routing import top_two_are
from assignadd.measures.scores import qk2_ov1_var_margin
from assignadd.model.forward import trace
from assignadd.task.roles import operand_slots, roles

# The steps in which the paper's first spike comes.
WITHIN = 100


def first_rise(e: Evidence) -> Measured | None:
    return rise(e, e.phases.first_spike, BINDING_SETS)


def duration(e: Evidence) -> Measured | None:
    """Steps from the last evaluation on the lower plateau to the first on the upper one."""
    spike = e.phases.first_spike
    return None if spike is None else delay(rise_time(e.curves.steps, e.curves.mean(BINDING_SETS), spike), e)


def spacing(e: Evidence) -> str:
    spike = e.phases.first_spike
    return f"evaluations around the spike are {spike.after - spike.before} steps apart" if spike else "no spike"


def share_within(e: Evidence) -> Measured | None:
    """How much of the rise between the plateaus falls between two evaluations that are at most 100 steps apart."""
    spike = e.phases.first_spike
    if spike is None or spike.after - spike.before > WITHIN:
        return None
    sets, n = [s for s in BINDING_SETS if s in e.curves.accuracy], e.curves.n
    means = [e.curves.mean(sets)[evaluation(e, step)] for step in (spike.before, spike.after)]
    before, after = (Measured.share(round(float(m) * n * len(sets)), n * len(sets), "sequences") for m in means)
    jump = difference(after, before)
    return Measured(jump.value / spike.rise, jump.low / spike.rise, jump.high / spike.rise, jump.n, jump.unit)


def least_rise(sets: Sequence[str]) -> Measure:
    """The smallest of the sets' rises from the evaluation before the spike to the one after it."""

    def measure(e: Evidence) -> Measured | None:
        spike = e.phases.first_spike
        if spike is None:
            return None
        before, after = evaluation(e, spike.before), evaluation(e, spike.after)
        return lowest(
            [difference(evaluated(e, s, after), evaluated(e, s, before)) for s in sets if s in e.curves.accuracy]
        )

    return measure


def from_equals(e: Evidence, step: int) -> tuple[Tensor, Tensor]:
    """Layer-1 attention of `=` on one-variable sums of the training law, and which operand is the variable: (B, T), (B, 2)."""
    tokens = exam(e, ONE_VARIABLE).tokens
    return trace(e.stack_at(step), tokens).attention_1[0, :, -1], roles(e.config.task, tokens[0]).is_variable


def on_both_slots(e: Evidence, step: int) -> Tensor:
    """Sequence by sequence, whether the two keys that `=` attends to most in layer 1 are the operand slots."""
    attention, is_variable = from_equals(e, step)
    return top_two_are(attention, torch.tensor(operand_slots(e.config.task)).expand_as(is_variable))


def attention_change(e: Evidence) -> Measured | None:
    """Change of the share of sequences with both slots on top, on the same sequences."""
    steps = around_first_spike(e)
    if steps is None:
        return None
    before, after = (on_both_slots(e, step).float() for step in steps)
    return mean_of(after - before, "sequences")


def attention_after(e: Evidence) -> Measured | None:
    """Share of sequences with both slots on top just after the spike."""
    steps = around_first_spike(e)
    return steps and Measured.share(int(on_both_slots(e, steps[1]).sum()), e.n, "sequences")


def weight_on_variable(slot: int | None = None) -> Measure:
    """Mean layer-1 attention from `=` to the operand that is a variable just before the spike; with it in one slot, or in either."""

    def measure(e: Evidence) -> Measured | None:
        steps = around_first_spike(e)
        if steps is None:
            return None
        attention, is_variable = from_equals(e, steps[0])
        weights = (attention[:, list(operand_slots(e.config.task))] * is_variable).sum(1)  # (B,)
        return mean_of(weights if slot is None else weights[is_variable[:, slot]], "sequences")

    return measure


def margins_grown(e: Evidence) -> Measured | None:
    """Share of variables whose score with themselves gains, across the spike, on their best score with another."""
    steps = around_first_spike(e)
    if steps is None:
        return None
    before, after = (qk2_ov1_var_margin(e.stack_at(step))[0] for step in steps)
    return Measured.share(int((after > before).sum()), len(after), "variables")


def matched(e: Evidence) -> Measured | None:
    """Share of variables that match themselves best just after the spike."""
    steps = around_first_spike(e)
    return steps and Measured.exactly(column(e, "qk2_ov1_var_identity", steps[1]), e.config.task.n_vars, "variables")


def before_and_after(name: str, say: Callable[[Evidence, float], str]) -> Callable[[Evidence], str]:
    def detail(e: Evidence) -> str:
        before, after = (say(e, column(e, name, step)) for step in around_first_spike(e) or ())
        return f"{before} before the spike, {after} after it"

    return detail


def margin_of_final(e: Evidence) -> Measured | None:
    """The mean margin of the diagonal just after the spike as a share of that of the last network."""
    steps = around_first_spike(e)
    if steps is None:
        return None
    after, final = (float(qk2_ov1_var_margin(stack).mean()) for stack in (e.stack_at(steps[1]), e.stack))
    return Measured.exactly(after / final, e.config.task.n_vars, "variables") if final > 0 else None


FIRST_SPIKE = (
    Claim(
        "first-spike", "early",
        "Binding comes in a spike: accuracy on the sets with variables, none banned, jumps from plateau to plateau.",
        "rapidly, steps 5,300 to 5,400", first_rise, AtLeast(0.2), comment=f"Mean over {', '.join(BINDING_SETS)}.",
    ),
    Claim(
        "first-spike-within-100-steps", "early", "That spike takes 100 steps, from plateau to plateau.",
        "between steps 5,300 and 5,400", duration, AtMost(WITHIN), detail=spacing,
        comment="From the last evaluation below 10 % of the way to the first above 90 %; the interval is what lies between evaluations.",
    ),
    Claim(
        "first-spike-half-within-100-steps", "ours", "At least half of that rise falls into 100 steps.",
        "between steps 5,300 and 5,400", share_within, AtLeast(0.5),
        comment="Between the two evaluations around the spike, where they are at most 100 steps apart.",
    ),
    Claim(
        "first-spike-every-set", "early",
        "Each set with variables, none of them in a banned slot, rises across that spike: the one that rises least.",
        "on all non-var-restricted sets", least_rise(BINDING_SETS), AtLeast(0.1),
        comment="From the evaluation before the spike to the one after it.",
    ),
    Claim(
        "first-spike-literal-sets", "early", "So does each set without variables, not var-restricted either: the one that rises least.",
        "on all non-var-restricted sets", least_rise(LITERAL_SETS), AtLeast(0.1),
        comment="A set that is nearly perfect before the spike has no room to rise.",
    ),
    Claim(
        "first-spike-attention", "early", "Across that spike `=` begins to attend to both operand slots of one-variable sums in layer 1.",
        "emergence of the routing circuit", attention_change, AtLeast(0.3),
        comment="Change of the share of sequences with both slots on top.",
    ),
    Claim(
        "first-spike-only-constants", "early",
        "Before that spike `=` attends only to the literal of one-variable sums in layer 1: mean attention to the variable.",
        "only to constant operands", weight_on_variable(), AtMost(0.1), comment="The variable in either slot, as training has it.",
    ),
    Claim(
        "first-spike-only-constants-first-slot", "early", "The same with the variable in the first slot, as in the paper's sequence.",
        "only to constant operands", weight_on_variable(0), AtMost(0.1),
    ),
    Claim(
        "first-spike-only-constants-second-slot", "ours", "The same with the variable in the second slot.",
        "only to constant operands", weight_on_variable(1), AtMost(0.1),
    ),
    Claim(
        "first-spike-attention-after", "early", "After that spike `=` attends to both operand slots of one-variable sums: in nine of ten.",
        "cleanly", attention_after, AtLeast(0.9), comment="Share of sequences with both slots on top.",
    ),
    Claim(
        "first-spike-attention-after-strict", "ours", "The same in 99 % of the sequences, as in the final network.",
        "cleanly", attention_after, AtLeast(0.99), comment="Share of sequences with both slots on top.",
    ),
    Claim(
        "first-spike-margin", "early", "Across that spike the diagonal of (E OV1) QK2 (E OV1)^T gains on the rest, for most variables.",
        "becomes strongly diagonal", margins_grown, AtLeast(0.5),
        detail=before_and_after("qk2_ov1_var_margin", lambda e, margin: f"mean margin {margin:.2f}"),
        comment="Share of variables whose margin over their best other match grows; beyond one half is a sign test over variables.",
    ),
    Claim(
        "first-spike-identity", "early", "Just after that spike at least three quarters of the variables match themselves best.",
        "develops the diagonal structure", matched, AtLeast(0.75),
        detail=before_and_after("qk2_ov1_var_identity", lambda e, share: f"{round(share * e.config.task.n_vars)} variables"),
    ),
    Claim(
        "first-spike-identity-all", "ours", "Just after that spike every variable matches itself best.",
        "develops the diagonal structure", matched, AtLeast(1.0),
    ),
    Claim(
        "first-spike-margin-half-of-final", "ours", "Just after that spike the diagonal's mean margin is at least half of its final one.",
        "strongly diagonal", margin_of_final, AtLeast(0.5), comment="As a share of the margin in the last network.",
    ),
)  # fmt: skip
