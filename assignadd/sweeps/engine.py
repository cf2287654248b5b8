"""A sweep from plan to table: its jobs are trained on this machine or on a Ray cluster.

This machine runs jobs in a process or more per GPU, or on a CPU in one per core. The run folders hold everything: a
process that dies is replaced, and its job goes on from the last checkpoint. So it is on a cluster, where the folders
are on a file system that all nodes share, and Ray only runs jobs.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import signal
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from assignadd.config import ConfigError, UserError
from assignadd.config.errors import RunBusy, RunError
from assignadd.runs.files import claim_folder
from assignadd.runs.folder import Run
from assignadd.sweeps.jobs import (
    Job,
    JobFailed,
    Report,
    SweepStopped,
    bytes_per_model,
    estimated_seconds,
    jobs_of,
    run_job,
)
from assignadd.sweeps.results import TABLE, claim_results, provenance, results_table, write_results
from assignadd.sweeps.settings import Sweep
from assignadd.training.loop import Interrupted, TrainingProgress
from assignadd.training.processes import StopSignals, end_with_parent

if TYPE_CHECKING:
    import polars

# How often the process of a job may die before the sweep gives up on it, here and on a cluster.
MOST_DEATHS, MOST_DEATHS_ON_RAY = 3, 5
REPORT_SECONDS = 0.25
OLDEST_RAY = (2, 54)
# A lost worker's process may live on for a moment and hold its run.
BUSY_SECONDS = 120.0
POLL_SECONDS = 0.5


@dataclass(frozen=True)
class Plan:
    jobs: list[Job]
    device: str
    slots: int
    """Jobs at a time on this machine."""

    def summary(self, sweep: Sweep) -> dict[str, Any]:
        """What a dry run shows."""
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
    claim_folder(out, "sweep")
    unfinished = [i for i, job in enumerate(planned.jobs) if job.model_steps]
    for job in planned.jobs:
        if not job.model_steps:
            _check_metrics(job.path)  # before anything is trained
    jobs = [planned.jobs[i] for i in unfinished]

    def report_of_all(job: int, step: int) -> None:
        report(unfinished[job], step)

    if engine == "ray":
        run_ray(jobs, device, address, report_of_all)
    else:
        run_local(jobs, device, planned.slots, report_of_all)
    runs = [Run.open(job.path) for job in planned.jobs]
    table = results_table(runs, sweep)
    write_results(table, provenance(runs, sweep, command), out / TABLE)
    return table


def _check_metrics(path: Path) -> None:
    """Refuses a finished run whose rows are damaged: the table cannot be made."""
    try:
        Run.open(path).metrics()
    except RunError as error:
        raise RunError(f"{error}; remove {path} to train its models again") from error


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
        """A job for every process that has none, as long as jobs wait."""
        for slot in self.slots:
            if slot.job is None and self.waiting:
                slot.job = self.waiting.popleft()
                with suppress(BrokenPipeError):  # a process that died is noticed when its pipe is read
                    slot.pipe.send((slot.job, self.jobs[slot.job]))

    def _hear(self, i: int) -> None:
        """Takes a message of the process in slot i: the step of its job, or that it is done or failed."""
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
        """A new process for slot i, which waits for jobs."""
        context = get_context("spawn")  # a GPU does not survive a fork
        pipe, pipe_of_process = context.Pipe()
        process = context.Process(
            target=_serve, args=(pipe_of_process, self.device, i, os.getpid(), _gpus()), daemon=True
        )
        process.start()
        pipe_of_process.close()
        return _Slot(process, pipe)

    def _end(self) -> None:
        """Stacks in training save and end; the others end at once."""
        for slot in self.slots:
            slot.process.terminate()
        for slot in self.slots:
            slot.process.join()
            slot.pipe.close()


def _serve(pipe: Connection, device: str, slot: int, parent: int, gpus: Sequence[str]) -> None:
    """In a process of its own: trains the jobs that come through the pipe, until it is closed."""
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


def run_ray(jobs: Sequence[Job], device: str, address: str | None, report: Report = lambda job, step: None) -> None:
    """Trains every job on the cluster at `address`.

    `auto` is the cluster that only this machine reaches; None starts such a cluster and ends it afterwards.
    """
    ray = _ray(here=address in (None, "auto") and not os.environ.get("RAY_ADDRESS"))
    local = {} if address else {"include_dashboard": False, "_node_ip_address": "127.0.0.1"}
    try:
        ray.init(address=address or "local", log_to_driver=False, logging_level="ERROR", **local)
    except (ConnectionError, RuntimeError, ray.exceptions.RayError) as error:
        token = "the token in ~/.ray/auth_token or RAY_AUTH_TOKEN"
        expected = f"a Ray cluster that accepts {token}; `make ray-up` starts one"
        raise ConfigError("address", address, expected) from error
    try:
        _Cluster(ray, jobs, device, report).run()
    finally:
        ray.shutdown()


class _Cluster:
    def __init__(self, ray: Any, jobs: Sequence[Job], device: str, report: Report):
        self.ray, self.report = ray, report
        self.jobs = [replace(job, path=Path(os.path.abspath(job.path))) for job in jobs]
        task = ray.remote(num_cpus=1, num_gpus=1 if device == "cuda" else 0, max_retries=MOST_DEATHS_ON_RAY)(train_job)
        self.pending = {task.remote(job, device): i for i, job in enumerate(self.jobs)}

    def run(self) -> None:
        with StopSignals() as signals:
            while self.pending and not signals.received:
                ready, _ = self.ray.wait(list(self.pending), timeout=POLL_SECONDS)
                for reference in ready:
                    self._finish(reference)
                for i in self.pending.values():
                    self.report(i, step_of(self.jobs[i].path))
            if signals.received:
                for reference in self.pending:
                    self.ray.cancel(reference)  # an interrupt in the worker, upon which a stack saves
                with suppress(Exception):
                    self.ray.wait(list(self.pending), num_returns=len(self.pending), timeout=60)
                raise SweepStopped(signals.received)

    def _finish(self, reference: Any) -> None:
        """Takes the result of a job that has ended, on some worker."""
        i = self.pending.pop(reference)
        try:
            problem = self.ray.get(reference)
        except self.ray.exceptions.RayError as error:
            raise JobFailed(
                f"{self.jobs[i].path}: {' '.join(str(error).split())[:200]}; what was committed is safe"
            ) from error
        if problem:
            raise JobFailed(f"{self.jobs[i].path}: {problem}")
        self.report(i, self.jobs[i].config.optim.steps)


def train_job(job: Job, device: str) -> str | None:
    """On a worker: trains, and returns the message of an error that the user can fix."""
    start = time.monotonic()
    while True:
        try:
            run_job(job, device)
            return None
        except RunBusy as error:
            if time.monotonic() - start > BUSY_SECONDS:
                return str(error)
            time.sleep(1.0)
        except UserError as error:
            return str(error)


def step_of(path: Path) -> int:
    """The step that a run is at; 0 where there is none yet."""
    try:
        return Run.open(path).step
    except RunError:
        return 0


def _ray(here: bool) -> Any:
    """`here` for a cluster on this machine alone."""
    if importlib.util.find_spec("ray") is None:
        raise ConfigError("engine", "ray", "local, or Ray to be installed: pip install 'assignadd[ray]'")
    # A cluster without a token takes code from whoever reaches it. Ray reads this once, when it is imported.
    os.environ.setdefault("RAY_AUTH_MODE", "token")
    if here:  # else Ray takes 127.0.0.1 to mean the address at which other machines reach this one
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "error")
    ray: Any = importlib.import_module("ray")
    if tuple(int(x) for x in ray.__version__.split(".")[:2]) < OLDEST_RAY:
        raise ConfigError("engine", f"ray {ray.__version__}", "Ray 2.54 or newer, whose clusters ask for a token")
    return ray
