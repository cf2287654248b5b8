"""Two writers: the second is told about the first, whichever process it is in, until the first has ended."""

from __future__ import annotations

import errno
import os
import platform
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import assignadd
from assignadd.config.errors import RunError
from assignadd.runs.writer import locked
from tests.runs.small import hold, train

HOLD = """
import sys, time
from pathlib import Path
from assignadd.runs.writer import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""

FORK_TWICE = """
import os, sys
from pathlib import Path
from assignadd.runs.writer import locked

def status_of(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

with locked(Path(sys.argv[1])):
    child = os.fork()
    if child == 0:
        file = os.open(os.devnull, os.O_RDONLY)  # has the number of the lock's descriptor, which is free here
        grandchild = os.fork()
        if grandchild == 0:
            os.fstat(file)
            os._exit(0)
        os._exit(status_of(grandchild))
    sys.exit(status_of(child))
"""


def started(script: str, folder: Path) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": str(Path(assignadd.__file__).parents[1])}
    command = [sys.executable, "-c", script, str(folder)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def test_a_child_lets_go_of_the_lock_once_and_closes_no_later_file(tmp_path):
    process = started(FORK_TWICE, tmp_path)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")


def test_another_process(tmp_path):
    train(tmp_path, 0)
    first = started(HOLD, tmp_path)
    try:
        assert first.stdout is not None and first.stdout.readline() == "held\n"
        holder = f"is being written by process {first.pid} on {re.escape(platform.node())}; wait until it ends"
        with pytest.raises(RunError, match=holder) as caught:
            train(tmp_path, 5)
        assert "\n" not in str(caught.value)
        first.send_signal(signal.SIGKILL)
        first.wait()
        train(tmp_path, 5)  # the kernel has released it
    finally:
        first.kill()
        first.communicate()


def test_the_same_process(tmp_path):
    with hold(tmp_path), pytest.raises(RunError, match=f"process {os.getpid()}"), hold(tmp_path):
        pass
    with hold(tmp_path):
        pass


def test_a_lock_somebody_wrote_into(tmp_path):
    with locked(tmp_path):
        (tmp_path / "lock").write_bytes(b"\xff not ours")
        with pytest.raises(RunError, match="is being written by another process"), locked(tmp_path):
            pass


def test_a_lock_that_is_a_link(tmp_path):
    (tmp_path / "outside").write_text("mine")
    (tmp_path / "run").mkdir()
    (tmp_path / "run/lock").symlink_to(tmp_path / "outside")
    with pytest.raises(RunError, match="lock could not be opened"), locked(tmp_path / "run"):
        pass
    assert (tmp_path / "outside").read_text() == "mine"


def test_a_file_system_without_locks_is_declined(tmp_path, monkeypatch):
    def no_locks(fd, **_):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr("filelock.lock_descriptor", no_locks)
    with pytest.raises(RunError, match=r"its file system has no locks .*; choose --out on one that has"):
        train(tmp_path, 0)
    assert not (tmp_path / "manifest.json").exists()


def test_a_lock_that_was_released_names_no_machine(tmp_path):
    with locked(tmp_path):
        assert (tmp_path / "lock").read_text() == f"process {os.getpid()} on {platform.node()}"
    assert (tmp_path / "lock").read_bytes() == b""


def test_where_python_has_no_locks_a_run_is_written_without(tmp_path, monkeypatch):
    """As in a browser, where there is no other process."""

    def no_locks(fd, **_):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr("filelock.lock_descriptor", no_locks)
    monkeypatch.setattr("assignadd.runs.atomic._python_has_locks", lambda: False)
    assert train(tmp_path, 5) == []
    assert (tmp_path / "manifest.json").exists()
