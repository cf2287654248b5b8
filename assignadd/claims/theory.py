"""Claims of section 7 and appendix C as records: about the theory itself, and about the training of given networks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from assignadd.claims.evidence import Evidence, runs_of
from assignadd.claims.record import CANNOT, Record, SeedResult, verdict_over
from assignadd.measures.theory_gradient import CLAIMS, real_statements
from assignadd.model.architecture import PAPER_NEEDS, lacking
from assignadd.stats import median_interval
from assignadd.theory.setting import Setting
from assignadd.theory.study import Study, statements, theory_study
from assignadd.verdicts import HOLDS, NOT_APPLICABLE, Statement

LABEL = "thm:c1"
COMMAND = "assignadd theory"


class Theory:
    """The study of the theory at the sizes of the paper's experiment, computed once."""

    @cached_property
    def study(self) -> Study:
        return theory_study(Setting())


PAPER_THEORY = Theory()


def theory_records(evidences: Sequence[Evidence]) -> list[Record]:
    """Records of the theory itself, which need no network, then of the training of these models.

    The theory only predicts how binding is learned, so networks that did not learn it are left out.
    """
    defined = [e for e in evidences if not lacking(e.config, *PAPER_NEEDS)]
    undefined = "" if defined or not evidences else lacking(evidences[0].config, *PAPER_NEEDS)
    asked = [e for e in defined if e.learned_binding and e.theory_gradient is not None]
    by_model = [real_statements(e.theory_gradient, f"seed {e.seed} of {e.name}") for e in asked]
    command = " ".join([COMMAND, *(str(run.path) for run in runs_of(asked))])
    real = [_over_seeds(name, asked, [found[i] for found in by_model], command) for i, name in enumerate(CLAIMS)]
    if undefined:
        words = f"Not defined for this architecture: it {undefined}."
        real = [replace(record, verdict=NOT_APPLICABLE, comment=words) for record in real]
    return [*map(_record, statements(PAPER_THEORY.study)), *real]


def _record(v: Statement) -> Record:
    found = v.record()
    n, unit = (v.draws, "sequences") if v.draws else (0, "")
    return Record(
        _id(v.id), LABEL, f"{v.claim}.", v.paper, v.value, found["low"], found["high"], n, unit, 0, v.verdict, v.rule,
        f"{v.detail}.", COMMAND, (),
    )  # fmt: skip


def _id(name: str) -> str:
    return name.replace(".", "-").replace("_", "-")


def _over_seeds(name: str, asked: Sequence[Evidence], found: Sequence[Statement], command: str) -> Record:
    results = [
        SeedResult(e.name, e.seed, v.value, v.value, v.value, v.verdict == HOLDS, v.verdict)
        for e, v in zip(asked, found, strict=True)
        if v.value is not None
    ]
    n = len(results)
    value, low, high, comment = _summary([r.value for r in results], [v.detail for v in found if v.value is not None])
    claim, paper, rule = CLAIMS[name]
    return Record(
        _id(f"theory.{name}"), LABEL, f"{claim}.", paper, value, low, high, n, "networks", n, verdict_over(results),
        rule, comment, command, tuple(results),
    )  # fmt: skip


def _summary(values: Sequence[float], details: Sequence[str]) -> tuple[float | None, float | None, float | None, str]:
    """Median over seeds, its interval (from six seeds on) and a comment; one network has its number at both ends."""
    if not values:
        return None, None, None, CANNOT
    value, interval = median_interval(values)
    if len(values) == 1:
        return value, value, value, f"{details[0]}."
    n = len(values)
    said = f"Median of the {n} seeds that learned binding; they range from {min(values):.3g} to {max(values):.3g}"
    if interval is None:
        return value, None, None, f"{said}, too few for an interval of the median."
    return value, interval.low, interval.high, f"{said}."
