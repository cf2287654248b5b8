"""What goes wrong with a run folder, in one line."""

from __future__ import annotations

from assignadd.config import UserError


class RunError(UserError, RuntimeError):
    """One line: the file or run, what is wrong with it, and what to do."""

    exit_code = 1


class RunBusy(RunError):
    """Another process is writing the run."""
