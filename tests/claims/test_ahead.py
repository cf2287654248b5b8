"""What is measured ahead in other processes is what would have been measured here."""

from assignadd.claims import ahead
from assignadd.claims.addition import ADDITION
from assignadd.claims.ahead import Job, do_ahead, measuring_jobs
from assignadd.claims.causes import INTERCHANGE
from assignadd.claims.evidence import Evidence
from assignadd.claims.record import judge
from tests.interventions.small import CONFIG, HANDMADE, SEEN


def test_claims_are_judged_alike():
    here, there = (Evidence(HANDMADE, CONFIG, SEEN, 60) for _ in range(2))
    asked = ("interchange", "accuracies", "routing", "probes", "probes_by_row")
    do_ahead([job for job in measuring_jobs([there]) if job.name in asked], 2)
    assert vars(there).keys() | vars(there.causal).keys() >= {*asked}
    records = [repr([judge(c, [e], "") for c in (*ADDITION, *INTERCHANGE)]) for e in (here, there)]
    assert records[0] == records[1]


def test_every_slow_property_is_one():
    e = Evidence(HANDMADE, CONFIG, SEEN, 60)
    for owner, names in ((type(e), ahead.SLOW), (type(e.causal), ahead.SLOW_CAUSAL)):
        assert all(type(vars(owner)[name]).__name__ == "cached_property" for name in names)


def test_a_job_that_fails_is_left_to_who_needs_it():
    kept, heard = [], []
    jobs = [Job("bad", lambda: 1 / 0, kept.append), Job("good", lambda: 7, kept.append)]
    do_ahead(jobs, 2, heard.append)
    assert kept == [7] and sorted(heard) == ["bad", "good"]
