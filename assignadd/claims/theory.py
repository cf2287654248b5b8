"""Claims of the appendix: the theory floor's verdicts as records, and those on real training over the seeds at hand."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from assignadd.claims.evidence import Evidence
from assignadd.claims.judge import CANNOT
from assignadd.claims.record import FAILS, HOLDS, UNTESTABLE, Record, SeedResult
from assignadd.measures.theory_verdicts import CLAIMS, real_verdicts
from assignadd.stats import median_interval
from assignadd.theory.setting import Setting
from assignadd.theory.study import Study, theory_study
from assignadd.theory.verdict import Verdict
from assignadd.theory.verdicts import verdicts

LABEL = "thm:c1"
COMMAND = "assignadd theory"


@lru_cache(maxsize=1)
def study() -> Study:
    """At the sizes of the paper's experiment."""
    return theory_study(Setting(), lambda _: None)


def theory_records(evidences: Sequence[Evidence]) -> list[Record]:
    return [*map(_record, verdicts(study())), *_of_training(evidences)]


def _record(v: Verdict) -> Record:
    return Record(_id(v.id), LABEL, f"{v.claim}.", v.paper, v.value, v.value, v.value, 0, "", 0, v.verdict, "", f"{v.detail}.", COMMAND, ())


def _id(name: str) -> str:
    return name.replace(".", "-").replace("_", "-")


def _of_training(evidences: Sequence[Evidence]) -> list[Record]:
    """Over the networks that learned to bind: of the others the theory says nothing."""
    asked = [e for e in evidences if e.learned_binding and e.theory_gradient is not None]
    by_model = [real_verdicts(e.theory_gradient, f"seed {e.seed} of {e.run.name}") for e in asked]
    runs = " ".join(dict.fromkeys(str(e.run.path) for e in asked))
    return [_over_seeds(name, asked, [found[i] for found in by_model], f"{COMMAND} {runs}".strip()) for i, name in enumerate(CLAIMS)]


def _over_seeds(name: str, asked: Sequence[Evidence], found: Sequence[Verdict], command: str) -> Record:
    results = [
        SeedResult(e.run.name, e.seed, v.value, v.value, v.value, v.verdict == HOLDS)
        for e, v in zip(asked, found, strict=True)
        if v.value is not None
    ]
    held, n = sum(r.holds for r in results), len(results)
    verdict = UNTESTABLE if not n else FAILS if not held else HOLDS if held == n else f"holds in {held} of {n} seeds"
    value = median_interval([r.value for r in results])[0] if n else None
    low, high = (min(r.value for r in results), max(r.value for r in results)) if n else (None, None)
    claim, paper = CLAIMS[name]
    comment = (
        CANNOT
        if not n
        else found[0].detail + "."
        if len(found) == 1
        else "Each seed that learned binding; the range over them for an interval."
    )
    return Record(
        _id(f"theory.{name}"), LABEL, f"{claim}.", paper, value, low, high, n, "networks", n, verdict, "", comment, command, tuple(results)
    )
