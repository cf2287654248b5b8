"""The theorem's remainder by brute force, compared with finite differences of the loss and the closed form."""

import numpy as np
import pytest

from assignadd.paper.theory.theorem import Setting, check
from assignadd.paper.theory.theorem import remainder as closed_form
from tests.independent import theorem
from tests.independent.theorem import Sizes
from tests.paper.theory.appendix import query

SIZES = [
    Sizes(N=5, T=6, V=2, alpha=1e-3, beta=np.log(6)),
    Sizes(N=6, T=5, V=3, alpha=0.3, beta=1.0),  # an even N, a large alpha
    Sizes(N=7, T=8, V=3, alpha=0.01, beta=np.log(8)),
    Sizes(N=5, T=12, V=1, alpha=1e-4, beta=3.0),
]


def test_mlp_adds():
    """M_k(e_n + e_m) = 2 1{k = n + m} + 1{k = 2n} + 1{k = 2m}."""
    s, k = SIZES[0], np.arange(5)
    for n in range(5):
        for m in range(5):
            M = theorem.readouts(s) @ (theorem.waves(s) @ (s.e(n) + s.e(m))) ** 2 / s.N
            expected = 2.0 * (k == (n + m) % 5) + (k == 2 * n % 5) + (k == 2 * m % 5)
            np.testing.assert_allclose(M, expected, atol=1e-12)


def test_gradient_is_that_of_the_loss():
    s = Sizes(N=3, T=5, V=2, alpha=0.7, beta=1.2)
    W = theorem.W_0(s) + np.random.default_rng(0).normal(size=(s.d, s.d), scale=0.3)
    gradient = theorem.population_gradient(s, W)
    for seed in range(4):
        direction = np.random.default_rng(seed).normal(size=W.shape)
        above, below = (theorem.population_loss(s, W + h * direction) for h in (1e-5, -1e-5))
        assert (gradient * direction).sum() == pytest.approx((above - below) / 2e-5, rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("s", SIZES, ids=str)
def test_remainder_is_the_packages(s):
    found, setting = theorem.remainder(s), Setting(N=s.N, T=s.T, V=s.V, alpha=s.alpha, beta=s.beta)
    # Both use the same order of coordinates: p_t, e_n, e_pad, e_v, Phi_1 e_v; the package has the query's alone.
    ours = np.zeros_like(found)
    ours[:, query(setting)] = closed_form(setting).numpy()
    np.testing.assert_allclose(found, ours, atol=1e-8)
    assert check(setting).remainder == pytest.approx(theorem.infinity_norm(found), rel=1e-6)
    assert check(setting).bound == pytest.approx(theorem.bound(s))


@pytest.mark.parametrize("s", [s for s in SIZES if s.alpha < 0.1], ids=str)
def test_memory_is_in_the_update(s):
    """At the entries (Phi_1 e_v, Phi_1 e_v) the update is 1, as in the memory, minus 2 (rho_2 + rho_3), the part of
    x_bar, up to order alpha."""
    found = theorem.remainder(s)
    Z = np.exp(2 * s.beta) + 2 * np.exp(s.beta) + s.T - 3  # the softmax's sum at W_0: T-1, t* and T-2, the PADs and T
    own = [s.Phi_1_e_v(v) @ found @ s.Phi_1_e_v(v) for v in range(s.V)]
    np.testing.assert_allclose(own, -2 * (np.exp(s.beta) + 1) / Z, atol=s.V * s.T * s.alpha)
