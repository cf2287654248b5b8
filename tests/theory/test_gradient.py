"""The MLP adds; the population gradient by sums, by closed form, by autograd and by finite differences is one matrix."""

import itertools

import pytest
import torch

from assignadd.theory import network, symmetric
from assignadd.theory.network import population_gradient, population_loss
from assignadd.theory.setting import W_0, Setting

SETTINGS = [Setting(5, 6, 3, 0.5), Setting(6, 5, 2, 0.1, 1.3), Setting(7, 4, 1, 2.0), Setting(2, 5, 2, 1.0), Setting(4, 7, 4, 30.0)]


@pytest.mark.parametrize("N", [2, 5, 6])
def test_the_mlp_is_a_convolution(N):
    z = torch.rand(N, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    expected = torch.zeros(N, dtype=torch.float64)
    for a, b in itertools.product(range(N), repeat=2):
        expected[(a + b) % N] += z[a] * z[b]
    assert torch.allclose(network.M(N, z), expected.to(torch.complex128), atol=1e-12)


def test_the_gradient_of_the_mlp_is_its_derivative():
    N, z = 5, torch.rand(5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(lambda x: network.M(N, x).real, z)
    assert torch.allclose(network.grad_M(N, z), jacobian.to(torch.complex128), atol=1e-12)


@pytest.mark.parametrize("s", SETTINGS, ids=str)
def test_four_ways_to_the_gradient_agree(s):
    W = W_0(s)
    summed, closed = population_gradient(s, W), symmetric.gradient(s).dense()
    free = W.clone().requires_grad_()
    (derived,) = torch.autograd.grad(population_loss(s, free), free)
    scale = derived.abs().max()
    assert (summed - derived).abs().max() < 1e-12 * scale and (closed - derived).abs().max() < 1e-12 * scale
    step = 1e-5
    entries = torch.randint(s.d, (6, 2), generator=torch.Generator().manual_seed(2)).tolist()
    entries += [(s.T - 2, s.T - 1), (s.copied.start, s.copied.start), (s.pad, s.T - 1)]
    for i, j in entries:
        nudge = torch.zeros_like(W)
        nudge[i, j] = step
        difference = (population_loss(s, W + nudge) - population_loss(s, W - nudge)) / (2 * step)
        assert float(difference) == pytest.approx(float(derived[i, j]), abs=1e-8 * float(scale) + 1e-10)


def test_the_gradient_away_from_the_start():
    """No symmetry to lean on: the summed formula against autograd at a random matrix."""
    s = Setting(5, 5, 2, 3.0)
    W = torch.randn(s.d, s.d, generator=torch.Generator().manual_seed(3), dtype=torch.float64).requires_grad_()
    (derived,) = torch.autograd.grad(population_loss(s, W), W)
    assert (population_gradient(s, W.detach()) - derived).abs().max() < 1e-12


def test_symmetric_matrices_measure_like_the_full_ones():
    s = Setting(6, 7, 3)
    g = torch.Generator().manual_seed(4)
    a, b = (symmetric.Symmetric(s, *(torch.randn(shape, generator=g, dtype=torch.float64) for shape in ((6, 2), (2, 3)))) for _ in "ab")
    A, B = a.dense(), b.dense()
    assert a.infinity_norm() == pytest.approx(float(torch.linalg.matrix_norm(A, torch.inf)))
    assert a.largest_entry() == pytest.approx(float(A.abs().max()))
    assert a.dot(b) == pytest.approx(float((A * B).sum())) and a.frobenius() == pytest.approx(float(A.norm()))
    assert torch.allclose((a * 2 - b).dense(), 2 * A - B) and torch.equal(symmetric.W_0(s).dense(), W_0(s))
