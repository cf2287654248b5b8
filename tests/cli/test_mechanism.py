"""claims, report, measure and phases end to end on a run of the smoke preset."""

import json
import re
import shutil

import msgspec
import polars
import pytest
from rich.console import Console

from assignadd.cli import main, screen
from assignadd.dynamics.trajectory import write_measures
from assignadd.paper.ledger import CLAIMS, Ledger
from assignadd.runs.folder import open_run
from tests.cli.asking import complaint, said

RUN = "smoke-seeds-0-1"


def test_claims_as_json(here, capsys):
    records = json.loads(said(capsys, "claims", RUN, "--n", "40", "--json"))
    ids = [r["id"] for r in records]
    assert ids[: len(CLAIMS)] == [c.id for c in CLAIMS] and all(
        id.startswith("theory-") for id in ids[len(CLAIMS) :]
    )  # the paper's; our studies and findings are elsewhere
    keys = {"id", "label", "claim", "paper", "value", "low", "high", "n", "seeds", "verdict", "command"}
    for r in records:
        assert (
            keys <= r.keys()
            and r["command"].startswith("assignadd ")
            and (r["verdict"] != "cannot be tested" or r["comment"])
        )
        assert r["value"] is None or r["low"] is None or r["low"] <= r["value"] <= r["high"]
        assert r["verdict"].startswith(("holds", "does not hold", "undecided", "cannot be tested", "not measured yet"))
    asked = next(r for r in records if r["id"] == "qk2-identity")
    assert asked["command"] == f"assignadd claims {RUN} --n 40 --only qk2-identity"
    # Sixty steps teach nothing: the networks do not bind, and cannot add either.
    by_id = {r["id"]: r for r in records}
    assert by_id["over-98-1-var-var-restricted"]["verdict"] == "cannot be tested"
    assert "No network given here binds" in by_id["over-98-1-var-var-restricted"]["comment"]
    assert by_id["over-98-0-var-add-restricted"]["verdict"] == "does not hold"
    assert {r["id"] for r in by_id["qk1-previous"]["readings"]} == {"rows-3", "self", "none"}


def test_claims_about_populations_need_no_run_and_those_about_networks_take_a_shipped_one(capsys):
    (record,) = json.loads(said(capsys, "claims", "--only", "every-seed-binds", "--json"))
    assert record["id"] == "every-seed-binds" and record["seeds"] > 100
    (record,) = json.loads(said(capsys, "claims", "--only", "qk2-identity", "--n", "40", "--json"))
    assert record["id"] == "qk2-identity" and record["seeds"] == 1


def test_claims_for_people(here, capsys):
    out = said(capsys, "claims", RUN, "--only", "probes", "--n", "40")
    words = " ".join(out.split())
    assert "probe-after-mlp: does not hold" in out and "paper: succeeds" in words
    # A reading is a second line of its claim.
    second = words.split("probe-after-mlp", 1)[1]
    assert "does not hold value: 0." in second and "It can from MLP2's neurons after their ReLU." in second
    assert "probe-before-mlp: cannot be tested" in out and "2 claims: 1 cannot be tested, 1 does not hold" in words
    assert f"2 of 2 networks do not bind (seed 0 of {RUN}, seed 1 of {RUN})" in words
    late = json.loads(said(capsys, "claims", RUN, "--only", "late", "--n", "40", "--json"))
    assert {r["label"] for r in late} == {"late"}
    assert next(r["id"] for r in late if not r["id"].startswith("every-seed")) == "second-spike"


def test_claims_write_a_ledger(here, capsys, tmp_path):
    """It is read again as that of the paper's network is, and written again over what it wrote itself."""
    file, command = tmp_path / "ledger.json", ("claims", RUN, "--only", "probes", "--n", "40")
    for _ in range(2):
        printed = json.loads(said(capsys, *command, "-o", str(file), "--json"))
        stored = msgspec.json.decode(file.read_bytes(), type=Ledger)
        assert [r.id for r in stored.records] == [r["id"] for r in printed] == ["probe-before-mlp", "probe-after-mlp"]
        assert stored.records[1].value == printed[1]["value"] and stored.command == f"assignadd claims {RUN} --n 40"
    said(capsys, "claims", "--only", "every-seed-binds", "-o", str(file))
    assert msgspec.json.decode(file.read_bytes(), type=Ledger).records == ()  # that is about many seeds


def test_report(here, capsys, tmp_path, few_figures):
    out = said(capsys, "report", RUN, "-o", str(tmp_path / "page"), "--n", "40")
    assert re.search(r"claims, 4 figures, 0 of 2 seeds bind", " ".join(out.split()))
    page = (tmp_path / "page" / "index.html").read_text()
    assert all(f'id="claim-{c.id}"' in page for c in CLAIMS) and "theory-remainder" in page
    figures = {p.stem for p in (tmp_path / "page" / "figures").glob("*.svg")}
    assert figures == {"accuracies", "accuracies2", *few_figures}


def test_measure_writes_a_row_per_model_and_checkpoint(here, capsys, tmp_path):
    shutil.copytree(f"runs/{RUN}", tmp_path / "new", ignore=shutil.ignore_patterns("measures.parquet"))
    said(capsys, "measure", "curves", str(tmp_path / "new"))
    table = polars.read_parquet(tmp_path / "new" / "measures.parquet")
    assert table.group_by("seed").len().sort("seed")["len"].to_list() == [table["step"].n_unique()] * 2
    assert {"ov2_mlp2_accuracy", "attn_l2_equal_to_values (2-var)", "accuracy a first", "norm embed.W_E"} <= set(
        table.columns
    )


@pytest.fixture
def drawn_by_hand(here, capsys, tmp_path) -> str:
    """The run with measures as if variables had come: seed 0 gets b in the second slot at step 40, seed 1 never."""
    shutil.copytree(f"runs/{RUN}", tmp_path / "by-hand")
    said(capsys, "measure", "curves", str(tmp_path / "by-hand"))
    run, step, is_0 = open_run(tmp_path / "by-hand"), polars.col("step"), polars.col("seed") == 0
    came = {"accuracy b second": (step >= 40) & is_0, "qk2_ov1_var_identity": (step >= 20) & is_0}
    table = polars.read_parquet(run.path / "measures.parquet").with_columns(
        **{name: when.cast(float) for name, when in came.items()}
    )
    write_measures(
        run,
        table.with_columns(
            polars.when(step == 20).then(0.45).otherwise("accuracy b second").alias("accuracy b second")
        ),
    )
    return str(run.path)


def test_phases_as_json(drawn_by_hand, capsys):
    models = json.loads(said(capsys, "measure", "phases", drawn_by_hand, "--json"))["models"]
    assert [(m["run"], m["seed"]) for m in models] == [("by-hand", 0), ("by-hand", 1)]
    for m in models:
        assert m["addition"] is m["binding"] is m["first_spike"] is m["second_spike"] is m["late_variable"] is None
        assert m["summary"] == "no first phase: addition was not learned"
        assert {len(o) for o in m["onsets"]} == {7} and all(o["lasting"] == 1000 for o in m["onsets"])
    first, second = ({o.pop("curve"): list(o.values()) for o in m["onsets"]} for m in models)
    assert first["accuracy b second"] == [0.5, 1000, 40, 10, 40, 64]  # .45 of 64 at step 20 may be one half
    assert first["qk2_ov1_var_identity"] == [0.9, 1000, 20, 10, 20, None]
    assert second["accuracy b second"] == [0.5, 1000, None, None, None, 64]
    assert set(first) == set(second) and "2-var doubly held out (2)" in first
    only = json.loads(said(capsys, "measure", "phases", drawn_by_hand, "--seeds", "1", "--json"))["models"]
    assert [m["seed"] for m in only] == [1]


def test_phases_for_people(drawn_by_hand, capsys, monkeypatch):
    monkeypatch.setattr(screen, "console", Console(width=80))
    out = said(capsys, "measure", "phases", drawn_by_hand, "--seeds", "0", "--all")
    words = " ".join(out.split())
    assert "by-hand 0 - - - - - -" in words and "no first phase: addition was not learned" in words
    rows = {line.rsplit(maxsplit=5)[0].strip(): line.split()[-5:] for line in out.splitlines() if len(line.split()) > 5}
    assert rows["sums with b in the second slot"] == ["0.5", "40", "10", "40", "64"]
    assert rows["QK2: variable finds itself"] == ["0.9", "20", "10", "20", "all"]
    assert any(
        line.split() == ["two", "variables,", "as", "trained", "0.95", "never", "-", "-", "64"]
        for line in out.splitlines()
    )
    assert max(map(len, out.splitlines())) <= 80


def test_phases_measures_what_is_missing(here, capsys, tmp_path):
    shutil.copytree(f"runs/{RUN}", tmp_path / "bare", ignore=shutil.ignore_patterns("measures.parquet"))
    models = json.loads(said(capsys, "measure", "phases", str(tmp_path / "bare"), "--json"))["models"]
    assert len(models) == 2 and (tmp_path / "bare" / "measures.parquet").exists()


@pytest.mark.parametrize(
    ("arguments", "words", "code"),
    [
        (("claims", "--census", ".", "--only", "qk2-identity"), "assignadd claims RUN --only qk2-identity", 2),
        (("report",), "the following arguments are required: RUN; usage: assignadd report RUN...", 2),
        (("claims", "none"), "no run at none", 1),
        (("claims", RUN, "--only", "nothing"), "only = 'nothing'", 2),
        (("claims", RUN, "--step", "7"), "the nearest is at", 1),
        (("report", RUN, "--n", "0"), "n = 0", 2),
        (("measure", "none"), "no run at none", 1),
        (("measure", "phases"), "the following arguments are required: RUN", 2),
        (("measure", "phases", RUN, "--seeds", "7"), "no seed 7 there; there are 0, 1", 2),
        (("measure", "phases", "census-six"), "evaluated once, at step 50,000", 1),
    ],
)
def test_bad_input_is_one_line(here, capsys, arguments, words, code):
    assert words in complaint(capsys, *arguments, code=code)


def test_training_says_which_measures_an_architecture_does_not_have(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    train = ["train", "--preset", "smoke", "--model.n-heads", "2", "--optim.steps", "2", "--out"]
    assert main([*train, "quiet"]) == 0
    assert "not defined" not in capsys.readouterr().err  # nothing is measured
    assert main([*train, "two-heads", "--record.measure-every", "2"]) == 0
    notes = capsys.readouterr().err
    assert "not defined for this network, and left out: ov2_mlp2_accuracy" in notes and "one head per layer" in notes
    assert "the explorer page is not defined for this network: it needs one head per layer" in complaint(
        capsys, "explore", "two-heads", "-o", "page"
    )
