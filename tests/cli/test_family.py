"""Other members of the family of tasks from the command line: train, ask, show and eval."""

import json

import pytest

from assignadd.cli import main

XOR3 = "\n".join(" ".join(str(x ^ y) for y in range(8)) for x in range(8))


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "xor.txt").write_text(XOR3)
    return tmp_path


def said(capsys, *arguments):
    assert main([*arguments]) == 0
    return capsys.readouterr().out


def refused(capsys, *arguments):
    assert main([*arguments]) == 2
    return capsys.readouterr().err.strip()


SHORT = ("--preset", "smoke", "--optim.steps", "2", "--threads", "1", "--device", "cpu", "--out", "run")


@pytest.mark.parametrize(
    ("flags", "prompt", "label", "kind", "sets"),
    [
        (["--task.operation", "subtract"], "a=3, b=5, a-b=?", 5, "pair (3, 5)", 21),
        (["--task.operation", "affine 2 3"], "a=3, b=5, a@b=?", 0, "pair (3, 5)", 21),
        (["--task.operation=xor.txt"], "a=3, b=5, b@a=?", 6, "pair (5, 3)", 21),
        (["--task.operands", "1"], "a=3, b=5, b=?", 5, "number (5)", 6),
        (
            ["--task.operands", "3", "--task.length", "11", "--task.max-assignments", "3", "--task.banned-further=c"],
            "a=3, b=5, c=6, c+b+a=?",
            0,
            "triple (6, 5, 3)",
            20,
        ),
        (
            ["--task.hops", "2", "--task.rebinding", ".5", "--task.max-assignments", "4", "--task.length", "12"],
            "c=4, c=5, b=c, b+3=?",
            1,
            "pair (5, 3)",
            29,
        ),
    ],
    ids=["subtract", "affine", "table", "one operand", "three operands", "hops and rebinding"],
)
def test_train_ask_show_and_eval(here, capsys, flags, prompt, label, kind, sets):
    said(capsys, "train", *SHORT, *flags)
    (here / "xor.txt").unlink()  # the configuration has the table
    reply = json.loads(said(capsys, "ask", prompt, "run", "--json"))
    assert (reply["label"], reply["text"]) == (label, prompt) and kind in reply["kind"]
    shown = json.loads(said(capsys, "ask", "show", prompt, "--config", "run/config.json", "--preset=smoke", "--json"))
    assert shown == [{"tokens": reply["tokens"], "text": prompt, "answer": label}]
    drawn = json.loads(
        said(capsys, "ask", "show", "--config", "run/config.json", "--preset=smoke", "--json", "--n", "3")
    )
    assert len(drawn) == 3 and {len(row["tokens"]) for row in drawn} == {len(reply["tokens"])}
    found = json.loads(said(capsys, "measure", "run", "--n", "20", "--threads", "1", "--json"))["models"][0]["sets"]
    assert sets - 7 <= len(found) <= sets  # a small split has no pair of some classes
    assert "as trained" in said(capsys, "measure", "run", "--n", "20", "--threads", "1")
    again = ["--config", "run/config.json"] if "xor.txt" in flags[0] else flags
    assert "at step 2" in said(capsys, "train", *SHORT, *again)  # the same settings go on with the run


def test_flags_of_show_name_the_task(capsys, here):
    def shown(*arguments):
        return json.loads(said(capsys, "ask", "show", *arguments, "--json"))

    assert shown("c=5, b=8, c*b=?", "--task.operation", "multiply")[0]["answer"] == 40
    assert shown("c=5, c@3=?", "--task.operation", "xor.txt")[0]["answer"] == 6
    rows = shown("--task.operands", "3", "--task.length", "17", "--set", "3-var train")
    assert all(row["tokens"][13].isalpha() and row["tokens"][12] == "+" for row in rows)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--task.operation", "divide"], "task.operation = 'divide': expected add, subtract, multiply, "),
        (["--task.operation", "affine 2 7"], "task.operation = 'affine 2 7': expected factors from 0 to 6"),
        (["--task.operation", "xor.txt", "--task.modulus", "7"], "task.table = '64 numbers': expected 7 x 7 numbers"),
        (["--task.operands", "5"], "task.operands = 5: expected a whole number from 1 to 4"),
        (["--task.operands", "3"], "task.length = 8: expected at least 9 to hold 2 assignments"),
    ],
)
def test_what_is_impossible_is_refused_in_one_line(capsys, here, flags, message):
    said = refused(capsys, "train", *SHORT, *flags)
    assert message in said and len(said.splitlines()) == 1
    assert not (here / "run").exists()
