"""Onsets and thresholds: on curves whose answer is plain to see, and on the shipped populations against the package."""

from pathlib import Path

import numpy as np
import polars
import pytest

import assignadd.stats
from assignadd.dynamics import onsets
from tests.independent.curves import half_crossing, onset, pooled

RESULTS = Path(__file__).parents[2] / "assignadd" / "results"
LEVELS = {"0-var add-restricted": 0.9, "1-var train": 0.95, "qk2_ov1_var_identity": 0.9}


def test_onset_of_a_synthetic_curve():
    steps = list(range(0, 5001, 250))
    values = [0.0] * len(steps)
    values[3:6] = [1.0] * 3  # 750 to 1,250: too short a stay
    values[8:] = [0.95] * 13  # from 2,000 on; at the level is above it
    assert onset(steps, values, 0.95) == 2000
    assert onset(steps, values, 0.96) is None
    assert onset(steps, values, 0.95, lasting=500) == 750
    values[12] = 0.9  # 3,000: the first evaluation 1,000 steps after 2,000 must hold too
    assert onset(steps, values, 0.95) == 3250
    assert onset(steps, [0.0] * 20 + [1.0], 0.95) == 5000  # to the end, where less than 1,000 steps are left
    assert onset([0, 2000, 4000, 6000], [0.0, 1.0, 0.0, 1.0], 0.5) == 6000  # evaluations farther apart than 1,000 steps


@pytest.mark.parametrize(("column", "level"), LEVELS.items())
def test_onsets_of_the_census(column, level):
    table = polars.read_parquet(RESULTS / "census.parquet", columns=["seed", "step", column]).sort("seed", "step")
    found = {}
    for (seed,), part in table.group_by("seed", maintain_order=True):
        steps, values = part["step"].to_list(), part[column].to_list()
        theirs = onsets.onset(np.array(steps), np.array(values), None, level)
        found[seed] = onset(steps, values, level)
        assert found[seed] == (theirs and theirs.step), seed
    assert len(found) == 128
    if column == "1-var train":  # six whose fate is known from their weights
        assert all(found[seed] for seed in (0, 3, 4)) and not any(found[seed] for seed in (1, 2, 15))


def test_pooling_by_hand():
    assert pooled([0, 1, 0.5, 0.6, 1]) == pytest.approx([0, 0.7, 0.7, 0.7, 1])
    assert pooled([1, 0]) == [0.5, 0.5]
    assert half_crossing([1, 2, 3], [0, 0.25, 0.75]) == 2.5
    assert half_crossing([1, 2], [0, 0.4]) is None and half_crossing([1, 2], [0.6, 0.4]) == 1


def test_pooling_is_the_least_squares_fit():
    """Against a search over all non-decreasing sequences with values on a grid that holds the solution."""
    from itertools import combinations_with_replacement

    values = [0.4, 0.0, 0.6, 0.2, 1.0]
    grid = [i / 10 for i in range(11)]
    best = min(combinations_with_replacement(grid, 5), key=lambda fit: sum((a - b) ** 2 for a, b in zip(fit, values, strict=True)))
    assert pooled(values) == pytest.approx(best)


def test_threshold_of_random_sweeps():
    """Shares that rise with noise; some start above one half, and some never reach it."""
    rng = np.random.default_rng(0)
    for start, end in rng.uniform(0, 1, (200, 2)):
        settings, shares = np.cumsum(rng.random(8)).tolist(), np.clip(np.linspace(start, end, 8) + rng.normal(0, 0.1, 8), 0, 1).tolist()
        assert half_crossing(settings, shares) == pytest.approx(assignadd.stats.threshold(settings, shares))


def test_threshold_of_the_fraction_sweep():
    """Where half of the seeds reach 95 % on held-out literal sums after 30,000 steps."""
    table = polars.read_parquet(RESULTS / "fraction.parquet", columns=["seen_fraction", "seed", "step", "0-var held out"])
    last = table.filter(polars.col("step") == 30_000)
    fractions = sorted(set(last["seen_fraction"]))
    reached = [[a is not None and a >= 0.95 for a in last.filter(polars.col("seen_fraction") == f)["0-var held out"]] for f in fractions]
    assert len(fractions) == 20 and {len(seeds) for seeds in reached} == {10}
    shares = [sum(seeds) / 10 for seeds in reached]
    found = half_crossing(fractions, shares)
    assert found == pytest.approx(assignadd.stats.threshold(fractions, shares))
    assert found == pytest.approx(0.285)  # 2 of 10 seeds at .27, 6 at .29
