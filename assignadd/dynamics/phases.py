"""Whether a model binds, and the phases of its training: addition, binding, refinement (paper, section 6, App. B)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from assignadd.dynamics.curves import LASTING, PENALTY_OF_64, Onset, Spike, first_lasting, largest_spike, onset, spikes
from assignadd.measures.columns import HALF, MEASURES, VARIABLE_ACCURACY, column_label
from assignadd.model.accuracy import end_of_training
from assignadd.task.evalsets import EVAL_SETS, LABELS, RECORDED_SETS

# A network binds if it answers one-variable sums as in training. The threshold is between the plateau before the first
# spike (.75 in the paper's run) and the one after it (.99).
BINDING_SET = "1-var train"
BINDING_THRESHOLD = 0.95

# Between the plateaus before and after each phase, in the paper's run and in ours. The lower one is for the first
# phase, which is about held-out sums.
ADDITION_THRESHOLD = 0.9
THRESHOLD = 0.95
ADDITION_SET = "0-var add-restricted"
LITERAL_SETS = tuple(s.name for s in EVAL_SETS if not s.n_vars)
BINDING_SETS = tuple(s.name for s in EVAL_SETS if s.n_vars and not s.n_banned)
TRAINED_SETS = tuple(s for s in BINDING_SETS if s.endswith("train"))
HELD_OUT_SETS = tuple(s for s in BINDING_SETS if s not in TRAINED_SETS)
REFINEMENT_SETS = tuple(s.name for s in EVAL_SETS if s.n_banned)
SECOND_SPIKE = 0.05  # the least rise of a second spike, in accuracy


@dataclass(frozen=True)
class Skill:
    """A skill: an evaluation set, and the accuracy on it from which on a network has the skill."""

    set: str
    threshold: float


ADDITION, BINDING = Skill(ADDITION_SET, ADDITION_THRESHOLD), Skill(BINDING_SET, BINDING_THRESHOLD)


@dataclass(frozen=True)
class Curves:
    """Accuracies of one model along training, each on `n` sequences."""

    steps: np.ndarray  # (evaluations,)
    accuracy: Mapping[str, np.ndarray]  # by evaluation set, (evaluations,) each
    n: int

    @classmethod
    def of_columns(cls, columns: Mapping[str, np.ndarray], n: int) -> Curves:
        """From one network's `step` and accuracies by evaluation set; other columns are left out."""
        names = [evalset.name for evalset in RECORDED_SETS if evalset.name in columns]
        return cls(columns["step"], {name: columns[name] for name in names}, n)

    def mean(self, sets: Sequence[str]) -> np.ndarray:
        """At each evaluation, the mean accuracy on those of these sets that the task has."""
        return np.mean([self.accuracy[name] for name in sets if name in self.accuracy], axis=0)

    def lowest(self, sets: Sequence[str]) -> np.ndarray:
        """At each evaluation, the lowest accuracy on those of these sets that the task has."""
        return np.min([self.accuracy[name] for name in sets if name in self.accuracy], axis=0)

    def has(self, sets: Sequence[str]) -> bool:
        """Whether the task has any of these sets."""
        return any(name in self.accuracy for name in sets)

    def until(self, step: int) -> Curves:
        """The evaluations up to a step."""
        is_early = self.steps <= step
        accuracy = {name: values[is_early] for name, values in self.accuracy.items()}
        return Curves(self.steps[is_early], accuracy, self.n)

    @property
    def binding(self) -> Onset | None:
        """When the network came to bind: 95 % of trained one-variable sums, for 1,000 steps or to the end."""
        return skill_onset(self, [BINDING_SET], BINDING_THRESHOLD)

    @property
    def binds(self) -> bool:
        """Whether the network binds in the end: it came to, and the median of its last evaluations is still at 95 %."""
        binding = self.binding
        if binding is None:
            return False
        is_at_end = np.isin(self.steps, end_of_training(self.steps.tolist())) & (self.steps >= binding.step)
        return bool(np.median(self.accuracy[BINDING_SET][is_at_end]) >= BINDING_THRESHOLD)

    @property
    def phases(self) -> Phases:
        """The phases and spikes of the network's training."""
        addition = skill_onset(self, [ADDITION_SET], ADDITION_THRESHOLD)
        binding, refinement = self.binding, skill_onset(self, REFINEMENT_SETS)
        first_spike = second_spike = None
        if addition and binding:
            first_spike = largest_spike(self.steps, self.mean(BINDING_SETS), addition.step)
        if first_spike and refinement:
            for spike in spikes(self.steps, self.mean(REFINEMENT_SETS), first_spike.after):
                if spike.rise >= SECOND_SPIKE and spike.begin <= refinement.step:
                    second_spike = spike  # the last such rise counts
        trained = skill_onset(self, TRAINED_SETS)
        return Phases(addition, binding, refinement, first_spike, second_spike, binds=self.binds, trained=trained)


@dataclass(frozen=True)
class Phases:
    """When each skill was learned for at least 1,000 steps (it may be lost later); None for one that never was.

    addition    at least 90 % on held-out sums of literals (ADDITION_THRESHOLD)
    binding     at least 95 % on trained sums with one variable (BINDING_THRESHOLD)
    refinement  at least 95 % on every set with a variable in a banned slot, trained pairs of numbers (THRESHOLD)

    Addition differs from the other two in its threshold and in its pairs of numbers: their order is judged by
    `skill_onset` on sets of the same kind, with one threshold.
    """

    addition: Onset | None
    binding: Onset | None
    refinement: Onset | None
    first_spike: Spike | None  # the largest rise of the sets with variables (none banned) after addition came
    second_spike: Spike | None
    """The last rise of the sets with banned slots of at least .05 that begins before refinement came."""
    binds: bool  # whether the network binds in the end
    trained: Onset | None
    """At least 95 % on trained sums with one and with two variables (THRESHOLD): the end of the second phase."""

    @property
    def boundaries(self) -> list[tuple[str, int]]:
        """The name of each phase and the step at which it ends, if it does.

        Addition ends just before the first spike, binding when trained sums with variables are learned, and refinement
        when sums with banned slots are.
        """
        ends = []
        if self.first_spike is not None:
            ends.append(("addition", self.first_spike.before))
        if self.trained is not None:
            ends.append(("binding", self.trained.step))
        if self.refinement is not None:
            ends.append(("refinement", self.refinement.step))
        return ends

    @property
    def summary(self) -> str:
        """When each phase came, in words."""
        if self.addition is None:
            return "no first phase: addition was not learned"
        if self.binding is None:
            return f"addition at step {self.addition.step:,}; no second phase: binding was not learned"
        lost = "" if self.binds else " and lost by the end"
        first_two = f"addition at step {self.addition.step:,}, binding at {self.binding.step:,}{lost}"
        if self.refinement is None:
            return f"{first_two}; no third phase: banned slots stay hard"
        return f"{first_two}, refinement at {self.refinement.step:,}"


def skill_onset(curves: Curves, sets: Sequence[str], threshold: float = THRESHOLD) -> Onset | None:
    """When the lowest accuracy on these sets reached `threshold` to stay; None for never, or if the task has none."""
    if not curves.has(sets):
        return None
    return onset(curves.steps, curves.lowest(sets), curves.n, threshold)


@dataclass(frozen=True)
class CurveOnset:
    """When one curve reached its threshold to stay, `onset` (None: never), and the bounds of that step (`Onset`)."""

    curve: str
    threshold: float
    lasting: int
    onset: int | None
    low: int | None
    high: int | None
    n: int | None

    @property
    def label(self) -> str:
        """The name of the curve for readers."""
        return LABELS[self.curve] if self.curve in LABELS else column_label(self.curve)


def curve_onsets(curves: Curves, columns: Mapping[str, np.ndarray]) -> list[CurveOnset]:
    """The onsets of all evaluation sets and, with several checkpoints, of the measures that have a threshold."""
    onsets = []
    for evalset in RECORDED_SETS:
        if evalset.name in curves.accuracy:
            # The thresholds of the phases: held-out sums as for addition, others as for binding and refinement.
            threshold = THRESHOLD if evalset.pair == "seen" else ADDITION_THRESHOLD
            onsets.append(_curve_onset(evalset.name, curves.steps, curves.accuracy[evalset.name], threshold, curves.n))
    steps = columns["step"]
    if len(steps) < 2:
        return onsets
    for measure in MEASURES:
        if measure.threshold is None:
            continue
        for name in measure.columns(columns):
            # A task may have no sums with a variable in one of the slots.
            if measure is not VARIABLE_ACCURACY or not np.isnan(columns[name]).all():
                onsets.append(_curve_onset(name, steps, columns[name], measure.threshold, measure.n))
    return onsets


def _curve_onset(curve: str, steps: np.ndarray, values: np.ndarray, threshold: float, n: int | None) -> CurveOnset:
    """When the curve of this name reached `threshold` to stay; each value is counted on `n` sequences (None: exact)."""
    reached = onset(steps, values, n, threshold)
    step, low, high = (reached.step, reached.low, reached.high) if reached else (None, None, None)
    return CurveOnset(curve, threshold, LASTING, step, low, high, n)


APART = 1500  # steps within which a checkpoint is near a spike


@dataclass(frozen=True)
class LateVariable:
    """The variable that is looked up last in one of the operand slots."""

    variable: str
    slot: str
    banned: bool  # whether training never put it there
    onset: int | None  # the step from which at least half of its sums are right to stay; None for never
    spike: Spike | None  # the largest rise of its accuracy


def late_variable(columns: Mapping[str, np.ndarray], banned: Mapping[str, str], since: int) -> LateVariable | None:
    """The last (variable, slot) that is looked up, if that is later than step `since`, the end of the first spike.

    Of several at the same evaluation it is the one with the lowest mean accuracy. `columns` are those of a measured
    trajectory, `banned` has the letters that are banned from each slot, by its name.
    """
    steps = columns["step"]
    # The onset of each, minus its mean accuracy, its letter and its slot: the largest one is the last.
    candidates: list[tuple[float, float, str, str]] = []
    for name, accuracy in columns.items():
        if fields := VARIABLE_ACCURACY.fields(name):
            i_first = first_lasting(steps, accuracy >= HALF)
            onset_step = np.inf if i_first is None else float(steps[i_first])
            if i_first == 0:  # at the first checkpoint already: it may have been learned at any time before
                onset_step = 0.0
            candidates.append((onset_step, -float(accuracy.mean()), fields["variable"], fields["slot"]))
    last_onset, _, variable, slot = max(candidates)
    if last_onset <= since:
        return None
    spike = largest_spike(steps, columns[f"accuracy {variable} {slot}"], since, PENALTY_OF_64)
    is_banned = variable in banned[slot]
    return LateVariable(variable, slot, is_banned, None if np.isinf(last_onset) else int(last_onset), spike)
