"""The commands that write leave files of others as they are, and say so in one line before they work."""

from pathlib import Path

import pytest

from assignadd.cli import main
from tests.runs.test_destination import everything

RUN = "runs/smoke-seeds-0-1"
FINDINGS = Path(__file__).parents[2] / "findings"
COMMANDS = (
    ("explore", "{run}", "-o", "{out}", "--no-ledger", "--checkpoints", "2"),
    ("report", "{run}", "-o", "{out}", "--n", "64"),
    ("theory", "-o", "{out}", "--N", "5", "--V", "3", "--T", "6"),
    ("reproduce", "--preset", "smoke", "--out", "{out}"),
    ("claims", "{run}", "--only", "qk2-identity", "--n", "40", "-o", "{out}/verdicts.json"),
    ("sweep", "seeds", "--preset", "smoke", "--out", "{out}"),
    ("study", str(FINDINGS / "operations"), "--n-seeds", "1", "--out", "{out}"),
    ("runs", "publish", "{run}", "--repo=a/b", "--dry-run", "--no-claims", "--out", "{out}"),
)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: c[0])
def test_a_site_of_somebody_is_left_alone(here, command, capsys, tmp_path):
    site = tmp_path / "site"
    (site / "data" / "m0").mkdir(parents=True)
    for name in ("index.html", "data/m0/00000001.js", "verdicts.json"):
        (site / name).write_text("years of work")
    before = everything(tmp_path)
    assert main([word.format(run=here / RUN, out=site) for word in command]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and str(site) in said
    assert everything(tmp_path) == before


def test_a_run_is_not_written_over(here, capsys, tmp_path):
    run = here / RUN
    before = everything(run)
    for name in ("manifest.json", "config.json", "metrics.jsonl", "mine.json"):
        assert main(["claims", str(run), "--only", "qk2-identity", "-o", str(run / name)]) == 2
        assert "inside the run" in capsys.readouterr().err
    for command in ("explore", "report"):
        assert main([command, str(run), "-o", str(run)]) == 2
    assert everything(run) == before
