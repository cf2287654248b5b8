"""A seed that diverged is named by every command, and the healthy one beside it is measured as if it were alone."""

import json
import math

import pytest
import torch

from assignadd import api
from assignadd.cli import main
from assignadd.config import PRESETS, Member
from assignadd.report.reproduction import _facts

PROMPT = "b=1, b+1=?"
BAD = Member(1, lr=10.0, weight_decay=1.0)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A healthy seed beside one that diverges after a few steps, and the healthy one alone."""
    folder = tmp_path_factory.mktemp("diverged")
    pair = api.train(PRESETS["smoke"], [Member(0), BAD], folder / "pair")
    alone = api.train(PRESETS["smoke"], [Member(0)], folder / "alone")
    assert pair.diverged_at[0] is None and pair.diverged_at[1] is not None
    return pair, alone


@pytest.mark.parametrize("step", [0, 5, 60])
def test_the_healthy_seed_is_bitwise_the_same(runs, step):
    assert torch.equal(runs[0].checkpoint(step).models(0).flat, runs[1].checkpoint(step).models(0).flat)


@pytest.mark.parametrize(
    "command",
    [
        ["ask", PROMPT, "--seed", "1"],
        ["intervene", "[]", PROMPT, "--seed", "1", "--json"],
        ["intervene", '[{"action": "swap", "component": "mlp2", "seed": 1}]', PROMPT, "--json"],
        ["intervene", "interchange", "--seed", "1"],
        ["theory", "--seed", "1"],
        ["measure", "--seeds", "1"],
    ],
    ids=lambda c: c[0],
)
def test_commands_about_one_model_say_so_in_a_line(runs, command, capsys):
    assert main([*command, str(runs[0].path)]) == 1
    said = capsys.readouterr().err
    assert f"seed 1 of pair diverged at step {runs[0].diverged_at[1]}" in said and "Traceback" not in said


@pytest.mark.parametrize(
    "command",
    [
        ["measure", "--n", "64", "--json"],
        ["claims", "--n=64", "--only", "qk2-identity", "--json"],
        ["measure", "phases", "--json"],
    ],
    ids=lambda c: c[0],
)
def test_commands_about_all_models_leave_it_out_and_name_it(runs, command, capsys):
    found = []
    for run in runs:
        assert main([*command, str(run.path), "--threads", "1"]) == 0
        printed = capsys.readouterr()
        text = printed.out[printed.out.index("{" if command[0] != "claims" else "[") :]
        found.append(json.loads(text.replace("pair", "alone")))
    assert found[0] == found[1] or (command[0] == "claims" and found[0][0]["value"] == found[1][0]["value"])


def test_measures_end_where_it_diverged(runs, capsys):
    (runs[0].path / "measures.parquet").unlink(missing_ok=True)
    assert main(["measure", "curves", str(runs[0].path), "--threads", "1"]) == 0
    assert "diverged at step" in capsys.readouterr().err
    table, end = api.measure(runs[0]), runs[0].diverged_at[1]
    for model, seed, step, value in table.select("model", "seed", "step", "qk2_ov1_var_margin").iter_rows():
        assert math.isnan(value) == (model == 1 and step >= end), (seed, step)
    assert api.evaluate(runs[0], n=64)[1] == {} and len(api.evaluate(runs[0], n=64)[0]) > 5


def test_publish_names_it(runs, capsys, tmp_path):
    pair, end = runs[0], runs[0].diverged_at[1]
    command = [
        "runs",
        "publish",
        str(pair.path),
        "--repo=a/b",
        "--dry-run",
        "--no-claims",
        "--out",
        str(tmp_path / "hub"),
    ]
    assert main(command) == 0 and f"seed 1 of pair diverged at step {end}" in capsys.readouterr().err
    card = (tmp_path / "hub/README.md").read_text()
    assert f'"accuracy, seed 1, step 60, diverged at step {end}"' in card and '"accuracy, seed 0, step 60"' in card
    assert not pair.checkpoint(60).flat.isfinite().all()


def test_the_report_names_it(runs):
    facts = [_facts(run).get("diverged", "") for run in runs]
    assert facts == [f"seed 1 at step {runs[0].diverged_at[1]}", ""]


def test_where_all_diverged_there_is_nothing_to_judge(tmp_path, capsys):
    run = api.train(PRESETS["smoke"], [BAD], tmp_path / "bad")
    assert main(["claims", str(run.path), "--only", "qk2-identity"]) == 1
    assert "diverged at step" in capsys.readouterr().err
