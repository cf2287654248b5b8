"""Claims of section 6 and appendix B: what is learned when."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from assignadd.claims.evidence import Evidence
from assignadd.claims.record import AtLeast, AtMost, Claim, Measured
from assignadd.dynamics.onsets import Onset
from assignadd.dynamics.phases import ADDITION_SET, BINDING_SETS, Phases

Measure = Callable[[Evidence], Measured | None]


def delay(earlier: Callable[[Phases], Onset | None], later: Callable[[Phases], Onset | None]) -> Measure:
    """Steps from one onset to another, with the interval that evaluation noise leaves; None where one never came."""

    def measure(e: Evidence) -> Measured | None:
        first, second = earlier(e.phases), later(e.phases)
        if first is None or second is None or not e.followed:
            return None
        end = int(e.curves.steps[-1])
        low, high = second.low - (end if first.high is None else first.high), (end if second.high is None else second.high) - first.low
        return Measured(second.step - first.step, low, high, len(e.curves.steps), "evaluations")

    return measure


def at_first_spike(set_name: str) -> Measure:
    """Accuracy on a set at the last evaluation before the first spike; at the end of training where none came."""

    def measure(e: Evidence) -> Measured | None:
        if set_name not in e.curves.accuracy or not e.followed:
            return None
        spike = e.phases.first_spike
        at = np.flatnonzero(e.curves.steps <= spike.before)[-1] if spike else -1
        return Measured.share(round(float(e.curves.accuracy[set_name][at]) * e.curves.n), e.curves.n, "sequences")

    return measure


def phases_found(e: Evidence) -> Measured | None:
    if not e.followed:
        return None
    p = e.phases
    return Measured.exactly(sum(x is not None for x in (p.addition, p.binding, p.refinement)), 3, "phases looked for")


def rise(choose: Callable[[Phases], object]) -> Measure:
    def measure(e: Evidence) -> Measured | None:
        spike = choose(e.phases)
        return None if spike is None else Measured.exactly(spike.rise, len(e.curves.steps), "evaluations")  # type: ignore[attr-defined]

    return measure


def across_first_spike(column: str, which: str) -> Measure:
    """A progress measure at the checkpoint before the first spike, after it, or their difference."""

    def measure(e: Evidence) -> Measured | None:
        if e.phases.first_spike is None:
            return None
        before, after = (_at(e, column, step) for step in e.checkpoint_steps(e.phases.first_spike))
        return Measured.exactly({"before": before, "after": after, "change": after - before}[which], 1, "network")

    return measure


def _at(e: Evidence, column: str, step: int) -> float:
    return float(e.trajectory[column][np.flatnonzero(e.trajectory["step"] == step)[0]])


def late_is_banned(e: Evidence) -> Measured | None:
    late = e.late_variable
    return None if late is None else Measured.exactly(float(late.banned), 2 * e.config.task.n_vars, "variables in slots")


def others_before_late_spike(e: Evidence) -> Measured | None:
    """The lowest accuracy of any other variable in any slot just before the late one comes."""
    late = e.late_variable
    if late is None or late.spike is None:
        return None
    step = e.checkpoint_steps(late.spike)[0]
    own = f"accuracy {late.variable} {late.slot}"
    names = [n for n in e.trajectory if n.startswith("accuracy ") and n.endswith((" first", " second")) and n != own]
    return Measured.exactly(min(_at(e, n, step) for n in names), len(names), "variables in slots")


def late_score(e: Evidence) -> Measured | None:
    """How far `=` asks for the late variable above the least asked for of the others, by QK1, just before it comes."""
    late = e.late_variable
    if late is None or late.spike is None:
        return None
    step, name = e.checkpoint_steps(late.spike)[0], f"qk1 = to {late.variable}"
    others = [n for n in e.trajectory if n.startswith("qk1 = to ") and n != name]
    return Measured.exactly(_at(e, name, step) - min(_at(e, n, step) for n in others), len(others), "other variables")


DYNAMICS = (
    Claim(
        "addition-first", "section 1",
        "Addition is learned before variable assignment: steps from the onset of the one to that of the other.",
        "prior to", delay(lambda p: p.addition, lambda p: p.binding), AtLeast(1),
        comment="Onsets: 90 % on held-out literal sums; 95 % on the trained sums with variables; each for 1,000 steps.",
    ),
    Claim(
        "addition-independent", "section 1",
        "Addition is learned independently: held-out literal sums are near-perfect before binding comes.",
        "near-perfect", at_first_spike(ADDITION_SET), AtLeast(0.95), comment="At the end of training in seeds that never bind.",
    ),
    Claim(
        "addition-100", "progress_measures", "By the end of the first phase literal sums are all right: none wrong among those drawn.",
        "100 %", at_first_spike("0-var train"), AtLeast(1.0),
    ),
    Claim(
        "addition-100-rounded", "progress_measures", "The same to the whole percent that the paper gives.",
        "100 %", at_first_spike("0-var train"), AtLeast(0.995),
    ),
    Claim(
        "three-phases", "progress_measures", "Training has three phases: addition, binding, refinement.",
        "three", phases_found, AtLeast(3),
    ),
    Claim(
        "binding-before-refinement", "progress_measures", "Binding comes before refinement: steps from the one onset to the other.",
        "in this order", delay(lambda p: p.binding, lambda p: p.refinement), AtLeast(1),
        comment="Refinement: 95 % on every set with a variable in a banned slot, for 1,000 steps.",
    ),
    Claim(
        "circuit-in-first-phase", "progress_measures", "The OV-MLP circuit adds before binding comes.",
        "rises sharply in the first phase", across_first_spike("ov2_mlp2_accuracy", "before"), AtLeast(0.95),
    ),
    Claim(
        "probe-80", "progress_measures", "Before binding comes, a probe already reads the variable at assigned numbers: converged probe.",
        "reaching 80 %", across_first_spike("probe_l1_var_from_num", "before"), AtLeast(0.8),
    ),
    Claim(
        "probe-80-four-steps", "progress_measures", "The same for a probe trained for four steps, as the paper's code does.",
        "reaching 80 %", across_first_spike("probe_l1_var_from_num (four steps)", "before"), AtLeast(0.8),
    ),
    Claim(
        "first-spike", "early",
        "Binding comes in a spike: accuracy on the sets with variables, none banned, jumps from plateau to plateau.",
        "rapidly, steps 5,300 to 5,400", rise(lambda p: p.first_spike), AtLeast(0.2), comment=f"Mean over {', '.join(BINDING_SETS)}.",
    ),
    Claim(
        "first-spike-attention", "early", "Across that spike `=` begins to look at both operand slots of one-variable sums in layer 1.",
        "only constants before, cleanly after", across_first_spike("attn_l1_equal_to_operands (1-var)", "change"), AtLeast(0.3),
        comment="Change of the share of sequences with both slots on top.",
    ),
    Claim(
        "first-spike-margin", "early", "Across that spike the diagonal of (E OV1) QK2 (E OV1)^T gains on the rest.",
        "becomes strongly diagonal", across_first_spike("qk2_ov1_var_margin", "change"), AtLeast(0.0), comment="Change of the mean margin.",
    ),
    Claim(
        "first-spike-identity", "early", "Just after that spike every variable matches itself best.",
        "diagonal structure", across_first_spike("qk2_ov1_var_identity", "after"), AtLeast(1.0),
    ),
    Claim(
        "second-spike", "late", "A later spike brings the sets with banned slots up: rise of their mean accuracy.",
        "steps 14,500 to 16,000", rise(lambda p: p.second_spike), AtLeast(0.05),
    ),
    Claim(
        "late-variable", "late", "The variable that comes last is one in a slot where training never put it.",
        "b as second operand", late_is_banned, AtLeast(1),
    ),
    Claim(
        "late-variable-alone", "late", "Just before it comes, every other variable is looked up from either slot.",
        "due to b", others_before_late_spike, AtLeast(0.9), comment="Lowest accuracy of the others.",
    ),
    Claim(
        "late-variable-qk1", "late", "Just before it comes, `=` asks for it less than for any other variable in layer 1.",
        "below the others", late_score, AtMost(0.0), comment="Its QK1 score less the lowest of the others.",
    ),
)  # fmt: skip
