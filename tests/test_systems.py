"""Without what only POSIX systems have (as on Windows), and without Numba, the package trains, asks and measures."""

import subprocess
import sys

import pytest
import torch

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
from assignadd.cli import main
sys.exit(main(sys.argv[1:]))
"""
TRAIN = "train --preset smoke --seeds 0,1 --optim.steps 3 --device cpu --threads 2 -o runs/run"
WITHOUT_COMPILER = """
import sys
sys.modules |= {"numba": None, "llvmlite": None}
from assignadd.cli import main
for words in sys.argv[1:]:
    if code := main(words.split()):
        sys.exit(code)
"""


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


def test_without_numba_the_same_is_computed_in_tensor_operations(folder, tmp_path):
    sweep = "sweep seeds --preset smoke --n-seeds 2 --steps 3 --final-sequences 0 --device cpu --threads 1 -o sweep"
    commands = [TRAIN, "measure run --n 64 --threads 1", "ask b=4,b+1=? run", sweep]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_COMPILER, *commands], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    for words in ("run: 2 models at step 3", "two variables", "b=4, b+1", "sweep/table.parquet: 2 models"):
        assert words in done.stdout
    assert done.stderr.count(WITHOUT_NUMBA) == 2, "once for each command that trains"
    compiled = Run.open(folder / "runs/run").checkpoint(3).flat
    torch.testing.assert_close(Run.open(tmp_path / "runs/run").checkpoint(3).flat, compiled, rtol=0, atol=1e-5)
