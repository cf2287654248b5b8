"""operands end to end on the two shipped networks."""

import json

from tests.cli.asking import complaint, said


def test_operands_as_json_and_for_people(capsys):
    two = "census-two"
    found = json.loads(said(capsys, "operands", two, "--n", "200", "--json"))
    assert found["n"] == 200 and found["command"].endswith("--n 200 --json") and "torch" in found["made_with"]
    assert [m["seed"] for m in found["models"]] == [39, 35]
    one = found["models"][0]["sets"]["1-var train"]
    assert one["accuracy"] > 0.98 and one["lost"]["no variable slot"][0] > 0.5 > one["lost"]["no literal slot"][2]
    assert abs(sum(one["weights"].values()) - 1) < 1e-3 and one["operands on top"]["unchanged"] == 0
    out = said(capsys, "operands", two, "--n", "50")
    assert "seed 39" in out and "lost: no literal slot" in out and "two variables, as trained" in out


def test_operands_needs_a_run(capsys):
    assert "RUN... is missing; usage: assignadd operands RUN..." in complaint(capsys, "operands")
