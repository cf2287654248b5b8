"""claims, report, measure and zoom end to end on a run of the smoke preset."""

import dataclasses
import json

import polars
import pytest

from assignadd.claims.ledger import CLAIMS
from assignadd.figures.sections import SECTIONS
from assignadd.report import reproduction
from tests.cli.asking import complaint, said

RUN = "smoke-seeds-0-1"


def test_claims_as_json(here, capsys):
    records = json.loads(said(capsys, "claims", RUN, "--n", "40", "--json"))
    ids = [r["id"] for r in records]
    assert ids[: len(CLAIMS)] == [c.id for c in CLAIMS] and all(id.startswith("theory-") for id in ids[len(CLAIMS) :])
    keys = {"id", "label", "claim", "paper", "value", "low", "high", "n", "seeds", "verdict", "command"}
    for r in records:
        assert keys <= r.keys() and r["command"].startswith("assignadd ") and (r["verdict"] != "cannot be tested" or r["comment"])
        assert r["value"] is None or r["low"] <= r["value"] <= r["high"]
        assert r["verdict"].startswith(("holds", "does not hold", "cannot be tested", "not measured yet"))
    asked = next(r for r in records if r["id"] == "qk2-identity")
    assert asked["command"] == f"assignadd claims {RUN} --n 40 --only qk2-identity"
    # Sixty steps teach nothing.
    assert next(r for r in records if r["id"] == "over-98-1-var-var-restricted")["verdict"] == "does not hold"


def test_claims_without_a_run_are_those_about_populations_and_theory(capsys):
    records = json.loads(said(capsys, "claims", "--json"))
    assert {"every-seed-binds", "pair-threshold", "theory-remainder"} <= {r["id"] for r in records}
    assert "qk2-identity" not in {r["id"] for r in records}


def test_claims_for_people(here, capsys):
    out = said(capsys, "claims", RUN, "--only", "qk2-identity", "--n", "40")
    assert "qk2-identity: does not hold" in out and "every variable" in out and "0 of which learned" in out
    late = json.loads(said(capsys, "claims", RUN, "--only", "late", "--n", "40", "--json"))
    assert {r["label"] for r in late} == {"late"} and late[0]["id"] == "second-spike"


def test_report(here, capsys, tmp_path, monkeypatch):
    few = [dataclasses.replace(SECTIONS[0], kinds=SECTIONS[0].kinds[:2])]
    monkeypatch.setattr(reproduction, "SECTIONS", few)
    said(capsys, "report", RUN, "-o", str(tmp_path / "page"), "--n", "40")
    page = (tmp_path / "page" / "index.html").read_text()
    assert all(f'id="claim-{c.id}"' in page for c in CLAIMS) and "theory-remainder" in page
    figures = {p.stem for p in (tmp_path / "page" / "figures").glob("*.svg")}
    assert figures == {"accuracies", "accuracies2", *(kind.label for kind in few[0].kinds)}


def test_measure_writes_a_row_per_model_and_checkpoint(here, capsys, tmp_path):
    said(capsys, "measure", RUN, "-o", str(tmp_path / "m.parquet"))
    table = polars.read_parquet(tmp_path / "m.parquet")
    assert table.equals(polars.read_parquet(f"runs/{RUN}/measures.parquet"))
    assert table.group_by("seed").len().sort("seed")["len"].to_list() == [table["step"].n_unique()] * 2
    assert {"ov2_mlp2_accuracy", "attn_l2_equal_to_values (2-var)", "accuracy a first", "norm embed.W_E"} <= set(table.columns)


def test_zoom(here, capsys):
    assert "checkpoints from step 20 to 36" in said(capsys, "zoom", RUN, "--around", "28", "--every", "4", "--within", "8")


@pytest.mark.parametrize(
    ("arguments", "words", "code"),
    [
        (("claims", "--only", "qk2-identity"), "assignadd claims RUN --only qk2-identity", 2),
        (("report",), "no run given", 2),
        (("claims", "none"), "no run at none", 1),
        (("claims", RUN, "--only", "nothing"), "only = 'nothing'", 2),
        (("claims", RUN, "--step", "7"), "nearest are", 1),
        (("report", RUN, "--n", "0"), "n = 0", 2),
        (("zoom", RUN, "--around", "9999"), "from 0 to 60", 2),
        (("measure", "none"), "no run at none", 1),
    ],
)
def test_bad_input_is_one_line(here, capsys, arguments, words, code):
    assert words in complaint(capsys, *arguments, code=code)


def test_another_architecture_has_no_such_mechanism(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said(capsys, "train", "--preset", "smoke", "--model.n-heads", "2", "--optim.steps", "2", "--out", "two-heads")
    assert "two layers, one head" in complaint(capsys, "claims", "two-heads")
    assert "two layers, one head" in complaint(capsys, "measure", "two-heads")
