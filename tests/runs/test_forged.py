"""Runs that a stranger forged: one line and no traceback, and the good runs beside them. Limits: chaos/forged.py."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from assignadd import api
from assignadd.cli import main
from assignadd.config import PRESETS
from assignadd.config.errors import RunError
from assignadd.runs.folder import Run
from tests.runs.forged import FORGERIES, rows

SMOKE = PRESETS["smoke"]
# Files of many megabytes, which are left to `make chaos`.
LARGE = (
    "measures: rows", "measures: lists", "measures: text", "sources", "fewer sources", "seeds", "200,000 models",
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
