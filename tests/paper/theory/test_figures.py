"""The theory's figures show the numbers they are given."""

import numpy as np
import pytest
import torch

from assignadd.config import PRESETS
from assignadd.figure.style import figure
from assignadd.model.handmade import handmade
from assignadd.network import Network, store_result
from assignadd.paper.theory import figures
from assignadd.paper.theory.composition import beta_points
from assignadd.paper.theory.real_gradient import Alignment, TheoryGradient, theory_gradient_of
from assignadd.paper.theory.theorem import Setting
from assignadd.task.splits import pair_split

SMALL = Setting(N=13, T=10, V=4)
SMOKE = PRESETS["smoke"]


def test_beta_shows_bound_accuracies_and_conditions():
    points = beta_points(SMALL)[::8]
    data = figures.theory_beta_data(points)
    assert data.remainder == pytest.approx([p.check.remainder / 2 for p in points])
    with figure(6.6, 3.9) as made:
        figures.draw_theory_beta(data, made)
        top, bottom = made.axes
        assert list(top.get_lines()[0].get_ydata()) == [p.check.constant for p in points]
        shown = np.array([line.get_ydata() for line in bottom.get_lines()[:4]])
        assert shown == pytest.approx(np.array([(*p.stated, *p.balanced) for p in points]).T, nan_ok=True)
        (shaded,) = (path.vertices[:, 0] for path in bottom.collections[0].get_paths())
        met = [p.beta for p in points if p.s.meets_conditions]
        assert (shaded.min(), shaded.max()) == pytest.approx((met[0], met[-1]))


def test_real_gradient_shows_cosines_and_band():
    def aligned(n):
        return Alignment(torch.arange(n) / 10, torch.linspace(-0.1, 0.1, 201).expand(n, -1))

    gradient = TheoryGradient([0, 100, 200], torch.tensor([0.1, 0.5, 1.0]), aligned(3), aligned(2))
    network = Network(handmade(SMOKE), SMOKE, pair_split(SMOKE.task, 0))
    store_result(network, theory_gradient_of, gradient)
    data = figures.real_gradient_of(network)
    assert data.spike_at == 200 and data.gradient[:, 1] == pytest.approx([0.1, -0.09, 0.09])
    with figure(height=4.4) as made:
        figures.draw_theory_real_gradient(data, made)
        top, middle, bottom = made.axes
        assert list(top.get_lines()[0].get_ydata()) == pytest.approx([0.1, 0.5, 1.0])
        assert middle.get_lines()[0].get_ydata() == pytest.approx([0, 0.1, 0.2])
        assert bottom.get_lines()[0].get_xdata() == pytest.approx([10, np.sqrt(20_000)])
