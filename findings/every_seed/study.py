"""Does every seed bind, and can all be made to? The census of the package, and the study `cure`."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from assignadd.figure import COLORS, draw_intervals
from assignadd.ledger import Measured
from assignadd.study import BASE, PAPER, Cell, Study, StudyTable, final_column, mean, share
from assignadd.sweeps import SeedCurves, shipped_population

CURE = "high rate first"
# The rate at which most seeds bind in the study `rate`; of several such the middle one, of an even number the lower.
HIGH, HIGH_UNTIL = 0.002, 10_000
# Sets of the final exam on which networks of the two cells that bind must be equally good, and how figures call them.
QUALITY = {
    "0-var add-restricted": "held-out literals",
    "1-var train": "one variable, trained",
    "2-var add-restricted": "two variables, held out",
    "2-var var-restricted (1)": "two variables, one banned",
}
LOWER_BY = 0.01

STUDY = Study(
    "cure",
    "Does a schedule of the learning rate make nearly all seeds bind, with the same final quality?",
    cells=(
        Cell(PAPER),
        Cell(CURE, {"optim.lr": HIGH, "optim.later_lr": BASE.optim.lr, "optim.later_from": HIGH_UNTIL}),
    ),
    seeds=128,
    first_seed=1000,
    steps=30_000,
    base=replace(BASE, record=replace(BASE.record, eval_every=500, checkpoint_every=10_000)),
    numbers=("addition at", "binding at", "refinement at"),
    ask=(
        share("binds").of(CURE).at_least(0.93),  # which 125 of 128 (97 %) would show
        share("binds").of(CURE).versus(PAPER, at_least=0.05),
        *(mean(final_column(name), among="binds").of(CURE).versus(PAPER, at_least=-LOWER_BY) for name in QUALITY),
        share("refines", among="binds").of(CURE).versus(PAPER, at_least=-0.1),
    ),
)

SIZE = (6.5, 4.2)


def census() -> list[SeedCurves]:
    """The 160 seeds of the paper's settings that come with the package, in both readings of its banned slots."""
    return [seed for name in ("census", "authors") for seed in shipped_population(name).seeds]


def census_binds(seeds: Sequence[SeedCurves]) -> Measured:
    """The share of these seeds that bind by the end of training."""
    return Measured.share(sum(seed.binds for seed in seeds), len(seeds), "seeds")


def draw(tables: Mapping[str, StudyTable], made: Figure) -> None:
    """The share of seeds that bind, when they come to, and how good those that bind are in the end."""
    table, seeds = tables["cure"], census()
    panels = made.subplot_mosaic("BWW;QQQ", height_ratios=(5, 3))
    left, right, below = panels.values()
    trained = [seed.phases.trained.step for seed in seeds if seed.phases.trained]
    longest = int(shipped_population("census").provenance["steps"])
    _draw_group(left, right, 0, f"census, {len(seeds)} seeds", census_binds(seeds), trained, longest)
    for i, cell in enumerate((PAPER, CURE), 1):
        binds = table.share(cell, "binds")
        assert binds is not None
        onsets = table.values(cell, "binding at").tolist()
        _draw_group(left, right, i, f"{cell}, {binds.n} other seeds", binds, onsets, STUDY.steps)
    left.set_xticks(range(3), ["census", "the\npaper's", "high\nfirst"])
    left.set(xlim=(-0.5, 2.5), ylim=(0.6, 1.02), ylabel="share (95 % interval)")
    left.set_title("bind in the end")
    ticks = range(0, longest + 1, 10_000)
    right.set_xticks(ticks, [f"{step:,}" for step in ticks])
    right.set(ylim=(0, 1.02), xlim=(0, longest), xlabel="step")
    right.set_title("answer 95 % of trained sums with variables")
    right.legend(loc="lower right")
    _draw_quality(table, below)


def _draw_group(
    left: Axes, right: Axes, i: int, name: str, binds: Measured, onsets: Sequence[float], steps: int
) -> None:
    """The share of a group of networks that bind, and the share that answers trained sums by each step."""
    color, at = (COLORS.grey, COLORS.blue, COLORS.vermilion)[i], np.sort(onsets)
    draw_intervals(left, {"": binds}, color, shift=i, across=False)
    risen = np.arange(len(at) + 1) / binds.n
    right.step([0, *at, steps], [*risen, risen[-1]], where="post", color=color, label=name)


def _draw_quality(table: StudyTable, axes: Axes) -> None:
    """Final accuracies of networks that bind, with the high rate first minus with the paper's settings."""
    accuracies = {words: mean(final_column(name), among="binds") for name, words in QUALITY.items()}
    gains = {words: table.difference(accuracy, CURE, PAPER) for words, accuracy in accuracies.items()}
    draw_intervals(axes, gains, COLORS.vermilion)
    axes.axvline(-LOWER_BY, color=COLORS.grey, linewidth=0.8, linestyle="--")
    axes.set_title("accuracy of those that bind, high rate first minus the paper's")
    axes.set_xlabel("difference (dashed: the rule)")
