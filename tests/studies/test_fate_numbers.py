"""Variance components, predictions and their intervals: against designs whose answer is known."""

import numpy as np
import polars
import pytest

from assignadd.studies.fate import (
    FACTORIAL,
    FATE,
    REPEATED,
    SOURCES,
    area,
    auc,
    both_outcomes,
    components,
    jackknife,
    main_share,
    predicted,
    repeats,
    rounding_share,
    shares,
    within_share,
)
from assignadd.studies.table import StudyTable


def table(binds: np.ndarray, repeated: np.ndarray, **early: np.ndarray) -> StudyTable:
    """A table of the whole design with these fates (8, 8, 8) and those of 8 combinations repeated, (8, 8)."""
    rows = [{**dict(own), "cell": FACTORIAL} for own in FATE.cells[0].models]
    rows += [{**{s: own[s] for s in SOURCES}, "cell": REPEATED} for own in FATE.cells[1].models]
    frame = polars.DataFrame(rows).with_columns(
        binds=polars.Series(np.concatenate([binds.ravel(), repeated.ravel()]).astype(bool)),
        **{name: polars.Series(np.concatenate([v.ravel(), np.zeros(64)])) for name, v in early.items()},
    )
    return StudyTable(FATE, frame.sample(fraction=1, shuffle=True, seed=3), {"steps": 30_000})


def test_components_are_those_of_the_textbook_for_two_factors():
    y = np.random.default_rng(0).normal(size=(4, 6))
    rows, columns, rest = y.mean(1), y.mean(0), y - y.mean(1, keepdims=True) - y.mean(0) + y.mean()
    residual = (rest**2).sum() / 15
    found = components(y)
    assert found[(0, 1)] == pytest.approx(residual)
    assert found[(0,)] == pytest.approx(rows.var(ddof=1) - residual / 6)
    assert found[(1,)] == pytest.approx(columns.var(ddof=1) - residual / 4)


def test_components_are_unbiased_in_three_factors():
    rng, total = np.random.default_rng(1), np.zeros(3)
    for _ in range(200):
        y = 2 * rng.normal(size=(8, 1, 1)) + rng.normal(size=(1, 8, 8)) + 0.5 * rng.normal(size=(8, 8, 8))
        found = components(y)
        total += [found[(0,)], found[(1, 2)], found[(0, 1, 2)]]
    assert total / 200 == pytest.approx([4, 1, 0.25], rel=0.15)


def test_a_fate_that_one_source_decides_is_that_sources():
    binds = np.broadcast_to((np.arange(8) < 5)[:, None, None], (8, 8, 8))
    found = table(binds, np.ones((8, 8)))
    assert main_share(FACTORIAL, "seed.init", found).value == pytest.approx(1)
    assert main_share(FACTORIAL, "seed.data", found).value == pytest.approx(0)
    parity = np.indices((8, 8, 8)).sum(0) % 2  # decided by all three together
    assert shares(parity.astype(float))[(0, 1, 2)] > 0.99


def test_the_interval_of_a_share_covers_it():
    """Fates by a random main effect of .3 of the variance; a correct 95 % interval misses it in few designs."""
    rng, inside = np.random.default_rng(2), 0
    for _ in range(40):
        y = np.sqrt(0.3) * rng.normal(size=(1, 8, 1)) + np.sqrt(0.7) * rng.normal(size=(8, 8, 8))
        found = jackknife(y, lambda part: shares(part)[(1,)], range(3))
        inside += found.low <= 0.3 <= found.high
    assert inside >= 34


def test_rounding_is_what_differs_between_repeats():
    binds, repeated = np.zeros((8, 8, 8)), np.zeros((8, 8))
    for i in range(8):
        binds[i, i, i] = i < 4
    repeated[:4] = 1
    repeated[3, 5:] = 0
    found = table(binds, repeated)
    assert repeats(found, FACTORIAL, REPEATED).sum(1).tolist() == [9, 9, 9, 6, 0, 0, 0, 0]
    assert both_outcomes(FACTORIAL, REPEATED, found).value == 1 / 8
    within, between = 0.25 / 8, np.var([1, 1, 1, 2 / 3, 0, 0, 0, 0], ddof=1) - 0.25 / 8 / 9
    assert rounding_share(FACTORIAL, REPEATED, found).value == pytest.approx(within / (within + between))
    noise = np.random.default_rng(4).integers(0, 2, (400, 9)).astype(float)
    assert within_share(noise) == pytest.approx(1, abs=0.05)
    assert np.isnan(within_share(np.ones((8, 9))))


def test_the_area_counts_pairs_in_the_right_order():
    scores, binds = np.array([3.0, 1.0, 2.0, 2.0]), np.array([True, True, False, False])
    assert area(scores, binds) == 0.5
    assert area(np.array([3.0, 2.0, 2.0, 1.0]), binds) == 3.5 / 4


def test_logistic_regression_is_at_the_optimum():
    rng = np.random.default_rng(5)
    values = rng.normal(size=(200, 2)) * [1, 50] + [3, 0]
    binds = rng.random(200) < 1 / (1 + np.exp(-2 * (values[:, 0] - 3)))
    odds = predicted(values, binds, values)
    x = (values - values.mean(0)) / values.std(0)
    design = np.column_stack([np.ones(200), x])
    weights = np.linalg.lstsq(design, odds, rcond=None)[0]
    gradient = design.T @ (binds - 1 / (1 + np.exp(-odds))) - weights * [0, 1, 1]
    assert np.abs(gradient).max() < 1e-6


def test_prediction_finds_a_measure_that_tells_and_none_that_does_not():
    rng = np.random.default_rng(6)
    binds = rng.random((8, 8, 8)) < 0.7
    early = {"1-var train at 500": np.full((8, 8, 8), 0.2), "x at 500": binds + rng.normal(size=(8, 8, 8))}
    early["y at 500"] = rng.normal(size=(8, 8, 1)) + np.zeros((8, 8, 8))  # the same for networks that share levels
    known = table(binds, np.ones((8, 8)), **early)
    found = auc(FACTORIAL, ("1-var train", "x"), 500, known)
    assert found.n == 512 and 0.7 < found.low < found.value < 0.82  # 1 / sqrt(2) deviations apart: .76
    nothing = auc(FACTORIAL, ("1-var train", "y"), 500, known)
    assert nothing.low < 0.5 and nothing.value < 0.58
    early["1-var train at 500"] = np.where(np.arange(8) == 3, 0.99, 0.2) + np.zeros((8, 8, 8))
    assert auc(FACTORIAL, ("x",), 500, table(binds, np.ones((8, 8)), **early)).n == 448  # the others bind already
