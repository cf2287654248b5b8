"""Many networks: figures `census` (ours), what seeds learn and when, and `generalization_combined`, how much data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from assignadd.dynamics.curves import Onset
from assignadd.dynamics.phases import Phases
from assignadd.figure.record import NO_POPULATION, Absent, FigureData, FigureRecord
from assignadd.palette import BLUE, BY_VARS, GREEN, GREY, INK, ORANGE, PURPLE, VERMILION
from assignadd.paper.generalisation.seeds import SWEEPS, sweep_threshold
from assignadd.stats import median_interval, wilson
from assignadd.sweeps.population import Populations
from assignadd.task.evalsets import EVAL_SETS

SKILLS: tuple[tuple[str, str, Callable[[Phases], Onset | None]], ...] = (
    ("addition", BLUE, lambda p: p.addition),
    ("binding", VERMILION, lambda p: p.binding),
    ("refinement", GREEN, lambda p: p.refinement),
)
NEVER = -1


@dataclass(frozen=True)
class CensusData(FigureData):
    steps: int
    onsets: np.ndarray  # (skills, seeds): the step, NEVER where it did not come
    binds: np.ndarray  # (seeds,)
    final: np.ndarray  # (sets, seeds)
    late: list[str]  # for every seed with a late variable, "b second"
    banned: list[str]  # those of them that stand in banned slots, each once
    name: str  # of the population


def census_data(populations: Populations) -> CensusData:
    """When every seed of a census learned each skill, its accuracies at the end, and its late variable."""
    seeds = populations.seeds
    onsets = np.full((len(SKILLS), len(seeds)), NEVER)
    for row, (_, _, onset_of) in enumerate(SKILLS):
        for column, seed in enumerate(seeds):
            onset = onset_of(seed.phases)
            if onset is not None:
                onsets[row, column] = onset.step
    final = [[seed.final(evalset.name) for seed in seeds] for evalset in EVAL_SETS]
    late_variables = [seed.late_variable for seed in seeds if seed.binds and seed.late_variable is not None]
    late = [f"{v.variable} {v.slot}" for v in late_variables]
    banned = sorted({f"{v.variable} {v.slot}" for v in late_variables if v.banned})
    steps = max(int(seed.curves.steps[-1]) for seed in seeds)
    binds = np.array([seed.binds for seed in seeds])
    return CensusData(steps, onsets, binds, np.array(final), late, banned, populations.census_name)


def census_caption(data: CensusData) -> str:
    """How many seeds learned each skill, in words."""
    came = [int((onsets != NEVER).sum()) for onsets in data.onsets]
    return (
        f"Of {len(data.binds)} seeds ({data.name}), {came[0]} learn to add, {came[1]} to bind variables and {came[2]} "
        f"to handle banned slots, within {data.steps:,} steps."
    )


def draw_census(data: CensusData, made: Figure) -> None:
    (top_left, top_right), (bottom_left, bottom_right) = made.subplots(2, 2)
    _draw_learned(data, top_left)
    _draw_onsets(data, top_right)
    _draw_final(data, bottom_left)
    _draw_late(data, bottom_right)


def _draw_learned(data: CensusData, ax: Axes) -> None:
    """Draws the share of seeds that have a skill by a step, with its 95 % band; all seeds were followed to the end."""
    n = len(data.binds)
    for (name, color, _), onsets in zip(SKILLS, data.onsets, strict=True):
        came, seeds = np.unique(onsets[onsets != NEVER], return_counts=True)
        if not len(came):
            continue
        learned = seeds.cumsum()
        steps = [0, *came, data.steps]
        counts = [0, *learned.tolist(), int(learned[-1])]
        intervals = [wilson(count, n) for count in counts]
        shares = [count / n for count in counts]
        ax.step(steps, shares, where="post", color=color, label=f"{name}: {counts[-1]} of {n}")
        low, high = [i.low for i in intervals], [i.high for i in intervals]
        ax.fill_between(steps, low, high, step="post", color=color, alpha=0.15, linewidth=0)
    ax.set(xlabel="training step", ylabel="share of seeds", ylim=(0, 1.02), xlim=(0, data.steps))
    ax.set_title("(a) seeds that have learned a skill")
    ax.legend(loc="lower right")


def _draw_onsets(data: CensusData, ax: Axes) -> None:
    """Draws every seed as a line through its onsets, blue if it binds."""
    dot: Any = {"marker": "o", "markersize": 1.5}
    for onsets, binds in zip(data.onsets.T, data.binds, strict=True):
        came = np.flatnonzero(onsets != NEVER)
        ax.plot(came, onsets[came], color=BLUE if binds else GREY, linewidth=0.5, alpha=0.5, **dot)
    ax.set_xticks(range(len(SKILLS)), [name for name, _, _ in SKILLS])
    ax.set(ylabel="step of the onset", yscale="log", xlim=(-0.3, len(SKILLS) - 0.7))
    ax.set_title("(b) every seed's onsets")


def _draw_final(data: CensusData, ax: Axes) -> None:
    spread = np.random.default_rng(0).uniform(-0.28, 0.28, len(data.binds))
    for y, evalset in enumerate(EVAL_SETS):
        for binds in (False, True):
            chosen = data.binds == binds
            color = BY_VARS[evalset.n_vars] if binds else GREY
            ax.plot(data.final[y, chosen], y + spread[chosen], "o", color=color, markersize=1.4, alpha=0.6)
    ax.set_yticks(range(len(EVAL_SETS)), [s.label for s in EVAL_SETS])
    ax.set(xlabel="accuracy at the end (grey: never bound)", ylim=(len(EVAL_SETS) - 0.5, -0.5), xlim=(-0.02, 1.02))
    ax.grid(False, axis="y")
    ax.set_title("(c) final accuracies")


def _draw_late(data: CensusData, ax: Axes) -> None:
    counts = Counter(data.late)
    names = sorted(counts, key=lambda name: (name not in data.banned, -counts[name], name))[:10]
    colors = [ORANGE if name in data.banned else GREY for name in names]
    ax.barh(range(len(names)), [counts[n] for n in names], color=colors, height=0.7)
    ax.set_yticks(range(len(names)), [name.replace(" ", ", ") for name in names])
    ax.set(xlabel="seeds (orange: banned slots)", ylim=(max(len(names), 4) - 0.5, -0.5))
    ax.grid(False, axis="y")
    ax.set_title(f"(d) last variable, {len(data.late)} seeds")


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
    thresholds = [_threshold(populations, "two_var", TWO_VAR), _threshold(populations, "fraction", ZERO_VAR)]
    names = [populations.two_var.name, populations.fraction.name]
    steps = int(populations.two_var.last["step"][0])
    return GeneralizationData(
        ratios, accuracy, np.array(parts), thresholds[0], fractions, zero, thresholds[1], names, steps
    )


def _threshold(populations: Populations, sweep: str, test: str) -> np.ndarray:
    """The threshold among the seeds that bind and the ends of its interval, (3,); NaN where there is none."""
    threshold = sweep_threshold(populations, sweep, test, binding=True)
    return np.full(3, np.nan) if threshold is None else np.array([threshold.value, threshold.low, threshold.high])


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
    medians, low, high = [], [], []
    for row in accuracy:
        median, interval = median_interval(row[np.isfinite(row)].tolist())
        medians.append(median)
        low.append(interval.low if interval else median)
        high.append(interval.high if interval else median)
    ax.plot(settings, medians, color=color, label="median, 95 % interval")
    ax.fill_between(settings, low, high, color=color, alpha=0.18, linewidth=0)
    if np.isfinite(threshold[0]):
        ax.axvline(threshold[0], color=INK, linewidth=0.9)
        ax.axvspan(threshold[1], threshold[2], color=INK, alpha=0.1, linewidth=0)
        words = f"half of those\nthat bind: {threshold[0]:.2f}"
        box: Any = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1}
        ax.annotate(words, (threshold[0], 0.55), (4, 0), textcoords="offset points", fontsize=7, bbox=box)


CENSUS_FIGURE = FigureRecord(
    "census", "A census of seeds",
    "(a) How many seeds learn each skill. (b) When each seed learned it. (c) The accuracies at the end. (d) "
    "Which variable comes last, in the seeds that bind and in which one comes after the first spike.",
    lambda s: census_data(s.populations) if s.populations.seeds else NO_POPULATION, draw_census, height=5.2,
    width=7.2, found=census_caption,
)  # fmt: skip
GENERALIZATION_FIGURE = FigureRecord(
    "generalization_combined", "How much data generalisation needs",
    "Test accuracy against the share of pairs and of two-variable sequences in training. Every dot is a network. "
    "Lines are medians over seeds; the dashed ones show the parts of the two-variable test. The vertical line is "
    "where half of the seeds that can succeed do, among those that bind, with its interval.",
    lambda s: generalization_data(s.populations), draw_generalization, height=3.2, found=generalization_caption,
)  # fmt: skip
