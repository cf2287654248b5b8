"""The statements of our studies, and those of section 7 and appendix C (theory), as records of the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, cached_property

from assignadd.claims.evidence import Evidence, runs_of
from assignadd.claims.measured import Measured, difference
from assignadd.claims.record import (
    CANNOT,
    NOT_REPORTED,
    OURS,
    Record,
    SeedResult,
    by_interval,
    in_words,
    verdict_over,
)
from assignadd.measures.theory_gradient import CLAIMS, informative_steps, real_statements
from assignadd.model.architecture import PAPER_NEEDS, lacking
from assignadd.stats import mean_interval, median_interval
from assignadd.studies.registry import STUDIES
from assignadd.studies.study import ComputedHypothesis, Hypothesis
from assignadd.studies.table import StudyTable, shipped_study
from assignadd.theory.setting import Setting
from assignadd.theory.study import Study, statements, theory_study
from assignadd.verdicts import NOT_APPLICABLE, UNTESTABLE, Statement

UNIT = "models"
POPULATION = "study "  # and its name
TOO_FEW = "Too few models have this number."


@cache
def shipped_study_records() -> tuple[Record, ...]:
    """The records of every study whose table comes with the package."""
    tables = [shipped_study(study) for study in STUDIES.values()]
    return tuple(record for table in tables if table is not None for record in study_records(table))


def of_a_study(record: Record) -> bool:
    """Whether a record is a statement of one of our studies."""
    return record.population.startswith(POPULATION)


def study_records(table: StudyTable) -> list[Record]:
    """A record for each statement of a study."""
    return [_of_study(table, hypothesis) for hypothesis in table.study.hypotheses]


def _of_study(table: StudyTable, h: Hypothesis | ComputedHypothesis) -> Record:
    found = measured(table, h)
    if found is None:
        value, low, high, n, verdict, comment = None, None, None, 0, UNTESTABLE, TOO_FEW
    else:
        value, low, high, n, verdict = found.value, found.low, found.high, found.n, h.rule.verdict(found)
        comment = f"Each cell has its own models, with the same seeds; after {table.provenance['steps']:,} steps."
        if isinstance(h, Hypothesis) and h.unit:
            comment += f" The units are the {n} networks that were trained again, several times each."
    return Record(
        value, low, high, n, UNIT, n, verdict, by_interval(h.rule), id=h.id, label=OURS, claim=h.claim,
        paper=NOT_REPORTED, comment=comment, command=f"assignadd study {table.study.name} --show",
        population=f"{POPULATION}{table.study.name}",
    )  # fmt: skip


def measured(table: StudyTable, h: Hypothesis | ComputedHypothesis) -> Measured | None:
    """The number of a statement with its interval; None where a cell has too few models to which it applies."""
    if isinstance(h, ComputedHypothesis):
        number = h.number(table)
        if number is None or number.low is None or number.high is None:
            return None
        return Measured(number.value, number.low, number.high, number.n, UNIT)
    own, other = (_of_cell(table, h, cell) if cell is not None else None for cell in (h.cell, h.versus))
    if h.versus is None or own is None:
        return own
    return None if other is None else difference(own, other)


def _of_cell(table: StudyTable, h: Hypothesis, cell: str) -> Measured | None:
    values = table.values(cell, h.outcome, h.among) if h.unit is None else table.unit_means(cell, h.outcome, h.unit)
    if len(values) < 2:
        return None
    if table.is_outcome(h.outcome):
        return Measured.share(float(values.sum()), len(values), UNIT)
    ends = mean_interval(values.tolist())
    return Measured(float(values.mean()), ends.low, ends.high, len(values), UNIT)


LABEL = "thm:c1"
COMMAND = "assignadd theory"


class Theory:
    """The study of the theory at the sizes of the paper's experiment, computed once."""

    @cached_property
    def study(self) -> Study:
        return theory_study(Setting())


PAPER_THEORY = Theory()


# Of what `assignadd theory` shows: identities of algebra, bounds that cannot fail, and statements of ours.
NOT_CLAIMED = frozenset(
    f"theory.{name}"
    for name in (
        "mlp_adds", "mlp_gradient", "expansion", "same_attention", "G_1_G_2", "G_3", "logits_bounded", "near_uniform",
        "gradient_bounded", "remainder_small_here", "bound_and_step_together",
    )
)  # fmt: skip


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
    claimed = [v for v in statements(PAPER_THEORY.study) if v.id not in NOT_CLAIMED]
    return [*map(_of_theory, claimed), *real]


def _of_theory(v: Statement) -> Record:
    found = v.record()
    n, unit = (v.draws, "sequences") if v.draws else (0, "")
    return Record(
        v.value, found["low"], found["high"], n, unit, 0, v.verdict, v.rule, id=_id(v.id), label=LABEL,
        claim=f"{v.claim}.", paper=v.paper, comment=f"{v.detail}.", command=COMMAND,
    )  # fmt: skip


def _id(name: str) -> str:
    return name.replace(".", "-").replace("_", "-")


def _over_seeds(name: str, asked: Sequence[Evidence], found: Sequence[Statement], command: str) -> Record:
    results = [
        SeedResult(e.name, e.seed, v.value, v.value, v.value, v.verdict)
        for e, v in zip(asked, found, strict=True)
        if v.value is not None
    ]
    n = len(results)
    value, low, high, comment = _summary([r.value for r in results], [v.detail for v in found if v.value is not None])
    claim, paper, rule = CLAIMS[name]
    steps = informative_steps(asked[0].steps, asked[0].rows) if asked else []
    return Record(
        value, low, high, n, "networks", n, verdict_over(results), rule, tuple(results), id=_id(f"theory.{name}"),
        label=LABEL, claim=f"{claim}.", paper=paper, comment=comment, command=command, checkpoints=in_words(steps),
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
