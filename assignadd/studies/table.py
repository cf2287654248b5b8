"""The table of a study: a row per model, with what became of it and when; and its file with the provenance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from assignadd.config import Member, UserError
from assignadd.dynamics.phases import (
    ADDITION_SET,
    ADDITION_THRESHOLD,
    BINDING_SET,
    BINDING_THRESHOLD,
    THRESHOLD,
    Curves,
    skill_onset,
)
from assignadd.errors import RunError
from assignadd.stats import median_interval
from assignadd.studies.study import Estimate as Estimate
from assignadd.studies.study import Study
from assignadd.sweeps.engine import last_rows
from assignadd.sweeps.final_tests import FREQUENCIES, final_column
from assignadd.sweeps.results import column_of, read_results, setting_of
from assignadd.sweeps.settings import Sweep
from assignadd.task.evalsets import LABELS as EVALUATION_SETS

if TYPE_CHECKING:
    import polars

RESULTS = Path(__file__).parents[1] / "results"
CELL = "cell"
# As in `dynamics.phases`, for any number of operands.
TRAINED_SETS = tuple(name for name in EVALUATION_SETS if name.endswith("var train") and not name.startswith("0"))
BANNED_SETS = tuple(name for name in EVALUATION_SETS if "var-restricted" in name)
# Outcomes of a model: the sets of the final exam on which it must reach a level, all of them, and a label.
OUTCOMES: dict[str, tuple[tuple[str, ...], float, str]] = {
    "binds": ((BINDING_SET,), BINDING_THRESHOLD, "bind variables"),
    "adds": ((ADDITION_SET,), ADDITION_THRESHOLD, "answer held-out tuples of literals"),
    "refines": (BANNED_SETS, THRESHOLD, "use banned slots"),
    # Of tasks with hops alone.
    "follows 1 link": (("1-var 1 link",), THRESHOLD, "follow one link"),
    "follows 2 links": (("1-var 2 links",), THRESHOLD, "follow two links"),
}
# When a skill came to last: the sets and the level, as in `dynamics.phases`.
ONSETS = {
    "addition at": ((ADDITION_SET,), ADDITION_THRESHOLD),
    "binding at": (TRAINED_SETS, THRESHOLD),
    "refinement at": (BANNED_SETS, THRESHOLD),
}
# Of the other columns, the name says it.
LABELS = {
    **{name: label for name, (_, _, label) in OUTCOMES.items()},
    "addition at": "step of answering held-out literals",
    "binding at": "step of trained sums with variables (one and two)",
    "refinement at": "step of using banned slots",
    "frequencies": "frequencies",
    "doubles minus others": "held-out doubles less pairs held out in both orders (literals, median of all networks)",
    "held-out doubles (final)": "held-out doubles answered",
    "held-out doubles without votes (final)": "held-out doubles answered without the votes of n for n + n",
    "vote of n for n + n, held out (final)": "mean vote of n for n + n where that is held out (standard deviations)",
    "answers trained sums": "answer trained sums",
    "0-var doubles (final)": "held-out doubles answered",
    "difference of the operands (final)": "difference of the operands |A - B| / |A + B|",
    "names exchanged, the other number (final)": "other number after names are exchanged",
    "places exchanged, its own number (final)": "own number after positions are exchanged",
    "x v, x (final)": "x answered in the layout x v",
    "v x | v y, y less x (final)": "last number less first, variable assigned twice",
    "3 assignments (final)": "right with 3 assignments",
    "6 assignments (final)": "right with 6 assignments",
    "late bursts": "bursts after step 8,000",
    "binds at 8000": "bind at step 8,000",
    "binds at 9000": "bind at step 9,000",
    "sharp rise": "have a spike",
    "spikes": "spikes of the accuracy",
    "loss bursts": "bursts of the loss",
    "saturated before the first spike": "saturated in the 200 steps before the first spike",
    "saturated at the end": "saturated after the last step",
    "rise of saturation before the first spike": "saturated in these 200 steps less the 800 before",
    "saturation before bursts less usual": "saturated in the 200 steps before a burst less the median of all steps",
    "rise of QK2 identity at the first spike": "variables that match themselves in QK2, rise at the first spike",
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
        return np.array([values[units == own].mean() for own in np.unique(units)])

    def is_outcome(self, column: str) -> bool:
        """Whether a column says yes or no of every model."""
        return column in OUTCOMES or str(self.frame.schema.get(column)) == "Boolean"

    def share(self, cell: str, outcome: str) -> Estimate | None:
        """The share of a cell's models with an outcome, with Wilson's interval; None where no model was tested."""
        values = self.values(cell, outcome)
        return Estimate.share(float(values.sum()), len(values)) if len(values) else None

    def median(self, cell: str, column: str) -> Estimate | None:
        """The median of a number over the models of a cell that have it; None where none has."""
        values = self.values(cell, column)
        if not len(values):
            return None
        value, ends = median_interval(values.tolist())
        return Estimate(value, ends.low if ends else None, ends.high if ends else None, len(values))

    def summary(self) -> list[dict[str, Any]]:
        """A row per cell: models, diverged models, shares of the outcomes and medians of the numbers with intervals."""
        rows = []
        for label, frame in self.cells.items():
            row: dict[str, Any] = {CELL: label, "models": frame.height, "diverged": int(frame["diverged"].sum())}
            row |= {name: self.share(label, name) for name in self.study.outcomes}
            rows.append(row | {name: self.median(label, name) for name in self.study.numbers})
        return rows


def study_frame(study: Study, sweep: Sweep, curves: polars.DataFrame) -> polars.DataFrame:
    """A row per model of a sweep's table: its cell, seed and own settings, its final exam, outcomes and onsets, and its
    early values where the study has such."""
    import polars

    n, names = sweep.config.record.eval_sequences, [name for name in EVALUATION_SETS if name in curves.columns]
    of_cell = {_key(sweep, member): study.label_of(member) for member in sweep.cells}
    key, own = ["seed", *map(column_of, sweep.varied)], [column_of(name) for name in study.own_settings]
    left_out = ("attn_", FREQUENCIES)  # attention rates, and what has a column of its own
    exams = [name for name in curves.columns if name.endswith(final_column("")) and not name.startswith(left_out)]
    rows = []
    for part in curves.partition_by(key, maintain_order=True):
        last = last_rows(part, sweep).row(0, named=True)
        here = [s for s in names if part[s].null_count() == 0]
        found = Curves(part["step"].to_numpy(), {s: part[s].to_numpy() for s in here}, n)
        onsets = {name: skill_onset(found, sets, level) for name, (sets, level) in ONSETS.items()}
        label = of_cell[tuple(last[column] for column in key)]
        early = {row["step"]: row for row in part.rows(named=True)} if study.early_steps else {}
        rows.append(
            {CELL: label, "seed": last["seed"], **{column: last[column] for column in own}}
            | {"steps": last["step"], "diverged": last["diverged_at"] is not None}
            | {name: _has(last, *OUTCOMES[name][:2]) for name in OUTCOMES}
            | {name: None if onset is None else onset.step for name, onset in onsets.items()}
            | {"frequencies": last.get(final_column(FREQUENCIES)), "doubles minus others": _doubles(last)}
            | {"loss": last["loss"]}
            | (study.of_curves(part, n) if study.of_curves else {})
            | {name: last[name] for name in exams}
            | {
                early_column(name, step): early.get(step, {}).get(name)
                for step in study.early_steps
                for name in study.early
            }
        )
    order = {cell.label: i for i, cell in enumerate(study.cells)}
    rows.sort(key=lambda row: (order[row[CELL]], row["seed"]))
    types: dict[str, Any] = dict.fromkeys((*ONSETS, "frequencies"), polars.Int64)
    types |= dict.fromkeys(OUTCOMES, polars.Boolean) | {"doubles minus others": polars.Float64}
    types |= {early_column(name, step): polars.Float32 for step in study.early_steps for name in study.early}
    types |= dict.fromkeys((*exams, "loss"), polars.Float32)
    return polars.DataFrame(rows, infer_schema_length=None, schema_overrides=types)


def _key(sweep: Sweep, member: Member) -> tuple[Any, ...]:
    """The seed and the varied settings of a model, as the sweep's table has them."""
    config = member.config(sweep.config)
    return (member.seed, *(setting_of(config, name) for name in sweep.varied))


def early_column(name: str, step: int) -> str:
    """The name under which a study's table has the value of a column in the course of training."""
    return f"{name} at {step}"


def _has(row: Mapping[str, Any], sets: tuple[str, ...], level: float) -> bool | None:
    """Whether a model reached the level in its final exam; None where its task has none of the sets, False if it
    diverged."""
    exams = [row[final_column(s)] for s in sets if row.get(final_column(s)) is not None]
    return row["diverged_at"] is None and min(exams) >= level if exams else None


def _doubles(row: Mapping[str, Any]) -> float | None:
    """The final accuracy on held-out doubles (n, n) of literals less that on literals held out in both orders."""
    doubles, others = (row.get(final_column(f"0-var {pairs}")) for pairs in ("doubles", "neither order"))
    return None if doubles is None or others is None or row["diverged_at"] is not None else doubles - others


def file_of(name: str) -> str:
    """The name of the file of a study's table, in its folder and among the package's results."""
    return f"study-{name}.parquet"


def read_study(study: Study, folder: Path | None = None) -> StudyTable:
    """The table of a study in a folder, or the one that comes with the package."""
    where = RESULTS if folder is None else folder
    try:
        return StudyTable(study, *read_results(where / file_of(study.name)))
    except (OSError, RunError) as error:
        message = f"no table of the study {study.name} in {where}; `assignadd study {study.name}` makes it"
        raise UserError(message) from error


def shipped_study(study: Study) -> StudyTable | None:
    """The table of a study that comes with the package, or None."""
    return read_study(study) if (RESULTS / file_of(study.name)).is_file() else None
