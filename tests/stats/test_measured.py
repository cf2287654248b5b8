"""Paired intervals, and those of a median over evaluations: by hand, and how often they cover the truth."""

import numpy as np
import pytest

from assignadd.stats.intervals import wilson
from assignadd.stats.measured import Measured, paired_difference, paired_share, ratio_of_means


def cells(both, first, second, neither):
    """Two columns of zeros and ones with so many rows of each kind."""
    counts = (both, first, second, neither)
    return np.repeat([True, True, False, False], counts), np.repeat([True, False, True, False], counts)


def test_the_difference_is_bonetts_and_prices():
    """d -+ 1.96 sqrt(((b + c + 2) / (n + 2) - d^2) / (n + 2)) with d = (b - c) / (n + 2), b and c differing pairs."""
    found = paired_difference(*cells(60, 15, 5, 20), "sequences")
    centre, spread = 10 / 102, np.sqrt((22 / 102 - (10 / 102) ** 2) / 102)
    assert found.value == pytest.approx(0.1) and found.n == 100
    assert (found.low, found.high) == pytest.approx((centre - 1.959964 * spread, centre + 1.959964 * spread))


def test_the_share_counts_one_more_pair_of_each_kind_that_differs():
    """76 of 102 to 66 of 102, and the spread of a - r b over 60 pairs (1, 1), 16 (1, 0), 6 (0, 1) and 20 (0, 0)."""
    found, r = paired_share(*cells(60, 15, 5, 20), "sequences"), 76 / 66
    squares = (60 * (1 - r) ** 2 + 16 + 6 * r**2) / 102  # their mean is 0
    half = 1.959964 * np.sqrt(squares / 102) / (66 / 102)
    assert found.value == pytest.approx(75 / 65) and (found.low, found.high) == pytest.approx((r - half, r + half))


def test_nothing_seen_to_differ_still_has_a_width():
    found = paired_difference(*cells(100, 0, 0, 0), "sequences")
    assert found.value == 0 and -0.05 < found.low < 0 < found.high < 0.05
    share = paired_share(*cells(100, 0, 0, 0), "sequences")
    assert share.value == 1 and 0.95 < share.low < 1 < share.high < 1.05
    assert paired_share(*cells(0, 10, 0, 10), "sequences") is None


def test_extremes_are_within_their_intervals():
    for table in (
        cells(0, 100, 0, 0),
        cells(0, 0, 100, 0),
        cells(50, 0, 50, 0),
        cells(1, 0, 99, 0),
        cells(1, 99, 0, 0),
    ):
        for found in (paired_difference(*table, ""), paired_share(*table, "")):
            assert found is None or found.low <= found.value <= found.high


@pytest.mark.parametrize(
    "probabilities", [(0.5, 0.01, 0.45, 0.04), (0.97, 0.005, 0.02, 0.005), (0.02, 0.0, 0.97, 0.01)]
)
def test_coverage(probabilities):
    """Of 95 % intervals on 400 sequences, 93 to 99 % hold the truth."""
    both, first, second, _ = probabilities
    truth = first - second, (both + first) / (both + second)
    drawn = np.random.default_rng(0).multinomial(400, probabilities, 1000)
    hits = np.zeros(2)
    for counts in drawn:
        table = cells(*counts)
        found = paired_difference(*table, ""), paired_share(*table, "")
        hits += [m is not None and m.low <= t <= m.high for m, t in zip(found, truth, strict=True)]
    assert ((hits >= 930) & (hits <= 990)).all(), hits


def test_a_ratio_of_means_by_resampling():
    generator = np.random.default_rng(1)
    b = generator.normal(10, 2, 500)
    a = 0.9 * b + generator.normal(0, 1, 500)
    found = ratio_of_means(a, b, "sequences")
    rows = generator.integers(0, 500, (2000, 500))
    low, high = np.quantile(a[rows].mean(1) / b[rows].mean(1), [0.025, 0.975])
    assert found.value == pytest.approx(a.mean() / b.mean()) and (found.low, found.high) == pytest.approx(
        (low, high), abs=1e-3
    )


TEN = [0.90, 0.91, 0.92, 0.93, 0.94, 0.95, 0.96, 0.97, 0.98, 0.99]


def test_a_median_over_ten_evaluations_lies_between_the_second_and_the_ninth():
    """Fewer than two, or more than eight, of ten values are below the median once in 46 times."""
    found = Measured.over_evaluations(TEN[::-1], 20_000)
    assert (found.value, found.low, found.high, found.n) == (pytest.approx(0.945), 0.91, 0.98, 20_000)
    few = Measured.over_evaluations(TEN[:4], 20_000)  # too few for an interval: their range
    assert (few.value, few.low, few.high) == (pytest.approx(0.915), 0.90, 0.93)


def test_equal_evaluations_still_have_the_noise_of_their_sequences():
    found, ends = Measured.over_evaluations([0.95] * 10, 1000), wilson(950, 1000)
    assert (found.value, found.low, found.high) == (0.95, ends.low, ends.high)
    one = Measured.over_evaluations([1.0], 2000)
    assert (one.value, one.low, one.high) == (1.0, wilson(2000, 2000).low, 1.0)


def test_evaluations_of_the_same_pairs_have_both_errors():
    found, ends = Measured.over_evaluations_and_pairs(TEN, 100), wilson(94.5, 100)
    assert (found.value, found.n, found.unit) == (pytest.approx(0.945), 100, "pairs")
    assert found.low == pytest.approx(0.945 - np.hypot(0.945 - 0.91, 0.945 - ends.low))
    assert found.high == pytest.approx(min(1, 0.945 + np.hypot(0.98 - 0.945, ends.high - 0.945)))
    assert Measured.over_evaluations_and_pairs([1.0] * 10, 20).high == 1


def test_a_median_over_evaluations_covers_that_of_the_training():
    """Networks whose accuracy moves from checkpoint to checkpoint, each counted on 2,000 sequences."""
    generator, held, repeats = np.random.default_rng(2), 0, 400
    for _ in range(repeats):
        true = 0.97 + 0.01 * generator.uniform(-1, 1, 10)
        found = Measured.over_evaluations((generator.binomial(2000, true) / 2000).tolist(), 20_000)
        held += found.low <= 0.97 <= found.high
    assert held >= 0.95 * repeats
