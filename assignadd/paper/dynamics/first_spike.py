"""Claims of section 6 on the first spike (figure early): accuracy jumps when routing emerges."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from assignadd.dynamics.curves import Spike, rise_time
from assignadd.dynamics.phases import BINDING_SETS
from assignadd.dynamics.trajectory import curves_of
from assignadd.ledger.claim import Claim, Reading
from assignadd.measures.routing import top_keys_are
from assignadd.measures.scores import qk2_ov1_var_margin
from assignadd.model.architecture import ONE_HEAD, SECOND_LAYER, require
from assignadd.model.forward import trace
from assignadd.network import Network, per_network
from assignadd.paper.dynamics.along import (
    AFTER,
    BEFORE,
    Steps,
    along_spike,
    around_first_spike,
    at,
    exam_of,
    recorded,
    rise_between_plateaus,
    sequences_evaluated,
    trajectory_at,
)
from assignadd.paper.dynamics.claims import ONE_VARIABLE
from assignadd.stats import AtLeast, AtMost, Measured, lowest, mean_of
from assignadd.task.positions import operand_slots, roles

WITHIN = 100  # steps: the duration of the paper's first spike


def duration(network: Network, spike: Spike) -> Measured:
    """Steps from the last evaluation on the lower plateau of the spike to the first on the upper one."""
    curves = curves_of(network)
    time = rise_time(curves.steps, curves.mean(BINDING_SETS), sequences_evaluated(network, BINDING_SETS), spike)
    return Measured(time.steps, time.low, time.high, len(curves.steps), "evaluations")


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


@per_network()
def attention_from_equals(network: Network, step: int) -> tuple[Tensor, Tensor]:
    """Layer-1 attention of `=` on trained one-variable sums, (B, T), and which operand is the variable, (B, 2)."""
    require(network.config, "the attention of = in layer 1", ONE_HEAD, SECOND_LAYER)
    tokens = exam_of(network, ONE_VARIABLE).tokens  # (1, B, T)
    attention = trace(network.stack_at(step), tokens).attention(1)  # (1, B, head, query, key)
    from_equals = attention[0, :, 0, -1]  # (B, T)
    is_variable = roles(network.config.task, tokens[0]).is_variable
    return from_equals.clone(), is_variable  # a copy, so that the attention of all other queries is not stored


def on_both_slots(network: Network, step: int) -> Tensor:
    """Whether the two keys that `=` attends to most in layer 1 are the operand slots, for each sequence, (B,)."""
    attention, is_variable = attention_from_equals(network, step)
    slots = torch.tensor(operand_slots(network.config.task)).expand_as(is_variable)  # (B, 2)
    return top_keys_are(attention, slots)


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
    attention, is_variable = attention_from_equals(network, steps[BEFORE])  # (B, T), (B, 2)
    position = operand_slots(network.config.task)[slot]
    return mean_of(attention[is_variable[:, slot], position], "sequences")


def margins_grown(network: Network, steps: Steps) -> Measured:
    """The share of variables whose margin (QK2 score with themselves minus the best other) grows with the spike."""
    before, after = qk2_ov1_var_margin(network.checkpoints(steps))  # (V,) each
    return Measured.share(int((after > before).sum()), len(after), "variables")


def margin_of_final(network: Network, steps: Steps, when: int) -> Measured | None:
    """The mean QK2 margin of all variables just before or after the spike, as a share of that at the end of training.

    `when` is BEFORE or AFTER. None where the margin at the end is not positive.
    """
    margin = float(qk2_ov1_var_margin(network.stack_at(steps[when])).mean())
    final = float(qk2_ov1_var_margin(network.stack).mean())
    return Measured.exactly(margin / final, network.config.task.n_vars, "variables") if final > 0 else None


def matched_before(network: Network, steps: Steps) -> Measured:
    """The share of variables that match themselves best under QK2 just before the spike."""
    share = trajectory_at(network, "qk2_ov1_var_identity", steps)[BEFORE]
    return Measured.exactly(share, network.config.task.n_vars, "variables")


FIRST = "first_spike"
ON_TOP = "The value is the share of sequences whose two keys with the most attention are the operand slots."
LITERAL_ONLY = "Just before the first spike, `=` attends in layer 1 only to the literal of a sum with one variable"
ON_VARIABLE = "The value is the mean attention to the variable."

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
    Claim("first-spike-only-constants", "early", f"{LITERAL_ONLY}, with the variable in the first slot.",
          "only to constant operands", at(around_first_spike, weight_on_variable, 0), AtMost(0.1),
          f"{ON_VARIABLE} The paper shows such a sequence.",
          readings=(Reading("second-slot", "With the variable in the second slot.", AtMost(0.1),
                            at(around_first_spike, weight_on_variable, 1)),)),
    Claim("first-spike-attention-after", "early",
          "Just after the first spike, `=` attends to both operand slots in 90 % of the sums with one variable.",
          "cleanly", at(around_first_spike, attention_after), AtLeast(0.9), ON_TOP,
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
