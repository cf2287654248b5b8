"""Figures `preacts`, `fourier_shares` and `spectra`: the frequencies of neurons, embedding and output (section 5.1)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from assignadd.figure.record import FigureData, FigureRecord
from assignadd.figure.style import bar, draw_heat
from assignadd.measures.addition import (
    Waves,
    context_preactivations,
    embedding_spectrum,
    network_frequencies,
    preactivation_spectrum,
    readout_spectrum,
    waves_of,
)
from assignadd.model.stack import Stack
from assignadd.network import Network
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
    """The neuron of the first model that is most nearly a wave of one frequency; preactivations are (M, N, N, h)."""
    neuron = int(waves.share[0].argmax())
    k = int(waves.frequency[0, neuron])
    (A, B), (alpha, beta) = (part[0, :, neuron].tolist() for part in (waves.amplitude, waves.phase))
    measured = preactivations[0, ..., neuron].cpu().double().numpy()
    angle = 2 * math.pi * k * np.arange(len(measured)) / len(measured)
    fitted = A * np.cos(angle + alpha)[:, None] + B * np.cos(angle + beta)
    return PreactsData(neuron, k, float(waves.share[0, neuron]), measured - measured.mean(), fitted)


def preacts_caption(data: PreactsData) -> str:
    wave = f"a wave of frequency {data.frequency} explains {data.share:.1%} of its variance"
    return f"Here it is neuron {data.neuron}: {wave}."


def draw_preacts(data: PreactsData, made: Figure) -> None:
    axes = made.subplots(1, 2, sharey=True)
    most = float(max(np.abs(data.measured).max(), np.abs(data.fitted).max()))
    for ax, values in zip(axes, (data.measured, data.fitted), strict=True):
        image = draw_heat(ax, values, limits=(-most, most))
        ax.set(xlabel="second operand $m$", aspect="equal")
    axes[0].set_ylabel("first operand $n$")
    axes[0].set_title(f"neuron {data.neuron}:\npreactivation")
    axes[1].set_title(f"best wave: frequency {data.frequency},\n{data.share:.1%} of the variance")
    bar(image, list(axes), "preactivation less its mean")


@dataclass(frozen=True)
class FourierSharesData(FigureData):
    frequency: np.ndarray  # (h,): of each neuron's best wave
    share: np.ndarray  # (h,): of its variance that this wave explains
    power: np.ndarray  # (K,): share of each frequency 1..K in all preactivations
    network: np.ndarray  # (K,): whether it is one of the network's frequencies


def fourier_shares_data(stack: Stack, waves: Waves) -> FourierSharesData:
    """Frequency and share of every neuron of the first model, and the power of each frequency."""
    one = stack.models(0)
    found = (waves.frequency, waves.share, preactivation_spectrum(one), network_frequencies(one))
    return FourierSharesData(*(values[0].cpu().numpy() for values in found))


CLEAN = 0.9  # share of the variance


def fourier_shares_caption(data: FourierSharesData) -> str:
    """How many neurons are nearly a wave, and how much of all power is in the network's frequencies, in words."""
    clean, n, used = int((data.share >= CLEAN).sum()), len(data.share), int(data.network.sum())
    return (
        f"Here one wave explains {CLEAN:.0%} or more in {clean} of {n} neurons, and {np.median(data.share):.0%} in the "
        f"median neuron; {data.power[data.network].sum():.1%} of all power is in {used} of {len(data.network)} "
        "frequencies, the network's."
    )


def draw_fourier_shares(data: FourierSharesData, made: Figure) -> None:
    grid = made.add_gridspec(2, 2, width_ratios=(5, 1), height_ratios=(1, 2.2))
    spectrum = made.add_subplot(grid[0, 0])
    neurons = made.add_subplot(grid[1, 0], sharex=spectrum)
    histogram = made.add_subplot(grid[1, 1], sharey=neurons)
    draw_spectrum(spectrum, data.power, data.network)
    spectrum.set(ylabel="share of\nall power", title=_frequencies_text((np.flatnonzero(data.network) + 1).tolist()))
    spectrum.tick_params(labelbottom=False)
    # A dot for each neuron above its frequency, spread sideways in the order of the neurons.
    sideways = (np.arange(len(data.share)) * 0.618034 % 1 - 0.5) * 0.6
    colors = np.where(data.network[data.frequency - 1], BLUE, GREY)
    neurons.scatter(data.frequency + sideways, data.share, s=5, c=colors, alpha=0.7, linewidths=0)
    neurons.set(xlabel="frequency of a neuron's best wave", ylabel="share of its variance", ylim=(0, 1.02))
    histogram.hist(data.share, bins=BINS, orientation="horizontal", color=BLUE, linewidth=0)
    median = float(np.median(data.share))
    histogram.axhline(median, color=INK, linewidth=0.8, linestyle="--")
    histogram.set(xlabel="neurons", title=f"median {median:.2f}")
    histogram.tick_params(labelleft=False)


def _frequencies_text(frequencies: list[int]) -> str:
    if len(frequencies) > 16:
        return f"the network's {len(frequencies)} frequencies (blue)"
    return f"the network's frequencies (blue): {', '.join(map(str, frequencies)) or 'none'}"


@dataclass(frozen=True)
class SpectraData(FigureData):
    embedding: np.ndarray  # (K,): share of each frequency 1..K in the power of the rows of W_E that embed numbers
    readout: np.ndarray  # (K,): in that of W_out W_U, as a function of the answer
    network: np.ndarray  # (K,): whether it is one of the network's frequencies, which its preactivations tell


def spectra_data(stack: Stack) -> SpectraData:
    """The power of each frequency in the embedding and in the output of the first model."""
    one = stack.models(0)
    return SpectraData(
        *(of(one)[0].cpu().numpy() for of in (embedding_spectrum, readout_spectrum, network_frequencies))
    )


def spectra_caption(data: SpectraData) -> str:
    used = data.network.sum()
    return (
        f"Here the network's {used} of {len(data.network)} frequencies, {used / len(data.network):.0%} if all were "
        f"equal, have {data.embedding[data.network].sum():.0%} of the embedding's power and "
        f"{data.readout[data.network].sum():.0%} of the output's."
    )


def draw_spectra(data: SpectraData, made: Figure) -> None:
    above, below = made.subplots(2, 1, sharex=True, sharey=True)
    equal = 1 / len(data.network)
    for axes, power, what in (
        (above, data.embedding, "number embedding $W_E$"),
        (below, data.readout, "from neurons to logits, $W_\\mathrm{out} W_U$"),
    ):
        draw_spectrum(axes, power, data.network)
        axes.axhline(equal, color=INK, linewidth=0.8, linestyle="--")
        axes.text(1.01, equal, "equal\nshare", transform=axes.get_yaxis_transform(), va="center", fontsize=7)
        axes.set_ylabel("share of\nall power")
        axes.set_title(f"{what}: {100 * power[data.network].sum():.1f} % in the network's frequencies")
    below.set_xlabel("frequency $k$ (blue: the network's)")


def draw_spectrum(axes: Axes, power: np.ndarray, network: np.ndarray) -> None:
    """Draws a bar for every frequency from 1 on, those of the network in blue."""
    axes.bar(np.arange(1, len(power) + 1), power, color=np.where(network, BLUE, GREY))
    axes.set_xlim(0.3, len(power) + 0.7)


def preacts_of(network: Network) -> PreactsData:
    """The data of a network, over contexts as in training."""
    preactivations = context_preactivations(network.stack, [network.config], network.seen[None])
    return preacts_data(preactivations, waves_of(network))


PREACTS_FIGURE = FigureRecord(
    "preacts", "The neuron that is most nearly a Fourier feature",
    "Does the preactivation over all pairs of operands (left, mean over contexts as in training) look like a sum "
    "of two cosines of one frequency (right, same colours)? This is the best neuron; the next figure has all of "
    "them.",
    lambda s: preacts_of(s.model),
    draw_preacts, height=2.9, found=preacts_caption,
)  # fmt: skip
FOURIER_SHARES_FIGURE = FigureRecord(
    "fourier_shares", "All neurons as Fourier features",
    "Above, the power of all preactivations by frequency. Below, each dot is a neuron: its height is the share of "
    "its variance that a wave of one frequency explains.",
    lambda s: fourier_shares_data(s.model.stack, waves_of(s.model)), draw_fourier_shares, height=3.6,
    found=fourier_shares_caption,
)  # fmt: skip
SPECTRA_FIGURE = FigureRecord(
    "spectra", "Frequencies of the input and of the output",
    "Do the frequencies that the neurons use (blue) also carry the embedding of the numbers, above, and the "
    "effect of each neuron on the logits of the answers, below? Random weights give every frequency an equal "
    "share (dashed line).",
    lambda s: spectra_data(s.model.stack), draw_spectra, height=2.9, found=spectra_caption,
)  # fmt: skip
