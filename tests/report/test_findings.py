"""The first screen: five questions with a verdict and numbers, what it says of the networks, and its banner."""

from dataclasses import replace
from pathlib import Path

import pytest

from assignadd.config import PRESETS, Task
from assignadd.dynamics import trajectory
from assignadd.ledger.claim import ReadingRecord, Record
from assignadd.model.stack import initial_stack
from assignadd.network import Network, store_result
from assignadd.paper.generalisation.figures import ACCURACIES_FIGURE
from assignadd.paper.ledger import CLAIMS
from assignadd.report.claims_table import FINDINGS, SHOWN, findings, verdicts_in_words
from assignadd.report.page import Page
from assignadd.report.reproduction import SECTIONS, first_screen
from assignadd.stats import FAILS, HOLDS, UNTESTABLE
from assignadd.task.splits import pair_split
from tests.report.reader import Reader
from tests.report.records import record


def network(config=PRESETS["paper"], binds=True) -> Network:
    e = Network(initial_stack(config, [0]), config, pair_split(config.task, 0), seed=0, name="r")
    store_result(e, trajectory.binds, binds)
    return e


def asked(verdicts: dict[str, str]) -> list[Record]:
    """Records with these verdicts; claim:reading is a reading of a record."""
    found = {id: record(id, 0.25, verdict) for id, verdict in verdicts.items() if ":" not in id}
    for id, verdict in verdicts.items():
        name, _, reading = id.partition(":")
        if reading:
            own = ReadingRecord(0.5, 0.4, 0.6, 100, "pairs", 2, verdict, "", id=reading, says=f"reading {id}.")
            found[name] = replace(found[name], readings=(*found[name].readings, own))
    return list(found.values())


def svg(label: str) -> Path:
    return Path(f"{label}.svg")


def test_every_question_has_a_claim_and_a_figure():
    figures = {ACCURACIES_FIGURE.label, *(figure.label for section in SECTIONS for figure in section.figures)}
    theory = {"theory-memory-dominates"}
    readings = {f"{c.id}:{r.id}" for c in CLAIMS for r in c.readings}
    assert {f.claim for f in FINDINGS} <= {c.id for c in CLAIMS} | readings | theory
    assert {label for f in FINDINGS for label in f.figures} <= figures


def test_questions_that_could_not_be_tested_give_way_to_others():
    untested = FINDINGS[3].claim
    records = asked({f.claim: UNTESTABLE if f.claim == untested else FAILS for f in FINDINGS})
    assert [card.claim for card in findings(records, svg)] == [f.claim for f in FINDINGS if f.claim != untested][:SHOWN]
    few = asked({f.claim: UNTESTABLE for f in FINDINGS[:3]})
    assert [card.verdict for card in findings(few, svg)] == [UNTESTABLE] * 3
    assert findings([], svg) == []


def test_a_card_has_the_verdict_the_numbers_and_the_first_figure_there_is():
    claim = replace(record(FINDINGS[0].claim, 0.5, FAILS), claim="All.", paper="99 %", n=20000, unit="sequences")
    (card,) = findings([claim], lambda label: None if label == FINDINGS[0].figures[0] else svg(label))
    assert (card.verdict, card.tone, card.figure) == (FAILS, "bad", FINDINGS[0].figures[1])
    assert card.text == "All. Measured: 0.5 (0.49 to 0.51; 20,000 sequences, 2 networks). The paper says: 99 %."
    steps = replace(claim, value=9000.0, low=4400.0, high=10000.0)
    assert "9,000 (4,400 to 10,000; 20,000 sequences" in findings([steps], svg)[0].text


def words(networks, explorer=None) -> str:
    page = Page("t")
    first_screen(page, networks, [], lambda label: None, explorer)
    return "".join(Reader(page.html()).words)


@pytest.mark.parametrize("preset", ["paper", "authors"])
def test_the_papers_task_has_no_banner(preset):
    found = words([network(PRESETS[preset])])
    assert "thresholds" not in found and "to add mod 59" in found and "interactive" not in found


def test_another_task_or_network_says_whose_thresholds_they_are():
    found = words([network(PRESETS["tiny"])], "../explorer/index.html")
    assert "The thresholds of the claims are the paper's" in found and "to add mod 23 with 6 variables" in found
    assert "the interactive page" in found
    product = replace(PRESETS["paper"], task=replace(Task(), operation="multiply"))
    assert "to multiply mod 59" in words([network(product)]) and "*" in words([network(product)])


def test_a_section_counts_its_verdicts_and_links_what_the_paper_says_and_does_not_hold():
    records = [
        record("a", 1.0, HOLDS), record("b", 0.0, FAILS), record("c", 0.0, "1 holds, 2 fail"),
        replace(record("d", 0.0, FAILS), label="ours"),
    ]  # fmt: skip
    page = Page("t")
    verdicts_in_words(page, records)
    reader = Reader(page.html())
    found = "".join(reader.words)
    assert "The 4 claims and readings" in found and "holds: 1, holds in some seeds: 1, does not hold: 2" in found
    assert [a["href"] for a in reader.named("a")] == ["#claim-b", "#claim-c"]
    assert "claim b" in found and "claim c" in found and "claim d" not in found


def test_a_card_of_a_reading_has_its_sentence_and_number():
    doubles = "held-out-pairs-99.4:doubles"
    cards = {card.claim: card for card in findings(asked({"held-out-pairs-99.4": HOLDS, doubles: FAILS}), svg)}
    assert cards[doubles].verdict == FAILS and cards["held-out-pairs-99.4"].verdict == HOLDS
    assert cards[doubles].text.startswith(f"reading {doubles}. Measured: 0.5 (0.4 to 0.6; 100 pairs, 2 networks).")
    assert "The paper says" not in cards[doubles].text  # it does not


@pytest.mark.parametrize(
    ("binds", "said"),
    [((True, True), "2 of them bind variables"), ((True, False), "1 of them binds variables"),
     ((False, False), "0 of them bind variables")],
)  # fmt: skip
def test_networks_that_do_not_bind_are_named_once(binds, said):
    networks = [network(binds=own) for own in binds]
    networks[1].seed = 7
    found = words(networks)
    assert said in found and ("1 of 2 do not bind (seed 7 of r)" in found) == (binds == (True, False))
    assert ("No network binds variables in the end" in found) == (not any(binds))
    assert ("judged on the others" in found) == (binds == (True, False))
