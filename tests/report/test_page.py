"""The page is one file without outside requests, and nothing that is put into it becomes markup."""

from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from assignadd.report import first_screen
from assignadd.report.claims_table import claims_table
from assignadd.report.first_screen import QUESTIONS
from assignadd.report.page import SCRIPT, Cell, Page, Picture, marked, tag, verdict_label
from tests.report.reader import Reader
from tests.report.records import HOSTILE, RECORDS


def page(tmp_path: Path, claims: bool = False) -> str:
    svg = tmp_path / "x.svg"
    svg.write_text('<svg xmlns="http://www.w3.org/2000/svg"><script>alert(3)</script></svg>')
    made = Page(HOSTILE)
    made.heading(HOSTILE)
    made.text(HOSTILE)
    made.table((HOSTILE,), [[HOSTILE], [Cell(HOSTILE, "good")]])
    with made.folded(HOSTILE):
        made.add(verdict_label(HOSTILE, "good"))
    made.add(tag("a", marked(HOSTILE), href=f"#{HOSTILE}"))
    question = replace(QUESTIONS[0], claim="none")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(first_screen, "QUESTIONS", (question,))
        made.add("".join(first_screen.answers(RECORDS, question.figures)))
    made.add(Picture(HOSTILE, HOSTILE, HOSTILE, svg, [f"figures/{HOSTILE}.npz"]).html())
    if claims:
        claims_table(made, RECORDS, ["attention"])
    return made.html()


def test_hostile_text_stays_text(tmp_path):
    reader = Reader(page(tmp_path))
    assert not reader.named("script") and len(reader.named("img")) == 1
    assert not any(name.startswith("on") for _, attributes in reader.tags for name in attributes)
    # title, entry of the contents, h1, h2, p; th and two cells; summary; label; a link; the claim and the paper's words
    # of an answer; h3 and p of the picture. A link to a file shows the part after the slash.
    assert "".join(reader.words).count("alert(1)") == 15


def test_hostile_claims_stay_text(tmp_path):
    html = page(tmp_path, claims=True)
    reader = Reader(html)
    assert len(reader.named("script")) == 1 and html.count("<script>" + SCRIPT) == 1 and len(reader.named("img")) == 1
    assert not any(name.startswith("on") for _, attributes in reader.tags for name in attributes)


def test_nothing_is_fetched(tmp_path):
    for name_of_tag, attributes in Reader(page(tmp_path, claims=True)).tags:
        for name in ("src", "action", "srcset", "data"):
            assert (attributes.get(name) or "data:").startswith("data:"), (name_of_tag, attributes)
        assert (attributes.get("href") or "#").startswith(("#", "figures/")), attributes


def test_the_policy_allows_this_style_and_this_script_alone(tmp_path):
    html = page(tmp_path, claims=True)
    policy = next(a["content"] for a in Reader(html).named("meta") if a.get("http-equiv") == "Content-Security-Policy")
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    style = html.split("<style>")[1].split("</style>")[0]
    assert rules["default-src"] == "'none'" and rules["img-src"] == "data:"
    for kind, text in (("script-src", SCRIPT), ("style-src", style)):
        assert rules[kind] == f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def test_a_page_without_claims_has_no_script(tmp_path):
    assert "script-src" not in page(tmp_path)
