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
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from types import FrameType
from typing import Any, cast

import torch
from torch import Tensor

from assignadd.config import UserError

PR_SET_PDEATHSIG = 1  # of Linux's <sys/prctl.h>: a signal for this process when its parent dies


def can_fork() -> bool:
    """Whether processes can be forked safely, and end when this one does: on Linux."""
    return sys.platform == "linux" and hasattr(os, "fork")


def shared(tensor: Tensor) -> Tensor:
    """A copy in memory that this process shares with those forked from it."""
    n_bytes = tensor.numel() * tensor.element_size()
    memory = mmap.mmap(-1, max(1, n_bytes))  # -1: of no file; empty memory cannot be mapped
    copy = torch.frombuffer(memory, dtype=tensor.dtype, count=tensor.numel()).view(tensor.shape)
    return copy.copy_(tensor)


class ProcessDied(UserError):
    """A process died, killed for memory perhaps; what was committed is safe."""

    exit_code = 1

    def __init__(self) -> None:
        super().__init__("a process died; run the same command to go on from what was saved last")


class ProcessPool:
    """Processes among which items, objects of any class, are divided; each process calls methods of its items.

    With one process, or where the system cannot fork, every method is called in this one.
    """

    def __init__(self, items: Sequence[Any], processes: int):
        """Forks the processes and gives each its part of the items."""
        self._items = items
        self._pipes: list[Connection] = []
        self._processes: list[BaseProcess] = []
        self._end = weakref.finalize(self, _kill, self._processes)  # called when Python exits, at the latest
        if processes > 1 and can_fork():
            for i in range(processes):  # in turn: the first item to the first process, the second to the second, ...
                self._fork(items[i::processes])

    def _fork(self, items: Sequence[Any]) -> None:
        """Starts a process that has these items, and a pipe to it."""
        context = get_context("fork")
        ours, theirs = context.Pipe()  # its two ends
        process = context.Process(target=_serve, args=(theirs, items, os.getpid()), daemon=True)
        with warnings.catch_warnings():
            # Python 3.12 warns of forking with other threads: those of libraries, idle, with no lock a child needs.
            warnings.simplefilter("ignore", DeprecationWarning)
            process.start()
        theirs.close()
        self._pipes.append(ours)
        self._processes.append(process)

    def call(self, method: str, *arguments: Any) -> list[Any]:
        """item.method(*arguments) for every item, in the order of the items."""
        if not self._pipes:
            return [getattr(item, method)(*arguments) for item in self._items]
        for pipe in self._pipes:
            with suppress(BrokenPipeError):  # a dead process is noticed when its reply is due
                pipe.send((method, arguments))
        replies = [_reply(pipe) for pipe in self._pipes]  # a list from each process
        results: list[Any] = [None] * len(self._items)
        for i, reply in enumerate(replies):
            results[i :: len(replies)] = reply  # as the items were given to the processes
        return results

    def each(self, method: str, arguments: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """(i, item.method(arguments[i])) for every argument, in the order in which they finish.

        Each argument goes to the next process that is free. Every process must have a single item.
        """
        waiting = deque(enumerate(arguments))  # each argument with its place in `arguments`
        busy: dict[Any, int] = {}  # pipe to each process at work -> the place of its argument

        def send_next(pipe: Connection) -> None:
            if waiting:
                place, argument = waiting.popleft()
                busy[pipe] = place
                pipe.send((method, (argument,)))

        for pipe in self._pipes:
            send_next(pipe)
        while busy:
            for pipe in cast(list[Connection], wait(list(busy))):  # those that have replied
                place = busy.pop(pipe)
                (result,) = _reply(pipe)  # a list with the result for its only item
                send_next(pipe)
                yield place, result

    def close(self) -> None:
        """Ends the processes, also those that are at work."""
        self._end()


def _reply(pipe: Connection) -> Any:
    """The reply of a process, a list with a result for each of its items; raises an error if it failed or died."""
    try:
        failed, reply = pipe.recv()
    except (EOFError, OSError):
        raise ProcessDied from None
    if failed:
        raise RuntimeError(f"a process failed:\n{reply}")
    return reply


@dataclass(frozen=True)
class _Calls:
    """A function and the arguments of its calls: the item of each process of a pool, which has it by being forked."""

    function: Callable[[Any], Any]
    arguments: Sequence[Any]

    def call(self, place: int) -> Any:
        """What the function returns for the argument at this place."""
        return self.function(self.arguments[place])

    def in_processes(self, processes: int) -> ProcessPool | None:
        """A pool of at most `processes`, each with these calls; None for a single one, or if the system cannot fork."""
        processes = min(processes, len(self.arguments))
        return ProcessPool([self] * processes, processes) if processes > 1 and can_fork() else None


def in_parallel(function: Callable[[Any], Any], arguments: Sequence[Any], processes: int) -> Iterator[tuple[int, Any]]:
    """(i, function(arguments[i])) for every argument, as they finish, in `processes` processes of one thread each.

    If `processes` is one, or if the system cannot fork, this process makes the calls, one after the other. Results are
    sent to it. The function must not use Polars, whose threads a forked process does not have.
    """
    pool = _Calls(function, arguments).in_processes(processes)
    if pool is None:
        for i, argument in enumerate(arguments):
            yield i, function(argument)
        return
    with closing(pool):
        yield from pool.each("call", range(len(arguments)))


@contextmanager
def in_background(function: Callable[[Any], Any], arguments: Sequence[Any], processes: int) -> Iterator[None]:
    """Calls the function with every argument while the body runs, as `in_parallel` does, and waits for the last call.

    With one process, or where the system cannot fork, the calls are made after the body. An error of a call is raised
    after the body; an error of the body stops the calls.
    """
    pool = _Calls(function, arguments).in_processes(processes)
    if pool is None:
        yield
        for argument in arguments:
            function(argument)
        return
    # The thread gives each process its next argument. At the end the pool is closed first, then the thread ends: in the
    # other order an error of the body would wait for all calls.
    with ThreadPoolExecutor(1) as thread, closing(pool):
        calls = thread.submit(list, pool.each("call", range(len(arguments))))
        yield
        calls.result()


def _by_value(tensor: Tensor) -> tuple[Callable[[Any], Tensor], tuple[Any]]:
    """A function and its arguments, which make the tensor again in another process; torch's way keeps a file open."""
    return torch.from_numpy, (tensor.detach().cpu().numpy(),)


def _kill(processes: Sequence[BaseProcess]) -> None:
    """Ends the processes and waits until they are gone."""
    for process in processes:
        process.kill()
    for process in processes:
        process.join()


def _serve(pipe: Connection, items: Sequence[Any], parent: int) -> None:
    """Calls methods of the items, whose names come through the pipe, in a forked process until it is killed.

    The reply is a pair: whether it failed, and the results for all items or the text of the error.
    """
    for signum in (signal.SIGINT, signal.SIGTERM):  # the parent decides when to stop
        signal.signal(signum, signal.SIG_IGN)
    end_with_parent(parent)
    gc.freeze()  # objects that the parent made, such as graphs of a GPU, must not be freed here
    torch.set_num_threads(1)
    ForkingPickler.register(Tensor, _by_value)
    while True:
        method, arguments = pipe.recv()
        try:
            reply: tuple[bool, Any] = (False, [getattr(item, method)(*arguments) for item in items])
        except Exception:
            reply = (True, traceback.format_exc())
        pipe.send(reply)


class StopSignals:
    """A context in which SIGTERM and SIGINT are noted instead of ending the process, so that a save can finish first.

    Outside the main thread, where Python handles no signals, nothing is ever received.
    """

    received = 0
    """The number of the last signal, or 0."""

    def __enter__(self) -> StopSignals:
        self._before: dict[int, Any] = {}
        if threading.current_thread() is threading.main_thread():
            for signum in (signal.SIGTERM, signal.SIGINT):
                self._before[signum] = signal.signal(signum, self._note)  # returns the handler until now
        return self

    def __exit__(self, *_: object) -> None:
        for signum, handler in self._before.items():
            signal.signal(signum, handler)

    def _note(self, signum: int, _: FrameType | None) -> None:
        """Handles a signal."""
        self.received = signum


def end_with_parent(parent: int) -> None:
    """Makes the kernel end this process when its parent, the process `parent`, dies; only Linux can do that."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the parent died before the call, and another process has taken its place
        os._exit(1)
