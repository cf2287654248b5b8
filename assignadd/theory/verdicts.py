"""The verdicts on section 7 and appendix C: those on the theorem here, then on what its step leads to, then on its proof."""

from __future__ import annotations

import math

from assignadd.theory import proof_verdicts, step_verdicts
from assignadd.theory.beta import FACTOR, constant_attention, focusing_beta, remainder_exponent
from assignadd.theory.setting import Setting
from assignadd.theory.study import KEPT, SHARP, Study
from assignadd.theory.theorem import MEMORY_NORM, check, fitted_constant, growth, limiting_cosine, region, term_weights
from assignadd.theory.verdict import Verdict, judged, listed_bands

ORDER_ONE = 10.0  # what still passes for the constant behind an O
# Attention of `=` in layers 1 and 2 of the paper's network at step 5301, on one-variable sequences of its training law: to the
# constant operand, the variable operand, the right assigned value, and all other assigned values together.
PAPER_5301 = {1: (0.53, 0.36, 0.00, 0.01), 2: (0.35, 0.05, 0.25, 0.24)}


def verdicts(study: Study) -> list[Verdict]:
    """In the order of the ledger: which term is the large one comes first."""
    theorem = [_dominates(study), _over_beta(study), _remainder(study), _small_here(study)]
    around = [_alpha(study), _w0_attention(study)]
    return [*theorem, *step_verdicts.verdicts(study), *around, *proof_verdicts.verdicts(study)]


def _dominates(study: Study) -> Verdict:
    at = study.at
    far = check(Setting(9973, 1 << 20, at.s.V, 1e-12))
    best = max(study.scan.points, key=lambda p: MEMORY_NORM / max(p.check.attenuation, p.check.remainder))
    share = MEMORY_NORM / max(best.check.attenuation, best.check.remainder)
    return Verdict(
        "theory.memory_dominates",
        "The associative memory, which matches every variable with itself, is the largest term of the update when N, T >> V and V T alpha "
        "<< 1",
        'appendix C: "the displayed associative-memory term dominates the update"; section 7: it is the "dominant term" of the negative '
        "gradient",
        far.attenuation / MEMORY_NORM,
        judged(far.attenuation < MEMORY_NORM / 2),
        "the value is the norm of the other displayed term over that of the memory. The memory sum_v Phi_1 e_v (Phi_1 e_v + p_T)^T makes "
        "`=` find the operand's assignment; the other term, -(2 rho_1 - 1) p_{T-1} (V p_T + sum_v Phi_1 e_v)^T, takes attention away from "
        "the second operand. In the theorem's own norm (largest row sum) their ratio is V (2 rho_1 - 1), which tends to V: "
        f"{far.attenuation:.3g} against {MEMORY_NORM:g} at N = {far.s.N}, T = 2^20, V = {far.s.V}, where the remainder is "
        f"{far.remainder:.1e}. At N = {at.s.N}, T = {at.s.T}, beta = {math.log(at.s.e_beta):.3g} the three norms are: other term "
        f"{at.attenuation:.3g}, remainder {at.remainder:.3g}, memory {MEMORY_NORM:g}. Over all beta at these sizes the memory is at best "
        f"{share:.2f} of the larger of the other two (beta = {best.beta:.2f}). Cosine of update and memory (Frobenius) {far.cosine:.3f} "
        f"at the large sizes (limit sqrt(2/(V+3)) = {limiting_cosine(far.s.V):.3f}), {at.cosine:.3f} at these. In scores: the step lowers "
        f"the second operand's by about V + 1 = {at.s.V + 1} and raises the right assignment's by 2. The theorem counts the other term as "
        "part of the start, W~_0; measured from there only the remainder is left to compare with (remainder-small-here)",
        "holds if the other displayed term is less than half of the memory",
    )


def _over_beta(study: Study) -> Verdict:
    scan, s = study.scan, study.scan.s
    strict, wide = study.constants[2.0], study.constants[FACTOR]
    small, large = (max(x for T, x in wide.items() if (T > 256) == far) for far in (False, True))
    powers = ", ".join(f"T^{remainder_exponent(s.V, g) + 0.0:.1f} for e^beta = T^{g:g}" for g in (0.5, 0.75, 1.0, 1.5))
    inside = [p for p in scan.points if p.check.s.theta_factor <= FACTOR]
    low, high = min(p.check.constant for p in inside), max(p.check.constant for p in inside)
    large_beta = scan.points[-1]
    return Verdict(
        "theory.bound_over_beta",
        "For every beta that meets the theorem's conditions the remainder stays within a constant times V (1/N + 1/T + T alpha)",
        "theorem C.1: remainder O_inf(V (1/N + 1/T + T alpha)) if beta is such that rho_1 = Theta(1) and rho_2 = Theta(1/T)",
        max(wide.values()),
        judged(large <= small),
        f"largest constant over T = {', '.join(map(str, wide))}, N up to 9973, alpha from 1e-9 to 1e-3 and every beta with rho_1 >= "
        f"1/{FACTOR:g} and 1/{FACTOR:g} <= T rho_2 <= {FACTOR:g}; within a factor 2 instead it is {max(strict.values()):.3g}. At "
        f"N = {s.N}, T = {s.T}, V = {s.V} these are beta {listed_bands(scan.conditions)}, with constants from {low:.3g} to {high:.3g}. "
        f"T times the remainder grows as {powers}: the bound needs e^beta of order T at least. It stays true for larger beta "
        f"({large_beta.check.constant:.3g} at beta = {large_beta.beta:.1f}), where rho_2 = Theta(1/T) no longer holds. The theorem bounds "
        "this remainder and nothing else: it claims no accuracy",
        f"holds if the largest constant at T > 256 is no larger than at T <= 256 ({large:.3g} and {small:.3g})",
    )


def _remainder(study: Study) -> Verdict:
    checks = study.grid
    constant, entry = fitted_constant(checks), max(c.largest_entry / c.s.bound for c in checks)
    g, (a, b, c) = growth(checks, [x.remainder for x in checks]), term_weights(checks)
    return Verdict(
        "theory.remainder",
        "At beta = log T, W_1 is the predicted sum up to a remainder of the stated size",
        "theorem C.1: O_inf(V (1/N + 1/T + T alpha))",
        constant,
        judged(max(constant, study.extreme_constant) < ORDER_ONE),
        f"least constant over {len(checks)} settings (N to 199, T to 256, V to 12, alpha 1e-6 to 0.1) in the row-sum norm ({entry:.3g} "
        f"entry by entry), and no more than {study.extreme_constant:.3g} at the far ends of N, T and alpha (T = 4 is the worst). The "
        f"remainder grows as N^{g.n:.2f} T^{g.t:.2f} V^{g.v:.2f} alpha^{g.a:.3f} (R^2 {g.r2:.3f}); as a V/N + b V/T + c V T alpha, "
        f"a = {a:.3f}, b = {b:.2f}, c = {c:.1e}. It is of order V/T: e_n and e_m cancel as rho_1 tends to 1, and alpha hardly enters",
        f"holds if the constant is below {ORDER_ONE:g}",
    )


def _small_here(study: Study) -> Verdict:
    at, found = study.at, region(study.grid)
    s = at.s
    return Verdict(
        "theory.remainder_small_here",
        f"At N = {s.N}, T = {s.T}, V = {s.V} the remainder is smaller than the memory",
        "claimed for N, T >> V; the experiment has N = 59, T = 16, V = 12",
        at.remainder,
        judged(at.small),
        f"remainder {at.remainder:.3g} (largest entry {at.largest_entry:.3g}) against the memory's norm {MEMORY_NORM:g} (entries 1), where "
        f"the bound is {s.bound:.3g}, at beta = {math.log(s.e_beta):.3g}. On the grid, at beta = log T, the remainder is below the memory "
        f"at {found.small} of {found.settings} settings; of the {found.informative} where the bound is below it, the remainder is not at "
        f"{found.informative_but_large}",
        f"holds if the remainder is below {MEMORY_NORM:g}",
    )


def _alpha(study: Study) -> Verdict:
    found, s = study.alpha, study.at.s
    cosines = ", ".join(f"{cosine:.3f} at alpha = {alpha:g}" for alpha, cosine in found.cosine.items())
    others = ", ".join(f"{cosine:.2f} at beta = {beta:.3g}" for beta, cosine in found.sharp_by_beta.items())
    return Verdict(
        "theory.alpha_keeps_direction",
        "alpha can be increased until predictions are sharp without turning the gradient of the key-query matrix",
        'appendix C: "alpha may be increased to sharpen predictions without changing the direction of the key-query signal"',
        found.sharp_cosine,
        judged(found.sharp_cosine >= KEPT),
        f"cosine between the gradients at W_0 for alpha near 0 and for alpha = {found.sharp:.3g}, the least that gives the right answer "
        f"probability {SHARP:g} with one assignment after the step that balances the attention; N = {s.N}, T = {s.T}, V = {s.V}, beta = "
        f"{math.log(s.e_beta):.3g}. Along the way {cosines}: it stays above {KEPT} up to alpha = {found.kept_up_to:.2g}. At that alpha for "
        f"other beta: {others}. In another reading the sentence is true without a calculation: once the step is taken, alpha only scales "
        "the logits, and changes neither W_1 nor its attention nor the most probable answer",
        f"holds if the cosine is at least {KEPT}",
    )


def _w0_attention(study: Study) -> Verdict:
    scan, s = study.scan, study.scan.s
    shares = {K: constant_attention(s, K) for K in range(1, scan.most + 1)}
    least = min(shares.values())
    first, second = (", ".join(f"{x:.2f}" for x in PAPER_5301[layer]) for layer in (1, 2))
    return Verdict(
        "theory.w0_attention",
        "With a suitable beta, W_0 makes `=` attend mostly to the constant operand",
        'appendix C: W_0 "leads to an attention behavior similar to that observed in Figure early (a) when beta is chosen appropriately"',
        least,
        judged(least > 0.5),
        f"attention to the second operand, the constant, at beta = {math.log(s.e_beta):.3g} with {scan.most} assignments in context "
        f"({shares[1]:.2f} with one). It exceeds one half from beta = {focusing_beta(s, 1):.2f} on with one assignment and from "
        f"{focusing_beta(s, scan.most):.2f} on with {scan.most}, and tends to 1. Figure early (a) shows attention of layer 1, while W_0 is "
        "the matrix of layer 2, so the two are not the same quantity. The paper's network at step 5301, before its first spike, gives "
        f"constant operand, variable operand, right value and all other values {first} in layer 1 and {second} in layer 2: there the "
        "assigned values together already get more than the constant, the right one the largest part; under W_0 every assignment gets "
        f"e^-beta of the constant's attention ({1 / s.e_beta:.3g} here)",
        "holds if more than half of the attention is on the constant operand for every number of assignments at this beta",
    )
