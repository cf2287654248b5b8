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


def test_the_search_says_what_it_found(capsys, monkeypatch):
    """With a search that keeps the random directions it begins with."""
    monkeypatch.setattr("assignadd.paper.causes.subspaces.searched", lambda *given: given[4])
    assert len(found := reply(capsys, "--search", "32", "--pairs", "90")["search"]) == 6
    assert {(row["variable"], row["place"], row["rank"]) for row in found} >= {("sum", "after MLP2", 32)}
    assert all(row["searched"] == row["random"] and row["n"] <= 45 for row in found)
    assert main(["intervene", "interchange", str(RUN), "--search", "32", "--pairs", "90"]) == 0
    assert "complement" in capsys.readouterr().out
    assert main(["intervene", "interchange", str(RUN), "--search", "129"]) == 2
    assert "ranks from 1 to 128" in capsys.readouterr().err


@pytest.mark.slow
def test_the_sum_is_in_a_subspace_and_an_operand_is_not(capsys):
    rows = {
        (row["variable"], row["place"]): row for row in reply(capsys, "--search", "32", "--pairs", "4500")["search"]
    }
    total, operand = rows["sum", "before MLP2"], rows["first operand", "before MLP2"]
    assert total["searched"] > 0.97 and max(total[c] for c in ("random", "complement", "untrained")) < 0.05
    # Of two prompts' four operands any two: 1/6 each, and no more for those that were asked for.
    assert operand["searched"] < 0.2 and abs(operand["searched"] - operand["complement"]) < 0.04


def test_one_line_says_what_is_accepted(capsys):
    for arguments, line in (
        (["--pairs", "3"], "pairs = 3: expected a whole number from 9"),
        (["--checkpoints", "1"], "checkpoints = 1: expected a whole number from 2"),
        (["--checkpoints", "0"], "checkpoints = 0: expected a whole number from 2"),
        (["--checkpoints", "5", "--step", "7"], "neither --step nor --search"),
    ):
        assert main(["intervene", "interchange", str(RUN), *arguments]) == 2
        assert line in capsys.readouterr().err
