"""Figure `theory_beta`: the theorem's bound and what its step leads to, against beta, which the paper leaves free."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from assignadd.palette import INK
from assignadd.theory.beta import FACTOR, BetaScan
from assignadd.theory.theorem import MEMORY_NORM

BLUE, ORANGE, GREEN, PINK, SHADE = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E9E3B4"


@dataclass(frozen=True)
class TheoryBetaData:
    sizes: tuple[int, int, int]  # N, T, V
    most: int  # assignments in context
    beta: np.ndarray  # (b,)
    constant: np.ndarray  # (b,) remainder over V (1/N + 1/T + T alpha)
    remainder: np.ndarray  # (b,) over the memory's norm
    attenuation: np.ndarray  # (b,) norm of the other displayed term over the memory's
    stated: np.ndarray  # (2, b) accuracy after the stated step, with one assignment and with the most
    balanced: np.ndarray  # (2, b) after the step that balances the attention; NaN where there is none
    conditions: np.ndarray  # (i, 2) intervals of beta that meet the theorem's conditions
    composing: np.ndarray  # (j, 2) intervals of beta at which the stated step adds one variable and one number

    def arrays(self) -> dict[str, np.ndarray]:
        return {name: np.array(value) for name, value in vars(self).items()}


def theory_beta_data(scan: BetaScan) -> TheoryBetaData:
    checks = [p.check for p in scan.points]
    return TheoryBetaData(
        (scan.s.N, scan.s.T, scan.s.V),
        scan.most,
        np.array([p.beta for p in scan.points]),
        np.array([c.constant for c in checks]),
        np.array([c.remainder for c in checks]) / MEMORY_NORM,
        np.array([c.attenuation for c in checks]) / MEMORY_NORM,
        np.array([p.stated for p in scan.points]).T,
        np.array([p.balanced for p in scan.points]).T,
        np.array(scan.conditions).reshape(-1, 2),
        np.array(scan.composing).reshape(-1, 2),
    )


def draw_theory_beta(data: TheoryBetaData, figure: Figure) -> None:
    top, bottom = figure.subplots(2, 1, sharex=True)
    _draw_bound(data, top)
    _draw_accuracy(data, bottom)
    for axes in (top, bottom):
        for low, high in data.conditions:
            axes.axvspan(low, high, color=SHADE, linewidth=0, zorder=0)
        axes.axvline(np.log(data.sizes[1]), color=INK, linewidth=0.8, linestyle=":")
        axes.legend(fontsize=6.5, loc="center left", bbox_to_anchor=(1.01, 0.5), handlelength=1.8)
    N, T, V = data.sizes
    top.set_title(
        f"N = {N}, T = {T}, V = {V}; shaded: $\\rho_1$ ≥ 1/{FACTOR:g} and 1/{FACTOR:g} ≤ T$\\rho_2$ ≤ {FACTOR:g}",
        fontsize=8,
    )
    top.annotate("log T ", (np.log(T), 0.04), xycoords=("data", "axes fraction"), ha="right", fontsize=7, color=INK)
    bottom.set(xscale="log", xlabel="β (log scale)", xlim=(data.beta[0], data.beta[-1]))
    ticks = [t for t in (0.2, 0.5, 1, 2, 5, 10, 20, 50, 100) if data.beta[0] <= t <= data.beta[-1]]
    bottom.set_xticks(ticks, [f"{t:g}" for t in ticks])
    bottom.minorticks_off()


def _draw_bound(data: TheoryBetaData, axes: Axes) -> None:
    axes.plot(data.beta, data.constant, color=BLUE, label="constant of the bound")
    axes.plot(data.beta, data.remainder, color=ORANGE, linestyle="--", label="remainder / memory")
    axes.plot(data.beta, data.attenuation, color=PINK, linestyle="-.", label="other displayed\nterm / memory")
    axes.axhline(1, color=INK, linewidth=0.6)
    values = np.concatenate([data.constant, data.remainder])
    axes.set(
        yscale="log",
        ylabel="ratio (log scale)",
        ylim=(min(0.5, values.min() / 1.5), 2 * max(values.max(), data.attenuation.max())),
    )


def _draw_accuracy(data: TheoryBetaData, axes: Axes) -> None:
    """Thin lines: with the most assignments in context."""
    rows = (
        (data.stated[0], ORANGE, "-", 2.0, "stated step, |τ| = 1"),
        (data.stated[1], ORANGE, "--", 1.0, f"stated step, |τ| = {data.most}"),
        (data.balanced[0], GREEN, "-", 1.4, "balancing step, |τ| = 1"),
        (data.balanced[1], GREEN, "--", 1.0, f"balancing step, |τ| = {data.most}"),
    )
    for values, colour, line, width, label in rows:
        axes.plot(data.beta, values, color=colour, linestyle=line, linewidth=width, label=label)
    axes.axhline(1 / data.sizes[0], color=INK, linewidth=0.6)
    axes.set(ylabel="accuracy", ylim=(-0.03, 1.06))
