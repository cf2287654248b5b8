"""The table of a study, a row per model with what became of it and when; and the study's statements, judged by it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from assignadd.config import Member
from assignadd.dynamics.phases import (
    ADDITION_SET,
    ADDITION_THRESHOLD,
    BINDING_SET,
    THRESHOLD,
    Curves,
    skill_onset,
)
from assignadd.ledger.claim import NOT_REPORTED, OURS, Record, by_interval
from assignadd.stats import UNTESTABLE, Interval, Measured, Rule, difference, mean_interval, median_interval
from assignadd.study.study import Computed, Number, Question, Study, sentence, slug
from assignadd.sweeps.final_tests import FREQUENCIES, final_column
from assignadd.sweeps.results import column_of, last_rows, setting_of
from assignadd.sweeps.settings import Sweep
from assignadd.task.evalsets import LABELS as EVALUATION_SETS

if TYPE_CHECKING:
    import polars

CELL = "cell"
# As in `dynamics.phases`, for any number of operands.
TRAINED_SETS = tuple(name for name in EVALUATION_SETS if name.endswith("var train") and not name.startswith("0"))
BANNED_SETS = tuple(name for name in EVALUATION_SETS if "var-restricted" in name)
# Outcomes of a network other than `binds`: the sets of the final exam on which it must reach a level, all of them.
OUTCOMES: dict[str, tuple[tuple[str, ...], float]] = {
    "adds": ((ADDITION_SET,), ADDITION_THRESHOLD),
    "refines": (BANNED_SETS, THRESHOLD),
    "learned": (TRAINED_SETS[:2], THRESHOLD),
    # Of tasks with hops alone.
    "follows 1 link": (("1-var 1 link",), THRESHOLD),
    "follows 2 links": (("1-var 2 links",), THRESHOLD),
}
# When a skill came to last: the sets and the level, as in `dynamics.phases`.
ONSETS = {
    "addition at": ((ADDITION_SET,), ADDITION_THRESHOLD),
    "binding at": (TRAINED_SETS, THRESHOLD),
    "refinement at": (BANNED_SETS, THRESHOLD),
}


@dataclass(frozen=True, eq=False)
class StudyTable:
    """The models of a study and where they come from."""

    study: Study
    frame: polars.DataFrame
    provenance: Mapping[str, Any]

    @cached_property
    def cells(self) -> dict[str, polars.DataFrame]:
        """The models of each cell, by its label, in the order of the study."""
        return {cell.label: self.frame.filter(self.frame[CELL] == cell.label) for cell in self.study.cells}

    def values(self, cell: str, column: str, among: str | None = None) -> np.ndarray:
        """A column of one cell without the models that have no such value, or not the outcome `among`."""
        rows = self.cells[cell] if among is None else self.cells[cell].filter(self.cells[cell][among])
        return rows[column].drop_nulls().to_numpy().astype(float) if column in rows.columns else np.empty(0)

    def unit_means(self, cell: str, column: str, unit: str) -> np.ndarray:
        """The mean of a column of one cell for each value of the setting `unit`."""
        rows = self.cells[cell].drop_nulls(column)
        units, values = rows[unit].to_numpy(), rows[column].cast(float).to_numpy()
        return np.array([values[units == value].mean() for value in np.unique(units)])

    def measured(self, number: Number, cell: str) -> Measured | None:
        """A number of one cell with its 95 % interval over networks, or over the study's units; None with fewer than 2.

        Wilson's interval for the share of an outcome, Student's t for a mean.
        """
        if self.study.unit is None:
            unit = "networks"
            values = self.values(cell, number.column, number.among)
        else:
            unit = "networks trained again"
            values = self.unit_means(cell, number.column, self.study.unit)
        if len(values) < 2:
            return None
        if number.kind == "share":
            return Measured.share(float(values.sum()), len(values), unit)
        ends = mean_interval(values.tolist())
        return Measured(float(values.mean()), ends.low, ends.high, len(values), unit)

    def difference(self, number: Number, cell: str, other: str) -> Measured | None:
        """A number of one cell minus that of another, with Newcombe's interval; None where either has none."""
        here, there = self.measured(number, cell), self.measured(number, other)
        return None if here is None or there is None else difference(here, there)

    def share(self, cell: str, outcome: str) -> Measured | None:
        """The share of a cell's networks with an outcome, with Wilson's interval; None where none was tested."""
        values = self.values(cell, outcome)
        return Measured.share(float(values.sum()), len(values), "networks") if len(values) else None

    def median(self, cell: str, column: str) -> tuple[float, Interval | None] | None:
        """The median of a number over the networks of a cell that have it, and its interval; None where none has."""
        values = self.values(cell, column)
        return median_interval(values.tolist()) if len(values) else None


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
    stated: list[Statement] = []
    for question in study.ask:
        if isinstance(question, Computed):
            stated.append(Statement(f"{study.name}-{question.id}", question.says, question.rule, question.number))
            continue
        cells = question.number.cells or [c.label for c in study.cells if c.label != question.other]
        stated += [_statement(study, question, cell) for cell in cells]
    return stated


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
    rule, number = by_interval(statement.rule), statement.number(table)
    record = Record(None, None, None, 0, "", 0, UNTESTABLE, rule, id=statement.id, label=OURS, claim=statement.says,
                    paper=NOT_REPORTED, comment=TOO_FEW, population=f"study {table.study.name}")  # fmt: skip
    if number is None:
        return record
    comment = f"After {table.provenance['steps']:,} steps; cells have networks of their own with the same seeds."
    return replace(
        record, value=number.value, low=number.low, high=number.high, n=number.n, unit=number.unit, seeds=number.n,
        verdict=statement.rule.verdict(number), comment=comment,
    )  # fmt: skip


def study_frame(study: Study, sweep: Sweep, curves: polars.DataFrame) -> polars.DataFrame:
    """A row per model of a sweep's table: its cell, seed and settings, its final exam, outcomes and onsets."""
    import polars

    set_names = [name for name in EVALUATION_SETS if name in curves.columns]
    settings = [column_of(name) for name in study.own_settings]
    not_copied = ("attn_", FREQUENCIES)  # attention rates, and what has a column of its own
    exams = [name for name in curves.columns if name.endswith(final_column("")) and not name.startswith(not_copied)]
    key = ["seed", *map(column_of, sweep.varied)]
    labels = {_key(sweep, member): study.label_of(member) for member in sweep.cells}
    rows = []
    for part in curves.partition_by(key, maintain_order=True):
        last = last_rows(part, sweep).row(0, named=True)
        tested = [name for name in set_names if part[name].null_count() == 0]
        n = sweep.config.record.eval_sequences
        own_curves = Curves(part["step"].to_numpy(), {name: part[name].to_numpy() for name in tested}, n)
        rows.append(
            {CELL: labels[tuple(last[column] for column in key)], "seed": last["seed"]}
            | {column: last[column] for column in settings}
            | _outcomes(own_curves, last)
            | (study.of_curves(part, n) if study.of_curves else {})
            | {name: last[name] for name in exams}
            | _early_values(study, part)
        )
    order = {cell.label: i for i, cell in enumerate(study.cells)}
    rows.sort(key=lambda row: (order[row[CELL]], row["seed"]))
    types: dict[str, Any] = dict.fromkeys((*ONSETS, "frequencies"), polars.Int64)
    types |= dict.fromkeys(("binds", *OUTCOMES), polars.Boolean) | {"doubles minus others": polars.Float64}
    types |= {early_column(name, step): polars.Float32 for step in study.early_steps for name in study.early}
    types |= dict.fromkeys((*exams, "loss"), polars.Float32)
    return polars.DataFrame(rows, infer_schema_length=None, schema_overrides=types)


def _key(sweep: Sweep, member: Member) -> tuple[Any, ...]:
    """The seed and the varied settings of a model, as the sweep's table has them."""
    config = member.config(sweep.config)
    return (member.seed, *(setting_of(config, name) for name in sweep.varied))


def _outcomes(curves: Curves, last: Mapping[str, Any]) -> dict[str, Any]:
    """What became of a model and when, from its curves and its last row; None for what its task does not have."""
    diverged = last["diverged_at"] is not None
    onsets = {name: skill_onset(curves, sets, level) for name, (sets, level) in ONSETS.items()}
    return (
        {"steps": last["step"], "diverged": diverged}
        | {"binds": curves.binds and not diverged if curves.has([BINDING_SET]) else None}
        | {name: _has(last, sets, level) for name, (sets, level) in OUTCOMES.items()}
        | {name: None if onset is None else onset.step for name, onset in onsets.items()}
        | {"frequencies": last.get(final_column(FREQUENCIES)), "doubles minus others": _doubles(last)}
        | {"loss": last["loss"]}
    )


def _early_values(study: Study, curves: polars.DataFrame) -> dict[str, Any]:
    """The values of the study's early columns at its early steps; None where a model was not measured."""
    values: dict[str, Any] = {}
    for step in study.early_steps:
        at_step = curves.filter(curves["step"] == step)
        for name in study.early:
            has_value = name in at_step.columns and at_step.height > 0
            values[early_column(name, step)] = at_step[name].item() if has_value else None
    return values


def early_column(name: str, step: int) -> str:
    """The name under which a study's table has the value of a column in the course of training."""
    return f"{name} at {step}"


def _has(row: Mapping[str, Any], sets: tuple[str, ...], level: float) -> bool | None:
    """Whether a model reached the level in its final exam; None where its task has none of the sets, False if it
    diverged."""
    exams = [row[final_column(s)] for s in sets if row.get(final_column(s)) is not None]
    if not exams:
        return None
    return row["diverged_at"] is None and min(exams) >= level


def _doubles(row: Mapping[str, Any]) -> float | None:
    """The final accuracy on held-out doubles (n, n) of literals minus that on literals held out in both orders."""
    doubles = row.get(final_column("0-var doubles"))
    neither_order = row.get(final_column("0-var neither order"))
    if doubles is None or neither_order is None or row["diverged_at"] is not None:
        return None
    return doubles - neither_order
