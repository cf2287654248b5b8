"""Wilson's interval against scipy's, and its known values at the ends."""

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from assignadd.stats import median_interval, threshold, threshold_interval, wilson


@pytest.mark.parametrize(("successes", "n"), [(0, 1), (1, 1), (3, 10), (0, 50), (50, 50), (1999, 2000), (12, 4000)])
def test_equals_scipy(successes, n):
    expected = binomtest(successes, n).proportion_ci(0.95, method="wilson")
    found = wilson(successes, n)
    assert found.low == pytest.approx(expected.low, abs=1e-12) and found.high == pytest.approx(expected.high, abs=1e-12)


@pytest.mark.parametrize(("successes", "n"), [(-1, 5), (6, 5), (0, 0)])
def test_impossible_counts_are_refused(successes, n):
    with pytest.raises(ValueError, match="successes"):
        wilson(successes, n)


@pytest.mark.parametrize(("n", "ends"), [(6, (0, 5)), (9, (1, 7)), (20, (5, 14)), (35, (11, 23))])
def test_the_interval_of_a_median_is_that_of_the_tables(n, ends):
    """Order statistics as tabulated for the sign test (Conover, Practical Nonparametric Statistics)."""
    median, interval = median_interval(list(range(n)))
    assert median == (n - 1) / 2 and (interval.low, interval.high) == ends
    inside = binom.cdf(n - ends[0] - 1, n, 0.5) - binom.cdf(ends[0], n, 0.5)
    assert inside >= 0.95 or ends[0] == 0


def test_five_values_are_too_few_for_one():
    assert median_interval([3, 1, 2, 5, 4]) == (3, None)


def test_a_threshold_is_where_half_succeed():
    settings = [0.1, 0.2, 0.3, 0.4]
    assert threshold(settings, [0.0, 0.25, 0.75, 1.0]) == pytest.approx(0.25)
    assert threshold(settings, [0.0, 0.0, 0.1, 0.2]) is None
    assert threshold(settings, [0.6, 0.9, 1.0, 1.0]) == 0.1
    assert threshold(settings, [0.0, 0.4, 0.2, 1.0]) == pytest.approx(0.3 + 0.1 * 0.2 / 0.7)  # .4, .2 become .3, .3


def test_the_interval_of_a_threshold_covers_the_truth():
    settings = [i / 20 for i in range(20)]
    hits = 0
    for seed in range(40):
        draw = np.random.default_rng(seed)
        truth = [1 / (1 + np.exp(-(s - 0.42) / 0.05)) for s in settings]
        outcomes = [(draw.random(10) < p).tolist() for p in truth]
        found, interval = threshold_interval(settings, outcomes, 300)
        hits += interval.low <= 0.42 <= interval.high
        assert interval.low <= found <= interval.high
    assert hits >= 34  # 95 % of 40 is 38; fewer than 34 would be less likely than 1 in 100
