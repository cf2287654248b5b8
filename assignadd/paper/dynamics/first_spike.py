"""Claims of section 6 on the first spike (figure early): accuracy jumps when routing emerges."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from assignadd.dynamics.curves import rise_time
from assignadd.dynamics.of_network import curves_of, phases_of
from assignadd.dynamics.phases import BINDING_SETS, LITERAL_SETS
from assignadd.ledger.claim import Claim, Measure, Reading
from assignadd.measures.routing import top_keys_are
from assignadd.measures.scores import qk2_ov1_var_margin
from assignadd.model.architecture import ONE_HEAD, SECOND_LAYER, require
from assignadd.model.forward import trace
from assignadd.network import Network, per_network
from assignadd.paper.dynamics.along_training import (
    AFTER,
    BEFORE,
    Steps,
    along,
    around_first_spike,
    at_first_spike,
    evaluation,
    exam,
    in_steps,
    recorded_rise,
    rise_between_plateaus,
    trajectory_at,
)
from assignadd.paper.dynamics.claims import ONE_VARIABLE
from assignadd.stats.measured import Measured, difference, lowest, mean_of
from assignadd.stats.verdicts import AtLeast, AtMost
from assignadd.task.positions import operand_slots, roles

# The duration of the paper's first spike, in steps.
WITHIN = 100


@along
def duration(e: Network) -> Measured | None:
    """Steps from the last evaluation on the lower plateau to the first on the upper one."""
    spike, curves = phases_of(e).first_spike, curves_of(e)
    if spike is None:
        return None
    n = curves.n * sum(s in curves.accuracy for s in BINDING_SETS)
    return in_steps(rise_time(curves.steps, curves.mean(BINDING_SETS), n, spike), len(curves.steps), "evaluations")


def spacing(e: Network) -> str:
    """The distance of the evaluations around the spike, in words."""
    spike = phases_of(e).first_spike
    return f"evaluations around the spike are {spike.after - spike.before} steps apart" if spike else "no spike"


@along
def share_within(e: Network) -> Measured | None:
    """The share of the rise that falls between two evaluations at most 100 steps apart."""
    spike = phases_of(e).first_spike
    if spike is None or spike.after - spike.before > WITHIN:
        return None
    n = curves_of(e).n * sum(s in curves_of(e).accuracy for s in BINDING_SETS)
    means = [curves_of(e).mean(BINDING_SETS)[evaluation(e, step)] for step in (spike.before, spike.after)]
    before, after = (Measured.share(round(float(m) * n), n, "sequences") for m in means)
    jump = difference(after, before)
    return Measured(jump.value / spike.rise, jump.low / spike.rise, jump.high / spike.rise, jump.n, jump.unit)


def least_rise(sets: Sequence[str]) -> Measure:
    """The smallest rise of these sets from the evaluation before the spike to the one after it."""

    @along
    def measure(e: Network) -> Measured | None:
        spike = phases_of(e).first_spike
        if spike is None:
            return None
        return lowest(recorded_rise(e, s, (spike.before, spike.after)) for s in sets if s in curves_of(e).accuracy)

    return measure


@per_network()
def from_equals(e: Network, step: int) -> tuple[Tensor, Tensor]:
    """Layer-1 attention of `=` on trained one-variable sums, (B, T), and which operand is the variable, (B, 2)."""
    require(e.config, "the attention of = in layer 1", ONE_HEAD, SECOND_LAYER)
    tokens = exam(e, ONE_VARIABLE).tokens
    attention = trace(e.stack_at(step), tokens).attention(1)[0, :, 0, -1]
    return attention.clone(), roles(e.config.task, tokens[0]).is_variable  # not a part of all queries' attention


def on_both_slots(e: Network, step: int) -> Tensor:
    """Whether the two keys that `=` attends to most in layer 1 are the operand slots, for each sequence, (B,)."""
    attention, is_variable = from_equals(e, step)
    return top_keys_are(attention, torch.tensor(operand_slots(e.config.task)).expand_as(is_variable))


@at_first_spike
def attention_change(e: Network, steps: Steps) -> Measured:
    """The change, on the same sequences, of the share of sequences whose top two keys are the operand slots."""
    before, after = (on_both_slots(e, step).float() for step in steps)
    return mean_of(after - before, "sequences")


@at_first_spike
def attention_after(e: Network, steps: Steps) -> Measured:
    """The share of sequences whose top two keys are the operand slots, just after the spike."""
    return Measured.share(int(on_both_slots(e, steps[AFTER]).sum()), e.n, "sequences")


def weight_on_variable(slot: int | None = None) -> Measure:
    """The mean layer-1 attention of `=` to the variable, in this slot or in either, just before the spike."""

    @at_first_spike
    def measure(e: Network, steps: Steps) -> Measured:
        attention, is_variable = from_equals(e, steps[BEFORE])
        weights = (attention[:, list(operand_slots(e.config.task))] * is_variable).sum(1)  # (B,)
        return mean_of(weights if slot is None else weights[is_variable[:, slot]], "sequences")

    return measure


@at_first_spike
def margins_grown(e: Network, steps: Steps) -> Measured:
    """The share of variables whose margin (the score with themselves over the best other) grows with the spike."""
    before, after = (qk2_ov1_var_margin(e.stack_at(step))[0] for step in steps)
    return Measured.share(int((after > before).sum()), len(after), "variables")


def matched(when: int) -> Measure:
    """The share of variables that match themselves best just before or just after the spike."""

    @at_first_spike
    def measure(e: Network, steps: Steps) -> Measured:
        share = trajectory_at(e, "qk2_ov1_var_identity", steps[when])
        return Measured.exactly(share, e.config.task.n_vars, "variables")

    return measure


@at_first_spike
def more_matched(e: Network, steps: Steps) -> Measured:
    """The change, with the spike, of the share of variables that match themselves best."""
    before, after = (trajectory_at(e, "qk2_ov1_var_identity", step) for step in steps)
    return Measured.exactly(after - before, e.config.task.n_vars, "variables")


def margin_of_final(when: int) -> Measure:
    """The mean margin of the diagonal just before or after the spike, divided by that of the last network."""

    @at_first_spike
    def measure(e: Network, steps: Steps) -> Measured | None:
        then, final = (float(qk2_ov1_var_margin(stack).mean()) for stack in (e.stack_at(steps[when]), e.stack))
        return Measured.exactly(then / final, e.config.task.n_vars, "variables") if final > 0 else None

    return measure


def before_and_after(name: str, say: Callable[[Network, float], str]) -> Callable[[Network], str]:
    """A column of the trajectory before and after the spike, in words."""

    def detail(e: Network) -> str:
        before, after = (say(e, trajectory_at(e, name, step)) for step in around_first_spike(e) or ())
        return f"{before} before the spike, {after} after it"

    return detail


ON_TOP = "The value is the share of sequences whose two keys with the most attention are the operand slots."
LITERAL_ONLY = "Just before the first spike, `=` attends in layer 1 only to the literal of a sum with one variable"
ON_VARIABLE = "The value is the mean attention to the variable."
MATCH_MEAN = before_and_after("qk2_ov1_var_margin", lambda e, margin: f"mean margin {margin:.2f}")
MATCH_COUNT = before_and_after(
    "qk2_ov1_var_identity", lambda e, share: f"{round(share * e.config.task.n_vars)} variables"
)

FIRST_SPIKE = (
    Claim("first-spike", "early",
          "Accuracy on sums with variables in trained slots jumps from one plateau to another (the first spike).",
          "rapidly, steps 5,300 to 5,400", rise_between_plateaus("first_spike", BINDING_SETS), AtLeast(0.2),
          f"The value is the rise of the mean over {', '.join(BINDING_SETS)}."),
    Claim("first-spike-within-100-steps", "early",
          "Most of the rise of the first spike falls within 100 steps.",
          "between steps 5,300 and 5,400", share_within, AtLeast(0.5),
          "Measured between the two evaluations around its steepest step, if they are at most 100 steps apart.",
          detail=spacing,
          readings=(Reading("whole", "The whole rise, from 10 % to 90 % of it, takes at most 100 steps. The value is "
                            "its duration; the rise lasts longer than the distance of the evaluations inside it.",
                            AtMost(WITHIN), duration),)),
    Claim("first-spike-every-set", "early",
          "Each set with variables in trained slots rises with the first spike by at least 0.1 (the smallest rise).",
          "on all non-var-restricted sets", least_rise(BINDING_SETS), AtLeast(0.1),
          "From the evaluation before the spike to the one after it.",
          readings=(Reading("literals", "So does each set without variables; nearly perfect ones cannot.", AtLeast(0.1),
                            least_rise(LITERAL_SETS)),)),
    Claim("first-spike-attention", "early",
          "With the first spike, `=` begins to attend in layer 1 to both operand slots of sums with one variable.",
          "emergence of the routing circuit", attention_change, AtLeast(0.3),
          "The value is the change of the share of sequences whose two keys with the most attention are these slots."),
    Claim("first-spike-only-constants", "early", f"{LITERAL_ONLY}, with the variable in the first slot.",
          "only to constant operands", weight_on_variable(0), AtMost(0.1),
          f"{ON_VARIABLE} The paper shows such a sequence.",
          readings=(
              Reading("second-slot", "With the variable in the second slot.", AtMost(0.1), weight_on_variable(1)),
              Reading("either-slot", "With the variable in either slot.", AtMost(0.1), weight_on_variable()),
          )),
    Claim("first-spike-attention-after", "early",
          "Just after the first spike, `=` attends to both operand slots in 90 % of the sums with one variable.",
          "cleanly", attention_after, AtLeast(0.9), ON_TOP,
          readings=(Reading("strict", "In 99 % of them.", AtLeast(0.99)),)),
    Claim("first-spike-weakly-diagonal", "early",
          "Just before the first spike, QK2 is only weakly diagonal: the mean margin of its diagonal is at most a "
          "quarter of that in the last network.",
          "only weakly diagonal", margin_of_final(BEFORE), AtMost(0.25), detail=MATCH_MEAN,
          readings=(Reading("identity", "At most half of the variables match themselves best.", AtMost(0.5),
                            matched(BEFORE)),)),
    Claim("first-spike-margin", "early",
          "With the first spike, the diagonal of (E OV1) QK2 (E OV1)^T grows relative to the rest for most variables.",
          "becomes strongly diagonal", margins_grown, AtLeast(0.5),
          "The value is the share of variables whose margin over the best other match grows (a sign test).",
          detail=MATCH_MEAN,
          readings=(Reading("half-of-final", "The mean margin is at least half of that in the last network.",
                            AtLeast(0.5), margin_of_final(AFTER)),)),
    Claim("first-spike-identity", "early",
          "With the first spike, at least a quarter of the variables come to match themselves best under QK2.",
          "develops the diagonal structure", more_matched, AtLeast(0.25),
          "The value is the share just after the spike minus that just before it.", detail=MATCH_COUNT,
          readings=(
              Reading("after", "Just after it, at least three quarters of the variables do.", AtLeast(0.75),
                      matched(AFTER)),
              Reading("all", "Just after it, every variable does.", AtLeast(1.0), matched(AFTER)),
          )),
)  # fmt: skip
