"""Verdicts on the statements that the proof in appendix C is made of."""

from __future__ import annotations

import math

from assignadd.theory.setting import Setting
from assignadd.theory.study import Study, literal_pads
from assignadd.theory.theorem import growth, remainder_parts
from assignadd.theory.verdict import Verdict, judged

ROUNDING = 1e-12


def verdicts(study: Study) -> list[Verdict]:
    return [*_bounded(study), _softmax_part(study), _pads_theta(study), _pads_literal(study), _columns(study)]


def _bounded(study: Study) -> list[Verdict]:
    """Statements of the form: this number, over the whole population, is at most that one."""
    p, b = study.proof, study.proof.bounds
    x_G_3 = "-2 rho_1 rho_2 (N-1)/N E[(x_t* + x_{T-1} - 2 x_bar) x_T^T]"
    rows: list[tuple[str, str, str, float, float]] = [
        ("mlp_adds", "The complex quadratic MLP adds mod N", "M_k(e_n + e_m) = 2 1{k=n+m} + 1{k=2n} + 1{k=2m}", p.addition_error, 0),
        ("mlp_gradient", "Its gradient pairs the numbers that add up to k", "nabla M_k(e_n)^T e_m = 2 1{k=n+m}", p.gradient_error, 0),
        ("logits_bounded", "Unscaled logits are bounded", "|v_j^T Phi_2 x_t| <= 1 and |M_k(z)| <= 1", max(b.v_x, b.M), 1),
        ("near_uniform", "The prediction stays near uniform", "|r_k| N / (e^(2 alpha) - 1) <= 1", b.r, 1),
        ("gradient_bounded", "The MLP's gradient along a token is bounded", "|nabla M_k(z)^T Phi_2 x_t| <= 2", b.grad_M, 2),
        ("expansion", "A_k has three terms, in rho_1^2, rho_2^2 and rho_1 rho_2", "A_k as displayed", b.expansion, 0),
        ("same_attention", "rho_1 and rho_2 do not depend on the sequence", "footnote to the theorem", b.sigma_spread, 0),
        ("G_1_G_2", "The terms without signal vanish", "G_1 = G_2 = 0", max(p.G_1, p.G_2), 0),
        ("G_3", "G_3 carries the signal", x_G_3, p.G_3_error, 0),
    ]
    where = f"over every sequence at N = {p.s.N}, T = {p.s.T}, V = {p.s.V}, alpha = {p.s.alpha:g}"
    return [
        Verdict(
            f"theory.{name}", claim, paper, value, judged(value <= most + ROUNDING), f"largest {'value' if most else 'deviation'} {where}"
        )
        for name, claim, paper, value, most in rows
    ]


def _softmax_part(study: Study) -> Verdict:
    worst = max(c.softmax_part / (c.s.V * c.s.T * c.s.alpha) for c in study.grid)
    g = growth(study.grid, [c.softmax_part for c in study.grid])
    detail = (
        f"largest ratio to V T alpha over the grid; it grows as N^{g.n:.2f} T^{g.t:.2f} V^{g.v:.2f} alpha^{g.a:.2f}. The bound is true "
        "and loose: at most three k have A_k other than 0, so the sum over k costs no factor N, and x_{T-1} - x_bar is itself of "
        "order 1/T; for large T this part is of order V alpha / N"
    )
    return Verdict("theory.R_alpha", "What the softmax's deviation adds to W_1", "O(V T alpha)", worst, judged(worst <= 1), detail)


def _pads_theta(study: Study) -> Verdict:
    s = study.at.s
    near, far = (Setting(s.N, T, s.V, s.alpha) for T in (16, 256))
    order = math.log(near.T * near.rho_3 / (far.T * far.rho_3)) / math.log(near.T / far.T)
    return Verdict(
        "theory.pads_theta",
        "At W_0 every position but T-1 has attention of order 1/T",
        "sigma_t = Theta(1/T) for all t other than T-1",
        order,
        judged(abs(order) < 0.1),
        "growth exponent of T sigma_pad in T, which is 0 for Theta(1/T). W_0 makes sigma_pad = rho_2^2 / rho_1, so with rho_2 = Theta(1/T) "
        f"it is Theta(1/T^2): T sigma_pad is {near.T * near.rho_3:.3g} at T = 16 and {far.T * far.rho_3:.3g} at T = 256. "
        "It should read O(1/T)",
    )


def _pads_literal(study: Study) -> Verdict:
    V = study.at.s.V
    found = [literal_pads(T, Setting(max(199, V), 16, V, 1e-6)) for T in (64, 256, 1024)]
    listed = ", ".join(f"{c.remainder:.3g} at T = {c.s.T}" for c in found)
    return Verdict(
        "theory.pads_literal",
        "The remainder is small where PADs do have attention of order 1/T",
        "O(V (1/N + 1/T + T alpha)) under sigma_t = Theta(1/T)",
        found[-1].remainder,
        judged(found[-1].remainder < found[0].remainder / 2),
        f"sigma_pad of order 1/T takes e^beta = sqrt T (and then rho_2 is of order 1/sqrt T): remainder {listed}, V = {V}; it does not "
        "shrink. The proof's list of small terms leaves out e_pad, whose weight adds up over all PADs",
    )


def _columns(study: Study) -> Verdict:
    s = study.proof.s
    uniform = remainder_parts(Setting(s.N, s.T, s.V, s.alpha))[0]
    outside = float(max(uniform.plain[:, 1].abs().max(), uniform.variable[:, 1].abs().max()))
    return Verdict(
        "theory.G_3_columns",
        "The small terms of G_3 all stand in the column p_T",
        "+ O_inf(1/N + 1/T) p_T^T",
        outside,
        judged(outside < ROUNDING),
        f"largest coefficient in the columns Phi_1 e_v, which the display leaves out, where the memory's is 1 (N = {s.N}, T = {s.T}, V = "
        f"{s.V}). "
        "Each is 1/V of that in column p_T or stands in a variable's own row, so the theorem's bound is not touched",
    )
