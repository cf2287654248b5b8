"""What is said to hold for all, most, few, or the paper's run alone, on records made for it."""

from dataclasses import replace

import pytest

from assignadd.config import PRESETS
from assignadd.dynamics import trajectory
from assignadd.ledger.claim import Record, SeedResult
from assignadd.model.stack import initial_stack
from assignadd.network import Network, known
from assignadd.paper.ledger import Ledger
from assignadd.report import claims_table as section
from assignadd.report.page import Page
from assignadd.stats import FAILS, HOLDS, UNDECIDED
from assignadd.task.splits import pair_split
from tests.report.reader import Reader

OURS = ("ours", 0), ("ours", 3)


def network(run: str, seed: int, binds: bool = True, preset: str = "paper", imported: bool = False) -> Network:
    config = PRESETS[preset]
    e = Network(initial_stack(config, [seed]), config, pair_split(config.task, 0), seed=seed, name=run)
    known(e, trajectory.binds, binds)
    e.imported = imported
    return e


NETWORKS = [
    *(network(*name) for name in OURS),
    network("ours", 1, binds=False),
    network("small", 0, preset="tiny"),
    network("theirs", 0, preset="authors", imported=True),
]


def record(id: str, holds: dict[tuple[str, int], bool | None], unit: str = "pairs") -> Record:
    """A seed holds (True), fails (False) or is undecided (None)."""
    verdicts = {True: HOLDS, False: FAILS, None: UNDECIDED}
    results = tuple(
        SeedResult(run, seed, 0.25 + 0.5 * bool(held), 0.0, 1.0, verdicts[held]) for (run, seed), held in holds.items()
    )
    share = sum(r.verdict == HOLDS for r in results) / len(results)
    return Record(share, 0.0, 1.0, 9, unit, len(results), HOLDS, "", results, id=id, claim=f"says {id}.")


def words(monkeypatch, records, verdicts, networks=NETWORKS) -> str:
    stored = tuple(Record(0.5, 0.4, 0.6, 1, "pairs", 1, verdict, "", id=id) for id, verdict in verdicts.items())
    monkeypatch.setattr(section, "paper_network", lambda: Ledger("", None, {}, stored))
    page = Page("x")
    section.across_seeds(page, records, networks)
    return " ".join("".join(Reader(page.html()).words).split())


@pytest.mark.parametrize(
    ("held", "group", "counted"),
    [(4, "for all", "all 4: holds"), (3, "for most", "3 hold, 1 fails"), (2, "for most", "2 hold, 2 fail"),
     (1, "for few", "1 holds, 3 fail"), (0, "for few", "all 4: does not hold")],
)  # fmt: skip
def test_claims_about_all_seeds_by_their_share(monkeypatch, held, group, counted):
    found = words(monkeypatch, [record("a", {("census", i): i < held for i in range(4)}, "seeds")], {})
    assert f"{group}: says a." in found and counted in found


def test_undecided_seeds_are_counted_as_such(monkeypatch):
    seeds = {("census", i): held for i, held in enumerate((True, True, False, None))}
    found = words(monkeypatch, [record("a", seeds, "seeds")], {})
    assert "for most: says a." in found and "2 hold, 1 fails, 1 undecided" in found


def test_what_only_the_papers_network_shows(monkeypatch):
    others = {("ours", 1): True, ("small", 0): True, ("theirs", 0): True}  # none of which is to be counted
    records = [
        record("none", dict.fromkeys(OURS, False) | others),
        record("some", {OURS[0]: True, OURS[1]: False} | others),
        record("all", dict.fromkeys(OURS, True)),
        record("theirs-fails", dict.fromkeys(OURS, False)),
        record("not-asked", others),
        record("not-of-one-network", dict.fromkeys(OURS, False)),
    ]
    found = words(
        monkeypatch, records, dict.fromkeys(("none", "some", "all", "not-asked"), HOLDS) | {"theirs-fails": FAILS}
    )
    assert "asked of the 2 of this page that bind: 3 hold in the paper's own" in found
    assert "1 hold in all of ours that could be asked, 1 in some, and 1 in none" in found
    assert (
        "only for the paper's run: says none." in found
        and "all 2: does not hold" in found
        and "for some: says some." in found
        and "1 holds, 1 fails" in found
    )
    assert not any(f"says {id}." in found for id in ("all", "theirs-fails", "not-asked", "not-of-one-network"))


def test_nothing_is_said_where_nothing_compares(monkeypatch):
    asked = [record("none", {("ours", 1): False})]
    assert "the paper's own" not in words(monkeypatch, asked, {"none": HOLDS}, NETWORKS[2:])
    smaller = network("ours", 1)
    smaller.config = replace(smaller.config, task=replace(smaller.config.task, seen_fraction=0.5))
    assert "the paper's own" not in words(monkeypatch, asked, {"none": HOLDS}, [smaller])
