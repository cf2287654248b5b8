"""Figures `theory_beta`, `theory_remainder`, `theory_attention` and `theory_real_gradient`: theorem C.1, its bound and
its gradient step, and a network's gradient and change of QK2 against the memory of the theorem."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure

from assignadd.figure.record import Absent, FigureData, FigureRecord
from assignadd.network import Network
from assignadd.palette import BLUE, BY_VARS, GREEN, GREY, INK, ON_LIGHT, PURPLE, SHADE, VERMILION
from assignadd.paper.theory.claims import paper_numbers
from assignadd.paper.theory.composition import FACTOR, BetaScan, StepNumbers, attention
from assignadd.paper.theory.real_gradient import Alignment, TheoryGradient, theory_gradient_of
from assignadd.paper.theory.setting import Setting
from assignadd.paper.theory.theorem import MEMORY_NORM, Check, after_step, check, fitted_constant

MAP_T = tuple(sorted({round(4 * 2 ** (i / 6)) for i in range(37)}))
MAP_V = tuple(range(1, 25))
STAR: Any = {"marker": "*", "color": VERMILION, "linestyle": "none"}  # the setting of the paper's experiment


@dataclass(frozen=True)
class TheoryBetaData(FigureData):
    """The theorem's bound and the accuracy after its step, against beta."""

    sizes: tuple[int, int, int]  # N, T, V
    most: int  # the largest number of assignments in context
    beta: np.ndarray  # (b,)
    constant: np.ndarray  # (b,) remainder over V (1/N + 1/T + T alpha)
    remainder: np.ndarray  # (b,) over the memory's norm
    attenuation: np.ndarray  # (b,) norm of the other displayed term over the memory's
    stated: np.ndarray  # (2, b) accuracy after the stated step, with one assignment and with the most
    balanced: np.ndarray  # (2, b) after the step that balances the attention; NaN where there is none
    conditions: np.ndarray  # (i, 2) intervals of beta that meet the theorem's conditions
    composing: np.ndarray  # (j, 2) intervals of beta at which the stated step adds one variable and one number


def theory_beta_data(scan: BetaScan) -> TheoryBetaData:
    """The arrays of figure `theory_beta`."""
    checks = [p.check for p in scan.points]
    return TheoryBetaData(
        (scan.s.N, scan.s.T, scan.s.V), scan.most, _column(scan.points, "beta"), _column(checks, "constant"),
        _column(checks, "remainder") / MEMORY_NORM, _column(checks, "attenuation") / MEMORY_NORM,
        _column(scan.points, "stated").T, _column(scan.points, "balanced").T,
        np.reshape(scan.conditions, (-1, 2)), np.reshape(scan.composing, (-1, 2)),
    )  # fmt: skip


def _column(records: Sequence[Any], name: str) -> np.ndarray:
    """One field of these records."""
    return np.array([getattr(record, name) for record in records])


def draw_theory_beta(data: TheoryBetaData, figure: Figure) -> None:
    """Top: the ratios of the bound. Bottom: accuracies; thin lines are with the most assignments in context."""
    N, T, V = data.sizes
    top, bottom = figure.subplots(2, 1, sharex=True)
    top.plot(data.beta, data.constant, color=BLUE, label="constant of the bound")
    top.plot(data.beta, data.remainder, color=VERMILION, linestyle="--", label="remainder / memory")
    top.plot(data.beta, data.attenuation, color=PURPLE, linestyle="-.", label="other displayed\nterm / memory")
    top.axhline(1, color=INK, linewidth=0.6)
    values = np.concatenate([data.constant, data.remainder])
    limits = min(0.5, values.min() / 1.5), 2 * max(values.max(), data.attenuation.max())
    conditions = f"$\\rho_1$ ≥ 1/{FACTOR:g} and 1/{FACTOR:g} ≤ T$\\rho_2$ ≤ {FACTOR:g}"
    top.set(yscale="log", ylabel="ratio (log scale)", ylim=limits)
    top.set_title(f"N = {N}, T = {T}, V = {V}; shaded: {conditions}", fontsize=8)
    top.annotate("log T ", (np.log(T), 0.04), xycoords=("data", "axes fraction"), ha="right", fontsize=7, color=INK)
    curves = (
        (data.stated[0], VERMILION, "-", 2.0, "stated step, |τ| = 1"),
        (data.stated[1], VERMILION, "--", 1.0, f"stated step, |τ| = {data.most}"),
        (data.balanced[0], GREEN, "-", 1.4, "balancing step, |τ| = 1"),
        (data.balanced[1], GREEN, "--", 1.0, f"balancing step, |τ| = {data.most}"),
    )
    for accuracy, colour, line, width, label in curves:
        bottom.plot(data.beta, accuracy, color=colour, linestyle=line, linewidth=width, label=label)
    bottom.axhline(1 / N, color=INK, linewidth=0.6)
    bottom.set(ylabel="accuracy", ylim=(-0.03, 1.06))
    for axes in (top, bottom):
        for low, high in data.conditions:
            axes.axvspan(low, high, color=SHADE, linewidth=0, zorder=0)
        axes.axvline(np.log(T), color=INK, linewidth=0.8, linestyle=":")
        axes.legend(fontsize=6.5, loc="center left", bbox_to_anchor=(1.01, 0.5), handlelength=1.8)
    bottom.set(xscale="log", xlabel="β (log scale)", xlim=(data.beta[0], data.beta[-1]))
    ticks = [t for t in (0.2, 0.5, 1, 2, 5, 10, 20, 50, 100) if data.beta[0] <= t <= data.beta[-1]]
    bottom.set_xticks(ticks, [f"{t:g}" for t in ticks])
    bottom.minorticks_off()


@dataclass(frozen=True)
class TheoryRemainderData(FigureData):
    """The theorem's remainder and its bound, over a grid of settings and over T and V."""

    T: np.ndarray  # (settings,)
    bound: np.ndarray  # (settings,)
    remainder: np.ndarray  # (settings,)
    constant: float
    here: tuple[int, int, int, float]  # N, T, V, alpha
    here_bound: float
    here_remainder: float
    map_T: np.ndarray  # (t,)
    map_V: np.ndarray  # (v,)
    map_remainder: np.ndarray  # (v, t), at the N and alpha of `here`
    map_bound: np.ndarray  # (v, t)


def theory_remainder_data(checks: Sequence[Check], here: Check) -> TheoryRemainderData:
    """The arrays of figure `theory_remainder`, from the checks over a grid and the one at the setting to mark."""
    s, V = here.s, [v for v in MAP_V if v <= here.s.N]
    mapped = [[check(Setting(s.N, t, v, s.alpha)) for t in MAP_T] for v in V]
    return TheoryRemainderData(
        np.array([c.s.T for c in checks]), _column(checks, "bound"), _column(checks, "remainder"),
        fitted_constant(checks), (s.N, s.T, s.V, s.alpha), here.bound, here.remainder, np.array(MAP_T), np.array(V),
        np.array([_column(row, "remainder") for row in mapped]), np.array([_column(row, "bound") for row in mapped]),
    )  # fmt: skip


def draw_theory_remainder(data: TheoryRemainderData, figure: Figure) -> None:
    """Left: remainder against bound at every setting of the grid. Right: remainder over memory against T and V."""
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.12])
    _draw_grid(data, left)
    _draw_map(data, right)
    handles = [h for axes in (left, right) for h in axes.get_legend_handles_labels()[0]]
    layout = {"ncols": 4, "fontsize": 7, "columnspacing": 1.2, "handletextpad": 0.5}
    figure.legend(handles=handles, loc="outside lower center", **layout)


def _draw_grid(data: TheoryRemainderData, axes: Axes) -> None:
    lengths = sorted(set(data.T.tolist()))
    colours = colormaps["viridis"](np.linspace(0.35, 0.92, len(lengths)))
    for T, colour in zip(lengths, colours, strict=True):
        at = data.T == T
        axes.scatter(data.bound[at], data.remainder[at], s=5, color=colour, label=f"T = {T}", linewidths=0)
    x = np.array([data.bound.min(), data.bound.max()])
    axes.plot(x, data.constant * x, color=INK, linewidth=1, linestyle="--", label=f"(a) {data.constant:.2f} × bound")
    axes.axhline(MEMORY_NORM, color=INK, linewidth=0.8, linestyle=":", label="(a) norm of the memory")
    axes.plot(data.here_bound, data.here_remainder, markersize=11, markeredgecolor="white", **STAR)
    axes.set(xscale="log", yscale="log", xlabel="V (1/N + 1/T + Tα)", ylabel="remainder, row-sum norm")
    axes.set_title("(a) remainder against bound\nat every setting of the grid")


def _draw_map(data: TheoryRemainderData, axes: Axes) -> None:
    N, T, V, alpha = data.here
    place, ratio = (data.map_T, data.map_V), np.log2(data.map_remainder / MEMORY_NORM)
    most = float(np.abs(ratio).max())
    norm = TwoSlopeNorm(0, -most, most)
    shown = axes.pcolormesh(*place, ratio, cmap="PuOr_r", norm=norm, shading="nearest", rasterized=True)
    contours = ((data.map_remainder, "-", "remainder"), (data.map_bound, "--", "bound"))
    for values, line, name in contours:
        axes.contour(*place, values, [MEMORY_NORM], colors=ON_LIGHT, linewidths=1.2, linestyles=line)
        axes.plot([], [], color=INK, linewidth=1.2, linestyle=line, label=f"(b) {name} = memory")
    axes.plot(T, V, markersize=11, markeredgecolor="white", **STAR)
    axes.plot([], [], label=f"N = {N}, T = {T}, V = {V}", **STAR)
    axes.set(xscale="log", xlabel="T", ylabel="V", title=f"(b) remainder / memory\nat N = {N}, α = {alpha:g}")
    axes.set_xticks([4, 16, 64, 256], ["4", "16", "64", "256"])
    axes.minorticks_off()
    axes.grid(False)
    bar = axes.figure.colorbar(shown, ax=axes, pad=0.02)
    ticks = [t for t in (-6, -4, -2, 0, 2, 4) if abs(t) <= most]
    bar.set_ticks(ticks, labels=[f"{2.0**t:g}" if t >= 0 else f"1/{2**-t}" for t in ticks])


@dataclass(frozen=True)
class TheoryAttentionData(FigureData):
    """Attention and accuracy after one gradient step, and the coefficients of W during further steps."""

    sizes: tuple[int, int, int]  # N, T, V
    length: np.ndarray  # (l,) step length as a share of the stated eta
    target: np.ndarray  # (l,) attention to the assignment, |tau| = 1
    second: np.ndarray  # (l,) attention to the second operand
    balanced: float
    K: np.ndarray  # (k,) assignments in context
    accuracy: np.ndarray  # (4, k) at W_0, after the stated step, after the balanced one, after further steps
    step: np.ndarray  # (m,) further steps
    memory: np.ndarray  # (m,)
    spurious: np.ndarray  # (m,)
    memory_one: np.ndarray  # (m,) the same on one-variable data
    spurious_one: np.ndarray  # (m,)


def theory_attention_data(step: StepNumbers) -> TheoryAttentionData:
    """The arrays of figure `theory_attention`."""
    lengths = np.linspace(0, 1.1, 111)
    weights = [attention(after_step(step.s, length), 1) for length in lengths]
    accuracies = [_column(row, "accuracy") for row in (step.before, step.stated, step.shorter)]
    return TheoryAttentionData(
        (step.s.N, step.s.T, step.s.V), lengths, _column(weights, "target"), _column(weights, "second"),
        step.balanced, _column(step.stated, "K"), np.array([*accuracies, step.further[-1].accuracy]),
        _column(step.further, "step"), _column(step.further, "memory"), _column(step.further, "spurious"),
        _column(step.further_one, "memory"), _column(step.further_one, "spurious"),
    )  # fmt: skip


def draw_theory_attention(data: TheoryAttentionData, figure: Figure) -> None:
    """(a) attention against step length, (b) accuracy against assignments, (c) coefficients during further steps."""
    a, b, c = figure.subplots(1, 3)
    adds = (data.target < 2 * data.second) & (data.second < 2 * data.target)
    a.fill_between(data.length, 0, 1, where=adds, color=SHADE, linewidth=0, label="adds n + m")
    a.plot(data.length, data.target, color=BLUE, label="assignment n")
    a.plot(data.length, data.second, color=VERMILION, linestyle="--", label="operand m")
    a.axvline(1, color=INK, linewidth=0.8, linestyle=":")
    a.annotate("stated η ", (1, 0.7), rotation=90, ha="right", va="center", fontsize=7, color=INK)
    a.set(xlabel="step length / stated η", ylabel="attention", ylim=(0, 1), xlim=(0, data.length[-1]))
    a.set_title("(a) one assignment")
    a.legend(fontsize=6.5, loc="center", bbox_to_anchor=(0.62, 0.36), handlelength=1.4)
    curves = (
        ("$W_0$", GREY, "s", ":"),
        ("stated step", VERMILION, "v", "--"),
        ("shorter step", BLUE, "o", "-"),
        ("+ further steps", GREEN, "D", "-."),
    )
    for (label, colour, marker, line), accuracy in zip(curves, data.accuracy, strict=True):
        b.plot(data.K, accuracy, color=colour, marker=marker, linestyle=line, markersize=3.5, label=label)
    b.axhline(1 / data.sizes[0], color=INK, linewidth=0.6)
    b.set(xlabel="assignments |τ|", ylabel="accuracy", ylim=(-0.03, 1.04), xticks=data.K)
    b.set_title("(b) several assignments")
    b.legend(fontsize=6.5, loc="center left", bbox_to_anchor=(0.0, 0.42), handlelength=2.2)
    c.plot(data.step, data.memory, color=GREEN, label="memory")
    c.plot(data.step, data.spurious, color=PURPLE, label="spurious $p_T$ term")
    c.plot(data.step, data.memory_one, color=GREEN, linestyle="--", label="both, |τ| = 1 only", zorder=1)
    c.plot(data.step, data.spurious_one, color=PURPLE, linestyle=(4, (4, 4)), zorder=1)
    c.set(xlabel="further steps of η/20", ylabel="coefficient", xlim=(0, data.step[-1]), ylim=(0, None))
    c.set_title("(c) further steps")
    c.legend(fontsize=6.5, loc="upper left", handlelength=1.8)


@dataclass(frozen=True)
class TheoryRealGradientData(FigureData):
    """Cosines of a network's gradient and of the change of QK2 with the predicted memory, over training."""

    name: str
    steps: np.ndarray  # (M,)
    accuracy: np.ndarray  # (M,) on one-variable sequences
    spike_at: int  # -1 where there is none
    gradient: np.ndarray  # (5, M) cosine with the prediction, 5 and 95 % of the permuted ones, of the random ones
    change: np.ndarray  # (5, M - 1) the same for the change of QK2 to the next checkpoint


def real_gradient_of(network: Network) -> TheoryRealGradientData | Absent:
    """The data of a network; `Absent` without checkpoints."""
    gradient = theory_gradient_of(network)
    if gradient is None:
        return Absent(f"seed {network.seed}: no checkpoints to compare with the theory")
    return theory_real_gradient_data(gradient, f"{network.name}, seed {network.seed}")


def theory_real_gradient_data(gradient: TheoryGradient, name: str) -> TheoryRealGradientData:
    """The arrays of figure `theory_real_gradient`."""
    spike_at = -1 if gradient.spike_at is None else gradient.spike_at
    bands = _with_bands(gradient.descent), _with_bands(gradient.change)
    return TheoryRealGradientData(name, np.array(gradient.steps), gradient.accuracy.numpy(), spike_at, *bands)


def _with_bands(cosines: Alignment) -> np.ndarray:
    """(5, M) the cosine with the memory, and the 5 and 95 % quantiles of the permuted and of the random directions."""
    bands = [x.quantile(q, 1) for x in (cosines.permuted, cosines.random) for q in (0.05, 0.95)]
    return np.stack([x.numpy() for x in (cosines.memory, *bands)])


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


THEORY_BETA_FIGURE = FigureRecord(
    "theory_beta", "The theorem and its step against beta",
    "The paper leaves beta free; the shaded values meet the theorem's conditions within the factor given. Above, "
    "look for where the remainder is smaller than the memory (below the line at 1), and how large the other "
    "displayed term is. Below, look for the beta at which the stated step reaches accuracy 1, and whether they "
    "are shaded. The balancing step goes along the same gradient until assignment and second operand get equal "
    "attention.",
    lambda _: theory_beta_data(paper_numbers().scan), draw_theory_beta, height=3.9, width=6.6,
)  # fmt: skip
THEORY_REMAINDER_FIGURE = FigureRecord(
    "theory_remainder", "The theorem's remainder",
    "At beta = log T. Left, every setting of the grid: does the remainder stay below a constant times the bound, "
    "and what does it follow? Right, where the remainder is smaller than the memory; the star is the paper's own "
    "experiment.",
    lambda _: theory_remainder_data(paper_numbers().grid, paper_numbers().at), draw_theory_remainder,
    height=3.5, width=6.6,
)  # fmt: skip
THEORY_ATTENTION_FIGURE = FigureRecord(
    "theory_attention", "What one gradient step leads to at beta = log T",
    "(a) Which step lengths add n + m (shaded), and whether the stated one is among them. (b) Accuracy with "
    "several assignments in context, after steps of different length. (c) What further steps do to the memory "
    "and to the spurious term, on data with several assignments and with one.",
    lambda _: theory_attention_data(paper_numbers().step), draw_theory_attention, height=2.5, width=7.0,
)  # fmt: skip
THEORY_REAL_GRADIENT_FIGURE = FigureRecord(
    "theory_real_gradient", "The theory's direction in real training",
    "Cosine of the real gradient, and of the real change of QK2, with the direction that the theorem predicts. "
    "Look before the first spike: is it above the band of permuted variables, and how far from 1?",
    lambda s: real_gradient_of(s.model), draw_theory_real_gradient, height=4.4, found=theory_real_gradient_caption,
)  # fmt: skip
