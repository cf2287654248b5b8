"""One rule for verdicts: an interval decides, and where it has the threshold inside nothing is decided."""

import pytest

from assignadd.stats.intervals import Interval, wilson
from assignadd.stats.verdicts import FAILS, HOLDS, UNDECIDED, AtLeast, AtMost, Between, Statement, decided


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


def test_a_statement_shows_the_ends_of_its_interval():
    exact = Statement("theory.x", "It is.", "x = 1", 0.5, HOLDS, "counted").record()
    assert (exact["low"], exact["value"], exact["high"]) == (0.5, 0.5, 0.5) and "interval" not in exact
    sampled = Statement("theory.x", "It is.", "x = 1", 0.5, HOLDS, "drawn", interval=Interval(0.4, 0.6), draws=100)
    drawn = sampled.record()
    assert (drawn["low"], drawn["value"], drawn["high"], drawn["draws"]) == (0.4, 0.5, 0.6, 100)
    assert Statement("theory.x", "It is.", "x = 1", None, HOLDS, "").record()["low"] is None
