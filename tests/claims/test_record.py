"""Verdicts on made-up measurements whose answer is known."""

from types import SimpleNamespace

import pytest

from assignadd.claims import judge as judging
from assignadd.claims.judge import judge
from assignadd.claims.record import FAILS, HOLDS, UNMEASURED, UNTESTABLE, AtLeast, AtMost, Between, Claim, Measured


def models(*values, binds=None):
    binds = [True] * len(values) if binds is None else binds
    run = SimpleNamespace(name="made")
    return [SimpleNamespace(run=run, seed=i, value=v, learned_binding=b) for i, (v, b) in enumerate(zip(values, binds, strict=True))]


def claim(rule=AtLeast(0.9), **more):  # noqa: B008 (frozen)
    def measure(e):
        return None if e.value is None else Measured.exactly(e.value, 10, "pairs")

    return Claim("x", "section 4", "It does.", "90 %", measure, rule, **more)


@pytest.mark.parametrize(
    ("values", "verdict"),
    [((0.95,), HOLDS), ((0.9,), HOLDS), ((0.85,), FAILS), ((0.95, 0.85, 0.99), "holds in 2 of 3 seeds"), ((0.8, 0.7), FAILS),
     ((None,), UNTESTABLE), ((None, 0.95), HOLDS)],
)  # fmt: skip
def test_verdicts(values, verdict):
    record = judge(claim(), models(*values), "assignadd claims run")
    assert record.verdict == verdict
    assert record.seeds == len([v for v in values if v is not None]) == len(record.by_seed)


def test_a_number_is_refuted_only_by_its_interval():
    uncertain = Measured.share(94, 100, "sequences")  # 0.94, somewhere between .875 and .972
    assert AtLeast(0.97).holds(uncertain) and not AtLeast(0.98).holds(uncertain)
    assert AtMost(0.88).holds(uncertain) and not AtMost(0.87).holds(uncertain)


def test_an_unmeasured_claim_says_so():
    record = judge(Claim("x", "late", "It does.", "b"), models(0.9), "")
    assert (record.verdict, record.value, record.seeds) == (UNMEASURED, None, 0)


def asked_of_all(monkeypatch, *values):
    """A claim about every seed, before a census of these."""
    monkeypatch.setattr(judging, "population", lambda name: SimpleNamespace(seeds=models(*values)))
    asked = claim().measure
    return judge(Claim("x", "section 3", "All do.", "expected", rule=AtLeast(0.9), seed_measure=asked), [], "")


def test_a_claim_about_all_seeds_needs_thirty_five_or_one_exception(monkeypatch):
    assert asked_of_all(monkeypatch, *[0.95] * 34).verdict == UNTESTABLE
    enough = asked_of_all(monkeypatch, *[0.95] * 35)
    assert (enough.verdict, enough.value, enough.n, enough.unit, enough.seeds) == (HOLDS, 1.0, 35, "seeds", 35)
    some = asked_of_all(monkeypatch, 0.95, 0.5, None)
    assert (some.verdict, some.value, some.seeds) == ("holds in 1 of 2 seeds", 0.5, 2)
    assert some.low < 0.5 < some.high and enough.low > 0.9  # Wilson's intervals of the share of seeds


def test_a_number_of_a_population_is_judged_as_it_is():
    threshold = Claim(
        "f", "generalization_combined", "f", "0.25", rule=Between(0.2, 0.3), measured=lambda: Measured(0.27, 0.25, 0.31, 200, "seeds")
    )
    assert judge(threshold, [], "").verdict == HOLDS and judge(threshold, [], "").seeds == 200
    beside = Claim(
        "f", "generalization_combined", "f", "0.25", rule=Between(0.2, 0.3), measured=lambda: Measured(0.4, 0.35, 0.45, 200, "seeds")
    )
    assert judge(beside, [], "").verdict == FAILS
    assert judge(Claim("f", "x", "f", "0", rule=Between(0, 1), measured=lambda: None), [], "").verdict == UNTESTABLE


def test_the_value_is_that_of_the_seeds_that_bind_and_the_verdict_that_of_all():
    record = judge(claim(), models(0.92, 0.1, 0.96, binds=[True, False, True]), "")
    assert (record.value, record.low, record.high, record.n) == (pytest.approx(0.94), 0.92, 0.96, 20)
    assert record.verdict == "holds in 2 of 3 seeds" and "of the 2 seeds that learned binding; it holds in 2 of them" in record.comment
    assert judge(claim(), models(0.2, 0.1, binds=[False, False]), "").value == pytest.approx(0.15)


def test_many_seeds_have_the_interval_of_their_median():
    record = judge(claim(), models(*[i / 20 for i in range(20)]), "")
    assert (record.value, record.low, record.high) == (pytest.approx(0.475), 5 / 20, 14 / 20)  # 6th smallest and largest of 20


def test_a_mean_has_the_normal_interval():
    m = Measured.mean(0.5, 0.2, 400, "pairs")
    assert (m.low, m.high) == (pytest.approx(0.5 - 1.96 * 0.01, abs=1e-6), pytest.approx(0.5 + 1.96 * 0.01, abs=1e-6))
