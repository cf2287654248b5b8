"""The proof's statements as numbers: right where it is right, and able to tell where it would be wrong."""

import math

import pytest
import torch

from assignadd.paper.theory import proof, setting, symmetric
from assignadd.paper.theory.setting import Setting

S = Setting(5, 7, 2, 0.3)


@pytest.mark.parametrize("N", [2, 5, 8])
def test_the_mlps_identities(N):
    assert proof.addition_error(N) < 1e-12 and proof.gradient_error(N) < 1e-12


def test_the_identities_notice_a_wrong_mlp(monkeypatch):
    v, u = setting.fourier(5)
    monkeypatch.setattr(setting, "fourier", lambda N: (v, u.roll(1, 0)))
    assert proof.addition_error(5) > 0.9 and proof.gradient_error(5) > 0.9


def test_the_bounds_by_hand():
    """n = m puts all of (rho_1 + rho_2)^2 on one k; its neighbours are 0."""
    b, peak = proof.bounds(S), (S.rho_1 + S.rho_2) ** 2
    assert (b.v_x, b.M, b.grad_M) == pytest.approx((1, peak, 2 * (S.rho_1 + S.rho_2)))
    top = math.exp(S.alpha * peak) / (math.exp(S.alpha * peak) + S.N - 1) - 1 / S.N
    assert b.r == pytest.approx(top * S.N / math.expm1(2 * S.alpha))
    assert b.expansion < 1e-14 and b.sigma_spread < 1e-14


def displayed_gradient(s, W):
    """nabla L(W) by the first display of the proof: alpha sum_k E[(p_k - 1{y=k}) A_k]."""
    total = []
    for _, X, y in setting.one_variable_sequences(s):
        off = setting.F_alpha(s, X, W).softmax(-1) - torch.nn.functional.one_hot(y, s.N)
        total.append(s.alpha * torch.einsum("bk,bkd,be->de", off, proof.A_k(s, X, W), X[:, -1]) / len(y))
    return torch.stack(total).mean(0)


def test_the_first_display_is_the_derivative_of_the_loss():
    """At a random matrix, which has no symmetry, and at W_0."""
    s = Setting(5, 5, 2, 3.0)
    random = torch.randn(s.d, s.d, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    for W in (random, symmetric.W_0(s).dense()):
        free = W.clone().requires_grad_()
        (derived,) = torch.autograd.grad(setting.population_loss(s, free), free)
        assert (displayed_gradient(s, W) - derived).abs().max() < 1e-12
        assert 0 < proof.A_k(s, next(setting.one_variable_sequences(s))[1], W).abs().max() <= 4


def test_the_three_parts_of_the_gradient():
    G_1, G_2, G_3 = proof.G(S)
    assert G_1.abs().max() < 1e-15 and G_2.abs().max() < 1e-15
    # An untrained prediction is uniform: with alpha this small, nabla L / alpha is G_3 but for r.
    tiny = Setting(S.N, S.T, S.V, 1e-9)
    assert torch.allclose(G_3, symmetric.gradient(tiny).dense() / tiny.alpha, atol=1e-8)
    assert float(G_3[S.T - 2, S.T - 1]) == pytest.approx(-2 * S.rho_1 * S.rho_2 * (S.N - 1) / S.N * (1 - 2 * S.rho_1))


def test_the_numbers_of_a_small_setting():
    """Every exact statement deviates by rounding only."""
    p = proof.proof_numbers(S)
    assert max(p.addition_error, p.gradient_error, p.G_1, p.G_2, p.G_3_error) < 1e-12
    wrong = proof.G(Setting(S.N, S.T, S.V, S.alpha, 1.0))[2]  # at another beta G_3 is another matrix
    assert (wrong - proof.G(S)[2]).abs().max() > 1e-3
