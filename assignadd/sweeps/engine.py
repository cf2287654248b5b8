"""A sweep from plan to table, on either engine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from assignadd.dynamics.phases import BINDING_SET, binds
from assignadd.runs.destination import claim_folder
from assignadd.runs.folder import Run
from assignadd.sweeps.final_tests import final_column
from assignadd.sweeps.jobs import STACKS, Job, bytes_per_model, estimated_seconds, jobs_of
from assignadd.sweeps.local import Report, run_local
from assignadd.sweeps.results import TABLE, claim_results, column_of, provenance, results_table, write_results
from assignadd.sweeps.settings import Sweep

if TYPE_CHECKING:
    import polars


@dataclass(frozen=True)
class Plan:
    jobs: list[Job]
    device: str
    slots: int
    """Jobs at a time on this machine."""

    def summary(self, sweep: Sweep) -> dict[str, Any]:
        return {
            "cells": len(sweep.cells),
            "steps": sweep.config.optim.steps,
            "stacks": [len(job.members) for job in self.jobs],
            "finished_stacks": sum(not job.model_steps for job in self.jobs),
            "device": self.device,
            "at_a_time": self.slots,
            "model_steps": sum(job.model_steps for job in self.jobs),
            "mib_per_stack": max(round(bytes_per_model(j.config) * len(j.members) / 2**20) for j in self.jobs),
            "estimated_seconds": round(estimated_seconds(self.jobs, self.device, self.slots), 1),
        }


def plan(sweep: Sweep, out: Path, device: str, cores: int = 1, together: int | None = None, per_gpu: int = 1) -> Plan:
    """Which stacks to train, and how many at a time; looks at the folder and trains nothing."""
    slots = torch.cuda.device_count() * per_gpu if device == "cuda" else cores
    return Plan(jobs_of(sweep, out, device, together, per_gpu), device, max(1, slots))


def run_sweep(
    sweep: Sweep,
    out: Path,
    device: str = "cpu",
    cores: int = 1,
    engine: str = "local",
    address: str | None = None,
    report: Report = lambda job, step: None,
    together: int | None = None,
    command: str = "",
    per_gpu: int = 1,
) -> polars.DataFrame:
    """Trains what is missing, and writes and returns the table. The same call goes on where an earlier one stopped."""
    planned = plan(sweep, out, device, cores, together, per_gpu)
    claim_results(out / TABLE)
    claim_folder(out, "sweep", _is_sweep)
    # A finished stack with a damaged file is taken up again, which mends it.
    numbers = [i for i, job in enumerate(planned.jobs) if job.model_steps or Run.open(job.path).verify()]
    todo = [planned.jobs[i] for i in numbers]

    def told(job: int, step: int) -> None:
        report(numbers[job], step)

    if engine == "ray":
        from assignadd.sweeps.cluster import run_ray

        run_ray(todo, device, address, told)
    else:
        run_local(todo, device, planned.slots, told)
    runs = [Run.open(job.path) for job in planned.jobs]
    table = results_table(runs, sweep)
    write_results(table, provenance(runs, sweep, command), out / TABLE)
    return table


def _is_sweep(folder: Path) -> bool:
    """Whether a folder holds a sweep from before there were marks."""
    return (folder / TABLE).is_file() or any(folder.glob(STACKS))


def last_rows(table: polars.DataFrame, sweep: Sweep) -> polars.DataFrame:
    """The row of every model after its last step."""
    import polars

    cell = ["seed", *map(column_of, sweep.varied)]
    return table.filter(polars.col("step") == polars.col("step").max().over(cell))


def tally(table: polars.DataFrame, sweep: Sweep) -> dict[str, int]:
    """What became of the models: none is dropped."""
    import polars

    last = last_rows(table, sweep)
    known = [name for name in (final_column(BINDING_SET), BINDING_SET) if name in last.columns]
    bound = binds(polars.col(known[0])).fill_null(False) if known else polars.lit(False)
    diverged = polars.col("diverged_at").is_not_null()
    return {
        "models": last.height,
        "diverged": last.filter(diverged).height,
        "bind": last.filter(~diverged & bound).height,
        "do_not_bind": last.filter(~diverged & ~bound).height,
    }
