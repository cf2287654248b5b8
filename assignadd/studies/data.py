"""Study `data`: which share of the pairs and of two-variable sequences is needed, and how do networks fail below it?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from operator import itemgetter

import numpy as np

from assignadd.dynamics.phases import (
    ADDITION_SET,
    ADDITION_THRESHOLD,
    BINDING_SET,
    BINDING_THRESHOLD,
    REFINEMENT_SETS,
    THRESHOLD,
)
from assignadd.studies.study import Cell, ComputedHypothesis, Study, slug
from assignadd.studies.table import Estimate, StudyTable
from assignadd.sweeps.final_tests import final_column
from assignadd.verdicts import AtLeast, AtMost

# Close together where earlier sweeps saw success rise: f about .28, r about .2.
FRACTIONS = (0.2, 0.25, 0.28, 0.31, 0.35, 0.5, 0.7)
RATIOS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 10 / 12)
PAPER = (0.7, 10 / 12)
# A setting is at a threshold where this share of its networks succeeds; a network that fails is near the level if it is
# less than this below it.
AT_THRESHOLD, NEAR = (0.1, 0.9), 0.2

Setting = tuple[float, float]


def label(fraction: float, ratio: float) -> str:
    """The name of a cell, such as "f = 0.7, r = 0.83"."""
    return f"f = {fraction:g}, r = {ratio:.2g}"


def _settings(fraction: float, ratio: float) -> dict[str, float]:
    own = {"task.seen_fraction": fraction, "task.two_var_ratio": ratio}
    return {} if (fraction, ratio) == PAPER else own


# For each skill: its sets and level, which settings are taken together, and whether only networks that bind count.
Skill = tuple[Sequence[str], float, Callable[[Setting], object], bool]
SKILLS: dict[str, Skill] = {
    "adding": ((ADDITION_SET,), ADDITION_THRESHOLD, itemgetter(0), False),
    "using banned slots": (REFINEMENT_SETS, THRESHOLD, itemgetter(1), True),
    "binding": ((BINDING_SET,), BINDING_THRESHOLD, tuple, False),
}
GROUPS = {"adding": "shares f", "using banned slots": "ratios r, among networks that bind", "binding": "settings"}


def accuracies(table: StudyTable, skill: str) -> dict[object, np.ndarray]:
    """The networks' lowest accuracy on the sets of a skill and their seeds, (networks, 2), by the settings that are
    taken together."""
    sets, _, group, bound = SKILLS[skill]
    found: dict[object, list[tuple[float, int]]] = {}
    for setting in product(FRACTIONS, RATIOS):
        frame = table.cells[label(*setting)]
        frame = frame.filter(frame["binds"]) if bound else frame
        lowest = frame.select([final_column(s) for s in sets]).to_numpy()
        rows = zip(lowest.min(1).tolist(), frame["seed"].to_list(), strict=True) if len(lowest) else ()
        found.setdefault(group(setting), []).extend(rows)
    return {group: np.array(values).reshape(-1, 2) for group, values in found.items()}


def near_failures(skill: str, table: StudyTable, resamples: int = 1000) -> Estimate | None:
    """The share of the failing networks that are near the level, at settings where some succeed and some fail.

    The same seeds are trained at every setting: the interval is from resampled seeds, and they are what is counted.
    """
    level, (few, most) = SKILLS[skill][1], AT_THRESHOLD
    groups = [values for values in accuracies(table, skill).values() if len(values)]
    at = [values for values in groups if few <= (values[:, 0] >= level).mean() <= most]
    networks = np.concatenate(at) if at else np.empty((0, 2))
    failing = networks[networks[:, 0] < level]
    if len(failing) < 2:
        return None
    seeds = np.unique(networks[:, 1])
    of_seed = failing[:, 1][:, None] == seeds  # (failing, seeds)
    near, all_ = of_seed[failing[:, 0] >= level - NEAR].sum(0), of_seed.sum(0)
    draws = np.random.default_rng(0).multinomial(len(seeds), np.full(len(seeds), 1 / len(seeds)), resamples)
    failed = draws @ all_  # a draw in which no network fails has no share
    shares = (draws @ near)[failed > 0] / failed[failed > 0]
    low, high = np.quantile(shares, [0.025, 0.975]).tolist()
    return Estimate(float(near.sum() / all_.sum()), low, high, len(seeds))


DATA = Study(
    name="data",
    title="Data requirements as probabilities",
    question=(
        "How do the shares of networks that bind, and that generalise among these, depend on the share f of the pairs "
        "and the ratio r of two-variable sequences? Is a threshold one mode that moves, or two modes whose weight "
        "changes?"
    ),
    method=(
        "The paper's network and settings at every combination of seven shares f of the pairs in training and seven "
        "ratios r of two-variable to literal sequences. A threshold is where 10 to 90 % of the networks reach the "
        "level of a skill. If one mode moves, most networks that fail there are near the level (less than .2 below); "
        "if the weight of two modes changes, few are."
    ),
    cells=tuple(Cell(label(f, r), _settings(f, r)) for f, r in product(FRACTIONS, RATIOS)),
    seeds=16,
    numbers=("binding at",),
    hypotheses=tuple(
        ComputedHypothesis(
            f"study-data-{modes}-{slug(skill)}",
            f"At the thresholds of {skill} ({GROUPS[skill]}), {words} of the networks that fail are near the level.",
            rule, partial(near_failures, skill),
        )
        for skill in SKILLS
        for modes, words, rule in (
            ("two-modes", "at most a fifth", AtMost(0.2)), ("moving-mode", "at least half", AtLeast(0.5)),
        )
    ),
)  # fmt: skip
