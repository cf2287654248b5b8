"""The local engine: jobs on this machine, in a process or more per GPU, or on a CPU in one per core.

The run folders hold everything: a process that dies is replaced, and its job goes on from the last checkpoint.
"""

from __future__ import annotations

import os
import signal
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

import torch

from assignadd.config import UserError
from assignadd.sweeps.jobs import Job, run_job
from assignadd.training.loop import Interrupted, TrainingProgress
from assignadd.training.processes import StopSignals, end_with_parent

# (number of the job, the step it is at)
Report = Callable[[int, int], None]
MOST_DEATHS = 3
REPORT_SECONDS = 0.25


class SweepStopped(UserError):
    """The sweep was asked to stop; every stack has saved."""

    def __init__(self, signum: int):
        super().__init__("stopped; run the same command to go on")
        self.exit_code = 128 + signum


class JobFailed(UserError):
    exit_code = 1


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
    with suppress(EOFError, BrokenPipeError, Interrupted):
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
