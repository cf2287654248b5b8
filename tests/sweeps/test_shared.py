"""Several `assignadd sweep` in one folder, as the tasks of an array of jobs: they share the stacks."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from assignadd.cli import main
from assignadd.runs import atomic
from assignadd.runs.folder import find_runs
from assignadd.runs.writer import locked
from assignadd.sweeps import engine
from assignadd.sweeps.engine import OthersAtWork, run_local
from assignadd.sweeps.plan import Machines, jobs_of
from assignadd.sweeps.results import read_results
from tests.sweeps.small import SWEEP, stores

# Batches of different sizes are in different stacks.
GRID = {"optim.batch": [8, 9, 10, 11, 12, 13], "optim.lr": [0.001, 0.002]}
FLAGS = (
    "--preset smoke --n-seeds 1 --steps 200 --every 100 --save-every 50 --final-sequences 20 --device cpu --threads 1"
)


@pytest.fixture
def words(tmp_path, monkeypatch):
    """The command of a sweep into this folder."""
    (tmp_path / "grid.json").write_text(json.dumps(GRID))
    monkeypatch.chdir(tmp_path)
    return lambda out: ["sweep", "grid.json", *FLAGS.split(), "--out", out]


def start(words: list[str]) -> subprocess.Popen:
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2]), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "assignadd", *words]
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def test_each_stack_is_trained_once_and_the_last_process_writes_the_table(tmp_path, words):
    together = [start(words("shared")) for _ in range(2)]
    assert main(words("alone")) == 0
    messages = [process.communicate(timeout=300)[1].decode() for process in together]
    assert [process.returncode for process in together] == [0] * 2, messages
    assert stores(tmp_path / "shared") == stores(tmp_path / "alone")
    runs, problems = find_runs(tmp_path / "shared")
    assert len(runs) == 6 and not problems and all(len(run.manifest.sessions) == 1 for run in runs)
    table, _ = read_results(tmp_path / "shared" / "table.parquet")
    assert table.equals(read_results(tmp_path / "alone" / "table.parquet")[0]) and table["seed"].len() == 12 * 3


def test_another_process_takes_over_from_one_that_was_killed(tmp_path, words, capsys):
    first = start(words("shared"))
    while not list((tmp_path / "shared").glob("*/manifest.json")):
        assert first.poll() is None
        time.sleep(0.02)
    first.kill()
    first.communicate()
    assert main(words("shared")) == 0
    assert "trained by other" not in capsys.readouterr().err
    assert len(read_results(tmp_path / "shared" / "table.parquet")[0]) == 12 * 3


def test_a_file_that_another_process_takes_for_a_leftover_is_written_again(tmp_path, monkeypatch):
    lock, removed = atomic.lock, []

    def removed_before_it_is_locked(fd: int) -> bool:
        if not removed:
            removed.extend(tmp_path.glob(".file.*.tmp"))
            removed[0].unlink()
        return lock(fd)

    monkeypatch.setattr(atomic, "lock", removed_before_it_is_locked)
    atomic.write(tmp_path / "file", b"data")
    assert removed and [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_bytes() == b"data"


@pytest.mark.parametrize("slots", [1, 2])
def test_a_stack_that_another_process_holds_is_left_to_it(tmp_path, monkeypatch, slots):
    monkeypatch.setattr(engine, "BETWEEN_LOOKS", 0.01)
    jobs = jobs_of(SWEEP, tmp_path, Machines(most_together=2))
    jobs[0].path.mkdir(parents=True)
    with (
        locked(jobs[0].path),
        pytest.raises(OthersAtWork, match="1 of 2 stacks are trained by other processes") as left,
    ):
        (jobs[0].path / ".assignadd").write_text("assignadd run\n")
        run_local(jobs, "cpu", slots)
    assert left.value.exit_code == 0
    assert [job.done for job in jobs_of(SWEEP, tmp_path, Machines(most_together=2))] == [40, 0]
