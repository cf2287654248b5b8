"""The profile of a training step has every call of it, and the step stays what it is."""

from dataclasses import replace

import pytest
import torch

pytest.importorskip("numba")

from assignadd.benchmark import profile
from assignadd.benchmark.speed import one_model
from assignadd.config import PRESETS, Numerics
from assignadd.errors import UserError
from assignadd.model.kernels import blas
from tests.benchmark.products import flops_of_calls

pytestmark = pytest.mark.skipif(not blas.available(), reason="torch's BLAS library is not found (numba)")
CONFIG = PRESETS["smoke"]


def test_a_profile_has_every_product_of_a_step_and_what_is_between_them():
    found = profile.step_profile(CONFIG, 0.01)
    entries = found["calls"]
    assert len({(entry["call"], entry["operands"]) for entry in entries}) == len(entries)
    assert found["step_us"] > 0 and all(entry["us"] > 0 for entry in entries if entry["gflop"])
    assert sum(entry["gflop"] for entry in entries) == pytest.approx(flops_of_calls(CONFIG) / 1e9)
    products = [entry for entry in entries if entry["call"] == "product"]
    assert all(entry["gflop"] for entry in products) and sum(entry["times"] for entry in products) == 48
    assert not any(entry["gflop"] for entry in entries if entry not in products)
    d, h, B = CONFIG.model.d_model, CONFIG.model.d_mlp[-1], CONFIG.optim.batch
    assert f"{B}x{d} @ {d}x{h}" in [entry["operands"] for entry in products]
    assert f"{B}x{d}.T @ {B}x{h}" in [entry["operands"] for entry in products]
    between = {"layer_1", "layer_2", "relu", "cross_entropy", "gate", "layer_2_backward", "layer_1_backward", "update"}
    assert between | {"add_rows", "add_to_weights", "add_rows_to_table"} <= {entry["call"] for entry in entries}


def test_a_step_call_by_call_is_the_step_itself(monkeypatch):
    made = []
    monkeypatch.setattr(profile, "one_model", lambda config: made.append(one_model(config)) or made[-1])
    profile.step_profile(CONFIG, 0.01)
    whole, split = (group.state() for group in made)
    assert whole["step"] == split["step"] == 3 + 3 * made[0].steps_ahead
    assert all(torch.equal(whole[name], split[name]) for name in whole)


def test_a_model_that_diverges_has_no_profile():
    config = replace(CONFIG, optim=replace(CONFIG.optim, lr=10, weight_decay=1))
    with pytest.raises(UserError, match=r"^the loss is not finite after \d steps: no step of it is left to time$"):
        profile.step_profile(config, 0.01)


@pytest.mark.parametrize(
    "change",
    [
        {"numerics": Numerics(dtype="float64")},
        {"model": replace(CONFIG.model, n_heads=2)},
        {"optim": replace(CONFIG.optim, batch=4)},
    ],
    ids=str,
)
def test_a_step_that_is_not_made_of_compiled_calls_is_refused(change):
    with pytest.raises(UserError, match="not made of compiled calls: --profile takes"):
        profile.step_profile(replace(CONFIG, **change), 0.01)
