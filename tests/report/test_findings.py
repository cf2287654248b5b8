"""The first screen: five questions with answers and numbers, what it says of the networks, and its banner."""

import re
from dataclasses import replace
from html import unescape
from typing import NamedTuple

import pytest

from assignadd.config import PRESETS, Task
from assignadd.dynamics import trajectory
from assignadd.ledger.claim import ReadingRecord, Record
from assignadd.model.stack import initial_stack
from assignadd.network import Network, store_result
from assignadd.paper.generalisation.figures import ACCURACIES_FIGURE
from assignadd.paper.ledger import CLAIMS
from assignadd.report.claims_table import counted_verdicts
from assignadd.report.first_screen import QUESTIONS, SHOWN, answers, first_screen
from assignadd.report.page import Page
from assignadd.report.reproduction import SECTIONS
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


DRAWN = {label for question in QUESTIONS for label in question.figures}


class Answer(NamedTuple):
    question: str
    tone: str
    verdict: str
    text: str
    figure: str | None
    claim: str


def read(records: list[Record], drawn=DRAWN) -> list[Answer]:
    """The answers as a reader sees them, with ordinary spaces."""
    link = r'<span class="soft">(?:<a href="#(.*)">figure</a>, )?<a href="#claim-(.*)">how it was judged</a></span>'
    item = re.compile(rf'<li><h3>(.*) <span class="verdict ?(.*)">(.*)</span></h3><p>(.*) {link}</p></li>')
    found = [item.fullmatch(unescape(html).replace("\N{NO-BREAK SPACE}", " ")) for html in answers(records, drawn)]
    return [Answer(*match.groups()) for match in found]


def test_every_question_has_a_claim_and_a_figure():
    figures = {ACCURACIES_FIGURE.label, *(figure.label for section in SECTIONS for figure in section.figures)}
    theory = {"theory-memory-dominates"}
    readings = {f"{c.id}:{r.id}" for c in CLAIMS for r in c.readings}
    assert {f.claim for f in QUESTIONS} <= {c.id for c in CLAIMS} | readings | theory
    assert {label for f in QUESTIONS for label in f.figures} <= figures


def test_questions_that_could_not_be_tested_give_way_to_others():
    untested = QUESTIONS[3].claim
    records = asked({f.claim: UNTESTABLE if f.claim == untested else FAILS for f in QUESTIONS})
    found = [answer.question for answer in read(records)]
    assert found == [q.question for q in QUESTIONS if q.claim != untested][:SHOWN] and len(found) == 5
    few = asked({f.claim: UNTESTABLE for f in QUESTIONS[:3]})
    assert [answer.verdict for answer in read(few)] == [UNTESTABLE] * 3
    assert read([]) == []


def test_an_answer_has_words_for_the_verdict_the_number_and_the_first_figure_there_is():
    claim = replace(record(QUESTIONS[0].claim, 0.5, FAILS), paper="99 %", n=20000, unit="sequences")
    (answer,) = read([claim], DRAWN - {QUESTIONS[0].figures[0]})
    assert (answer.verdict, answer.tone, answer.figure) == ("no", "bad", QUESTIONS[0].figures[1])
    assert (
        answer.text
        == "It is right on 50 % (49 to 51 %, median of 2 seeds) of the sums of held-out pairs. The paper says 99 %."
    )
    (answer,) = read([replace(claim, low=None, high=None, seeds=1)], ())
    assert answer.text.startswith("It is right on 50 % of the sums") and answer.figure is None
    steps = replace(
        record("addition-first-train", 9000.0, HOLDS), low=4400.0, high=10000.0, seeds=1, unit="evaluations"
    )
    (answer,) = read([steps])
    assert answer.verdict == "yes" and "learned 9,000 (4,400 to 10,000) steps before" in answer.text
    (answer,) = read([replace(claim, verdict="1 holds, 1 fails")])
    assert (answer.verdict, answer.tone) == ("1 yes, 1 no", "mixed")


def words(networks, explorer=None) -> str:
    page = Page("t")
    first_screen(page, networks, [], DRAWN, explorer=explorer)
    return "".join(Reader(page.html()).words)


@pytest.mark.parametrize("preset", ["paper", "authors"])
def test_the_papers_task_has_no_banner(preset):
    found = words([network(PRESETS[preset])])
    assert "thresholds" not in found and "to add mod 59" in found and "interactive" not in found


def test_another_task_or_network_says_whose_thresholds_they_are():
    found = words([network(PRESETS["tiny"])], "../explorer/index.html")
    assert "The thresholds of the claims are the paper's" in found and "to add mod 23" in found
    assert "the interactive page" in found
    product = replace(PRESETS["paper"], task=replace(Task(), operation="multiply"))
    assert "to multiply mod 59" in words([network(product)]) and "*" in words([network(product)])


def test_verdicts_are_counted():
    verdicts = (HOLDS, FAILS, "1 holds, 2 fail", FAILS, "1 holds, 1 undecided")
    html = counted_verdicts([record(str(i), 0.0, verdict) for i, verdict in enumerate(verdicts)])
    assert "5 claims: holds: 1 differs by seed: 2 does not hold: 2" in "".join(Reader(html).words)


def test_the_answer_of_a_reading_has_its_number_and_leads_to_the_row_of_its_claim():
    doubles = "held-out-pairs-99.4:doubles"
    first, second = read(asked({"held-out-pairs-99.4": HOLDS, doubles: FAILS}))
    assert (first.verdict, second.verdict) == ("yes", "no")
    assert (
        second.text
        == "It is right on 50 % (40 to 60 %, median of 2 seeds, 100 pairs) of them. The paper does not report them."
    )
    assert first.claim == second.claim == "held-out-pairs-99.4"


@pytest.mark.parametrize(
    ("binding", "said"),
    [((True, True), "2 of 2 networks bind variables: seeds 0, 7 of r. Figures"),
     ((True, False), "1 of 2 networks binds variables: seed 0 of r. "
      "Claims about binding cannot be tested on the others: seed 7 of r. Figures"),
     ((False, False), "0 of 2 networks bind variables. That is a result, not an error")],
)  # fmt: skip
def test_which_networks_bind_is_said_by_seed(binding, said):
    networks = [network(binds=own) for own in binding]
    networks[1].seed = 7
    assert said in words(networks)


@pytest.mark.parametrize(("binds", "said"), [(True, "binds"), (False, "does not bind")])
def test_a_single_network_is_not_counted(binds, said):
    assert f"The network of this page, seed 0 of r, {said} variables." in words([network(binds=binds)])
