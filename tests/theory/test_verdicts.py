"""Verdicts follow the numbers: each one turns over when its number does."""

import dataclasses
import json

import pytest

from assignadd.theory.setting import Setting
from assignadd.theory.study import theory_study
from assignadd.theory.verdicts import verdicts


@pytest.fixture(scope="module")
def study():
    return theory_study(Setting(N=13, T=10, V=4))


@pytest.fixture(scope="module")
def by_id(study):
    found = verdicts(study)
    assert len({v.id for v in found}) == len(found)
    return {v.id: v for v in found}


def test_records_are_plain(by_id):
    for v in by_id.values():
        record = json.loads(json.dumps(v.record(), allow_nan=False))
        assert set(record) == {"id", "claim", "paper", "value", "verdict", "detail"}
        assert all(record[key] for key in ("claim", "paper", "detail"))
        assert v.id.startswith("theory.") and v.verdict in ("holds", "does not hold", "cannot be tested")


def test_what_can_be_known_beforehand(by_id):
    """Exact statements hold; the slips are slips at any size: 1/T^2 is not Theta(1/T), V + 1 is not less than 2."""
    exact = ("mlp_adds", "mlp_gradient", "logits_bounded", "near_uniform", "gradient_bounded", "expansion", "G_1_G_2", "G_3", "remainder")
    assert all(by_id[f"theory.{name}"].verdict == "holds" for name in exact)
    slips = ("pads_theta", "pads_literal", "G_3_columns", "memory_dominates")
    assert all(by_id[f"theory.{name}"].verdict == "does not hold" for name in slips)
    assert by_id["theory.pads_theta"].value == pytest.approx(-1, abs=0.1)
    assert by_id["theory.memory_dominates"].value == pytest.approx(4, abs=1e-3)  # V


def test_verdicts_turn_with_their_numbers(study):
    def judged(changed, name):
        return next(v.verdict for v in verdicts(changed) if v.id == f"theory.{name}")

    wrong = dataclasses.replace(study, proof=dataclasses.replace(study.proof, G_2=1e-3, addition_error=1.0))
    assert judged(wrong, "G_1_G_2") == judged(wrong, "mlp_adds") == "does not hold"
    wrong = dataclasses.replace(study, extreme_constant=50.0)
    assert judged(wrong, "remainder") == "does not hold"
    good = dataclasses.replace(study, at=dataclasses.replace(study.at, remainder=0.1))
    assert judged(good, "remainder_small_here") == "holds"
    one = dataclasses.replace(study.step.stated[0], accuracy=1.0)
    good = dataclasses.replace(study, step=dataclasses.replace(study.step, stated=[one, *study.step.stated[1:]]))
    assert judged(good, "step_composes") == "holds" and judged(study, "step_composes") == "does not hold"
    flat = [dataclasses.replace(m, spurious=m.memory) for m in study.step.further]
    assert judged(dataclasses.replace(study, step=dataclasses.replace(study.step, further=flat)), "spurious_fades") == "does not hold"
