"""Sweeps that train in a second or two."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from assignadd.config import PRESETS, Optim, Recording
from assignadd.runs.folder import Run
from assignadd.sweeps.plan import Job, Sweep, grid
from tests.runs.small import contents

RECORD = Recording(
    eval_every=20, eval_sequences=32, checkpoint_every=15, state_every=1 << 30, measure_every=20, final_sequences=50
)
CONFIG = replace(PRESETS["smoke"], optim=Optim(batch=16, steps=40), record=RECORD)
SWEEP = Sweep("small", CONFIG, grid({"seen_fraction": (0.5, 1.0)}, (0, 1)))


def rows_by_cell(jobs: list[Job]) -> dict[object, list[dict[str, object]]]:
    """Every cell's rows, without its place in the stack."""
    found: dict[object, list[dict[str, object]]] = {}
    for job in jobs:
        run = Run.open(job.path)
        for row in run.metrics():
            found.setdefault(run.members[row.pop("model")], []).append(row)
    return found


def stores(out: Path) -> dict[str, dict[str, bytes]]:
    """The committed bytes of every run folder; the table's provenance has the clock in it."""
    return {folder.name: contents(folder) for folder in sorted(out.iterdir()) if folder.is_dir()}
