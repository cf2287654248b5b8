"""A sweep from plan to table: one job or more at a time on each GPU, or on a CPU one on each core, each in a process.

The run folders hold everything: if a process dies, another goes on from the last checkpoint. Sweeps on several machines
that share a folder take jobs that no other holds.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
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

MOST_DEATHS = 3  # of the processes of a job, before the sweep gives up on it
# A lost process may live on for a moment and hold its run: how often the sweep looks whether jobs are free, and the
# seconds between two looks.
LOOKS, BETWEEN_LOOKS = 5, 2.0
POLL_SECONDS = 0.2  # between looks at this machine's processes
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
    run_local(planned.jobs, machines.device, machines.slots, report)
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
    places = [place for place, job in enumerate(jobs) if not job.is_finished]
    in_processes = min(slots, len(places)) > 1
    for _ in range(LOOKS):
        if in_processes:
            _train_in_processes(jobs, places, device, slots, report)
        else:
            _train_here(jobs, places, device, report)
        places = [place for place in places if not _has_finished(jobs[place])]
        if not places:
            return
        time.sleep(BETWEEN_LOOKS)
    raise OthersAtWork(len(places), len(jobs))


def _train_here(jobs: Sequence[Job], places: Sequence[int], device: str, report: Report) -> None:
    """Trains the jobs at these places, one after the other; those that another process holds are left."""
    for place in places:
        if _has_finished(jobs[place]):  # by another process, since this one has planned
            report(place, jobs[place].config.optim.steps)
            continue
        with suppress(RunBusy):
            run_job(jobs[place], device, listener=lambda progress, place=place: report(place, progress.step))


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
    """Trains a job in the process of a worker, and sends None, or the message of an error that the user can fix.

    `gpu` is the value for CUDA_VISIBLE_DEVICES, "" on a CPU; `parent` the process without which this one ends.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides; a stack in training notes SIGTERM and saves
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # not the handler that a forked process has from its parent
    end_with_parent(parent)
    if gpu:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu
    with suppress(Interrupted, BrokenPipeError):
        try:
            run_job(job, device)
            pipe.send(None)
        except RunBusy:  # left to the process that holds it
            pipe.send(None)
        except Interrupted:  # a UserError too, but not a failure of the job
            raise
        except UserError as error:
            pipe.send(str(error))


def step_of(path: Path) -> int:
    """The step that the run in a folder is at; 0 where there is none yet."""
    try:
        return read_manifest(path).step
    except RunError:
        return 0
