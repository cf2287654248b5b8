"""The theorem's terms are the matrices it displays; the remainder is what a hand calculation leaves over.

The proof's statements as numbers: right where it is right, and able to tell where it would be wrong.
"""

import math

import pytest
import torch

from assignadd.paper.theory import setting, symmetric, theorem
from assignadd.paper.theory.setting import Setting, population_loss
from assignadd.paper.theory.symmetric import W_0
from assignadd.paper.theory.theorem import fitted_constant, grid_checks

S = Setting(5, 7, 2, 0.3)


def summed_gradient(s: Setting) -> torch.Tensor:
    """nabla L(W_0), from the sum over every sequence."""
    W = W_0(s).dense().requires_grad_()
    return torch.autograd.grad(population_loss(s, W), W)[0]


def test_the_terms_are_the_displayed_matrices():
    s = Setting(N=5, T=6, V=2)
    one = torch.eye(s.d, dtype=torch.float64)
    p, copied = one[: s.T], one[s.copied]
    memory = sum(torch.outer(c, c + p[-1]) for c in copied)
    lowered = -(2 * s.rho_1 - 1) * torch.outer(p[-2], s.V * p[-1] + copied.sum(0))
    assert torch.equal(theorem.memory(s).dense(), memory)
    assert torch.allclose(theorem.attenuation(s).dense(), lowered)
    step = -theorem.eta(s) * summed_gradient(s)
    assert torch.allclose(theorem.remainder(s).dense(), step - memory - lowered, atol=1e-10)


@pytest.mark.parametrize("s", [Setting(59, 16, 12, 1e-9), Setting(199, 256, 4, 1e-9)])
def test_the_remainder_by_hand(s):
    """As alpha vanishes: the row p_{T-2} has -2 rho_2 V in column p_T and -2 rho_2 in each of the V others."""
    assert theorem.check(s).remainder == pytest.approx(4 * s.V * s.rho_2, rel=1e-6)


def test_the_softmax_part_vanishes_with_alpha():
    parts = [theorem.check(Setting(59, 16, 12, alpha)).softmax_part for alpha in (1e-3, 1e-5)]
    assert parts[1] == pytest.approx(parts[0] / 100, rel=1e-2) and parts[1] > 0


def test_what_dominates_the_update():
    for V in (1, 2, 12):
        s = Setting(9973, 1 << 24, V, 1e-12)
        # squared norms: V^2 + V of the attenuation, 2 V of the memory
        expected = math.sqrt(2 * V) / math.sqrt(V * V + 3 * V)
        assert theorem.update(s).cosine(theorem.memory(s)) == pytest.approx(expected, abs=1e-3)
        assert theorem.check(s).attenuation == pytest.approx(2 * V, abs=1e-3)


def test_the_grid_and_its_constant():
    checks = grid_checks(N=(13, 199), T=(64, 256), V=(2, 20), alpha=(1e-6, 1e-4))
    assert len(checks) == 12  # V = 20 does not fit N = 13
    assert fitted_constant(checks) == max(
        c.remainder / (c.s.V * (1 / c.s.N + 1 / c.s.T + c.s.T * c.s.alpha)) for c in checks
    )
    assert max(c.remainder * c.s.T / c.s.V for c in checks) == pytest.approx(4, rel=0.05)  # of order V/T


def test_the_direction_at_larger_alpha():
    s = Setting(5, 6, 3, 1e-3, 1.3)
    settings = (Setting(5, 6, 3, alpha, 1.3) for alpha in (8.0, 1e-7))
    large, small = (summed_gradient(x).flatten() for x in settings)
    expected = float(torch.cosine_similarity(large, small, dim=0))
    assert theorem.direction_cosine(s, 8.0) == pytest.approx(expected, abs=1e-6)
    assert theorem.direction_cosine(s, 8.0) < 0.95 < 0.999 < theorem.direction_cosine(s, 0.1)


@pytest.mark.parametrize("N", [2, 5, 8])
def test_the_mlps_identities(N):
    assert theorem.addition_error(N) < 1e-12 and theorem.gradient_error(N) < 1e-12


def test_the_identities_notice_a_wrong_mlp(monkeypatch):
    v, u = setting.fourier(5)
    monkeypatch.setattr(setting, "fourier", lambda N: (v, u.roll(1, 0)))
    assert theorem.addition_error(5) > 0.9 and theorem.gradient_error(5) > 0.9


def test_the_bounds_by_hand():
    """n = m puts all of (rho_1 + rho_2)^2 on one k; its neighbours are 0."""
    b, peak = theorem.bounds(S), (S.rho_1 + S.rho_2) ** 2
    assert (b.v_x, b.M, b.grad_M) == pytest.approx((1, peak, 2 * (S.rho_1 + S.rho_2)))
    top = math.exp(S.alpha * peak) / (math.exp(S.alpha * peak) + S.N - 1) - 1 / S.N
    assert b.r == pytest.approx(top * S.N / math.expm1(2 * S.alpha))
    assert b.expansion < 1e-14 and b.sigma_spread < 1e-14


def displayed_gradient(s, W):
    """nabla L(W) by the first display of the proof: alpha sum_k E[(p_k - 1{y=k}) A_k]."""
    total = []
    for _, X, y in setting.one_variable_sequences(s):
        off = setting.F_alpha(s, X, W).softmax(-1) - torch.nn.functional.one_hot(y, s.N)
        total.append(s.alpha * torch.einsum("bk,bkd,be->de", off, theorem.A_k(s, X, W), X[:, -1]) / len(y))
    return torch.stack(total).mean(0)


def test_the_first_display_is_the_derivative_of_the_loss():
    """At a random matrix, which has no symmetry, and at W_0."""
    s = Setting(5, 5, 2, 3.0)
    random = torch.randn(s.d, s.d, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    for W in (random, W_0(s).dense()):
        free = W.clone().requires_grad_()
        (derived,) = torch.autograd.grad(setting.population_loss(s, free), free)
        assert (displayed_gradient(s, W) - derived).abs().max() < 1e-12
        assert 0 < theorem.A_k(s, next(setting.one_variable_sequences(s))[1], W).abs().max() <= 4


def test_the_three_parts_of_the_gradient():
    G_1, G_2, G_3 = theorem.G(S)
    assert G_1.abs().max() < 1e-15 and G_2.abs().max() < 1e-15
    # An untrained prediction is uniform: with alpha this small, nabla L / alpha is G_3 but for r.
    tiny = Setting(S.N, S.T, S.V, 1e-9)
    assert torch.allclose(G_3, symmetric.gradient(tiny).dense() / tiny.alpha, atol=1e-8)
    assert float(G_3[S.T - 2, S.T - 1]) == pytest.approx(-2 * S.rho_1 * S.rho_2 * (S.N - 1) / S.N * (1 - 2 * S.rho_1))


def test_the_numbers_of_a_small_setting():
    """Every exact statement deviates by rounding only."""
    p = theorem.proof_numbers(S)
    assert max(p.addition_error, p.gradient_error, p.G_1, p.G_2, p.G_3_error) < 1e-12
    step = -theorem.eta(S) * S.alpha * theorem.G(S)[2]
    small_terms = step - theorem.memory(S).dense() - theorem.attenuation(S).dense()
    assert p.G_3_columns == pytest.approx(float(small_terms[:, S.copied].abs().max())) and p.G_3_columns > 0.1
    wrong = theorem.G(Setting(S.N, S.T, S.V, S.alpha, 1.0))[2]  # at another beta G_3 is another matrix
    assert (wrong - theorem.G(S)[2]).abs().max() > 1e-3
