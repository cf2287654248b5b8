"""Commands that are killed, or meet a full disk, at any moment: the same command ends with the same files."""

from __future__ import annotations

import contextlib
import errno
import functools
import io
import os
import random
import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from assignadd import api
from assignadd.cli import main
from assignadd.config import PRESETS, Member
from assignadd.model.stack import initial_stack
from assignadd.runs.folder import Run
from tests.chaos.promise import Promise
from tests.runs.kill import counting, in_child

MARK = "ASSIGNADD_CHAOS"
ERRORS = (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS, errno.EACCES)
# What changes from one run of a command to the next: clocks.
CLOCKED = ("manifest.json", "lock", "table.json", "few.json")
WALL_TIME = re.compile(rb"<td>[0-9.]+ min</td>")  # of the run, which every trial trains anew, on a report's page
COMMANDS: dict[str, tuple[str, ...]] = {
    "train": ("train", "--preset", "smoke", "--seeds", "0..1", "--threads", "1", "--device", "cpu", "--out", "{f}/run"),
    "measure": ("measure", "curves", "{f}/given", "--threads", "1"),
    "import": ("runs", "import", "{f}/checkpoint_step_7.pth", "--preset", "smoke", "--out", "{f}/imported"),
    "explore": ("explore", "{f}/given", "-o", "{f}/page", "--no-ledger", "--checkpoints", "2", "--threads", "1"),
    "sweep": ("sweep", "seeds", "--preset", "smoke", "--n-seeds", "2", "--threads=2", "--device=cpu", "--out", "{f}/s"),
    "sweep-ray": ("sweep", "seeds", "--preset=smoke", "--n-seeds=2", "--engine=ray", "--device=cpu", "--out", "{f}/s"),
    "study": ("study", "{f}/few.py", "--n-seeds", "1", "--device", "cpu", "--threads", "1", "--out", "{f}/study"),
    "publish": ("runs", "publish", "{f}/given", "--repo=a/b", "--dry-run", "--no-claims", "--steps=all",
                "--out", "{f}/hub"),
    "claims": ("claims", "{f}/given", "--only", "probes", "--n", "40", "--threads", "1", "-o", "{f}/ledger.json"),
    "report": ("report", "{f}/given", "-o", "{f}/report", "--n", "64", "--threads", "1"),
}  # fmt: skip
# Two cells of the small study, in a file of the user's.
FEW = """
from dataclasses import replace

from tests.study.small import SMALL

STUDY = replace(SMALL, name="few", cells=SMALL.cells[:2], ask=SMALL.ask[:2])
"""


def prepared(folder: Path, name: str) -> None:
    """What the command reads."""
    if name in ("measure", "explore", "publish", "report", "claims"):
        call("train", folder, "{f}/given")
    if name == "study":
        (folder / "few.py").write_text(FEW)
    if name == "import":
        weights = initial_stack(PRESETS["smoke"], [0]).weights
        torch.save({name: weight[0].clone() for name, weight in weights.items()}, folder / "checkpoint_step_7.pth")


def call(name: str, folder: Path, out: str | None = None) -> int:
    words = [word.format(f=folder) for word in COMMANDS[name]]
    if out is not None:
        words[-1] = out.format(f=folder)
    quiet = contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO())
    with quiet[0], quiet[1]:
        return main(words)


def ended(name: str, folder: Path) -> None:
    code = call(name, folder)
    if code:
        raise RuntimeError(f"exit code {code}")


def files(folder: Path) -> dict[str, bytes]:
    """What the command wrote; the folder, which pages and tables name, differs from trial to trial."""
    here = str(folder).encode()
    found = {
        str(p.relative_to(folder)): WALL_TIME.sub(b"CLOCK", p.read_bytes().replace(here, b"FOLDER"))
        for p in folder.rglob("*")
        if p.is_file()
    }
    assert not [name for name in found if name.endswith(".tmp")], "a temporary file was left"
    return {name: data for name, data in found.items() if Path(name).name not in CLOCKED}


def different(found: dict[str, bytes], wanted: dict[str, bytes]) -> list[str]:
    """The names of the files that only one has, or that have other bytes."""
    return sorted(name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name))


@functools.cache
def uninterrupted(name: str) -> tuple[dict[str, bytes], float, int]:
    """The files, the seconds and the file operations of the command."""
    folder = Path(tempfile.mkdtemp(prefix="chaos-whole-"))
    prepared(folder, name)
    start = time.monotonic()
    outcome = in_child(lambda: ended(name, folder))
    assert outcome.error is None, outcome.error
    return files(folder), time.monotonic() - start, outcome.operations


def orphans(mark: str) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"{MARK}={mark}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


def sound(folder: Path) -> None:
    for manifest in folder.rglob("manifest.json"):
        assert [line for line in Run.open(manifest.parent).verify() if "measures" not in line] == []


def killed(name: str) -> Callable[[random.Random, Path], None]:
    def trial(rng: random.Random, folder: Path) -> None:
        wanted, seconds, _ = uninterrupted(name)
        prepared(folder, name)
        mark = folder.name

        def marked() -> None:
            os.environ[MARK] = mark  # which processes started from here inherit
            ended(name, folder)

        in_child(marked, kill_after=rng.uniform(0, 1.1 * seconds))
        for _ in range(1800):  # a process that is still starting notices once it runs: on a loaded machine, minutes
            if not (left := orphans(mark)):
                break
            time.sleep(0.1)
        assert not left, f"processes {left} live on"
        sound(folder)
        outcome = in_child(lambda: ended(name, folder))
        assert outcome.error is None, outcome.error
        assert not (names := different(files(folder), wanted)), f"other bytes in {names}"

    return trial


def failed(name: str) -> Callable[[random.Random, Path], None]:
    def trial(rng: random.Random, folder: Path) -> None:
        wanted, _, operations = uninterrupted(name)
        prepared(folder, name)
        at, error = rng.randint(1, max(operations, 1)), rng.choice(ERRORS)

        def fail(count: int, what: str, arguments: tuple[object, ...]) -> None:
            if count >= at:  # a full disk stays full
                raise OSError(error, os.strerror(error))

        def refused() -> None:
            with counting(fail):
                assert call(name, folder) in (0, 1)

        outcome = in_child(refused)
        assert outcome.error is None, outcome.error
        sound(folder)
        outcome = in_child(lambda: ended(name, folder))
        assert outcome.error is None, outcome.error
        assert not (names := different(files(folder), wanted)), f"other bytes in {names}"

    return trial


def diverged(rng: random.Random, folder: Path) -> None:
    """One of two models diverges at some step: the other is bitwise what it is alone."""
    bad = Member(1, lr=10.0, weight_decay=rng.choice((0.3, 0.5, 0.7, 1.0, 3.0, 10.0)))
    members = [Member(0), bad] if rng.random() < 0.5 else [bad, Member(0)]
    pair = api.train(PRESETS["smoke"], members, folder / "pair")
    alone = api.train(PRESETS["smoke"], [Member(0)], folder / "alone")
    index = members.index(Member(0))
    assert pair.diverged_at[index] is None
    for step in alone.steps:
        assert torch.equal(pair.checkpoint(step).models(index).flat, alone.checkpoint(step).models(0).flat), step


FULL = {
    "train": 60, "measure": 40, "import": 40, "explore": 30, "sweep": 20, "sweep-ray": 10, "study": 20, "publish": 20,
    "report": 20, "claims": 20,
}  # fmt: skip
# Also in `make test`: quick, and without polars, whose threads a fork does not survive if its parent has used it.
QUICK = ("import",)
NEEDS = {"sweep-ray": "ray"}
PROMISES = (
    *(
        Promise(f"killed-{name}", f"`{name}` killed at any moment: sound at once, and the same files after a rerun",
                killed(name), FULL[name], int(name in QUICK), NEEDS.get(name))
        for name in COMMANDS
    ),
    *(
        Promise(f"failed-{name}", f"`{name}` on a disk that fails from any operation on: one line, then the same files",
                failed(name), FULL[name] // 2, int(name in QUICK))
        for name in COMMANDS if name not in NEEDS  # a cluster's processes write by themselves
    ),
    Promise("diverged", "a model that diverges leaves the one beside it bitwise as it is alone (CPU)", diverged, 20, 0),
)  # fmt: skip
