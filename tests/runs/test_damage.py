"""Truncated, changed, swapped, foreign or missing files: refused by name, and training does not go on from them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import safetensors.torch
import torch

from assignadd.config.errors import DestinationError, RunError
from assignadd.model.stack import Stack
from assignadd.runs.folder import Run
from tests.runs.small import CONFIG, contents, hold, train, weights_at

NEWEST = "states/00000025.safetensors"
FILES = (
    "config.json",
    "splits.safetensors",
    "metrics.jsonl",
    "checkpoints/00000010.safetensors",
    "states/00000020.safetensors",
    NEWEST,
)


@pytest.fixture(scope="module")
def at_25(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("damage") / "run"
    train(path, 25)
    return path


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> dict[str, bytes]:
    path = tmp_path_factory.mktemp("damage") / "run"
    train(path)
    return contents(path)


@pytest.fixture
def run(tmp_path, at_25) -> Path:
    return Path(shutil.copytree(at_25, tmp_path / "run"))


def problems(path: Path) -> list[str]:
    """What opening or verifying says."""
    try:
        return Run.open(path).verify()
    except RunError as error:
        return [str(error)]


def refused(path: Path, name: str) -> None:
    (line,) = problems(path)
    assert str(path / name) in line
    assert "\n" not in line


def flip(path: Path, at: int, bit: int = 0) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << bit
    path.write_bytes(data)


@pytest.mark.parametrize("name", [*FILES, "manifest.json"])
def test_a_flipped_bit_anywhere(run, name):
    file, whole = run / name, (run / name).read_bytes()
    step = max(
        1, len(whole) // 40
    )  # the first bytes are the length of a safetensors header, then the header, then the data
    for i, at in enumerate([*range(12), *range(12, len(whole), step), len(whole) - 1]):
        flip(file, at, i % 8)
        refused(run, name)
        file.write_bytes(whole)
    assert problems(run) == []


@pytest.mark.parametrize("name", [*FILES, "manifest.json"])
def test_truncated(run, name):
    file, whole = run / name, (run / name).read_bytes()
    for size in (0, 1, 7, 8, 9, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:size])
        refused(run, name)


@pytest.mark.parametrize("name", [n for n in FILES if n != "metrics.jsonl"])
def test_longer_swapped_foreign_missing_or_not_a_file(run, tmp_path, name):
    file, whole = run / name, (run / name).read_bytes()
    file.write_bytes(whole + b"\0")
    refused(run, name)
    file.write_bytes(safetensors.torch.save({"x": torch.zeros(3)}))
    refused(run, name)
    file.unlink()
    refused(run, name)
    file.mkdir()
    refused(run, name)
    file.rmdir()
    os.mkfifo(file)
    refused(run, name)
    file.unlink()
    (tmp_path / "outside").write_bytes(whole)
    file.symlink_to(tmp_path / "outside")  # the very bytes, but from elsewhere
    refused(run, name)


def test_two_checkpoints_swapped(run):
    one, other = run / "checkpoints/00000010.safetensors", run / "checkpoints/00000020.safetensors"
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)
    assert len(problems(run)) == 2
    with pytest.raises(RunError, match="00000010"):
        Run.open(run).checkpoint(10)


def test_a_linked_folder_of_checkpoints(run, tmp_path):
    shutil.move(run / "checkpoints", tmp_path / "elsewhere")
    (run / "checkpoints").symlink_to(tmp_path / "elsewhere")
    assert len(problems(run)) == 3
    assert all("symbolic link" in line for line in problems(run))
    with pytest.raises(RunError, match="not reached through symbolic links"):
        train(run)


def test_rows_that_were_never_committed_do_not_count(run, finished):
    with open(run / "metrics.jsonl", "ab") as file:
        file.write(b'{"step": 30, "half a row' * 1000)  # more than all rows that are still to come
    assert problems(run) == []
    assert Run.open(run).metrics()[-1]["step"] == 25
    assert train(run) == []
    assert contents(run) == finished


def test_what_a_kill_left_goes_and_everything_else_stays(run, finished):
    state = {"weights": weights_at(12), "step": torch.tensor(12)}
    (run / "states/00000012.safetensors").write_bytes(safetensors.torch.save(state))
    to_come, never_again = ("checkpoints/.00000030.safetensors", ".manifest.json"), ("states/.00000012.safetensors",)
    for name in (*to_come, *never_again):
        (run / f"{name}.0123abcd.tmp").write_bytes(b"left by a kill")
    foreign = {
        "notes.txt": b"a person's",
        "checkpoints/mine.safetensors": b"a person's",
        "checkpoints/00000025.safetensors": b"copied in",
        "states/mine.safetensors": b"a person's",
        "states/00000013.safetensors": safetensors.torch.save({"step": torch.zeros(3)}),
    }
    for name, data in foreign.items():
        (run / name).write_bytes(data)
    assert problems(run) == []
    assert train(run) == []
    assert contents(run) == finished | foreign


def test_a_file_of_others_that_has_the_name_of_ours_is_moved_aside(run, finished, tmp_path):
    """A checkpoint and a state of step 30 are still to come; a link and a folder are moved as well as a file."""
    checkpoint, state = run / "checkpoints/00000030.safetensors", run / "states/00000030.safetensors"
    checkpoint.write_bytes((run / "checkpoints/00000020.safetensors").read_bytes())
    state.mkdir()
    notes = train(run)
    (moved_file,), (moved_folder,) = checkpoint.parent.glob("*.aside"), state.parent.glob("*.aside")
    assert moved_folder.is_dir() and len(notes) == 2
    assert all("was not written by this run, and is now 00000030.safetensors." in note for note in notes)
    assert moved_file.read_bytes() == finished["checkpoints/00000020.safetensors"]
    moved_file.unlink()
    assert contents(run) == finished


def test_checkpoints_after_the_newest_state_are_replaced_and_not_moved(tmp_path, finished):
    """They are ours, also where training again makes other ones, as with another number of threads."""
    train(tmp_path, 15)
    with hold(tmp_path) as run:
        run.commit(20, checkpoint=Stack(CONFIG, weights_at(19)))
    assert train(tmp_path) == []
    assert contents(tmp_path) == finished


@pytest.mark.parametrize("damage", [lambda f: flip(f, 40), lambda f: f.write_bytes(b""), Path.unlink])
@pytest.mark.parametrize("name", [NEWEST, "metrics.jsonl", "config.json", "splits.safetensors", "manifest.json"])
def test_training_does_not_go_on_from_damage_and_nothing_is_changed(run, name, damage: Callable[[Path], None]):
    damage(run / name)
    before = contents(run)
    with pytest.raises((RunError, DestinationError)) as caught:
        train(run)
    assert "\n" not in str(caught.value)
    assert str(run / name) in str(caught.value) or name == "manifest.json"  # without one, the folder is not a run
    assert contents(run) == before


def test_damaged_files_of_the_past_stay_refused_and_training_goes_on(run, finished):
    flip(run / "checkpoints/00000010.safetensors", 100)
    (run / "states/00000020.safetensors").unlink()
    with hold(run) as writer:
        assert writer.step == 25
    train(run)
    assert Run.open(run).finished and len(problems(run)) == 2
    differing = {name for name in finished if contents(run).get(name) != finished[name]}
    assert differing == {"checkpoints/00000010.safetensors", "states/00000020.safetensors"}


@pytest.mark.parametrize("name", ["states/00000030.safetensors", "checkpoints/00000030.safetensors", "metrics.jsonl"])
def test_a_finished_run_is_left_unchanged_whatever_is_damaged(tmp_path, name):
    train(tmp_path)
    flip(tmp_path / name, 9)
    for state in (tmp_path / "states").iterdir():
        if state.name != Path(name).name:
            state.unlink()
    before = contents(tmp_path) | {"manifest.json": (tmp_path / "manifest.json").read_bytes()}
    train(tmp_path)
    assert contents(tmp_path) | {"manifest.json": (tmp_path / "manifest.json").read_bytes()} == before
    assert any(name in line for line in problems(tmp_path))
