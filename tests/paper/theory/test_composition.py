"""Several assignments in context: the reduced model is the full one, and its answers are what its attention implies."""

import itertools

import numpy as np
import pytest
import torch

from assignadd.config import ConfigError
from assignadd.paper.theory import composition as c
from assignadd.paper.theory import setting, symmetric
from assignadd.paper.theory.setting import Setting, augmented_inputs
from assignadd.paper.theory.theorem import after_step, eta


def some_matrix(s: Setting, seed: int) -> symmetric.Symmetric:
    g = np.random.default_rng(seed)
    return symmetric.Symmetric(s, g.standard_normal(18))


def test_attention_and_answers_are_the_full_models():
    s = Setting(N=7, T=9, V=4, alpha=1.0)
    W = some_matrix(s, 0)
    n, m = torch.tensor([[3, 5, 3]]), torch.tensor([6])
    X = augmented_inputs(s, torch.tensor([[4, 0, 2]]), torch.tensor([[1, 3, 0]]), n, m)
    a, sigma = c.attention(W, 3), setting.attention(X, W.dense())[0]
    expected = [a.distractor, a.pad, a.distractor, a.pad, a.target, a.pad, a.first, a.second, a.last]
    assert sigma.tolist() == pytest.approx([float(x) for x in expected])
    assert torch.allclose(c.answer_scores(W, c.values_of(s.N, n, m)), setting.F_alpha(s, X, W.dense()))


def test_the_gradient_is_the_full_models():
    """Two assignments: every place, every pair of variables, every value, by autograd on the full matrix."""
    s = Setting(N=3, T=6, V=3, alpha=2.0)
    W = some_matrix(s, 1)
    values = torch.tensor(list(itertools.product(range(3), repeat=3)))
    n, m = values[:, :2], values[:, 2]
    free, losses = W.dense().requires_grad_(), []
    for tau, v in itertools.product(itertools.permutations(range(3), 2), itertools.permutations(range(3), 2)):
        X = augmented_inputs(s, torch.tensor([tau] * len(m)), torch.tensor([v] * len(m)), n, m)
        losses.append(torch.nn.functional.cross_entropy(setting.F_alpha(s, X, free), (n[:, 0] + m) % s.N))
    full = torch.stack(losses).mean()
    (expected,) = torch.autograd.grad(full, free)
    value, found = c.loss_gradient(W, c.values_of(s.N, n, m), s.alpha)
    assert value == pytest.approx(float(full.detach())) and torch.allclose(found.dense(), expected, atol=1e-14)


def test_one_assignment_gives_the_theorems_gradient():
    s = Setting(N=5, T=8, V=2, alpha=0.7)
    n, m = (x.flatten() for x in torch.meshgrid(torch.arange(5), torch.arange(5), indexing="ij"))
    _, found = c.loss_gradient(symmetric.W_0(s), c.values_of(5, n[:, None], m), s.alpha)
    assert torch.allclose(found.dense(), symmetric.gradient(s).dense(), atol=1e-15)


@pytest.mark.parametrize(("lead", "right"), [(0.0, 1.0), (0.6, 1.0), (-0.6, 1.0), (0.8, 0.0), (-0.8, 0.0)])
def test_the_answer_needs_comparable_attention(lead, right):
    """2 c_n c_m is larger than c_n^2 and c_m^2 within a factor 2 (log 2 = .69); beyond it only n = m is answered."""
    s = Setting(N=11, T=8, V=2)
    W = symmetric.Symmetric.zeros(s)
    W.plain[symmetric.SECOND, 0], W.variable[symmetric.COPIED, 1] = 5 + lead, 5.0
    assert c.composition(W, 1, draws=5000).accuracy == pytest.approx(right or 1 / 11, abs=0.02)
    assert c.answer_probability(W, 1e5, draws=5000) == pytest.approx(right or 1 / 11, abs=0.02)
    assert c.answer_probability(W, 1.0, draws=5000) < 0.3
    assert c.operand_lead(W) == pytest.approx(lead)


def test_too_many_assignments_raise_an_error():
    with pytest.raises(ConfigError, match=r"theory.K = 4: expected a whole number from 1 to 3"):
        c.composition(symmetric.W_0(Setting(N=5, T=9, V=3)), 4)


def test_a_balanced_step_gives_both_operands_the_same_attention():
    s = Setting()
    W = after_step(s, c.required_balance(s))
    for K in (1, 3):
        assert c.attention(W, K).target == pytest.approx(c.attention(W, K).second)
    with pytest.raises(ConfigError, match=r"theory\.beta = 0\.5"):
        c.required_balance(Setting(beta=0.5))


def test_further_steps():
    s = Setting(N=11, T=8, V=4)
    start = after_step(s, c.required_balance(s))
    _, moments = c.descend(start, (1, 2, 3), (1, 3), steps=30, record_every=15, draws=300)
    assert [x.step for x in moments] == [0, 15, 30] and moments[-1].loss < moments[0].loss
    assert moments[-1].accuracy[1] > moments[0].accuracy[1] + 0.2 and moments[-1].memory > 3 * moments[-1].spurious
    # With one assignment each row Phi_1 e_v has the same gradient in its own column and in p_T.
    _, alone = c.descend(start, (1,), (1,), steps=5, draws=300)
    assert alone[-1].memory == pytest.approx(alone[-1].spurious) and alone[-1].memory != pytest.approx(alone[0].memory)
    after, _ = c.descend(start, (1, 2), (2,), steps=1, length=1e-3, draws=100, seed=5)
    one, two = (c.loss_gradient(start, c.draw_values(s.N, K, 100, 2 * (5 + K) + 1), s.alpha)[1] for K in (1, 2))
    expected = (one + two) * (0.5e-3 * eta(s))
    assert torch.allclose((start - after).dense(), expected.dense(), atol=1e-12)
