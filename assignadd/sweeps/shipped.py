"""The tables that come with the package, and the meaning of every column of a sweep's table."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from assignadd.config.errors import ConfigError, one_of
from assignadd.measures.columns import STACK_SEQUENCES, VARIABLE_ACCURACY, column_label, measure_of
from assignadd.measures.routing import TRAINING_LAW
from assignadd.sweeps.final_tests import TWO_VAR, TWO_VAR_PARTS, ZERO_VAR, end_column, final_column
from assignadd.sweeps.settings import SECTIONS
from assignadd.task.evalsets import LABELS

if TYPE_CHECKING:
    import polars


@dataclass(frozen=True)
class ShippedTable:
    """The table of a sweep that comes with the package: NAME.parquet of `assignadd/results` and NAME.json beside it."""

    name: str
    about: str
    """What the table holds and what it is for."""

    @property
    def document(self) -> dict[str, Any]:
        """The JSON file, which says how the table was made."""
        return json.loads((files("assignadd") / "results" / f"{self.name}.json").read_text())

    @property
    def made_by(self) -> tuple[str, str]:
        """The command that made the table, and the commit of this package with which it did."""
        document = self.document
        return document["command"], document["made_with"][0]["commit"]

    def frame(self) -> polars.DataFrame:
        """The table, a row per model and evaluation."""
        import polars

        with (files("assignadd") / "results" / f"{self.name}.parquet").open("rb") as file:
            return polars.read_parquet(file)


def shipped_table(name: str) -> ShippedTable:
    """The record of a table, by its name."""
    if name not in TABLES:
        raise ConfigError("table", name, one_of(name, TABLES))
    return TABLES[name]


TABLES: dict[str, ShippedTable] = {
    table.name: table
    for table in (
        ShippedTable(
            "census",
            "seeds 0 to 127 of preset `paper`, 50,000 steps, a row every 250: which seeds bind, and when",
        ),
        ShippedTable(
            "authors",
            "seeds 128 to 159 of preset `authors` (the same task but for the names of the variables and a mirror), "
            "50,000 steps, a row every 250: one population with the census",
        ),
        ShippedTable(
            "fraction",
            "16 values of f (`seen_fraction`) with 24 seeds each, 30,000 steps, a row every 1,000: how many pairs "
            "addition needs (the paper's figure generalization_combined, b)",
        ),
        ShippedTable(
            "two-var",
            "19 values of r (`two_var_ratio`) with 24 seeds each, 30,000 steps, a row every 1,000: how many "
            "two-variable sequences it needs (generalization_combined, a)",
        ),
        ShippedTable(
            "tf32",
            "seeds 0 to 31 of preset `paper` trained with TF32, 30,000 steps, a row every 250: whether conclusions "
            "depend on TF32 (compare with seeds 0 to 31 of the census)",
        ),
    )
}  # fmt: skip


FACTS = {
    "lr": "learning rate of AdamW",
    "weight_decay": "weight decay of AdamW",
    "seen_fraction": "f: share of all ordered pairs of numbers that training may add",
    "one_var_ratio": "one-variable sequences for each literal one in training",
    "two_var_ratio": "r: two-variable sequences for each literal one in training",
    "seed": "seed of the initial weights, the split of pairs and the data",
    "step": "updates made",
    "loss": "cross entropy on the batch of the last update, before it; null at step 0",
    "diverged_at": "the step at which the loss was no longer finite; null if it always was",
}
"""Columns of a sweep that are not results of a test."""
EVERY_PAIR = "every pair of values with every pair of variables that the test allows, one sequence each"
TESTS = {
    ZERO_VAR: "accuracy on literal sums, every held-out pair once",
    **{s.name: f"accuracy, {s.label}: {EVERY_PAIR}" for s in TWO_VAR_PARTS},
    TWO_VAR: f"accuracy on the union of the three parts `{TWO_VAR} ...`, the two-variable test of the paper's sweeps",
}
"""The tests after the last update, which are the paper's in full."""
LAST_ROW = "in the row of the last step, null in others"
LAST_ROWS = "only at the last ten evaluations, null at others"


@dataclass(frozen=True)
class Column:
    """A column of a table, or all columns that differ in a field in braces such as `{variable}`."""

    name: str
    meaning: str
    sample: str = ""
    """What each value was counted on; empty where nothing is sampled."""


def columns_of(table: ShippedTable) -> list[Column]:
    """The columns of a table in its order; those that differ only in variable and slot are one entry."""
    about = table.document
    n = about["sequences_per_set"]
    n_final = about["sequences_in_final_exam"]
    n_end = about.get("sequences_in_end_exams", 0)  # tables of an earlier version have no such exams
    columns = [sweep_column(name, n, n_final, n_end=n_end) for name in table.frame().columns]
    return list(dict.fromkeys(columns))  # each once


def sweep_column(name: str, n: int, n_final: int, n_rates: int = STACK_SEQUENCES, n_end: int = 0) -> Column:
    """The meaning of one column of a sweep's table; a ValueError if it has no column of this name.

    Accuracies are counted on `n` sequences, those of the final exam on `n_final`, those of the exams at the last ten
    evaluations on `n_end`, and rates of attention patterns on `n_rates`.
    """
    if name in FACTS:
        return Column(name, FACTS[name])
    if name in TESTS:
        return Column(name, TESTS[name], LAST_ROW)
    final_suffix, end_suffix = final_column(""), end_column("")
    if name.endswith(final_suffix):  # the meaning of the column without the suffix, on other sequences
        column = sweep_column(name.removesuffix(final_suffix), n_final, n_final, n_final)
        return Column(name, column.meaning, f"{column.sample}; {LAST_ROW}" if column.sample else LAST_ROW)
    if name.endswith(end_suffix):
        column = sweep_column(name.removesuffix(end_suffix), n_end, n_final)
        return Column(name, f"{column.meaning}, at this evaluation", f"{n_end:,} fresh sequences; {LAST_ROWS}")
    if name in LABELS:
        return Column(name, f"accuracy: {LABELS[name]}", f"{n:,} sequences")
    if re.fullmatch(r"\d-var (\d links?|rebound|once)", name):  # the sets of chains, such as "1-var 2 links"
        return Column(name, f"accuracy: {name}, as docs/tasks.md defines it", f"{n:,} sequences")
    if name.partition(".")[0] in SECTIONS:
        return Column(name, f"the setting {name} (`assignadd train --help`)")
    measure = measure_of(name)
    if measure is VARIABLE_ACCURACY:
        meaning = "accuracy: two variables, {variable} in the {slot} slot, the other in no banned slot"
        return Column(measure.name, meaning, f"{measure.n} sequences")
    sample = f"{n_rates:,} sequences" if measure.n else ""
    sample += ", those of them that training could contain" if TRAINING_LAW in name else ""
    return Column(name, f"{column_label(name)} ({measure.unit})", sample)
