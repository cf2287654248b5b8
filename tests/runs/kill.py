"""Faults on purpose: the k-th file-system operation of `runs.atomic` fails, or the process dies right there.

`in_child(function, kill_at=k)` forks, runs the function in the child, and kills it (SIGKILL) at its k-th operation, in
the middle of it if it is a write; `kill_after=seconds` kills it from outside. The parent must not have threads.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from assignadd.runs import atomic

OPERATIONS = ("open", "write", "fsync", "replace", "ftruncate", "unlink", "mkdir")


class CountingOS:
    """`os`, but for counting its operations and acting before each."""

    def __init__(self, before: Callable[[int, str, tuple[Any, ...]], None] = lambda *_: None):
        self.count = 0
        self.names: list[str] = []
        self._before = before

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        if name not in OPERATIONS:
            return real

        def counted(*args: Any, **kwargs: Any) -> Any:
            self.count += 1
            self.names.append(name)
            self._before(self.count, name, args)
            # A kill loses nothing that the kernel has, so nothing depends on really waiting for the disk.
            return None if name == "fsync" else real(*args, **kwargs)

        return counted


@contextlib.contextmanager
def counting(before: Callable[[int, str, tuple[Any, ...]], None] = lambda *_: None) -> Iterator[CountingOS]:
    """Within, the operations of `atomic` are counted, and `before(count, name, arguments)` is called before each."""
    proxy, outer = CountingOS(before), atomic.os
    atomic.os = proxy  # type: ignore[assignment]
    try:
        yield proxy
    finally:
        atomic.os = outer


@dataclass(frozen=True)
class Outcome:
    killed: bool
    operations: int = 0
    """How many operations there were, where the function came to its end."""
    error: str | None = None


def in_child(function: Callable[[], object], *, kill_at: int | None = None, kill_after: float | None = None) -> Outcome:
    """Run the function in a forked child that may be killed on the way."""
    out, into = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # Python 3.12 on forking beside the idle threads of numpy's BLAS
        pid = os.fork()
    if pid == 0:
        os.close(out)
        _child(function, into, kill_at)
    os.close(into)
    if kill_after is not None and not select.select([out], [], [], kill_after)[0]:
        os.kill(pid, signal.SIGKILL)
    with open(out, "rb") as pipe:
        report = pipe.read()
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL, status
        return Outcome(killed=True)
    return Outcome(killed=False, **json.loads(report))


def _child(function: Callable[[], object], into: int, kill_at: int | None) -> None:
    def die(count: int, name: str, arguments: tuple[Any, ...]) -> None:
        if count == kill_at:
            if name == "write":
                os.write(arguments[0], arguments[1][: len(arguments[1]) // 2])
            os.kill(os.getpid(), signal.SIGKILL)

    # In a forked process torch makes its threads anew at the first call, and fails if two threads are there at once.
    torch.set_num_threads(torch.get_num_threads())
    report: dict[str, Any] = {}
    try:
        with counting(die) as proxy:
            function()
        report = {"operations": proxy.count}
    except BaseException:
        report = {"error": "".join(traceback.format_exception(*sys.exc_info()))}
    finally:
        os.write(into, json.dumps(report).encode())
        os._exit(0)
