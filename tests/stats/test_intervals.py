"""Wilson's interval against scipy's, and its known values at the ends."""

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from assignadd.stats.intervals import median_interval, threshold, wilson


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


def test_a_mean_of_shares_has_an_interval_no_narrower_than_its_own_scatter():
    """20 pairs with shares between 0 and 1: Wilson's interval on their sum covers the true mean 95 % of the time."""
    draw, hits = np.random.default_rng(0), 0
    for _ in range(400):
        found = wilson(draw.beta(2, 0.5, 20).sum(), 20)
        hits += found.low <= 2 / 2.5 <= found.high
    assert hits >= 375  # 95 % of 400 is 380, with a standard deviation of 4.4


SETTINGS = np.array([0.02, 0.05, 0.08, 0.1, 0.12, 0.14, 0.16, 0.18, 0.2, 0.22, 0.25, 0.3, 0.4, 0.6, 0.8])


def drawn(seed: int, seeds: int = 24, lapse: float = 0.0, own: float = 0.0) -> np.ndarray:
    """Successes (settings, seeds) of seeds whose threshold is .2, give or take `own`; some never succeed."""
    draw = np.random.default_rng(seed)
    truth = 0.2 + own * draw.standard_normal(seeds)
    rise = 1 / (1 + np.exp(-(SETTINGS[:, None] - truth) / 0.03))
    return (draw.random(rise.shape) < rise) & (draw.random(seeds) >= lapse)


def test_the_threshold_is_half_way_up_whatever_the_lapse_rate():
    for lapse in (0.0, 0.3):
        found = threshold(SETTINGS, drawn(1, 2000, lapse), resamples=20)
        assert found.value == pytest.approx(0.2, abs=0.007) and found.lapse == pytest.approx(lapse, abs=0.04)
        assert found.n == 2000 * len(SETTINGS)


def test_seeds_that_were_not_asked_do_not_count():
    succeeded = drawn(2, 2000, 0.3)
    able = np.broadcast_to(succeeded[-3:].any(0), succeeded.shape)
    assert threshold(SETTINGS, succeeded, able, 20).lapse == pytest.approx(0, abs=0.05)


def test_no_rise_is_no_threshold():
    assert threshold(SETTINGS, np.zeros((15, 24), dtype=bool)) is None
    assert threshold(SETTINGS, np.ones((15, 24), dtype=bool), resamples=5) is None


def test_the_interval_of_a_threshold_covers_the_truth_where_seeds_differ():
    """Seeds with thresholds of their own: resampling seeds keeps what their trials have in common."""
    hits, widths = 0, []
    for seed in range(40):
        found = threshold(SETTINGS, drawn(seed, lapse=0.2, own=0.05), resamples=100)
        hits += found.interval.low <= 0.2 <= found.interval.high
        widths.append(found.interval.high - found.interval.low)
        assert found.interval.low <= found.value <= found.interval.high
    assert hits >= 33  # 95 % of 40 is 38; fewer than 33 would be less likely than 1 in 100
    assert np.median(widths) > 0.02  # single trials alone would give about half of this
