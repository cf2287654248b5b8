"""Figures `generalization_combined` and `scaling`: accuracy against the amount of data, and the cost of many models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from assignadd.figure.record import NO_POPULATION, Absent, FigureData, FigureRecord
from assignadd.palette import BLUE, GREEN, GREY, INK, ORANGE, PURPLE
from assignadd.paper.generalisation.seeds import SWEEPS, sweep_threshold
from assignadd.stats.intervals import median_interval
from assignadd.sweeps.population import Populations

PARTS = (("2-var test held out", "held-out sum", BLUE), ("2-var test banned (1)", "one banned slot", ORANGE),
         ("2-var test banned (2)", "two banned slots", PURPLE))  # fmt: skip
TWO_VAR, ZERO_VAR = "2-var test", "0-var held out"


@dataclass(frozen=True)
class GeneralizationData(FigureData):
    """Thresholds, of the seeds that bind, are (value, low, high); NaN where the share that succeeds does not rise."""

    ratios: np.ndarray  # (settings,)
    two_var: np.ndarray  # (settings, seeds); NaN where a seed has no network
    parts: np.ndarray  # (parts, settings): medians over the seeds
    ratio_threshold: np.ndarray
    fractions: np.ndarray
    zero_var: np.ndarray
    fraction_threshold: np.ndarray
    names: list[str]  # of both populations
    steps: int


def generalization_data(populations: Populations) -> GeneralizationData | Absent:
    """Final accuracies and thresholds of the two sweeps."""
    if populations.two_var is None or populations.fraction is None:
        return NO_POPULATION
    ratios, accuracy = populations.two_var.finals(SWEEPS["two_var"], TWO_VAR)
    parts = [np.nanmedian(populations.two_var.finals(SWEEPS["two_var"], name)[1], axis=1) for name, _, _ in PARTS]
    fractions, zero = populations.fraction.finals(SWEEPS["fraction"], ZERO_VAR)
    found = [
        sweep_threshold(populations, sweep, test, binding=True)
        for sweep, test in (("two_var", TWO_VAR), ("fraction", ZERO_VAR))
    ]
    thresholds = [np.array([t.value, t.interval.low, t.interval.high] if t else [np.nan] * 3) for t in found]
    names = [populations.two_var.name, populations.fraction.name]
    steps = int(populations.two_var.last["step"][0])
    return GeneralizationData(
        ratios, accuracy, np.array(parts), thresholds[0], fractions, zero, thresholds[1], names, steps
    )


def generalization_caption(data: GeneralizationData) -> str:
    """Both thresholds with their intervals, in words."""
    return (
        f"Here ({' and '.join(dict.fromkeys(data.names))}) r = {_threshold_text(data.ratio_threshold)} and "
        f"f = {_threshold_text(data.fraction_threshold)}. The paper has about .2 and .25, for its own task."
    )


def _threshold_text(threshold: np.ndarray) -> str:
    return "not found" if np.isnan(threshold[0]) else f"{threshold[0]:.3f} [{threshold[1]:.3f}, {threshold[2]:.3f}]"


def draw_generalization(data: GeneralizationData, made: Figure) -> None:
    left, right = made.subplots(1, 2, sharey=True)
    _draw_accuracies(left, data.ratios, data.two_var, data.ratio_threshold, GREEN)
    for (_, label, color), median in zip(PARTS, data.parts, strict=True):
        left.plot(data.ratios, median, color=color, linewidth=0.9, linestyle=(0, (3, 1.5)), label=label)
    left.set_title("(a) two-variable sums")
    left.set(xlabel="two-variable sequences per literal one, $r$", ylabel=f"test accuracy after {data.steps:,} steps")
    _draw_accuracies(right, data.fractions, data.zero_var, data.fraction_threshold, BLUE)
    right.set_title("(b) literal sums never trained")
    right.set(xlabel="share of pairs in training, $f$")
    left.set_ylim(-0.03, 1.03)
    handles, labels = left.get_legend_handles_labels()
    made.legend(handles, labels, loc="outside lower center", ncols=3)


def _draw_accuracies(ax: Axes, settings: np.ndarray, accuracy: np.ndarray, threshold: np.ndarray, color: str) -> None:
    n = accuracy.shape[1]
    jitter = (np.arange(n) - (n - 1) / 2) * 0.0008 * (settings[-1] - settings[0])
    dot: Any = {"color": GREY, "markersize": 1.8, "alpha": 0.7, "label": "one seed"}
    ax.plot((settings[:, None] + jitter).ravel(), accuracy.ravel(), "o", **dot)
    intervals = [median_interval(row[np.isfinite(row)].tolist()) for row in accuracy]
    ax.plot(settings, [m for m, _ in intervals], color=color, label="median, 95 % interval")
    low, high = zip(*((i.low, i.high) if i else (m, m) for m, i in intervals), strict=True)
    ax.fill_between(settings, low, high, color=color, alpha=0.18, linewidth=0)
    if np.isfinite(threshold[0]):
        ax.axvline(threshold[0], color=INK, linewidth=0.9)
        ax.axvspan(threshold[1], threshold[2], color=INK, alpha=0.1, linewidth=0)
        words = f"half of those\nthat bind: {threshold[0]:.2f}"
        box: Any = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1}
        ax.annotate(words, (threshold[0], 0.55), (4, 0), textcoords="offset points", fontsize=7, bbox=box)


GENERALIZATION_FIGURE = FigureRecord(
    "generalization_combined", "How much data generalisation needs",
    "Test accuracy against the share of pairs and of two-variable sequences in training. Every dot is a network. "
    "Lines are medians over seeds; the dashed ones show the parts of the two-variable test. The vertical line is "
    "where half of the seeds that can succeed do, among those that bind, with its interval.",
    lambda s: generalization_data(s.populations), draw_generalization, height=3.2, found=generalization_caption,
)  # fmt: skip
