"""What the ledger and the figures need of each model, measured ahead in several processes at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from assignadd.claims.evidence import Evidence
from assignadd.claims.theory import PAPER_THEORY
from assignadd.training.processes import in_parallel

# The slow properties of a model; those that take longest come first, so that no process is left with one at the end.
SLOW_CAUSAL = (
    "searched", "grafted", "interchange", "circuit_alone", "over_time", "path_answers", "untrained", "frequency_damage",
    "direct_parts",
)  # fmt: skip
SLOW = ("accuracies", "pair_accuracy", "theory_gradient", "curves", "routing", "probes", "probes_by_row")


class Job(NamedTuple):
    """Something to be computed in another process, and what to do with it here."""

    name: str
    compute: Callable[[], Any]
    keep: Callable[[Any], None]


def measuring_jobs(evidences: Sequence[Evidence]) -> list[Job]:
    """The slow properties of these models, and the study of the theory."""
    causal = [_property(e.causal, name) for name in SLOW_CAUSAL for e in evidences]
    return [*causal, _property(PAPER_THEORY, "study"), *(_property(e, name) for name in SLOW for e in evidences)]


def do_ahead(jobs: Sequence[Job], processes: int, listener: Callable[[str], None] = lambda name: None) -> None:
    """Does the jobs in so many processes; `listener` is called with the name of each that is done.

    A job that fails is left undone: who needs its result computes it again, and handles the error.
    """

    def attempt(job: Job) -> list[Any]:
        try:
            return [job.compute()]
        except Exception:
            return []

    for i, found in in_parallel(attempt, jobs, processes):
        for value in found:
            jobs[i].keep(value)
        listener(jobs[i].name)


def _property(owner: object, name: str) -> Job:
    """A cached property, to be kept where it is read from."""
    return Job(name, lambda: getattr(owner, name), lambda value: vars(owner).update({name: value}))
