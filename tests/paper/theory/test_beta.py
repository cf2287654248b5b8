"""The scan over beta: its intervals are where the conditions and the answers say."""

import math

import numpy as np
import pytest

from assignadd.paper.theory import composition, theorem
from assignadd.paper.theory.setting import Setting

S = Setting(N=13, T=10, V=4)  # the sizes of `small_study`


def test_intervals_of_a_known_function():
    grid = np.arange(1, 70) / 10
    expected = [pytest.approx((0.1, math.pi), abs=1e-9), pytest.approx((2 * math.pi, 6.9), abs=1e-9)]
    assert composition.intervals(math.sin, grid) == expected
    assert composition.intervals(lambda x: -1, grid) == [] and composition.intervals(lambda x: 1, grid) == [(0.1, 6.9)]
    assert composition.intervals(math.cos, grid) == [
        (0.1, pytest.approx(math.pi / 2)),
        (pytest.approx(3 * math.pi / 2), 6.9),
    ]


def test_the_conditions_by_hand():
    ((low, high),) = composition.condition_intervals(Setting())
    expected = {low - 0.02: False, low + 0.02: True, math.log(16): True, high - 0.02: True, high + 0.02: False}
    for beta, met in expected.items():
        e = math.exp(beta)
        Z = e * e + 2 * e + 13  # second operand, first operand and assignment, 13 keys of score 0
        assert (e * e / Z >= 1 / 4 and 1 / 4 <= 16 * e / Z <= 4) == met, beta


@pytest.mark.parametrize("s", [S, Setting()], ids=str)
def test_the_stated_step_composes_inside_the_intervals_only(s):
    bands = composition.composing_intervals(s)
    assert len(bands) == 2
    for low, high in bands:
        middle = (low + high) / 2
        expected = {low - 0.01: False, low + 0.01: True, middle: True, high - 0.01: True, high + 0.01: False}
        for beta, right in expected.items():
            accuracy = composition.composition(theorem.after_step(s.at(beta)), 1, draws=300).accuracy
            assert (accuracy == 1) == right and (right or accuracy < 0.2), beta


def test_large_beta_leaves_v_plus_three():
    """rho_1 = 1 and no remainder: the lead is beta - (V + 1) - 2, up to the prefix's share 1/(T - 3)."""
    # rho_1 > 1/2 needs e^beta > sqrt T, and then beta > V + 3
    assert composition.composing_intervals(Setting(9973, 1 << 40, 3, 1e-12)) == []
    s = Setting(9973, 1 << 10, 9, 1e-12)
    low, high = composition.composing_intervals(s)[-1]
    assert (low + high) / 2 == pytest.approx(s.V + 3, abs=0.05)
    assert high - low == pytest.approx(2 * math.log(2), abs=0.02)


def test_the_constant_over_beta():
    """It is the largest at the least beta that meets the conditions, and falls as T grows."""
    constants = composition.condition_constants(12)
    assert constants[4096] < constants[1024] < constants[64]
    ((low, _),) = composition.condition_intervals(Setting(59, 64))
    assert constants[64] == pytest.approx(theorem.check(Setting(9973, 64, 12, 1e-9, low)).constant)


def test_the_scan(small_study):
    scan = small_study.scan
    assert scan.most == 4 and scan.stated_one.result.accuracy == 1 and scan.stated_one.length == 1
    assert scan.any_length_many.result.accuracy >= scan.stated_many.result.accuracy
    low, high = scan.conditions[0]
    assert low <= scan.any_length_many.beta <= high
    for p in scan.points:
        inside = any(lower <= p.beta <= upper for lower, upper in scan.composing)
        assert (p.stated[0] == 1) == inside and p.check.s.beta == pytest.approx(p.beta)
        if p.length is not None:
            W = theorem.after_step(p.check.s, p.length)
            assert p.balanced[0] == 1 and composition.operand_lead(W) == pytest.approx(0, abs=1e-8)
    a = composition.attention(theorem.after_step(scan.points[3].check.s), 2)
    assert scan.points[3].preference == pytest.approx(float(a.target / a.distractor))


def test_intervals_in_words():
    assert composition.listed([(1.466, 1.61), (15.31, 16.688)]) == "1.47 to 1.61 and 15.31 to 16.69"
    assert composition.listed([]) == "none"
