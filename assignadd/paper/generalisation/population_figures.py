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

# Name, colour and onset of each skill.
SKILLS: tuple[tuple[str, str, Callable[[Phases], Onset | None]], ...] = (
    ("addition", BLUE, lambda phases: phases.addition),
    ("binding", VERMILION, lambda phases: phases.binding),
    ("refinement", GREEN, lambda phases: phases.refinement),
)
NEVER = -1  # in place of the step of an onset that did not come


@dataclass(frozen=True)
class CensusData(FigureData):
    steps: int
    onsets: np.ndarray  # (skills, seeds): the step, NEVER where it did not come
    binds: np.ndarray  # (seeds,)
    final: np.ndarray  # (sets, seeds)
    late: list[str]  # variable and slot, such as "b second", of every seed that has a late variable
    banned: list[str]  # those among `late` that are in banned slots, each once
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
    late = []
    banned = set()
    for seed in seeds:
        late_variable = seed.late_variable
        if seed.binds and late_variable is not None:
            name = f"{late_variable.variable} {late_variable.slot}"
            late.append(name)
            if late_variable.banned:
                banned.add(name)
    steps = max(int(seed.curves.steps[-1]) for seed in seeds)
    binds = np.array([seed.binds for seed in seeds])
    return CensusData(steps, onsets, binds, np.array(final), late, sorted(banned), populations.name())


def census_caption(data: CensusData) -> str:
    """How many seeds learned each skill, in words."""
    n_add, n_bind, n_refine = [int((onsets != NEVER).sum()) for onsets in data.onsets]
    return (
        f"Of {len(data.binds)} seeds ({data.name}), {n_add} learn to add, {n_bind} to bind variables and {n_refine} "
        f"to handle banned slots, within {data.steps:,} steps."
    )


def draw_census(data: CensusData, figure: Figure) -> None:
    """Draws what seeds learn, when, their final accuracies, and their last variables, in four panels."""
    (top_left, top_right), (bottom_left, bottom_right) = figure.subplots(2, 2)
    _draw_learned(data, top_left)
    _draw_onsets(data, top_right)
    _draw_final(data, bottom_left)
    _draw_late(data, bottom_right)


def _draw_learned(data: CensusData, ax: Axes) -> None:
    """Draws the share of seeds that have a skill by a step, with its 95 % band; all seeds were followed to the end."""
    n = len(data.binds)
    for (name, color, _), onsets in zip(SKILLS, data.onsets, strict=True):
        onset_steps, seeds_at_step = np.unique(onsets[onsets != NEVER], return_counts=True)
        if len(onset_steps) == 0:
            continue
        learned = seeds_at_step.cumsum()  # seeds that have the skill from each of these steps on
        steps = [0, *onset_steps, data.steps]
        counts = [0, *learned.tolist(), int(learned[-1])]
        shares = [count / n for count in counts]
        ax.step(steps, shares, where="post", color=color, label=f"{name}: {counts[-1]} of {n}")
        intervals = [wilson(count, n) for count in counts]
        low = [interval.low for interval in intervals]
        high = [interval.high for interval in intervals]
        ax.fill_between(steps, low, high, step="post", color=color, alpha=0.15, linewidth=0)
    ax.set(xlabel="training step", ylabel="share of seeds", ylim=(0, 1.02), xlim=(0, data.steps))
    ax.set_title("(a) seeds that have learned a skill")
    ax.legend(loc="lower right")


def _draw_onsets(data: CensusData, ax: Axes) -> None:
    """Draws every seed as a line through its onsets, blue if it binds."""
    dot: Any = {"marker": "o", "markersize": 1.5}
    for onsets, binds in zip(data.onsets.T, data.binds, strict=True):
        skills = np.flatnonzero(onsets != NEVER)  # indices of the skills that this seed has learned
        ax.plot(skills, onsets[skills], color=BLUE if binds else GREY, linewidth=0.5, alpha=0.5, **dot)
    ax.set_xticks(range(len(SKILLS)), [name for name, _, _ in SKILLS])
    ax.set(ylabel="step of the onset", yscale="log", xlim=(-0.3, len(SKILLS) - 0.7))
    ax.set_title("(b) every seed's onsets")


def _draw_final(data: CensusData, ax: Axes) -> None:
    """Draws a dot for every seed's accuracy at the end, a row for each set; grey for seeds that do not bind."""
    spread = np.random.default_rng(0).uniform(-0.28, 0.28, len(data.binds))  # within a row, so that dots differ
    for row, evalset in enumerate(EVAL_SETS):
        for binds in (False, True):
            chosen = data.binds == binds
            color = BY_VARS[evalset.n_vars] if binds else GREY
            ax.plot(data.final[row, chosen], row + spread[chosen], "o", color=color, markersize=1.4, alpha=0.6)
    ax.set_yticks(range(len(EVAL_SETS)), [evalset.label for evalset in EVAL_SETS])
    ax.set(xlabel="accuracy at the end (grey: never bound)", ylim=(len(EVAL_SETS) - 0.5, -0.5), xlim=(-0.02, 1.02))
    ax.grid(False, axis="y")
    ax.set_title("(c) final accuracies")


def _draw_late(data: CensusData, ax: Axes) -> None:
    """Draws a bar for each variable and slot that comes last, as long as the number of its seeds.

    Banned ones come first, then the most frequent, at most ten.
    """
    counts = Counter(data.late)

    def place(name: str) -> tuple[bool, int, str]:
        """What the bars are sorted by: False, for a banned slot, comes before True."""
        return name not in data.banned, -counts[name], name

    names = sorted(counts, key=place)[:10]
    colors = [ORANGE if name in data.banned else GREY for name in names]
    ax.barh(range(len(names)), [counts[name] for name in names], color=colors, height=0.7)
    ax.set_yticks(range(len(names)), [name.replace(" ", ", ") for name in names])
    ax.set(xlabel="seeds (orange: banned slots)", ylim=(max(len(names), 4) - 0.5, -0.5))
    ax.grid(False, axis="y")
    ax.set_title(f"(d) last variable, {len(data.late)} seeds")


# The parts of the two-variable test: name of the set, label and colour.
PARTS = (("2-var test held out", "held-out sum", BLUE), ("2-var test banned (1)", "one banned slot", ORANGE),
         ("2-var test banned (2)", "two banned slots", PURPLE))  # fmt: skip
TWO_VAR, ZERO_VAR = "2-var test", "0-var held out"


@dataclass(frozen=True)
class GeneralizationData(FigureData):
    """Final accuracies and thresholds of the two sweeps.

    Thresholds, of the seeds that bind, are (value, low, high); NaN where the share that succeeds does not rise.
    """

    ratios: np.ndarray  # (settings,)
    two_var: np.ndarray  # (settings, seeds); NaN where a seed has no network
    parts: np.ndarray  # (parts, settings): medians over the seeds
    ratio_threshold: np.ndarray  # (3,)
    fractions: np.ndarray  # (settings,)
    zero_var: np.ndarray  # (settings, seeds)
    fraction_threshold: np.ndarray  # (3,)
    names: list[str]  # of both populations
    steps: int


def generalization_data(populations: Populations) -> GeneralizationData | Absent:
    """Final accuracies and thresholds of the two sweeps, of r (`two_var`) and of f (`fraction`)."""
    if populations.two_var is None or populations.fraction is None:
        return NO_POPULATION
    ratios, two_var = populations.two_var.finals(SWEEPS["two_var"], TWO_VAR)
    fractions, zero_var = populations.fraction.finals(SWEEPS["fraction"], ZERO_VAR)
    parts = []
    for name, _, _ in PARTS:
        _, accuracy = populations.two_var.finals(SWEEPS["two_var"], name)  # (settings, seeds)
        parts.append(np.nanmedian(accuracy, axis=1))
    return GeneralizationData(
        ratios=ratios, two_var=two_var, parts=np.array(parts),
        ratio_threshold=_threshold(populations, "two_var", TWO_VAR),
        fractions=fractions, zero_var=zero_var,
        fraction_threshold=_threshold(populations, "fraction", ZERO_VAR),
        names=[populations.two_var.name, populations.fraction.name],
        steps=int(populations.two_var.last["step"][0]),
    )  # fmt: skip


def _threshold(populations: Populations, sweep: str, test: str) -> np.ndarray:
    """The threshold among the seeds that bind and the ends of its interval, (3,); NaN where there is none."""
    threshold = sweep_threshold(populations, sweep, test, only_binding=True)
    if threshold is None:
        return np.full(3, np.nan)
    return np.array([threshold.value, threshold.low, threshold.high])


def generalization_caption(data: GeneralizationData) -> str:
    """Both thresholds with their intervals, in words."""
    names = " and ".join(dict.fromkeys(data.names))  # one name if both sweeps have the same
    return (
        f"Here ({names}) r = {_threshold_text(data.ratio_threshold)} and "
        f"f = {_threshold_text(data.fraction_threshold)}. The paper has about .2 and .25, for its own task."
    )


def _threshold_text(threshold: np.ndarray) -> str:
    """A threshold (value, low, high) with its interval, such as `0.282 [0.274, 0.291]`."""
    value, low, high = threshold
    return "not found" if np.isnan(value) else f"{value:.3f} [{low:.3f}, {high:.3f}]"


def draw_generalization(data: GeneralizationData, figure: Figure) -> None:
    """Draws the accuracies of the two sweeps, of two-variable sequences on the left and of pairs on the right."""
    left, right = figure.subplots(1, 2, sharey=True)
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
    figure.legend(handles, labels, loc="outside lower center", ncols=3)


def _draw_accuracies(ax: Axes, settings: np.ndarray, accuracy: np.ndarray, threshold: np.ndarray, color: str) -> None:
    """Draws a sweep: a dot for each network, the median over seeds with its band, and the threshold (value, low, high).

    `accuracy` is (settings, seeds), NaN where a seed has no network.
    """
    n = accuracy.shape[1]
    # Seeds stand side by side, a little apart, around their setting.
    jitter = (np.arange(n) - (n - 1) / 2) * 0.0008 * (settings[-1] - settings[0])
    dot: Any = {"color": GREY, "markersize": 1.8, "alpha": 0.7, "label": "one seed"}
    ax.plot((settings[:, None] + jitter).ravel(), accuracy.ravel(), "o", **dot)
    medians = []
    low = []
    high = []
    for of_setting in accuracy:
        median, interval = median_interval(of_setting[np.isfinite(of_setting)].tolist())
        medians.append(median)
        low.append(interval.low if interval else median)
        high.append(interval.high if interval else median)
    ax.plot(settings, medians, color=color, label="median, 95 % interval")
    ax.fill_between(settings, low, high, color=color, alpha=0.18, linewidth=0)
    value, threshold_low, threshold_high = threshold
    if np.isfinite(value):
        ax.axvline(value, color=INK, linewidth=0.9)
        ax.axvspan(threshold_low, threshold_high, color=INK, alpha=0.1, linewidth=0)
        words = f"half of those\nthat bind: {value:.2f}"
        box: Any = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1}
        ax.annotate(words, (value, 0.55), (4, 0), textcoords="offset points", fontsize=7, bbox=box)


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
