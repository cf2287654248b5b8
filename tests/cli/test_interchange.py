"""assignadd interchange, as a user types it."""

import json

from assignadd.cli import main
from assignadd.paper.causes.interchange import EXCHANGES, Interchange
from assignadd.runs.folder import open_run, shipped

# Six seeds of the census at their last checkpoint: 0, 3 and 4 bind, 1, 2 and 15 do not.
RUN = shipped("census-six")


def reply(capsys, *arguments: str):
    assert main(["intervene", "interchange", str(RUN), *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_network_that_binds_and_one_that_does_not(capsys):
    binds, adds = (reply(capsys, "--seed", seed, "--pairs", "270") for seed in ("3", "1"))
    assert list(binds["alignments"]) == list(EXCHANGES) and (binds["seed"], binds["step"]) == (3, 50_000)
    assert binds["alignments"]["binding tag"]["whole"] > 0.9 > 0.5 > adds["alignments"]["binding tag"]["whole"]
    assert all(max(row[c] for c in ("elsewhere", "untrained")) < 0.2 for row in binds["alignments"].values())
    run = open_run(RUN)
    index = run.index_of(3)
    direct = Interchange(run.configs[index], run.seen[index], 270)(run.trajectory([50_000], index))["values"]
    values = binds["alignments"]["values"]
    assert (values["whole"], values["n"]) == (direct.accuracy, direct.n)


def test_table(capsys):
    assert main(["intervene", "interchange", str(RUN), "--pairs", "90"]) == 0
    out = capsys.readouterr().out
    assert "elsewhere" in out and "binding tag" in out


def test_too_few_pairs_are_refused_in_a_line(capsys):
    assert main(["intervene", "interchange", str(RUN), "--pairs", "3"]) == 2
    assert "pairs = 3: expected a whole number from 9" in capsys.readouterr().err
