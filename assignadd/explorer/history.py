"""The page's data about training: accuracies, progress measures, phases, and the claims that the tour quotes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from assignadd.claims.evidence import Evidence
from assignadd.claims.ledger import ledger
from assignadd.dynamics.phases import Curves, Phases
from assignadd.dynamics.spikes import Spike
from assignadd.dynamics.trajectory import CHUNK, Listener, read_measures, trajectory_of
from assignadd.measures.columns import COLUMNS
from assignadd.measures.probes import probe_l1_var_from_num
from assignadd.measures.progress import Progress, circuit_columns
from assignadd.runs.folder import Run
from assignadd.sweeps.population import Populations

DIGITS = 4
# What the page draws of all that is measured: the columns of the paper's seven measures.
MEASURES = tuple(dict.fromkeys(m.name.format(n_vars=n) for m in COLUMNS if m.paper for n in (0, 1, 2)))
# The claims that the tour's cards quote (web/src/tour/cards.ts); none of them needs a whole trajectory measured.
TOUR_CLAIMS = (
    "over-98-2-var-add-restricted", "new-positions-99.6", "held-out-pairs-99.4", "ov-mlp-99.94", "fourier-best-neuron",
    "fourier-median-neuron", "attn-l1-num-to-prev", "attn-l1-equal-to-operands", "attn-l2-equal-to-values",
    "attention-mass",
    "qk2-identity", "addition-first-held-out", "first-spike", "binding-before-refinement", "every-seed-adds",
    "every-seed-binds",
    "every-seed-refines", "every-binding-seed-identity",
)  # fmt: skip


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


def phases_data(phases: Phases, spikes: Mapping[str, Spike], curves: Curves) -> dict[str, Any]:
    """When each skill came, where there is more than one evaluation to tell it from."""
    names = ("addition", "binding", "refinement")
    if len(curves.steps) == 1:
        return {"summary": f"evaluated once, at step {curves.steps[0]:,}", "onsets": dict.fromkeys(names), "spikes": []}
    onsets = {name: getattr(phases, name) for name in names}
    return {
        "summary": phases.summary,
        "onsets": {name: None if onset is None else onset.step for name, onset in onsets.items()},
        "spikes": [{"name": name, **dataclasses.asdict(spike)} for name, spike in spikes.items()],
    }


def measures_data(
    run: Run, model: int, steps: Sequence[int], listener: Listener = lambda done, total: None
) -> dict[str, Any]:
    """The progress measures of the checkpoints that are exported; of all where they are stored beside the run."""
    columns = trajectory_of(run, model) if read_measures(run) is not None else _measured(run, model, steps, listener)
    return {
        "steps": columns["step"].tolist(),
        "values": {name: _rounded(columns[name]) for name in MEASURES if name in columns},
    }


def tour_records(evidences: Sequence[Evidence], command: str, populations: Populations) -> list[dict[str, Any]]:
    """A record for each claim of the tour that can be tested; those about every seed are tested on the populations."""
    records = [r for claim in TOUR_CLAIMS for r in ledger(evidences, command, claim, populations=populations)]
    return [dataclasses.asdict(r) for r in records if r.value is not None]


def _measured(run: Run, model: int, steps: Sequence[int], listener: Listener) -> dict[str, np.ndarray]:
    progress = Progress([run.configs[model]], run.seen[model : model + 1])
    parts: list[dict[str, np.ndarray]] = []
    for start in range(0, len(steps), CHUNK):
        listener(start, len(steps))
        stack = run.trajectory(steps[start : start + CHUNK], model)
        columns = circuit_columns(stack) | progress.routing(stack)
        columns["probe_l1_var_from_num"] = probe_l1_var_from_num(stack, progress.tokens[1])
        parts.append({name: columns[name].float().numpy() for name in MEASURES if name in columns})
    listener(len(steps), len(steps))
    return {"step": np.array(steps), **{name: np.concatenate([part[name] for part in parts]) for name in parts[0]}}


def _rounded(values: np.ndarray, digits: int = DIGITS) -> list[float | None]:
    return [None if np.isnan(v) else round(float(v), digits) for v in values]
