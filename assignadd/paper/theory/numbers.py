"""All numbers on appendix C and section 7, and the verdicts on every statement made there."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from assignadd.paper.theory import proof, step_verdicts
from assignadd.paper.theory.beta import (
    FACTOR,
    BetaScan,
    LeastRemainder,
    beta_scan,
    condition_constants,
    constant_attention,
    focusing_beta,
    least_remainder,
    least_remainders,
    listed,
    remainder_exponent,
)
from assignadd.paper.theory.composition import StepNumbers, after_step, composition, step_numbers
from assignadd.paper.theory.setting import Setting
from assignadd.paper.theory.theorem import (
    MEMORY_NORM,
    Check,
    check,
    direction_cosine,
    extreme_constant,
    fitted_constant,
    grid_checks,
    growth,
    term_weights,
)
from assignadd.stats.verdicts import Statement, decided

ALPHAS_UP = (1e-3, 0.1, 1.0, 3.0, 10.0, 100.0)
KEPT, SHARP = 0.99, 0.9  # cosine from which a direction counts as kept; probability from which an answer is sharp
ORDER_ONE = 10.0  # the largest constant behind an O that passes
# Attention of `=` in layers 1 and 2 of the paper's network at step 5301, on one-variable sequences of its training
# distribution: to the constant operand, the variable operand, the right assigned value, and all other assigned values.
PAPER_5301 = {1: (0.53, 0.36, 0.00, 0.01), 2: (0.35, 0.05, 0.25, 0.24)}


@dataclass(frozen=True)
class AlphaNumbers:
    """The direction of the gradient at W_0 as alpha grows, against its direction as alpha vanishes."""

    cosine: dict[float, float]
    """For each of ALPHAS_UP."""
    kept_up_to: float
    """The largest alpha up to which the cosine stays at KEPT or above."""
    sharp: float
    """The alpha that gives the right answer probability SHARP, with one assignment, after the balancing step."""
    sharp_cosine: float
    sharp_by_beta: dict[float, float]
    """The cosine at that alpha for other beta."""


@dataclass(frozen=True)
class TheoryNumbers:
    """Every number that the verdicts are decided on."""

    at: Check
    grid: list[Check]
    extreme_constant: float
    """The least constant with which the bound holds at the extremes of N, T, V and alpha."""
    proof: proof.ProofNumbers
    step: StepNumbers
    scan: BetaScan
    constants: dict[float, dict[int, float]]
    """Factor within which the theorem's conditions hold -> T -> the largest constant of the bound over such beta."""
    least_here: LeastRemainder
    least_by_size: tuple[LeastRemainder, ...]
    alpha: AlphaNumbers


def theory_numbers(s: Setting, say: Callable[[str], object] = lambda _: None) -> TheoryNumbers:
    """All numbers at setting `s` and over the grid; `say` is called with what is being computed."""
    say("the proof, summed over every sequence")
    proved = proof.proof_numbers(proof.SUMMED)
    say("the theorem over the grid")
    grid, extreme = grid_checks(), extreme_constant(s.V)
    say("the step and further steps")
    step = step_numbers(s)
    say("the theorem and its step over beta")
    constants = {factor: condition_constants(s.V, factor) for factor in (2.0, FACTOR)}
    least = least_remainder(s), least_remainders()
    alpha = alpha_numbers(s, step.balanced)
    return TheoryNumbers(check(s), grid, extreme, proved, step, beta_scan(s), constants, *least, alpha)


def alpha_numbers(s: Setting, balanced: float) -> AlphaNumbers:
    """The direction of the gradient as alpha grows, at the beta of `s` and at a few others."""
    tried = np.geomspace(0.1, 500, 200).tolist()
    kept = next((i for i, alpha in enumerate(tried) if direction_cosine(s, alpha) < KEPT), len(tried))
    answers = composition(after_step(s, balanced), 1, tuple(tried), draws=500).chance
    sharp = next((alpha for alpha in tried if answers[alpha] >= SHARP), tried[-1])
    other_beta = (1.5, math.log(s.T), 2 * math.log(s.T), min(300.0, s.V + 3.0))
    others = {beta: direction_cosine(s.at(beta), sharp) for beta in other_beta}
    cosines = {alpha: direction_cosine(s, alpha) for alpha in ALPHAS_UP}
    return AlphaNumbers(cosines, tried[max(kept - 1, 0)], sharp, direction_cosine(s, sharp), others)


def statements(study: TheoryNumbers) -> list[Statement]:
    """The verdict on every statement of the theory, in the order of the ledger; the largest term comes first."""
    theorem = [_dominates(study), _over_beta(study), _remainder(study), _small_here(study)]
    step = step_verdicts.statements(study.step, study.scan, study.least_here, study.least_by_size)
    around = [_alpha(study.alpha, study.at.s), _w0_attention(study.scan)]
    return [*theorem, *step, *around, *proof.statements(study.proof, study.grid, study.at.s)]


def _dominates(study: TheoryNumbers) -> Statement:
    at = study.at
    far = check(Setting(9973, 1 << 20, at.s.V, 1e-12))
    share, beta = max((MEMORY_NORM / max(p.check.attenuation, p.check.remainder), p.beta) for p in study.scan.points)
    # In the limit rho_1 is 1, the remainder is 0, and the squared Frobenius norms of the attenuation and of the memory
    # are V^2 + V and 2 V.
    limit = math.sqrt(2 / (far.s.V + 3))
    return Statement(
        "theory.memory_dominates",
        "The associative memory, which matches every variable with itself, is the largest term of the update when N, "
        "T >> V and V T alpha << 1",
        'appendix C: "the displayed associative-memory term dominates the update"; section 7: it is the "dominant '
        'term" of the negative gradient',
        far.attenuation / MEMORY_NORM,
        decided(far.attenuation < MEMORY_NORM / 2),
        "the value is the norm of the other displayed term over that of the memory. The memory sum_v Phi_1 e_v (Phi_1 "
        "e_v + p_T)^T makes `=` find the operand's assignment; the other term, -(2 rho_1 - 1) p_{T-1} (V p_T + sum_v "
        "Phi_1 e_v)^T, takes attention away from the second operand. In the theorem's own norm (largest row sum) "
        f"their ratio is V (2 rho_1 - 1), which tends to V: {far.attenuation:.3g} against {MEMORY_NORM:g} at N = "
        f"{far.s.N}, T = 2^20, V = {far.s.V}, where the remainder is {far.remainder:.1e}. At N = {at.s.N}, T = "
        f"{at.s.T}, beta = {at.s.actual_beta:.3g} the three norms are: other term {at.attenuation:.3g}, remainder "
        f"{at.remainder:.3g}, memory {MEMORY_NORM:g}. Over all beta at these sizes the memory is at most {share:.2f} "
        f"of the larger of the other two (beta = {beta:.2f}). The cosine of update and memory (Frobenius) is "
        f"{far.cosine:.3f} at the large sizes (limit sqrt(2/(V+3)) = {limit:.3f}) and {at.cosine:.3f} at these. The "
        f"step lowers the score of the second operand by about V + 1 = {at.s.V + 1} and raises that of the right "
        "assignment by 2. The theorem counts the other term as part of the initial matrix, W~_0; measured from there, "
        "only the remainder is left to compare with (remainder-small-here)",
        "holds if the other displayed term is less than half of the memory",
    )


def _over_beta(study: TheoryNumbers) -> Statement:
    scan, s, wide = study.scan, study.scan.s, study.constants[FACTOR]
    small, large = (max(x for T, x in wide.items() if (T > 256) == far) for far in (False, True))
    powers = ", ".join(f"T^{remainder_exponent(s.V, g) + 0.0:.1f} for e^beta = T^{g:g}" for g in (0.5, 0.75, 1.0, 1.5))
    inside = [p.check.constant for p in scan.points if p.check.s.theta_factor <= FACTOR]
    last = scan.points[-1]
    return Statement(
        "theory.bound_over_beta",
        "For every beta that meets the theorem's conditions the remainder stays within a constant times V (1/N + 1/T "
        "+ T alpha)",
        "theorem C.1: remainder O_inf(V (1/N + 1/T + T alpha)) if beta is such that rho_1 = Theta(1) and rho_2 = "
        "Theta(1/T)",
        max(wide.values()),
        decided(large <= small),
        f"largest constant over T = {', '.join(map(str, wide))}, N up to 9973, alpha from 1e-9 to 1e-3 and every beta "
        f"with rho_1 >= 1/{FACTOR:g} and 1/{FACTOR:g} <= T rho_2 <= {FACTOR:g}; within a factor 2 instead it is "
        f"{max(study.constants[2.0].values()):.3g}. At N = {s.N}, T = {s.T}, V = {s.V} these are beta "
        f"{listed(scan.conditions)}, with constants from {min(inside):.3g} to {max(inside):.3g}. T times the "
        f"remainder grows as {powers}: the bound needs e^beta of order T at least. It remains true for larger beta "
        f"({last.check.constant:.3g} at beta = {last.beta:.1f}), where rho_2 = Theta(1/T) no longer holds. The "
        "theorem bounds this remainder and nothing else: it claims no accuracy",
        f"holds if the largest constant at T > 256 is no larger than at T <= 256 ({large:.3g} and {small:.3g})",
    )


def _remainder(study: TheoryNumbers) -> Statement:
    checks, extreme = study.grid, study.extreme_constant
    constant, entry = fitted_constant(checks), max(c.largest_entry / c.s.bound for c in checks)
    g, (a, b, c) = growth(checks, [x.remainder for x in checks]), term_weights(checks)
    return Statement(
        "theory.remainder",
        "At beta = log T, W_1 is the predicted sum up to a remainder of the stated size",
        "theorem C.1: O_inf(V (1/N + 1/T + T alpha))",
        constant,
        decided(max(constant, extreme) < ORDER_ONE),
        f"least constant over {len(checks)} settings (N to 199, T to 256, V to 12, alpha 1e-6 to 0.1) in the row-sum "
        f"norm ({entry:.3g} entry by entry); it is at most {extreme:.3g} at the extremes of N, T and alpha (T = 4 is "
        f"the worst). The remainder grows as N^{g.n:.2f} T^{g.t:.2f} V^{g.v:.2f} alpha^{g.a:.3f} (R^2 {g.r2:.3f}); "
        f"fitted as a V/N + b V/T + c V T alpha, a = {a:.3f}, b = {b:.2f}, c = {c:.1e}. It is of order V/T: e_n and "
        "e_m cancel as rho_1 tends to 1, and alpha has little effect",
        f"holds if the constant is below {ORDER_ONE:g}",
    )


def _small_here(study: TheoryNumbers) -> Statement:
    at, grid, s = study.at, study.grid, study.at.s
    informative = [c for c in grid if c.s.bound < MEMORY_NORM]
    small, large = sum(c.remainder < MEMORY_NORM for c in grid), sum(c.remainder >= MEMORY_NORM for c in informative)
    return Statement(
        "theory.remainder_small_here",
        f"At N = {s.N}, T = {s.T}, V = {s.V} the remainder is smaller than the memory",
        "claimed for N, T >> V; the experiment has N = 59, T = 16, V = 12",
        at.remainder,
        decided(at.remainder < MEMORY_NORM),
        f"remainder {at.remainder:.3g} (largest entry {at.largest_entry:.3g}) against the memory's norm "
        f"{MEMORY_NORM:g} (entries 1), where the bound is {s.bound:.3g}, at beta = {s.actual_beta:.3g}. On the grid, "
        f"at beta = log T, the remainder is below the memory at {small} of {len(grid)} settings; of the "
        f"{len(informative)} where the bound is below it, the remainder is not at {large}",
        f"holds if the remainder is below {MEMORY_NORM:g}",
    )


def _alpha(found: AlphaNumbers, s: Setting) -> Statement:
    cosines = ", ".join(f"{cosine:.3f} at alpha = {alpha:g}" for alpha, cosine in found.cosine.items())
    others = ", ".join(f"{cosine:.2f} at beta = {beta:.3g}" for beta, cosine in found.sharp_by_beta.items())
    return Statement(
        "theory.alpha_keeps_direction",
        "alpha can be increased until predictions are sharp without turning the gradient of the key-query matrix",
        'appendix C: "alpha may be increased to sharpen predictions without changing the direction of the key-query '
        'signal"',
        found.sharp_cosine,
        decided(found.sharp_cosine >= KEPT),
        f"cosine between the gradients at W_0 for alpha near 0 and for alpha = {found.sharp:.3g}, the smallest that "
        f"gives the right answer probability {SHARP:g} with one assignment after the step that balances the "
        f"attention; N = {s.N}, T = {s.T}, V = {s.V}, beta = {s.actual_beta:.3g}. At other alpha it is {cosines}; it "
        f"stays above {KEPT} up to alpha = {found.kept_up_to:.2g}. At that alpha for other beta: {others}. In another "
        "reading the sentence is true without a calculation: after the step alpha only scales the logits, and changes "
        "neither W_1 nor its attention nor the most probable answer",
        f"holds if the cosine is at least {KEPT}",
    )


def _w0_attention(scan: BetaScan) -> Statement:
    s, most = scan.s, scan.most
    shares = [constant_attention(s, K) for K in range(1, most + 1)]
    first, second = (", ".join(f"{x:.2f}" for x in PAPER_5301[layer]) for layer in (1, 2))
    return Statement(
        "theory.w0_attention",
        "With a suitable beta, W_0 makes `=` attend mostly to the constant operand",
        'appendix C: W_0 "leads to an attention behavior similar to that observed in Figure early (a) when beta is '
        'chosen appropriately"',
        min(shares),
        decided(min(shares) > 0.5),
        f"attention to the second operand, the constant, at beta = {s.actual_beta:.3g} with {most} assignments in "
        f"context ({shares[0]:.2f} with one). It exceeds one half from beta = {focusing_beta(s, 1):.2f} on with one "
        f"assignment and from {focusing_beta(s, most):.2f} on with {most}, and tends to 1. Figure early (a) shows "
        "attention of layer 1, while W_0 is the matrix of layer 2, so the two are not the same quantity. The paper's "
        "network at step 5301, before its first spike, gives constant operand, variable operand, right value and all "
        f"other values {first} in layer 1 and {second} in layer 2: there the assigned values together already get "
        "more than the constant, and the right one most of it; under W_0 every assignment gets e^-beta of the "
        f"constant's attention ({1 / s.e_beta:.3g} here)",
        "holds if more than half of the attention is on the constant operand for every number of assignments at this "
        "beta",
    )
