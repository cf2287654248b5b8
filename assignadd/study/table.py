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
from assignadd.stats import UNTESTABLE, Interval, Measured, Rule, mean_interval, median_interval
from assignadd.study.study import Computed, Number, Question, Study, sentence, slug
from assignadd.sweeps.final_tests import FREQUENCIES, final_column
from assignadd.sweeps.plan import Sweep
from assignadd.sweeps.results import column_of, setting_of
from assignadd.task.evalsets import LABELS as EVALUATION_SETS

if TYPE_CHECKING:
    import polars

CELL = "cell"  # the column with the label of a model's cell
# As in `dynamics.phases`, for any number of operands.
TRAINED_SETS = tuple(name for name in EVALUATION_SETS if name.endswith("var train") and not name.startswith("0"))
BANNED_SETS = tuple(name for name in EVALUATION_SETS if "var-restricted" in name)
# Outcomes of a network other than `binds`: the sets of the final exam on which it must reach a level, all of them.
OUTCOMES: dict[str, tuple[tuple[str, ...], float]] = {
    "adds": ((ADDITION_SET,), ADDITION_THRESHOLD),
    "refines": (BANNED_SETS, THRESHOLD),
    "learned": (TRAINED_SETS[:2], THRESHOLD),  # one variable, and two
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
        """The values of a column in one cell, of all models that have one, or of those with the outcome `among`."""
        rows = self._models(cell, among)
        if column not in rows.columns:
            return np.empty(0)
        return rows[column].drop_nulls().to_numpy().astype(float)

    def unit_means(self, cell: str, column: str, unit: str, among: str | None = None) -> np.ndarray:
        """For each value of the setting `unit`, the mean of a column over the models of one cell with that value."""
        rows = self._models(cell, among).drop_nulls(column)
        values = rows[column].cast(float).to_numpy()
        units = rows[unit].to_numpy()  # (models,), like `values`
        return np.array([values[units == value].mean() for value in np.unique(units)])

    def _models(self, cell: str, among: str | None) -> polars.DataFrame:
        """The models of one cell, those with the outcome `among` alone if it is given."""
        models = self.cells[cell]
        return models if among is None else models.filter(models[among])

    def measured(self, number: Number, cell: str) -> Measured | None:
        """A share or a mean over the networks of one cell, with Wilson's or Student's interval; None if fewer than two.

        Networks that share the study's `unit`, such as a split, are not independent: they count once, with their mean.
        """
        unit = self.study.unit  # if not None, networks with the same value of this setting are trained several times
        if unit is None:
            values = self.values(cell, number.column, number.among)
        else:
            values = self.unit_means(cell, number.column, unit, number.among)
        n = len(values)
        if n < 2:
            return None
        counted_on = "networks" if unit is None else "networks trained again"
        if number.kind == "share":  # each value is 1 or 0, or the share of a unit's networks with the outcome
            return Measured.share(float(values.sum()), n, counted_on)
        interval = mean_interval(values.tolist())
        return Measured(float(values.mean()), interval.low, interval.high, n, counted_on)

    def difference(self, number: Number, cell: str, other: str) -> Measured | None:
        """A number of one cell minus that of another, with Newcombe's interval; None if a cell has none."""
        of_cell, of_other = self.measured(number, cell), self.measured(number, other)
        return of_cell.minus(of_other) if of_cell and of_other else None

    def share(self, cell: str, outcome: str) -> Measured | None:
        """The share of a cell's networks with an outcome, with Wilson's interval; None where none was tested."""
        values = self.values(cell, outcome)  # 1 for a network with the outcome, 0 for one without
        return Measured.share(float(values.sum()), len(values), "networks") if len(values) else None

    def median(self, cell: str, column: str) -> tuple[float, Interval | None] | None:
        """The median of a number over the networks of a cell that have it, and its interval; None where none has."""
        values = self.values(cell, column)
        return median_interval(values.tolist()) if len(values) else None


@dataclass(frozen=True)
class Statement:
    """One sentence of a study with the rule that decides it."""

    id: str
    says: str
    rule: Rule
    number: Callable[[StudyTable], Measured | None]
    """The number that the rule is about; None if too few networks have it."""


def statements(study: Study) -> list[Statement]:
    """Every statement of a study, in the order of its questions."""
    all_statements: list[Statement] = []
    for question in study.ask:
        if isinstance(question, Computed):
            id = f"{study.name}-{question.id}"
            all_statements.append(Statement(id, question.says, question.rule, question.number))
        else:
            cells = question.number.cells or [cell.label for cell in study.cells if cell.label != question.other]
            all_statements += [_statement(study, question, cell) for cell in cells]
    return all_statements


def _statement(study: Study, question: Question, cell: str) -> Statement:
    """The statement that a question makes about one cell: about its number, or the difference from another cell's."""
    number, other = question.number, question.other

    def measured(table: StudyTable) -> Measured | None:
        return table.measured(number, cell) if other is None else table.difference(number, cell, other)

    id = f"{study.name}-{slug(number.column)}-{slug(cell)}"
    if other is not None:
        id += f"-than-{slug(other)}"
    return Statement(id, sentence(question, cell, study.labels), question.rule, measured)


def study_records(table: StudyTable) -> list[Record]:
    """A record for each statement of a study."""
    return [_record(statement, table) for statement in statements(table.study)]


def _record(statement: Statement, table: StudyTable) -> Record:
    """The record of a statement: its number, from the table, and the verdict of its rule."""
    record = Record(
        verdict=UNTESTABLE, rule=by_interval(statement.rule), id=statement.id, label=OURS, claim=statement.says,
        paper=NOT_REPORTED, comment="Too few networks have this number.", population=f"study {table.study.name}",
    )  # fmt: skip
    number = statement.number(table)
    if number is None:
        return record
    comment = f"After {table.provenance['steps']:,} steps; cells have networks of their own with the same seeds."
    return replace(
        record, value=number.value, low=number.low, high=number.high, n=number.n, unit=number.unit, seeds=number.n,
        verdict=statement.rule.verdict(number), comment=comment,
    )  # fmt: skip


def study_frame(study: Study, sweep: Sweep, sweep_table: polars.DataFrame) -> polars.DataFrame:
    """A row per model of a sweep's table: its cell, seed and settings, its final exam, outcomes and onsets."""
    import polars

    not_copied = ("attn_", FREQUENCIES)  # attention rates, and what has a column of its own
    columns = sweep_table.columns
    exams = [name for name in columns if name.endswith(final_column("")) and not name.startswith(not_copied)]
    n = sweep.config.record.eval_sequences
    key = ["seed", *map(column_of, sweep.varied)]  # the columns that tell models apart
    labels = {_key(sweep, member): study.label_of(member) for member in sweep.cells}
    rows = []
    for evaluations in sweep_table.partition_by(key, maintain_order=True):  # the rows of one model, by step
        last = evaluations.row(-1, named=True)
        rows.append(
            {CELL: labels[tuple(last[column] for column in key)], "seed": last["seed"]}
            | {column_of(name): last[column_of(name)] for name in study.settings_within_cells}
            | _outcomes(evaluations, n)
            | (study.of_curves(evaluations, n) if study.of_curves else {})
            | {name: last[name] for name in exams}
            | _early_values(study, evaluations)
        )
    place_of_cell = {cell.label: place for place, cell in enumerate(study.cells)}
    rows.sort(key=lambda row: (place_of_cell[row[CELL]], row["seed"]))
    types: dict[str, Any] = dict.fromkeys((*ONSETS, "frequencies"), polars.Int64)
    types |= dict.fromkeys(("binds", *OUTCOMES), polars.Boolean) | {"doubles minus others": polars.Float64}
    types |= {early_column(name, step): polars.Float32 for step in study.early_steps for name in study.early}
    types |= dict.fromkeys((*exams, "loss"), polars.Float32)
    return polars.DataFrame(rows, infer_schema_length=None, schema_overrides=types)


def _key(sweep: Sweep, member: Member) -> tuple[Any, ...]:
    """The seed and the varied settings of a model, as the sweep's table has them."""
    config = member.config(sweep.config)
    return (member.seed, *(setting_of(config, name) for name in sweep.varied))


def _outcomes(evaluations: polars.DataFrame, n: int) -> dict[str, Any]:
    """The outcomes and onsets of a model, from its evaluations on `n` sequences a set; None for any its task lacks."""
    last = evaluations.row(-1, named=True)
    recorded = [name for name in EVALUATION_SETS if name in evaluations.columns]
    tested = [name for name in recorded if evaluations[name].null_count() == 0]
    curves = Curves(evaluations["step"].to_numpy(), {name: evaluations[name].to_numpy() for name in tested}, n)
    diverged = last["diverged_at"] is not None
    outcomes: dict[str, Any] = {"steps": last["step"], "diverged": diverged}
    outcomes["binds"] = curves.binds and not diverged if curves.has([BINDING_SET]) else None
    for name, (sets, level) in OUTCOMES.items():
        outcomes[name] = _reaches(last, sets, level)
    for name, (sets, level) in ONSETS.items():
        onset = skill_onset(curves, sets, level)
        outcomes[name] = None if onset is None else onset.step
    outcomes["frequencies"] = last.get(final_column(FREQUENCIES))
    doubles, others = last.get(final_column("0-var doubles")), last.get(final_column("0-var neither order"))
    outcomes["doubles minus others"] = None
    if doubles is not None and others is not None and not diverged:
        outcomes["doubles minus others"] = doubles - others
    outcomes["loss"] = last["loss"]
    return outcomes


def _reaches(last: Mapping[str, Any], sets: tuple[str, ...], level: float) -> bool | None:
    """Whether a model reaches the level on all of these sets in its final exam, which is in its last row.

    None where its task has none of the sets, False if it diverged.
    """
    exams = [last.get(final_column(name)) for name in sets]
    accuracies = [accuracy for accuracy in exams if accuracy is not None]
    if not accuracies:
        return None
    return last["diverged_at"] is None and min(accuracies) >= level


def _early_values(study: Study, evaluations: polars.DataFrame) -> dict[str, Any]:
    """The values of the study's early columns at its early steps; None where the model was not measured."""
    values: dict[str, Any] = {}
    for step in study.early_steps:
        at_step = evaluations.filter(evaluations["step"] == step)  # one row or none
        for name in study.early:
            has_value = name in at_step.columns and at_step.height > 0
            values[early_column(name, step)] = at_step[name].item() if has_value else None
    return values


def early_column(name: str, step: int) -> str:
    """The name under which a study's table has the value of a column in the course of training."""
    return f"{name} at {step}"
