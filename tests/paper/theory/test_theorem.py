"""The closed form is the gradient of the loss over every sequence; the theorem's terms are the matrices it displays."""

import math

import pytest
import torch

from assignadd.paper.theory import theorem
from assignadd.paper.theory.theorem import W_0, Setting
from tests.paper.theory.appendix import population_loss, query

SETTINGS = [Setting(5, 6, 3, 0.5), Setting(6, 5, 2, 0.1, 1.3), Setting(2, 5, 2, 1.0), Setting(4, 7, 4, 30.0)]


def summed_gradient(s: Setting) -> torch.Tensor:
    """nabla L(W_0), from the sum over every sequence."""
    W = W_0(s).requires_grad_()
    return torch.autograd.grad(population_loss(s, W), W)[0]


@pytest.mark.parametrize("s", SETTINGS, ids=str)
def test_the_closed_form_is_the_gradient(s):
    expected = summed_gradient(s)
    assert (theorem.gradient(s) - expected).abs().max() < 1e-12 * expected.abs().max()


def test_the_matrices_are_those_displayed():
    """By outer products in the whole basis; all other columns are 0."""
    s = Setting(N=5, T=6, V=2)
    basis = torch.eye(s.d, dtype=torch.float64)
    p, copied = basis[: s.T], basis[s.copied]
    start = math.log(6) * torch.outer(p[-3] + p[-2] + basis[s.number].sum(0), p[-1])
    memory = sum(torch.outer(c, c + p[-1]) for c in copied)
    lowered = -(2 * s.rho_1 - 1) * torch.outer(p[-2], s.V * p[-1] + copied.sum(0))
    for matrix, displayed in ((W_0(s), start), (theorem.memory(s), memory), (theorem.attenuation(s), lowered)):
        whole = torch.zeros(s.d, s.d, dtype=torch.float64)
        whole[:, query(s)] = matrix
        assert torch.allclose(whole, displayed, atol=1e-14)
    step = -theorem.eta(s) * summed_gradient(s)
    expected = step - memory[:, query(s)] - lowered[:, query(s)]
    assert torch.allclose(theorem.remainder(s), expected, atol=1e-10)
    assert torch.allclose(theorem.after_step(s, 0.5), W_0(s) + step / 2, atol=1e-10)


@pytest.mark.parametrize("s", [Setting(59, 16, 12, 1e-9), Setting(199, 256, 4, 1e-9)], ids=str)
def test_the_remainder_by_hand(s):
    """As alpha vanishes: the row p_{T-2} has -2 rho_2 V in column p_T and -2 rho_2 in each of the V others."""
    assert theorem.check(s).remainder == pytest.approx(4 * s.V * s.rho_2, rel=1e-6)


@pytest.mark.parametrize("V", [1, 12])
def test_what_dominates_the_update(V):
    """Squared norms: V^2 + V of the attenuation, 2 V of the memory."""
    s = Setting(997, 1 << 14, V, 1e-12)
    update = theorem.after_step(s) - W_0(s)
    cosine = torch.cosine_similarity(update.flatten(), theorem.memory(s).flatten(), dim=0)
    assert float(cosine) == pytest.approx(math.sqrt(2 * V) / math.sqrt(V * V + 3 * V), abs=0.01)
    assert theorem.check(s).attenuation == pytest.approx(2 * V * (2 * s.rho_1 - 1))


def test_the_grid_and_its_constant():
    checks = theorem.grid_checks()
    assert len(checks) == 6**4
    ratios = [c.remainder / (c.s.V * (1 / c.s.N + 1 / c.s.T + c.s.T * c.s.alpha)) for c in checks]
    assert [c.constant for c in checks] == pytest.approx(ratios)
    small = [c for c in checks if c.s.T >= 64 and c.s.alpha <= 1e-4]
    assert max(c.remainder * c.s.T / c.s.V for c in small) == pytest.approx(4, rel=0.05)  # of order V/T


def test_the_constant_over_beta():
    """It is that of the least beta on the grid that meets the conditions, and falls as T grows."""
    constants = theorem.constants_over_beta(2)
    assert constants[4096] < constants[1024] < constants[64]
    least = next(b / 4 for b in range(1, 60) if Setting(T=64, beta=b / 4).meets_conditions)
    assert constants[64] == pytest.approx(theorem.check(Setting(499, 64, 2, 1e-9, least)).constant)
