"""All that is measured on one trained model, each thing once and only when a claim or a figure asks for it."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from torch import Tensor

from assignadd.config import Config
from assignadd.dynamics import learned_binding
from assignadd.dynamics.late import LateVariable, late_variable
from assignadd.dynamics.levels import CurveOnset, curve_onsets
from assignadd.dynamics.phases import Curves, Phases, find_phases
from assignadd.dynamics.spikes import Spike
from assignadd.dynamics.stored import trajectory_of
from assignadd.dynamics.trajectory import accuracy_curves
from assignadd.measures.accuracies import Accuracy, set_accuracies
from assignadd.measures.fourier import Filtered, Waves, context_waves, filtered_accuracies
from assignadd.measures.pair_accuracy import pair_accuracy
from assignadd.measures.probes import AnswerProbes, answer_probes
from assignadd.measures.routing import Routing, routing
from assignadd.measures.samples import sequences
from assignadd.measures.similarity import AgainstOV2, Matching, across_types, against_ov2, on_template, random_contexts
from assignadd.measures.theory_gradient import TheoryGradient, one_variable_batch, telling_steps, theory_gradient
from assignadd.model.stack import Stack
from assignadd.model.table import require_covered
from assignadd.runs.folder import Run

SEQUENCES = 4000
# Of each type for the cosines, whose spread over sequences is small.
CONTEXTS = 2000
GRADIENT_SEQUENCES = 2048


class Evidence:
    """One model of a run: its weights at one step, its split and settings, and what training recorded of it."""

    def __init__(self, run: Run, index: int, step: int, stack: Stack, n: int = SEQUENCES):
        self.run, self.index, self.step, self.stack, self.n = run, index, step, stack, n
        self.config: Config = run.configs[index]
        self.seed = run.members[index].seed
        self.seen: Tensor = run.seen[index]

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """What training recorded of this model; empty for imported weights."""
        return [row for row in self.run.metrics() if row["model"] == self.index]

    @cached_property
    def accuracies(self) -> dict[str, Accuracy]:
        return set_accuracies(self.stack, [self.config], self.seen[None], self.n)[0]

    @cached_property
    def pair_accuracy(self) -> dict[int, Tensor]:
        """Accuracy of every pair of numbers, by the number of variables in the sum."""
        return {n: pair_accuracy(self.stack, self.config, n) for n in self.types}

    @property
    def learned_binding(self) -> bool:
        return learned_binding({"accuracy": {name: a.accuracy for name, a in self.accuracies.items()}})

    @cached_property
    def routing(self) -> dict[int, Routing]:
        """By the number of variables in the sum, where the task has such sums."""
        return {n_vars: routing(self.stack, self.sequences(n_vars)) for n_vars in self.types}

    @cached_property
    def across_types(self) -> dict[tuple[int, int], Matching]:
        """Figure cosine_sim_combined (a) on random contexts, by the two types of sequences."""
        return across_types(self.stack, self._contexts)

    @cached_property
    def on_template(self) -> Matching:
        return on_template(self.stack)

    @cached_property
    def against_ov2(self) -> dict[int, AgainstOV2]:
        """Figure cosine_sim_combined (b), by the number of variables in the sum."""
        return {n_vars: against_ov2(self.stack, tokens) for n_vars, tokens in self._contexts.items()}

    @cached_property
    def _contexts(self) -> dict[int, Tensor]:
        return random_contexts([self.config], self.seen[None], min(self.n, CONTEXTS))

    @cached_property
    def probes(self) -> AnswerProbes:
        """Trained on some pairs of numbers, tested on others."""
        return answer_probes(self.stack, [self.config], self.seen[None])

    @cached_property
    def probes_by_row(self) -> AnswerProbes:
        """Trained and tested on sequences that add the same pairs."""
        return answer_probes(self.stack, [self.config], self.seen[None], split="row")

    @cached_property
    def waves(self) -> Waves:
        """Of every neuron, over all pairs in contexts of the training law."""
        return context_waves(self.stack, [self.config], self.seen[None])

    @cached_property
    def filtered(self) -> Filtered:
        return filtered_accuracies(self.stack)

    @cached_property
    def curves(self) -> Curves:
        """Accuracies along training."""
        return accuracy_curves(self.run, self.index)

    @property
    def followed(self) -> bool:
        """Whether training was looked at on its way: one evaluation says what was learned, not when."""
        return len(self.curves.steps) > 1

    @cached_property
    def phases(self) -> Phases:
        return find_phases(self.curves)

    @cached_property
    def trajectory(self) -> dict[str, np.ndarray]:
        """The progress measures at every checkpoint, by column (as `assignadd measure` stored them, else measured now)."""
        return trajectory_of(self.run, self.index)

    @cached_property
    def late_variable(self) -> LateVariable | None:
        """The last variable to come, if one comes after the first spike."""
        spike, task = self.phases.first_spike, self.config.task
        if spike is None:
            return None
        return late_variable(self.trajectory, {"first": task.banned_first, "second": task.banned_second}, spike.after)

    @cached_property
    def onsets(self) -> list[CurveOnset]:
        """When every curve came up to last."""
        return curve_onsets(self.curves, self.trajectory)

    @cached_property
    def theory_gradient(self) -> TheoryGradient | None:
        """QK2's gradient and change along training beside the theory's direction; None with fewer than two checkpoints."""
        steps = telling_steps(self.run.steps, self.rows)
        if len(steps) < 2:
            return None
        batch = one_variable_batch(self.config, self.seen, GRADIENT_SEQUENCES)
        return theory_gradient(self.run.trajectory(steps, self.index), steps, batch)

    def stack_at(self, step: int) -> Stack:
        """This model at another checkpoint."""
        return self.run.trajectory([step], self.index)

    def checkpoint_steps(self, spike: Spike) -> tuple[int, int]:
        """The last checkpoint before a spike and the first one behind it."""
        steps = self.run.steps
        return max(s for s in steps if s <= spike.before), min(s for s in steps if s >= spike.after)

    @property
    def types(self) -> range:
        """Numbers of variables that a sum may have."""
        return range(1 + min(2, self.config.task.max_assignments))

    def sequences(self, n_vars: int, draw: int = 0) -> Tensor:
        return sequences([self.config], self.seen[None], n_vars, self.n, draw).tokens


def evidence(run: Run, step: int | None = None, n: int = SEQUENCES) -> tuple[list[Evidence], list[str]]:
    """Every model of a run at a step (the newest intact checkpoint unless given), and a note for each damaged one passed over."""
    require_covered(run.config)
    at, stack, notes = run.at(step)
    return [Evidence(run, i, at, stack.models(i), n) for i in range(len(stack))], notes
