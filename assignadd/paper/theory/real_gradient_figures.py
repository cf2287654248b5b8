"""Figure `theory_real_gradient`: a network's gradient and change of QK2 against the memory of theorem C.1."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from assignadd.figure.record import Absent, FigureData, FigureRecord
from assignadd.network import Network
from assignadd.palette import BLUE, BY_VARS, GREY, INK
from assignadd.paper.theory.real_gradient import Alignment, TheoryGradient, theory_gradient_of


@dataclass(frozen=True)
class TheoryRealGradientData(FigureData):
    """Cosines of a network's gradient and of the change of QK2 with the predicted memory, over training."""

    name: str
    steps: np.ndarray  # (M,)
    accuracy: np.ndarray  # (M,) on one-variable sequences
    spike_at: int  # -1 where there is none
    gradient: np.ndarray  # (5, M) cosine with the prediction, 5 and 95 % of the permuted ones, of the random ones
    change: np.ndarray  # (5, M - 1) the same for the change of QK2 to the next checkpoint


def real_gradient_of(model: Network) -> TheoryRealGradientData | Absent:
    """The data of a network; `Absent` without checkpoints."""
    if (gradient := theory_gradient_of(model)) is None:
        return Absent(f"seed {model.seed}: no checkpoints to compare with the theory")
    return theory_real_gradient_data(gradient, f"{model.name}, seed {model.seed}")


def theory_real_gradient_data(found: TheoryGradient, name: str) -> TheoryRealGradientData:
    spike_at = -1 if found.spike_at is None else found.spike_at
    bands = _with_bands(found.descent), _with_bands(found.change)
    return TheoryRealGradientData(name, np.array(found.steps), found.accuracy.numpy(), spike_at, *bands)


def _with_bands(found: Alignment) -> np.ndarray:
    """(5, M) the cosine with the memory, and the 5 and 95 % quantiles of the permuted and of the random directions."""
    bands = [x.quantile(q, 1) for x in (found.permuted, found.random) for q in (0.05, 0.95)]
    return np.stack([x.numpy() for x in (found.memory, *bands)])


def theory_real_gradient_caption(data: TheoryRealGradientData) -> str:
    """The cosine of the gradient just before the first spike, and the band of permuted variables, in words."""
    if data.spike_at < 0:
        return "This network has no first spike."
    at = max(0, int(np.searchsorted(data.steps, data.spike_at)) - 1)
    cosine, _, high = data.gradient[:3, at]
    return (
        f"Here at step {data.steps[at]:,}, before the first spike, the cosine of the gradient is {cosine:.2f}, and "
        f"95 % of the permuted ones are below {high:.2f}."
    ).replace(" -", " \u2212")


def draw_theory_real_gradient(data: TheoryRealGradientData, figure: Figure) -> None:
    """Top: accuracy. Middle: cosines of the gradient. Bottom: cosines of the change between checkpoints."""
    top, middle, bottom = figure.subplots(3, 1, sharex=True, height_ratios=[0.8, 1.2, 1.2])
    x = np.maximum(data.steps, 1)
    top.plot(x, data.accuracy, color=BY_VARS[1], marker=".", markersize=3)
    top.set(ylabel="accuracy,\none variable", ylim=(0, 1.05), title=data.name)
    middles = np.sqrt(x[:-1] * x[1:])
    for axes, where, rows, what in ((middle, x, data.gradient, "−gradient"), (bottom, middles, data.change, "change")):
        _draw_cosines(axes, where, rows)
        axes.set_ylabel(f"cosine, {what}")
    for axes in (top, middle, bottom):
        if data.spike_at > 0:
            axes.axvline(data.spike_at, color=INK, linewidth=0.8, linestyle=":")
    if data.spike_at > 0:
        top.annotate("first spike ", (data.spike_at, 0.12), ha="right", fontsize=7.5)
    figure.legend(handles=middle.get_legend_handles_labels()[0], loc="outside lower center", ncols=3, handlelength=1.6)
    bottom.set(xscale="log", xlabel="training step (log scale)", xlim=(min(100, x[-1] / 2), x[-1]))
    figure.align_ylabels()


def _draw_cosines(axes: Axes, x: np.ndarray, rows: np.ndarray) -> None:
    cosine, low, high, random_low, random_high = rows
    axes.fill_between(x, low, high, color=GREY, alpha=0.35, linewidth=0, label="variables permuted, 5–95 %")
    axes.fill_between(x, random_low, random_high, color=INK, alpha=0.55, linewidth=0, label="random, 5–95 %")
    axes.plot(x, cosine, color=BLUE, marker=".", markersize=3.5, label="predicted memory")
    most = max(0.12, float(np.abs(rows).max()) * 1.15)
    axes.set_ylim(-most, most)


THEORY_REAL_GRADIENT_FIGURE = FigureRecord(
    "theory_real_gradient", "The theory's direction in real training",
    "Cosine of the real gradient, and of the real change of QK2, with the direction that the theorem predicts. "
    "Look before the first spike: is it above the band of permuted variables, and how far from 1?",
    lambda s: real_gradient_of(s.model), draw_theory_real_gradient, height=4.4, found=theory_real_gradient_caption,
)  # fmt: skip
