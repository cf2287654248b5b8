"""The measures (paper, App. B, and ours): the record of each, and its columns, a value for every model of a stack.

Onsets, figures, the report, the explorer page and the terminal use the records (`MEASURES`: name, label, unit, level,
sample size, colour). `ProgressMeasures` takes all measures, for `assignadd measure`; `StackProgress` those that are
fast enough to be taken during a sweep.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cache, cached_property
from typing import Any

from jaxtyping import Bool
from torch import Tensor

from assignadd.config import Config, Model
from assignadd.measures import scores
from assignadd.measures.accuracies import variable_accuracy, variable_exam
from assignadd.measures.addition import filtered_accuracies, network_frequencies, ov2_mlp2_accuracy
from assignadd.measures.probes import TRAIN_SHARE, variable_probes
from assignadd.measures.routing import TRAINING_LAW, AttentionRates
from assignadd.measures.sequences import sequences
from assignadd.model.accuracy import Exam
from assignadd.model.architecture import PAPER_NEEDS, QK1_NEEDS, QK2_NEEDS, SECOND_LAYER, Need, NotDefined, lacking
from assignadd.model.stack import Stack, computed_together
from assignadd.palette import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, SKY, VERMILION
from assignadd.task.evalsets import NUMBER_OF_VARIABLES
from assignadd.task.positions import operand_names

Columns = dict[str, Tensor]
ColumnsOf = Callable[[Stack], Columns]
# Sequences of each type for `ProgressMeasures` and for `StackProgress`; sequences for each variable and slot.
SEQUENCES, STACK_SEQUENCES, PER_VARIABLE = 512, 256, 64
BY_TYPE = " ({n_vars}-var)"
AS_IN_TRAINING = f" ({{n_vars}}-var, {TRAINING_LAW})"
OF_HEAD = ", head {head})"
# All layers that a network may have.
LAYERS = range(1, next(f for f in fields(Model) if f.name == "n_layers").metadata["high"] + 1)
SOLID, DASHED, DENSE = "-", (0, (5, 1.5)), (0, (2, 1.2))
# Panels of figure `progress_measures`.
ADDING_AND_COPYING, ROUTING = "adding; copying a variable\ninto its number", "routing"
MOST = 0.9  # reached when all but one of eleven positions or twelve variables are right
# An accuracy of one half is above chance, and above that of a model that finds only one operand. An attention weight
# above one half is the largest.
HALF = 0.5


@dataclass(frozen=True)
class Measure:
    """A measure: one column of numbers, or all columns that differ in a field in braces such as `{n_vars}`."""

    name: str
    """The name of the column in tables, files and JSON."""
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
    needs: tuple[Need, ...] = ()
    """What an architecture must have for the measure to be defined; other networks do not have the column."""

    @property
    def family(self) -> str:
        """The name without the number of variables."""
        return self.name.removesuffix(BY_TYPE)

    def fields(self, column: str) -> dict[str, str] | None:
        """The values of the fields in braces in a column's name; None if the column belongs to another measure."""
        # A field in braces, such as {n_vars}, stands for one word. `re.escape` puts a backslash before each brace.
        pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>\\S+)", re.escape(self.name))
        match = re.fullmatch(pattern, column)
        return None if match is None else match.groupdict()

    def text(self, value: float) -> str:
        """A value with its unit, for readers."""
        return f"{value:.2f} {self.unit}"

    def columns(self, names: Iterable[str]) -> list[str]:
        """The columns among `names` that belong to this measure."""
        return [name for name in names if self.fields(name) is not None]


# For shares of assigned numbers, n is the number of sequences, since numbers in the same sequence are not independent.
# This is conservative: between samples the share varies as if n were a few times larger. A mean of attention weights
# between 0 and 1 has at most the variance of a share with the same mean.
# The value of a layer is that of its best head (`measures.routing`).
def _of_layers(layer_of_paper: int, name: str, label: str, unit: str, level: float, **of_figure: Any) -> list[Measure]:
    """A measure of an attention pattern for each layer; the paper has the pattern in layer `layer_of_paper`.

    `of_figure` are the fields that say how figures show it.
    """
    measures = []
    for layer in LAYERS:
        name_of_layer, label_of_layer = f"{name.format(layer=layer)}{BY_TYPE}", f"layer {layer}: {label}"
        # `not_defined` lists the paper's layer alone where a network has one layer; lines of others have short dashes.
        of_layer = {"needs": (SECOND_LAYER,)} if layer == layer_of_paper else {"paper": False, "line": DENSE}
        measures.append(Measure(name_of_layer, label_of_layer, unit, level, SEQUENCES, **of_figure | of_layer))
    return measures


_RATES = [
    *_of_layers(1, "attn_l{layer}_num_to_prev", "number attends to its variable", "of assigned numbers", MOST,
                panel=ADDING_AND_COPYING, paper=True, colour=PURPLE, line=DASHED),
    *_of_layers(1, "attn_l{layer}_equal_to_operands", "= attends to the operands", "of sequences", MOST,
                panel=ROUTING, paper=True, colour=VERMILION),
    *_of_layers(2, "attn_l{layer}_equal_to_values", "= attends to the values", "of sequences", MOST,
                panel=ROUTING, paper=True, colour=SKY),
    *_of_layers(1, "mass_l{layer}_num_to_prev", "weight, number to variable", "of the attention", HALF, colour=PURPLE),
    *_of_layers(1, "mass_l{layer}_equal_to_operands", "weight, = to operands", "of the attention", HALF,
                colour=VERMILION),
    *_of_layers(2, "mass_l{layer}_equal_to_values", "weight, = to values", "of the attention", HALF, colour=SKY),
]  # fmt: skip
_PROBED = SEQUENCES - int(TRAIN_SHARE * SEQUENCES)
VARIABLE_ACCURACY = Measure(
    "accuracy {variable} {slot}", "sums with {variable} in the {slot} slot", "of sequences", HALF, PER_VARIABLE
)
# In the order of onsets and figures.
MEASURES: tuple[Measure, ...] = (
    Measure(
        "ov2_mlp2_accuracy", "OV2 and MLP2 alone add", "of pairs",
        MOST, panel=ADDING_AND_COPYING, paper=True, colour=BLUE, needs=PAPER_NEEDS,
    ),
    Measure(
        "fourier_restricted_accuracy", "OV2 and MLP2 add, own frequencies alone", "of pairs", MOST, needs=PAPER_NEEDS,
    ),
    Measure(
        "qk1_num_to_prev_var", "QK1: number finds the position before", "of positions",
        MOST, panel=ADDING_AND_COPYING, paper=True, colour=ORANGE, needs=QK1_NEEDS,
    ),
    Measure(
        "qk1_num_to_prev_var (rows 3 on)", "QK1: the position before, rows 3 on", "of positions",
        MOST, panel=ADDING_AND_COPYING, colour=ORANGE, line=DENSE, needs=QK1_NEEDS,
    ),
    Measure(
        "qk2_ov1_var_identity", "QK2: variable finds itself", "of variables",
        MOST, panel=ROUTING, paper=True, colour=GREEN, needs=QK2_NEEDS,
    ),
    Measure("qk2_ov1_var_margin", "QK2: margin of the variable itself, mean", "score", 0.0, needs=QK2_NEEDS),
    Measure("qk2_ov1_var_margin (least)", "QK2: margin of the variable itself, least", "score", 0.0, needs=QK2_NEEDS),
    Measure(
        "probe_l1_var_from_num", "probe finds the variable at its number", "of sequences",
        MOST, _PROBED, panel=ADDING_AND_COPYING, paper=True, colour=INK, needs=(SECOND_LAYER,),
    ),
    Measure(
        "probe_l1_var_from_num (four steps)", "probe finds the variable, four steps", "of sequences",
        MOST, _PROBED, panel=ADDING_AND_COPYING, colour=INK, line=DENSE, needs=(SECOND_LAYER,),
    ),
    *_RATES,
    VARIABLE_ACCURACY,
    # Without a level: variants of measures above, and values whose meaning depends on the network.
    *(
        Measure(rate.family + suffix, f"{rate.label}, {words}", rate.unit, n=rate.n, colour=rate.colour)
        for suffix, words in (
            (AS_IN_TRAINING, "as in training"),
            # Where a layer has several heads: each of them, named before the closing parenthesis.
            (BY_TYPE[:-1] + OF_HEAD, "head {head}"), (AS_IN_TRAINING[:-1] + OF_HEAD, "head {head}, as in training"),
        )
        for rate in _RATES
    ),
    Measure("fourier_frequencies", "number of the network's frequencies", "frequencies", needs=PAPER_NEEDS),
    Measure("fourier_excluded_accuracy", "OV2 and MLP2 add without own frequencies", "of pairs", needs=PAPER_NEEDS),
    Measure("qk1 = to {variable}", "QK1: score of = for {variable}", "score", needs=QK1_NEEDS),
    Measure("norm {matrix}", "norm of {matrix}", "Frobenius norm"),
)  # fmt: skip


@cache
def measure_of(column: str) -> Measure:
    """The measure that a column belongs to."""
    for measure in MEASURES:
        if measure.fields(column) is not None:
            return measure
    raise ValueError(
        f"no measured column is called {column!r}; `assignadd measure curves RUN` writes them to measures.parquet"
    )


def not_defined(config: Config) -> dict[str, str]:
    """The measures that this architecture has no column for, by name, each with the reason."""
    reasons = {measure.name: lacking(config, *measure.needs) for measure in MEASURES}
    return {name: reason for name, reason in reasons.items() if reason}


def require_column(config: Config, column: str) -> None:
    """Raises `NotDefined` where this architecture has no such column."""
    if reason := lacking(config, *measure_of(column).needs):
        raise NotDefined(column, reason)


def column_label(column: str) -> str:
    """The label of a column, for readers."""
    measure = measure_of(column)
    fields = measure.fields(column) or {}
    label = measure.label.format(**fields)
    return f"{label}, {NUMBER_OF_VARIABLES[int(fields['n_vars'])]}" if "n_vars" in fields else label


class ProgressMeasures:
    """All measures, on fixed sequences of each model's split, or of one split for all models."""

    def __init__(self, configs: Sequence[Config], seen: Tensor, n: int = SEQUENCES, per_variable: int = PER_VARIABLE):
        """Draws `n` sequences of each type, and `per_variable` for each variable in each slot."""
        self.routing = AttentionRates(configs, seen, configs[0].task.variable_counts, n, masses=True)
        self.probed = sequences(configs, seen, 1, n).tokens
        self.exam = variable_exam(configs, seen, per_variable)

    def __call__(self, stack: Stack) -> Columns:
        """All columns of the models of a stack, in the order of the files."""
        return (
            where_defined(stack, addition_columns, fourier_columns, qk1_columns, qk2_columns)
            | self.routing(stack)
            | where_defined(stack, self.probes)
            | accuracy_columns(stack, self.exam)
            | where_defined(stack, variable_score_columns)
            | {f"norm {name}": weight.flatten(1).norm(dim=1) for name, weight in stack.weights.items()}
        )

    def probes(self, stack: Stack) -> Columns:
        """Accuracy of the probes for the variable on one-variable sums: converged, and as in the paper's code."""
        converged, after_four_steps = variable_probes(stack, self.probed, (None, 4))
        return {"probe_l1_var_from_num": converged, "probe_l1_var_from_num (four steps)": after_four_steps}


class StackProgress:
    """The measures that a sweep takes, on fixed sequences of every model's split: those that are fast."""

    def __init__(self, configs: Sequence[Config], seen: Bool[Tensor, "M ..."], n: int = STACK_SEQUENCES):
        self.attention = AttentionRates(configs, seen, configs[0].task.variable_counts[1:], n)
        self.exam = variable_exam(configs, seen, PER_VARIABLE)

    def __call__(self, stack: Stack) -> Columns:
        """The columns of the models of a stack."""
        return circuit_columns(stack) | self.attention(stack) | accuracy_columns(stack, self.exam)


def where_defined(stack: Stack, *measures: ColumnsOf) -> Columns:
    """The columns of those measures that are defined for the architecture (`not_defined` lists the others)."""
    columns: Columns = {}
    for measure in measures:
        with contextlib.suppress(NotDefined):
            columns |= measure(stack)
    return columns


def circuit_columns(stack: Stack) -> Columns:
    """The measures of the weights that take little time, as far as they are defined for the architecture."""
    return where_defined(stack, addition_columns, qk1_columns, qk2_columns)


def addition_columns(stack: Stack) -> Columns:
    """The accuracy of the addition circuit alone."""
    return {"ov2_mlp2_accuracy": ov2_mlp2_accuracy(stack)}


def fourier_columns(stack: Stack) -> Columns:
    """How many frequencies are the network's, and the circuit's accuracy with these alone and without them."""
    restricted, excluded = filtered_accuracies(stack)
    return {
        "fourier_frequencies": network_frequencies(stack).sum(1),
        "fourier_restricted_accuracy": restricted,
        "fourier_excluded_accuracy": excluded,
    }


def qk1_columns(stack: Stack) -> Columns:
    """How often QK1 finds the position before, over all rows and over those that can fail."""
    return {
        "qk1_num_to_prev_var": scores.qk1_num_to_prev_var(stack),
        "qk1_num_to_prev_var (rows 3 on)": scores.qk1_num_to_prev_var(stack, first_row=3),
    }


def qk2_columns(stack: Stack) -> Columns:
    """How many variables match themselves best under QK2, and by what margin: the mean and the least."""
    margin = scores.qk2_ov1_var_margin(stack)
    return {
        "qk2_ov1_var_identity": scores.qk2_ov1_var_identity(stack),
        "qk2_ov1_var_margin": margin.mean(1),
        "qk2_ov1_var_margin (least)": margin.amin(1),
    }


def variable_score_columns(stack: Stack) -> Columns:
    """The QK1 score of `=` for each variable."""
    scores_of_variables = scores.qk1_equals_to_variables(stack).T  # (V, M)
    letters = stack.config.task.variables
    return {f"qk1 = to {letter}": score for letter, score in zip(letters, scores_of_variables, strict=True)}


def accuracy_columns(stack: Stack, exam: Exam) -> Columns:
    """The accuracy with each variable in each operand slot."""
    task = stack.config.task
    names = [f"accuracy {letter} {slot}" for slot in operand_names(task) for letter in task.variables]
    return dict(zip(names, variable_accuracy(stack, exam).flatten(1).T, strict=True))


class ProgressObserver:
    """An observer for `train_run`: the measures of each model that are defined for its architecture.

    `kind` makes the measures: `ProgressMeasures` for all of them, `StackProgress` for the fast ones.
    """

    def __init__(
        self,
        configs: Sequence[Config],
        seen: Tensor,
        kind: Callable[[Sequence[Config], Tensor], ColumnsOf] = ProgressMeasures,
    ):
        self.configs, self.seen, self._kind = configs, seen, kind

    @cached_property
    def _measures(self) -> list[tuple[slice, ColumnsOf]]:
        """What takes the measures of models that are computed together; made in the process that trains them."""
        parts = computed_together(self.seen.device, len(self.configs))
        return [(part, self._kind(self.configs[part], self.seen[part])) for part in parts]

    def __call__(self, stack: Stack, step: int) -> list[dict[str, Any]]:
        """For each model of the stack, its measures by name."""
        rows: list[dict[str, Any]] = []
        for part, measures in self._measures:
            columns = {name: values.double().tolist() for name, values in measures(stack.models(part)).items()}
            n_models = part.stop - part.start
            rows += [{name: rounded(values[i]) for name, values in columns.items()} for i in range(n_models)]
        return rows


def rounded(value: float) -> float | None:
    """The value to six digits, more than a few hundred sequences can resolve; None if it is not finite."""
    return float(f"{value:.6g}") if math.isfinite(value) else None
