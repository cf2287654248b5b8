"""The statements of our studies as records of the ledger."""

from __future__ import annotations

from functools import cache

from assignadd.claims.measured import Measured, difference
from assignadd.claims.record import NOT_REPORTED, OURS, Record
from assignadd.stats import mean_interval
from assignadd.studies.registry import STUDIES
from assignadd.studies.study import ComputedHypothesis, Hypothesis
from assignadd.studies.table import StudyTable, shipped_study
from assignadd.verdicts import UNTESTABLE

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
    return [_record(table, hypothesis) for hypothesis in table.study.hypotheses]


def _record(table: StudyTable, h: Hypothesis | ComputedHypothesis) -> Record:
    found, population = measured(table, h), f"{POPULATION}{table.study.name}"
    if found is None:
        return Record(h.id, OURS, h.claim, NOT_REPORTED, None, None, None, 0, UNIT, 0, UNTESTABLE, _rule(h), TOO_FEW,
                      _command(table), (), population)  # fmt: skip
    comment = f"Each cell has its own models, with the same seeds; after {table.provenance['steps']:,} steps."
    return Record(
        h.id, OURS, h.claim, NOT_REPORTED, found.value, found.low, found.high, found.n, UNIT, found.n,
        h.rule.verdict(found), _rule(h), comment, _command(table), (), population,
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
    values = table.values(cell, h.outcome, h.among)
    if len(values) < 2:
        return None
    if table.is_outcome(h.outcome):
        return Measured.share(float(values.sum()), len(values), UNIT)
    ends = mean_interval(values.tolist())
    return Measured(float(values.mean()), ends.low, ends.high, len(values), UNIT)


def _rule(h: Hypothesis | ComputedHypothesis) -> str:
    return f"{h.rule}; undecided if the 95 % interval reaches to both sides of the threshold"


def _command(table: StudyTable) -> str:
    return f"assignadd study {table.study.name} --show"
