"""A sweep from plan to table, on the local engine or on a Ray cluster (`cluster`).

The local engine runs jobs on this machine, in a process or more per GPU, or on a CPU in one per core. The run folders
hold everything: a process that dies is replaced, and its job goes on from the last checkpoint.
"""

from __future__ import annotations

import os
import signal
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from assignadd.config import UserError
from assignadd.dynamics.phases import Curves
from assignadd.runs.destination import claim_folder
from assignadd.runs.folder import Run
from assignadd.sweeps.cluster import run_ray
from assignadd.sweeps.jobs import (
    STACKS,
    Job,
    JobFailed,
    Report,
    SweepStopped,
    bytes_per_model,
    estimated_seconds,
    jobs_of,
    run_job,
)
from assignadd.sweeps.results import (
    TABLE,
    by_network,
    claim_results,
    column_of,
    provenance,
    results_table,
    write_results,
)
from assignadd.sweeps.settings import Sweep
from assignadd.training.loop import Interrupted, TrainingProgress
from assignadd.training.processes import StopSignals, end_with_parent

if TYPE_CHECKING:
    import polars

MOST_DEATHS = 3
REPORT_SECONDS = 0.25


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
    networks = by_network(table, [column_of(name) for name in sweep.varied])
    diverged = [str(columns["diverged_at"][-1]) not in ("None", "nan") for columns in networks]
    n = sweep.config.record.eval_sequences
    bound = sum(Curves.of_columns(c, n).binds for c, lost in zip(networks, diverged, strict=True) if not lost)
    return {
        "models": len(networks),
        "diverged": sum(diverged),
        "bind": bound,
        "do_not_bind": len(networks) - sum(diverged) - bound,
    }


def run_local(jobs: Sequence[Job], device: str, slots: int, report: Report = lambda job, step: None) -> None:
    """Trains every job. With one slot, one job after the other in this process, otherwise in `slots` processes."""
    if min(slots, len(jobs)) <= 1:
        for i, job in enumerate(jobs):
            run_job(job, device, 1, lambda progress, i=i: report(i, progress.step))
        return
    _Pool(jobs, device, min(slots, len(jobs)), report).run()


@dataclass
class _Slot:
    process: BaseProcess
    pipe: Connection
    job: int | None = None


class _Pool:
    def __init__(self, jobs: Sequence[Job], device: str, slots: int, report: Report):
        self.jobs, self.device, self.report = jobs, device, report
        self.waiting = deque(range(len(jobs)))
        self.deaths = dict.fromkeys(range(len(jobs)), 0)
        self.signals = StopSignals()
        self.slots = [self._start(i) for i in range(slots)]

    def run(self) -> None:
        with self.signals:
            try:
                while self.waiting or any(slot.job is not None for slot in self.slots):
                    self._hand_out()
                    for pipe in wait([slot.pipe for slot in self.slots], timeout=0.2):
                        self._hear(next(i for i, slot in enumerate(self.slots) if slot.pipe is pipe))
                    if self.signals.received:
                        raise SweepStopped(self.signals.received)
            finally:
                self._end()

    def _hand_out(self) -> None:
        for slot in self.slots:
            if slot.job is None and self.waiting:
                slot.job = self.waiting.popleft()
                with suppress(BrokenPipeError):  # a process that died is noticed when its pipe is read
                    slot.pipe.send((slot.job, self.jobs[slot.job]))

    def _hear(self, i: int) -> None:
        slot = self.slots[i]
        try:
            kind, job, value = slot.pipe.recv()
        except (EOFError, ConnectionResetError):
            return self._replace(i)
        if kind == "failed":
            raise JobFailed(f"{self.jobs[job].path}: {value}")
        self.report(job, self.jobs[job].config.optim.steps if kind == "done" else value)
        if kind == "done":
            slot.job = None

    def _replace(self, i: int) -> None:
        """A new process for one that died; its job is taken up again, unless it keeps dying."""
        job = self.slots[i].job
        if job is not None and not self.signals.received:
            self.deaths[job] += 1
            if self.deaths[job] > MOST_DEATHS:
                raise JobFailed(
                    f"{self.jobs[job].path}: its process died {self.deaths[job]} times; what was committed is safe"
                )
            self.waiting.appendleft(job)
        self.slots[i].process.join()
        self.slots[i] = self._start(i)

    def _start(self, i: int) -> _Slot:
        context = get_context("spawn")  # a GPU does not survive a fork
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, self.device, i, os.getpid(), _gpus()), daemon=True)
        process.start()
        theirs.close()
        return _Slot(process, ours)

    def _end(self) -> None:
        """Stacks in training save and end; the others end at once."""
        for slot in self.slots:
            slot.process.terminate()
        for slot in self.slots:
            slot.process.join()
            slot.pipe.close()


def _serve(pipe: Connection, device: str, slot: int, parent: int, gpus: Sequence[str]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides; a stack in training notes SIGTERM and saves
    end_with_parent(parent)
    if device == "cuda":
        os.environ["CUDA_VISIBLE_DEVICES"] = gpus[slot % len(gpus)]
    with suppress(EOFError, ConnectionError, Interrupted):
        while True:
            number, job = pipe.recv()
            try:
                run_job(job, device, 1, _Reporter(pipe, number))
            except UserError as error:
                if isinstance(error, Interrupted):
                    raise
                pipe.send(("failed", number, str(error)))
            else:
                pipe.send(("done", number, None))


def _gpus() -> list[str]:
    """The GPUs of this process, as CUDA_VISIBLE_DEVICES names them."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return visible.split(",") if visible else [str(i) for i in range(torch.cuda.device_count())]


class _Reporter:
    """Tells the parent the step now and then."""

    def __init__(self, pipe: Connection, number: int):
        self.pipe, self.number, self.last = pipe, number, 0.0

    def __call__(self, progress: TrainingProgress) -> None:
        if (now := time.monotonic()) - self.last > REPORT_SECONDS:
            self.last = now
            self.pipe.send(("step", self.number, progress.step))
