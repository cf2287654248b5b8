"""`assignadd study` runs, continues and shows a study in a file or folder, and executes nothing else."""

import json

import pytest

from assignadd.cli import main
from assignadd.runs import manifest
from tests.runs.test_destination import everything

OURS = """
from dataclasses import replace

from assignadd import PRESETS
from assignadd.study import BASE, Cell, Study, mean
from .columns import ones

STUDY = Study(
    "small", "Does it run?", (Cell("0.001"), Cell("0.002", {"optim.lr": 2e-3})), seeds=2, steps=40,
    base=replace(PRESETS["smoke"], record=replace(BASE.record, eval_every=20, checkpoint_every=20, final_sequences=50)),
    measure=ones, columns={"one (final)": "a column of ours"}, numbers=("one (final)",),
    ask=(mean("one (final)").at_least(1),),
)
"""
COLUMNS = """
def ones(stack, configs, seen):
    return [{"one": 1.0} for _ in configs]
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "findings" / "question"
    path.mkdir(parents=True)
    (path / "study.py").write_text(OURS)
    (path / "columns.py").write_text(COLUMNS)
    return path


def test_the_command_plans_trains_continues_and_shows(folder, tmp_path, capsys, monkeypatch):
    out = ["--out", str(tmp_path / "here")]
    assert main(["study", str(folder), "--dry-run", "--json", "--device", "cpu", "--n-seeds", "3", *out]) == 0
    (planned,) = json.loads(capsys.readouterr().out)
    assert (planned["cells"], planned["model_steps"], planned["steps"]) == (6, 240, 40)
    assert not (tmp_path / "here").exists()
    flags = ["--device", "cpu", "--threads", "2", "--n-seeds", "1", "--steps", "20", *out]
    assert main(["study", str(folder), *flags, "--json"]) == 0  # in two processes, which load the file themselves
    (first,) = json.loads(capsys.readouterr().out)
    assert [c["cell"] for c in first["cells"]] == ["0.001", "0.002"]
    assert first["cells"][0]["one (final)"] == 1
    assert {"figure.svg", "small.json", "small.parquet"} <= {p.name for p in (tmp_path / "here").iterdir()}
    assert main(["study", str(folder), *flags, "--json"]) == 0  # nothing is left to train
    again = capsys.readouterr()
    assert json.loads(again.out) == [first] and "different versions" not in again.err
    monkeypatch.setenv("ASSIGNADD_COMMIT", "another")
    monkeypatch.setattr(manifest, "_git", lambda *command: "")
    assert main(["study", str(folder), *flags, "--json", "--n-seeds", "2"]) == 0
    more = capsys.readouterr()
    assert [cell["models"] for cell in json.loads(more.out)[0]["cells"]] == [2, 2]
    assert "different versions trained these networks" in more.err


def test_showing_writes_nothing_unless_asked(folder, tmp_path, capsys):
    assert main(["study", str(folder), "--device", "cpu", "--threads", "1", "--steps", "20", "--out", "made"]) == 0
    for name in ("small.parquet", "small.json"):
        (tmp_path / "made" / name).rename(folder / name)
    before = sorted(tmp_path.rglob("*"))
    assert not [path for path in before if path.name == "__pycache__"]
    capsys.readouterr()
    assert main(["study", str(folder / "study.py"), "small", "--show"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "one (final): a column of ours" in shown and "holds" in shown
    assert sorted(tmp_path.rglob("*")) == before
    (folder / "small.parquet").rename(tmp_path / "elsewhere.parquet")
    (folder / "small.parquet").symlink_to(tmp_path / "elsewhere.parquet")
    assert main(["study", str(folder), "--show"]) == 2
    assert "not reached through symbolic links" in capsys.readouterr().err
    (tmp_path / "elsewhere.parquet").replace(folder / "small.parquet")
    assert main(["study", str(folder), "--show", "-o", str(tmp_path / "there")]) == 0
    figure = tmp_path / "there" / "figure.svg"
    drawn = figure.read_bytes()
    assert main(["study", str(folder), "--show", "-o", str(tmp_path / "there")]) == 0  # over its own
    (tmp_path / "theirs.svg").write_bytes(drawn)
    (tmp_path / "linked").symlink_to(tmp_path / "there")
    for change, out, words in (
        (lambda: None, "linked", "linked is a symbolic link"),
        (lambda: figure.write_text("<svg>a drawing of somebody</svg>"), "there", "not written by this command"),
        (lambda: (figure.unlink(), figure.symlink_to(tmp_path / "theirs.svg")), "there", "is a symbolic link"),
    ):
        change()
        before = everything(tmp_path)
        capsys.readouterr()
        assert main(["study", str(folder), "--show", "-o", str(tmp_path / out)]) == 2
        assert words in capsys.readouterr().err and everything(tmp_path) == before


@pytest.mark.parametrize(
    ("text", "arguments", "words"),
    [
        ("STUDY = 3", [], "expected STUDY = assignadd.study.Study(...), or STUDIES, a tuple of them"),
        ("1 / 0", [], "ZeroDivisionError: division by zero"),
        (OURS, ["nothing"], "no study nothing in"),
        (OURS, ["--show"], "no table of the study small in"),
        (None, [], "expected a file of Python, or a folder with study.py"),
    ],
)
def test_what_is_wrong_is_one_line(folder, capsys, text, arguments, words):
    if text is None:
        (folder / "study.py").unlink()
    else:
        (folder / "study.py").write_text(text)
    assert main(["study", str(folder), *arguments]) == 2
    said = capsys.readouterr().err
    assert words in said and said.count("\n") == 1


def test_claims_of_a_file_are_tested_beside_the_papers(folder, capsys):
    (folder / "claims.py").write_text(
        "from assignadd.ledger import AtLeast, Claim, Measured\n"
        "CLAIMS = (\n"
        "    Claim.ours('is-one-network', 'The network is one.',\n"
        "               lambda network: Measured.exactly(len(network.stack), 1, 'networks'), AtLeast(1)),\n"
        "    Claim.ours('breaks', 'A measure with an error.', lambda network: 1 / 0, AtLeast(0)),\n"
        ")\n"
    )
    arguments = ["claims", "census-two", "--with", str(folder / "claims.py"), "--n", "100", "--json", "--only"]
    assert main([*arguments, "is-one-network"]) == 0
    (record,) = json.loads(capsys.readouterr().out)
    assert record["verdict"] == "holds" and record["value"] == 1
    assert main([*arguments, "breaks"]) == 1  # said, and not swallowed
    (record,) = json.loads(capsys.readouterr().out)
    assert record["verdict"] == "could not be measured"
    assert "ZeroDivisionError: division by zero" in record["comment"]
    assert main([*arguments, "nothing-of-this-name"]) == 2
