"""Figures `cues`, `without_names` and `composition` (ours): what networks bind, and seeds that add but do not bind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from assignadd.claims.evidence import Evidence
from assignadd.claims.look_up import on_layout
from assignadd.claims.nameless import composition_of
from assignadd.figures.record import Absent, FigureData, FigureRecord, on_axes
from assignadd.interventions.cues import LAYOUTS
from assignadd.measures.nameless import nameless_accuracy
from assignadd.palette import BLUE, INK, ORANGE, VERMILION
from assignadd.sweeps.population import Populations
from assignadd.task.evalsets import EVAL_SETS


@dataclass(frozen=True)
class CuesData(FigureData):
    layouts: list[str]
    names: list[str]  # of the layouts, in plain words
    answered: np.ndarray  # (networks, layouts, 2): how often the sum with x and with y is answered, NaN without y


def cues_data(models: Sequence[Evidence]) -> CuesData | Absent:
    able = [m for m in models if on_layout(m, next(iter(LAYOUTS))) is not None]
    if not able:
        return Absent("no network given here binds variables")
    answered = [[[np.asarray(m.cues[layout].get(k, np.nan)).mean() for k in "xy"] for layout in LAYOUTS] for m in able]
    return CuesData(list(LAYOUTS), list(LAYOUTS.values()), np.array(answered))


def cues_caption(data: CuesData) -> str:
    """The medians over networks, in words."""
    medians = np.median(data.answered[..., 0], 0)
    words = "; ".join(f"`{layout}` {value:.2f}" for layout, value in zip(data.layouts, medians, strict=True))
    return f"{len(data.answered)} networks that bind; how often x is answered, the median: {words}."


def draw_cues(data: CuesData, ax: Axes) -> None:
    """A row for each layout, a dot for each network and number."""
    rows = np.arange(len(data.layouts))
    for k, (number, colour, shift) in enumerate((("x", BLUE, -0.14), ("y", ORANGE, 0.14))):
        shown = np.broadcast_to(rows + shift, data.answered.shape[:2])
        ax.scatter(data.answered[..., k], shown, s=12, color=colour, label=f"the sum with {number} is answered")
    ax.set_yticks(rows, [f"{name}: {layout}" for name, layout in zip(data.names, data.layouts, strict=True)])
    ax.invert_yaxis()
    ax.set(xlim=(-0.02, 1.02), xlabel="share of sequences")
    ax.legend(loc="upper center", bbox_to_anchor=(0.4, 1.14), ncols=2)


LEVELS = tuple(s for s in EVAL_SETS if s.n_vars and not s.n_banned)
WIDTH = 0.05
NONE = "the population has no seed that adds but does not bind"


@dataclass(frozen=True)
class WithoutNamesData(FigureData):
    seeds: np.ndarray  # (seeds,): those that never bind
    accuracy: np.ndarray  # (sets, seeds): at the end
    rule: np.ndarray  # (sets,): of a uniform choice among the answers that the rule allows
    labels: list[str]  # of the sets


def without_names_data(populations: Populations) -> WithoutNamesData | Absent:
    found = [s for s in populations.seeds if not s.learned_binding and composition_of(s) is not None]
    if not found:
        return Absent(NONE)
    accuracy = np.array([[s.final(e.name) for s in found] for e in LEVELS])
    rule = np.array([nameless_accuracy(found[0].task, e) for e in LEVELS])
    return WithoutNamesData(np.array([s.seed for s in found]), accuracy, rule, [e.label for e in LEVELS])


def without_names_caption(data: WithoutNamesData) -> str:
    """The medians beside the rule, in words."""
    pairs = zip(data.labels, np.median(data.accuracy, 1), data.rule, strict=True)
    return f"{len(data.seeds)} seeds; median and rule: " + "; ".join(f"{s} {m:.3f}, {r:.3f}" for s, m, r in pairs) + "."


def draw_without_names(data: WithoutNamesData, ax: Axes) -> None:
    """A dot for each seed and a line for the rule, by evaluation set."""
    jitter = np.random.default_rng(0).uniform(-0.2, 0.2, len(data.seeds))
    for i, (values, level) in enumerate(zip(data.accuracy, data.rule, strict=True)):
        ax.scatter(i + jitter, values, s=9, color=BLUE, label="a seed" if i == 0 else "")
        ax.hlines(level, i - 0.32, i + 0.32, color=INK, label="the rule without names" if i == 0 else "")
    ax.set_xticks(range(len(data.labels)), [label.replace(", ", "\n") for label in data.labels])
    ax.set(ylim=(0, 1.02), ylabel="accuracy at the end")
    ax.legend(loc="upper right")


@dataclass(frozen=True)
class CompositionData(FigureData):
    centres: np.ndarray  # (bins,): accuracy on trained sums with one variable
    product: np.ndarray  # (bins, 3): accuracy less the product, 10th, 50th and 90th percentile of evaluations
    guessing: np.ndarray  # (bins, 3): accuracy less the prediction with guesses
    seeds: int


def composition_data(populations: Populations) -> CompositionData | Absent:
    found = [c for s in populations.seeds if (c := composition_of(s)) is not None]
    if not found:
        return Absent(NONE)
    one, product, guessing = (
        np.concatenate([getattr(c, name) for c in found]) for name in ("one_variable", "held_out", "held_out_guessing")
    )
    place = np.minimum((one / WIDTH).astype(int), round(1 / WIDTH) - 1)
    bins = [k for k in np.unique(place) if (place == k).sum() >= 20]
    product, guessing = (
        np.array([np.quantile(x[place == k], (0.1, 0.5, 0.9)) for k in bins]).reshape(-1, 3)
        for x in (product, guessing)
    )
    return CompositionData((np.array(bins) + 0.5) * WIDTH, product, guessing, len(found))


def composition_caption(data: CompositionData) -> str:
    """Where the product is off most, in words."""
    worst = int(np.abs(data.product[:, 1]).argmax())
    return (
        f"{data.seeds} seeds. The median of the product is off most at an accuracy of about {data.centres[worst]:.2f}, "
        f"by {data.product[worst, 1]:+.2f}; with guesses it is {data.guessing[worst, 1]:+.2f} there. In the last "
        f"bin it is {data.product[-1, 1]:+.3f}."
    )


def draw_composition(data: CompositionData, ax: Axes) -> None:
    """The median and the middle 80 % of both residuals."""
    for values, colour, label in (
        (data.product, VERMILION, "adding x binding"),
        (data.guessing, BLUE, "adding x binding, else guessing without names"),
    ):
        ax.plot(data.centres, values[:, 1], ".-", color=colour, label=label)
        ax.fill_between(data.centres, values[:, 0], values[:, 2], color=colour, alpha=0.2, linewidth=0)
    ax.axhline(0, color=INK, linewidth=0.8)
    ax.set(xlabel="accuracy on trained sums with one variable", ylabel="accuracy less prediction")
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2)


CUES_FIGURE = FigureRecord(
    "cues", "Bound by name, place or order",
    "Other sequences than in training: v is the variable that is asked for, w another one, x and y are numbers, a dot "
    "is PAD. Dots far to the right say what is bound; each is a network that binds.",
    lambda s: cues_data(s.models), on_axes(draw_cues), height=3.2, width=6.4, found=cues_caption,
)  # fmt: skip
WITHOUT_NAMES_FIGURE = FigureRecord(
    "without_names", "Seeds that add but do not bind",
    "Dots on the line mean that a seed knows of a variable's name only from which slots it is banned, and guesses "
    "among the assigned numbers that are left. The line is computed from the task; nothing is fitted.",
    lambda s: without_names_data(s.populations), on_axes(draw_without_names), height=2.8,
    found=without_names_caption,
)  # fmt: skip
COMPOSITION_FIGURE = FigureRecord(
    "composition", "Adding times binding, along training",
    "Accuracy on sums with one variable and a held-out pair, less the product of adding and binding: all "
    "evaluations of all seeds after they add, by how well they bind (median and the middle 80 %).",
    lambda s: composition_data(s.populations), on_axes(draw_composition), height=2.8, found=composition_caption,
)  # fmt: skip
