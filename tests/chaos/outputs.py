"""Folders of output that are damaged, and runs of another user: the same command makes them anew, or says one line."""

from __future__ import annotations

import contextlib
import io
import os
import random
import shutil
from pathlib import Path

from assignadd.cli import main
from assignadd.runs.files import MARK
from tests.chaos.commands import COMMANDS, different, ended, files, prepared, uninterrupted
from tests.chaos.forged import COMMANDS as READING
from tests.chaos.forged import trained
from tests.chaos.promise import Promise
from tests.runs.kill import in_child
from tests.runs.test_destination import everything

WRITING = ("explore", "study", "publish", "report", "sweep")
NOBODY = 65534


def shown(*words: str) -> tuple[int, list[str]]:
    """The exit code of a command, and its lines on the standard error that are no notes."""
    error = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(error):
        code = main(words)
    return code, [line for line in error.getvalue().splitlines() if not line.startswith("note: ")]


def damage(rng: random.Random, victim: Path, elsewhere: Path) -> str:
    """Changes a file of an output, removes it, or puts something else there; says what."""
    kind = rng.choice(("flip", "cut", "removed", "link", "folder", "pipe"))
    data = victim.read_bytes()
    victim.unlink()
    if kind == "flip":
        at = rng.randrange(len(data))
        victim.write_bytes(data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :])
    elif kind == "cut":
        victim.write_bytes(data[: rng.randrange(len(data))])
    elif kind == "link":
        elsewhere.write_text("precious")
        victim.symlink_to(elsewhere)
    elif kind == "folder":
        victim.mkdir()
        (victim / "mine").write_text("precious")
    elif kind == "pipe":
        os.mkfifo(victim)
    return kind


def damaged_output(rng: random.Random, folder: Path) -> None:
    name = rng.choice(WRITING)
    wanted = uninterrupted(name)[0]
    prepared(folder, name)
    given = everything(folder)
    outcome = in_child(lambda: ended(name, folder))
    assert outcome.error is None, outcome.error
    written = [Path(path) for path in sorted(everything(folder).keys() - given.keys())]
    # Inside a run, damage is named and stays (promise `damaged`). A publication has the files of a run, and a mark.
    in_run = {p for path in written for p in path.parents if (p / "manifest.json").exists() and not (p / MARK).exists()}
    victim = rng.choice([path for path in written if in_run.isdisjoint(path.parents)])
    elsewhere, refusal = folder / "elsewhere", folder / "refusal"
    kind = damage(rng, victim, elsewhere)

    def again() -> None:
        code, lines = shown(*(word.format(f=folder) for word in COMMANDS[name]))
        assert code == 0 or (code in (1, 2) and len(lines) == 1 and str(folder) in lines[0]), (code, lines)
        if code:
            refusal.write_text(lines[0])

    outcome = in_child(again, kill_after=600)
    assert not outcome.killed and outcome.error is None, (victim, kind, outcome.error)
    if elsewhere.exists():
        assert elsewhere.read_text() == "precious"
        elsewhere.unlink()
    may_differ: set[str] = set()
    if refusal.exists():
        refusal.unlink()
        (victim / "mine" if victim.is_dir() else victim).unlink(missing_ok=True)
        may_differ = {str(victim.relative_to(folder)), "hub/files.json"}  # this list is removed first, and written last
    assert set(different(files(folder), wanted)) <= may_differ, (victim, kind)


def other_user(rng: random.Random, folder: Path) -> None:
    """A run that is another user's, or only to be read: commands that read work, those that write say one line."""
    run = Path(shutil.copytree(trained(), folder / "runs" / "bad"))
    shutil.copytree(run, folder / "loads" / "runs" / "bad")
    readable = rng.random() < 0.7
    for path in [*run.rglob("*"), run, run.parent]:
        path.chmod((0o555 if path.is_dir() else 0o444) if readable or path == run.parent else 0)
    folder.chmod(0o777)

    def tried(command: tuple[str, ...], writes: bool) -> None:
        os.chdir(folder / "loads")
        shown(*command)  # every module that it needs, while Python can be read
        os.chdir(folder)
        if os.getuid() == 0:
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        code, lines = shown(*command)
        works = (readable and not writes) or command[1] == "list"
        lines = [line for line in lines if "is not kept for the next start" not in line]  # of our compiled code
        assert (code == 0 and not lines) if works else (code in (1, 2) and len(lines) == 1), (command, code, lines)

    before = everything(run) if os.getuid() == 0 or readable else None
    train = ("train", "--preset", "smoke", "--seeds", "0", "--device", "cpu", "--threads", "1", "--out", "runs/bad")
    for command, writes in [*((command, False) for command in READING), (train, True)]:
        outcome = in_child(lambda command=command, writes=writes: tried(command, writes))
        assert outcome.error is None, outcome.error
    assert before is None or everything(run) == before
    for path in (run.parent, run, *run.rglob("*")):
        path.chmod(0o755)


PROMISES = (
    Promise("damaged-output", "a damaged page, report, study, sweep or publication: the same files again, or one line",
            damaged_output, 30, 0),
    Promise("other-user", "a run of another user: what reads it works, what writes says one line, it is unchanged",
            other_user, 10, 0),
)  # fmt: skip
