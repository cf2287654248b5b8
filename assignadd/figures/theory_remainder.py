"""Figure `theory_remainder`: the theorem's remainder against its bound, and where it is smaller than the memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure

from assignadd.palette import INK
from assignadd.theory.setting import Setting
from assignadd.theory.theorem import MEMORY_NORM, Check, check, fitted_constant

MAP_T = tuple(sorted({round(4 * 2 ** (i / 6)) for i in range(37)}))
MAP_V = tuple(range(1, 25))
MARK = "#D55E00"


@dataclass(frozen=True)
class TheoryRemainderData:
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

    def arrays(self) -> dict[str, np.ndarray]:
        return {name: np.array(value) for name, value in vars(self).items()}


def theory_remainder_data(checks: Sequence[Check], here: Check) -> TheoryRemainderData:
    """From the checks over a grid and the one at the setting to mark."""
    s, V = here.s, [v for v in MAP_V if v <= here.s.N]
    mapped = [[check(Setting(s.N, t, v, s.alpha)) for t in MAP_T] for v in V]
    return TheoryRemainderData(
        np.array([c.s.T for c in checks]),
        np.array([c.s.bound for c in checks]),
        np.array([c.remainder for c in checks]),
        fitted_constant(checks),
        (s.N, s.T, s.V, s.alpha),
        s.bound,
        here.remainder,
        np.array(MAP_T),
        np.array(V),
        np.array([[c.remainder for c in row] for row in mapped]),
        np.array([[c.s.bound for c in row] for row in mapped]),
    )


def draw_theory_remainder(data: TheoryRemainderData, figure: Figure) -> None:
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.12])
    _draw_bound(data, left)
    _draw_map(data, right)
    handles = [h for axes in (left, right) for h in axes.get_legend_handles_labels()[0]]
    figure.legend(
        handles=handles, loc="outside lower center", ncols=4, fontsize=7, columnspacing=1.2, handletextpad=0.5
    )


def _draw_bound(data: TheoryRemainderData, axes: Axes) -> None:
    lengths = sorted(set(data.T.tolist()))
    colours = colormaps["viridis"](np.linspace(0.05, 0.92, len(lengths)))
    for T, colour in zip(lengths, colours, strict=True):
        at = data.T == T
        axes.scatter(data.bound[at], data.remainder[at], s=5, color=colour, label=f"T = {T}", linewidths=0)
    x = np.array([data.bound.min(), data.bound.max()])
    axes.plot(x, data.constant * x, color=INK, linewidth=1, linestyle="--", label=f"(a) {data.constant:.2f} × bound")
    axes.axhline(MEMORY_NORM, color=INK, linewidth=0.8, linestyle=":", label="(a) norm of the memory")
    axes.plot(
        data.here_bound,
        data.here_remainder,
        marker="*",
        markersize=11,
        color=MARK,
        markeredgecolor="white",
        linestyle="none",
    )
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="V (1/N + 1/T + Tα)",
        ylabel="remainder, row-sum norm",
        title="(a) remainder against bound\nat every setting of the grid",
    )


def _draw_map(data: TheoryRemainderData, axes: Axes) -> None:
    ratio = np.log2(data.map_remainder / MEMORY_NORM)
    most = float(np.abs(ratio).max())
    shown = axes.pcolormesh(
        data.map_T,
        data.map_V,
        ratio,
        cmap="PuOr_r",
        norm=TwoSlopeNorm(0, -most, most),
        shading="nearest",
        rasterized=True,
    )
    axes.contour(data.map_T, data.map_V, data.map_remainder, [MEMORY_NORM], colors=INK, linewidths=1.2)
    axes.contour(data.map_T, data.map_V, data.map_bound, [MEMORY_NORM], colors=INK, linewidths=1.2, linestyles="--")
    N, T, V, alpha = data.here
    axes.plot(T, V, marker="*", markersize=11, color=MARK, markeredgecolor="white", linestyle="none")
    axes.set(xscale="log", xlabel="T", ylabel="V", title=f"(b) remainder / memory\nat N = {N}, α = {alpha:g}")
    axes.set_xticks([4, 16, 64, 256], ["4", "16", "64", "256"])
    axes.minorticks_off()
    axes.grid(False)
    bar = axes.figure.colorbar(shown, ax=axes, pad=0.02)
    ticks = [t for t in (-6, -4, -2, 0, 2, 4) if abs(t) <= most]
    bar.set_ticks(ticks, labels=[f"{2.0**t:g}" if t >= 0 else f"1/{2**-t}" for t in ticks])
    axes.plot([], [], color=INK, linewidth=1.2, label="(b) remainder = memory")
    axes.plot([], [], color=INK, linewidth=1.2, linestyle="--", label="(b) bound = memory")
    axes.plot([], [], marker="*", color=MARK, linestyle="none", label=f"N = {N}, T = {T}, V = {V}")
