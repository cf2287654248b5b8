"""A pool of processes that train models, or measure and draw, side by side on a CPU.

Threads of one process would share Python's lock, which measures, figures and most training steps need often. The
tensors that a process trains are in memory that it shares with its parent, which reads and saves them as if they were
its own.
"""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
import signal
import sys
import threading
import traceback
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from types import FrameType
from typing import Any, cast

import torch
from torch import Tensor

from assignadd.config import UserError

Task = Callable[..., Any]
PR_SET_PDEATHSIG = 1


def can_fork() -> bool:
    """Whether processes can be forked safely, and end when this one does: on Linux."""
    return sys.platform == "linux" and hasattr(os, "fork")


def shared(tensor: Tensor) -> Tensor:
    """A copy in memory that this process shares with those forked from it."""
    memory = mmap.mmap(-1, max(1, tensor.numel() * tensor.element_size()))
    copy = torch.frombuffer(memory, dtype=tensor.dtype, count=tensor.numel()).view(tensor.shape)
    return copy.copy_(tensor)


class ProcessDied(UserError):
    """A process died, killed for memory perhaps; what was committed is safe."""

    exit_code = 1

    def __init__(self) -> None:
        super().__init__("a process died; run the same command to go on from what was saved last")


class ProcessPool:
    """Processes that each keep some items; a task runs on every item in the process that has it.

    With one process, or where the system cannot fork, every task runs in this one.
    """

    def __init__(self, items: Sequence[Any], processes: int, tasks: Mapping[str, Task]):
        self._items, self._tasks = items, tasks
        self._pipes: list[Connection] = []
        self._processes: list[BaseProcess] = []
        self._end = weakref.finalize(self, _kill, self._processes)  # when Python exits at the latest
        if processes > 1 and can_fork():
            for i in range(processes):
                self._fork(items[i::processes])

    def _fork(self, items: Sequence[Any]) -> None:
        """Starts a process that has these items."""
        context = get_context("fork")
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, items, self._tasks, os.getpid()), daemon=True)
        with warnings.catch_warnings():
            # Python 3.12 warns of forking with other threads: those of libraries, idle, with no lock a child needs.
            warnings.simplefilter("ignore", DeprecationWarning)
            process.start()
        theirs.close()
        self._pipes.append(ours)
        self._processes.append(process)

    def call(self, task: str, *arguments: Any) -> list[Any]:
        """tasks[task](item, *arguments) for every item, in the order of the items."""
        if not self._pipes:
            return [self._tasks[task](item, *arguments) for item in self._items]
        for pipe in self._pipes:
            with suppress(BrokenPipeError):  # a dead process is noticed when its reply is due
                pipe.send((task, arguments))
        replies = [_reply(pipe) for pipe in self._pipes]
        return [reply[i] for i in range(max(map(len, replies))) for reply in replies if i < len(reply)]

    def each(self, task: str, arguments: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """(i, tasks[task](item, arguments[i])) for every argument, in the next process that is free, as they finish.

        With one item for each process.
        """
        waiting = list(enumerate(arguments))[::-1]
        busy: dict[Any, int] = {}

        def send_next(pipe: Connection) -> None:
            if waiting:
                busy[pipe], argument = waiting.pop()
                pipe.send((task, (argument,)))

        for pipe in self._pipes:
            send_next(pipe)
        while busy:
            for pipe in cast(list[Connection], wait(list(busy))):
                index, result = busy.pop(pipe), _reply(pipe)[0]
                send_next(pipe)
                yield index, result

    def close(self) -> None:
        """Ends the processes, also those that are at work."""
        self._end()


def _reply(pipe: Connection) -> Any:
    """What a process answers; an error where its task failed or it died."""
    try:
        failed, reply = pipe.recv()
    except (EOFError, OSError):
        raise ProcessDied from None
    if failed:
        raise RuntimeError(f"a process failed:\n{reply}")
    return reply


def _pool_for(function: Callable[[Any], Any], arguments: Sequence[Any], processes: int) -> ProcessPool | None:
    """Processes that call the function with an argument by its index; None where one process is enough."""
    n = min(processes, len(arguments))
    if n <= 1 or not can_fork():
        return None
    return ProcessPool(range(n), n, {"call": lambda _, i: function(arguments[i])})


def in_parallel(function: Callable[[Any], Any], arguments: Sequence[Any], processes: int) -> Iterator[tuple[int, Any]]:
    """(i, function(arguments[i])) for every argument, as they finish, in `processes` processes of one thread each.

    In this process, one after the other, where only one is asked for or the system cannot fork. What the function
    returns is sent here. The function must not use Polars, whose threads a forked process does not have.
    """
    pool = _pool_for(function, arguments, processes)
    if pool is None:
        yield from ((i, function(argument)) for i, argument in enumerate(arguments))
        return
    with closing(pool):
        yield from pool.each("call", range(len(arguments)))


@contextmanager
def in_background(function: Callable[[Any], Any], arguments: Sequence[Any], processes: int) -> Iterator[None]:
    """Calls the function with every argument while the body runs, as `in_parallel` does, and waits for the last call.

    With one process, or where the system cannot fork, the calls are made after the body. An error of a call is raised
    after the body; an error of the body stops the calls.
    """
    pool = _pool_for(function, arguments, processes)
    if pool is None:
        yield
        for argument in arguments:
            function(argument)
        return
    # The thread gives each process its next argument. It waits for the last call, so the pool is closed before it.
    with ThreadPoolExecutor(1) as thread, closing(pool):
        calls = thread.submit(list, pool.each("call", range(len(arguments))))
        yield
        calls.result()


def _by_value(tensor: Tensor) -> tuple[Callable[[Any], Tensor], tuple[Any]]:
    """How a tensor is sent to another process; torch's own way keeps a file open for each."""
    return torch.from_numpy, (tensor.detach().cpu().numpy(),)


def _kill(processes: Sequence[BaseProcess]) -> None:
    """Ends the processes and waits until they are gone."""
    for process in processes:
        process.kill()
    for process in processes:
        process.join()


def _serve(pipe: Connection, items: Sequence[Any], tasks: Mapping[str, Task], parent: int) -> None:
    """Runs the tasks that come through the pipe on every item, and sends what they return, until it is killed."""
    for signum in (signal.SIGINT, signal.SIGTERM):  # the parent decides when to stop
        signal.signal(signum, signal.SIG_IGN)
    end_with_parent(parent)
    gc.freeze()  # what the parent made, graphs of a GPU perhaps, is not freed here
    torch.set_num_threads(1)
    ForkingPickler.register(Tensor, _by_value)
    while True:
        task, arguments = pipe.recv()
        try:
            reply: tuple[bool, Any] = False, [tasks[task](item, *arguments) for item in items]
        except Exception:
            reply = True, traceback.format_exc()
        pipe.send(reply)


class StopSignals:
    """Remembers SIGTERM and SIGINT instead of dying of them, so that a save can finish first.

    Outside the main thread, where Python handles no signals, nothing is ever received.
    """

    received = 0
    """The number of the last signal, or 0."""

    def __enter__(self) -> StopSignals:
        self._before = {}
        if threading.current_thread() is threading.main_thread():
            self._before = {s: signal.signal(s, self._note) for s in (signal.SIGTERM, signal.SIGINT)}
        return self

    def __exit__(self, *_: object) -> None:
        for signum, handler in self._before.items():
            signal.signal(signum, handler)

    def _note(self, signum: int, _: FrameType | None) -> None:
        self.received = signum


def end_with_parent(parent: int) -> None:
    """Makes the kernel end this process when its parent, whose id is given, dies; only Linux can do that."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the call
        os._exit(1)
