"""The theory's figures show the numbers they are given."""

import numpy as np
import pytest
import torch

from assignadd.figure.style import figure
from assignadd.paper.theory.figures import (
    draw_theory_attention,
    draw_theory_beta,
    draw_theory_real_gradient,
    draw_theory_remainder,
    theory_attention_data,
    theory_beta_data,
    theory_real_gradient_data,
    theory_remainder_data,
)
from assignadd.paper.theory.real_gradient import Alignment, TheoryGradient
from assignadd.paper.theory.setting import Setting
from assignadd.paper.theory.theorem import bound, check, grid_checks

S = Setting(N=13, T=10, V=4)  # the sizes of `small_study`


@pytest.fixture(scope="module")
def remainder():
    return theory_remainder_data(grid_checks((13, 59), (8, 16), (1, 2), (1e-3,)), check(S))


@pytest.fixture(scope="module")
def real():
    def aligned(n):
        spread = torch.linspace(-0.1, 0.1, 201).expand(n, -1)
        return Alignment(torch.arange(n) / 10, spread, spread / 2, torch.zeros(n), torch.zeros(n))

    return theory_real_gradient_data(
        TheoryGradient([0, 100, 200], torch.tensor([0.1, 0.5, 1.0]), aligned(3), aligned(2)), "a run"
    )


def test_remainder_shows_every_setting_and_marks_one(remainder):
    assert remainder.bound[0] == pytest.approx(1 / 13 + 1 / 8 + 8e-3) and len(remainder.bound) == 8
    with figure(6.6, 3.5) as made:
        draw_theory_remainder(remainder, made)
        left, right, *_ = made.axes
        assert sum(len(dots.get_offsets()) for dots in left.collections) == 8
        star = next(line for line in left.lines if line.get_marker() == "*")
        assert star.get_xdata()[0] == bound(S) and star.get_ydata()[0] == check(S).remainder
        assert next(line for line in right.lines if line.get_marker() == "*").get_xydata().tolist() == [[10, 4]]
    at = list(remainder.map_T).index(16)
    assert remainder.map_V.max() == 13
    assert remainder.map_remainder[2, at] == pytest.approx(check(Setting(13, 16, 3)).remainder)


def test_attention_shows_the_window_and_the_curves(small_study):
    attention = theory_attention_data(small_study.step)
    where = int(np.abs(attention.length - small_study.step.balanced).argmin())
    assert attention.target[where] == pytest.approx(attention.second[where], rel=0.1)
    assert attention.second[0] == pytest.approx(S.rho_1)
    with figure(7.0, 2.5) as made:
        draw_theory_attention(attention, made)
        lines = made.axes[1].get_lines()
        assert [list(line.get_ydata()) for line in lines[:4]] == [list(row) for row in attention.accuracy]
        assert list(lines[0].get_xdata()) == [1, 2, 3, 4]
        assert list(made.axes[2].get_lines()[1].get_ydata()) == list(attention.spurious)


def test_beta_shows_bound_accuracies_and_conditions(small_study):
    beta = theory_beta_data(small_study.scan)
    at = int(np.abs(beta.beta - np.log(10)).argmin())
    here = check(S)  # at beta = log T
    assert (beta.constant[at], beta.remainder[at]) == pytest.approx((here.constant, here.remainder / 2))
    assert beta.attenuation[at] == pytest.approx(here.attenuation / 2)
    inside = [any(low <= b <= high for low, high in beta.composing) for b in beta.beta]
    assert 0 < sum(inside) < len(inside) and all((a == 1) == i for a, i in zip(beta.stated[0], inside, strict=True))
    with figure(6.6, 3.9) as made:
        draw_theory_beta(beta, made)
        top, bottom = made.axes
        assert list(top.get_lines()[0].get_ydata()) == list(beta.constant)
        assert [list(line.get_ydata()) for line in bottom.get_lines()[:2]] == [list(row) for row in beta.stated]
        shaded = [(p.get_x(), p.get_x() + p.get_width()) for p in bottom.patches]
        assert shaded == [pytest.approx(tuple(band)) for band in beta.conditions] and len(shaded) == 1


def test_real_gradient_shows_cosines_and_bands(real):
    assert real.spike_at == 200 and real.gradient[:, 1] == pytest.approx([0.1, -0.09, 0.09, -0.045, 0.045])
    with figure(height=4.4) as made:
        draw_theory_real_gradient(real, made)
        top, middle, bottom = made.axes
        assert list(top.get_lines()[0].get_ydata()) == [0.1, 0.5, 1.0] == pytest.approx(list(real.accuracy))
        assert middle.get_lines()[0].get_ydata() == pytest.approx([0, 0.1, 0.2])
        assert bottom.get_lines()[0].get_xdata() == pytest.approx([10, np.sqrt(20_000)])
