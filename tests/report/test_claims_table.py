"""Each record is a row with its verdict in words and colour, keys to sort by, and the command behind it."""

from dataclasses import replace

from assignadd.ledger.claim import ReadingRecord
from assignadd.report.claims_table import COLUMNS, claims_table
from assignadd.report.page import Page
from assignadd.stats import FAILS, HOLDS, UNTESTABLE
from tests.report.reader import Reader
from tests.report.records import RECORDS, record


def reader(*records) -> Reader:
    page = Page("t")
    claims_table(page, records, ["attention"])
    return Reader(page.html())


def test_rows_keep_the_order_of_the_ledger():
    assert [a["id"] for a in reader(*RECORDS).named("tr") if "id" in a] == [f"claim-{r.id}" for r in RECORDS]


def test_verdicts_are_coloured_and_written():
    found = reader(*RECORDS)
    tones = [a["class"] for a in found.named("span") if "class" in a]
    assert tones == ["verdict good", "verdict", "verdict bad", "verdict mixed", "verdict mixed", "verdict"]
    assert all(r.verdict in "".join(found.words) for r in RECORDS)


def test_verdicts_sort_from_what_holds_to_what_is_not_measured():
    column = [column.name for column in COLUMNS].index("verdict")
    keys = [a["data-sort"] for a in reader(*RECORDS).named("td")][column :: len(COLUMNS)]
    order = sorted(RECORDS, key=lambda r: float(keys[RECORDS.index(r)]))
    assert [r.id for r in order] == ["nine", "minus", "tiny", "ten", "half", "none"]


def test_filters_count_the_verdicts():
    found = reader(*RECORDS)
    shown = [a["data-show"] for a in found.named("button") if "data-show" in a]
    verdicts = ["", "holds", "not measured yet", "does not hold", "differs by seed", "cannot be tested"]
    assert shown == verdicts
    assert {"all (6)", "holds (1)", "differs by seed (2)"} <= set(found.words)


def test_readings_and_checkpoints_are_told_below_a_claim():
    strict = ReadingRecord(0.75, 0.7, 0.8, 100, "pairs", 2, FAILS, "at least 1", id="strict", says="All of it does.")
    untold = ReadingRecord(None, None, None, 0, "", 0, UNTESTABLE, "", id="none", says="Nothing does.")
    made = replace(record("a", 0.9, HOLDS), readings=(strict, untold), checkpoints="1 to 5 (3)")
    found = "".join(reader(made).words)
    assert (
        "All of it does. Does not hold: 0.75 (0.7 to 0.8)." in found
        and "nothing does. cannot be tested." in found.lower()
    )
    assert "Checkpoints: 1 to 5 (3)." in found
    assert len([a for a in reader(made).named("tr") if "id" in a]) == 1  # lines of one record, not rows


def test_numbers_are_shown_with_their_interval_unless_exact():
    sampled, exact = record("a", 0.99294, HOLDS), replace(record("b", 1.0, HOLDS), low=1.0, high=1.0)
    words = reader(sampled, exact).words
    assert {"0.9929", "0.9829 to 1.003", "1", "100 pairs"} <= set(words)
    assert "1 to 1" not in words


def test_labels_link_to_the_pictures_on_the_page():
    assert [a["href"] for a in reader(*RECORDS).named("a")] == ["#attention"] * 5
