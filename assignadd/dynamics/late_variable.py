"""The variable that comes last: which one, in which slot, and when (paper, section 6, figure late)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from assignadd.dynamics.onsets import first_lasting
from assignadd.dynamics.spikes import Spike, largest_spike
from assignadd.measures.accuracies import SLOTS
from assignadd.measures.columns import HALF, VARIABLE_ACCURACY

APART = 1500  # steps between "before" and "after" the spike, as in the paper's figure late (c)


@dataclass(frozen=True)
class LateVariable:
    variable: str
    slot: str
    banned: bool
    """Whether training never put it there."""
    onset: int | None
    """The step from which at least half of its sums are right to stay; None for never."""
    spike: Spike | None
    """The largest rise of its accuracy."""


def late_variable(columns: Mapping[str, np.ndarray], banned: Mapping[str, str], since: int) -> LateVariable | None:
    """The last (variable, slot) that is looked up, if that is later than step `since`, the end of the first spike.

    Of several at the same evaluation it is the one with the lowest mean accuracy. `columns` are those of a measured
    trajectory, `banned` the letters banned from each slot.
    """
    steps = columns["step"]
    fields = [found for name in columns if (found := VARIABLE_ACCURACY.fields(name))]
    variables = list(dict.fromkeys(found["variable"] for found in fields))
    onsets: list[tuple[float, float, str, str]] = []
    for slot in SLOTS:
        for v in variables:
            accuracy = columns[f"accuracy {v} {slot}"]
            at = first_lasting(steps, accuracy >= HALF)
            # One that is right at the first checkpoint may have come at any time before.
            onsets.append((np.inf if at is None else float(steps[at]) if at else 0.0, -float(accuracy.mean()), v, slot))
    last, _, v, slot = max(onsets)
    if last <= since:
        return None
    spike = largest_spike(steps, columns[f"accuracy {v} {slot}"], since)
    return LateVariable(v, slot, v in banned[slot], None if np.isinf(last) else int(last), spike)


def surrounding(steps: np.ndarray, spike: Spike) -> np.ndarray:
    """The nearest checkpoints around a spike that are at least `APART` steps apart, else the first and last."""
    middle = (spike.before + spike.after) / 2
    early = steps[(steps <= spike.before) & (steps <= middle - APART / 2)]
    late = steps[(steps >= spike.after) & (steps >= middle + APART / 2)]
    return np.array([early[-1] if len(early) else steps[0], late[0] if len(late) else steps[-1]])
