"""The table of a study, a row per network with its outcomes and onsets; and the study's statements, judged by it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from assignadd.dynamics.phases import (
    ADDITION_SET,
    ADDITION_THRESHOLD,
    BINDING_SET,
    THRESHOLD,
    Curves,
    skill_onset,
)
from assignadd.ledger.claim import NOT_REPORTED, OURS, Record, rule_in_words
from assignadd.stats import UNTESTABLE, Interval, Measured, mean_interval, median_interval
from assignadd.study.study import Computed, Number, Question, Study, sentence, slug
from assignadd.sweeps.final_tests import FREQUENCIES, final_column
from assignadd.sweeps.plan import Sweep
from assignadd.sweeps.results import column_of, setting_of
from assignadd.task.evalsets import LABELS as EVALUATION_SETS

if TYPE_CHECKING:
    import polars

CELL = "cell"  # the column with the label of a network's cell
# As in `dynamics.phases`, for any number of operands.
TRAINED_SETS = tuple(name for name in EVALUATION_SETS if name.endswith("var train") and not name.startswith("0"))
BANNED_SETS = tuple(name for name in EVALUATION_SETS if "var-restricted" in name)
# Outcomes of a network other than `binds`, by name: it has one if it reaches the threshold on all of these sets in the
# final exam.
OUTCOMES: dict[str, tuple[tuple[str, ...], float]] = {
    "adds": ((ADDITION_SET,), ADDITION_THRESHOLD),
    "refines": (BANNED_SETS, THRESHOLD),
    "learned": (TRAINED_SETS[:2], THRESHOLD),  # one variable, and two
    "follows 1 link": (("1-var 1 link",), THRESHOLD),  # of tasks with hops
    "follows 2 links": (("1-var 2 links",), THRESHOLD),
}
# Onsets, by name: the step from which a network stays above the threshold on all of these sets (`dynamics.phases`).
ONSETS = {
    "addition at": ((ADDITION_SET,), ADDITION_THRESHOLD),
    "binding at": (TRAINED_SETS, THRESHOLD),
    "refinement at": (BANNED_SETS, THRESHOLD),
}


@dataclass(frozen=True, eq=False)
class StudyTable:
    """The networks of a study and where they come from."""

    study: Study
    frame: polars.DataFrame
    """A row per network (`study_frame`)."""
    provenance: Mapping[str, Any]
    """How the networks were made: commands, versions, steps."""

    @cached_property
    def cells(self) -> dict[str, polars.DataFrame]:
        """The networks of each cell, by its label, in the order of the study."""
        return {cell.label: self.frame.filter(self.frame[CELL] == cell.label) for cell in self.study.cells}

    def values(self, cell: str, column: str, among: str | None = None) -> np.ndarray:
        """The values of a column over a cell's networks that have one (and the outcome `among`, if given)."""
        rows = self._networks(cell, among)
        if column not in rows.columns:
            return np.empty(0)
        return rows[column].drop_nulls().to_numpy().astype(float)

    def unit_means(self, cell: str, column: str, unit: str, among: str | None = None) -> np.ndarray:
        """The means of a column over the networks of one cell with the same value of the setting `unit`, (units,)."""
        rows = self._networks(cell, among).drop_nulls(column)
        values = rows[column].cast(float).to_numpy()  # (networks,)
        units = rows[unit].to_numpy()  # (networks,)
        return np.array([values[units == value].mean() for value in np.unique(units)])

    def _networks(self, cell: str, among: str | None) -> polars.DataFrame:
        """The networks of one cell, or those of them with the outcome `among`."""
        networks = self.cells[cell]
        return networks if among is None else networks.filter(networks[among])

    def measured(self, number: Number, cell: str) -> Measured | None:
        """A share with Wilson's interval, or a mean with Student's, over a cell's networks; None for fewer than two.

        Networks that share the study's `unit`, such as a split, are not independent: they count once, with their mean.
        """
        unit = self.study.unit
        if unit is None:
            values = self.values(cell, number.column, number.among)
            counted_on = "networks"
        else:
            values = self.unit_means(cell, number.column, unit, number.among)
            counted_on = "networks trained again"  # so far, a unit is a network from which several others start
        n = len(values)
        if n < 2:
            return None
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
        """The median of a column over a cell's networks, its interval (None if too few); None if none has a value."""
        values = self.values(cell, column)
        return median_interval(values.tolist()) if len(values) else None


def statements(study: Study) -> list[Computed]:
    """Every statement of a study, in the order of its questions."""
    all_statements: list[Computed] = []
    for question in study.ask:
        if isinstance(question, Computed):
            all_statements.append(replace(question, id=f"{study.name}-{question.id}"))
        else:
            cells = question.number.cells or [cell.label for cell in study.cells if cell.label != question.other]
            all_statements += [_statement(study, question, cell) for cell in cells]
    return all_statements


def _statement(study: Study, question: Question, cell: str) -> Computed:
    """The statement that a question makes about one cell: about its number, or the difference from another cell's."""
    number, other = question.number, question.other
    id = f"{study.name}-{slug(number.column)}-{slug(cell)}"
    says = sentence(question, cell, study.column_meanings)
    if other is None:
        return Computed(id, says, lambda table: table.measured(number, cell), question.rule)
    id += f"-than-{slug(other)}"
    return Computed(id, says, lambda table: table.difference(number, cell, other), question.rule)


def study_records(table: StudyTable) -> list[Record]:
    """A record for each statement of a study."""
    return [_record(statement, table) for statement in statements(table.study)]


def _record(statement: Computed, table: StudyTable) -> Record:
    """The record of a statement: its number, from the table, and the verdict of its rule."""
    number = statement.number(table)
    measured: dict[str, Any] = {}  # the fields of the record that the number gives
    if number is None:
        verdict = UNTESTABLE
        comment = "Too few networks have this number."
    else:
        verdict = statement.rule.verdict(number)
        measured = vars(number) | {"seeds": number.n}
        # The networks of a cell are trained with its settings: none is in two cells, but the seeds are the same.
        comment = f"After {table.provenance['steps']:,} steps; cells have networks of their own with the same seeds."
    return Record(
        verdict=verdict, rule=rule_in_words(statement.rule), id=statement.id, label=OURS, claim=statement.says,
        paper=NOT_REPORTED, comment=comment, population=f"study {table.study.name}", **measured,
    )  # fmt: skip


def study_frame(study: Study, sweep: Sweep, sweep_table: polars.DataFrame) -> polars.DataFrame:
    """A row per network: cell, seed, settings, final exam, outcomes, onsets. `sweep_table` has a row per evaluation."""
    import polars

    not_copied = ("attn_", FREQUENCIES)  # final rates of attention; the frequencies, which `_outcomes` has
    columns = sweep_table.columns
    exams = [name for name in columns if name.endswith(final_column("")) and not name.startswith(not_copied)]
    n_sequences = sweep.config.record.eval_sequences  # of each set, at an evaluation
    # A network is found by its seed and varied settings: here the columns that have them in the sweep's table.
    identifying_columns = ["seed", *map(column_of, sweep.varied)]
    label_of_network = {}  # by the values in these columns, the label of the study's cell
    for network in sweep.cells:
        config = network.config(sweep.config)
        values = (network.seed, *(setting_of(config, name) for name in sweep.varied))
        label_of_network[values] = study.label_of(network)
    rows = []
    # A table per network: its rows, by step.
    for evaluations in sweep_table.partition_by(identifying_columns, maintain_order=True):
        last = evaluations.row(-1, named=True)
        label = label_of_network[tuple(last[column] for column in identifying_columns)]
        rows.append(
            {CELL: label, "seed": last["seed"]}
            | {column_of(name): last[column_of(name)] for name in study.settings_within_cells}
            | _outcomes(evaluations, n_sequences)
            | (study.of_curves(evaluations, n_sequences) if study.of_curves else {})
            | {name: last[name] for name in exams}
            | _early_values(study, evaluations)
        )
    index_of_cell = {cell.label: index for index, cell in enumerate(study.cells)}  # in the order of the study
    rows.sort(key=lambda row: (index_of_cell[row[CELL]], row["seed"]))
    early_columns = [early_column(name, step) for step in study.early_steps for name in study.early]
    types: dict[str, Any] = dict.fromkeys((*ONSETS, "frequencies"), polars.Int64)
    types |= dict.fromkeys(("binds", *OUTCOMES), polars.Boolean) | {"doubles minus others": polars.Float64}
    types |= dict.fromkeys((*early_columns, *exams, "loss"), polars.Float32)
    return polars.DataFrame(rows, infer_schema_length=None, schema_overrides=types)


def _outcomes(evaluations: polars.DataFrame, n: int) -> dict[str, Any]:
    """The outcomes and onsets of a network by name; None for those that its task does not have.

    `evaluations` has a row for each evaluation, on `n` sequences of each set, by step.
    """
    last = evaluations.row(-1, named=True)
    recorded = [name for name in EVALUATION_SETS if name in evaluations.columns]
    accuracy = {name: evaluations[name].to_numpy() for name in recorded if evaluations[name].null_count() == 0}
    curves = Curves(evaluations["step"].to_numpy(), accuracy, n)
    diverged = last["diverged_at"] is not None
    binds = curves.binds and not diverged if curves.has([BINDING_SET]) else None
    onset_steps = {}
    for name, (sets, threshold) in ONSETS.items():
        onset = skill_onset(curves, sets, threshold)
        onset_steps[name] = None if onset is None else onset.step
    doubles, others = last.get(final_column("0-var doubles")), last.get(final_column("0-var neither order"))
    difference = None if diverged or doubles is None or others is None else doubles - others
    return {
        "steps": last["step"],
        "diverged": diverged,
        "binds": binds,
        **{name: _reaches(last, sets, threshold) for name, (sets, threshold) in OUTCOMES.items()},
        **onset_steps,
        "frequencies": last.get(final_column(FREQUENCIES)),
        "doubles minus others": difference,
        "loss": last["loss"],
    }


def _reaches(last: Mapping[str, Any], sets: tuple[str, ...], threshold: float) -> bool | None:
    """Whether a network reaches the threshold on all of these sets in its final exam, which is in its `last` row.

    None where its task has none of the sets, False if it diverged.
    """
    exams = [last.get(final_column(name)) for name in sets]
    accuracies = [accuracy for accuracy in exams if accuracy is not None]
    if not accuracies:
        return None
    return last["diverged_at"] is None and min(accuracies) >= threshold


def _early_values(study: Study, evaluations: polars.DataFrame) -> dict[str, Any]:
    """The values of the study's early columns at its early steps; None where the network was not measured."""
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
