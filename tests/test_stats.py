"""Intervals against scipy, tables and published formulas, how often they cover the truth, and the verdicts on them."""

import numpy as np
import pytest
import torch
from scipy.stats import binom, binomtest, sem, t

from assignadd.stats import (
    FAILS,
    HOLDS,
    UNDECIDED,
    AtLeast,
    AtMost,
    Between,
    Interval,
    Measured,
    decided,
    highest,
    lowest,
    mean_interval,
    mean_of,
    median_interval,
    paired_share,
    ratio_of_means,
    threshold,
    wilson,
)


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


@pytest.mark.parametrize("values", [(0.1, 0.4), (3.0, 1.0, 2.0, 7.0), tuple(np.random.default_rng(0).normal(2, 3, 30))])
def test_the_interval_of_a_mean_is_students(values):
    found = mean_interval(values)
    assert (found.low, found.high) == pytest.approx(t.interval(0.95, len(values) - 1, np.mean(values), sem(values)))


def test_a_mean_of_many_values_has_the_normal_interval():
    values = torch.tensor([1.0, 2.0, 4.0, 9.0])
    found, half = mean_of(values, "sequences"), 1.959964 * np.sqrt(38 / 3) / 2  # squares of the deviations from 4: 38
    assert (found.value, found.low, found.high) == pytest.approx((4, 4 - half, 4 + half))
    assert (found.n, found.unit) == (4, "sequences")


def test_a_difference_has_newcombes_interval():
    """Both errors downwards are that of the first number downwards and that of the second upwards."""
    a, b = Measured(0.9, 0.6, 0.94, 200, "x"), Measured(0.5, 0.48, 0.9, 100, "x")
    found = a.minus(b)
    ends = 0.4 - np.hypot(0.3, 0.4), 0.4 + np.hypot(0.04, 0.02)
    assert (found.value, found.low, found.high, found.n) == pytest.approx((0.4, *ends, 100))


def test_the_lowest_and_the_highest_have_the_extreme_ends():
    """The lowest ends are .0 and .4, both of the number with the higher value; the highest .1 and .9, of the other."""
    low, high = Measured(0.2, 0.1, 0.9, 5, "x"), Measured(0.3, 0.0, 0.4, 6, "y")
    assert lowest([high, None, low]) == Measured(0.2, 0.0, 0.4, 5, "x")
    assert highest([None, low, high]) == Measured(0.3, 0.1, 0.9, 6, "y")
    assert lowest([low]) == highest([low]) == low
    assert lowest([None]) is None and highest([]) is None


def test_all_numbers_hold_where_each_does_and_fail_where_one_does():
    generator = np.random.default_rng(0)
    seen = set()
    for _ in range(300):
        ends = np.sort(generator.uniform(size=(3, 3)) ** 0.2, axis=1)  # mostly near 1
        numbers = [Measured(value, low, high, 1, "x") for low, value, high in ends.tolist()]
        for rule, extreme in ((AtLeast(0.8), lowest), (AtMost(0.97), highest)):
            single = {rule.verdict(number) for number in numbers}
            together = HOLDS if single == {HOLDS} else FAILS if FAILS in single else UNDECIDED
            assert rule.verdict(extreme(numbers)) == together
            seen.add((together, extreme))
    assert len(seen) == 6


def test_few_values_have_no_median_with_an_interval():
    assert Measured.median([], "x") is None and Measured.median([1, 2, 3, 4, 5], "x") is None
    found = Measured.median([6, 1, 2, 5, 3, 4], "x")
    assert (found.value, found.low, found.high, found.n) == (3.5, 1, 6, 6)
    assert str(Measured.exactly(0.25, 3, "x")) == "0.250 [0.250, 0.250]"


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
        assert found.value == pytest.approx(0.2, abs=0.007) and (found.n, found.unit) == (2000, "seeds")


def test_seeds_that_were_not_asked_do_not_count():
    """Half of the seeds succeed from the second setting on: with them the threshold would be lower."""
    early = np.broadcast_to(SETTINGS[:, None] > SETTINGS[0], (len(SETTINGS), 2000))
    succeeded, asked = np.concatenate([drawn(2, 2000), early], 1), np.repeat([[True, False]], 2000, axis=1)
    asked = np.broadcast_to(asked, succeeded.shape)
    assert threshold(SETTINGS, succeeded, asked, 20).value == pytest.approx(0.2, abs=0.007)
    assert threshold(SETTINGS, succeeded, resamples=20).value < 0.15


def test_no_rise_is_no_threshold():
    assert threshold(SETTINGS, np.zeros((15, 24), dtype=bool)) is None
    assert threshold(SETTINGS, np.ones((15, 24), dtype=bool), resamples=5) is None


def test_a_threshold_is_that_of_the_rise_whatever_comes_after():
    succeeded = drawn(1)
    falls = np.concatenate([succeeded, np.zeros((3, 24), dtype=bool)])
    settings = np.append(SETTINGS, SETTINGS[-1] + np.array([0.1, 0.2, 0.3]))
    assert threshold(settings, falls, resamples=20) == threshold(SETTINGS, succeeded, resamples=20)


def test_two_settings_are_too_few_for_a_threshold_and_three_are_enough():
    rows = np.array([[False] * 8, [True] * 4 + [False] * 4, [True] * 8])
    assert threshold(SETTINGS[:2], rows[1:], resamples=5) is None
    assert SETTINGS[0] < threshold(SETTINGS[:3], rows, resamples=5).value < SETTINGS[2]


def test_the_interval_of_a_threshold_covers_the_truth_where_seeds_differ():
    """Seeds with thresholds of their own: resampling seeds keeps what their trials have in common."""
    hits, widths = 0, []
    for seed in range(40):
        found = threshold(SETTINGS, drawn(seed, lapse=0.2, own=0.05), resamples=100)
        hits += found.low <= 0.2 <= found.high
        widths.append(found.high - found.low)
        assert found.low <= found.value <= found.high
    assert hits >= 33  # 95 % of 40 is 38; fewer than 33 would be less likely than 1 in 100
    assert np.median(widths) > 0.02  # single trials alone would give about half of this


def cells(both, first, second, neither):
    """Two columns of zeros and ones with so many rows of each kind."""
    counts = (both, first, second, neither)
    return np.repeat([True, True, False, False], counts), np.repeat([True, False, True, False], counts)


def test_the_difference_is_bonetts_and_prices():
    """d -+ 1.96 sqrt(((b + c + 2) / (n + 2) - d^2) / (n + 2)) with d = (b - c) / (n + 2), b and c differing pairs."""
    found = Measured.paired_difference(*cells(60, 15, 5, 20), "sequences")
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
    found = Measured.paired_difference(*cells(100, 0, 0, 0), "sequences")
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
        for found in (Measured.paired_difference(*table, ""), paired_share(*table, "")):
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
        found = Measured.paired_difference(*table, ""), paired_share(*table, "")
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


def test_the_interval_decides_and_else_nothing_does():
    uncertain = wilson(94, 100)  # 0.94, somewhere between .875 and .972
    least = [AtLeast(t).verdict(uncertain) for t in (0.87, 0.88, 0.94, 0.97, 0.98)]
    assert least == [HOLDS, UNDECIDED, UNDECIDED, UNDECIDED, FAILS]
    assert [AtMost(t).verdict(uncertain) for t in (0.87, 0.88, 0.97, 0.98)] == [FAILS, UNDECIDED, UNDECIDED, HOLDS]
    ranges = [(0.87, 0.98), (0.9, 1.0), (0.8, 0.9), (0.98, 1.0), (0.5, 0.87)]
    assert [Between(*r).verdict(uncertain) for r in ranges] == [HOLDS, UNDECIDED, UNDECIDED, FAILS, FAILS]
    exact = Interval(0.9, 0.9)
    assert [rule.verdict(exact) for rule in (AtLeast(0.9), AtMost(0.9), AtLeast(0.91))] == [HOLDS, HOLDS, FAILS]


def test_all_of_them_is_refuted_by_one_and_never_proved_by_a_sample():
    assert AtLeast(1.0).verdict(wilson(20_000, 20_000)) == UNDECIDED
    assert AtLeast(1.0).verdict(wilson(19_999, 20_000)) == FAILS


def test_a_threshold_on_an_end_counts_as_reached():
    ends = ((0.95, 1.0), (0.9, 0.96), (0.9, 0.95), (0.9, 0.949))
    assert [AtLeast(0.95).verdict(Interval(*e)) for e in ends] == [HOLDS, UNDECIDED, UNDECIDED, FAILS]
    assert [AtMost(0.95).verdict(Interval(*e)) for e in ends] == [UNDECIDED, UNDECIDED, HOLDS, HOLDS]
    assert Between(0.9, 0.95).verdict(Interval(0.9, 0.95)) == HOLDS


@pytest.mark.parametrize(
    ("holds", "fails", "verdict"),
    [(True, None, HOLDS), (False, None, FAILS), (True, False, HOLDS), (False, True, FAILS), (False, False, UNDECIDED)],
)
def test_exact_numbers_are_always_decided(holds, fails, verdict):
    assert decided(holds, fails) == verdict
