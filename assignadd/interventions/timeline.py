"""When the causes appear: interchange accuracies along training, to be read beside the paper's progress measures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from torch import Tensor

from assignadd.config import Config
from assignadd.dynamics.onsets import first_lasting
from assignadd.dynamics.trajectory import Listener, Read
from assignadd.interventions.interchange import ALIGNMENTS, Interchange
from assignadd.runs.folder import Run

# Pairs a checkpoint, which give one half to within .02 or so, and checkpoints of a run.
PAIRS, CHECKPOINTS = 1000, 60
# A cause (or a measure) is there from where it stays above one half.
THRESHOLD = 0.5
# The paper's measure of what each variable of the program needs, by its column in a measured trajectory.
MEASURES = {
    "binding tag": "probe_l1_var_from_num",
    "operand query": "attn_l1_equal_to_operands (1-var)",
    "query in QK2": "qk2_ov1_var_identity",
    "values": "attn_l2_equal_to_values (1-var)",
    "sum": "ov2_mlp2_accuracy",
}


def causes_over_time(
    run: Run,
    model: int = 0,
    steps: Sequence[int] | None = None,
    n: int = PAIRS,
    listener: Listener = lambda done, total: None,
) -> dict[str, np.ndarray]:
    """Interchange accuracy of every alignment at every checkpoint (or at these steps), by column; `step` is one of them."""
    steps = run.steps if steps is None else list(steps)
    return causes_at(run.configs[model], run.seen[model], steps, lambda some: run.trajectory(some, model), n, listener)


def causes_at(
    config: Config, seen: Tensor, steps: Sequence[int], read: Read, n: int = PAIRS, listener: Listener = lambda done, total: None
) -> dict[str, np.ndarray]:
    """The interchange accuracies of one model at these steps, by column; `read` returns the checkpoints."""
    interchange, found = Interchange(config, seen, n), []
    for i, step in enumerate(steps):
        listener(i, len(steps))
        found.append(interchange(read([step]))[0])
    listener(len(steps), len(steps))
    return {"step": np.array(steps), **{name: np.array([outcome[name].accuracy() for outcome in found]) for name in ALIGNMENTS}}


def spread_steps(steps: Sequence[int], most: int = CHECKPOINTS) -> list[int]:
    """At most so many of a run's checkpoints, evenly over training, the first and the last among them."""
    return [steps[i] for i in sorted({round(x) for x in np.linspace(0, len(steps) - 1, min(most, len(steps)))})]


def onset_steps(columns: Mapping[str, np.ndarray]) -> dict[str, int | None]:
    """For every column the step from which it stays above one half; None where that never comes."""
    steps = columns["step"]
    found = {name: first_lasting(steps, values >= THRESHOLD) for name, values in columns.items() if name != "step"}
    return {name: None if at is None else int(steps[at]) for name, at in found.items()}
