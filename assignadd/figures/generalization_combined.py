"""Figure `generalization_combined`: test accuracy against how much of the data there was, every seed a point."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from assignadd.claims.population import SUCCESS
from assignadd.figures.arrays import FigureData
from assignadd.figures.style import BLUE, GREEN, GREY, INK, ORANGE, PURPLE
from assignadd.stats import median_interval, threshold_interval
from assignadd.sweeps.population import Population

PARTS = (("2-var test held out", "held-out sum", BLUE), ("2-var test banned (1)", "one banned slot", ORANGE),
         ("2-var test banned (2)", "two banned slots", PURPLE))  # fmt: skip
RATIO, FRACTION, TWO_VAR, ZERO_VAR = "two_var_ratio", "seen_fraction", "2-var test", "0-var held out"


@dataclass(frozen=True)
class GeneralizationData(FigureData):
    ratios: np.ndarray  # (settings,)
    two_var: np.ndarray  # (settings, seeds)
    parts: np.ndarray  # (parts, settings): medians over the seeds
    ratio_threshold: np.ndarray  # value, low, high; NaN where half of the seeds never succeed
    fractions: np.ndarray
    zero_var: np.ndarray
    fraction_threshold: np.ndarray


def generalization_data(two_var: Population, fraction: Population) -> GeneralizationData:
    ratios, accuracy = two_var.finals(RATIO, TWO_VAR)
    parts = [[float(np.median(some)) for some in two_var.finals(RATIO, name)[1]] for name, _, _ in PARTS]
    fractions, zero = fraction.finals(FRACTION, ZERO_VAR)
    thresholds = [_threshold(p, s, t) for p, s, t in ((two_var, RATIO, TWO_VAR), (fraction, FRACTION, ZERO_VAR))]
    return GeneralizationData(
        np.array(ratios), np.array(accuracy), np.array(parts), thresholds[0], np.array(fractions), np.array(zero), thresholds[1]
    )


def _threshold(population: Population, setting: str, test: str) -> np.ndarray:
    found = threshold_interval(*population.outcomes(setting, test, SUCCESS))
    return np.array([np.nan] * 3 if found is None else [found[0], found[1].low, found[1].high])


def draw_generalization(data: GeneralizationData, made: Figure) -> None:
    left, right = made.subplots(1, 2, sharey=True)
    _panel(left, data.ratios, data.two_var, data.ratio_threshold, GREEN)
    for (_, label, color), median in zip(PARTS, data.parts, strict=True):
        left.plot(data.ratios, median, color=color, linewidth=0.9, linestyle=(0, (3, 1.5)), label=label)
    left.set_title("(a) two-variable sums")
    left.set(xlabel="two-variable sequences per literal one, $r$", ylabel="test accuracy after 30,000 steps")
    _panel(right, data.fractions, data.zero_var, data.fraction_threshold, BLUE)
    right.set_title("(b) literal sums never trained")
    right.set(xlabel="share of pairs in training, $f$")
    left.set_ylim(-0.03, 1.03)
    handles, labels = left.get_legend_handles_labels()
    made.legend(handles, labels, loc="outside lower center", ncols=3)


def _panel(ax: Axes, settings: np.ndarray, accuracy: np.ndarray, threshold: np.ndarray, color: str) -> None:
    n = accuracy.shape[1]
    jitter = (np.arange(n) - (n - 1) / 2) * 0.0008 * (settings[-1] - settings[0])
    ax.plot((settings[:, None] + jitter).ravel(), accuracy.ravel(), "o", color=GREY, markersize=1.8, alpha=0.7, label="one seed")
    intervals = [median_interval(row.tolist()) for row in accuracy]
    ax.plot(settings, [m for m, _ in intervals], color=color, label="median, 95 % interval")
    low, high = zip(*((i.low, i.high) if i else (m, m) for m, i in intervals), strict=True)
    ax.fill_between(settings, low, high, color=color, alpha=0.18, linewidth=0)
    if np.isfinite(threshold[0]):
        ax.axvline(threshold[0], color=INK, linewidth=0.9)
        ax.axvspan(threshold[1], threshold[2], color=INK, alpha=0.1, linewidth=0)
        ax.annotate(
            f"half of the seeds\nat {threshold[0]:.2f}", (threshold[0], 0.55), xytext=(4, 0), textcoords="offset points", fontsize=7
        )
