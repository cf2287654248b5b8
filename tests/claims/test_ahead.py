"""What is measured ahead in other processes is what would have been measured here."""

from functools import cached_property

from assignadd.claims import ahead
from assignadd.claims.addition import ADDITION
from assignadd.claims.ahead import Job, do_ahead, jobs_of_all, properties
from assignadd.claims.causes import INTERCHANGE
from assignadd.claims.evidence import Evidence
from assignadd.claims.record import judge
from assignadd.model.architecture import NotDefined
from tests.interventions.small import CONFIG, HANDMADE, SEEN


def test_claims_are_judged_alike():
    here, there = (Evidence(HANDMADE, CONFIG, SEEN, 60) for _ in range(2))
    asked = ("interchange", "accuracies", "routing", "probes", "probes_by_row")
    do_ahead([job for job in jobs_of_all([there]) if job.name in (*asked, "curves")], 2)
    assert vars(there).keys() | vars(there.causal).keys() >= {*asked, "curves"}  # which says whether it binds
    records = [repr([judge(c, [e], "") for c in (*ADDITION, *INTERCHANGE)]) for e in (here, there)]
    assert records[0] == records[1]


def test_every_slow_property_is_one():
    e = Evidence(HANDMADE, CONFIG, SEEN, 60)
    of_model, causal = ahead.MEASURED + ahead.IF_BINDING, ahead.CAUSAL + ahead.CAUSAL_IF_BINDING
    for owner, groups in ((type(e), of_model), (type(e.causal), causal)):
        assert all(type(vars(owner)[name]).__name__ == "cached_property" for names in groups for name in names)


def test_a_property_that_is_not_defined_does_not_keep_others_from_being_measured():
    class Owner:
        @cached_property
        def bad(self):
            raise NotDefined("a measure", "has no MLP")

        @cached_property
        def good(self):
            return 7

    owner = Owner()
    do_ahead([properties(owner, "bad", "good")], 2)
    assert vars(owner) == {"good": 7}


def test_a_job_that_fails_is_left_to_who_needs_it():
    kept, heard = [], []
    jobs = [Job("bad", lambda: 1 / 0, kept.append), Job("good", lambda: 7, kept.append)]
    do_ahead(jobs, 2, heard.append)
    assert kept == [7] and sorted(heard) == ["bad", "good"]
