"""kill -9 at any moment, rerun: every file comes out bitwise as without the kill."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from assignadd.runs.folder import Run
from assignadd.runs.manifest import MANIFEST
from tests.runs.kill import in_child
from tests.runs.small import contents, train


@pytest.fixture(scope="module")
def uninterrupted() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        train(Path(folder) / "r")  # in this process, so that the children inherit what torch sets up at first use
        return contents(Path(folder) / "r")


def sound_after_kill(path: Path) -> None:
    """Whatever a kill left, what is committed is whole."""
    if (path / MANIFEST).exists():
        run = Run.open(path)
        assert run.verify() == []
        assert [row["step"] for row in run.metrics()][-1:] in ([], [run.step])


def finish(path: Path, train: Callable[[], object]) -> None:
    outcome = in_child(train)
    assert not outcome.killed
    assert outcome.error is None, outcome.error


def test_uninterrupted_run_keeps_the_states_it_should(uninterrupted):
    assert sorted(name for name in uninterrupted if name.startswith("states")) == [
        f"states/{s:08d}.safetensors" for s in (0, 10, 20, 30)
    ]
    assert sum(name.startswith("checkpoints") for name in uninterrupted) == 4


def test_killed_inside_saves(tmp_path, uninterrupted):
    total = in_child(lambda: train(tmp_path / "whole")).operations
    # Creation, then saves of every kind: the first, with and without a checkpoint, with and without a state to remove.
    points = [*range(2, 26, 6), *random.Random(0).sample(range(26, total + 1), 9)]  # `make chaos` has 200
    for k in points:
        path = tmp_path / str(k)
        outcome = in_child(lambda path=path: train(path), kill_at=k)
        assert outcome.killed, (k, outcome)
        sound_after_kill(path)
        finish(path, lambda path=path: train(path))
        assert contents(path) == uninterrupted, k


def test_killed_again_and_again_inside_saves(tmp_path, uninterrupted):
    points, kills = random.Random(1), 0
    while kills < 100 and in_child(lambda: train(tmp_path), kill_at=points.randint(26, 40)).killed:
        sound_after_kill(tmp_path)
        kills += 1
    assert 5 <= kills < 100
    assert contents(tmp_path) == uninterrupted


def test_killed_from_outside_at_random_times(tmp_path, uninterrupted):
    times, kills, finished = random.Random(2), 0, 0
    while kills < 12 or not finished:
        path = tmp_path / str(finished)
        # Longer and longer, so that it ends on a machine of any speed.
        if in_child(
            lambda path=path: train(path, pause=0.001), kill_after=times.uniform(0.01, 0.1) * (1 + kills / 12)
        ).killed:
            sound_after_kill(path)
            kills += 1
        else:
            assert contents(path) == uninterrupted
            finished += 1
