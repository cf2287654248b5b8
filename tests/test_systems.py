"""Without what only POSIX systems have (and as Windows has it), the package imports, asks, trains and explores."""

import subprocess
import sys

import pytest

from assignadd.runs import atomic
from assignadd.runs.folder import Run
from tests.runs.small import contents

WITHOUT = """
import os, sys
for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None
import subprocess, multiprocessing.util, numba, torch  # which ask for the system when they are imported
for name in (
    "fork", "register_at_fork", "pread", "pwrite", "O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_DIRECTORY",
    "sched_getaffinity",
):
    delattr(os, name)
from assignadd.cli import main
sys.exit(main(sys.argv[1:]))
"""
TRAIN = "train --preset smoke --seeds 0,1 --optim.steps 3 --device cpu --threads 2 -o runs/run"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("systems")


def call(folder, words, *, anywhere):
    start = ["-c", WITHOUT] if anywhere else ["-m", "assignadd"]
    return subprocess.run([sys.executable, *start, *words.split()], cwd=folder, capture_output=True, text=True)


@pytest.mark.parametrize(
    "words, says",
    [
        (TRAIN, "at step 3"),
        ("ask b=4,b+1=? run", "b=4, b+1"),
        ("runs list", "run"),
        ("runs verify run", "every committed file is whole"),
        ("explore run -o page --no-ledger", "page/index.html"),
    ],
    ids=lambda text: text.split()[0],
)
def test_a_command_works(folder, words, says):
    done = call(folder, words, anywhere=True)
    assert done.returncode == 0 and says in done.stdout, done.stderr


def test_the_run_is_the_same(folder, tmp_path):
    assert call(tmp_path, TRAIN, anywhere=False).returncode == 0
    assert contents(tmp_path / "runs/run") == contents(folder / "runs/run")
    assert Run.open(folder / "runs/run").finished


def test_a_file_appears_by_one_rename_also_where_it_is_closed_before(tmp_path, monkeypatch):
    monkeypatch.setattr(atomic, "RENAMES_OPEN_FILES", False)
    atomic.write(tmp_path / "a", b"one")
    atomic.write(tmp_path / "a", b"two\r\n")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a": b"two\r\n"}
