"""What the interventions find on one trained model, each thing once and only when a claim or a figure asks for it."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from torch import Tensor

from assignadd.claims.evidence import Evidence
from assignadd.dynamics.onsets import Onset, onset
from assignadd.interventions.circuit import CircuitAlone, circuit_alone
from assignadd.interventions.interchange import (
    ALIGNMENTS,
    PAIRS_OVER_TIME,
    QUERY_AND_TAG,
    THRESHOLD,
    VARIANTS,
    Interchange,
    Outcome,
    causes_over_time,
    spread_steps,
)
from assignadd.interventions.one_addition import FrequencyDamage, frequency_damage, grafted
from assignadd.interventions.paths import Path, PathAnswers, direct_parts, path_answers
from assignadd.measures.accuracies import Accuracy, set_accuracies
from assignadd.model.stack import initial_stack
from assignadd.task.evalsets import EVAL_SETS

# Sequences of each type for the paths, and of each set for the circuit alone.
PATH_SEQUENCES, CIRCUIT_SEQUENCES = 600, 2000
EXCHANGED = (*ALIGNMENTS, QUERY_AND_TAG)


class Causal:
    def __init__(self, evidence: Evidence):
        self._evidence = evidence

    @cached_property
    def _interchange(self) -> Interchange:
        return Interchange(self._evidence.config, self._evidence.seen, self._evidence.n)

    @cached_property
    def interchange(self) -> dict[str, Outcome]:
        """Every alignment with its controls."""
        return self._interchange(self._evidence.stack, VARIANTS, EXCHANGED)[0]

    @cached_property
    def untrained(self) -> dict[str, Outcome]:
        """The same on this model's initial weights."""
        e = self._evidence
        return self._interchange(initial_stack(e.stack.config, [e.config.seed.init or 0]), alignments=EXCHANGED)[0]

    @cached_property
    def circuit_alone(self) -> CircuitAlone:
        e = self._evidence
        return circuit_alone(e.stack, e.config, e.seen, min(e.n, CIRCUIT_SEQUENCES))

    @cached_property
    def path_answers(self) -> dict[int, PathAnswers]:
        """By the number of variables in the sum."""
        e = self._evidence
        return {k: path_answers(e.stack, e.sequences(k)[0][:, :PATH_SEQUENCES]) for k in e.types}

    @property
    def paths(self) -> dict[int, dict[Path, float]]:
        """The accuracy that each path is worth, by the number of variables in the sum."""
        return {k: found.effects for k, found in self.path_answers.items()}

    @cached_property
    def direct_parts(self) -> dict[int, dict[str, Tensor]]:
        """What each component adds to the right answer's logit in each sequence, by the number of variables in the sum."""
        e = self._evidence
        return {k: direct_parts(e.stack, e.sequences(k)[0][:, :PATH_SEQUENCES]) for k in e.types}

    @property
    def direct_logits(self) -> dict[int, dict[str, float]]:
        """The means over the sequences."""
        return {k: {name: x.mean().item() for name, x in parts.items()} for k, parts in self.direct_parts.items()}

    @cached_property
    def frequency_damage(self) -> FrequencyDamage:
        e = self._evidence
        return frequency_damage(e.stack, e.config, e.seen, min(e.n, 1000))

    @cached_property
    def grafted(self) -> dict[str, Accuracy]:
        """Accuracies with an MLP2 that has only seen sums of literals."""
        e = self._evidence
        return set_accuracies(grafted(e.stack, e.config, e.seen), [e.config], e.seen[None], e.n, EVAL_SETS)[0]

    @cached_property
    def over_time(self) -> dict[str, np.ndarray]:
        e = self._evidence
        return causes_over_time(e.run, e.index, spread_steps(e.run.steps))

    @cached_property
    def onsets(self) -> dict[str, Onset | None]:
        """When each alignment's accuracy is above one half to last, with what its noise and the checkpoints leave open."""
        e, steps = self._evidence, self.over_time["step"]
        pairs = Interchange(e.config, e.seen, PAIRS_OVER_TIME).pairs
        return {name: onset(steps, self.over_time[name], int(pairs[name].counts.sum()), THRESHOLD) for name in ALIGNMENTS}


def causal(evidence: Evidence) -> Causal:
    """The causal evidence on a model, kept with it."""
    return vars(evidence).setdefault("causal", Causal(evidence))
