"""reproduce end to end: where nothing is learned, and where the task is."""

import json
import re

import pytest

from assignadd.cli import report
from assignadd.dynamics.phases import Curves
from assignadd.report.beside import ARXIV
from tests.cli.asking import complaint, said


def test_reproduce_smoke(capsys, tmp_path, monkeypatch, few_figures):
    """Nothing is learned, so seeds are trained to the limit and shown, and the page says so."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(report, "MOST_SEEDS", 2)
    monkeypatch.setattr(report, "SEEDS_PER_ROUND", 1)
    said(capsys, "reproduce", "--preset", "smoke", "--n", "50")
    page = (tmp_path / "reproduction" / "index.html").read_text()
    assert "0 of 2 networks bind variables." in page and all(f"seed {s}" in page for s in range(2))
    first = {p: p.read_bytes() for p in sorted((tmp_path / "reproduction").rglob("*")) if p.is_file()}
    said(capsys, "reproduce", "--preset", "smoke", "--n", "50")
    assert first == {p: p.read_bytes() for p in first}  # nothing to train, and the same bytes again


def test_no_further_seed_is_trained_once_as_many_as_wanted_have_learned_binding(capsys, tmp_path, monkeypatch):
    """A network counts as soon as its curves say that it has; here every one does, and what is reported is noted."""
    reported = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(report, "SEEDS_PER_ROUND", 1)
    monkeypatch.setattr(report, "report_on_screen", lambda *given: reported.append((len(given[0]), given[3])))
    monkeypatch.setattr(Curves, "binds", True)
    for wanted in (1, 2):
        said(capsys, "reproduce", "--preset", "smoke", "--n", "50", "--wanted", str(wanted))
        assert len(list((tmp_path / "runs").iterdir())) == wanted
    command = "assignadd reproduce --preset smoke"
    assert reported == [(1, f"{command} --wanted 1"), (2, command)]


@pytest.mark.parametrize("wanted", ["0", "7"])
def test_no_more_seeds_are_wanted_than_are_ever_trained(capsys, tmp_path, monkeypatch, wanted):
    monkeypatch.chdir(tmp_path)
    assert "wanted" in complaint(capsys, "reproduce", "--preset", "smoke", "--wanted", wanted)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_reproduce_tiny_learns_the_task(capsys, tmp_path, monkeypatch, few_figures):
    """The whole pipeline at a size where the network really learns: add, bind, and generalise; two of its figures."""
    monkeypatch.chdir(tmp_path)
    said(capsys, "reproduce", "--preset", "tiny", "--n", "400")
    runs = sorted(p.name for p in (tmp_path / "runs").iterdir())
    models = [m for run in runs for m in json.loads(said(capsys, "measure", run, "--n", "2000", "--json"))["models"]]
    learned = [m["sets"] for m in models if m["sets"]["1-var train"]["accuracy"] >= 0.95]
    assert len(learned) >= 2 or len(models) == 6
    assert all(m["sets"]["0-var train"]["accuracy"] >= 0.95 for m in models)
    assert any(
        sets["2-var train"]["accuracy"] >= 0.9 and sets["2-var add-restricted"]["accuracy"] >= 0.8 for sets in learned
    )
    page = (tmp_path / "reproduction" / "index.html").read_text()
    assert "<img" in page  # and nothing is loaded from elsewhere: the only address is the link to the paper
    assert set(re.findall(r"https?:[^\s\"<]*", page)) == {f"https://arxiv.org/abs/{ARXIV}"}
