"""Signals and parents: what training processes do when they are asked to stop, or when their parent is killed."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from types import FrameType

PR_SET_PDEATHSIG = 1


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
