"""Verdicts on what the step of theorem C.1 leads to: attention to the right assignment, and composition.

The theorem itself bounds a remainder. That its step, or a step of another length, makes the model compose is stated in
the theorem's title and in section 7. These are separate claims, and they depend on beta.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from assignadd.paper.theory.beta import FACTOR, BetaScan, LeastRemainder, intersection, listed
from assignadd.paper.theory.composition import Composition, StepNumbers, after_step, operand_lead
from assignadd.paper.theory.setting import Setting
from assignadd.paper.theory.theorem import MEMORY_NORM
from assignadd.stats.verdicts import AtLeast, Statement, decided

LEARNED = 0.95  # the accuracy from which a skill counts as learned, as for the networks
COMPOSES = f"holds if the accuracy is at least {LEARNED:g}; undecided if its 95 % interval contains that"


def statements(
    step: StepNumbers, scan: BetaScan, least_here: LeastRemainder, least_by_size: Sequence[LeastRemainder]
) -> list[Statement]:
    """The verdicts on the stated step, on steps of other lengths, on attention, and on further steps."""
    stated = [_stated(step, scan), _stated_many(step, scan), _together(scan, least_here, least_by_size)]
    shorter = [_shorter(step, scan), _any_length_many(step, scan)]
    return [*stated, *shorter, _attends(step, scan), _spurious(step), _further(step)]


def _sizes(s: Setting) -> str:
    return f"N = {s.N}, T = {s.T}, V = {s.V}"


def _stated(step: StepNumbers, scan: BetaScan) -> Statement:
    s = step.s
    before, one = step.before[0], step.stated[0]
    windows = ", ".join(f"V = {V}: {low:,} to {high:,}" for V, (low, high) in step.composing.items())
    far = operand_lead(after_step(Setting(s.N, 1 << 60, s.V, s.alpha)))
    return _accuracy(
        "theory.stated_step_composes",
        "For some beta the step of the stated length makes the model add a variable and a number",
        'theorem C.1, its title: "One gradient step leads to composition", with eta = V N / (2 alpha rho_1 rho_2 (N - '
        "1))",
        scan.stated_one.found,
        f"accuracy with one assignment at beta = {scan.stated_one.beta:.2f}, {_sizes(s)}. The step composes for beta "
        f"{listed(scan.composing)} and for no other: elsewhere the accuracy is that of chance, {1 / s.N:.3f}, "
        "since M(z) is largest at n + m only if the attention to assignment and second operand differs by less than a "
        f"factor 2. At beta = {s.actual_beta:.3g} it is {one.accuracy:.3f}: attention to the second operand falls "
        f"from {before.second:.2f} to {one.second:.1e} and the model answers 2n; (L - log N)/alpha goes from "
        f"{before.excess:+.3f} to {one.excess:+.3f}. If beta = log T, the step composes only for T near "
        f"e^(V+3) ({windows}), and not in the limit of large T: at T = 2^60 the second operand's score is higher by "
        f"{far:.1f}",
    )


def _stated_many(step: StepNumbers, scan: BetaScan) -> Statement:
    within, at = scan.stated_many_within, scan.s.at(scan.stated_many.beta)
    inside = f"{within.found.accuracy:.3f} at {within.beta:.2f}" if within else "none, since there is no such beta"
    return _accuracy(
        "theory.stated_step_composes_many",
        f"For some beta the step of the stated length also makes the model add with {scan.most} assignments in context",
        'appendix C: sufficient "even when tau has more than one variable"',
        scan.stated_many.found,
        f"accuracy with {scan.most} assignments, {_sizes(step.s)}, at the best beta among those where the step "
        f"composes with one: {scan.stated_many.beta:.2f}, where rho_1 = {at.rho_1:.6g} and T rho_2 = "
        f"{at.T * at.rho_2:.2g}. The best among those that meet the theorem's conditions is {inside}. At beta = "
        f"{step.s.actual_beta:.3g} it is {step.stated[-1].accuracy:.3f}",
    )


def _together(scan: BetaScan, here: LeastRemainder, sizes: Sequence[LeastRemainder]) -> Statement:
    s, common = scan.s, intersection(scan.conditions, scan.composing)
    both = [t for t in sizes if t.remainder < 1]
    best = min(scan.points, key=lambda p: (p.stated[0] < LEARNED, p.check.remainder))
    fit = {V: sorted({t.s.T for t in both if t.s.V == V}) or "none" for V in sorted({t.s.V for t in sizes})}
    fits = ", ".join(f"V = {V}: T in {T}" for V, T in fit.items())
    return Statement(
        "theory.bound_and_step_together",
        f"At {_sizes(s)} some beta meets the theorem's conditions, keeps the remainder below the memory, and makes "
        "the stated step compose",
        "theorem C.1 with its title and its note on the dominant term, at the sizes of the experiment",
        here.remainder if math.isfinite(here.remainder) else None,
        decided(here.remainder < 1),
        f"least remainder over the memory's norm ({MEMORY_NORM:g}) among the beta with rho_1 >= 1/{FACTOR:g} and "
        f"1/{FACTOR:g} <= T rho_2 <= {FACTOR:g} ({listed(scan.conditions)}) at which the stated step adds one "
        f"variable and one number ({listed(scan.composing)}): both hold for beta {listed(common)}, "
        f"best at {here.beta:.2f}. Without the condition on rho_2, beta = {best.beta:.2f} has accuracy "
        f"{best.stated[0]:.3f} and remainder {best.check.remainder / MEMORY_NORM:.2f} of the memory, with T rho_2 = "
        f"{best.check.s.T * best.check.s.rho_2:.1e}. All three hold at {len(both)} of {len(sizes)} sizes tried (N = "
        f"13, 59, 199; {fits}): T has to be of order e^(V+3), or V small",
        "holds if that remainder is smaller than the memory",
    )


def _shorter(step: StepNumbers, scan: BetaScan) -> Statement:
    one = step.shorter[0]
    inside = [p for p in scan.points if p.check.s.theta_factor <= FACTOR]
    some = inside[:: max(1, len(inside) // 6)]
    lengths = ", ".join(f"{p.length:.2f} at {p.beta:.2f}" for p in some if p.length is not None)
    without = max((p.beta for p in scan.points if p.length is None), default=0.0)
    right = sum(p.balanced[0] >= LEARNED for p in scan.points)
    return _accuracy(
        "theory.shorter_step_composes",
        "A step of the right length along the same gradient makes the model add a variable and a number",
        'section 7: an update "with appropriate step-size then leads to the QK_2 mechanism ..., which enables '
        'composition"',
        one,
        f"accuracy with one assignment at {step.balanced:.3f} of the stated eta, where assignment and second operand "
        f"get the same attention ({_sizes(step.s)}, beta = {step.s.actual_beta:.3g}); the right answer has "
        f"probability {one.chance[100.0]:.3f} at alpha = 100. Such a length exists at {right} of the "
        f"{len(scan.points)} beta scanned, all those above {without:.2f}; as a share of eta it is {lengths} (length "
        "at beta)",
    )


def _any_length_many(step: StepNumbers, scan: BetaScan) -> Statement:
    best, here = scan.any_length_many, scan.here_many
    return _accuracy(
        "theory.appropriate_step_many",
        f"For some beta that meets the conditions, a step of the right length makes the model add with {scan.most} "
        "assignments in context",
        'section 7: "with appropriate step-size"; appendix C: "even when tau has more than one variable"',
        best.found,
        f"accuracy with {scan.most} assignments, {_sizes(scan.s)}, at the best beta and length: beta = "
        f"{best.beta:.2f} (rho_1 = {scan.s.at(best.beta).rho_1:.2f}), {best.length:.2f} of eta. At beta = "
        f"{here.beta:.3g} it is {here.found.accuracy:.3f} at the best length, {here.length:.2f} of eta, and "
        f"{_numbers(c.accuracy for c in step.shorter)} for 1 to {scan.most} assignments at {step.balanced:.3f}: a step "
        "short enough to keep attention on the second operand leaves a memory too weak to tell assignments apart",
    )


def _accuracy(id: str, claim: str, paper: str, found: Composition, detail: str) -> Statement:
    verdict = AtLeast(LEARNED).verdict(found.interval)
    return Statement(id, claim, paper, found.accuracy, verdict, detail, COMPOSES, found.interval, found.draws)


def _attends(step: StepNumbers, scan: BetaScan) -> Statement:
    s, last = step.s, step.stated[-1]
    ratio = min(p.preference for p in scan.points)
    return Statement(
        "theory.attends_target",
        "After the step the right assignment gets more attention than any other, at every beta",
        'appendix C: "sufficient to ensure attention to the correct variables in the context, even when tau has more '
        'than one variable"',
        ratio,
        decided(ratio > 1),
        f"attention to the operand's assignment over that to each other one, the least over beta at {_sizes(s)}; it "
        f"tends to e. At beta = {s.actual_beta:.3g}, among {last.K} assignments, the right one has {last.target:.2f} "
        f"and the others {last.distractor * (last.K - 1):.2f} together",
        "holds if the ratio is above 1",
    )


def _spurious(step: StepNumbers) -> Statement:
    further, control = step.further, step.further_one[-1]
    first, last = further[0], further[-1]
    share = (last.spurious / last.memory) / (first.spurious / first.memory)
    return Statement(
        "theory.spurious_fades",
        "Further steps on several variables attenuate the spurious term",
        'appendix C: "this spurious term should be attenuated if one takes subsequent steps on data involving more '
        'variables in tau"',
        share,
        decided(share < 0.5),
        f"sum Phi_1 e_v p_T^T relative to the memory after {last.step} steps of eta/20 on 1 to {step.stated[-1].K} "
        f"assignments, over the same before them (beta = {step.s.actual_beta:.3g}). The memory grows from "
        f"{first.memory:.2f} to {last.memory:.2f}; the term itself goes from {first.spurious:.2f} through "
        f"{max(x.spurious for x in further):.2f} to {last.spurious:.2f}. On one-variable data the two remain equal "
        f"(ratio {control.spurious / control.memory:.3f})",
        "holds if the share falls below one half",
    )


def _further(step: StepNumbers) -> Statement:
    last, stuck = step.further[-1], step.further_stated[-1]
    return Statement(
        "theory.further_compose",
        "Further steps on several variables make the model add with any number of assignments",
        'section 7: "enables composition of variable binding with modular addition"',
        min(last.accuracy),
        decided(min(last.accuracy) >= LEARNED),
        f"lowest of the accuracies {_numbers(last.accuracy)} for 1 to {step.stated[-1].K} assignments after "
        f"{last.step} steps of eta/20 from the shorter step, at beta = {step.s.actual_beta:.3g}; "
        f"{_numbers(stuck.accuracy)} from the theorem's W_1, where the loss is flat "
        f"({stuck.loss - math.log(step.s.N):+.0e} from log N)",
        f"holds if the lowest accuracy is at least {LEARNED:g}",
    )


def _numbers(values: Iterable[float]) -> str:
    return ", ".join(f"{v:.3f}" for v in values)
