"""Verdicts on made-up measurements whose answer is known."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from assignadd.claims.evidence import Evidence
from assignadd.claims.measured import Measured
from assignadd.claims.record import Claim, judge
from assignadd.config import PRESETS, Member
from assignadd.model.stack import initial_stack
from assignadd.task.splits import pair_split
from assignadd.verdicts import FAILS, HOLDS, UNDECIDED, UNMEASURED, UNTESTABLE, AtLeast, Between

CONFIG = Member(0).config(PRESETS["smoke"])


class Made(Evidence):
    """A network of which one value is given and nothing is measured."""

    def __init__(self, seed, value, binds):
        super().__init__(initial_stack(CONFIG, [seed]), CONFIG, pair_split(CONFIG.task, 0), seed=seed, name="made")
        self.value, self.learned_binding = value, binds


def models(*values, binds=None):
    binds = [True] * len(values) if binds is None else binds
    return [Made(seed, value, own) for seed, (value, own) in enumerate(zip(values, binds, strict=True))]


def claim(rule=AtLeast(0.9), **more):  # noqa: B008 (frozen)
    def measure(e):
        return None if e.value is None else Measured.exactly(e.value, 10, "pairs")

    return Claim("x", "section 4", "It does.", "90 %", measure, rule, **more)


@pytest.mark.parametrize(
    ("values", "verdict"),
    [((0.95,), HOLDS), ((0.9,), HOLDS), ((0.85,), FAILS), ((0.95, 0.85, 0.99), "holds in 2 of 3 seeds"),
     ((0.8, 0.7), FAILS), ((None,), UNTESTABLE), ((None, 0.95), HOLDS)],
)  # fmt: skip
def test_verdicts(values, verdict):
    record = judge(claim(), models(*values), "assignadd claims run")
    assert record.verdict == verdict
    assert record.seeds == len([v for v in values if v is not None]) == len(record.by_seed)


def test_seeds_are_counted_by_their_value_with_the_undecided_beside():
    def measure(e):
        return Measured.share(e.value * 100, 100, "sequences")

    record = judge(Claim("x", "section 4", "It does.", "90 %", measure, AtLeast(0.9)), models(1.0, 0.92, 0.88, 0.2), "")
    assert record.verdict == "holds in 2 of 4 seeds (2 undecided)"
    assert [(r.holds, r.verdict) for r in record.by_seed] == [
        (True, HOLDS),
        (True, UNDECIDED),
        (False, UNDECIDED),
        (False, FAILS),
    ]


def test_an_unmeasured_claim_says_so():
    record = judge(Claim("x", "late", "It does.", "b"), models(0.9), "")
    assert (record.verdict, record.value, record.seeds) == (UNMEASURED, None, 0)


def asked_of_all(*values):
    """The record of a claim about every seed, asked of a census of these."""
    seeds = [SimpleNamespace(population="made", seed=i, value=v) for i, v in enumerate(values)]
    populations = SimpleNamespace(seeds=seeds, census_name="made", as_in_the_paper=True)
    asked = claim().measure
    return judge(
        Claim("x", "section 3", "All do.", "expected", rule=AtLeast(0.9), seed_measure=asked), [], "", populations
    )


def test_a_claim_about_all_seeds_needs_thirty_five_or_one_exception():
    assert asked_of_all(*[0.95] * 34).verdict == UNTESTABLE
    enough = asked_of_all(*[0.95] * 35)
    assert (enough.verdict, enough.value, enough.n, enough.unit, enough.seeds) == (HOLDS, 1.0, 35, "seeds", 35)
    assert [replace(enough, n=n).sample for n in (0, 1, 35, 2000)] == ["", "1 seed", "35 seeds", "2,000 seeds"]
    some = asked_of_all(0.95, 0.5, None)
    assert (some.verdict, some.value, some.seeds, some.population) == ("holds in 1 of 2 seeds", 0.5, 2, "made")
    assert some.low < 0.5 < some.high and enough.low > 0.9  # Wilson's intervals of the share of seeds
    assert asked_of_all().verdict == UNTESTABLE and "--census" in asked_of_all().comment


def population_claim(found):
    return Claim(
        "f", "generalization_combined", "f", "0.25", rule=Between(0.2, 0.3), measured=lambda _: found, sweep="fraction"
    )


def of(papers_task=True):
    return SimpleNamespace(as_in_the_paper=papers_task, there=lambda sweep: False, name=lambda sweep: f"my {sweep}")


def test_a_number_of_a_population_is_judged_as_it_is():
    record = judge(population_claim(Measured(0.27, 0.25, 0.29, 200, "seeds")), [], "", of())
    assert (record.verdict, record.seeds, record.population) == (HOLDS, 200, "my fraction")
    assert judge(population_claim(Measured(0.27, 0.25, 0.31, 200, "seeds")), [], "", of()).verdict == UNDECIDED
    assert judge(population_claim(Measured(0.4, 0.35, 0.45, 200, "seeds")), [], "", of()).verdict == FAILS
    assert judge(population_claim(None), [], "", of()).verdict == UNTESTABLE


def test_the_papers_number_is_not_held_against_another_task():
    record = judge(population_claim(Measured(0.4, 0.35, 0.45, 200, "seeds")), [], "", of(papers_task=False))
    assert (record.verdict, record.value) == (UNTESTABLE, 0.4) and "another task" in record.comment


def test_the_value_is_that_of_the_seeds_that_bind_and_the_verdict_that_of_all():
    record = judge(claim(), models(0.92, 0.1, 0.96, binds=[True, False, True]), "")
    assert (record.value, record.low, record.high, record.n) == (pytest.approx(0.94), None, None, 20)
    assert "Median of 2 seeds, from 0.92 to 0.96; too few for an interval." in record.comment
    assert (
        record.verdict == "holds in 2 of 3 seeds"
        and "of the 2 seeds that learned binding; it holds in 2 of them" in record.comment
    )
    assert judge(claim(), models(0.2, 0.1, binds=[False, False]), "").value == pytest.approx(0.15)


def test_many_seeds_have_the_interval_of_their_median():
    record = judge(claim(), models(*[i / 20 for i in range(20)]), "")
    assert (record.value, record.low, record.high) == (
        pytest.approx(0.475),
        5 / 20,
        14 / 20,
    )  # 6th smallest and largest of 20


def test_a_mean_has_the_normal_interval():
    m = Measured.mean(0.5, 0.2, 400, "pairs")
    assert (m.low, m.high) == (pytest.approx(0.5 - 1.96 * 0.01, abs=1e-6), pytest.approx(0.5 + 1.96 * 0.01, abs=1e-6))
