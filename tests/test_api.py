"""The package from Python, on a run that was really trained."""

import dataclasses

import polars
import pytest

import assignadd
from assignadd.dynamics.trajectory import onsets_of
from assignadd.ledger import networks_of

SMOKE = assignadd.PRESETS["smoke"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    config = dataclasses.replace(SMOKE, record=dataclasses.replace(SMOKE.record, measure_every=20))
    return assignadd.train(config, [0, 1], tmp_path_factory.mktemp("api") / "run")


@pytest.mark.parametrize("seeds", [[], "0..3", [0, 0], [-1], [2**63], [1.0], [True], ["0"], [[0]], 3, None])
def test_what_is_no_list_of_seeds_is_refused_before_anything_else(tmp_path, seeds):
    with pytest.raises(ValueError, match=r"seeds = .*whole number"):
        assignadd.train(SMOKE, seeds, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_measures_recorded_live_are_those_of_the_checkpoints(run):
    live = assignadd.metrics(run).filter(polars.col("qk2_ov1_var_margin").is_not_null())
    later = assignadd.measure(run)
    assert live["step"].unique().sort().to_list() == [0, 20, 40, 60]
    for row in live.iter_rows(named=True):
        same = later.filter((polars.col("seed") == row["seed"]) & (polars.col("step") == row["step"])).row(
            0, named=True
        )
        for name in (
            "ov2_mlp2_accuracy",
            "qk2_ov1_var_margin",
            "attn_l1_num_to_prev (1-var)",
            "accuracy b second",
            "norm embed.W_E",
        ):
            assert row[name] == pytest.approx(same[name], rel=1e-4, abs=1e-5), name


def test_onsets(run):
    measures = assignadd.measure(run)
    networks, _ = networks_of(assignadd.open_run(run))
    assert [network.seed for network in networks] == [0, 1]
    # Sixty steps end before a stay of 1,000 could: an onset is where a curve comes up to stay to the end.
    for network in networks:
        own = measures.filter(polars.col("seed") == network.seed).sort("step")
        onsets = {onset.curve: onset for onset in onsets_of(network)}
        for curve in ("attn_l1_num_to_prev (0-var)", "qk1_num_to_prev_var"):
            onset = onsets[curve]
            up = [step for step, value in own.select("step", curve).iter_rows() if value >= onset.threshold]
            stays = [step for step in up if set(own["step"].filter(own["step"] >= step)) <= set(up)]
            assert onset.onset == (min(stays) if stays else None)


def test_the_ledger(run):
    records = assignadd.claims(run, n=40, only="probe-after-mlp")
    assert [r.id for r in records] == ["probe-after-mlp"] and records[0].seeds == 2
    (unasked,) = assignadd.claims(run, n=40, only="qk2-identity")
    assert (unasked.seeds, unasked.verdict) == (0, "cannot be tested")  # neither network binds
    assert {r.label for r in assignadd.claims(only="generalization_combined")} == {"generalization_combined"}
