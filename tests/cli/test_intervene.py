"""assignadd intervene, as a user types it."""

import json
from pathlib import Path

import pytest

from assignadd.cli import main

RUN, PROMPT = "smoke-seeds-0-1", "a=3, b=5, b+1=?"
CUT = '[{"action": "cut", "layer": 2, "query": "equals", "key": "first_value"}]'


def reply(capsys, *arguments: str):
    assert main(["intervene", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_nothing_changes_nothing_and_the_answer_is_that_of_ask(here, capsys):
    found = reply(capsys, "[]", PROMPT, RUN)
    assert main(["ask", PROMPT, RUN, "--json"]) == 0
    asked = json.loads(capsys.readouterr().out)
    assert found["before"] == found["after"] and found["before"]["answer"] == asked["answer"]
    assert found["before"]["probability"] == pytest.approx(asked["probability"], abs=1e-5)
    assert found["accuracy"]["change"] == 0 and found["accuracy"]["n"] == 512 and found["label"] == 6


def test_a_file_and_its_text_do_the_same(here, capsys):
    Path("cut.json").write_text(CUT)
    inline, file = reply(capsys, CUT, PROMPT, RUN), reply(capsys, "cut.json", PROMPT, RUN)
    assert inline == file and inline["interventions"] == json.loads(CUT)
    assert inline["probability_change"] == pytest.approx(
        inline["after"]["label_probability"] - inline["before"]["label_probability"]
    )
    assert main(["intervene", CUT, PROMPT, RUN]) == 0
    out = capsys.readouterr().out
    assert "before" in out and "after" in out and "accuracy on 512" in out


def test_to_swap_every_component_is_to_be_the_other_model(here, capsys):
    parts = ["embed", "qk1", "ov1", "qk2", "ov2", "mlp2", "unembed"]
    swaps = json.dumps([{"action": "swap", "component": part, "seed": 1, "step": 20} for part in parts])
    swapped = reply(capsys, swaps, PROMPT, RUN, "--seed", "0")
    other = reply(capsys, "[]", PROMPT, RUN, "--seed", "1", "--step", "20")
    assert swapped["after"]["label_probability"] == pytest.approx(other["before"]["label_probability"], abs=1e-6)
    elsewhere = json.dumps([{"action": "swap", "component": part, "run": RUN, "seed": 1} for part in parts])
    last = reply(capsys, "[]", PROMPT, RUN, "--seed", "1")
    assert reply(capsys, elsewhere, PROMPT, RUN)["after"]["answer"] == last["before"]["answer"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (('[{"action": "zap"}]', PROMPT), "interventions[0].action = 'zap'"),
        (("nothing.json", PROMPT), "specification = 'nothing.json'"),
        ((CUT, "a=3, c+1=?"), "column 6"),
        (('[{"action": "swap", "component": "mlp2", "step": 3}]', PROMPT, RUN), "no checkpoint at step 3"),
        ((CUT.replace("equals", "first").replace("first_value", "equals"), PROMPT, RUN), "interventions[0] ="),
    ],
)
def test_mistakes_are_one_line(here, capsys, arguments, words):
    assert main(["intervene", *arguments]) in (1, 2)
    captured = capsys.readouterr()
    assert captured.out == "" and words in captured.err and captured.err.count("\n") == 1


@pytest.mark.parametrize(
    ("asked", "there"),
    [
        (CUT.replace("first_value", "second_variable"), False),
        (CUT.replace("first_value", "first_variable"), True),
        (CUT.replace("equals", "second").replace("first_value", "second_variable"), False),
        ('[{"action": "pattern", "layer": 2, "query": "second_variable", "weights": {"equals": 1.0}}]', False),
        ('[{"action": "zero", "hook": "hook_embed", "positions": ["second_variable"]}]', False),
        ('[{"action": "zero", "hook": "hook_embed", "positions": ["second_variable", "plus"]}]', True),
        ('[{"action": "swap", "component": "mlp2", "seed": 1}]', True),
    ],
)
def test_what_the_prompt_does_not_have_is_said(here, capsys, asked, there):
    """Only the first operand of the prompt is a variable."""
    assert main(["intervene", asked, PROMPT, RUN, "--json"]) == 0
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert ("acts on nothing in this prompt" in said.err) == (not there)
    assert (found["before"] == found["after"]) == (not there)
