"""Figure `spectra` (ours): which frequencies are in the number embedding, and which in W_out W_U (paper, section 5.1)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from assignadd.figures.arrays import FigureData
from assignadd.measures.fourier import embedding_spectrum, network_frequencies, readout_spectrum
from assignadd.model.stack import Stack
from assignadd.palette import BLUE, GREY, INK


@dataclass(frozen=True)
class SpectraData(FigureData):
    embedding: np.ndarray  # (K,): share of each frequency 1..K in the power of the rows of W_E that embed numbers
    readout: np.ndarray  # (K,): in that of W_out W_U, as a function of the answer
    network: np.ndarray  # (K,): whether it is one of the network's frequencies, which its preactivations tell


def spectra_data(stack: Stack) -> SpectraData:
    """Of the first model."""
    one = stack.models(0)
    return SpectraData(
        *(of(one)[0].cpu().numpy() for of in (embedding_spectrum, readout_spectrum, network_frequencies))
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
        axes.set(
            ylabel="share of\nall power",
            title=f"{what}: {100 * power[data.network].sum():.1f} % in the network's frequencies",
        )
    below.set_xlabel("frequency $k$ (blue: the network's)")


def draw_spectrum(axes: Axes, power: np.ndarray, network: np.ndarray) -> None:
    """A bar for every frequency from 1 on, those of the network in blue."""
    axes.bar(np.arange(1, len(power) + 1), power, color=np.where(network, BLUE, GREY))
    axes.set_xlim(0.3, len(power) + 0.7)
