"""Variance components, predictions and shares of `findings/fate`, against designs whose answer is known."""

from pathlib import Path

import numpy as np
import polars
import pytest

from assignadd.study import StudyTable
from assignadd.user_file import user_module

FOLDER = Path(__file__).parents[2] / "findings" / "fate"
sources = user_module(FOLDER / "sources.py")


def table(binds: np.ndarray, repeated: np.ndarray, **early: np.ndarray) -> StudyTable:
    """A table of the whole design with these fates (8, 8, 8) and those of 8 combinations repeated, (8, 8)."""
    factorial, again = sources.FATE.cells
    rows = [{**dict(own), "cell": factorial.label} for own in factorial.models]
    rows += [{**{s: own[s] for s in sources.SOURCES}, "cell": again.label} for own in again.models]
    frame = polars.DataFrame(rows).with_columns(
        binds=polars.Series(np.concatenate([binds.ravel(), repeated.ravel()]).astype(bool)),
        **{name: polars.Series(np.concatenate([v.ravel(), np.zeros(64)])) for name, v in early.items()},
    )
    return StudyTable(sources.FATE, frame.sample(fraction=1, shuffle=True, seed=3), {"steps": 30_000})


def test_components_are_those_of_the_textbook_and_unbiased():
    y = np.random.default_rng(0).normal(size=(4, 6))
    residual = ((y - y.mean(1, keepdims=True) - y.mean(0) + y.mean()) ** 2).sum() / 15
    assert sources.components(y) == pytest.approx(
        {(0, 1): residual, (0,): y.mean(1).var(ddof=1) - residual / 6, (1,): y.mean(0).var(ddof=1) - residual / 4}
    )
    rng, total = np.random.default_rng(1), np.zeros(3)
    for _ in range(200):
        y = 2 * rng.normal(size=(8, 1, 1)) + rng.normal(size=(1, 8, 8)) + 0.5 * rng.normal(size=(8, 8, 8))
        found = sources.components(y)
        total += [found[(0,)], found[(1, 2)], found[(0, 1, 2)]]
    assert total / 200 == pytest.approx([4, 1, 0.25], rel=0.15)


def test_a_fate_that_one_source_decides_is_that_sources():
    found = table(np.broadcast_to((np.arange(8) < 5)[:, None, None], (8, 8, 8)), np.ones((8, 8)))
    assert sources.main_share("seed.init", found).value == pytest.approx(1)
    assert sources.main_share("seed.data", found).value == pytest.approx(0)
    assert sources.shares((np.indices((8, 8, 8)).sum(0) % 2).astype(float))[(0, 1, 2)] > 0.99  # all three together


def test_the_interval_of_a_share_covers_it():
    """A random main effect of .3 of the variance; a correct 95 % interval misses it in few designs."""
    rng, inside = np.random.default_rng(2), 0
    for _ in range(40):
        y = np.sqrt(0.3) * rng.normal(size=(1, 8, 1)) + np.sqrt(0.7) * rng.normal(size=(8, 8, 8))
        found = sources.jackknife(y, lambda part: sources.shares(part)[(1,)])
        inside += found.low <= 0.3 <= found.high
    assert inside >= 34


def test_rounding_is_what_differs_between_repeats():
    binds, repeated = np.zeros((8, 8, 8)), np.zeros((8, 8))
    binds[range(4), range(4), range(4)] = repeated[:4] = 1
    repeated[3, 5:] = 0
    found = table(binds, repeated)
    assert sources.repeats(found).sum(1).tolist() == [9, 9, 9, 6, 0, 0, 0, 0]
    assert sources.both_outcomes(found).value == 1 / 8


def test_logistic_regression_is_at_the_optimum():
    rng = np.random.default_rng(5)
    values = rng.normal(size=(200, 2)) * [1, 50] + [3, 0]
    binds = rng.random(200) < 1 / (1 + np.exp(-2 * (values[:, 0] - 3)))
    odds = sources.predicted(values, binds, values)
    design = np.column_stack([np.ones(200), (values - values.mean(0)) / values.std(0)])
    weights = np.linalg.lstsq(design, odds, rcond=None)[0]
    assert np.abs(design.T @ (binds - 1 / (1 + np.exp(-odds))) - weights * [0, 1, 1]).max() < 1e-6


def test_prediction_finds_a_measure_that_tells_and_none_that_does_not():
    binds = np.array([True, True, False, False])
    assert sources.in_order(np.array([3.0, 2.0, 2.0, 1.0]), binds).mean() == 3.5 / 4
    rng = np.random.default_rng(6)
    binds = rng.random((8, 8, 8)) < 0.7
    early = {"1-var train at 500": np.full((8, 8, 8), 0.2), "x at 500": binds + rng.normal(size=(8, 8, 8))}
    early["y at 500"] = rng.normal(size=(8, 8, 1)) + np.zeros((8, 8, 8))  # the same for networks that share levels
    known = table(binds, np.ones((8, 8)), **early)
    found, nothing = (sources.auc(("1-var train", name), 500, known) for name in "xy")
    assert found.n == 512 and 0.7 < found.low < found.value < 0.82  # 1 / sqrt(2) deviations apart: .76
    assert nothing.low < 0.5 and nothing.value < 0.58
    early["1-var train at 500"] = np.where(np.arange(8) == 3, 0.99, 0.2) + np.zeros((8, 8, 8))
    assert sources.auc(("x",), 500, table(binds, np.ones((8, 8)), **early)).n == 448  # the others bind already
