"""The statements of a study, as records with their verdicts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from assignadd.ledger.claim import NOT_REPORTED, OURS, Record, by_interval
from assignadd.stats.measured import Measured
from assignadd.stats.verdicts import UNTESTABLE, Rule
from assignadd.study.ask import Computed, Question, sentence, slug
from assignadd.study.study import Study
from assignadd.study.table import StudyTable

TOO_FEW = "Too few networks have this number."


@dataclass(frozen=True)
class Statement:
    """One sentence of a study with the rule that decides it."""

    id: str
    says: str
    rule: Rule
    number: Callable[[StudyTable], Measured | None]


def statements(study: Study) -> list[Statement]:
    """Every statement of a study, in the order of its questions."""
    found: list[Statement] = []
    for question in study.ask:
        if isinstance(question, Computed):
            found.append(Statement(f"{study.name}-{question.id}", question.says, question.rule, question.number))
            continue
        cells = question.number.cells or [c.label for c in study.cells if c.label != question.other]
        found += [_statement(study, question, cell) for cell in cells]
    return found


def _statement(study: Study, question: Question, cell: str) -> Statement:
    number, other, rule = question.number, question.other, question.rule

    def measured(table: StudyTable) -> Measured | None:
        return table.measured(number, cell) if other is None else table.difference(number, cell, other)

    parts = [study.name, slug(number.column), slug(cell), *(["than", slug(other)] if other else [])]
    return Statement("-".join(parts), sentence(question, cell, study.labels), rule, measured)


def study_records(table: StudyTable) -> list[Record]:
    """A record for each statement of a study."""
    return [_record(statement, table) for statement in statements(table.study)]


def _record(statement: Statement, table: StudyTable) -> Record:
    rule, found = by_interval(statement.rule), statement.number(table)
    record = Record(None, None, None, 0, "", 0, UNTESTABLE, rule, id=statement.id, label=OURS, claim=statement.says,
                    paper=NOT_REPORTED, comment=TOO_FEW, population=f"study {table.study.name}")  # fmt: skip
    if found is None:
        return record
    comment = f"After {table.provenance['steps']:,} steps; cells have networks of their own with the same seeds."
    return replace(
        record, value=found.value, low=found.low, high=found.high, n=found.n, unit=found.unit, seeds=found.n,
        verdict=statement.rule.verdict(found), comment=comment,
    )  # fmt: skip
