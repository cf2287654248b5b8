"""Every command on a network of each architecture: it answers, or says by name what is not defined and why."""

import json
from dataclasses import replace

import pytest
import torch

import assignadd
from assignadd.cli import main
from assignadd.config import PRESETS, Optim, Recording
from assignadd.dynamics.trajectory import binds
from assignadd.ledger.claim import judge
from assignadd.measures.columns import not_defined
from assignadd.network import networks_of, store_result
from assignadd.paper.ledger import chosen_claims
from tests.cli.asking import said

torch.set_num_threads(1)
SMOKE = PRESETS["smoke"]
OTHER = {"n_layers": 3, "d_mlp": (8, None, 16), "biases": True, "activation": "gelu"}
# Each alone is in tests/measures/test_columns.py and tests/model/test_last_layer.py.
MODELS = {
    "two heads": replace(SMOKE.model, n_heads=2, d_head=SMOKE.model.d_head // 2),
    "no direct path": replace(SMOKE.model, activation="abs", direct_path=False),
    "one head, no norm": replace(SMOKE.model, **OTHER),
    "everything": replace(SMOKE.model, **OTHER, n_heads=2, norm="layer"),
}
PROMPT = "b=4, d=2, b+1=?"


@pytest.fixture(scope="module", params=MODELS)
def trained(request, tmp_path_factory):
    """A run of a few steps, measured while it trained."""
    record = Recording(eval_every=4, eval_sequences=16, checkpoint_every=4, measure_every=4)
    config = replace(SMOKE, model=MODELS[request.param], optim=Optim(batch=16, steps=8), record=record)
    return assignadd.train(config, [0], tmp_path_factory.mktemp("runs") / "run")


def test_measures_during_training_are_those_of_the_checkpoints(trained, capsys):
    table = assignadd.measure(trained).filter(step=8)
    live = trained.metrics()[-1]["measures"]
    assert set(live) == set(table.columns) - {"model", "seed", "step"}
    for name, value in live.items():
        if value is not None:
            assert value == pytest.approx(table[name].item(), rel=1e-4, abs=1e-5), name
    assert main(["measure", "curves", str(trained.path)]) == 0
    notes = capsys.readouterr().err
    assert all(name in notes and reason in notes for name, reason in not_defined(trained.config).items())


def test_commands_answer(trained, capsys):
    run = str(trained.path)
    evaluated = json.loads(said(capsys, "measure", run, "--n", "40", "--json"))
    assert 0 <= evaluated["models"][0]["sets"]["2-var train"]["accuracy"] <= 1
    reply, heads = json.loads(said(capsys, "ask", PROMPT, run, "--json")), trained.config.model.n_heads
    assert len(reply["attention"]) == trained.config.model.n_layers * heads
    assert all(sum(row) == pytest.approx(1, abs=1e-5) for row in reply["attention"].values())
    zero = json.dumps([{"action": "zero", "hook": "blocks.1.hook_attn_out"}])
    changed = json.loads(said(capsys, "intervene", zero, PROMPT, run, "--json"))
    assert changed["probability_change"] != 0
    exchanged = json.loads(said(capsys, "intervene", "interchange", run, "--pairs", "60", "--json"))
    assert {"whole", "elsewhere"} <= exchanged["alignments"]["values"].keys() and "sum" in exchanged["alignments"]
    assert exchanged["not_defined"] == {}
    phases = json.loads(said(capsys, "measure", "phases", run, "--json"))
    curves = {onset["curve"] for onset in phases["models"][0]["onsets"]}
    assert {"attn_l1_equal_to_operands (1-var)", "probe_l1_var_from_num", "1-var train"} <= curves


def test_claims_have_a_number_or_a_reason(trained):
    models, _ = networks_of(trained, n=40)
    store_result(models[0], binds, True)  # claims about binding are asked of no other network

    def judged(only):
        return {claim.id: judge(claim, models, "") for claim in chosen_claims(only)}

    attention = judged("attention")
    for found in (attention, judged("probes"), judged("accuracies")):
        assert found and all(r.value is not None or r.verdict != "holds" for r in found.values())
    assert attention["attn-l2-equal-to-values"].value is not None
    (circuit,) = judged("ov-mlp-99.94").values()
    assert circuit.verdict == "not applicable" and circuit.value is None
    assert not_defined(trained.config)["ov2_mlp2_accuracy"] in circuit.comment
    (matched,) = judged("cosine-matched-0v-1v").values()
    assert matched.value is not None
