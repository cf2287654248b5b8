"""The page's data about training: accuracies, progress measures, phases, and the claims that the story quotes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from assignadd.claims.evidence import Evidence
from assignadd.claims.ledger import ledger
from assignadd.dynamics.curves import LASTING, Spike
from assignadd.dynamics.phases import Curves, Phases
from assignadd.dynamics.trajectory import CHUNK, Listener, read_measures, trajectory_of
from assignadd.explorer.tables import MEASURED
from assignadd.measures.accuracies import Accuracy
from assignadd.measures.probes import probe_l1_var_from_num
from assignadd.measures.progress import ProgressMeasures, circuit_columns
from assignadd.runs.folder import Run
from assignadd.sweeps.population import Populations

DIGITS = 4
# The claims that the story quotes (web/src/story/sections.ts); none of them needs a whole trajectory measured.
STORY_CLAIMS = (
    "over-98-2-var-add-restricted", "new-positions-99.6", "ov-mlp-99.94", "fourier-median-neuron",
    "attn-l1-num-to-prev", "attn-l1-equal-to-operands", "attn-l2-equal-to-values", "qk2-identity",
    "addition-first-held-out", "first-spike", "binding-before-refinement", "held-out-doubles",
    "every-seed-adds", "every-seed-binds",
)  # fmt: skip


def accuracies_data(accuracies: Mapping[str, Accuracy]) -> dict[str, list[float]]:
    """Accuracy, the ends of its 95 % interval and the number of sequences, for every set that the task has."""
    return {
        name: [round(v, DIGITS) for v in (a.accuracy, a.interval.low, a.interval.high)] + [a.n]
        for name, a in accuracies.items()
    }


def curves_data(curves: Curves) -> dict[str, Any]:
    return {
        "steps": curves.steps.tolist(),
        "n": curves.n,
        "values": {name: _rounded(v) for name, v in curves.accuracy.items()},
    }


def thinned(curves: Curves, sets: Sequence[str], most: int = 80) -> dict[str, Any]:
    """A few curves at few steps, for the wall of all seeds."""
    at = np.unique(
        (np.linspace(0, 1, most) ** 2 * (len(curves.steps) - 1)).round().astype(int)
    )  # denser early, as the page's axis is
    chosen = {name: _rounded(curves.accuracy[name][at], 3) for name in sets if name in curves.accuracy}
    return {"steps": curves.steps[at].tolist(), "values": chosen}


def straddled(phases: Phases, steps: Sequence[int]) -> dict[str, Spike]:
    """The spikes that have a checkpoint on either side."""
    found = {"first": phases.first_spike, "second": phases.second_spike}
    return {name: s for name, s in found.items() if s is not None and steps[0] <= s.before and s.after <= steps[-1]}


def phases_data(one: Evidence, spikes: Mapping[str, Spike]) -> dict[str, Any]:
    """When each skill came, and the spikes with the checkpoints on either side.

    A skill that came less than 1,000 steps before the last evaluation has no onset here: it may not have lasted.
    """
    last = int(one.curves.steps[-1])
    onsets = {name: getattr(one.phases, name) for name in ("addition", "binding", "refinement")}
    lasting = {name: o.step if o is not None and last - o.step >= LASTING else None for name, o in onsets.items()}
    return {
        "onsets": lasting if one.followed else dict.fromkeys(onsets),
        "spikes": [
            {"name": name, **dataclasses.asdict(spike), "checkpoints": one.checkpoint_steps(spike)}
            for name, spike in spikes.items()
        ],
    }


def measures_data(
    run: Run, model: int, steps: Sequence[int], listener: Listener = lambda done, total: None
) -> dict[str, Any]:
    """The progress measures of the checkpoints that are exported; of all where they are stored beside the run."""
    columns = trajectory_of(run, model) if read_measures(run) is not None else _measured(run, model, steps, listener)
    return {
        "steps": columns["step"].tolist(),
        "values": {name: _rounded(columns[name]) for name in MEASURED if name in columns},
    }


def story_records(one: Evidence, command: str, populations: Populations) -> list[dict[str, Any]]:
    """A record for each claim of the story that can be tested: on this network, or on the population of seeds."""
    records = [r for claim in STORY_CLAIMS for r in ledger([one], command, claim, populations=populations)]
    return [dataclasses.asdict(r) for r in records if r.value is not None]


def _measured(run: Run, model: int, steps: Sequence[int], listener: Listener) -> dict[str, np.ndarray]:
    progress = ProgressMeasures([run.configs[model]], run.seen[model : model + 1])
    parts: list[dict[str, np.ndarray]] = []
    for start in range(0, len(steps), CHUNK):
        listener(start, len(steps))
        stack = run.trajectory(steps[start : start + CHUNK], model)
        columns = circuit_columns(stack) | progress.routing(stack)
        columns["probe_l1_var_from_num"] = probe_l1_var_from_num(stack, progress.probed)
        parts.append({name: columns[name].float().numpy() for name in MEASURED if name in columns})
    listener(len(steps), len(steps))
    return {"step": np.array(steps), **{name: np.concatenate([part[name] for part in parts]) for name in parts[0]}}


def _rounded(values: np.ndarray, digits: int = DIGITS) -> list[float | None]:
    return [None if np.isnan(v) else round(float(v), digits) for v in values]
