"""Progress measures of any stack (paper, App. B, and variants of ours), in columns with one value per model.

`ProgressMeasures` takes all measures, one model after the other. `StackProgress` takes those that are fast enough to be
taken during a sweep, for all models at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from assignadd.config import Config
from assignadd.measures import scores
from assignadd.measures.accuracies import variable_accuracy, variable_exam
from assignadd.measures.addition import filtered_accuracies, ov2_mlp2_accuracy
from assignadd.measures.probes import variable_probes
from assignadd.measures.routing import Routing, pattern_counts, routings
from assignadd.measures.sequences import any_sequences, sequences
from assignadd.model.accuracy import Exam
from assignadd.model.architecture import NotDefined
from assignadd.model.forward import CHUNK, trace
from assignadd.model.stack import Stack
from assignadd.task.positions import as_in_training, operand_names, roles

Columns = dict[str, Tensor]
Measures = Callable[[Stack], Columns]
# Sequences of each type for `ProgressMeasures` and for `StackProgress`; sequences for each variable and slot.
SEQUENCES, STACK_SEQUENCES, PER_VARIABLE = 512, 256, 64
# Columns on the sequences that training could contain: seen pairs, no variable in a banned slot.
TRAINING_LAW = "training law"


class ProgressMeasures:
    """All measures, on fixed sequences of each model's own split, or of one split for all models."""

    def __init__(self, configs: Sequence[Config], seen: Tensor, n: int = SEQUENCES, per_variable: int = PER_VARIABLE):
        task = configs[0].task
        self.tokens = {n_vars: any_sequences(configs, seen, n_vars, n).tokens for n_vars in task.variable_counts}
        trained = {n_vars: as_in_training(task, seen, tokens) for n_vars, tokens in self.tokens.items()}
        self.subsets = {}  # of all these sequences, by what follows the name of a column in brackets
        for n_vars, rows in trained.items():
            for law, own in (("", torch.ones_like(rows)), (f", {TRAINING_LAW}", rows)):
                parts = [own if other == n_vars else torch.zeros_like(r) for other, r in trained.items()]
                self.subsets[f"{n_vars}-var{law}"] = torch.cat(parts, 1)
        self.probed = sequences(configs, seen, 1, n).tokens
        self.exam = variable_exam(configs, seen, per_variable)

    def __call__(self, stack: Stack) -> Columns:
        return (
            where_defined(fourier_columns, stack)
            | score_columns(stack)
            | self.routing(stack)
            | where_defined(self.probes, stack)
            | accuracy_columns(stack, self.exam)
            | where_defined(variable_score_columns, stack)
            | norm_columns(stack)
        )

    def probes(self, stack: Stack) -> Columns:
        """Accuracy of the probes for the variable on one-variable sums: converged, and as in the paper's code."""
        names = ("probe_l1_var_from_num", "probe_l1_var_from_num (four steps)")
        return dict(zip(names, variable_probes(stack, self.probed, (None, 4)), strict=True))

    def routing(self, stack: Stack) -> Columns:
        """Rates and masses of the attention patterns by type, on all sequences and on those training could contain."""
        found = routings(stack, torch.cat(list(self.tokens.values()), 1), list(self.subsets.values()))
        columns: Columns = {}
        for types, rates in zip(self.subsets, found, strict=True):
            columns |= rates.columns(types)
        return columns


class StackProgress:
    """The measures that a sweep takes, on fixed sequences of every model's own split; columns as above."""

    def __init__(self, configs: Sequence[Config], seen: Bool[Tensor, "M ..."], n: int = STACK_SEQUENCES):
        self.attention = AttentionRates(configs, seen, configs[0].task.variable_counts[1:], n)
        self.exam = variable_exam(configs, seen, PER_VARIABLE)

    def __call__(self, stack: Stack) -> Columns:
        return circuit_columns(stack) | self.attention(stack) | accuracy_columns(stack, self.exam)


class AttentionRates:
    """The rates (not the masses) of `routing` for all models of a stack at once, on `n` sequences of each type."""

    def __init__(self, configs: Sequence[Config], seen: Bool[Tensor, "M ..."], types: Iterable[int], n: int):
        self.task = configs[0].task
        tokens = {n_vars: any_sequences(configs, seen, n_vars, n).tokens for n_vars in types}
        self.as_in_training = {v: as_in_training(self.task, seen, of_type) for v, of_type in tokens.items()}
        self.chunks = {v: [(c, roles(self.task, c)) for c in of_type.split(CHUNK, 1)] for v, of_type in tokens.items()}

    def __call__(self, stack: Stack) -> Columns:
        columns: Columns = {}
        for n_vars, chunks in self.chunks.items():
            n_layers, trained = stack.config.model.n_layers, self.as_in_training[n_vars]
            parts = [pattern_counts(trace(stack, c), own, self.task, n_layers) for c, own in chunks]
            for law, rows in (("", torch.ones_like(trained)), (f", {TRAINING_LAW}", trained)):
                rates: Columns = {}
                for name in [name for name in parts[0] if name.startswith("attn_")]:
                    hits, out_of = (torch.cat([part[name][i] for part in parts], 1) for i in (0, 1))
                    total = (hits * rows[..., None]).sum(1)  # (M, heads), out of (M, 1)
                    rates[name] = total / (out_of * rows).sum(1, keepdim=True)
                columns |= Routing(rates).columns(f"{n_vars}-var{law}")
        return columns


def where_defined(measures: Measures, stack: Stack) -> Columns:
    """These columns; none for an architecture that they are not defined for (`columns.not_defined` lists them)."""
    try:
        return measures(stack)
    except NotDefined:
        return {}


def circuit_columns(stack: Stack) -> Columns:
    """The measures that depend only on the weights, as far as they are defined for the architecture."""
    return where_defined(lambda some: {"ov2_mlp2_accuracy": ov2_mlp2_accuracy(some)}, stack) | score_columns(stack)


def score_columns(stack: Stack) -> Columns:
    """The measures of attention scores between embeddings, as far as they are defined for the architecture."""
    return where_defined(_previous_columns, stack) | where_defined(_matching_columns, stack)


def _previous_columns(stack: Stack) -> Columns:
    return {
        "qk1_num_to_prev_var": scores.qk1_num_to_prev_var(stack),
        "qk1_num_to_prev_var (rows 3 on)": scores.qk1_num_to_prev_var(stack, first_row=3),
    }


def _matching_columns(stack: Stack) -> Columns:
    margin = scores.qk2_ov1_var_margin(stack)
    return {
        "qk2_ov1_var_identity": scores.qk2_ov1_var_identity(stack),
        "qk2_ov1_var_margin": margin.mean(1),
        "qk2_ov1_var_margin (least)": margin.amin(1),
    }


def variable_score_columns(stack: Stack) -> Columns:
    """The QK1 score of `=` with each variable."""
    found = scores.qk1_equals_to_variables(stack)
    return {f"qk1 = to {v}": found[:, i] for i, v in enumerate(stack.config.task.variables)}


def accuracy_columns(stack: Stack, exam: Exam) -> Columns:
    """The accuracy with each variable in each operand slot."""
    accuracy, task = variable_accuracy(stack, exam), stack.config.task
    letters, names = task.variables, operand_names(task)
    return {f"accuracy {v} {slot}": accuracy[:, s, i] for s, slot in enumerate(names) for i, v in enumerate(letters)}


def fourier_columns(stack: Stack) -> Columns:
    """The accuracy of the addition circuit, also with some frequencies removed, and the number of its frequencies."""
    found = filtered_accuracies(stack)
    columns = {
        "ov2_mlp2_accuracy": found.whole,
        "fourier_frequencies": (~found.without.isnan()).sum(1),
        "fourier_restricted_accuracy": found.restricted,
        "fourier_excluded_accuracy": found.excluded,
    }
    return columns | {f"accuracy without frequency {k + 1}": found.without[:, k] for k in range(found.without.shape[1])}


def norm_columns(stack: Stack) -> dict[str, Float[Tensor, " M"]]:
    """The Frobenius norm of every weight matrix."""
    return {f"norm {name}": weight.flatten(1).norm(dim=1) for name, weight in stack.weights.items()}


class ProgressObserver:
    """An observer for `train_run`: the measures of each model that are defined for its architecture."""

    def __init__(
        self,
        configs: Sequence[Config],
        seen: Tensor,
        kind: Callable[[Sequence[Config], Tensor], Measures] = ProgressMeasures,
    ):
        self.configs, self.seen, self._kind = configs, seen, kind

    @cached_property
    def _measures(self) -> Measures:
        """Made on the first call, in the process that trains the models."""
        return self._kind(self.configs, self.seen)

    def __call__(self, stack: Stack, step: int) -> list[dict[str, Any]]:
        columns = {name: values.double().tolist() for name, values in self._measures(stack).items()}
        return [{name: _rounded(column[m]) for name, column in columns.items()} for m in range(len(stack))]


def _rounded(value: float) -> float | None:
    """The value to six digits, more than a few hundred sequences can resolve; None if it is not finite."""
    return float(f"{value:.6g}") if math.isfinite(value) else None
