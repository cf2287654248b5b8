"""Train the jobs of a sweep on a Ray cluster.

The run folders are on a file system that all nodes share, and hold everything that is known; Ray only runs jobs. If a
worker or the driver is killed, only what came after the last checkpoint is lost.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from assignadd.config import ConfigError, UserError
from assignadd.config.errors import RunBusy, RunError
from assignadd.runs.folder import Run
from assignadd.sweeps.jobs import Job, JobFailed, Report, SweepStopped, run_job
from assignadd.training.processes import StopSignals

OLDEST = (2, 54)
# How often a job may lose its worker before the sweep gives up on it.
RETRIES = 5
# A lost worker's process may live on for a moment and hold its run.
BUSY_SECONDS = 120.0
POLL_SECONDS = 0.5


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
        _Driver(ray, jobs, device, report).run()
    finally:
        ray.shutdown()


class _Driver:
    def __init__(self, ray: Any, jobs: Sequence[Job], device: str, report: Report):
        self.ray, self.report = ray, report
        self.jobs = [replace(job, path=Path(os.path.abspath(job.path))) for job in jobs]
        task = ray.remote(num_cpus=1, num_gpus=1 if device == "cuda" else 0, max_retries=RETRIES)(train_job)
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
    if tuple(int(x) for x in ray.__version__.split(".")[:2]) < OLDEST:
        raise ConfigError("engine", f"ray {ray.__version__}", "Ray 2.54 or newer, whose clusters ask for a token")
    return ray
