"""Records are complete, and verdicts follow their numbers: each one turns over when its number does."""

import dataclasses
import json
import math

import pytest
import torch

from assignadd.config import PRESETS
from assignadd.ledger.claim import CANNOT
from assignadd.model.handmade import handmade
from assignadd.network import Network
from assignadd.paper.theory import claims, composition, theorem
from assignadd.paper.theory.claims import TrainingResult, paper_statements, training_records, training_results
from assignadd.paper.theory.real_gradient import Alignment, TheoryGradient
from assignadd.paper.theory.theorem import Setting, check
from assignadd.stats import FAILS, HOLDS, UNDECIDED, Measured
from assignadd.task.splits import pair_split

SMALL = Setting(N=13, T=10, V=4)
SMOKE = PRESETS["smoke"]


@pytest.fixture(scope="module")
def by_id():
    records = paper_statements(SMALL)
    assert len({r.id for r in records}) == len(records)
    return {r.id.removeprefix("theory-"): r for r in records}


def test_records_are_complete(by_id):
    assert next(iter(by_id)) == "memory-dominates"
    for r in by_id.values():
        assert json.dumps(dataclasses.asdict(r), allow_nan=False)
        assert r.claim.endswith(".") and r.comment.endswith(".") and r.paper and r.rule.startswith("holds if")
        assert r.low <= r.value <= r.high and r.verdict in (HOLDS, FAILS, UNDECIDED)
        assert (r.low == r.high) == (r.n == 0)


def test_what_can_be_known_beforehand(by_id):
    """Exact statements hold; the slips are slips at any size: 1/T^2 is not Theta(1/T), V + 1 is not less than 2."""
    held = ("remainder", "bound-over-beta", "stated-step-composes", "shorter-step-composes")
    assert all(by_id[name].verdict == HOLDS for name in held)
    assert all(by_id[name].verdict == FAILS for name in ("pads-theta", "pads-literal", "memory-dominates"))
    assert by_id["pads-theta"].value == pytest.approx(-1, abs=0.1)
    assert by_id["memory-dominates"].value == pytest.approx(SMALL.V, abs=1e-3)


def test_verdicts_turn_with_their_numbers(by_id, monkeypatch):
    monkeypatch.setattr(theorem, "constants_over_beta", lambda V: {16: 1.0, 4096: 2.0})
    large = dataclasses.replace(check(SMALL), remainder=50 * check(SMALL).bound)
    monkeypatch.setattr(theorem, "grid_checks", lambda: [large])
    small = dataclasses.replace(check(SMALL), remainder=5.0, attenuation=0.1)
    monkeypatch.setattr(theorem, "check", lambda s: dataclasses.replace(small, s=s))
    near = Measured.share(19_010, 20_000, "sequences")
    monkeypatch.setattr(composition, "accuracy", lambda s, W, K: near)
    turned = {r.id.removeprefix("theory-"): r.verdict for r in paper_statements(SMALL)}
    for name in ("bound-over-beta", "remainder"):
        assert (by_id[name].verdict, turned[name]) == (HOLDS, FAILS)
    assert (by_id["memory-dominates"].verdict, turned["memory-dominates"]) == (FAILS, HOLDS)
    assert turned["stated-step-composes"] == turned["shorter-step-composes"] == UNDECIDED


def trained(cosines, accuracy) -> TheoryGradient:
    """A run of ten checkpoints with these cosines, and permuted directions that spread over -.05 .. .05."""

    def aligned(values):
        memory = torch.tensor(values)
        permuted = torch.linspace(-0.05, 0.05, 200).expand(len(values), -1)
        return Alignment(memory, permuted)

    return TheoryGradient(list(range(100, 1100, 100)), torch.tensor(accuracy), aligned(cosines), aligned(cosines[:-1]))


def test_statements_on_training():
    rising = [0.1] * 8 + [0.9, 1.0]  # the spike is at step 900, its last quarter has the checkpoints 700 and 800
    high = [0.0] * 6 + [0.2, 0.3, 0.0, 0.0]
    numbers = training_results(trained(high, rising))
    assert numbers["real-gradient"].holds and numbers["real-gradient"].value == pytest.approx(0.25)
    # the changes from 600, 700 and 800 on overlap with that quarter
    assert numbers["real-change"].holds and numbers["real-change"].value == pytest.approx((0.0 + 0.2 + 0.3) / 3)
    assert not numbers["real-dominant"].holds
    low = training_results(trained([0.02] * 10, rising))
    assert [number.holds for number in low.values()] == [False, False, False]
    assert training_results(trained([0.8] * 10, rising))["real-dominant"].holds
    # without a spike, and without a checkpoint before it
    assert training_results(trained(high, [0.5] * 10)) == training_results(trained(high, [0.99] * 10)) == {}
    assert all(r.value is None and r.verdict == "cannot be tested" for r in training_records([]))


def test_records_over_seeds_have_an_interval_from_six_on():
    def record(*values):
        networks = [
            Network(handmade(SMOKE), SMOKE, pair_split(SMOKE.task, 0), seed=seed) for seed in range(len(values))
        ]
        results = [TrainingResult(value, value > 0.15, "one network") for value in values]
        return claims._over_networks("real-change", dict(zip(networks, results, strict=True)))

    none = record()
    assert (none.value, none.verdict, none.comment) == (None, "cannot be tested", CANNOT)
    one = record(0.2)
    assert (one.value, one.low, one.high, one.comment) == (0.2, 0.2, 0.2, "one network.")
    three = record(0.3, 0.1, 0.2)
    assert (three.value, three.low, three.high) == (0.2, None, None) and "from 0.1 to 0.3; too few" in three.comment
    assert three.verdict == "2 hold, 1 fails" and [result.seed for result in three.by_seed] == [0, 1, 2]
    six = record(0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
    # the whole range of six values is a 1 - 2/64 = 97 % interval of the median
    assert (six.low, six.high) == (0.1, 0.6) and math.isclose(six.value, 0.35) and "too few" not in six.comment
