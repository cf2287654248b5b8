"""Bad sizes are one line; inputs, network and MLP are the appendix's displays, entry by entry."""

import itertools
import math

import pytest
import torch

from assignadd.config import ConfigError
from assignadd.paper.theory.theorem import W_0, M, Setting
from tests.paper.theory.appendix import attention, augmented_inputs


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"N": 5, "V": 6}, ["theory.V = 6", "from 1 to theory.N = 5"]),
        ({"T": 3}, ["theory.T = 3", "from 4"]),
        ({"alpha": math.nan}, ["theory.alpha = nan", "above 0"]),
        ({"beta": 0.0}, ["theory.beta = 0.0", "above 0"]),
    ],
)
def test_bad_sizes_are_one_line(sizes, words):
    with pytest.raises(ConfigError) as error:
        Setting(**sizes)
    assert all(word in str(error.value) for word in words) and "\n" not in str(error.value)


def test_inputs_are_the_appendix_display():
    s = Setting(N=5, T=7, V=3)
    tau, v, n, m = torch.tensor([[1, 3]]), torch.tensor([[2, 0]]), torch.tensor([[4, 1]]), torch.tensor([3])
    (X,) = augmented_inputs(s, tau, v, n, m)
    p, e, pad, var, copied = 0, 7, 12, 13, 16  # where each group of the basis begins
    ones = [{p, pad}, {p + 1, e + 4, copied + 2}, {p + 2, pad}, {p + 3, e + 1, copied},
            {p + 4, var + 2}, {p + 5, e + 3}, {p + 6, copied + 2}]  # fmt: skip
    assert s.d == 19 and [set(row.nonzero().flatten().tolist()) for row in X] == ones
    assert X.sum() == sum(map(len, ones))


@pytest.mark.parametrize("beta", [None, 0.7])
def test_attention_at_the_start(beta):
    """Scores by hand: 2 beta for the second operand, beta for the assignment and the first operand, 0 elsewhere."""
    s = Setting(N=6, T=8, V=2, beta=beta)
    X = augmented_inputs(s, torch.tensor([[2]]), torch.tensor([[1]]), torch.tensor([[5]]), torch.tensor([5]))
    b = math.log(8) if beta is None else beta
    weights = [math.exp(x) for x in (0, 0, b, 0, 0, b, 2 * b, 0)]
    sigma = attention(s, X, W_0(s))[0].tolist()
    assert sigma == pytest.approx([w / sum(weights) for w in weights])
    assert (sigma[6], sigma[2], sigma[0]) == pytest.approx((s.rho_1, s.rho_2, s.rho_3))


def test_the_conditions_by_hand():
    for beta in (0.8, 1.0, 2.0, math.log(16), 4.0, 4.2):
        e = math.exp(beta)
        Z = e * e + 2 * e + 13  # second operand, first operand and assignment, 13 keys of score 0
        expected = e * e / Z >= 1 / 4 and 1 / 4 <= 16 * e / Z <= 4
        assert Setting(beta=beta).meets_conditions == expected == (0.9 < beta < 4.1)


@pytest.mark.parametrize("N", [2, 5, 6])
def test_the_mlp_is_a_convolution(N):
    z = torch.rand(N, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    expected = torch.zeros(N, dtype=torch.float64)
    for a, b in itertools.product(range(N), repeat=2):
        expected[(a + b) % N] += z[a] * z[b]
    assert torch.allclose(M(z), expected, atol=1e-12)


@pytest.mark.parametrize("N", [2, 5, 6])
def test_the_mlp_is_the_appendix_display(N):
    """M_k(z) = (1/N) sum_j u_{k,j} (v_j^T z)^2 with the waves v_j and u_j, and M_k(e_n + e_m) adds mod N."""
    jk = torch.outer(torch.arange(N), torch.arange(N)).double()
    v = torch.exp(2j * math.pi * jk / N)  # (j, n)
    u = torch.exp(-2j * math.pi * jk / N)  # (k, j)
    z = torch.rand(7, N, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    assert torch.allclose(M(z), ((z.to(v.dtype) @ v.T) ** 2 @ u.T / N).real, atol=1e-12)
    e, k = torch.eye(N, dtype=torch.float64), torch.arange(N)
    for n, m in itertools.product(range(N), repeat=2):
        expected = 2.0 * (k == (n + m) % N) + 1.0 * (k == 2 * n % N) + 1.0 * (k == 2 * m % N)
        assert torch.allclose(M(e[n] + e[m]), expected.double(), atol=1e-12)
