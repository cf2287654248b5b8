"""Runs that a stranger forged: one line and no traceback, and the good runs beside them. Limits: chaos/forged.py."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from assignadd import api
from assignadd.cli import main
from assignadd.config import PRESETS, Member, Numerics
from assignadd.config.errors import RunError
from assignadd.model.stack import initial_stack
from assignadd.runs.folder import Run
from assignadd.runs.writer import Writer
from tests.runs.forged import CHECKPOINT, FORGERIES, STATE, hollow, rows
from tests.runs.small import HERE

SMOKE = PRESETS["smoke"]
# Files of many megabytes, which are left to `make chaos`.
LARGE = (
    "many rows", "small lists", "hollow metrics", "measures: rows", "measures: lists", "measures: text", "sources",
    "fewer sources", "seeds", "200,000 models",
)  # fmt: skip


@pytest.fixture(scope="module")
def good(tmp_path_factory) -> Path:
    return api.train(SMOKE, [0], tmp_path_factory.mktemp("forged") / "good").path


@pytest.mark.parametrize("name", [name for name in FORGERIES if name not in LARGE])
def test_a_forged_run_is_one_line_and_hides_no_other(name, good, tmp_path, monkeypatch, capsys):
    for run in ("good", "bad"):
        shutil.copytree(good, tmp_path / "runs" / run)
    FORGERIES[name](tmp_path / "runs" / "bad")
    monkeypatch.chdir(tmp_path)
    assert main(["runs", "list"]) == 0
    assert "good" in capsys.readouterr().out
    for command in (["runs", "show", "bad"], ["runs", "verify", "bad"], ["ask", "b=1, b+1=?", "bad", "--json"]):
        code, said = main(command), capsys.readouterr()
        assert code == 0 or command[1] == "verify" or (code in (1, 2) and said.err.count("\n") == 1), (command, said)
        assert (said.out + said.err).replace("\n", "").isprintable()


@pytest.mark.parametrize(
    "forge",
    [FORGERIES["rows twice"], rows(lambda row: row.update(model=1)), FORGERIES["fewer accuracies"]],
    ids=["rows twice", "another model", "fewer accuracies"],
)
def test_metrics_that_are_not_whole_are_refused(forge, good, tmp_path):
    """Each breaks one thing alone: the order of the steps, the models, the sets of every evaluation."""
    shutil.copytree(good, tmp_path / "bad")
    forge(tmp_path / "bad")
    with pytest.raises(RunError, match="does not have a row for each model at each evaluation of the run"):
        Run.open(tmp_path / "bad").metrics()


@pytest.mark.parametrize(
    ("name", "megabytes"),
    [("config.json", 17), ("splits.safetensors", 2), (CHECKPOINT, 2), (STATE, 2), ("metrics.jsonl", 3)],
)
def test_a_file_that_no_such_run_can_have_is_not_read(name, megabytes, good, tmp_path):
    """The model has 3,536 weights and 49 pairs, and was evaluated at four steps."""
    shutil.copytree(good, tmp_path / "bad")
    hollow(name, megabytes << 20)(tmp_path / "bad")
    with pytest.raises(RunError, match=rf"{name} could not be read: {megabytes << 20:,} bytes, of which at most "):
        Run.open(tmp_path / "bad").committed(name)


def test_a_large_run_is_read(tmp_path):
    """Three models whose states in double precision and splits have megabytes."""
    task = replace(SMOKE.task, modulus=997)
    config = replace(SMOKE, task=task, numerics=Numerics(dtype="float64"))
    members = [Member(seed) for seed in range(3)]
    stack = initial_stack(config, range(3))
    state = dict.fromkeys(("weights", "mean", "square"), stack.flat) | {"step": torch.tensor(0)}
    with Writer.hold(tmp_path, config, members, torch.ones(3, 997, 997, dtype=torch.bool), HERE) as writer:
        writer.commit(0, state=state, checkpoint=stack)
    run = Run.open(tmp_path)
    assert run.verify() == [] and run.seen.all()
    assert torch.equal(run.latest_state()["square"], stack.flat) and torch.equal(run.checkpoint(0).flat, stack.flat)


def test_many_rows_are_read(tmp_path):
    """They have more bytes than the weights: a megabyte and a half."""
    config = replace(SMOKE, optim=replace(SMOKE.optim, steps=400), record=replace(SMOKE.record, eval_every=1))
    measures = {f"measure {i}": 1 / 3 for i in range(100)}
    rows = [{"step": step, "model": 0, "accuracy": {}, "measures": measures} for step in range(401)]
    with Writer.hold(tmp_path, config, [Member(0)], torch.ones(1, 7, 7, dtype=torch.bool), HERE) as writer:
        writer.commit(400, rows=rows)
    assert Run.open(tmp_path).metrics() == rows
