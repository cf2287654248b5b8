"""Errors a user can cause, as one line on stderr and an exit code; anything else is a bug and keeps its traceback."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable

from assignadd.config import UserError


class UsageError(UserError):
    """Something in the command line that is not accepted."""


def guarded(command: Callable[[list[str]], int | None], arguments: list[str]) -> int:
    """Runs a command; expected failures become one line and a code."""
    try:
        code = command(arguments) or 0
        sys.stdout.flush()
        return code
    except UserError as error:
        print(f"assignadd: {' '.join(str(error).split())}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:  # the reader of our output left, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:  # a file or folder that cannot be read or written
        print(f"assignadd: {error.filename or 'the system'}: {error.strerror or error}", file=sys.stderr)
        return 1
