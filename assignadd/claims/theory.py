"""Claims of section 7 and appendix C: the theory's verdicts as records, and those on real training over the seeds at hand."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from assignadd.claims.evidence import Evidence, runs_of
from assignadd.claims.judge import CANNOT
from assignadd.claims.record import Record, SeedResult, verdict_over
from assignadd.measures.theory_verdicts import CLAIMS, RULES, real_statements
from assignadd.stats import median_interval
from assignadd.theory.setting import Setting
from assignadd.theory.study import Study, statements, theory_study
from assignadd.verdicts import HOLDS, Statement

LABEL = "thm:c1"
COMMAND = "assignadd theory"


@lru_cache(maxsize=1)
def study() -> Study:
    """At the sizes of the paper's experiment."""
    return theory_study(Setting(), lambda _: None)


def theory_records(evidences: Sequence[Evidence]) -> list[Record]:
    """A record for each verdict on the theory itself, which needs no network, then for those on the training of these models."""
    return [*map(_record, statements(study())), *_of_training(evidences)]


def _record(v: Statement) -> Record:
    found = v.record()
    n, unit = (v.draws, "sequences") if v.draws else (0, "")
    return Record(
        _id(v.id), LABEL, f"{v.claim}.", v.paper, v.value, found["low"], found["high"], n, unit, 0, v.verdict, v.rule, f"{v.detail}.",
        COMMAND, (),
    )  # fmt: skip


def _id(name: str) -> str:
    return name.replace(".", "-").replace("_", "-")


def _of_training(evidences: Sequence[Evidence]) -> list[Record]:
    """Over the networks that learned to bind: of the others the theory says nothing."""
    asked = [e for e in evidences if e.learned_binding and e.theory_gradient is not None]
    by_model = [real_statements(e.theory_gradient, f"seed {e.seed} of {e.name}") for e in asked]
    runs = " ".join(str(run.path) for run in runs_of(asked))
    return [
        _over_seeds(name, asked, [found[i] for found in by_model], f"{COMMAND} {runs}".strip())
        for i, name in enumerate(CLAIMS)
    ]


def _over_seeds(name: str, asked: Sequence[Evidence], found: Sequence[Statement], command: str) -> Record:
    """The median over seeds, with its interval from six seeds on; fewer have none, and the comment gives their range."""
    results = [
        SeedResult(e.name, e.seed, v.value, v.value, v.value, v.verdict == HOLDS, v.verdict)
        for e, v in zip(asked, found, strict=True)
        if v.value is not None
    ]
    n = len(results)
    value, low, high, comment = _summary([r.value for r in results], [v.detail for v in found if v.value is not None])
    claim, paper = CLAIMS[name]
    return Record(
        _id(f"theory.{name}"), LABEL, f"{claim}.", paper, value, low, high, n, "networks", n, verdict_over(results), RULES[name],
        comment, command, tuple(results),
    )  # fmt: skip


def _summary(values: Sequence[float], details: Sequence[str]) -> tuple[float | None, float | None, float | None, str]:
    """Value, ends of its interval and comment; one network stands for itself, with its own number at both ends."""
    if not values:
        return None, None, None, CANNOT
    value, interval = median_interval(values)
    if len(values) == 1:
        return value, value, value, f"{details[0]}."
    said = f"Median of the {len(values)} seeds that learned binding; they range from {min(values):.3g} to {max(values):.3g}"
    if interval is None:
        return value, None, None, f"{said}, too few for an interval of the median."
    return value, interval.low, interval.high, f"{said}."
