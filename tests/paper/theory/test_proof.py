"""The proof's statements as numbers: right where it is right, and able to tell where it would be wrong."""

import math

import pytest
import torch

from assignadd.paper.theory import proof
from assignadd.paper.theory.setting import W_0, F_alpha, Setting, fourier, one_variable_sequences, population_loss

S = Setting(5, 7, 2, 0.3)


def test_identities_deviate_by_rounding_only():
    numbers = proof.proof_numbers(S)
    assert max(numbers.mlp, numbers.expansion, numbers.gradient) < 1e-12 and numbers.bounded == pytest.approx(1)
    assert all(proof.mlp_error(N) < 1e-12 for N in (2, 5, 8))


def test_they_notice_a_wrong_mlp_and_a_wrong_start(monkeypatch):
    _, X, _ = next(one_variable_sequences(S))
    other = S.at(1.0)  # at another beta rho_1 and rho_2 are others
    assert (proof.A_k(S, X, W_0(S)) - proof.expanded_A_k(other, X, W_0(S), 0)).abs().max() > 1e-2
    v, u = fourier(5)
    monkeypatch.setattr("assignadd.paper.theory.setting.fourier", lambda N: (v, u.roll(1, 0)))
    assert proof.mlp_error(5) > 0.9


def test_the_bounds_by_hand():
    """n = m puts all of (rho_1 + rho_2)^2 on one k; |v_j^T Phi_2 x_t| alone reaches its bound."""
    _, X, _ = next(one_variable_sequences(S))
    assert proof.largest_over_bound(S, X, W_0(S)) == pytest.approx(1)
    without_numbers = X.clone()
    without_numbers[:, 0, S.number] = 0
    without_numbers[:, -2, S.number] /= 2
    # Left: 1/2 of |v_j^T Phi_2 x|, less in the others, which are quadratic.
    assert proof.largest_over_bound(S, without_numbers, W_0(S)) == pytest.approx(0.5)


def test_the_first_display_is_the_derivative_of_the_loss():
    """nabla L(W) = alpha sum_k E[(p_k - 1{y=k}) A_k], at a random matrix, which has no symmetry."""
    s = Setting(5, 5, 2, 3.0)
    W = torch.randn(s.d, 1 + s.V, generator=torch.Generator().manual_seed(3), dtype=torch.float64).requires_grad_()
    (derived,) = torch.autograd.grad(population_loss(s, W), W)
    W = W.detach()
    total = []
    for _, X, y in one_variable_sequences(s):
        off = F_alpha(s, X, W).softmax(-1) - torch.nn.functional.one_hot(y, s.N)
        total.append(s.alpha * torch.einsum("bk,bkd,be->de", off, proof.A_k(s, X, W), X[:, -1, s.query]) / len(y))
    assert (torch.stack(total).mean(0) - derived).abs().max() < 1e-12
    assert math.isfinite(float(derived.abs().max()))
