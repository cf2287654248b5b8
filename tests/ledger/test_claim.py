"""Verdicts on made-up measurements whose answer is known."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from assignadd.config import PRESETS, Member
from assignadd.dynamics.trajectory import binds as does_bind
from assignadd.ledger.claim import (
    CANNOT,
    NO_POPULATION,
    NO_SEED,
    NONE_BINDS,
    NOT_REPORTED,
    Claim,
    Reading,
    SeedResult,
    find,
    in_words,
    judge,
    uses,
    verdict_over,
)
from assignadd.model.architecture import NotDefined
from assignadd.model.stack import initial_stack
from assignadd.network import Network, store_result
from assignadd.stats import FAILS, HOLDS, UNDECIDED, UNMEASURED, UNTESTABLE, AtLeast, Between, Measured, wilson
from assignadd.task.splits import pair_split

CONFIG = Member(0).config(PRESETS["smoke"])


class Made(Network):
    """A network of which one value is given and nothing is measured."""

    def __init__(self, seed, value, binds):
        super().__init__(initial_stack(CONFIG, [seed]), CONFIG, pair_split(CONFIG.task, 0), seed=seed, name="made")
        self.value = value
        store_result(self, does_bind, binds)


def models(*values, binds=None):
    binds = [True] * len(values) if binds is None else binds
    return [Made(seed, value, own) for seed, (value, own) in enumerate(zip(values, binds, strict=True))]


def claim(rule=AtLeast(0.9), **more):  # noqa: B008 (frozen)
    def measure(e):
        return None if e.value is None else Measured.exactly(e.value, 10, "pairs")

    return Claim("x", "section 4", "It does.", "90 %", measure, rule, **more)


@pytest.mark.parametrize(
    ("values", "verdict"),
    [((0.95,), HOLDS), ((0.9,), HOLDS), ((0.85,), FAILS), ((0.95, 0.85, 0.99), "2 hold, 1 fails"),
     ((0.8, 0.7), FAILS), ((None,), UNTESTABLE), ((None, 0.95), HOLDS)],
)  # fmt: skip
def test_verdicts(values, verdict):
    record = judge(claim(), models(*values), "assignadd claims run")
    assert record.verdict == verdict
    assert record.seeds == len([v for v in values if v is not None]) == len(record.by_seed)


def sampled(e):
    """The value of a made-up network as a share of 100 sequences."""
    return Measured.share(e.value * 100, 100, "sequences")


def test_seeds_are_counted_by_their_verdicts_which_add_up():
    """By Wilson's intervals of 100 sequences: [.963, 1], [.850, .959], [.802, .930] and [.133, .289]."""
    record = judge(Claim("x", "section 4", "It does.", "90 %", sampled, AtLeast(0.9)), models(1.0, 0.92, 0.88, 0.2), "")
    assert record.verdict == "1 holds, 1 fails, 2 undecided"  # .92 is above, but its interval is not
    assert [r.verdict for r in record.by_seed] == [HOLDS, UNDECIDED, UNDECIDED, FAILS]


@pytest.mark.parametrize(
    ("counts", "verdict"),
    [((2, 0, 0), HOLDS), ((0, 3, 0), FAILS), ((0, 0, 1), UNDECIDED), ((0, 0, 0), UNTESTABLE),
     ((2, 1, 1), "2 hold, 1 fails, 1 undecided"), ((1, 0, 3), "1 holds, 3 undecided"),
     ((0, 2, 2), "2 fail, 2 undecided"), ((1, 1, 0), "1 holds, 1 fails")],
)  # fmt: skip
def test_a_verdict_over_several_names_each_part(counts, verdict):
    """Two hold, one fails and one is open of four: never "holds in 2 of 4 seeds (3 undecided)"."""
    verdicts = [v for v, n in zip((HOLDS, FAILS, UNDECIDED), counts, strict=True) for _ in range(n)]
    assert verdict_over([SeedResult("r", i, 0.5, 0.4, 0.6, v) for i, v in enumerate(verdicts)]) == verdict


def test_an_unmeasured_claim_says_so():
    record = judge(Claim("x", "late", "It does.", "b"), models(0.9), "")
    assert (record.verdict, record.value, record.seeds, record.rule) == (UNMEASURED, None, 0, "")
    with_rule = judge(Claim("x", "late", "It does.", "b", rule=AtLeast(0.9)), models(0.9), "")
    assert (with_rule.verdict, with_rule.rule[:12]) == (UNMEASURED, "at least 0.9")


def test_an_error_of_a_measure_is_what_its_record_says():
    record = judge(replace(claim(), measure=lambda e: 1 / 0), models(0.9), "")
    assert (record.verdict, record.value, record.seeds) == ("could not be measured", None, 0)
    assert record.comment == "The measure failed with ZeroDivisionError: division by zero"
    assert record.rule.startswith("at least 0.9")


def test_networks_without_the_quantity_are_left_out_and_alone_are_not_applicable():
    def measure(network):
        if network.value < 0:
            raise NotDefined("QK 2", "needs two layers")
        return Measured.exactly(network.value, 10, "pairs")

    asked = replace(claim(), measure=measure)
    some = judge(asked, models(-1, 0.95, -1), "")
    assert (some.verdict, some.value, some.seeds, [r.seed for r in some.by_seed]) == (HOLDS, 0.95, 1, [1])
    none = judge(asked, models(-1, -1), "")
    assert (none.verdict, none.value) == ("not applicable", None)
    assert none.comment == "Not defined for this architecture: it needs two layers."


def test_what_cannot_be_tested_says_what_is_missing():
    assert judge(claim(), models(None), "").comment == CANNOT  # it binds, and has no number
    assert judge(claim(if_binding=False), [], "").comment == CANNOT
    assert asked_of_all(None, None).comment == NO_SEED
    assert asked_of_all().comment == NO_POPULATION
    assert judge(population_claim(None), [], "", of()).comment == NO_POPULATION
    assert judge(population_claim(None), [], "", of(is_there=True)).comment == NO_SEED


def asked_of_all(*values, measure=None):
    """The record of a claim about every seed, asked of a census of these."""
    seeds = [SimpleNamespace(population="made", seed=i, value=v) for i, v in enumerate(values)]
    populations = SimpleNamespace(seeds=seeds, of=lambda sweep: (1,), name=lambda sweep: "made", as_in_the_paper=True)
    asked = Claim("x", "section 3", "All do.", "expected", rule=AtLeast(0.9), seed_measure=measure or claim().measure)
    return judge(asked, [], "", populations)


def test_a_record_says_more_where_there_is_a_number_and_about_the_first_network_that_has_one():
    made = claim(comment="Much.", detail=lambda network: f"has {network.value}")
    assert judge(made, models(None, 0.95), "").comment == "Much. Seed 1: has 0.95."
    assert "Much." not in judge(made, models(None), "").comment
    assert judge(replace(made, rule=None), models(0.95), "").comment == "Much."
    ours = Claim.ours("x", "It does.", made.measure, made.rule, detail=made.detail)
    assert judge(ours, models(0.95), "").comment == "Seed 0: has 0.95."


def test_a_claim_about_all_seeds_needs_thirty_five_or_one_exception():
    assert asked_of_all(*[0.95] * 34).verdict == UNTESTABLE
    enough = asked_of_all(*[0.95] * 35)
    assert (enough.verdict, enough.value, enough.n, enough.unit, enough.seeds) == (HOLDS, 1.0, 35, "seeds", 35)
    assert [replace(enough, n=n).sample for n in (0, 1, 35, 2000)] == ["", "1 seed", "35 seeds", "2,000 seeds"]
    some = asked_of_all(0.95, 0.5, None)
    assert (some.verdict, some.value, some.seeds, some.population) == ("1 holds, 1 fails", 0.5, 2, "made")
    assert some.low < 0.5 < some.high and enough.low > 0.9  # Wilson's intervals of the share of seeds
    assert asked_of_all().verdict == UNTESTABLE and "--census" in asked_of_all().comment


def test_an_undecided_seed_may_hold_or_not():
    """Of ten seeds six hold, one fails and three are open: 6 to 9 hold, and Wilson's interval is around both."""
    found = asked_of_all(*[1.0] * 6, 0.1, *[0.92] * 3, measure=sampled)
    assert (found.verdict, found.value, found.n) == ("6 hold, 1 fails, 3 undecided", 0.6, 10)
    assert (found.low, found.high) == pytest.approx((wilson(6, 10).low, wilson(9, 10).high))


def population_claim(found):
    return Claim(
        "f",
        "generalization_combined",
        "f",
        "0.25",
        rule=Between(0.2, 0.3),
        population_measure=lambda _: found,
        sweep="fraction",
    )


def of(papers_task=True, is_there=False):
    return SimpleNamespace(
        as_in_the_paper=papers_task, of=lambda sweep: (1,) * is_there, name=lambda sweep: f"my {sweep}"
    )


def test_a_number_of_a_population_is_judged_as_it_is():
    record = judge(population_claim(Measured(0.27, 0.25, 0.29, 200, "seeds")), [], "", of())
    assert (record.verdict, record.seeds, record.population) == (HOLDS, 200, "my fraction")
    assert judge(population_claim(Measured(0.27, 0.25, 0.31, 200, "seeds")), [], "", of()).verdict == UNDECIDED
    assert judge(population_claim(Measured(0.4, 0.35, 0.45, 200, "seeds")), [], "", of()).verdict == FAILS
    assert judge(population_claim(None), [], "", of()).verdict == UNTESTABLE
    of_settings = judge(population_claim(Measured(0.27, 0.25, 0.29, 12, "settings")), [], "", of())
    assert (of_settings.n, of_settings.unit, of_settings.seeds) == (12, "settings", 0)


def test_the_papers_number_is_not_held_against_another_task():
    record = judge(population_claim(Measured(0.4, 0.35, 0.45, 200, "seeds")), [], "", of(papers_task=False))
    assert (record.verdict, record.value) == (UNTESTABLE, 0.4) and "another task" in record.comment


def test_a_claim_about_binding_is_judged_on_the_networks_that_bind():
    """Number and verdict have one denominator: none fails because it never binds."""
    record = judge(claim(), models(0.92, 0.1, 0.96, binds=[True, False, True]), "")
    assert (record.value, record.low, record.high, record.n) == (pytest.approx(0.94), None, None, 20)
    assert "Median of 2 seeds, from 0.92 to 0.96; too few for an interval." in record.comment
    assert (record.verdict, record.seeds, [r.seed for r in record.by_seed]) == (HOLDS, 2, [0, 2])
    none = judge(claim(), models(0.2, 0.1, binds=[False, False]), "")
    assert (none.verdict, none.value, none.seeds, none.comment) == (UNTESTABLE, None, 0, NONE_BINDS)
    every = judge(claim(if_binding=False), models(0.92, 0.1, 0.96, binds=[True, False, True]), "")
    assert (every.verdict, every.value, every.seeds) == ("2 hold, 1 fails", 0.92, 3)


def test_readings_are_second_lines_with_their_own_rule_and_number():
    twice = Reading("twice", "Twice as much does.", AtLeast(1.9), lambda e: Measured.exactly(2 * e.value, 5, "rows"))
    asked = claim(readings=(Reading("strict", "All of it does.", AtLeast(1.0)), twice))
    record = judge(asked, models(0.95, 1.0), "assignadd claims run")
    strict, doubled = record.readings
    assert (record.verdict, strict.verdict, doubled.verdict) == (HOLDS, "1 holds, 1 fails", HOLDS)
    assert (strict.value, strict.unit) == (record.value, "pairs") and (doubled.value, doubled.unit) == (1.95, "rows")
    found = find([record], "x:strict")
    assert (found.id, found.claim, found.verdict) == ("x:strict", "All of it does.", strict.verdict)
    assert (found.paper, found.label, found.readings) == (NOT_REPORTED, "section 4", ())
    assert find([record], "x") is record and find([record], "x:none") is None and find([record], "y") is None


def test_a_record_names_the_checkpoints_that_were_looked_at():
    @uses(lambda e: [3000, 1000, 2000])
    def measure(e):
        return Measured.exactly(e.value, 1, "network")

    assert judge(replace(claim(), measure=measure), models(0.95), "").checkpoints == "1,000 to 3,000 (3)"
    assert judge(claim(), models(0.95), "").checkpoints == "0"  # the network's last one, unless said
    assert judge(claim(), models(None), "").checkpoints == ""  # which was not measured
    assert [in_words(steps) for steps in ([], [5], [1, 2000])] == ["", "5", "1 and 2,000"]


def test_a_single_network_has_the_interval_of_its_own_number():
    record = judge(Claim("x", "section 4", "It does.", "90 %", sampled, AtLeast(0.9)), models(0.92), "")
    interval = wilson(92, 100)
    assert (record.value, record.low, record.high) == (0.92, interval.low, interval.high)
    assert (record.n, record.unit, record.comment) == (100, "sequences", "")


@pytest.mark.parametrize(("n", "ends"), [(5, (None, None)), (6, (0.0, 0.25))])
def test_the_median_has_an_interval_from_six_networks_on(n, ends):
    """All six lie on one side of the median with probability 2 / 2^6 = 3.1 %, five with 6.2 %."""
    record = judge(claim(), models(*[i / 20 for i in range(n)]), "")
    assert (record.low, record.high) == ends


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
