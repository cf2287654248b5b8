"""Training into a folder: the schedule, and runs that survive kill -9, SIGTERM and damage."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from assignadd.api import train
from assignadd.cli import main
from assignadd.config import PRESETS, Optim, Recording
from assignadd.config.errors import RunError
from assignadd.runs import atomic, writer
from assignadd.runs.folder import Run
from assignadd.training.loop import (
    BEAT,
    Commits,
    Interrupted,
    TrainingProgress,
    is_checkpoint,
    is_evaluation,
    next_stop,
)
from assignadd.training.trainer import Trainer
from tests.runs.kill import in_child
from tests.runs.small import contents

torch.set_num_threads(1)
CONFIG = replace(PRESETS["smoke"], optim=Optim(batch=8, steps=47), record=Recording(10, 16, 15, 30))
SEEDS = (0, 1)


def run_to(path: Path, threads: int = 1) -> None:
    train(CONFIG, SEEDS, path, threads=threads)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory) -> dict[str, bytes]:
    path = tmp_path_factory.mktemp("whole") / "run"
    run_to(path)
    return contents(path)


def test_schedule():
    config = replace(
        CONFIG, optim=replace(CONFIG.optim, steps=230), record=Recording(eval_every=100, checkpoint_every=40)
    )
    steps = range(231)
    assert [s for s in steps if is_checkpoint(config, s)] == [0, 1, 2, 5, 10, 20, 40, 50, 80, 120, 160, 200, 230]
    assert [s for s in steps if is_evaluation(config, s)] == [0, 100, 200, 230]
    stops = [0]
    while stops[-1] < 230:
        stops.append(next_stop(config, stops[-1]))
    assert stops == [s for s in steps if is_checkpoint(config, s) or is_evaluation(config, s)]


def test_a_run_holds_what_the_schedule_says(uninterrupted):
    names = set(uninterrupted)
    checkpoints = {f"checkpoints/{s:08d}.safetensors" for s in (0, 1, 2, 5, 10, 15, 20, 30, 45, 47)}
    states = {f"states/{s:08d}.safetensors" for s in (0, 30, 47)}
    assert names == {"config.json", "metrics.jsonl", "splits.safetensors"} | checkpoints | states
    assert uninterrupted["metrics.jsonl"].count(b"\n") == 6 * len(SEEDS)  # 0, 10, 20, 30, 40, 47


def test_killed_inside_a_save(tmp_path, uninterrupted):
    total = in_child(lambda: run_to(tmp_path / "whole")).operations
    for k in random.Random(0).sample(range(8, total), 4):  # `make chaos` has 200
        path = tmp_path / str(k)
        assert in_child(lambda path=path: run_to(path), kill_at=k).killed, k
        outcome = in_child(lambda path=path: run_to(path))
        assert outcome.error is None, outcome.error
        assert contents(path) == uninterrupted, k


def failing(monkeypatch, step: int) -> None:
    """Makes the save of a checkpoint fail after a while, in which training goes on."""
    write = atomic.write

    def full(file: Path, data: bytes) -> None:
        if file.name == f"{step:08d}.safetensors":
            time.sleep(0.2)
            raise RunError("the disk is full")
        write(file, data)

    monkeypatch.setattr(atomic, "write", full)


@pytest.mark.parametrize("fails_at", [15, 47])
def test_nothing_is_saved_after_a_save_that_fails(tmp_path, uninterrupted, monkeypatch, fails_at):
    """What it should have saved would be missing. The same call makes it good once there is room."""
    failing(monkeypatch, fails_at)
    with pytest.raises(RunError, match="the disk is full"):
        run_to(tmp_path / "run")
    assert Run.open(tmp_path / "run").step < fails_at
    monkeypatch.undo()
    run_to(tmp_path / "run")
    assert contents(tmp_path / "run") == uninterrupted


def test_a_save_that_fails_ends_the_training_at_the_next_beat(tmp_path, monkeypatch):
    failing(monkeypatch, 50)
    config = replace(CONFIG, optim=replace(CONFIG.optim, steps=200), record=Recording(200, 16, 200, 200))
    steps = []

    def listener(progress: TrainingProgress) -> None:
        steps.append(progress.step)
        if progress.step == 50 + BEAT:
            time.sleep(1)

    with pytest.raises(RunError, match="the disk is full"):
        train(config, SEEDS, tmp_path / "run", threads=1, listener=listener)
    assert steps[-1] == 50 + BEAT


def test_nothing_is_saved_of_a_step_whose_evaluation_fails(tmp_path, uninterrupted, monkeypatch):
    evaluate = Trainer.evaluate

    def failing_at_30(self: Trainer, with_measures: bool = False) -> list[dict[str, object]]:
        if self.step == 30:
            raise RuntimeError("no answer")
        return evaluate(self, with_measures)

    monkeypatch.setattr(Trainer, "evaluate", failing_at_30)
    with pytest.raises(RuntimeError, match="no answer"):
        run_to(tmp_path / "run")
    assert Run.open(tmp_path / "run").step == 20
    monkeypatch.undo()
    run_to(tmp_path / "run")
    assert contents(tmp_path / "run") == uninterrupted


@pytest.mark.parametrize("threads", [1, 2])
def test_a_slow_save_has_the_weights_of_its_own_step(tmp_path, uninterrupted, monkeypatch, threads):
    encode = writer.encode_tensors

    def slow(tensors: Mapping[str, Tensor]) -> bytes:
        time.sleep(0.05)  # training goes on meanwhile
        return encode(tensors)

    monkeypatch.setattr(writer, "encode_tensors", slow)
    run_to(tmp_path / "run", threads)
    assert contents(tmp_path / "run") == uninterrupted


@pytest.mark.parametrize(("threads", "wanted"), [(1, 8), (2, 4)])
def test_killed_at_random_times(tmp_path, uninterrupted, threads, wanted):
    """With two threads the models train in processes of their own, which die with the killed one and leave its lock."""
    times, kills, finished = random.Random(1), 0, 0
    while kills < wanted or not finished:
        path = tmp_path / str(finished)
        delay = times.uniform(0.02, 0.3) * (1 + kills / 10)  # longer and longer, so that it ends on any machine
        if in_child(lambda path=path: run_to(path, threads), kill_after=delay).killed:
            kills += 1
        else:
            assert contents(path) == uninterrupted
            finished += 1


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
@pytest.mark.parametrize("at", [20, 20 + BEAT])
def test_a_signal_saves_and_the_same_call_goes_on(tmp_path, signum, code, at):
    """At a scheduled stop, and between two of them, where a state is saved that the finished run does not keep."""
    config = replace(CONFIG, record=Recording(eval_every=45, eval_sequences=16, checkpoint_every=45, state_every=40))

    def interrupt(progress) -> None:
        if progress.step == at:
            os.kill(os.getpid(), signum)

    train(config, SEEDS, tmp_path / "whole")
    with pytest.raises(Interrupted) as stopped:
        train(config, SEEDS, tmp_path / "run", listener=interrupt)
    assert stopped.value.exit_code == code
    assert Run.open(tmp_path / "run").step == at
    train(config, SEEDS, tmp_path / "run")
    assert contents(tmp_path / "run") == contents(tmp_path / "whole")


def test_a_signal_while_the_last_files_are_written_is_not_lost(tmp_path, monkeypatch):
    """A sweep would go on with its next job, or wait forever for a process that has forgotten the signal."""
    wait_for_files = Commits.__exit__

    def interrupted(commits, *error) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        wait_for_files(commits, *error)

    monkeypatch.setattr(Commits, "__exit__", interrupted)
    with pytest.raises(Interrupted) as stopped:
        train(CONFIG, SEEDS, tmp_path / "run")
    assert stopped.value.exit_code == 143
    assert Run.open(tmp_path / "run").finished


def test_sigterm_on_the_command(tmp_path):
    """The real process: documented exit code, one line, and the same command finishes the run."""
    folder = tmp_path / "r"
    every = "--record.eval-every 500 --record.checkpoint-every 500 --record.state-every 500"
    command = ["train", "--preset", "smoke", "--optim.steps", "700", *every.split(), "--out", str(folder)]
    process = subprocess.Popen(
        [sys.executable, "-m", "assignadd", *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    while not (folder / "checkpoints" / "00000020.safetensors").exists():
        assert process.poll() is None
        time.sleep(0.02)
    process.terminate()
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 143
    *notes, last = errors.splitlines()  # a note is there where nothing was compiled before
    assert last.startswith("assignadd: stopped at step ") and all("compiling" in note for note in notes)
    run = Run.open(folder)
    assert run.verify() == [] and 20 <= run.step < 700
    assert main(command) == 0
    assert Run.open(folder).finished


def test_a_second_process_is_refused_by_name(tmp_path):
    entered, leave = threading.Event(), threading.Event()

    def wait(progress) -> None:
        entered.set()
        leave.wait(30)

    first = threading.Thread(target=lambda: train(CONFIG, SEEDS, tmp_path, listener=wait))
    first.start()
    assert entered.wait(30)
    with pytest.raises(RunError, match=str(os.getpid())):
        run_to(tmp_path)
    leave.set()
    first.join()
    assert Run.open(tmp_path).finished


@pytest.mark.parametrize(
    "victim",
    ["states/00000047.safetensors", "states/00000030.safetensors", "checkpoints/00000015.safetensors", "metrics.jsonl"],
)
def test_damage_of_a_finished_run_is_told_and_nothing_else_is_touched(tmp_path, uninterrupted, victim):
    run_to(tmp_path)
    data = bytearray((tmp_path / victim).read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / victim).write_bytes(data)
    (tmp_path / "states/00000000.safetensors").unlink()
    assert any(victim in problem for problem in Run.open(tmp_path).verify())
    notes: list[str] = []
    train(CONFIG, SEEDS, tmp_path, listener=lambda progress: notes.extend(progress.notes))
    assert any(victim in note for note in notes)
    without = {name: data for name, data in uninterrupted.items() if name != "states/00000000.safetensors"}
    assert contents(tmp_path) == without | {victim: bytes(data)}


def test_other_settings_do_not_touch_a_run(tmp_path, uninterrupted):
    run_to(tmp_path)
    with pytest.raises(RunError, match=r"optim\.lr"):
        train(replace(CONFIG, optim=replace(CONFIG.optim, lr=0.5)), SEEDS, tmp_path)
    assert contents(tmp_path) == uninterrupted


def test_early_checkpoints_can_be_left_out():
    smoke = PRESETS["smoke"]
    few = replace(smoke, record=replace(smoke.record, log_spaced=False))
    saved = [[step for step in range(61) if is_checkpoint(config, step)] for config in (smoke, few)]
    assert saved == [[0, 1, 2, 5, 10, 20, 40, 50, 60], [0, 20, 40, 60]]
    assert (next_stop(smoke, 0), next_stop(few, 0), next_stop(few, 20)) == (1, 20, 40)
