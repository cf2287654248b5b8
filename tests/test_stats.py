"""Wilson's interval against scipy's, and its known values at the ends."""

import pytest
from scipy.stats import binom, binomtest

from assignadd.stats import median_interval, wilson


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
