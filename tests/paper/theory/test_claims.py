"""Verdicts follow the numbers: each one turns over when its number does."""

import dataclasses
import json

import pytest

from assignadd.ledger.claim import CANNOT
from assignadd.paper.theory.claims import _summary, statements
from assignadd.stats import FAILS, HOLDS, UNDECIDED


@pytest.fixture(scope="module")
def study(small_study):
    return small_study


@pytest.fixture(scope="module")
def by_id(study):
    found = statements(study)
    assert len({v.id for v in found}) == len(found)
    return {v.id: v for v in found}


def test_records_are_plain(by_id):
    for v in by_id.values():
        record = json.loads(json.dumps(v.record(), allow_nan=False))
        assert set(record) == {"id", "claim", "paper", "value", "low", "high", "verdict", "detail", "rule", "draws"}
        assert all(record[key] for key in ("claim", "paper", "detail"))
        assert v.id.startswith("theory.") and v.verdict in (HOLDS, FAILS, UNDECIDED)
        assert record["low"] is None or record["low"] <= record["value"] <= record["high"]
        assert (v.interval is None) == (record["draws"] == 0)


def test_what_can_be_known_beforehand(by_id):
    """Exact statements hold; the slips are slips at any size: 1/T^2 is not Theta(1/T), V + 1 is not less than 2."""
    assert next(iter(by_id)) == "theory.memory_dominates"
    exact = (
        "mlp_adds",
        "mlp_gradient",
        "logits_bounded",
        "near_uniform",
        "gradient_bounded",
        "expansion",
        "G_1_G_2",
        "G_3",
        "remainder",
        "bound_over_beta",
    )
    assert all(by_id[f"theory.{name}"].verdict == HOLDS for name in exact)
    slips = ("pads_theta", "pads_literal", "G_3_columns", "memory_dominates")
    assert all(by_id[f"theory.{name}"].verdict == FAILS for name in slips)
    assert by_id["theory.pads_theta"].value == pytest.approx(-1, abs=0.1)
    assert by_id["theory.memory_dominates"].value == pytest.approx(4, abs=1e-3)  # V


def test_verdicts_turn_with_their_numbers(study):
    def judged(changed, name):
        return next(v.verdict for v in statements(changed) if v.id == f"theory.{name}")

    wrong = dataclasses.replace(study, proof=study.proof._replace(G_2=1e-3, addition_error=1.0))
    assert judged(wrong, "G_1_G_2") == judged(wrong, "mlp_adds") == FAILS
    wrong = dataclasses.replace(study, extreme_constant=50.0)
    assert judged(wrong, "remainder") == FAILS
    good = dataclasses.replace(study, at=dataclasses.replace(study.at, remainder=0.1))
    assert judged(good, "remainder_small_here") == HOLDS
    assert judged(study, "stated_step_composes") == HOLDS
    for accuracy, expected in ((0.9, FAILS), (0.9501, UNDECIDED), (0.96, HOLDS)):
        result = dataclasses.replace(study.scan.stated_one.result, accuracy=accuracy)
        best = dataclasses.replace(study.scan.stated_one, result=result)
        changed = dataclasses.replace(study, scan=dataclasses.replace(study.scan, stated_one=best))
        assert judged(changed, "stated_step_composes") == expected
    growing = dataclasses.replace(study, constants={8: 1.0, 4096: 2.0})
    assert judged(growing, "bound_over_beta") == FAILS
    turned = dataclasses.replace(study, sharp_cosine=0.995)
    assert judged(turned, "alpha_keeps_direction") == HOLDS and judged(study, "alpha_keeps_direction") == FAILS
    flat = [dataclasses.replace(m, spurious=m.memory) for m in study.step.further]
    changed = dataclasses.replace(study, step=dataclasses.replace(study.step, further=flat))
    assert judged(changed, "spurious_fades") == FAILS


def test_records_over_seeds_have_an_interval_from_six_on():
    none = _summary([], [])
    assert none[:3] == (None, None, None) and none[3] == CANNOT
    assert _summary([0.2], ["one network"]) == (0.2, 0.2, 0.2, "one network.")
    value, low, high, comment = _summary([0.3, 0.1, 0.2], ["x"] * 3)
    assert (value, low, high) == (0.2, None, None) and "from 0.1 to 0.3" in comment
    value, low, high, comment = _summary([0.1, 0.2, 0.3, 0.4, 0.5, 0.6], ["x"] * 6)
    # the whole range of six values is a 1 - 2/64 = 97 % interval of the median
    assert (low, high) == (0.1, 0.6) and value == pytest.approx(0.35) and "too few" not in comment
