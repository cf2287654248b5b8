"""A sweep from plan to table: its jobs are trained on this machine or on a Ray cluster.

This machine trains one job or more at a time on each GPU, or on a CPU one on each core, every job in a process. The run
folders hold everything: if a process dies, another goes on from the last checkpoint. So it is on a cluster, where the
folders are on a file system that all nodes share, and Ray only runs jobs.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import signal
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
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
    estimated_seconds,
    jobs_of,
    run_job,
)
from assignadd.sweeps.results import TABLE, provenance, results_table, write_results
from assignadd.sweeps.settings import Sweep
from assignadd.training.loop import Interrupted
from assignadd.training.processes import StopSignals, end_with_parent

if TYPE_CHECKING:
    import polars

# How often the process of a job may die before the sweep gives up on it, here and on a cluster.
MOST_DEATHS, MOST_DEATHS_ON_RAY = 3, 5
OLDEST_RAY = (2, 54)
# A lost process may live on for a moment and hold its run.
BUSY_SECONDS = 120.0
POLL_SECONDS = 0.2
SAFE_PATH = "PYTHONSAFEPATH"


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
    """Trains every job, `slots` at a time, each in a process of its own; a single job, or slot, in this process.

    A job whose process dies goes on in a new one, unless it keeps dying.
    """
    if min(slots, len(jobs)) <= 1:
        for i, job in enumerate(jobs):
            run_job(job, device, 1, lambda progress, i=i: report(i, progress.step))
        return
    waiting = deque(range(len(jobs)))
    free_slots = deque(range(slots))
    running: list[_Process] = []
    deaths: Counter[int] = Counter()
    with StopSignals() as signals:
        try:
            while waiting or running:
                while waiting and free_slots:
                    i = waiting.popleft()
                    running.append(_start(i, jobs[i], device, free_slots.popleft()))
                ready = wait([process.pipe for process in running], timeout=POLL_SECONDS)
                for ended in [process for process in running if process.pipe in ready]:
                    running.remove(ended)
                    free_slots.append(ended.slot)
                    if ended.has_finished(jobs[ended.job]):
                        report(ended.job, jobs[ended.job].config.optim.steps)
                    else:
                        deaths[ended.job] += 1
                        waiting.appendleft(ended.job)
                if signals.received:
                    raise SweepStopped(signals.received)
                for i, n_deaths in deaths.items():
                    if n_deaths > MOST_DEATHS:
                        died = f"its process died {n_deaths} times; what was committed is safe"
                        raise JobFailed(f"{jobs[i].path}: {died}")
                for process in running:
                    report(process.job, step_of(jobs[process.job].path))
        finally:
            for process in running:
                process.process.terminate()  # a stack in training saves first
            for process in running:
                process.process.join()


@dataclass(frozen=True, eq=False)
class _Process:
    """A process that trains a job, and the pipe through which the result comes."""

    job: int
    slot: int
    process: BaseProcess
    pipe: Connection

    def has_finished(self, job: Job) -> bool:
        """Whether the process sent a result before it ended; a JobFailed if that is an error."""
        try:
            problem = self.pipe.recv()
        except (EOFError, ConnectionResetError):
            return False
        finally:
            self.process.join()
        if problem:
            raise JobFailed(f"{job.path}: {problem}")
        return True


def _start(number: int, job: Job, device: str, slot: int) -> _Process:
    """A new process that trains a job, on the GPU of its slot if the device is a GPU."""
    context = get_context("spawn")  # a GPU does not survive a fork
    pipe, pipe_of_process = context.Pipe(duplex=False)
    gpus = _gpus() if device == "cuda" else [""]
    gpu = gpus[slot % len(gpus)]
    process = context.Process(target=_train, args=(pipe_of_process, job, device, gpu, os.getpid()), daemon=True)
    with _no_modules_from_here():
        process.start()
    pipe_of_process.close()
    return _Process(number, slot, process, pipe)


@contextmanager
def _no_modules_from_here() -> Iterator[None]:
    """A Python started meanwhile does not look for modules in the working folder, as `python -c` otherwise does."""
    before = os.environ.get(SAFE_PATH)
    os.environ[SAFE_PATH] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[SAFE_PATH]
        else:
            os.environ[SAFE_PATH] = before


def _train(pipe: Connection, job: Job, device: str, gpu: str, parent: int) -> None:
    """In a process of its own: trains a job and sends what `train_job` returns."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides; a stack in training notes SIGTERM and saves
    end_with_parent(parent)
    if gpu:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu
    with suppress(Interrupted, BrokenPipeError):
        pipe.send(train_job(job, device))


def _gpus() -> list[str]:
    """The GPUs of this process, as CUDA_VISIBLE_DEVICES names them."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return visible.split(",") if visible else [str(i) for i in range(torch.cuda.device_count())]


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
        _run_on_cluster(ray, jobs, device, report)
    finally:
        ray.shutdown()


def _run_on_cluster(ray: Any, jobs: Sequence[Job], device: str, report: Report) -> None:
    """Trains every job as a task of Ray, which starts it again on another worker if its own is lost."""
    n_gpus = 1 if device == "cuda" else 0
    task = ray.remote(num_cpus=1, num_gpus=n_gpus, max_retries=MOST_DEATHS_ON_RAY)(train_job)
    # A worker has another working directory.
    jobs = [replace(job, path=Path(os.path.abspath(job.path))) for job in jobs]
    pending = {task.remote(job, device): i for i, job in enumerate(jobs)}
    with StopSignals() as signals:
        while pending and not signals.received:
            ready, _ = ray.wait(list(pending), timeout=POLL_SECONDS)
            for reference in ready:
                i = pending.pop(reference)
                if problem := _result_on_ray(ray, reference):
                    raise JobFailed(f"{jobs[i].path}: {problem}")
                report(i, jobs[i].config.optim.steps)
            for i in pending.values():
                report(i, step_of(jobs[i].path))
        if signals.received:
            for reference in pending:
                ray.cancel(reference)  # an interrupt in the worker, upon which a stack saves
            with suppress(Exception):
                ray.wait(list(pending), num_returns=len(pending), timeout=60)
            raise SweepStopped(signals.received)


def _result_on_ray(ray: Any, reference: Any) -> str | None:
    """What `train_job` returned on some worker, or why it did not."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayError as error:
        return f"{' '.join(str(error).split())[:200]}; what was committed is safe"


def train_job(job: Job, device: str) -> str | None:
    """In the process that trains a job: None, or the message of an error that the user can fix."""
    start = time.monotonic()
    while True:
        try:
            run_job(job, device)
            return None
        except RunBusy as error:
            if time.monotonic() - start > BUSY_SECONDS:
                return str(error)
            time.sleep(1.0)
        except Interrupted:
            raise
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
