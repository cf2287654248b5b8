"""What is said to hold for all, most or few seeds, on records made for it."""

import pytest

from assignadd.ledger.claim import Record, SeedResult
from assignadd.report.claims_table import across_seeds
from assignadd.report.page import Page
from assignadd.stats import FAILS, HOLDS, UNDECIDED
from tests.report.reader import Reader


def words(unit: str, *verdicts: str) -> str:
    """Of a claim with one seed for each verdict."""
    seeds = tuple(SeedResult("census", i, 0.5, 0.0, 1.0, verdict) for i, verdict in enumerate(verdicts))
    share = verdicts.count(HOLDS) / len(verdicts)
    record = Record(share, 0.0, 1.0, 9, unit, len(seeds), HOLDS, "", seeds, id="a", claim="says a.")
    page = Page("x")
    across_seeds(page, [record])
    return " ".join("".join(Reader(page.html()).words).split())


@pytest.mark.parametrize(
    ("held", "group", "counted"),
    [(4, "for all", "all 4: holds"), (3, "for most", "3 hold, 1 fails"), (2, "for most", "2 hold, 2 fail"),
     (1, "for few", "1 holds, 3 fail"), (0, "for few", "all 4: does not hold")],
)  # fmt: skip
def test_claims_about_all_seeds_by_their_share(held, group, counted):
    found = words("seeds", *[HOLDS] * held, *[FAILS] * (4 - held))
    assert f"{group}: says a." in found and counted in found


def test_undecided_seeds_are_counted_as_such():
    found = words("seeds", HOLDS, HOLDS, FAILS, UNDECIDED)
    assert "for most: says a." in found and "2 hold, 1 fails, 1 undecided" in found


def test_claims_about_one_network_are_not_there():
    assert "says a." not in words("pairs", HOLDS, HOLDS)
