"""What the ledger and the figures need of each model, measured ahead in several processes at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from assignadd.claims.evidence import Evidence
from assignadd.measures.sequences import any_sequences
from assignadd.model.forward import answers, trace
from assignadd.training.processes import in_parallel

# The slow properties of a model; those that take longest come first, so that no process is left with one at the end.
# What one process measures together belongs together, or takes little time.
CAUSAL = (
    ("interchange",), ("circuit_alone",), ("grafted",), ("path_answers", "path_circuits"),
    ("frequency_damage", "direct_parts"),
)  # fmt: skip
MEASURED = (
    ("end_accuracies", "in_banned_slots"), ("pair_accuracy",), ("routing", "probes", "probes_by_row"),
    ("waves", "filtered", "across_types", "on_template", "against_ov2"),
)  # fmt: skip
# Those that only networks that bind are asked for.
CAUSAL_IF_BINDING = (("over_time",),)
IF_BINDING = (("theory_gradient",),)


class Job(NamedTuple):
    """Something to be computed in another process, and what to do with it here."""

    name: str
    compute: Callable[[], Any]
    keep: Callable[[Any], None]


def measure_ahead(
    evidences: Sequence[Evidence],
    processes: int,
    listener: Callable[[str], None] = lambda name: None,
    others: Sequence[Job] = (),
) -> None:
    """Measures the slow properties of these models, and does the other jobs, in so many processes.

    What every network is asked for comes first, with the accuracies that decide what else is asked of it. `listener`
    is called with the name of each job that is done.
    """
    if evidences and processes > 1:
        _load_kernels(evidences[0])
    do_ahead([*others, *jobs_of_all(evidences)], processes, listener)
    do_ahead(jobs_by_binding(evidences), processes, listener)


def _load_kernels(e: Evidence) -> None:
    """Loads the compiled kernels, which takes most of a second, here and not in every process that is forked."""
    with suppress(Exception):  # whoever needs them handles the error
        tokens = any_sequences([e.config], e.seen[None], e.types[0], 1).tokens
        answers(e.stack, tokens)
        trace(e.stack, tokens)


def jobs_of_all(evidences: Sequence[Evidence]) -> list[Job]:
    """The slow properties that every model is asked for."""
    return [
        *(properties(e, "curves", "accuracies") for e in evidences),
        *(properties(e.causal, *names) for names in CAUSAL for e in evidences),
        *(properties(e, *names) for names in MEASURED for e in evidences),
    ]


def jobs_by_binding(evidences: Sequence[Evidence]) -> list[Job]:
    """The slow properties that depend on whether a model binds; their accuracies are known."""
    binding = [e for e in evidences if e.learned_binding]
    return [
        *(properties(e.causal, *names) for names in CAUSAL_IF_BINDING for e in binding),
        *(properties(e, *names) for names in IF_BINDING for e in binding),
    ]


def properties(owner: object, *names: str) -> Job:
    """Cached properties, to be kept where they are read from; one that fails is left out."""

    def compute() -> dict[str, Any]:
        found = {}
        for name in names:
            with suppress(Exception):
                found[name] = getattr(owner, name)
        return found

    return Job(names[0], compute, vars(owner).update)


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
