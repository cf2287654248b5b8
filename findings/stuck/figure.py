"""The figure: seeds of the census that do not bind, with the rule, and all seeds along training, with the products."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from assignadd.figure import COLORS, figure, save
from assignadd.sweeps import SeedCurves, shipped_population
from assignadd.task import EVAL_SETS

from .composition import composition_of
from .rule import rule_accuracy

SIZE = (6.6, 2.9)
SETS = tuple(s for s in EVAL_SETS if s.n_vars and not s.n_banned)
WIDTH, FEWEST = 0.05, 20  # of the bins along the accuracy; evaluations in a bin


def draw_levels(axes: Axes, seeds: Sequence[SeedCurves]) -> None:
    """A dot for each seed that does not bind and a line for the rule, by evaluation set."""
    stuck = [seed for seed in seeds if not seed.binds and composition_of(seed) is not None]
    jitter = np.random.default_rng(0).uniform(-0.2, 0.2, len(stuck))
    for i, evalset in enumerate(SETS):
        axes.scatter(i + jitter, [seed.final(evalset.name) for seed in stuck], s=9, color=COLORS.blue, linewidths=0,
                     label="a seed" if i == 0 else "")  # fmt: skip
        level = rule_accuracy(stuck[0].task, evalset.name)
        axes.hlines(level, i - 0.32, i + 0.32, color=COLORS.ink, label="the rule without names" if i == 0 else "")
    axes.set_xticks(range(len(SETS)), [s.label.replace(", ", "\n").replace(" variable", "\nvariable") for s in SETS])
    axes.set(ylim=(0, 1.02), ylabel="accuracy at the end")
    axes.set_title(f"{len(stuck)} seeds that add but do not bind", fontsize=8)
    axes.legend(loc="upper right")


def draw_composition(axes: Axes, seeds: Sequence[SeedCurves]) -> None:
    """The median and the middle 80 % of the residuals on held-out pairs, over evaluations with similar accuracy."""
    residuals = [c for seed in seeds if (c := composition_of(seed)) is not None]
    one = np.concatenate([c.one_variable for c in residuals])
    bins = np.minimum((one / WIDTH).astype(int), round(1 / WIDTH) - 1)
    used = [k for k in np.unique(bins) if (bins == k).sum() >= FEWEST]
    for field, color, label in (
        ("held_out", COLORS.vermilion, "adding x binding"),
        ("held_out_guessing", COLORS.blue, "the same, and guesses without names"),
    ):
        values = np.concatenate([getattr(c, field) for c in residuals])
        low, median, high = np.array([np.quantile(values[bins == k], (0.1, 0.5, 0.9)) for k in used]).T
        centres = (np.array(used) + 0.5) * WIDTH
        axes.plot(centres, median, ".-", color=color, label=label)
        axes.fill_between(centres, low, high, color=color, alpha=0.2, linewidth=0)
    axes.axhline(0, color=COLORS.ink, linewidth=0.8)
    axes.set(xlabel="accuracy on trained sums with one variable", ylabel="accuracy minus prediction", ylim=(-0.5, 0.15))
    axes.set_title(f"held-out pairs in {len(residuals)} seeds, along training", fontsize=8)
    axes.legend(loc="lower right")


if __name__ == "__main__":
    with figure(*SIZE) as made:
        left, right = made.subplots(1, 2)
        census = [seed for name in ("census", "authors") for seed in shipped_population(name).seeds]
        draw_levels(left, census)
        draw_composition(right, census)
        save(made, Path(__file__).with_name("figure"), png=False)
