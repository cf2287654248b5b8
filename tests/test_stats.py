"""Wilson's interval against scipy's, and its known values at the ends."""

import pytest
from scipy.stats import binomtest

from assignadd.stats import wilson


@pytest.mark.parametrize(("successes", "n"), [(0, 1), (1, 1), (3, 10), (0, 50), (50, 50), (1999, 2000), (12, 4000)])
def test_equals_scipy(successes, n):
    expected = binomtest(successes, n).proportion_ci(0.95, method="wilson")
    found = wilson(successes, n)
    assert found.low == pytest.approx(expected.low, abs=1e-12) and found.high == pytest.approx(expected.high, abs=1e-12)


@pytest.mark.parametrize(("successes", "n"), [(-1, 5), (6, 5), (0, 0)])
def test_impossible_counts_are_refused(successes, n):
    with pytest.raises(ValueError, match="successes"):
        wilson(successes, n)
