"""Onsets and thresholds of curves with a known answer, and of the shipped populations, compared with the package."""

from pathlib import Path

import numpy as np
import polars
import pytest

from assignadd.dynamics import curves
from assignadd.stats import threshold
from tests.independent.curves import logistic_threshold, onset, rise

RESULTS = Path(__file__).parents[2] / "assignadd" / "results"
LEVELS = {"0-var add-restricted": 0.9, "1-var train": 0.95, "qk2_ov1_var_identity": 0.9}


def test_onset_of_a_synthetic_curve():
    steps = list(range(0, 5001, 250))
    values = [0.0] * len(steps)
    values[3:6] = [1.0] * 3  # 750 to 1,250: too short
    values[8:] = [0.95] * 13  # from 2,000 on, exactly at the level
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
        theirs = curves.onset(np.array(steps), np.array(values), None, level)
        found[seed] = onset(steps, values, level)
        assert found[seed] == (theirs and theirs.step), seed
    assert len(found) == 128
    if column == "1-var train":  # six seeds whose weights are shipped
        assert all(found[seed] for seed in (0, 3, 4)) and not any(found[seed] for seed in (1, 2, 15))


def test_the_threshold_of_a_known_curve():
    settings = [0.05 * i for i in range(1, 13)]
    shares = [0.8 / (1 + np.exp((0.3 - x) / 0.02)) for x in settings]
    threshold, lapse = logistic_threshold(settings, [10_000 * p for p in shares], [10_000] * 12)
    assert threshold == pytest.approx(0.3, abs=1e-3) and lapse == pytest.approx(0.2, abs=1e-3)
    assert rise([0, 0.2, 0.9, 0.9, 0.4]) == 4


@pytest.mark.parametrize(
    ("sweep", "setting", "test"),
    [("fraction", "seen_fraction", "0-var held out"), ("two-var", "two_var_ratio", "2-var test")],
)
@pytest.mark.parametrize("binding", [False, True], ids=["all", "binding"])
def test_thresholds_of_the_sweeps(sweep, setting, test, binding):
    """Up to the resolution of the package's grid of curves: a few hundredths of the distance between settings."""
    table = polars.read_parquet(RESULTS / f"{sweep}.parquet")
    last = table.filter(polars.col("step") == table["step"].max())
    settings = sorted(last[setting].unique().to_list())
    cells = [last.filter(polars.col(setting) == x).sort("seed") for x in settings]
    asked = [(c["1-var train (final)"] >= 0.95).to_numpy() | (not binding) for c in cells]
    passed = [(c[test] >= 0.95).to_numpy() for c in cells]
    wins = [int((p & a).sum()) for p, a in zip(passed, asked, strict=True)]
    expected, _ = logistic_threshold(settings, wins, [int(a.sum()) for a in asked])
    assert threshold(np.array(settings), np.array(passed), np.array(asked), resamples=20).value == pytest.approx(
        expected, abs=0.004
    )
