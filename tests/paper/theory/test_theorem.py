"""The theorem's terms are the matrices it displays; the remainder is what a hand calculation leaves over."""

import math

import pytest
import torch

from assignadd.paper.theory import theorem
from assignadd.paper.theory.setting import Setting, population_loss
from assignadd.paper.theory.symmetric import W_0
from assignadd.paper.theory.theorem import fitted_constant, grid_checks, growth, term_weights


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
    assert theorem.check(s).largest_entry == pytest.approx(2 * s.V * s.rho_2, rel=1e-6)


def test_the_softmax_part_vanishes_with_alpha():
    parts = [theorem.check(Setting(59, 16, 12, alpha)).softmax_part for alpha in (1e-3, 1e-5)]
    assert parts[1] == pytest.approx(parts[0] / 100, rel=1e-2) and parts[1] > 0


def test_what_dominates_the_update():
    for V in (1, 2, 12):
        found = theorem.check(Setting(9973, 1 << 24, V, 1e-12))
        # squared norms: V^2 + V of the attenuation, 2 V of the memory
        assert found.cosine == pytest.approx(math.sqrt(2 * V) / math.sqrt(V * V + 3 * V), abs=1e-3)
        assert found.attenuation == pytest.approx(2 * V, abs=1e-3)


def test_the_grid_has_its_size_and_growth():
    checks = grid_checks(N=(13, 199), T=(64, 256), V=(2, 20), alpha=(1e-6, 1e-4))
    assert len(checks) == 12  # V = 20 does not fit N = 13
    assert fitted_constant(checks) == max(
        c.remainder / (c.s.V * (1 / c.s.N + 1 / c.s.T + c.s.T * c.s.alpha)) for c in checks
    )
    g = growth(checks, [c.s.N**-1.5 * c.s.T**2 * c.s.V * 3.0 for c in checks])
    assert (g.n, g.t, g.v, g.a, g.r2) == pytest.approx((-1.5, 2, 1, 0, 1), abs=1e-9)
    g = growth(checks, [c.remainder for c in checks])
    assert (g.n, g.t, g.v, g.a) == pytest.approx((0, -1, 1, 0), abs=0.05)
    a, b, c = term_weights(checks)
    assert b == pytest.approx(4, rel=0.05) and abs(a) < 0.1 and abs(c) < 0.02


def test_the_direction_at_larger_alpha():
    s = Setting(5, 6, 3, 1e-3, 1.3)
    settings = (Setting(5, 6, 3, alpha, 1.3) for alpha in (8.0, 1e-7))
    large, small = (summed_gradient(x).flatten() for x in settings)
    expected = float(torch.cosine_similarity(large, small, dim=0))
    assert theorem.direction_cosine(s, 8.0) == pytest.approx(expected, abs=1e-6)
    assert theorem.direction_cosine(s, 8.0) < 0.95 < 0.999 < theorem.direction_cosine(s, 0.1)
