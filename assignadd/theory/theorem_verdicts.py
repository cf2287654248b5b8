"""Verdicts on the theorem: the size of its remainder, and which of its terms is the large one."""

from __future__ import annotations

from assignadd.theory.setting import Setting
from assignadd.theory.study import Study
from assignadd.theory.theorem import MEMORY_NORM, check, fitted_constant, growth, limiting_cosine, region, term_weights
from assignadd.theory.verdict import Verdict, judged

ORDER_ONE = 10.0  # what still passes for the constant behind an O


def verdicts(study: Study) -> list[Verdict]:
    return [_remainder(study), _small_here(study), _dominates(study)]


def _remainder(study: Study) -> Verdict:
    checks = study.grid
    constant, entry = fitted_constant(checks), max(c.largest_entry / c.s.bound for c in checks)
    g, (a, b, c) = growth(checks, [x.remainder for x in checks]), term_weights(checks)
    return Verdict(
        "theory.remainder",
        "W_1 is the predicted sum up to a remainder",
        "O_inf(V (1/N + 1/T + T alpha))",
        constant,
        judged(max(constant, study.extreme_constant) < ORDER_ONE),
        f"least constant over {len(checks)} settings (N to 199, T to 256, V to 12, alpha 1e-6 to 0.1) in the row-sum norm ({entry:.3g} "
        "entry "
        f"by entry), and no more than {study.extreme_constant:.3g} at the far ends of N, T and alpha (T = 4 is the worst). The remainder "
        f"grows as N^{g.n:.2f} T^{g.t:.2f} V^{g.v:.2f} alpha^{g.a:.3f} (R^2 {g.r2:.3f}); as a V/N + b V/T + c V T alpha, a = {a:.3f}, "
        f"b = {b:.2f}, c = {c:.1e}. It is of order V/T: e_n and e_m cancel as rho_1 tends to 1, and alpha hardly enters",
    )


def _small_here(study: Study) -> Verdict:
    at, found = study.at, region(study.grid)
    s = at.s
    return Verdict(
        "theory.remainder_small_here",
        f"At N = {s.N}, T = {s.T}, V = {s.V} the remainder is below the memory",
        "claimed for N, T >> V; the experiment has N = 59, T = 16, V = 12",
        at.remainder,
        judged(at.small),
        f"remainder {at.remainder:.3g} (largest entry {at.largest_entry:.3g}) against the memory's norm {MEMORY_NORM:g} (entries 1), where "
        "the "
        f"bound is {s.bound:.3g}. On the grid the remainder is below the memory at {found.small} of {found.settings} settings; of the "
        f"{found.informative} where the bound is below it, the remainder is not at {found.informative_but_large}",
    )


def _dominates(study: Study) -> Verdict:
    at = study.at
    far = check(Setting(9973, 1 << 20, at.s.V, 1e-12))
    return Verdict(
        "theory.memory_dominates",
        "The associative memory dominates the update when N, T >> V and V T alpha << 1",
        "the displayed associative-memory term dominates the update",
        far.attenuation / MEMORY_NORM,
        judged(far.attenuation < MEMORY_NORM / 2),
        "norm of the other displayed term, -(2 rho_1 - 1) p_{T-1} (V p_T + sum Phi_1 e_v)^T, over the memory's, "
        f"at N = {far.s.N}, T = 2^20, V = {far.s.V}: it tends to V. Cosine of update and memory {far.cosine:.3f} there "
        f"(limit sqrt(2/(V+3)) = {limiting_cosine(far.s.V):.3f}), {at.cosine:.3f} at N = {at.s.N}, T = {at.s.T}. The update lowers the "
        "second operand's score by about V + 1 and raises the right assignment's by 2; counting that term to the start, as W~_0 does, "
        "hides it",
    )
