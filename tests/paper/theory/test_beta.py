"""The scan over beta: its shortcuts are the full calculation, and its intervals are where the full calculation says."""

import math

import numpy as np
import pytest

from assignadd.paper.theory import beta as b
from assignadd.paper.theory import composition, symmetric, theorem
from assignadd.paper.theory.setting import Setting

S = Setting(N=13, T=10, V=4)


@pytest.mark.parametrize(
    "s", [Setting(), Setting(13, 9, 3, 0.5, 1.2), Setting(8, 4, 1, 2.0, 0.3), Setting(59, 64, 12, 1e-3, 14.0)], ids=str
)
def test_the_lead_in_plain_numbers(s):
    found = b.lead_change(s, np.array([s.actual_beta, s.actual_beta + 1]))
    expected = [composition.operand_lead(theorem.update(x)) for x in (s, s.at(s.actual_beta + 1))]
    assert found == pytest.approx(expected, rel=1e-9)


def test_intervals_of_a_known_function():
    grid = np.arange(1, 70) / 10
    expected = [pytest.approx((0.1, math.pi), abs=1e-9), pytest.approx((2 * math.pi, 6.9), abs=1e-9)]
    assert b.intervals(np.sin, grid) == expected
    assert b.intervals(lambda x: 0 * x - 1, grid) == [] and b.intervals(lambda x: 0 * x + 1, grid) == [(0.1, 6.9)]
    assert b.intervals(np.cos, grid) == [(0.1, pytest.approx(math.pi / 2)), (pytest.approx(3 * math.pi / 2), 6.9)]
    assert b.intersection([(0, 2), (3, 5)], [(1, 4)]) == [(1, 2), (3, 4)]


def test_the_conditions_by_hand():
    ((low, high),) = b.condition_intervals(Setting())
    expected = {low - 0.02: False, low + 0.02: True, math.log(16): True, high - 0.02: True, high + 0.02: False}
    for beta, met in expected.items():
        e = math.exp(beta)
        Z = e * e + 2 * e + 13  # second operand, first operand and assignment, 13 keys of score 0
        assert (e * e / Z >= 1 / 4 and 1 / 4 <= 16 * e / Z <= 4) == met, beta


@pytest.mark.parametrize("s", [S, Setting()], ids=str)
def test_the_stated_step_composes_inside_the_intervals_only(s):
    found = b.composing_intervals(s)
    assert len(found) == 2
    for low, high in found:
        middle = (low + high) / 2
        expected = {low - 0.01: False, low + 0.01: True, middle: True, high - 0.01: True, high + 0.01: False}
        for beta, right in expected.items():
            accuracy = composition.composition(composition.after_step(s.at(beta)), 1, draws=300).accuracy
            assert (accuracy == 1) == right and (right or accuracy < 0.2), beta


def test_large_beta_leaves_v_plus_three():
    """rho_1 = 1 and no remainder: the lead is beta - (V + 1) - 2, up to the prefix's share 1/(T - 3)."""
    # rho_1 > 1/2 needs e^beta > sqrt T, and then beta > V + 3
    assert b.composing_intervals(Setting(9973, 1 << 40, 3, 1e-12)) == []
    s = Setting(9973, 1 << 10, 9, 1e-12)
    low, high = b.composing_intervals(s)[-1]
    assert (low + high) / 2 == pytest.approx(s.V + 3, abs=0.05)
    assert high - low == pytest.approx(2 * math.log(2), abs=0.02)


def test_the_bound_needs_e_beta_of_order_T():
    assert [b.remainder_exponent(12, g) for g in (0.5, 0.75, 1.0, 1.5)] == pytest.approx([1, 0.5, 0, 0], abs=0.01)
    constants = b.condition_constants(12, 2.0)
    assert max(constants.values()) < 20 and constants[4096] < constants[64]
    assert max(b.condition_constants(12, 4.0).values()) > max(constants.values())


def test_the_least_remainder_depends_on_the_sizes():
    paper, few = b.least_remainder(Setting()), b.least_remainder(Setting(59, 64, 2))
    assert paper.remainder == pytest.approx(theorem.check(Setting().at(paper.beta)).remainder / 2)
    assert paper.remainder > 5 and few.remainder < 0.1
    lead = composition.operand_lead(composition.after_step(few.s.at(few.beta)))
    assert abs(lead) <= math.log(2) + 1e-9
    assert b.least_remainder(Setting(59, 1 << 14, 2)).remainder == math.inf  # T far above e^(V+3): no beta is left


def test_the_scan():
    scan = b.beta_scan(S, 10)
    assert scan.most == 4 and scan.stated_one.found.accuracy == 1 and scan.stated_one.length == 1
    assert scan.any_length_many.found.accuracy >= scan.here_many.found.accuracy
    low, high = scan.conditions[0]
    assert low <= scan.any_length_many.beta <= high and scan.here_many.beta == pytest.approx(math.log(10))
    for p in scan.points:
        inside = any(lower <= p.beta <= upper for lower, upper in scan.composing)
        assert (p.stated[0] == 1) == inside and p.check.s.beta == pytest.approx(p.beta)
        if p.length is not None:
            W = composition.after_step(p.check.s, p.length)
            assert p.balanced[0] == 1 and composition.operand_lead(W) == pytest.approx(0, abs=1e-8)
    a = composition.attention(composition.after_step(scan.points[3].check.s), 2)
    assert scan.points[3].preference == pytest.approx(float(a.target / a.distractor))


def test_attention_at_the_start():
    s = Setting(N=11, T=12, V=6, beta=1.7)
    for K in (1, 3, 6):
        assert b.constant_attention(s, K) == pytest.approx(float(composition.attention(symmetric.W_0(s), K).second))
        assert b.constant_attention(s.at(b.focusing_beta(s, K)), K) == pytest.approx(0.5)
    assert b.constant_attention(s, 1) == pytest.approx(s.rho_1)


def test_intervals_in_words():
    assert b.listed([(1.466, 1.61), (15.31, 16.688)]) == "1.47 to 1.61 and 15.31 to 16.69"
    assert b.listed([]) == "none"
