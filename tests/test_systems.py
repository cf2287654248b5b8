"""Without what only POSIX systems have (as on Windows), and without Numba, the package trains, asks and measures."""

import subprocess
import sys

import pytest
import torch

from assignadd.cli import main
from assignadd.cli.options import WITHOUT_NUMBA
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
"""
TRAIN = "train --preset smoke --seeds 0,1 --optim.steps 3 --device cpu --threads 2 -o runs/run"
WITHOUT_COMPILER = """
import sys
sys.modules |= {"numba": None, "llvmlite": None}
"""
COMMANDS = """
from assignadd.cli import main
for words in sys.argv[1:]:
    if code := main(words.split()):
        sys.exit(code)
"""


def call(folder, without, *commands):
    """Calls the commands one after the other in a process without some modules and functions."""
    command = [sys.executable, "-c", without + COMMANDS, *commands]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The run as it is trained here."""
    folder = tmp_path_factory.mktemp("systems")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(TRAIN.split()) == 0
    return folder / "runs/run"


def test_commands_work_and_the_run_is_the_same(run, tmp_path):
    says = {
        TRAIN: "at step 3",
        "ask b=4,b+1=? run": "b=4, b+1",
        "runs list": "run",
        "runs verify run": "every committed file is whole",
        "explore run -o page --no-ledger": "page/index.html",
    }
    done = call(tmp_path, WITHOUT, *says)
    assert all(words in done.stdout for words in says.values()), done.stdout
    assert contents(tmp_path / "runs/run") == contents(run) and Run.open(tmp_path / "runs/run").finished


def test_a_file_appears_by_one_rename_also_where_it_is_closed_before(tmp_path, monkeypatch):
    monkeypatch.setattr(atomic, "RENAMES_OPEN_FILES", False)
    atomic.write(tmp_path / "a", b"one")
    atomic.write(tmp_path / "a", b"two\r\n")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a": b"two\r\n"}


def test_without_numba_the_same_is_computed_in_tensor_operations(run, tmp_path):
    sweep = "sweep seeds --preset smoke --n-seeds 2 --steps 3 --final-sequences 0 --device cpu --threads 1 -o sweep"
    done = call(tmp_path, WITHOUT_COMPILER, TRAIN, "measure run --n 64 --threads 1", "ask b=4,b+1=? run", sweep)
    for words in ("run: 2 models at step 3", "two variables", "b=4, b+1", "sweep/table.parquet: 2 models"):
        assert words in done.stdout
    assert done.stderr.count(WITHOUT_NUMBA) == 2, "once for each command that trains"
    compiled = Run.open(run).checkpoint(3).flat
    torch.testing.assert_close(Run.open(tmp_path / "runs/run").checkpoint(3).flat, compiled, rtol=0, atol=1e-5)
