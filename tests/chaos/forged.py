"""Runs that a stranger forged, in each command that reads one: a line or an answer, within 10 s and 1 GB."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import random
import resource
import shutil
import tempfile
from pathlib import Path

from assignadd import api
from assignadd.cli import main
from assignadd.config import PRESETS
from tests.chaos.promise import Promise
from tests.runs.forged import FORGERIES
from tests.runs.kill import in_child

SECONDS, KILOBYTES = 10, 1_000_000  # of processor time, and of memory on top of what was there before
COMMANDS = (
    ("runs", "list"),
    ("runs", "show", "bad"),
    ("runs", "verify", "bad"),
    ("ask", "b=1, b+1=?", "bad"),
    ("measure", "bad", "--n", "64", "--threads", "1"),
    ("measure", "phases", "bad", "--threads", "1"),
    ("explore", "bad", "-o", "page", "--no-ledger", "--checkpoints", "2", "--threads", "1"),
)


@functools.cache
def trained() -> Path:
    """A run of the smoke preset."""
    path = Path(tempfile.mkdtemp(prefix="chaos-trained-")) / "run"
    outcome = in_child(lambda: api.train(PRESETS["smoke"], [0], path))
    assert outcome.error is None, outcome.error
    return path


def resident() -> int:
    """Kilobytes of memory that this process has now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * (resource.getpagesize() // 1024)


def forged(rng: random.Random, folder: Path) -> None:
    name = rng.choice(list(FORGERIES))
    for run in ("good", "bad"):
        shutil.copytree(trained(), folder / "runs" / run)
    forging = in_child(lambda: FORGERIES[name](folder / "runs" / "bad"))
    assert forging.error is None, forging.error

    def tried(command: tuple[str, ...]) -> None:
        os.chdir(folder)
        before, out, error = resident(), io.StringIO(), io.StringIO()
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))  # a SIGKILL beyond
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
            code = main(command)
        lines = [line for line in error.getvalue().splitlines() if not line.startswith("note: ")]
        assert code == 0 or command[1] == "verify" or (code in (1, 2) and len(lines) == 1), (code, lines)
        assert command[1] != "list" or ("good" in out.getvalue() and code == 0)
        assert (out.getvalue() + error.getvalue()).replace("\n", "").isprintable()
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert grown < KILOBYTES, f"{grown:,} kilobytes"

    for command in COMMANDS:
        outcome = in_child(lambda command=command: tried(command))
        assert outcome.error is None and not outcome.killed, f"{name}: {' '.join(command)}: {outcome}"


PROMISES = (
    Promise("forged", "a run forged by a stranger, in seven commands: one line or an answer, within 10 s and 1 GB",
            forged, 150, 0),
)  # fmt: skip
