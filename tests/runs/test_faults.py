"""Disk full, or an error at any single operation of a save: one line, and the run is what it was."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from assignadd.config.errors import RunError
from assignadd.runs import atomic
from assignadd.runs.folder import Run
from tests.runs.kill import counting
from tests.runs.small import contents, hold, save, train, weights_at

FAILING = ("open", "write", "fsync", "replace", "ftruncate", "mkdir")


def fail(at: int, code: int = errno.ENOSPC, ever_after: bool = False):
    def before(count: int, name: str, _: object) -> None:
        if name in FAILING and (count == at or (ever_after and count > at and name in ("write", "fsync", "replace"))):
            raise OSError(code, os.strerror(code))

    return before


def litter(path: Path) -> list[str]:
    return [p.name for p in path.rglob("*") if p.name.endswith(".tmp")]


def one_line(error: RunError) -> str:
    assert "\n" not in str(error)
    return str(error)


@pytest.fixture(scope="module")
def at_15(tmp_path_factory) -> Path:
    """A run at step 15: saving step 20 writes a checkpoint and a state, appends rows, and removes the state of 15."""
    path = tmp_path_factory.mktemp("faults") / "run"
    train(path, 15)
    return path


@pytest.fixture(scope="module")
def at_20(tmp_path_factory) -> dict[str, bytes]:
    path = tmp_path_factory.mktemp("faults") / "run"
    train(path, 20)
    return contents(path)


@pytest.mark.parametrize("ever_after", [False, True])
def test_every_operation_of_a_save_may_fail(tmp_path, at_15, at_20, ever_after):
    shutil.copytree(at_15, tmp_path / "whole")
    with hold(tmp_path / "whole") as run, counting() as operations:
        save(run, 20, weights_at(20))
    assert operations.names.count("replace") == 3
    before, failures = contents(at_15), 0
    for k in range(1, operations.count + 1):
        path = tmp_path / str(k)
        shutil.copytree(at_15, path)
        with counting(), hold(path) as run:
            try:
                with counting(fail(k, ever_after=ever_after)):
                    save(run, 20, weights_at(20))
                assert operations.names[k - 1] == "unlink"
            except RunError as error:
                message, failures = one_line(error), failures + 1
                assert "No space left on device" in message and str(path) in message
                committed = "was written, but" in message and "manifest" in message
                # What had been written before is gone again, unless the manifest that lists it was already in place.
                assert contents(path) == (at_20 if committed else before)
                unchanged = "nothing was changed", "what was committed is unchanged", "synced"
                assert committed or any(words in message for words in unchanged)
                assert Run.open(path).step == run.step == (20 if committed else 15)
            assert litter(path) == []
            assert Run.open(path).verify() == []
            if run.step == 15:  # with room on the disk again, the same process can go on
                with counting():
                    save(run, 20, weights_at(20))
        with counting(), hold(path):
            assert contents(path) == at_20
        shutil.rmtree(path)
    assert failures > 10


def test_every_operation_of_a_creation_may_fail(tmp_path):
    with counting() as operations, hold(tmp_path / "whole"):
        pass
    assert operations.names.pop() == "unlink"  # of the mark, which may stay
    for k in range(1, len(operations.names) + 1):
        path = tmp_path / str(k)
        with pytest.raises(RunError) as caught, counting(fail(k)), hold(path):
            pass
        one_line(caught.value)
        assert litter(path) == []
        with counting(), hold(path):
            assert contents(path) == contents(tmp_path / "whole"), k


def test_short_writes_are_continued(tmp_path, monkeypatch):
    real = atomic.os.write
    monkeypatch.setattr(atomic.os, "write", lambda fd, data: real(fd, data[:7]))
    atomic.write(tmp_path / "x", bytes(range(100)))
    assert (tmp_path / "x").read_bytes() == bytes(range(100))


def test_interrupted_by_an_exception_of_another_kind(tmp_path):
    def interrupt(count: int, name: str, _: object) -> None:
        if name == "fsync":
            raise KeyboardInterrupt

    with counting(interrupt), pytest.raises(KeyboardInterrupt):
        atomic.write(tmp_path / "x", b"new")
    assert list(tmp_path.iterdir()) == []


def test_a_commit_backwards_or_beyond_the_end_is_a_bug(tmp_path):
    with hold(tmp_path / "r") as run:
        save(run, 10, weights_at(10))
        for step in (5, 31):
            with pytest.raises(ValueError, match=f"step {step}"):
                save(run, step, weights_at(0))


def test_another_content_for_a_committed_file_is_refused(tmp_path):
    with hold(tmp_path / "r") as run:
        save(run, 10, weights_at(10))
        before = contents(tmp_path / "r")
        with pytest.raises(RunError, match="committed already"):
            save(run, 10, weights_at(9))
        assert contents(tmp_path / "r") == before
        assert Run.open(tmp_path / "r").verify() == []


def test_everything_is_synced_before_the_manifest_replaces_the_last_one(tmp_path, at_15):
    path, seen = Path(shutil.copytree(at_15, tmp_path / "run")), []

    def note(count: int, name: str, arguments: tuple) -> None:
        seen.append((name, Path(arguments[1]).name if name == "replace" else None))

    with hold(path) as run, counting(note):
        save(run, 20, weights_at(20))
    write = ["open", "write", "fsync", "replace", "open", "fsync"]  # the file, then its directory
    assert [name for name, _ in seen] == [*write, *write, "open", "ftruncate", "write", "fsync", *write, "unlink"]
    assert [target for name, target in seen if name == "replace"] == [
        "00000020.safetensors",
        "00000020.safetensors",
        "manifest.json",
    ]


def test_every_descriptor_is_closed(tmp_path):
    def lowest_free() -> int:
        descriptor = os.open(os.devnull, os.O_RDONLY)
        os.close(descriptor)
        return descriptor

    before = lowest_free()
    for i in range(3):
        atomic.write(tmp_path / "file", b"abc")
        atomic.append(tmp_path / "file", i, b"d")
    assert lowest_free() == before
