"""Figures of section 5.1: what `=` holds before the MLP (`cosine_sim_combined`), where the answer can be read
(`probes`), and the frequencies of the neurons (`preacts`, `fourier_shares`)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from assignadd.figure.record import FigureData, FigureRecord, on_axes
from assignadd.figure.style import bar, draw_heat
from assignadd.measures import addition
from assignadd.measures.addition import Waves, waves_of
from assignadd.measures.probes import AnswerProbes, answer_probes_of
from assignadd.model.stack import Stack
from assignadd.network import Network
from assignadd.palette import BLUE, GREY, INK, ORANGE
from assignadd.paper.addition.similarity import (
    AgainstOV2,
    Matching,
    Shuffles,
    across_types_of,
    against_ov2_of,
    on_template_of,
)
from assignadd.stats import wilson
from assignadd.task.evalsets import VARIABLES

# The colours of the cosines in the panels (a) and (b) of figure cosine_sim_combined, by the fields of `Matching` and of
# `Shuffles`.
A_COLOURS = {"matched": BLUE, "mismatched": GREY}
B_COLOURS = {"matched": BLUE, "second_shuffled": ORANGE, "both_shuffled": GREY}


@dataclass(frozen=True)
class CosineSimData(FigureData):
    """Mean and standard deviation of the cosines in each row of the panels (a) and (b).

    Columns are in the order of A_COLOURS and B_COLOURS.
    """

    a_rows: list[str]
    a_mean: np.ndarray  # (rows, 2)
    a_std: np.ndarray
    b_rows: list[str]
    b_mean: np.ndarray  # (rows, 3)
    b_std: np.ndarray


def cosine_sim_data(
    across: Mapping[tuple[int, int], Matching], template: Matching, against: Mapping[int, AgainstOV2]
) -> CosineSimData:
    """The first model's cosines: (a) of two sequences of different type, and (b) of vectors with OV2(a) + OV2(b)."""
    a_rows = {f"{VARIABLES[x]} and {VARIABLES[y]}": matching for (x, y), matching in across.items()}
    a_rows["one template"] = template
    residuals = {f"residual, {VARIABLES[n]}": cosines.residual for n, cosines in against.items()}
    outputs = {f"attention output, {VARIABLES[n]}": cosines.attention_output for n, cosines in against.items()}
    b_rows = residuals | outputs
    a_mean, a_std = _means_and_deviations(a_rows.values())
    b_mean, b_std = _means_and_deviations(b_rows.values())
    return CosineSimData(list(a_rows), a_mean, a_std, list(b_rows), b_mean, b_std)


def _means_and_deviations(rows: Iterable[Matching | Shuffles]) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard deviations of the first model's cosines, (rows, fields of a row) each."""
    mean = np.array([[float(summary.mean[0]) for summary in row] for row in rows])
    std = np.array([[float(summary.std[0]) for summary in row] for row in rows])
    return mean, std


def draw_cosine_sim(data: CosineSimData, figure: Figure) -> None:
    """Draws both panels of cosines one above the other."""
    heights = (len(data.a_rows), len(data.b_rows))
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=heights)
    _draw_cosines(upper, data.a_rows, data.a_mean, data.a_std, A_COLOURS)
    upper.set_title("(a) residuals at = before the MLP, two sequences of different type")
    _draw_cosines(lower, data.b_rows, data.b_mean, data.b_std, B_COLOURS)
    lower.set_title("(b) vectors at = before the MLP, against OV$_2$(a) + OV$_2$(b)")
    lower.set_xlabel("cosine (mean ± standard deviation)")


def _draw_cosines(ax: Axes, rows: list[str], mean: np.ndarray, std: np.ndarray, colours: Mapping[str, str]) -> None:
    """Draws one panel: a dot with an error bar for every row and field; mean and std are (rows, fields)."""
    for column, (field, color) in enumerate(colours.items()):
        offset = 0.18 * (column - (len(colours) - 1) / 2)  # the dots of a row stand around its middle
        y = np.arange(len(rows)) + offset
        look: Any = {"color": color, "markersize": 4.5, "elinewidth": 1.2, "label": field.replace("_", " ")}
        ax.errorbar(mean[:, column], y, xerr=std[:, column], fmt="o", **look)
    ax.set_yticks(range(len(rows)), rows)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)
    ax.grid(False, axis="y")
    ax.axvline(0, color=GREY, linewidth=0.6)
    ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), handlelength=1.6)


@dataclass(frozen=True)
class ProbesData(FigureData):
    stages: list[str]
    test: np.ndarray  # (stages,): accuracies
    low: np.ndarray  # (stages,): the ends of the 95 % Wilson interval of `test`
    high: np.ndarray
    control: np.ndarray  # (stages,): with the labels shuffled
    chance: float


def probes_data(probes: AnswerProbes, modulus: int) -> ProbesData:
    """The accuracies of the first model's probes by stage, with intervals, their controls and chance, 1/N."""
    test = probes.test[0].double().numpy(force=True)
    control = probes.control[0].double().numpy(force=True)
    intervals = [wilson(round(accuracy * probes.n_test), probes.n_test) for accuracy in test.tolist()]
    low, high = np.array([(interval.low, interval.high) for interval in intervals]).T
    return ProbesData(list(probes.stages), test, low, high, control, chance=1 / modulus)


def probes_caption(data: ProbesData) -> str:
    """The highest accuracy before the activation function and the lowest after it, in words."""
    # Stages are in the order of the computation; the neurons come first after the activation function.
    i_after = next((i for i, stage in enumerate(data.stages) if stage.startswith("neurons after")), None)
    if i_after is None:
        return f"This network has no last MLP; the probe reaches at most {data.test.max():.3f}."
    return (
        f"Here the probe reaches at most {data.test[:i_after].max():.3f} before the activation function and at least "
        f"{data.test[i_after:].min():.3f} after it; chance is {data.chance:.3f}."
    )


def draw_probes(data: ProbesData, axes: Axes) -> None:
    """Draws a bar for the probe at each stage and a diamond for its control."""
    x = np.arange(len(data.stages))
    error = np.maximum(0, [data.test - data.low, data.high - data.test])
    bars: Any = {"yerr": error, "error_kw": {"elinewidth": 1.2}, "label": "pairs never trained on (95 % interval)"}
    axes.bar(x, data.test, 0.55, color=BLUE, **bars)
    diamonds: Any = {"markeredgecolor": INK, "markeredgewidth": 0.5, "markersize": 4.5, "label": "labels shuffled"}
    axes.plot(x, data.control, "D", color=ORANGE, **diamonds)
    axes.axhline(data.chance, color=INK, linewidth=0.8, linestyle="--", label="chance")
    tops = np.maximum(data.high, data.control)
    for position, accuracy, top in zip(x, data.test, tops, strict=True):
        axes.annotate(f"{accuracy:.3f}", (position, top), (0, 4), textcoords="offset points", ha="center")
    axes.set_xticks(x, [stage.replace(" ", "\n", 1) for stage in data.stages])
    axes.set(ylabel="accuracy of a linear probe", ylim=(0, 1.12), yticks=np.linspace(0, 1, 6))
    axes.grid(False, axis="x")
    axes.legend(loc="center left", bbox_to_anchor=(0.01, 0.6))


@dataclass(frozen=True)
class PreactsData(FigureData):
    neuron: int
    frequency: int
    share: float
    measured: np.ndarray  # (N, N): over the first and the second operand, minus the mean
    fitted: np.ndarray  # (N, N)


def preacts_data(preactivations: Tensor, waves: Waves) -> PreactsData:
    """The first model's neuron that is most nearly a wave of one frequency, and this wave.

    `preactivations` are (M, N, N, h). The wave is A cos(2 pi k n / N + alpha) + B cos(2 pi k m / N + beta).
    """
    neuron = int(waves.share[0].argmax())
    k = int(waves.frequency[0, neuron])
    A, B = waves.amplitude[0, :, neuron].tolist()
    alpha, beta = waves.phase[0, :, neuron].tolist()
    measured = preactivations[0, ..., neuron].double().numpy(force=True)  # (N, N)
    N = len(measured)
    angle = 2 * math.pi * k * np.arange(N) / N
    fitted = A * np.cos(angle + alpha)[:, None] + B * np.cos(angle + beta)
    return PreactsData(neuron, k, float(waves.share[0, neuron]), measured - measured.mean(), fitted)


def preacts_caption(data: PreactsData) -> str:
    """Which neuron is drawn, and how much of its variance the wave explains, in words."""
    wave = f"a wave of frequency {data.frequency} explains {data.share:.1%} of its variance"
    return f"Here it is neuron {data.neuron}: {wave}."


def draw_preacts(data: PreactsData, figure: Figure) -> None:
    """Draws the neuron's preactivation over all pairs on the left, and its best wave on the right."""
    axes = figure.subplots(1, 2, sharey=True)
    largest = float(max(np.abs(data.measured).max(), np.abs(data.fitted).max()))
    for ax, values in zip(axes, (data.measured, data.fitted), strict=True):
        image = draw_heat(ax, values, limits=(-largest, largest))
        ax.set(xlabel="second operand $m$", aspect="equal")
    axes[0].set_ylabel("first operand $n$")
    axes[0].set_title(f"neuron {data.neuron}:\npreactivation")
    axes[1].set_title(f"best wave: frequency {data.frequency},\n{data.share:.1%} of the variance")
    bar(image, list(axes), "preactivation minus its mean")


@dataclass(frozen=True)
class FourierSharesData(FigureData):
    frequency: np.ndarray  # (h,): of each neuron's best wave
    share: np.ndarray  # (h,): of its variance that this wave explains
    power: np.ndarray  # (K,): share of each frequency 1..K in all preactivations
    in_network: np.ndarray  # (K,): whether each frequency is one of the network's


def fourier_shares_data(stack: Stack, waves: Waves) -> FourierSharesData:
    """The best wave of every neuron of the first model, and the share of each frequency in its preactivations."""
    model = stack.models(0)
    return FourierSharesData(
        frequency=waves.frequency[0].numpy(force=True),
        share=waves.share[0].numpy(force=True),
        power=addition.preactivation_spectrum(model)[0].numpy(force=True),
        in_network=addition.network_frequencies(model)[0].numpy(force=True),
    )


CLEAN = 0.9  # a neuron with this share of its variance in one wave is counted as nearly a wave


def fourier_shares_caption(data: FourierSharesData) -> str:
    """How many neurons are nearly a wave, and how much of all power is in the network's frequencies, in words."""
    n_clean = int((data.share >= CLEAN).sum())
    n_frequencies = int(data.in_network.sum())
    power_share = data.power[data.in_network].sum()
    return (
        f"Here one wave explains {CLEAN:.0%} or more in {n_clean} of {len(data.share)} neurons, and "
        f"{np.median(data.share):.0%} in the median neuron; {power_share:.1%} of all power is in {n_frequencies} of "
        f"{len(data.in_network)} frequencies, the network's."
    )


def draw_fourier_shares(data: FourierSharesData, figure: Figure) -> None:
    """Draws the power of each frequency, the network's in blue, and each neuron above its frequency."""
    spectrum, neurons = figure.subplots(2, 1, sharex=True, height_ratios=(1, 2.2))  # the axes of both panels
    K = len(data.power)
    spectrum.bar(np.arange(1, K + 1), data.power, color=np.where(data.in_network, BLUE, GREY))
    spectrum.set(ylabel="share of\nall power", xlim=(0.3, K + 0.7))
    spectrum.set_title(f"the network's {int(data.in_network.sum())} frequencies (blue)")
    # A dot for each neuron above its frequency. Multiples of the golden ratio spread the dots evenly sideways.
    sideways = (np.arange(len(data.share)) * 0.618034 % 1 - 0.5) * 0.6
    colors = np.where(data.in_network[data.frequency - 1], BLUE, GREY)
    neurons.scatter(data.frequency + sideways, data.share, s=5, c=colors, alpha=0.7, linewidths=0)
    neurons.axhline(float(np.median(data.share)), color=INK, linewidth=0.8, linestyle="--", label="median")
    neurons.set(xlabel="frequency of a neuron's best wave", ylabel="share of its variance", ylim=(0, 1.02))
    neurons.legend(loc="lower right")


def preacts_of(network: Network) -> PreactsData:
    """The neuron of one network that is most nearly a wave, over contexts as in training."""
    preactivations = addition.context_preactivations(network.stack, [network.config], network.seen[None])
    return preacts_data(preactivations, waves_of(network))


COSINE_SIM_FIGURE = FigureRecord(
    "cosine_sim_combined", "One representation for literals and variables",
    "(a) If literals and variables are represented alike, sequences of different type have nearly the same vector "
    "at `=` when they add the same two numbers (blue near 1), and unrelated ones when they do not. (b) If that "
    "vector is OV2(a) + OV2(b) of the two numbers, blue is near 1, about half is left with one of the numbers from "
    "another sequence, and nothing with both.",
    lambda s: cosine_sim_data(across_types_of(s.model), on_template_of(s.model), against_ov2_of(s.model)),
    draw_cosine_sim, height=3.6, width=6.4,
)  # fmt: skip
PROBES_FIGURE = FigureRecord(
    "probes", "Where the answer can be read",
    "If the MLP does the addition, a linear probe for the sum is at chance before its activation function and near "
    "1 after it. Diamonds are the same probes with shuffled labels.",
    lambda s: probes_data(answer_probes_of(s.model), s.model.config.task.modulus), on_axes(draw_probes), height=2.6,
    found=probes_caption,
)  # fmt: skip
PREACTS_FIGURE = FigureRecord(
    "preacts", "The neuron that is most nearly a Fourier feature",
    "Does the preactivation over all pairs of operands (left, mean over contexts as in training) look like a sum "
    "of two cosines of one frequency (right, same colours)? This is the best neuron; the next figure has all of "
    "them.",
    lambda s: preacts_of(s.model), draw_preacts, height=2.9, found=preacts_caption,
)  # fmt: skip
FOURIER_SHARES_FIGURE = FigureRecord(
    "fourier_shares", "All neurons as Fourier features",
    "Above, the power of all preactivations by frequency. Below, each dot is a neuron: its height is the share of "
    "its variance that a wave of one frequency explains.",
    lambda s: fourier_shares_data(s.model.stack, waves_of(s.model)), draw_fourier_shares, height=3.6,
    found=fourier_shares_caption,
)  # fmt: skip
