"""Figures `preacts` and `fourier_shares` (ours): a neuron of MLP2 beside the wave it should be, and how all neurons fare."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from assignadd.figures.arrays import FigureData
from assignadd.figures.heat import bar, draw_heat
from assignadd.figures.spectra import draw_spectrum
from assignadd.measures.fourier import Waves, network_frequencies, preactivation_spectrum
from assignadd.model.stack import Stack
from assignadd.palette import BLUE, GREY, INK

BINS = [i / 20 for i in range(21)]


@dataclass(frozen=True)
class PreactsData(FigureData):
    neuron: int
    frequency: int
    share: float
    measured: np.ndarray  # (N, N): over the first and the second operand, less the mean
    fitted: np.ndarray  # (N, N)


def preacts_data(preactivations: Tensor, waves: Waves) -> PreactsData:
    """Of the first model, preactivations (M, N, N, h): the neuron that is most nearly a wave of one frequency."""
    neuron = int(waves.share[0].argmax())
    k, (A, B), (alpha, beta) = (
        int(waves.frequency[0, neuron]),
        waves.amplitude[0, :, neuron].tolist(),
        waves.phase[0, :, neuron].tolist(),
    )
    measured = preactivations[0, ..., neuron].cpu().double().numpy()
    angle = 2 * math.pi * k * np.arange(len(measured)) / len(measured)
    fitted = A * np.cos(angle + alpha)[:, None] + B * np.cos(angle + beta)
    return PreactsData(neuron, k, float(waves.share[0, neuron]), measured - measured.mean(), fitted)


def draw_preacts(data: PreactsData, made: Figure) -> None:
    axes = made.subplots(1, 2, sharey=True)
    most = float(max(np.abs(data.measured).max(), np.abs(data.fitted).max()))
    for ax, values in zip(axes, (data.measured, data.fitted), strict=True):
        image = draw_heat(ax, values, limits=(-most, most))
        ax.set(xlabel="second operand $m$", aspect="equal")
    axes[0].set_ylabel("first operand $n$")
    axes[0].set_title(f"neuron {data.neuron}, preactivation")
    axes[1].set_title(f"best cos + cos: frequency {data.frequency}, share {data.share:.3f}")
    bar(image, list(axes), "preactivation less its mean")


@dataclass(frozen=True)
class FourierSharesData(FigureData):
    frequency: np.ndarray  # (h,): of each neuron's best wave
    share: np.ndarray  # (h,): of its variance that this wave explains
    power: np.ndarray  # (K,): share of each frequency 1..K in all preactivations
    network: np.ndarray  # (K,): whether it is one of the network's frequencies


def fourier_shares_data(stack: Stack, waves: Waves) -> FourierSharesData:
    """Of the first model."""
    one = stack.models(0)
    found = (waves.frequency, waves.share, preactivation_spectrum(one), network_frequencies(one))
    return FourierSharesData(*(values[0].cpu().numpy() for values in found))


def draw_fourier_shares(data: FourierSharesData, made: Figure) -> None:
    grid = made.add_gridspec(2, 2, width_ratios=(5, 1), height_ratios=(1, 2.2))
    spectrum = made.add_subplot(grid[0, 0])
    neurons = made.add_subplot(grid[1, 0], sharex=spectrum)
    histogram = made.add_subplot(grid[1, 1], sharey=neurons)
    draw_spectrum(spectrum, data.power, data.network)
    spectrum.set(ylabel="share of\nall power", title=_listed((np.flatnonzero(data.network) + 1).tolist()))
    spectrum.tick_params(labelbottom=False)
    _strip(neurons, data)
    neurons.set(xlabel="frequency of a neuron's best wave", ylabel="share of its variance", ylim=(0, 1.02))
    histogram.hist(data.share, bins=BINS, orientation="horizontal", color=BLUE, linewidth=0)
    median = float(np.median(data.share))
    histogram.axhline(median, color=INK, linewidth=0.8, linestyle="--")
    histogram.set(xlabel="neurons", title=f"median {median:.2f}")
    histogram.tick_params(labelleft=False)


def _strip(ax: Axes, data: FourierSharesData) -> None:
    """A dot for each neuron above its frequency, spread sideways in the order of the neurons."""
    sideways = (np.arange(len(data.share)) * 0.618034 % 1 - 0.5) * 0.6
    colors = np.where(data.network[data.frequency - 1], BLUE, GREY)
    ax.scatter(data.frequency + sideways, data.share, s=5, c=colors, alpha=0.7, linewidths=0)


def _listed(frequencies: list[int]) -> str:
    if len(frequencies) > 16:
        return f"the network's {len(frequencies)} frequencies (blue)"
    return f"the network's frequencies (blue): {', '.join(map(str, frequencies)) or 'none'}"
