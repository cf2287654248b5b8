"""`assignadd theory` end to end on small sizes and the smoke preset."""

import json

import pytest

from assignadd.cli import main

SMALL = ("--N", "13", "--T", "10", "--V", "4", "--threads", "1")


def test_with_a_run_as_json_and_figures(here, tmp_path, capsys):
    out = tmp_path / "new" / "out"
    assert main(["theory", "smoke-seeds-0-1", "--seed=1", *SMALL, "-o", str(out), "--json"]) == 0
    reply = json.loads(capsys.readouterr().out)
    assert reply["setting"] == {"N": 13, "T": 10, "V": 4, "alpha": 1e-3, "beta": None}
    verdicts = {record["id"]: record["verdict"] for record in reply["verdicts"]}
    assert verdicts["theory-remainder"] == "holds" and verdicts["theory-memory-dominates"] == "does not hold"
    assert verdicts["theory-real-gradient"] == "cannot be tested"  # 60 steps teach nothing
    names = ("theory_beta", "theory_real_gradient")
    expected = {f"{name}.{kind}" for name in names for kind in ("svg", "png", "npz")} | {".assignadd"}
    assert {p.name for p in out.iterdir()} == expected


def test_without_a_run_as_a_table(capsys):
    assert main(["theory", *SMALL]) == 0
    short = capsys.readouterr().out
    assert len(short.splitlines()) <= 40
    words = ("name a run", "without details: --all prints everything", "attends-target", "w0-attention")
    assert all(word in short for word in (*words, "does not hold")) and "The associative memory" not in short
    assert main(["theory", *SMALL, "--all"]) == 0
    everything = " ".join(capsys.readouterr().out.split())
    assert "memory-dominates: does not hold value: " in everything
    assert "The associative memory, which matches" in everything


@pytest.mark.parametrize(
    ("arguments", "words", "code"),
    [
        (["--V", "60"], ["theory.V = 60", "theory.N = 59"], 2),
        (["--T", "3"], ["theory.T = 3", "from 4"], 2),
        (["--alpha", "0"], ["theory.alpha = 0.0", "above 0"], 2),
        (["--alpha", "501"], ["theory.alpha = 501.0", "up to 500"], 2),
        (["--beta", "0.5"], ["theory.beta = 0.5", "a larger number", "balances"], 2),
        (["nowhere"], ["no run at nowhere"], 1),
    ],
)
def test_bad_input_is_one_line_and_creates_nothing(arguments, words, code, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["theory", *arguments, "-o", "out"]) == code
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.startswith("assignadd: ") and captured.err.count("\n") == 1
    assert all(word in captured.err for word in words) and list(tmp_path.iterdir()) == []
