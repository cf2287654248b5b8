"""Norms and products of symmetric matrices equal those of the full ones; the closed form of the gradient is exact."""

import numpy as np
import pytest
import torch

from assignadd.paper.theory import symmetric
from assignadd.paper.theory.setting import Setting, population_loss

SIZES = [(5, 6, 3, 0.5), (6, 5, 2, 0.1, 1.3), (7, 4, 1, 2.0), (2, 5, 2, 1.0), (4, 7, 4, 30.0)]
SETTINGS = [Setting(*sizes) for sizes in SIZES]


def some_matrix(s: Setting, seed: int) -> symmetric.Symmetric:
    g = np.random.default_rng(seed)
    return symmetric.Symmetric(s, g.standard_normal(18))


@pytest.mark.parametrize("beta", [None, 0.7])
def test_the_start_is_the_displayed_matrix(beta):
    """beta (p_{T-2} + p_{T-1}) p_T^T + beta sum_n e_n p_T^T, by outer products."""
    s = Setting(N=5, T=6, V=2, beta=beta)
    one = torch.eye(s.d, dtype=torch.float64)
    keys = one[s.T - 3] + one[s.T - 2] + one[s.number].sum(0)
    expected = (np.log(6) if beta is None else beta) * torch.outer(keys, one[s.T - 1])
    assert torch.allclose(symmetric.W_0(s).dense(), expected, atol=1e-15)


@pytest.mark.parametrize("s", SETTINGS, ids=str)
def test_closed_form_autograd_and_finite_differences_agree(s):
    W = symmetric.W_0(s).dense()
    closed, parts = symmetric.gradient(s).dense(), symmetric.gradient_parts(s)
    free = W.clone().requires_grad_()
    (derived,) = torch.autograd.grad(population_loss(s, free), free)
    scale = derived.abs().max()
    assert (closed - derived).abs().max() < 1e-12 * scale
    assert torch.allclose((parts[0] + parts[1]).dense(), closed, rtol=0, atol=1e-12 * float(scale))
    step = 1e-5
    entries = torch.randint(s.d, (6, 2), generator=torch.Generator().manual_seed(2)).tolist()
    entries += [(s.T - 2, s.T - 1), (s.copied.start, s.copied.start), (s.pad, s.T - 1)]
    for i, j in entries:
        nudge = torch.zeros_like(W)
        nudge[i, j] = step
        difference = (population_loss(s, W + nudge) - population_loss(s, W - nudge)) / (2 * step)
        assert float(difference) == pytest.approx(float(derived[i, j]), abs=1e-8 * float(scale) + 1e-10)


def test_norms_and_products_equal_those_of_the_full_matrices():
    s = Setting(6, 7, 3)
    a, b = (some_matrix(s, seed) for seed in (4, 5))
    A, B = a.dense(), b.dense()
    assert a.infinity_norm() == pytest.approx(float(torch.linalg.matrix_norm(A, torch.inf)))
    assert a.dot(b) == pytest.approx(float((A * B).sum()))
    assert a.cosine(b) == pytest.approx(float((A * B).sum() / (A.norm() * B.norm())))
    assert torch.allclose((a * 2 - b).dense(), 2 * A - B)
