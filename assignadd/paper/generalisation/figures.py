"""Figures of section 4: `accuracies` along training; of many networks `census` (ours), what seeds learn and when, and
`generalization_combined`, how much data is needed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from assignadd.figure.record import NO_POPULATION, Absent, FigureData, FigureRecord, on_axes
from assignadd.palette import BLUE, BY_VARS, GREEN, GREY, INK, ORANGE, PURPLE, VERMILION
from assignadd.paper.generalisation.seeds import SWEEPS, sweep_threshold
from assignadd.stats import Measured, median_interval, wilson
from assignadd.sweeps.population import Populations
from assignadd.task.evalsets import EVAL_SETS, LABELS, VARIABLES, EvalSet

NEVER = -1  # stands for the step of an event that did not come in training
REACHED = 0.9  # the accuracy that the caption looks for
# Each skill, named as its onset in `Phases`, and its colour.
SKILLS = (("addition", BLUE), ("binding", VERMILION), ("refinement", GREEN))


@dataclass(frozen=True)
class AccuraciesData(FigureData):
    steps: np.ndarray  # (evaluations,)
    sets: list[str]
    accuracy: np.ndarray  # (evaluations, sets)


def accuracies_data(rows: Sequence[Mapping[str, Any]]) -> AccuraciesData:
    """The accuracies of one model along training, from its rows of metrics in the order of the steps."""
    sets = [evalset.name for evalset in EVAL_SETS if evalset.name in rows[0]["accuracy"]]
    steps = np.array([row["step"] for row in rows])
    accuracy = np.array([[row["accuracy"][name] for name in sets] for row in rows])
    return AccuraciesData(steps, sets, accuracy)


def accuracies_caption(data: AccuraciesData) -> str:
    """When sums with each number of variables, as trained, are first right nine times in ten; and the lowest set."""
    first_times = []
    for n_vars, words in VARIABLES.items():
        name = f"{n_vars}-var train"
        if name in data.sets:
            reached = data.steps[data.accuracy[:, data.sets.index(name)] >= REACHED]  # steps
            first_times.append(f"{words} at step {reached[0]:,}" if len(reached) else f"{words} never")
    last = data.accuracy[-1]  # (sets,)
    lowest = f"the lowest set, '{LABELS[data.sets[last.argmin()]]}',"
    if last.min() == last.max():
        lowest = "every set"
    return (
        f"Sums as trained are first right nine times in ten: {', '.join(first_times)}. At the end, step "
        f"{data.steps[-1]:,}, {lowest} is at {last.min():.3f}."
    )


def draw_accuracies(data: AccuraciesData, axes: Axes) -> None:
    """Draws a curve for each evaluation set."""
    evalsets = {evalset.name: evalset for evalset in EVAL_SETS}
    for name, curve in zip(data.sets, data.accuracy.T, strict=True):
        evalset = evalsets[name]
        axes.plot(data.steps, curve, label=evalset.label, color=BY_VARS[evalset.n_vars], **_line_style(evalset))
    axes.set(xlabel="training step", ylabel="accuracy", ylim=(-0.02, 1.02), xlim=(0, max(1, data.steps[-1])))
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.02), handlelength=2.6, labelspacing=0.7)


def _line_style(evalset: EvalSet) -> dict[str, Any]:
    """The line of a set: solid as trained, dashed for held-out pairs, dotted or dash-dotted for banned slots."""
    # Lengths of dashes and gaps, in matplotlib's notation (offset, (on, off, ...)).
    dotted, dash_dotted, dashed = (0, (1, 1.4)), (0, (3, 1, 1, 1)), (0, (5, 2))
    if evalset.n_banned:
        return {"linestyle": dotted if evalset.n_banned == 1 else dash_dotted, "linewidth": 1.5}
    return {"linestyle": "-" if evalset.pair == "seen" else dashed}


@dataclass(frozen=True)
class CensusData(FigureData):
    steps: int
    onsets: np.ndarray  # (skills, seeds): the step, NEVER where it did not come
    binds: np.ndarray  # (seeds,)
    final: np.ndarray  # (sets, seeds)
    late: list[str]  # of every seed that has a late variable, it and its slot, such as "b second"
    banned: list[str]  # those among `late` that are in banned slots, each once
    name: str  # of the population


def census_data(populations: Populations) -> CensusData:
    """What every seed of the census learned and when, its final accuracies, and its last variable."""
    seeds = populations.seeds
    onsets = [[getattr(seed.phases, skill) for seed in seeds] for skill, _ in SKILLS]
    late_variables = [seed.late_variable for seed in seeds if seed.binds]
    # Pairs: a variable with its slot, such as "b second", and whether that is a banned slot.
    late_and_banned = [(f"{late.variable} {late.slot}", late.banned) for late in late_variables if late is not None]
    return CensusData(
        steps=max(int(seed.curves.steps[-1]) for seed in seeds),
        onsets=np.array([[NEVER if onset is None else onset.step for onset in of_skill] for of_skill in onsets]),
        binds=np.array([seed.binds for seed in seeds]),
        final=np.array([[seed.final(evalset.name) for seed in seeds] for evalset in EVAL_SETS]),
        late=[name for name, _ in late_and_banned],
        banned=sorted({name for name, is_banned in late_and_banned if is_banned}),
        name=populations.name(),
    )


def census_caption(data: CensusData) -> str:
    """How many seeds learn each skill, in words."""
    n_add, n_bind, n_refine = (data.onsets != NEVER).sum(1)  # in the order of `SKILLS`
    return (
        f"Of {len(data.binds)} seeds ({data.name}), {n_add} learn to add, {n_bind} to bind variables and {n_refine} "
        f"to handle banned slots, within {data.steps:,} steps."
    )


def draw_census(data: CensusData, figure: Figure) -> None:
    """Draws the four panels: seeds that have learned, onsets, final accuracies, and last variables."""
    panels = (_draw_learned, _draw_onsets, _draw_final, _draw_late)
    for draw, ax in zip(panels, figure.subplots(2, 2).flat, strict=True):
        draw(data, ax)


def _draw_learned(data: CensusData, ax: Axes) -> None:
    """Draws the share of seeds that have a skill by a step, with its 95 % band; all seeds were followed to the end."""
    n = len(data.binds)
    for (name, color), onsets in zip(SKILLS, data.onsets, strict=True):
        steps = np.unique([0, *onsets[onsets != NEVER], data.steps])
        counts = [int((onsets[onsets != NEVER] <= step).sum()) for step in steps]  # seeds that have it by each step
        if counts[-1] == 0:
            continue
        ax.step(steps, np.divide(counts, n), where="post", color=color, label=f"{name}: {counts[-1]} of {n}")
        intervals = [(interval.low, interval.high) for interval in (wilson(count, n) for count in counts)]
        ax.fill_between(steps, *np.transpose(intervals), step="post", color=color, alpha=0.15, linewidth=0)
    ax.set(xlabel="training step", ylabel="share of seeds", ylim=(0, 1.02), xlim=(0, data.steps))
    ax.set_title("(a) seeds that have learned a skill")
    ax.legend(loc="lower right", fontsize="small", handlelength=0.8, borderpad=0.1, labelspacing=0.2, handletextpad=0.4)


def _draw_onsets(data: CensusData, ax: Axes) -> None:
    """Draws every seed as a line through its onsets, blue if it binds."""
    dot: Any = {"marker": "o", "markersize": 1.5}
    for onsets, binds in zip(data.onsets.T, data.binds, strict=True):
        skills = np.flatnonzero(onsets != NEVER)  # indices of the skills that this seed has learned
        ax.plot(skills, onsets[skills], color=BLUE if binds else GREY, linewidth=0.5, alpha=0.5, **dot)
    ax.set_xticks(range(len(SKILLS)), [name for name, _ in SKILLS])
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
    """Draws a bar for each variable and slot that comes last, with its number of seeds: banned ones first."""
    counts = Counter(data.late)
    names = sorted(counts, key=lambda name: (name not in data.banned, -counts[name], name))[:10]
    colors = [ORANGE if name in data.banned else GREY for name in names]
    ax.barh(range(len(names)), [counts[name] for name in names], color=colors, height=0.7)
    ax.set_yticks(range(len(names)), [name.replace(" ", ", ") for name in names])
    ax.set(xlabel="seeds (orange: banned slots)", ylim=(max(len(names), 4) - 0.5, -0.5))  # few bars are not wide
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
    parts: np.ndarray  # (parts, settings): accuracies on the `PARTS` of the two-variable test, medians over the seeds
    ratio_threshold: np.ndarray  # (3,)
    fractions: np.ndarray  # (settings,)
    zero_var: np.ndarray  # (settings, seeds)
    fraction_threshold: np.ndarray  # (3,)
    names: list[str]  # of both populations
    steps: int


def generalization_data(populations: Populations) -> GeneralizationData | Absent:
    """The final accuracies of both sweeps with their thresholds; `Absent` unless both are there."""
    if populations.two_var is None or populations.fraction is None:
        return NO_POPULATION
    ratios, two_var = populations.two_var.finals(SWEEPS["two_var"], TWO_VAR)
    fractions, zero_var = populations.fraction.finals(SWEEPS["fraction"], ZERO_VAR)
    # The accuracy on each part of the two-variable test, (settings, seeds).
    of_parts = [populations.two_var.finals(SWEEPS["two_var"], name)[1] for name, _, _ in PARTS]
    return GeneralizationData(
        ratios=ratios, two_var=two_var, parts=np.nanmedian(of_parts, axis=2),
        ratio_threshold=_with_interval(sweep_threshold(populations, "two_var", TWO_VAR, only_binding=True)),
        fractions=fractions, zero_var=zero_var,
        fraction_threshold=_with_interval(sweep_threshold(populations, "fraction", ZERO_VAR, only_binding=True)),
        names=[populations.two_var.name, populations.fraction.name],
        steps=int(populations.two_var.last["step"][0]),
    )  # fmt: skip


def _with_interval(threshold: Measured | None) -> np.ndarray:
    """A threshold and the ends of its interval, (3,); NaN where there is none."""
    return np.full(3, np.nan) if threshold is None else np.array([threshold.value, threshold.low, threshold.high])


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
    _draw_sweep(left, data.ratios, data.two_var, data.ratio_threshold, GREEN)
    for (_, label, color), median in zip(PARTS, data.parts, strict=True):
        left.plot(data.ratios, median, color=color, linewidth=0.9, linestyle=(0, (3, 1.5)), label=label)
    left.set_title("(a) two-variable sums")
    left.set(xlabel="two-variable sequences per literal one, $r$", ylabel=f"test accuracy after {data.steps:,} steps")
    _draw_sweep(right, data.fractions, data.zero_var, data.fraction_threshold, BLUE)
    right.set_title("(b) literal sums never trained")
    right.set(xlabel="share of pairs in training, $f$")
    left.set_ylim(-0.03, 1.03)
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3)


def _draw_sweep(ax: Axes, settings: np.ndarray, accuracy: np.ndarray, threshold: np.ndarray, color: str) -> None:
    """Draws a sweep: a dot for each network, the median over seeds with its band, and the threshold (value, low, high).

    `accuracy` is (settings, seeds), NaN where a seed has no network.
    """
    n = accuracy.shape[1]
    # Seeds stand side by side around their setting, each 0.08 % of the axis from the next.
    jitter = (np.arange(n) - (n - 1) / 2) * 0.0008 * (settings[-1] - settings[0])
    x = (settings[:, None] + jitter).ravel()  # of each dot, as the accuracies below
    ax.plot(x, accuracy.ravel(), "o", color=GREY, markersize=1.8, alpha=0.7, label="one seed")
    medians, intervals = [], []
    for of_setting in accuracy:
        median, interval = median_interval(of_setting[np.isfinite(of_setting)].tolist())
        medians.append(median)
        intervals.append((interval.low, interval.high) if interval else (median, median))
    ax.plot(settings, medians, color=color, label="median, 95 % interval")
    ax.fill_between(settings, *np.transpose(intervals), color=color, alpha=0.18, linewidth=0)
    value, threshold_low, threshold_high = threshold
    if np.isfinite(value):
        ax.axvline(value, color=INK, linewidth=0.9)
        ax.axvspan(threshold_low, threshold_high, color=INK, alpha=0.1, linewidth=0)
        name = f"half of those\nthat bind: {value:.2f}"
        ax.annotate(name, (value, 0.05), (4, 0), textcoords="offset points", fontsize=7)


ACCURACIES_FIGURE = FigureRecord(
    "accuracies", "Accuracies by evaluation set",
    "Are sums of literals (blue) learned before sums with variables, and do these come in jumps? Colour is the number "
    "of variables in the sum; dashed lines are pairs held out from training, dotted lines are variables in slots "
    "where training never put them.",
    lambda s: accuracies_data(s.model.rows), on_axes(draw_accuracies), height=3.2, width=6.4, found=accuracies_caption,
)  # fmt: skip
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
