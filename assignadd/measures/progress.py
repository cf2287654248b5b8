"""The progress measures of App. B, and ours, on any stack: a column per number, a value per model."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from assignadd.config import Config
from assignadd.measures.addition import ov2_mlp2_accuracy
from assignadd.measures.fourier import filtered_accuracies, network_frequencies
from assignadd.measures.probes import probe_l1_var_from_num
from assignadd.measures.routing import routings
from assignadd.measures.scores import qk1_num_to_prev_var, qk2_ov1_var_identity, qk2_ov1_var_margin
from assignadd.measures.sequences import any_sequences, sequences
from assignadd.measures.variables import SLOTS, qk1_equals_to_variables, variable_accuracy, variable_exam
from assignadd.model.stack import Stack
from assignadd.model.table import covers
from assignadd.task.roles import as_in_training

Columns = dict[str, Tensor]
Measures = Callable[[Stack], Columns]
SEQUENCES = 512
# The sequences of a batch that training could show: seen pairs, no banned slot.
TRAINING_LAW = "training law"
PER_VARIABLE = 64


class Progress:
    """The measures on fixed sequences: of every model's own split, or of one split for a whole trajectory."""

    def __init__(self, configs: Sequence[Config], seen: Tensor, n: int = SEQUENCES, per_variable: int = PER_VARIABLE):
        task = configs[0].task
        self.tokens = {n_vars: any_sequences(configs, seen, n_vars, n).tokens for n_vars in task.variable_counts}
        self.as_in_training = {n_vars: as_in_training(task, seen, tokens) for n_vars, tokens in self.tokens.items()}
        self.probed = sequences(configs, seen, 1, n).tokens
        self.exam = variable_exam(configs, seen, per_variable)
        self.variables = task.variables

    def __call__(self, stack: Stack) -> Columns:
        parts = (
            circuit_columns(stack),
            self.routing(stack),
            self.probes(stack),
            fourier_columns(stack),
            self.by_variable(stack),
        )
        return {name: values for part in (*parts, norm_columns(stack)) for name, values in part.items()}

    def probes(self, stack: Stack) -> Columns:
        """On the sequences with one variable, converged and as the paper's code trained them."""
        return {
            "probe_l1_var_from_num": probe_l1_var_from_num(stack, self.probed),
            "probe_l1_var_from_num (four steps)": probe_l1_var_from_num(stack, self.probed, steps=4),
        }

    def routing(self, stack: Stack) -> Columns:
        """Rates and masses of the attention patterns, per number of variables: on all sequences, and on those training
        could show."""
        columns: Columns = {}
        for n_vars, tokens in self.tokens.items():
            every, trained = routings(stack, tokens, [torch.ones_like(rows := self.as_in_training[n_vars]), rows])
            columns |= {f"{name} ({n_vars}-var)": values for name, values in vars(every).items()}
            columns |= {f"{name} ({n_vars}-var, {TRAINING_LAW})": values for name, values in vars(trained).items()}
        return columns

    def by_variable(self, stack: Stack) -> Columns:
        accuracy, asked = variable_accuracy(stack, self.exam), qk1_equals_to_variables(stack)
        columns = {
            f"accuracy {v} {slot}": accuracy[:, s, i]
            for s, slot in enumerate(SLOTS)
            for i, v in enumerate(self.variables)
        }
        return columns | {f"qk1 = to {v}": asked[:, i] for i, v in enumerate(self.variables)}


def circuit_columns(stack: Stack) -> Columns:
    """What the weights alone say."""
    margin = qk2_ov1_var_margin(stack)
    return {
        "ov2_mlp2_accuracy": ov2_mlp2_accuracy(stack),
        "qk1_num_to_prev_var": qk1_num_to_prev_var(stack),
        "qk1_num_to_prev_var (rows 3 on)": qk1_num_to_prev_var(stack, first_row=3),
        "qk2_ov1_var_identity": qk2_ov1_var_identity(stack),
        "qk2_ov1_var_margin": margin.mean(1),
        "qk2_ov1_var_margin (least)": margin.amin(1),
    }


def fourier_columns(stack: Stack) -> Columns:
    """How much of the addition is in the network's frequencies, and what each is worth."""
    found, own = filtered_accuracies(stack), network_frequencies(stack)
    columns = {
        "fourier_frequencies": own.sum(1),
        "fourier_restricted_accuracy": found.restricted,
        "fourier_excluded_accuracy": found.excluded,
    }
    return columns | {f"accuracy without frequency {k + 1}": found.without[:, k] for k in range(own.shape[1])}


def norm_columns(stack: Stack) -> dict[str, Float[Tensor, " M"]]:
    """The Frobenius norm of every matrix."""
    return {f"norm {name}": weight.flatten(1).norm(dim=1) for name, weight in stack.weights.items()}


class Observing:
    """An observer for `train_run`: a dict of measures per model; empty for an architecture that they do not fit."""

    def __init__(
        self, configs: Sequence[Config], seen: Tensor, kind: Callable[[Sequence[Config], Tensor], Measures] = Progress
    ):
        self.configs, self.seen, self._kind = configs, seen, kind

    @cached_property
    def _measures(self) -> Measures:
        """Made on the first call, in the process that trains the models."""
        return self._kind(self.configs, self.seen)

    def __call__(self, stack: Stack, step: int) -> list[dict[str, Any]]:
        if not covers(stack.config):
            return [{} for _ in self.configs]
        columns = {name: values.double().tolist() for name, values in self._measures(stack).items()}
        return [{name: _rounded(column[m]) for name, column in columns.items()} for m in range(len(stack))]


def _rounded(value: float) -> float | None:
    """Six digits, more than some hundred sequences say; None where a diverged model or an empty set has no number."""
    return float(f"{value:.6g}") if math.isfinite(value) else None
