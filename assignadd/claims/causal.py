"""The results of interventions on one trained model, each computed once and only when a claim or a figure needs it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from torch import Tensor

from assignadd.alignment.interchange import (
    ALIGNMENTS,
    PAIRS_OVER_TIME,
    QUERY_AND_TAG,
    THRESHOLD,
    Interchange,
    Outcome,
    causes_at,
    defined_alignments,
    defined_variants,
    spread_steps,
)
from assignadd.config import Config
from assignadd.dynamics.curves import Onset, onset
from assignadd.dynamics.trajectory import Read
from assignadd.interventions import operand_attention as attention
from assignadd.interventions.circuit import CircuitAlone, circuit_alone
from assignadd.interventions.one_addition import FrequencyDamage, frequency_damage, grafted
from assignadd.interventions.paths import CircuitCurve, Path, PathAnswers, PathPatching, circuit_curves
from assignadd.measures.accuracies import Accuracy, set_accuracies
from assignadd.measures.sequences import sequences
from assignadd.model.stack import Stack, initial_stack
from assignadd.task.evalsets import EVAL_SETS

# Pairs of prompts or sequences for an intervention: 95 % intervals are within .014, and every verdict on the shipped
# networks is the one that 20,000 give. There are fewer of each type for the paths, and of each set for the circuit
# alone, which run the network about a hundred times and 27 times.
SEQUENCES, PATH_SEQUENCES, CIRCUIT_SEQUENCES = 5000, 600, 2000
EXCHANGED = (*ALIGNMENTS, QUERY_AND_TAG)
# The changes of layer 1's attention that claims are about, by evaluation set.
WITHOUT_LITERAL = (attention.NO_LITERAL, attention.LITERAL_TO_EQUALS, attention.OTHER_LITERAL)
CHANGES = {
    attention.TRAINED: (
        attention.UNCHANGED, attention.NO_VARIABLE, attention.ONLY_VARIABLE, attention.EXCHANGED, *WITHOUT_LITERAL
    ),
    attention.BANNED: (attention.UNCHANGED, attention.SET_LAYER_2, *WITHOUT_LITERAL),
    attention.TWO: (attention.UNCHANGED, attention.NO_FIRST, attention.NO_SECOND),
}  # fmt: skip


class Causal:
    """One model, tested on at most `n` sequences of each kind; the steps of its checkpoints, and how to read them."""

    def __init__(self, stack: Stack, config: Config, seen: Tensor, n: int, steps: Sequence[int], read: Read):
        self.stack, self.config, self.seen, self.steps, self.read = stack, config, seen, steps, read
        self.n = min(n, SEQUENCES)

    @cached_property
    def _interchange(self) -> Interchange:
        return Interchange(self.config, self.seen, self.n)

    @cached_property
    def _few_sequences(self) -> dict[int, Tensor]:
        """Sequences for the paths, by the number of variables in the sum."""
        counts, n = self.config.task.variable_counts, min(self.n, PATH_SEQUENCES)
        return {k: sequences([self.config], self.seen[None], k, n).tokens[0] for k in counts}

    @cached_property
    def interchange(self) -> dict[str, Outcome]:
        """The outcomes of every alignment, with its controls."""
        config = self.config
        return self._interchange(self.stack, defined_variants(config), defined_alignments(config, EXCHANGED))[0]

    @cached_property
    def _initial(self) -> Stack:
        return initial_stack(self.stack.config, [self.config.seed.init or 0])

    @cached_property
    def untrained(self) -> dict[str, Outcome]:
        """The outcomes of every alignment on this model's initial weights."""
        return self._interchange(self._initial, alignments=defined_alignments(self.config, EXCHANGED))[0]

    @cached_property
    def circuit_alone(self) -> CircuitAlone:
        return circuit_alone(self.stack, self.config, self.seen, min(self.n, CIRCUIT_SEQUENCES))

    @cached_property
    def path_answers(self) -> dict[int, PathAnswers]:
        """The answers with each path replaced, by the number of variables in the sum."""
        return {k: PathPatching(self.stack, tokens).answers() for k, tokens in self._few_sequences.items()}

    @cached_property
    def path_circuits(self) -> dict[str, CircuitCurve]:
        """What circuits of few paths do on sums with one variable, by the ranking of the paths."""
        return circuit_curves(PathPatching(self.stack, self._few_sequences[1]), self.path_answers[1])

    @property
    def paths(self) -> dict[int, dict[Path, float]]:
        """The accuracy that replacing each path costs, by the number of variables in the sum."""
        return {k: found.effects for k, found in self.path_answers.items()}

    @cached_property
    def direct_parts(self) -> dict[int, dict[str, Tensor]]:
        """What each component adds to the correct answer's logit in each sequence, by the number of variables."""
        return {k: PathPatching(self.stack, tokens).direct_parts() for k, tokens in self._few_sequences.items()}

    @property
    def direct_logits(self) -> dict[int, dict[str, float]]:
        """The means of `direct_parts` over the sequences."""
        return {k: {name: x.mean().item() for name, x in parts.items()} for k, parts in self.direct_parts.items()}

    @cached_property
    def frequency_damage(self) -> FrequencyDamage:
        return frequency_damage(self.stack, self.config, self.seen, min(self.n, 1000))

    @cached_property
    def grafted(self) -> dict[str, Accuracy]:
        """Accuracies on sums with variables in trained slots, with an MLP2 that was trained on sums of literals."""
        other, names = grafted(self.stack, self.config, self.seen), [s.name for s in EVAL_SETS]
        asked = [name for name in names if not name.startswith("0-var") and "var-restricted" not in name]
        return set_accuracies(other, [self.config], self.seen[None], self.n, EVAL_SETS, asked)[0]

    @cached_property
    def operand_attention(self) -> dict[str, attention.OperandAttention]:
        """The effect of changes of layer 1's attention from `=`, by evaluation set."""
        return attention.operand_attention(self.stack, self.config, self.seen, self.n, CHANGES)

    @cached_property
    def over_time(self) -> dict[str, np.ndarray]:
        """Interchange accuracies at some of the checkpoints, by column."""
        return causes_at(self.config, self.seen, spread_steps(self.steps), self.read)

    @cached_property
    def onsets(self) -> dict[str, Onset | None]:
        """When each alignment's accuracy rises above one half for 1,000 steps, with the uncertainty of that step."""
        steps = self.over_time["step"]
        pairs = Interchange(self.config, self.seen, PAIRS_OVER_TIME).pairs
        counts = {name: int(pairs[name].counts.sum()) for name in defined_alignments(self.config)}
        return {name: onset(steps, self.over_time[name], n, THRESHOLD) for name, n in counts.items()}
