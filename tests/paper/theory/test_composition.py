"""Attention and answers with several assignments are the full model's; the scan over beta is what they imply."""

import math

import pytest
import torch

from assignadd.config import ConfigError
from assignadd.paper.theory import composition as c
from assignadd.paper.theory.theorem import W_0, Setting, after_step, check
from tests.paper.theory.appendix import F_alpha, attention, augmented_inputs

SMALL = Setting(N=13, T=10, V=4)


def test_attention_and_accuracy_are_the_full_models():
    """On random sequences, with assignments of any variables anywhere in the prefix."""
    s = Setting(N=7, T=9, V=4)
    W = after_step(s, 0.3)
    generator = torch.Generator().manual_seed(0)
    K, B = 3, 4000
    tau = torch.rand(B, s.T - 3, generator=generator).argsort(1)[:, :K]
    v = torch.rand(B, s.V, generator=generator).argsort(1)[:, :K]
    n, m = torch.randint(7, (B, K), generator=generator), torch.randint(7, (B,), generator=generator)
    X = augmented_inputs(s, tau, v, n, m)
    sigma, expected = attention(s, X, W), c.attention_with(s, W, K)
    assert torch.allclose(sigma.gather(1, tau), expected[:K].expand(B, -1))
    assert torch.allclose(sigma[:, -3:], expected[-3:].expand(B, -1))
    right = (F_alpha(s, X, W).argmax(1) == (n[:, 0] + m) % 7).double().mean()
    assert 0.2 < right < 0.9 and c.accuracy(s, W, K).value == pytest.approx(float(right), abs=0.04)


@pytest.mark.parametrize(("lead", "right"), [(0.0, 1.0), (0.6, 1.0), (-0.6, 1.0), (0.8, 0.0), (-0.8, 0.0)])
def test_the_answer_needs_comparable_attention(lead, right):
    """2 c_n c_m is larger than c_n^2 and c_m^2 within a factor 2 (log 2 = .69); beyond it only n = m is answered."""
    s = Setting(N=11, T=8, V=2)
    W = torch.zeros(s.d, 3, dtype=torch.float64)
    W[s.T - 2, 0] = 5 + lead
    W[s.copied, 1:] = 5 * torch.eye(2)
    assert c.accuracy(s, W, 1, draws=5000).value == pytest.approx(right or 1 / 11, abs=0.02)
    assert c.operand_lead(s, W) == pytest.approx(lead)


def test_a_balanced_step_gives_both_operands_the_same_attention():
    s = Setting()
    W = after_step(s, c.required_balance(s))
    for K in (1, 3):
        sigma = c.attention_with(s, W, K)
        assert sigma[0] == pytest.approx(float(sigma[s.T - 2]))
    with pytest.raises(ConfigError, match=r"theory\.beta = 0\.5"):
        c.required_balance(Setting(beta=0.5))


def test_the_points_over_beta():
    points = c.beta_points(SMALL)
    default = next(p for p in points if p.beta == math.log(10))
    assert default.check.remainder == pytest.approx(check(SMALL).remainder)
    for p in points:
        # the stated step composes where the attention differs by less than a factor 2
        assert p.composes == (abs(c.operand_lead(p.s, after_step(p.s))) < math.log(2)), p.beta
        assert math.isnan(p.balanced[0]) if p.length is None else p.balanced[0] == 1
    composing = c.beta_in_words(points, [p.composes for p in points])
    assert composing.count(" to ") == 2 and c.beta_in_words(points, [False] * len(points)) == "none"


@pytest.mark.parametrize(("away", "composes"), [(0.0, True), (0.6, True), (-0.6, True), (0.8, False), (-0.8, False)])
def test_large_beta_leaves_v_plus_three(away, composes):
    """For large T and rho_1 = 1, the lead after the stated step is beta - (V + 1) - 2."""
    s = Setting(199, 1 << 10, 9, 1e-12, beta=9 + 3 + away)
    assert c.operand_lead(s, after_step(s)) == pytest.approx(away, abs=0.05)
    assert (c.accuracy(s, after_step(s), 1, draws=300).value == 1) == composes


def test_accuracy_has_its_interval():
    measured = c.accuracy(SMALL, W_0(SMALL), 4)
    assert measured.low < measured.value < measured.high and measured.n == 20_000
