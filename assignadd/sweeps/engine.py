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
import sys
import time
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch

from assignadd.config import ConfigError, UserError
from assignadd.config.errors import RunBusy, RunError
from assignadd.runs.files import claim_folder
from assignadd.runs.folder import Run
from assignadd.runs.manifest import read_manifest
from assignadd.sweeps.final_tests import SweepObserver
from assignadd.sweeps.plan import Job, Machines, Plan, Sweep, plan
from assignadd.sweeps.results import TABLE, provenance, results_table, write_results
from assignadd.task.splits import splits_of
from assignadd.training.loop import Interrupted, Listener, train_run
from assignadd.training.processes import StopSignals, can_fork, end_with_parent
from assignadd.training.trainer import Trainer

if TYPE_CHECKING:
    import polars

# How often the process of a job may die before the sweep gives up on it, here and on a cluster.
MOST_DEATHS, MOST_DEATHS_ON_RAY = 3, 5
OLDEST_RAY = (2, 54)
# A lost process may live on for a moment and hold its run: the seconds for which a job on a cluster waits for the run;
# how often this machine's jobs look whether it is free, and the seconds between two looks.
BUSY_SECONDS = 120.0
LOOKS, BETWEEN_LOOKS = 5, 2.0
POLL_SECONDS = 0.2  # between looks at this machine's processes
BETWEEN_REPORTS = 5.0  # seconds between looks at how far the jobs on a cluster are
# Called with the number of a job and the step it is at.
Report = Callable[[int, int], None]


class SweepStopped(UserError):
    """The sweep was asked to stop; every stack has saved."""

    def __init__(self, signum: int):
        super().__init__("stopped; run the same command to go on")
        self.exit_code = 128 + signum  # as shells report it


class OthersAtWork(UserError):
    """Other sweeps in the same folder still train some of the stacks, and this one has nothing left to do."""

    exit_code = 0

    def __init__(self, n_stacks: int, n_jobs: int):
        super().__init__(
            f"{n_stacks} of {n_jobs} stacks are trained by other processes, the last of which writes the table; "
            "the same command does too, once they have ended"
        )


class JobFailed(UserError):
    """A job of a sweep cannot go on; the others have saved."""

    exit_code = 1


def run_sweep(
    sweep: Sweep,
    out: Path,
    machines: Machines = Machines(),  # noqa: B008 (frozen)
    report: Report = lambda job, step: None,
    command: str = "",
) -> polars.LazyFrame:
    """The table of a sweep, written into the folder `out` once what is missing there is trained, to be read from there.

    The same call goes on where an earlier one stopped. `report` is told the step that each job is at, by the job's
    number in the plan; `command` is recorded with the table.
    """
    return run_plan(plan(sweep, out, machines), report, command)


def run_plan(planned: Plan, report: Report = lambda job, step: None, command: str = "") -> polars.LazyFrame:
    """The table of a planned sweep, as `run_sweep` returns it."""
    sweep, machines = planned.sweep, planned.machines
    out = planned.jobs[0].out  # the same for all jobs
    claim_folder(out, "sweep")
    for job in planned.jobs:
        if job.is_finished:
            _check_metrics(job.path)  # before anything is trained
    numbers = [number for number, job in enumerate(planned.jobs) if not job.is_finished]  # of the jobs to be trained
    jobs = [planned.jobs[number] for number in numbers]

    def report_number_in_plan(place: int, step: int) -> None:
        report(numbers[place], step)

    if machines.engine == "ray":
        run_ray(jobs, machines.device, machines.address, report_number_in_plan)
    else:
        run_local(jobs, machines.device, machines.slots, report_number_in_plan)
    runs = [Run.open(job.path) for job in planned.jobs]
    with results_table(runs, sweep, out) as table:
        write_results(table, provenance(runs, sweep, command), out / TABLE)
    import polars  # after all processes were forked

    return polars.scan_parquet(out / TABLE, glob=False)


def _check_metrics(path: Path) -> None:
    """Raises a RunError for a finished run whose rows are damaged, of which no table can be made."""
    try:
        Run.open(path).metrics()
    except RunError as error:
        raise RunError(f"{error}; remove {path} to train its models again") from error


def run_local(jobs: Sequence[Job], device: str, slots: int, report: Report = lambda job, step: None) -> None:
    """Trains every job, `slots` at a time, each in a process of its own; a single job, or slot, in this process.

    A job whose process dies goes on in a new one, unless it keeps dying. `report` is told the place of a job in `jobs`.
    What another sweep trains in the same folder is left to it; an OthersAtWork if that is still at work in the end.
    """
    places = list(range(len(jobs)))  # jobs are named by their place in `jobs`
    for _ in range(LOOKS):
        places = _train_free(jobs, places, device, slots, report)
        if not places:
            return
        time.sleep(BETWEEN_LOOKS)
    raise OthersAtWork(len(places), len(jobs))


def _train_free(jobs: Sequence[Job], places: Sequence[int], device: str, slots: int, report: Report) -> list[int]:
    """Trains the jobs at these places that no other process holds; returns the places of those that are unfinished."""
    in_this_process = min(slots, len(jobs)) <= 1  # by the number of all jobs, also where few are left
    if in_this_process:
        for place in places:
            if _has_finished(jobs[place]):  # by another process, since this one has planned
                report(place, jobs[place].config.optim.steps)
                continue
            with suppress(RunBusy):
                run_job(jobs[place], device, listener=lambda progress, place=place: report(place, progress.step))
    else:
        _train_in_processes(jobs, places, device, slots, report)
    return [place for place in places if not _has_finished(jobs[place])]


def _train_in_processes(jobs: Sequence[Job], places: Sequence[int], device: str, slots: int, report: Report) -> None:
    """Trains the jobs at these places, each in a process of its own; those that another process holds are left."""
    if device == "cpu" and can_fork() and places:
        _load_compiled_code(jobs[places[0]])
    waiting = deque(places)
    free_slots = deque(range(slots))
    running: list[_Worker] = []
    deaths: Counter[int] = Counter()  # of each job's processes
    with StopSignals() as signals:
        try:
            while waiting or running:
                while waiting and free_slots:
                    place = waiting.popleft()
                    if _has_finished(jobs[place]):  # by another process, since this one has planned
                        report(place, jobs[place].config.optim.steps)
                    else:
                        running.append(_start(place, jobs[place], device, free_slots.popleft()))
                # The pipes of the processes that have sent a result, or died.
                ready = wait([worker.pipe for worker in running], timeout=POLL_SECONDS)
                for worker in [worker for worker in running if worker.pipe in ready]:
                    running.remove(worker)
                    free_slots.append(worker.slot)
                    place, path = worker.place, jobs[worker.place].path
                    if worker.has_ended(path):
                        report(place, step_of(path))
                        continue
                    deaths[place] += 1
                    if deaths[place] > MOST_DEATHS:
                        raise JobFailed(f"{path}: its process died {deaths[place]} times; what was committed is safe")
                    waiting.appendleft(place)
                if signals.received:
                    raise SweepStopped(signals.received)
                for worker in running:
                    report(worker.place, step_of(jobs[worker.place].path))
        finally:
            for worker in running:
                worker.process.terminate()  # a stack in training saves first
            for worker in running:
                worker.process.join()


def _load_compiled_code(job: Job) -> None:
    """Takes a step with a model of the job and evaluates it, so that forked processes have the code that this loads."""
    members = job.members[:1]
    with closing(Trainer(job.config, members, splits_of([members[0].config(job.config)]))) as trainer:
        trainer.advance(1)
        trainer.evaluate()


def _has_finished(job: Job) -> bool:
    """Whether the last step of a job is committed."""
    try:
        return read_manifest(job.path).finished
    except RunError:
        return False


def run_job(job: Job, device: str, listener: Listener = lambda _: None) -> Run:
    """Trains what is missing of a job, and returns its run."""
    seen = splits_of([member.config(job.config) for member in job.members])
    observe = job.observe or SweepObserver
    return train_run(job.path, job.config, job.members, seen, device, listener=listener, observe=observe)


@dataclass(frozen=True, eq=False)
class _Worker:
    """A process that trains a job, and the pipe through which the result comes."""

    place: int
    """The place of the job in the list of jobs."""
    slot: int
    """The place among those that train at the same time, which decides the GPU."""
    process: BaseProcess
    pipe: Connection

    def has_ended(self, path: Path) -> bool:
        """Whether the process, which is gone, has sent that its job ended, and did not die before.

        Raises a JobFailed, which names the path of the run, if it has sent the message of an error.
        """
        try:
            problem = self.pipe.recv()
        except (EOFError, ConnectionResetError):
            return False
        finally:
            self.process.join()
        if problem:
            raise JobFailed(f"{path}: {problem}")
        return True


def _start(place: int, job: Job, device: str, slot: int) -> _Worker:
    """A new process that trains a job, on the GPU of its slot if the device is a GPU; `place` is the job's in the list.

    For a CPU it is forked where the system can: it then has what the user's script or notebook defined. Otherwise, as
    for a GPU, which does not survive a fork, it is spawned: it begins anew, and is sent the job. It is then kept from
    running the user's script first, which would start more processes, and from importing modules of the working folder.
    """
    context: Any = get_context("fork" if device == "cpu" and can_fork() else "spawn")
    receiving_end, sending_end = context.Pipe(duplex=False)
    gpu = _gpu(slot) if device == "cuda" else ""
    process = context.Process(target=_train, args=(sending_end, job, device, gpu, os.getpid()), daemon=True)
    without_script = _replaced(sys.modules, "__main__", ModuleType("__main__"))
    with without_script, _replaced(os.environ, "PYTHONSAFEPATH", "1"), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads: see `ProcessPool`
        try:
            process.start()
        except OSError:  # no process could be started
            raise
        except Exception as error:  # the job could not be sent: its `observe` is a function of a script or notebook
            expected = "functions of a file of their own, from which other processes load them, or one process"
            raise ConfigError("observe", str(error), expected) from error
    sending_end.close()  # the process has it too; once that ends, the pipe ends
    return _Worker(place, slot, process, receiving_end)


@contextmanager
def _replaced(mapping: MutableMapping[str, Any], key: str, value: Any) -> Iterator[None]:
    """Within this context mapping[key] is `value`; afterwards it is what it was before, or missing."""
    before = mapping.get(key)
    mapping[key] = value
    try:
        yield
    finally:
        if before is None:
            del mapping[key]
        else:
            mapping[key] = before


def _gpu(slot: int) -> str:
    """The GPU of a slot, as CUDA_VISIBLE_DEVICES names it."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    gpus = visible.split(",") if visible else [str(i) for i in range(torch.cuda.device_count())]
    return gpus[slot % len(gpus)]  # there may be several slots for each GPU


def _train(pipe: Connection, job: Job, device: str, gpu: str, parent: int) -> None:
    """Trains a job in the process of a worker, and sends what `train_job` returns.

    `gpu` is the value for CUDA_VISIBLE_DEVICES, "" on a CPU; `parent` the process without which this one ends.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides; a stack in training notes SIGTERM and saves
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # not the handler that a forked process has from its parent
    end_with_parent(parent)
    if gpu:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu
    with suppress(Interrupted, BrokenPipeError):
        pipe.send(train_job(job, device))


def train_job(job: Job, device: str, patience: float = 0.0) -> str | None:
    """Trains a job in this process: None once it is done, or the message of an error that the user can fix.

    A job that another process holds for more than `patience` seconds is left to that one: None too.
    """
    start = time.monotonic()
    while True:
        try:
            run_job(job, device)
            return None
        except RunBusy:
            if time.monotonic() - start > patience:
                return None
            time.sleep(1.0)
        except Interrupted:  # a UserError too, but not a failure of the job
            raise
        except UserError as error:
            return str(error)


def step_of(path: Path) -> int:
    """The step that the run in a folder is at; 0 where there is none yet."""
    try:
        return read_manifest(path).step
    except RunError:
        return 0


def run_ray(jobs: Sequence[Job], device: str, address: str | None, report: Report = lambda job, step: None) -> None:
    """Trains every job on the cluster at `address`; `report` is told the place of a job in `jobs`.

    `auto` is the cluster that only this machine reaches; None starts such a cluster and ends it afterwards.
    """
    # RAY_ADDRESS may name a cluster of other machines, which `auto` then is.
    is_on_this_machine = address in (None, "auto") and not os.environ.get("RAY_ADDRESS")
    ray = _import_ray(is_on_this_machine)
    only_here = {} if address else {"include_dashboard": False, "_node_ip_address": "127.0.0.1"}
    try:
        ray.init(address=address or "local", log_to_driver=False, logging_level="ERROR", **only_here)
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
    # With the whole path: a worker has another working directory.
    jobs = [replace(job, run=Path(os.path.abspath(job.path))) for job in jobs]
    # The place in `jobs` of each job at work, by Ray's reference to its result.
    pending = {task.remote(job, device, BUSY_SECONDS): place for place, job in enumerate(jobs)}
    next_look = 0.0
    with StopSignals() as signals:
        while pending and not signals.received:
            ready, _ = ray.wait(list(pending), timeout=POLL_SECONDS)  # the others are not ready
            for reference in ready:
                place = pending.pop(reference)
                if problem := _problem_on_ray(ray, reference):
                    raise JobFailed(f"{jobs[place].path}: {problem}")
                report(place, jobs[place].config.optim.steps)
            if time.monotonic() > next_look:  # at folders that may be thousands, on a file system that many share
                next_look = time.monotonic() + BETWEEN_REPORTS
                for place in pending.values():
                    report(place, step_of(jobs[place].path))
        if signals.received:
            for reference in pending:
                ray.cancel(reference)  # an interrupt in the worker, upon which a stack saves
            with suppress(Exception):
                ray.wait(list(pending), num_returns=len(pending), timeout=60)
            raise SweepStopped(signals.received)
    if unfinished := [job for job in jobs if not _has_finished(job)]:
        raise OthersAtWork(len(unfinished), len(jobs))


def _problem_on_ray(ray: Any, reference: Any) -> str | None:
    """Why a job failed on Ray: what `train_job` returned, or why it did not return; None where it did not fail."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayError as error:
        in_one_line = " ".join(str(error).split())[:200]
        return f"{in_one_line}; what was committed is safe"


def _import_ray(for_this_machine: bool) -> Any:
    """The package `ray`, set up for clusters with a token, and for a cluster on this machine alone if that is asked."""
    if importlib.util.find_spec("ray") is None:
        raise ConfigError("engine", "ray", "local, or Ray to be installed: pip install 'assignadd[ray]'")
    # A cluster without a token takes code from whoever reaches it. Ray reads this once, when it is imported.
    os.environ.setdefault("RAY_AUTH_MODE", "token")
    if for_this_machine:
        # Without this, Ray takes 127.0.0.1 to mean the address at which other machines reach this one.
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    # With 0, Ray leaves CUDA_VISIBLE_DEVICES unchanged for tasks without a GPU, and prints no warning about it.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "error")
    ray: Any = importlib.import_module("ray")
    major, minor = ray.__version__.split(".")[:2]
    if (int(major), int(minor)) < OLDEST_RAY:
        raise ConfigError("engine", f"ray {ray.__version__}", "Ray 2.54 or newer, whose clusters ask for a token")
    return ray
