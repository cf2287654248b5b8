"""The data dictionary: the meaning of every column of the tables that come with the package and of your own sweeps."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from assignadd.measures.columns import STACK_SEQUENCES, VARIABLE_ACCURACY, column_label, measure_of
from assignadd.measures.routing import TRAINING_LAW
from assignadd.sweeps.final_tests import TWO_VAR, TWO_VAR_PARTS, ZERO_VAR, end_column, final_column
from assignadd.sweeps.settings import SECTIONS
from assignadd.sweeps.shipped_tables import ShippedTable
from assignadd.task.evalsets import LABELS

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
_BOTH = "every pair of values with every pair of variables that the test allows, one sequence each"
TESTS = {
    ZERO_VAR: "accuracy on literal sums, every held-out pair once",
    **{s.name: f"accuracy, {s.label}: {_BOTH}" for s in TWO_VAR_PARTS},
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
    """The columns of a table that comes with the package, in its order."""
    names = table.frame().columns
    if table.meanings:
        return [Column(name, table.meanings[name]) for name in names]
    about = table.document
    n_end = about.get("sequences_in_end_exams", 0)  # tables of an earlier version have no such exams
    return sweep_columns(names, about["sequences_per_set"], about["sequences_in_final_exam"], n_end)


def sweep_columns(names: Iterable[str], n: int, n_final: int, n_end: int = 0) -> list[Column]:
    """The columns of a sweep with `n` sequences of each evaluation set and `n_final` in the final exam.

    The exams of the last ten evaluations have `n_end` each. Columns that differ only in variable and slot are one
    entry.
    """
    return list(dict.fromkeys(sweep_column(name, n, n_final, n_end=n_end) for name in names))


def sweep_column(name: str, n: int, n_final: int, n_rates: int = STACK_SEQUENCES, n_end: int = 0) -> Column:
    """The meaning of one column of a sweep; a ValueError if no column of a sweep has this name.

    Rates of attention patterns are counted on `n_rates` sequences.
    """
    if name in FACTS:
        return Column(name, FACTS[name])
    if name in TESTS:
        return Column(name, TESTS[name], LAST_ROW)
    if name.endswith(final_column("")):
        exam = sweep_column(name.removesuffix(final_column("")), n_final, n_final, n_final)
        return Column(name, exam.meaning, "; ".join(filter(None, (exam.sample, LAST_ROW))))
    if name.endswith(end_column("")):
        exam = sweep_column(name.removesuffix(end_column("")), n_end, n_final)
        return Column(name, f"{exam.meaning}, at this evaluation", f"{n_end:,} fresh sequences; {LAST_ROWS}")
    if name in LABELS:
        return Column(name, f"accuracy: {LABELS[name]}", f"{n:,} sequences")
    if match := re.fullmatch(r"\d-var (\d links?|rebound|once)", name):
        return Column(name, f"accuracy: {match[0]}, as docs/tasks.md defines it", f"{n:,} sequences")
    if name.partition(".")[0] in SECTIONS:
        return Column(name, f"the setting {name} (`assignadd train --help`)")
    measure = measure_of(name)
    if measure is VARIABLE_ACCURACY:
        meaning = "accuracy: two variables, {variable} in the {slot} slot, the other in no banned slot"
        return Column(measure.name, meaning, f"{measure.n} sequences")
    sample = f"{n_rates:,} sequences" if measure.n else ""
    sample += ", those of them that training could contain" if TRAINING_LAW in name else ""
    return Column(name, f"{column_label(name)} ({measure.unit})", sample)
