"""The measures (paper, App. B, and ours): the record of each (`MEASURES`), and its columns, a value for every model.

`ProgressMeasures` takes all measures, for `assignadd measure`; `StackProgress` those that are fast enough to be taken
during a sweep.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cache, cached_property, partial
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor

from assignadd.config import Config, Model
from assignadd.measures import scores
from assignadd.measures.accuracies import variable_accuracies, variable_exam
from assignadd.measures.addition import filtered_accuracies, network_frequencies, ov2_mlp2_accuracy
from assignadd.measures.probes import TRAIN_SHARE, probe_l1_var_from_num
from assignadd.measures.routing import TRAINING_LAW, AttentionRates
from assignadd.measures.sequences import sequences
from assignadd.model.architecture import PAPER_NEEDS, QK1_NEEDS, QK2_NEEDS, SECOND_LAYER, Need, NotDefined, lacking
from assignadd.model.stack import Stack
from assignadd.palette import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, SKY, VERMILION
from assignadd.task.evalsets import NUMBER_OF_VARIABLES

Columns = dict[str, Tensor]
ColumnsOf = Callable[[Stack], Columns]
# Sequences of each type for `ProgressMeasures` and for `StackProgress`; sequences for each variable and slot.
SEQUENCES, STACK_SEQUENCES, PER_VARIABLE = 512, 256, 64
BY_TYPE = " ({n_vars}-var)"
AS_IN_TRAINING = f" ({{n_vars}}-var, {TRAINING_LAW})"
OF_HEAD = ", head {head})"
# All layers that a network may have, from 1.
LAYERS = range(1, next(f for f in fields(Model) if f.name == "n_layers").metadata["high"] + 1)
SOLID, DASHED, DENSE = "-", (0, (5, 1.5)), (0, (2, 1.2))
# Panels of figure `progress_measures`.
ADDING_AND_COPYING, ROUTING = "adding; copying a variable\ninto its number", "routing"
# Thresholds from which what is measured counts as present.
MOST = 0.9  # reached when all but one of eleven positions or twelve variables are right
HALF = 0.5  # above the accuracy of a model that finds only one operand; an attention weight above it is the largest


@dataclass(frozen=True)
class Measure:
    """A measure: one column of numbers, or all columns that differ in a field in braces such as `{n_vars}`."""

    name: str
    """The name of the column in tables, files and JSON."""
    label: str
    """The label for readers, to which `column_label` appends the number of variables."""
    unit: str
    threshold: float | None = None
    """The value from which on what is measured counts as present, if there is one."""
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
        # Each field in braces becomes a group of this name, for one word. `re.escape` puts a backslash before braces.
        pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>\\S+)", re.escape(self.name))
        match = re.fullmatch(pattern, column)
        return None if match is None else match.groupdict()

    def columns(self, names: Iterable[str]) -> list[str]:
        """The columns among `names` that belong to this measure."""
        return [name for name in names if self.fields(name) is not None]


def _of_layers(of_paper: int, name: str, label: str, unit: str, threshold: float, **of_figure: Any) -> list[Measure]:
    """A measure of an attention pattern for each layer; the paper has the pattern in layer `of_paper`.

    `threshold` is that of `Measure`, whose fields for figures are `of_figure`. The sample size counts sequences, also
    where the measure is a share of assigned numbers: those of one sequence are not independent.
    """
    measures = []
    for layer in LAYERS:
        # A network with one layer lacks the paper's column; with `needs`, `not_defined` says so. It is silent where a
        # network lacks the column of another layer, as that is ours: figures draw it with short dashes.
        is_of_paper = layer == of_paper
        of_layer: dict[str, Any] = {"needs": (SECOND_LAYER,)} if is_of_paper else {"paper": False, "line": DENSE}
        column = f"{name.format(layer=layer)}{BY_TYPE}"
        measures.append(Measure(column, f"layer {layer}: {label}", unit, threshold, SEQUENCES, **of_figure | of_layer))
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
_PROBED = SEQUENCES - int(TRAIN_SHARE * SEQUENCES)  # sequences that test a probe
VARIABLE_ACCURACY = Measure(
    "accuracy {variable} {slot}", "sums with {variable} in the {slot} slot", "of sequences", HALF, PER_VARIABLE
)
# In the order of onsets and figures.
MEASURES: tuple[Measure, ...] = (
    Measure("ov2_mlp2_accuracy", "OV2 and MLP2 alone add", "of pairs", MOST,
            panel=ADDING_AND_COPYING, paper=True, colour=BLUE, needs=PAPER_NEEDS),
    Measure("fourier_restricted_accuracy", "OV2 and MLP2 add, own frequencies alone", "of pairs", MOST,
            needs=PAPER_NEEDS),
    Measure("qk1_num_to_prev_var", "QK1: number finds the position before", "of positions", MOST,
            panel=ADDING_AND_COPYING, paper=True, colour=ORANGE, needs=QK1_NEEDS),
    Measure("qk1_num_to_prev_var (rows 3 on)", "QK1: the position before, rows 3 on", "of positions", MOST,
            panel=ADDING_AND_COPYING, colour=ORANGE, line=DENSE, needs=QK1_NEEDS),
    Measure("qk2_ov1_var_identity", "QK2: variable finds itself", "of variables", MOST,
            panel=ROUTING, paper=True, colour=GREEN, needs=QK2_NEEDS),
    Measure("qk2_ov1_var_margin", "QK2: margin of the variable itself, mean", "score", 0.0, needs=QK2_NEEDS),
    Measure("qk2_ov1_var_margin (least)", "QK2: margin of the variable itself, least", "score", 0.0, needs=QK2_NEEDS),
    Measure("probe_l1_var_from_num", "probe finds the variable at its number", "of sequences", MOST, _PROBED,
            panel=ADDING_AND_COPYING, paper=True, colour=INK, needs=(SECOND_LAYER,)),
    Measure("probe_l1_var_from_num (four steps)", "probe finds the variable, four steps", "of sequences", MOST, _PROBED,
            panel=ADDING_AND_COPYING, colour=INK, line=DENSE, needs=(SECOND_LAYER,)),
    *_RATES,
    VARIABLE_ACCURACY,
    # Without a threshold: variants of measures above, and values whose meaning depends on the network.
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
    """All measures, on fixed sequences of each model: `n` of each type, `per_variable` of each variable and slot."""

    def __init__(self, configs: Sequence[Config], seen: Tensor, n: int = SEQUENCES, per_variable: int = PER_VARIABLE):
        self.routing = AttentionRates(configs, seen, configs[0].task.variable_counts, n, masses=True)
        self.probed = sequences(configs, seen, n_vars=1, n=n).tokens  # (M, n, T)
        self.exam = variable_exam(configs, seen, per_variable)

    def __call__(self, stack: Stack) -> Columns:
        """All columns of the models of a stack that are defined for their architecture, in the order of a table."""
        return (
            circuit_columns(stack)
            | where_defined(stack, fourier_columns)
            | self.routing(stack)
            | where_defined(stack, self.probes)
            | variable_accuracies(stack, self.exam)
            | where_defined(stack, variable_score_columns)
            | {f"norm {name}": weight.flatten(1).norm(dim=1) for name, weight in stack.weights.items()}
        )

    def probes(self, stack: Stack) -> Columns:
        """Accuracy of the probes for the variable on one-variable sums: converged, and as in the paper's code."""
        converged, after_four_steps = probe_l1_var_from_num(stack, self.probed, (None, 4))
        return {"probe_l1_var_from_num": converged, "probe_l1_var_from_num (four steps)": after_four_steps}


class StackProgress:
    """The measures that a sweep takes, on fixed sequences of every model's split: those that are fast."""

    def __init__(self, configs: Sequence[Config], seen: Bool[Tensor, "M ..."], n: int = STACK_SEQUENCES):
        """Draws the sequences of all models together: `n` for each number of variables, fewer for each variable."""
        with_variables = configs[0].task.variable_counts[1:]  # 1, 2, ...: sums of literals are left out
        self.attention = AttentionRates(configs, seen, with_variables, n)
        self.exam = variable_exam(configs, seen, PER_VARIABLE)

    def __call__(self, stack: Stack) -> Columns:
        """The columns of the models of a stack; on a CPU each model is measured by itself."""
        circuits = columns_one_by_one(stack, circuit_columns)
        return circuits | self.attention(stack, one_by_one=True) | variable_accuracies(stack, self.exam)


def columns_one_by_one(stack: Stack, measure: ColumnsOf) -> Columns:
    """The columns of a measure; on a CPU it is given one model at a time, so that no model changes another's digits."""
    columns_of_parts = [measure(models) for _, models in stack.parts]  # a part is (its place in the stack, its models)
    return {name: torch.cat([columns[name] for columns in columns_of_parts]) for name in columns_of_parts[0]}


def where_defined(stack: Stack, measure: ColumnsOf) -> Columns:
    """The columns of a measure; none where it is not defined for the architecture (`not_defined` says why)."""
    try:
        return measure(stack)
    except NotDefined:
        return {}


# The measures of the weights that take little time, by column; each returns a number for every model, (M,).
CIRCUIT: dict[str, Callable[[Stack], Tensor]] = {
    "ov2_mlp2_accuracy": ov2_mlp2_accuracy,
    "qk1_num_to_prev_var": scores.qk1_num_to_prev_var,
    "qk1_num_to_prev_var (rows 3 on)": partial(scores.qk1_num_to_prev_var, first_row=3),
    "qk2_ov1_var_identity": scores.qk2_ov1_var_identity,
    "qk2_ov1_var_margin": lambda stack: scores.qk2_ov1_var_margin(stack).mean(1),
    "qk2_ov1_var_margin (least)": lambda stack: scores.qk2_ov1_var_margin(stack).amin(1),
}


def circuit_columns(stack: Stack) -> Columns:
    """The columns of `CIRCUIT` that are defined for the architecture."""
    columns: Columns = {}
    for name, measure in CIRCUIT.items():
        with contextlib.suppress(NotDefined):
            columns[name] = measure(stack)
    return columns


def fourier_columns(stack: Stack) -> Columns:
    """How many frequencies are the network's, and the circuit's accuracy with these alone and without them."""
    restricted, excluded = filtered_accuracies(stack)
    return {
        "fourier_frequencies": network_frequencies(stack).sum(1),
        "fourier_restricted_accuracy": restricted,
        "fourier_excluded_accuracy": excluded,
    }


def variable_score_columns(stack: Stack) -> Columns:
    """The QK1 score of `=` for each variable."""
    scores_of_variables = scores.qk1_equals_to_variables(stack).T  # (V, M)
    letters = stack.config.task.variables
    return {f"qk1 = to {letter}": score for letter, score in zip(letters, scores_of_variables, strict=True)}


class ProgressObserver:
    """An observer for `train_run`: the measures of each model at a step.

    `kind` is which of them: all (`ProgressMeasures`) or the fast ones (`StackProgress`).
    """

    def __init__(
        self,
        configs: Sequence[Config],
        seen: Tensor,
        kind: Callable[[Sequence[Config], Tensor], ColumnsOf] = ProgressMeasures,
    ):
        self.configs, self.seen, self._kind = configs, seen, kind

    @cached_property
    def _measures(self) -> ColumnsOf:
        """The function that measures a stack; made in the process that trains the models."""
        return self._kind(self.configs, self.seen)

    def __call__(self, stack: Stack, step: int) -> list[dict[str, Any]]:
        """For each model of the stack, its measures by name."""
        columns = {name: values.double().tolist() for name, values in self._measures(stack).items()}
        return [{name: rounded(values[i]) for name, values in columns.items()} for i in range(len(stack))]


def rounded(value: float) -> float | None:
    """The value to six digits, more than a few hundred sequences can resolve; None if it is not finite."""
    return float(f"{value:.6g}") if math.isfinite(value) else None
