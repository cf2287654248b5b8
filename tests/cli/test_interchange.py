"""assignadd interchange, as a user types it."""

import json

import pytest

from assignadd.cli import main
from assignadd.paper.causes.interchange import ALIGNMENTS, Interchange
from assignadd.runs.folder import open_run, shipped

# Six seeds of the census at their last checkpoint: 0, 3 and 4 bind, 1, 2 and 15 do not.
RUN = shipped("census-six")


def reply(capsys, *arguments: str):
    assert main(["intervene", "interchange", str(RUN), *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_network_that_binds_and_one_that_does_not(capsys):
    binds, adds = (reply(capsys, "--seed", seed, "--pairs", "270") for seed in ("3", "1"))
    assert list(binds["alignments"]) == list(ALIGNMENTS) and (binds["seed"], binds["step"]) == (3, 50_000)
    assert binds["alignments"]["binding tag"]["whole"] > 0.9 > 0.5 > adds["alignments"]["binding tag"]["whole"]
    assert all(max(row[c] for c in ("random", "elsewhere", "untrained")) < 0.2 for row in binds["alignments"].values())
    query = binds["alignments"]["operand query"]
    parts = query["by_variables"]
    assert set(parts) == {"1", "2"} and sum(part["n"] for part in parts.values()) == query["n"]
    assert sum(part["n"] * part["whole"] for part in parts.values()) == pytest.approx(query["n"] * query["whole"])
    run = open_run(RUN)
    index = run.index_of(3)
    direct = Interchange(run.configs[index], run.seen[index], 270)(run.trajectory([50_000], index))["values"]
    assert (
        binds["alignments"]["values"]["whole"] == direct.accuracy() and binds["alignments"]["values"]["n"] == direct.n
    )


def test_over_time(here, capsys):
    """Of the smoke run's checkpoints the first and the last; nothing is learned in so few steps."""
    arguments = ["intervene", "interchange", "smoke-seeds-0-1", "--checkpoints", "2", "--pairs", "90"]
    assert main([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["steps"] == [0, 60] and set(found["onsets"].values()) == {None}
    assert all(len(values) == 2 for values in found["accuracy"].values())
    assert main(arguments) == 0
    assert "never" in capsys.readouterr().out


def test_one_checkpoint_shows_nothing_along_training(capsys):
    assert main(["intervene", "interchange", str(RUN), "--checkpoints", "5"]) == 1
    assert "fewer than two checkpoints" in capsys.readouterr().err


def test_table(capsys):
    assert main(["intervene", "interchange", str(RUN), "--pairs", "90"]) == 0
    out = capsys.readouterr().out
    assert "elsewhere" in out and "binding tag" in out
    assert "operand query 1-var" in out and "query in QK2 2-var" in out


def test_one_line_says_what_is_accepted(capsys):
    for arguments, line in (
        (["--pairs", "3"], "pairs = 3: expected a whole number from 9"),
        (["--checkpoints", "1"], "checkpoints = 1: expected a whole number from 2"),
        (["--checkpoints", "0"], "checkpoints = 0: expected a whole number from 2"),
        (["--checkpoints", "5", "--step", "7"], "--checkpoints goes along training: it does not take --step"),
    ):
        assert main(["intervene", "interchange", str(RUN), *arguments]) == 2
        assert line in capsys.readouterr().err
