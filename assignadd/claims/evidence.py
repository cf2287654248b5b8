"""Everything measured on one trained model, each thing once and only when a claim or a figure needs it.

`evidence(run)` returns it for every model of a run; `Evidence(stack, config, seen)` needs no run folder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from assignadd.claims.causal import Causal
from assignadd.config import Config, ConfigError
from assignadd.dynamics.curves import Spike
from assignadd.dynamics.phases import (
    CurveOnset,
    Curves,
    LateVariable,
    Phases,
    curve_onsets,
    find_phases,
    late_variable,
)
from assignadd.dynamics.trajectory import accuracies_at, accuracy_curves, measured_at, trajectory_of
from assignadd.errors import RunError
from assignadd.interventions.cues import SEQUENCES as CUE_SEQUENCES
from assignadd.interventions.cues import Exchanged, cue_answers, exchanged_tags
from assignadd.measures.accuracies import (
    Accuracy,
    EndAccuracy,
    end_accuracies,
    pair_accuracy,
    set_accuracies,
)
from assignadd.measures.addition import Filtered, Waves, context_waves, filtered_accuracies
from assignadd.measures.columns import require_column
from assignadd.measures.nameless import SEQUENCES as NAMELESS_SEQUENCES
from assignadd.measures.nameless import MeanOfValues, Nameless, mean_of_values, nameless
from assignadd.measures.probes import AnswerProbes, answer_probes
from assignadd.measures.routing import Routing, routings
from assignadd.measures.sequences import any_sequences
from assignadd.measures.similarity import AgainstOV2, Matching, across_types, against_ov2, on_template, random_contexts
from assignadd.measures.theory_gradient import TheoryGradient, informative_steps, one_variable_batch, theory_gradient
from assignadd.model.accuracy import end_of_training
from assignadd.model.stack import Stack, concatenate
from assignadd.runs.folder import Run
from assignadd.task.evalsets import EvalSet
from assignadd.task.roles import as_in_training
from assignadd.task.sampler import EmptySetError

SEQUENCES = 20_000
# Sequences of each type for the cosines, which vary little between sequences.
CONTEXTS = 2000
GRADIENT_SEQUENCES = 2048
ANY_PAIR_BANNED = EvalSet("1-var banned slot, any pair", n_vars=1, pair="any", n_banned=1)
ANY_PAIR_PLACE = 99  # among the sets of an exam at the end: behind all others


class Evidence:
    """One model (a stack of one), its configuration and split, tested on `n` sequences of each set.

    `run` and `index` say where the model comes from, and give access to recorded metrics and other checkpoints. Without
    a run, `checkpoints` may hold the same model at other steps; claims about training need them.
    """

    def __init__(
        self,
        stack: Stack,
        config: Config,
        seen: Tensor,
        n: int = SEQUENCES,
        *,
        step: int = 0,
        seed: int = 0,
        name: str = "weights",
        run: Run | None = None,
        index: int = 0,
        checkpoints: Mapping[int, Stack] | None = None,
    ):
        if len(stack) != 1 or seen.ndim != 2:
            raise ValueError(
                f"expected a stack of one model and its (N, N) split, got {len(stack)} models and {tuple(seen.shape)}"
            )
        self.stack, self.config, self.seen, self.n = stack, config, seen, n
        self.step, self.seed, self.name, self.run, self.index = step, seed, name, run, index
        self._checkpoints = {**(checkpoints or {}), step: stack}
        self.kept: dict[tuple[Any, ...], Any] = {}
        """Results of functions of this evidence, by function and further arguments."""

    @classmethod
    def of_run(cls, run: Run, index: int, step: int, stack: Stack, n: int = SEQUENCES) -> Evidence:
        """One model of a run, `stack`, as it was at `step`."""
        seed, name = run.members[index].seed, run.name
        return cls(stack, run.configs[index], run.seen[index], n, step=step, seed=seed, name=name, run=run, index=index)

    @cached_property
    def imported(self) -> bool:
        """Whether the weights were trained elsewhere and read into a run."""
        return self.run is not None and bool(self.run.manifest.sources)

    @cached_property
    def steps(self) -> list[int]:
        """The steps that have a checkpoint."""
        return sorted(self._checkpoints) if self.run is None else self.run.steps

    def checkpoints(self, steps: Sequence[int]) -> Stack:
        """The stack of this model's checkpoints at these steps."""
        if self.run is not None:
            return self.run.trajectory(steps, self.index)
        return concatenate([self._checkpoints[step] for step in steps])

    def stack_at(self, step: int) -> Stack:
        """This model at another checkpoint."""
        return self.checkpoints([step])

    @cached_property
    def causal(self) -> Causal:
        """The results of interventions."""
        return Causal(self.stack, self.config, self.seen, self.n, self.steps, self.checkpoints)

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """What training recorded of this model; empty for imported weights and without a run."""
        return [] if self.run is None else [row for row in self.run.metrics() if row["model"] == self.index]

    @cached_property
    def accuracies(self) -> dict[str, Accuracy]:
        return set_accuracies(self.stack, [self.config], self.seen[None], self.n)[0]

    @cached_property
    def end_steps(self) -> list[int]:
        """The checkpoints that decide what the network achieves: the last ones, or the one that was asked for."""
        return end_of_training(self.steps) if self.step == self.steps[-1] else [self.step]

    @cached_property
    def end_accuracies(self) -> dict[str, EndAccuracy]:
        """The accuracies at these checkpoints, by evaluation set."""
        if len(self.end_steps) == 1:
            return {name: EndAccuracy((a.accuracy,), a.n, a.pairs) for name, a in self.accuracies.items()}
        return end_accuracies(self.checkpoints, self.config, self.seen, self.end_steps, self.n)

    @cached_property
    def in_banned_slots(self) -> EndAccuracy | None:
        """The same for sums of any two numbers with one variable, in a banned slot; None where a task has none."""
        try:
            return end_accuracies(
                self.checkpoints, self.config, self.seen, self.end_steps, self.n, [ANY_PAIR_BANNED], ANY_PAIR_PLACE
            )[ANY_PAIR_BANNED.name]
        except EmptySetError:
            return None

    @cached_property
    def pair_accuracy(self) -> dict[int, Tensor]:
        """Accuracy of every pair of numbers, by the number of variables in the sum."""
        return {n: pair_accuracy(self.stack, self.config, n) for n in self.types}

    @cached_property
    def learned_binding(self) -> bool:
        """Whether the network binds in the end."""
        return self.curves.binds

    @cached_property
    def nameless(self) -> dict[str, Nameless]:
        """How far rules without names predict the answers, by evaluation set."""
        return nameless(self.stack, self.config, self.seen, min(self.n, NAMELESS_SEQUENCES))

    @cached_property
    def mean_of_values(self) -> MeanOfValues:
        return mean_of_values(self.stack, self.config, self.seen, min(self.n, NAMELESS_SEQUENCES))

    @cached_property
    def cues(self) -> dict[str, dict[str, Tensor]]:
        """The answers to sequences with contradictory cues, by layout."""
        return cue_answers(self.stack, self.config, self.seen, min(self.n, CUE_SEQUENCES))

    @cached_property
    def exchanged_tags(self) -> Exchanged:
        return exchanged_tags(self.stack, self.config, self.seen, min(self.n, CUE_SEQUENCES))

    @cached_property
    def routing(self) -> dict[int, tuple[Routing, Routing]]:
        """By the number of variables: over any pairs and slots, and over the sequences that training could show."""
        found = {}
        for n_vars in self.types:
            tokens = any_sequences([self.config], self.seen[None], n_vars, self.n).tokens
            rows = as_in_training(self.config.task, self.seen[None], tokens)
            every, trained = routings(self.stack, tokens, [torch.ones_like(rows), rows])
            found[n_vars] = every, trained
        return found

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
        """The best wave of every neuron, over all pairs in contexts of the training distribution."""
        return context_waves(self.stack, [self.config], self.seen[None])

    @cached_property
    def filtered(self) -> Filtered:
        return filtered_accuracies(self.stack)

    @cached_property
    def curves(self) -> Curves:
        """Accuracies along training, up to this model's step."""
        if self.run is None:
            return accuracies_at(self.config, self.seen, self.steps, self.checkpoints, self.n)
        return accuracy_curves(self.run, self.index).until(self.step)

    @property
    def followed(self) -> bool:
        """Whether training was evaluated more than once: one evaluation says what was learned, not when."""
        return len(self.curves.steps) > 1

    @cached_property
    def phases(self) -> Phases:
        return find_phases(self.curves)

    @cached_property
    def trajectory(self) -> dict[str, np.ndarray]:
        """The progress measures at every checkpoint, by column: stored by `assignadd measure`, or measured now."""
        if self.run is None:
            return measured_at(self.config, self.seen, self.steps, self.checkpoints)
        return trajectory_of(self.run, self.index)

    def column(self, name: str) -> np.ndarray:
        """A progress measure at every checkpoint; raises `NotDefined` where the architecture has none."""
        require_column(self.config, name)
        return self.trajectory[name]

    @cached_property
    def late_variable(self) -> LateVariable | None:
        """The variable that is learned last, if one is learned after the first spike."""
        spike, task = self.phases.first_spike, self.config.task
        if spike is None:
            return None
        return late_variable(self.trajectory, {"first": task.banned_first, "second": task.banned_second}, spike.after)

    @cached_property
    def onsets(self) -> list[CurveOnset]:
        """The onset of every curve."""
        return curve_onsets(self.curves, self.trajectory)

    @cached_property
    def theory_gradient(self) -> TheoryGradient | None:
        """QK2's gradient and change along training, and the theory's direction; None with under two checkpoints."""
        steps = informative_steps(self.steps, self.rows)
        if len(steps) < 2:
            return None
        batch = one_variable_batch(self.config, self.seen, GRADIENT_SEQUENCES)
        return theory_gradient(self.checkpoints(steps), steps, batch)

    def checkpoint_steps(self, spike: Spike) -> tuple[int, int]:
        """The last checkpoint before a spike and the first one after it."""
        return max(s for s in self.steps if s <= spike.before), min(s for s in self.steps if s >= spike.after)

    @property
    def types(self) -> range:
        """Numbers of variables that a sum may have."""
        return self.config.task.variable_counts


def runs_of(evidences: Sequence[Evidence]) -> list[Run]:
    """The runs of these models, without repetition."""
    return list({e.run.path: e.run for e in evidences if e.run is not None}.values())


def evidence(run: Run, step: int | None = None, n: int = SEQUENCES) -> tuple[list[Evidence], list[str]]:
    """Every model of a run at a step (by default the newest intact checkpoint), and notes on damaged ones.

    A model that diverged is left out, with a note; a run that has no other is an error.
    """
    if run.config.task.operands != 2:
        raise ConfigError("task.operands", run.config.task.operands, "2: the claims are about pairs of numbers")
    at, stack, notes = run.at(step)
    unsound = run.unsound(at, stack)
    found = [Evidence.of_run(run, i, at, stack.models(i), n) for i in range(len(stack)) if i not in unsound]
    if not found:
        raise RunError("; ".join(unsound.values()))
    return found, [*notes, *(f"{why}; it is left out" for why in unsound.values())]
