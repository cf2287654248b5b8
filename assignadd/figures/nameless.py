"""Figures `without_names` and `composition` (ours): seeds that do not bind, and binding times adding along training."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from assignadd.claims.composition import composition_of
from assignadd.figures.record import Absent, FigureData, FigureRecord, on_axes
from assignadd.measures.nameless import nameless_accuracy
from assignadd.palette import BLUE, INK, VERMILION
from assignadd.sweeps.population import Populations
from assignadd.task.evalsets import EVAL_SETS

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
