"""Figures drawn from measured numbers show those numbers: cosines, probes, waves."""

import math

import numpy as np
import pytest
import torch

from assignadd.config import PRESETS
from assignadd.figure.style import figure
from assignadd.measures.addition import circuit_waves, waves
from assignadd.measures.probes import AnswerProbes
from assignadd.model.handmade import handmade
from assignadd.paper.addition.figures import (
    A_COLOURS,
    B_COLOURS,
    FourierSharesData,
    cosine_sim_data,
    draw_cosine_sim,
    draw_fourier_shares,
    draw_preacts,
    draw_probes,
    fourier_shares_caption,
    fourier_shares_data,
    preacts_data,
    probes_caption,
    probes_data,
)
from assignadd.paper.addition.similarity import AgainstOV2, CosineSummary, Matching, Shuffles
from assignadd.report.reproduction import MECHANISM
from assignadd.stats import wilson

PROBES = next(record for record in MECHANISM if record.label == "probes")

STAGES = ("before attention", "before MLP", "neurons before ReLU", "neurons after ReLU", "MLP output", "after MLP")


def cosine(mean: float) -> CosineSummary:
    return CosineSummary(torch.tensor([mean, -9.0]), torch.tensor([mean / 10, -9.0]), torch.tensor([100, 100]))


def test_cosines_come_out_in_their_rows():
    across = {(x, y): Matching(cosine(0.9 + y / 100), cosine(x / 10)) for x, y in ((0, 1), (0, 2), (1, 2))}
    against = {
        n: AgainstOV2(*(Shuffles(cosine(c + n / 100), cosine(0.5), cosine(0.1)) for c in (0.8, 0.9))) for n in (0, 1, 2)
    }
    data = cosine_sim_data(across, Matching(cosine(0.97), cosine(0.13)), against)
    assert data.a_mean[:, 0] == pytest.approx([0.91, 0.92, 0.92, 0.97]) and data.a_mean[:, 1] == pytest.approx(
        [0, 0, 0.1, 0.13]
    )
    assert data.b_mean[:, 0] == pytest.approx([0.8, 0.81, 0.82, 0.9, 0.91, 0.92])
    assert data.b_std == pytest.approx(data.b_mean / 10)
    with figure() as made:
        draw_cosine_sim(data, made)
        for axes, colours, mean in zip(made.axes, (A_COLOURS, B_COLOURS), (data.a_mean, data.b_mean), strict=True):
            dots = [container.lines[0] for container in axes.containers]
            assert [container.get_label().replace(" ", "_") for container in axes.containers] == list(colours)
            shown = np.array([dot.get_xdata() for dot in dots]).T
            assert shown == pytest.approx(mean)


def test_probes_have_their_interval_and_chance():
    test = torch.tensor([[0.0, 0.02, 0.03, 0.9, 1.0, 1.0]])
    data = probes_data(AnswerProbes(STAGES, test, test.flip(1) * 0, 300), 59)
    assert data.stages == list(STAGES) and data.chance == 1 / 59
    assert (data.low[3], data.high[3]) == (wilson(270, 300).low, wilson(270, 300).high)
    with figure() as made:
        axes = made.add_subplot()
        draw_probes(data, axes)
        assert [bar.get_height() for bar in axes.patches] == pytest.approx(test[0].tolist())
        assert [text.get_text() for text in axes.texts] == ["0.000", "0.020", "0.030", "0.900", "1.000", "1.000"]


def test_the_neuron_that_is_a_wave_is_found_and_fitted():
    N, angle = 11, 2 * math.pi * 3 * torch.arange(11.0) / 11
    wave = 2 * torch.cos(angle + 0.4)[:, None] + 0.5 * torch.cos(angle - 1.3) + 7
    noise = torch.randn(N, N, generator=torch.Generator().manual_seed(0))
    preactivations = torch.stack([noise, wave, wave + noise], -1)[None]
    data = preacts_data(preactivations, waves(preactivations))
    assert (data.neuron, data.frequency) == (1, 3) and data.share == pytest.approx(1, abs=1e-5)
    assert data.measured == pytest.approx(wave.numpy() - 7, abs=1e-4) and data.fitted == pytest.approx(
        data.measured, abs=1e-4
    )
    with figure() as made:
        draw_preacts(data, made)
        left, right = (axes.images[0] for axes in made.axes[:2])
        assert left.get_clim() == right.get_clim()
        assert "neuron 1" in made.axes[0].get_title("left") and "frequency 3,\n100.0%" in made.axes[1].get_title("left")


def test_every_neuron_is_a_dot_above_its_frequency():
    stack = handmade(PRESETS["tiny"])
    data = fourier_shares_data(stack, circuit_waves(stack))
    with figure() as made:
        draw_fourier_shares(data, made)
        dots = np.asarray(made.axes[1].collections[0].get_offsets())
        bars = [bar.get_height() for bar in made.axes[0].patches]
    assert np.rint(dots[:, 0]).tolist() == data.frequency.tolist() and dots[:, 1] == pytest.approx(data.share)
    assert bars == pytest.approx(data.power.tolist()) and sum(bars) == pytest.approx(1, abs=1e-5)


def test_a_probe_that_is_not_perfect_is_not_said_to_be():
    """As in a run whose probe reads .855 after the MLP, where 'nearly perfect' would be false."""
    test = torch.tensor([[0.01, 0.02, 0.31, 0.9, 0.855, 0.87]])
    data = probes_data(AnswerProbes(STAGES, test, test * 0, 300), 50)
    found = probes_caption(data)
    assert "at most 0.310 before the activation function and at least 0.855 after it; chance is 0.020" in found
    assert "perfect" not in PROBES.caption(data)


def test_neurons_without_a_wave_are_not_said_to_be_waves():
    network = np.array([True, False, False, True])
    shares = FourierSharesData(np.array([1, 2, 3]), np.array([0.2, 0.3, 0.95]), np.array([0.1, 0.4, 0.3, 0.2]), network)
    found = fourier_shares_caption(shares)
    assert "90% or more in 1 of 3 neurons, and 30% in the median neuron; 30.0% of all power is in 2 of 4" in found
