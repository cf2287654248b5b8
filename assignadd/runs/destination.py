"""Where a command may write what its user names: into what is absent, empty or ours, and never through a link.

A folder of ours carries the file `.assignadd`, which says what for and is written before anything else: an interrupted
command finds its own folder again, and no other command writes into it.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable
from pathlib import Path

from assignadd.config.errors import DestinationError, RunError
from assignadd.runs import atomic
from assignadd.runs.files import read_regular
from assignadd.runs.manifest import CONFIG, MANIFEST, MEASURES

MARK = ".assignadd"
MARKING = re.compile(rf"\.{re.escape(MARK)}\.[0-9a-f]{{8}}\.tmp")
MOST_MARKED = 1000


def claim_folder(folder: Path, kind: str, made_before: Callable[[Path], bool] = lambda folder: False) -> None:
    """Make a folder ours, or refuse it; what an interrupted write left in it is removed.

    `made_before` recognises a folder that was written before there were marks. A folder inside may be ours too.
    """
    if folder.is_symlink():
        raise DestinationError(f"{folder} is a symbolic link; give the folder itself as --out")
    try:
        entries = sorted(os.listdir(folder))
    except FileNotFoundError:
        entries = []
    except OSError as error:
        raise DestinationError(
            f"{folder} cannot be written into: {atomic.reason(error)}; choose another --out"
        ) from error
    mark = _mark(folder)
    if mark is None and not made_before(folder):
        inner = {name for name in entries if _mark(folder / name) or made_before(folder / name)}
        if others := [name for name in entries if name not in inner and not MARKING.fullmatch(name)]:
            raise DestinationError(f"{folder} holds other files, such as {others[0]!r}; choose another --out")
    elif mark not in (None, kind):
        raise DestinationError(f"{folder} holds an assignadd {mark}, not an assignadd {kind}; choose another --out")
    atomic.make_directory(folder)
    if mark is None:
        atomic.write(folder / MARK, f"assignadd {kind}\n".encode())
    for inside, _, names in os.walk(folder):  # does not follow links
        for name in names:
            atomic.discard_leftover(Path(inside) / name)


def folder_inside(folder: Path, name: str) -> Path:
    """A folder in a claimed one, made where it is missing, and not reached through a link."""
    inside = folder
    for part in Path(name).parts:
        inside = inside / part
        if inside.is_symlink():
            raise DestinationError(f"{inside} is a symbolic link, which is not written through; remove it")
    atomic.make_directory(inside)
    return inside


def claim_file(path: Path, is_ours: Callable[[bytes], bool]) -> None:
    """Refuse to write a file over a link, over what `is_ours` does not recognise, or among the files of a run.

    What an interrupted write of this file left beside it is removed.
    """
    if path.is_symlink():
        raise DestinationError(f"{path} is a symbolic link, which is not written through; choose another file")
    for folder in list(path.absolute().parents)[:2]:
        run = (folder / MANIFEST).exists() and (folder / CONFIG).exists()
        if run and path.absolute() != folder / MEASURES:
            raise DestinationError(f"{path} is inside the run {folder}; choose a file outside of it")
    if path.exists() and not (path.is_file() and is_ours(read_regular(path.parent, path.name))):
        raise DestinationError(f"{path} is there and was not written by this command; choose another file")
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        atomic.discard_leftover(left)


def _mark(folder: Path) -> str | None:
    """What a folder of ours is for; None for any other."""
    try:
        words = read_regular(folder, MARK, most=MOST_MARKED).decode().split()
    except (RunError, UnicodeDecodeError):
        return None
    return " ".join(words[1:]) if words[:1] == ["assignadd"] else None
