"""Commands without a run: the newest under runs/, or networks that come with the package, and a note that says so."""

import json
import shutil

import pytest

from assignadd.cli import main
from assignadd.runs.folder import shipped

NOTE = "note: no run given: this is census-six, which comes with the package; `assignadd train` makes your own\n"
PROMPT = "c=1, b=17, a=42, b+19=?"


@pytest.fixture(autouse=True)
def empty(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def reply(capsys, *arguments: str, notes: str = NOTE):
    assert main([*arguments, "--json"]) == 0
    captured = capsys.readouterr()
    assert captured.err == notes
    return json.loads(captured.out)


def test_ask_and_intervene(capsys, empty):
    asked = reply(capsys, "ask", PROMPT)
    assert (asked["answer"], asked["run"], asked["seed"]) == (17 + 19, "census-six", 0)
    cut = '[{"action": "cut", "layer": 2, "query": "equals", "key": "first_value"}]'
    changed = reply(capsys, "intervene", cut, PROMPT)
    assert changed["run"] == "census-six" and changed["before"]["answer"] == 36 and changed["after"]["answer"] != 36
    assert list(empty.iterdir()) == []


def test_two_numbers_alone_mean_what_they_mean_on_the_page(capsys):
    read = NOTE + "note: read as a=0, 17+19=?: every sequence has an assignment\n"
    asked = reply(capsys, "ask", "17+19=?", notes=read)
    assert (asked["text"], asked["answer"]) == ("a=0, 17+19=?", 36)
    cut = '[{"action": "cut", "layer": 2, "query": "equals", "key": "first_value"}]'
    assert reply(capsys, "intervene", cut, "17+19=?", notes=read)["before"]["answer"] == 36


def test_interchange_and_one_claim(capsys):
    found = reply(capsys, "intervene", "interchange", "--pairs", "9")
    assert (found["run"], found["seed"]) == ("census-six", 0)
    (record,) = reply(capsys, "claims", "--only", "qk2-identity", "--n", "200")
    assert [s["seed"] for s in record["by_seed"]] == [0]
    assert record["command"] == "assignadd claims census-six --n 200 --seeds 0 --only qk2-identity"
    assert reply(capsys, *record["command"].split()[1:], notes="") == [record]


def test_a_claim_about_populations_needs_no_network(capsys):
    (record,) = reply(capsys, "claims", "--only", "every-seed-binds", notes="")
    assert record["n"] == 160


def test_explore_has_its_page_ready_made(capsys, empty):
    assert main(["explore"]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("explorer/index.html: ") and captured.err == NOTE
    assert (empty / "explorer" / "data" / "m0" / "00050000.js").is_file()


def test_explore_with_other_settings(capsys, monkeypatch):
    made = []

    def export(networks, out, command, *settings):
        made.append(([network.run.path for network in networks], command))
        return out

    monkeypatch.setattr("assignadd.page.export.export", export)
    assert main(["explore", "--no-ledger"]) == 0
    ((paths, command),) = made
    assert paths == [shipped("census-six")] * 6 + [shipped("small-trajectory")]
    assert command == "assignadd claims census-six"
    assert capsys.readouterr().err == NOTE


def test_the_newest_run_comes_first(capsys, empty):
    shutil.copytree(shipped("census-two"), empty / "runs" / "mine")
    asked = reply(capsys, "ask", PROMPT, notes="")
    assert asked["run"] == "mine" and asked["seed"] == 39
