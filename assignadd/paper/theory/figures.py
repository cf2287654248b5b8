"""Figures `theory_beta` and `theory_real_gradient`: theorem C.1 and its step over beta, and a network's gradient and
change of QK2 against the memory of the theorem."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from assignadd.figure.record import Absent, FigureData, FigureRecord
from assignadd.network import Network
from assignadd.palette import BLUE, BY_VARS, GREEN, GREY, INK, PURPLE, SHADE, VERMILION
from assignadd.paper.theory.composition import BetaPoint, beta_points, most_assignments
from assignadd.paper.theory.real_gradient import Alignment, theory_gradient_of
from assignadd.paper.theory.theorem import FACTOR, MEMORY_NORM, Setting


@dataclass(frozen=True)
class TheoryBetaData(FigureData):
    sizes: tuple[int, int, int]  # N, T, V
    most: int  # the largest number of assignments in context
    beta: np.ndarray  # (points,)
    constant: np.ndarray  # (points,) remainder over V (1/N + 1/T + T alpha)
    remainder: np.ndarray  # (points,) over the memory's norm
    attenuation: np.ndarray  # (points,) norm of the other displayed term over the memory's
    stated: np.ndarray  # (2, points) accuracy after the stated step, with one assignment and with the most
    balanced: np.ndarray  # (2, points) after the step that balances the attention; NaN where there is none
    conditions: np.ndarray  # (points,) whether the theorem's conditions are met


def theory_beta_data(points: Sequence[BetaPoint]) -> TheoryBetaData:
    """The bound of the theorem and the accuracies after both steps, over beta."""
    s = points[0].s  # all points have the same sizes
    checks = [point.check for point in points]
    return TheoryBetaData(
        sizes=(s.N, s.T, s.V),
        most=most_assignments(s),
        beta=np.array([point.beta for point in points]),
        constant=np.array([check.constant for check in checks]),
        remainder=np.array([check.remainder for check in checks]) / MEMORY_NORM,
        attenuation=np.array([check.attenuation for check in checks]) / MEMORY_NORM,
        stated=np.array([point.stated for point in points]).T,
        balanced=np.array([point.balanced for point in points]).T,
        conditions=np.array([check.s.meets_conditions for check in checks]),
    )


def draw_theory_beta(data: TheoryBetaData, figure: Figure) -> None:
    """Draws the ratios of the bound above, and accuracies below, dashed with the most assignments in context."""
    N, T, V = data.sizes
    top, bottom = figure.subplots(2, 1, sharex=True)
    top.plot(data.beta, data.constant, color=BLUE, label="constant of the bound")
    top.plot(data.beta, data.remainder, color=VERMILION, linestyle="--", label="remainder / memory")
    top.plot(data.beta, data.attenuation, color=PURPLE, linestyle="-.", label="other displayed\nterm / memory")
    top.axhline(1, color=INK, linewidth=0.6)
    top.set(yscale="log", ylabel="ratio (log scale)")
    conditions = f"$\\rho_1$ ≥ 1/{FACTOR:g} and 1/{FACTOR:g} ≤ T$\\rho_2$ ≤ {FACTOR:g}"
    top.set_title(f"N = {N}, T = {T}, V = {V}; shaded: {conditions}", fontsize=8)
    top.annotate("log T ", (np.log(T), 0.04), xycoords=("data", "axes fraction"), ha="right", fontsize=7, color=INK)
    steps = {"stated": (data.stated, VERMILION), "balancing": (data.balanced, GREEN)}
    for step, ((with_one, with_most), color) in steps.items():
        bottom.plot(data.beta, with_one, color=color, label=f"{step} step, |τ| = 1")
        label = f"{step} step, |τ| = {data.most}"
        bottom.plot(data.beta, with_most, color=color, label=label, linestyle="--", linewidth=1)
    bottom.axhline(1 / N, color=INK, linewidth=0.6)
    bottom.set(ylabel="accuracy", ylim=(-0.03, 1.06))
    for axes in (top, bottom):
        full_height = axes.get_xaxis_transform()  # 0 and 1 are the lower and the upper edge of the axes
        shade: Any = {"color": SHADE, "linewidth": 0, "zorder": 0}
        axes.fill_between(data.beta, 0, 1, where=data.conditions, transform=full_height, **shade)
        axes.axvline(np.log(T), color=INK, linewidth=0.8, linestyle=":")
        axes.legend(fontsize=6.5, loc="center left", bbox_to_anchor=(1.01, 0.5), handlelength=1.8)
    bottom.set(xscale="log", xlabel="β (log scale)", xlim=(0.2, data.beta[-1]))
    ticks = [beta for beta in (0.2, 0.5, 1, 2, 5, 10, 20, 50) if beta <= data.beta[-1]]
    bottom.set_xticks(ticks, [f"{beta:g}" for beta in ticks])
    bottom.minorticks_off()


@dataclass(frozen=True)
class TheoryRealGradientData(FigureData):
    """Cosines of a network's gradient and of the change of QK2 with the predicted memory, over training."""

    name: str
    steps: np.ndarray  # (M,)
    accuracy: np.ndarray  # (M,) on one-variable sequences
    spike_at: int  # -1 where there is none
    gradient: np.ndarray  # (3, M) cosine with the prediction, and 5 and 95 % of those with variables permuted
    change: np.ndarray  # (3, M - 1) the same for the change of QK2 to the next checkpoint


def real_gradient_of(network: Network) -> TheoryRealGradientData | Absent:
    """The data of figure `theory_real_gradient` for one network; `Absent` with under two checkpoints."""
    gradient = theory_gradient_of(network)
    if gradient is None:
        return Absent(f"seed {network.seed}: no checkpoints to compare with the theory")
    return TheoryRealGradientData(
        name=f"{network.name}, seed {network.seed}",
        steps=np.array(gradient.steps),
        accuracy=gradient.accuracy.numpy(),
        spike_at=-1 if gradient.spike_at is None else gradient.spike_at,
        gradient=_with_band(gradient.descent),
        change=_with_band(gradient.change),
    )


def _with_band(cosines: Alignment) -> np.ndarray:
    """The cosine with the memory, and the 5 and 95 % quantiles of those with the permuted directions, (3, M)."""
    band = cosines.permuted.numpy()  # (M, DIRECTIONS)
    return np.stack([cosines.memory.numpy(), *np.quantile(band, [0.05, 0.95], axis=1)])


def draw_theory_real_gradient(data: TheoryRealGradientData, figure: Figure) -> None:
    """Draws accuracy, cosines of the gradient, and cosines of the change between checkpoints, one below the other."""
    top, middle, bottom = figure.subplots(3, 1, sharex=True, height_ratios=[0.8, 1.2, 1.2])
    steps = np.maximum(data.steps, 1)  # the axis is logarithmic and has no 0
    top.plot(steps, data.accuracy, color=BY_VARS[1], marker=".", markersize=3)
    top.set(ylabel="accuracy,\none variable", ylim=(0, 1.05), title=data.name)
    midpoints = np.sqrt(steps[:-1] * steps[1:])  # a change is drawn halfway between its checkpoints
    _draw_cosines(middle, steps, data.gradient, "−gradient")
    _draw_cosines(bottom, midpoints, data.change, "change")
    if data.spike_at > 0:
        for axes in (top, middle, bottom):
            axes.axvline(data.spike_at, color=INK, linewidth=0.8, linestyle=":")
        top.annotate("first spike ", (data.spike_at, 0.12), ha="right", fontsize=7.5)
    figure.legend(handles=middle.get_legend_handles_labels()[0], loc="outside lower center", ncols=2, handlelength=1.6)
    bottom.set(xscale="log", xlabel="training step (log scale)", xlim=(min(100, steps[-1] / 2), steps[-1]))
    figure.align_ylabels()


def _draw_cosines(axes: Axes, steps: np.ndarray, cosines: np.ndarray, of_which: str) -> None:
    """Draws the cosine with the memory and the band of the permuted directions; `of_which` names these for the axis."""
    with_memory, low, high = cosines
    axes.fill_between(steps, low, high, color=GREY, alpha=0.35, linewidth=0, label="variables permuted, 5–95 %")
    axes.plot(steps, with_memory, color=BLUE, marker=".", markersize=3.5, label="predicted memory")
    limit = max(0.12, float(np.abs(cosines).max()) * 1.15)  # symmetric, with space around the curves
    axes.set(ylim=(-limit, limit), ylabel=f"cosine, {of_which}")


THEORY_BETA_FIGURE = FigureRecord(
    "theory_beta", "The theorem and its step against beta",
    "The paper leaves beta free; the shaded values meet the theorem's conditions within the factor given. Above, "
    "look for where the remainder is smaller than the memory (below the line at 1), and how large the other "
    "displayed term is. Below, look for the beta at which the stated step reaches accuracy 1, and whether they "
    "are shaded. The balancing step goes along the same gradient until assignment and second operand get equal "
    "attention.",
    lambda _: theory_beta_data(beta_points(Setting())), draw_theory_beta, height=3.9, width=6.6,
)  # fmt: skip
THEORY_REAL_GRADIENT_FIGURE = FigureRecord(
    "theory_real_gradient", "The theory's direction in real training",
    "Cosine of the real gradient, and of the real change of QK2, with the direction that the theorem predicts. "
    "Look before the first spike: is it above the band of permuted variables, and how far from 1?",
    lambda s: real_gradient_of(s.model), draw_theory_real_gradient, height=4.4,
)  # fmt: skip
