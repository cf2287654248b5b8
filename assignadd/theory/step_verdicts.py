"""Verdicts on what the step is said to lead to: attention to the right assignment, and composition."""

from __future__ import annotations

import math
from collections.abc import Iterable

from assignadd.theory.descent import after_step, operand_lead
from assignadd.theory.setting import Setting
from assignadd.theory.study import Study
from assignadd.theory.verdict import Verdict, judged

LEARNED = 0.95  # accuracy from which a skill counts as there, as for the networks


def verdicts(study: Study) -> list[Verdict]:
    return [_attends(study), _composes(study), *_shorter(study), _spurious(study), _further(study)]


def _attends(study: Study) -> Verdict:
    s, last = study.step.s, study.step.stated[-1]
    ratio = min(c.target / c.distractor for c in study.step.stated)
    return Verdict(
        "theory.attends_target",
        "After the step the right assignment gets more attention than any other",
        "sufficient to ensure attention to the correct variables in the context, even when tau has more than one variable",
        ratio,
        judged(ratio > 1),
        f"attention to the operand's assignment over that to each other one, at N = {s.N}, T = {s.T}, V = {s.V}; it tends to e. Among "
        f"{last.K} assignments the right one has {last.target:.2f} and the others {last.distractor * (last.K - 1):.2f} together",
    )


def _composes(study: Study) -> Verdict:
    step, s = study.step, study.step.s
    before, one = step.before[0], step.stated[0]
    windows = ", ".join(f"V = {V}: {low:,} to {high:,}" for V, (low, high) in study.composing.items())
    far = operand_lead(after_step(Setting(s.N, 1 << 60, s.V, s.alpha)))
    return Verdict(
        "theory.step_composes",
        "The theorem's step makes the model add a variable and a number",
        "One gradient step leads to composition",
        one.accuracy,
        judged(one.accuracy >= LEARNED),
        f"accuracy with one assignment at N = {s.N}, T = {s.T}, V = {s.V} (chance {1 / s.N:.3f}); "
        f"{_listed(c.accuracy for c in step.stated)} for "
        f"1 to {step.stated[-1].K}. Attention to the second operand goes from {before.second:.2f} to {one.second:.1e}, and where it is "
        f"less than half of that to the assignment the model answers 2n; (L - log N)/alpha goes from {before.excess:+.3f} to "
        f"{one.excess:+.3f}; a larger alpha sharpens whatever is answered ({one.chance[1000.0]:.3f} for the right answer at alpha = 1000). "
        f"With e^beta = T the step fits T near e^(V+3) alone ({windows}) and fails again beyond, so also in the "
        f"theorem's limit of large T: at T = 2^60 the second operand's score leads by {far:.1f}",
    )


def _shorter(study: Study) -> list[Verdict]:
    step, accuracy = study.step, [c.accuracy for c in study.step.shorter]
    most = step.shorter[-1].K
    return [
        Verdict(
            "theory.appropriate_step",
            "A step of the right length along the same gradient makes the model add a variable and a number",
            "with appropriate step-size then leads to the QK_2 mechanism",
            accuracy[0],
            judged(accuracy[0] >= LEARNED),
            f"accuracy with one assignment at {step.balanced:.3f} of the stated eta, where assignment and second operand draw level; the "
            f"right answer has probability {step.shorter[0].chance[100.0]:.3f} at alpha = 100",
        ),
        Verdict(
            "theory.appropriate_step_many",
            f"A step of that length also makes it add with {most} assignments in context",
            "even when tau has more than one variable",
            accuracy[-1],
            judged(accuracy[-1] >= LEARNED),
            f"accuracy {_listed(accuracy)} for 1 to {most} assignments: a step short enough to keep the second operand leaves a memory too "
            "weak to tell assignments apart",
        ),
    ]


def _spurious(study: Study) -> Verdict:
    further, control = study.step.further, study.step.further_one[-1]
    first, last = further[0], further[-1]
    share = (last.spurious / last.memory) / (first.spurious / first.memory)
    return Verdict(
        "theory.spurious_fades",
        "Further steps on several variables attenuate the spurious term",
        "this spurious term should be attenuated if one takes subsequent steps on data involving more variables in tau",
        share,
        judged(share < 0.5),
        f"sum Phi_1 e_v p_T^T beside the memory after {last.step} steps of eta/20 on 1 to {study.step.stated[-1].K} assignments, over the "
        "same "
        f"before. It is the memory that grows, {first.memory:.2f} to {last.memory:.2f}; the term itself goes from {first.spurious:.2f} "
        "over "
        f"{max(x.spurious for x in further):.2f} to {last.spurious:.2f}. On one-variable data the two stay equal "
        f"(ratio {control.spurious / control.memory:.3f})",
    )


def _further(study: Study) -> Verdict:
    step, last, stuck = study.step, study.step.further[-1], study.step.further_stated[-1]
    return Verdict(
        "theory.further_compose",
        "Further steps on several variables make the model add with any number of assignments",
        "enables composition of variable binding with modular addition",
        min(last.accuracy),
        judged(min(last.accuracy) >= LEARNED),
        f"accuracy {_listed(last.accuracy)} for 1 to {step.stated[-1].K} assignments after {last.step} steps of eta/20 from the shorter "
        "step; "
        f"{_listed(stuck.accuracy)} from the theorem's W_1, where the loss is flat ({stuck.loss - math.log(step.s.N):+.0e} from log N)",
    )


def _listed(values: Iterable[float]) -> str:
    return ", ".join(f"{v:.3f}" for v in values)
