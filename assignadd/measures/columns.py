"""The table of measured columns: name, label, unit, level, sample size and colour of each (paper, App. B, and ours).

Onsets, figures, the report, the explorer page and the terminal use this table. `measures.progress` takes the measures.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from assignadd.measures.probes import TRAIN_SHARE
from assignadd.measures.progress import PER_VARIABLE, SEQUENCES, TRAINING_LAW
from assignadd.palette import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, SKY, VERMILION
from assignadd.task.evalsets import VARIABLES

BY_TYPE = " ({n_vars}-var)"
AS_IN_TRAINING = f" ({{n_vars}}-var, {TRAINING_LAW})"
SOLID, DASHED, DENSE = "-", (0, (5, 1.5)), (0, (2, 1.2))
# Panels of figure `progress_measures`.
ADDING_AND_COPYING, ROUTING = "adding; copying a variable\ninto its number", "routing"
MOST = 0.9  # reached when all but one of eleven positions or twelve variables are right
# An accuracy of one half is above chance, and above that of a model that finds only one operand. An attention weight
# above one half is the largest.
HALF = 0.5


@dataclass(frozen=True)
class Measure:
    """The record of a column, or of all columns that differ in a field in braces such as `{n_vars}` or `{variable}`."""

    name: str
    """The name in tables, files and JSON."""
    label: str
    """The label for readers, to which `column_label` appends the number of variables."""
    unit: str
    level: float | None = None
    """The value at which what is measured counts as present; None if there is no such value."""
    n: int | None = None
    """Number of sequences per value; None for measures of the weights, which sample nothing."""
    panel: str = ""
    """The panel of figure `progress_measures` that shows it; empty if none does."""
    paper: bool = False
    """Whether it is one of the seven measures of App. B."""
    colour: str = GREY
    line: str | tuple[int, tuple[float, ...]] = SOLID

    @property
    def family(self) -> str:
        """The name without the number of variables."""
        return self.name.removesuffix(BY_TYPE)

    def fields(self, column: str) -> dict[str, str] | None:
        """The values of the fields in braces in a column's name; None if the column belongs to another measure."""
        pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>\\S+)", re.escape(self.name))
        found = re.fullmatch(pattern, column)
        return None if found is None else found.groupdict()

    def text(self, value: float | np.floating) -> str:
        """A value with its unit, for readers."""
        return f"{value:.2f} {self.unit}"

    def columns(self, names: Iterable[str]) -> list[str]:
        """The columns among `names` that belong to this measure."""
        return [name for name in names if self.fields(name) is not None]


# For shares of assigned numbers, n is the number of sequences, since numbers in the same sequence are not independent.
# This is conservative: between samples the share varies as if n were a few times larger. A mean of attention weights
# between 0 and 1 has at most the variance of a share with the same mean.
_RATES = (
    Measure(
        "attn_l1_num_to_prev" + BY_TYPE, "layer 1: number attends to its variable", "of assigned numbers",
        MOST, SEQUENCES, ADDING_AND_COPYING, True, PURPLE, DASHED,
    ),
    Measure(
        "attn_l1_equal_to_operands" + BY_TYPE, "layer 1: = attends to the operands", "of sequences",
        MOST, SEQUENCES, ROUTING, True, VERMILION,
    ),
    Measure(
        "attn_l2_equal_to_values" + BY_TYPE, "layer 2: = attends to the values", "of sequences",
        MOST, SEQUENCES, ROUTING, True, SKY,
    ),
    Measure(
        "mass_l1_num_to_prev" + BY_TYPE, "layer 1: weight, number to variable", "of the attention",
        HALF, SEQUENCES, colour=PURPLE,
    ),
    Measure(
        "mass_l1_equal_to_operands" + BY_TYPE, "layer 1: weight, = to operands", "of the attention",
        HALF, SEQUENCES, colour=VERMILION,
    ),
    Measure(
        "mass_l2_equal_to_values" + BY_TYPE, "layer 2: weight, = to values", "of the attention",
        HALF, SEQUENCES, colour=SKY,
    ),
)  # fmt: skip
_PROBED = SEQUENCES - int(TRAIN_SHARE * SEQUENCES)
VARIABLE_ACCURACY = Measure(
    "accuracy {variable} {slot}", "sums with {variable} in the {slot} slot", "of sequences", HALF, PER_VARIABLE
)
# In the order of onsets and figures.
MEASURES: tuple[Measure, ...] = (
    Measure(
        "ov2_mlp2_accuracy", "OV2 and MLP2 alone add", "of pairs",
        MOST, panel=ADDING_AND_COPYING, paper=True, colour=BLUE,
    ),
    Measure("fourier_restricted_accuracy", "OV2 and MLP2 add, own frequencies alone", "of pairs", MOST),
    Measure(
        "qk1_num_to_prev_var", "QK1: number finds the position before", "of positions",
        MOST, panel=ADDING_AND_COPYING, paper=True, colour=ORANGE,
    ),
    Measure(
        "qk1_num_to_prev_var (rows 3 on)", "QK1: the position before, rows 3 on", "of positions",
        MOST, panel=ADDING_AND_COPYING, colour=ORANGE, line=DENSE,
    ),
    Measure(
        "qk2_ov1_var_identity", "QK2: variable finds itself", "of variables",
        MOST, panel=ROUTING, paper=True, colour=GREEN,
    ),
    Measure("qk2_ov1_var_margin", "QK2: margin of the variable itself, mean", "score", 0.0),
    Measure("qk2_ov1_var_margin (least)", "QK2: margin of the variable itself, least", "score", 0.0),
    Measure(
        "probe_l1_var_from_num", "probe finds the variable at its number", "of sequences",
        MOST, _PROBED, ADDING_AND_COPYING, True, INK,
    ),
    Measure(
        "probe_l1_var_from_num (four steps)", "probe finds the variable, four steps", "of sequences",
        MOST, _PROBED, ADDING_AND_COPYING, colour=INK, line=DENSE,
    ),
    *_RATES,
    VARIABLE_ACCURACY,
    # Without a level: variants of measures above, and values whose meaning depends on the network.
    *(
        Measure(rate.family + AS_IN_TRAINING, f"{rate.label}, as in training", rate.unit, n=rate.n, colour=rate.colour)
        for rate in _RATES
    ),
    Measure("fourier_frequencies", "number of the network's frequencies", "frequencies"),
    Measure("fourier_excluded_accuracy", "OV2 and MLP2 add without own frequencies", "of pairs"),
    Measure("accuracy without frequency {frequency}", "OV2 and MLP2 add without frequency {frequency}", "of pairs"),
    Measure("qk1 = to {variable}", "QK1: score of = for {variable}", "score"),
    Measure("norm {matrix}", "norm of {matrix}", "Frobenius norm"),
)  # fmt: skip


def measure_of(column: str) -> Measure:
    """The record of a measured column."""
    found = next((m for m in MEASURES if m.fields(column) is not None), None)
    if found is None:
        raise ValueError(
            f"no measured column is called {column!r}; `assignadd measure RUN` writes them to measures.parquet"
        )
    return found


def column_label(column: str) -> str:
    """The label of a column, for readers."""
    measure = measure_of(column)
    fields = measure.fields(column) or {}
    label = measure.label.format(**fields)
    return f"{label}, {VARIABLES[int(fields['n_vars'])]}" if "n_vars" in fields else label
