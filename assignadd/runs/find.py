"""The runs under a folder: all of them, and the newest."""

from __future__ import annotations

import os
from pathlib import Path

from assignadd.errors import RunError
from assignadd.runs.folder import Run
from assignadd.runs.manifest import MANIFEST


def find_runs(root: str | os.PathLike[str]) -> tuple[list[Run], list[str]]:
    """The runs under `root` by name, and a line for each that cannot be opened; runs are not looked for inside runs."""
    runs, problems = [], []
    for folder in _run_folders(root):
        try:
            runs.append(Run.open(folder))
        except RunError as error:
            problems.append(str(error))
    return runs, problems


def newest_run(root: str | os.PathLike[str]) -> tuple[Run | None, list[str]]:
    """The run under `root` that was committed to last and can be opened, and a line for each newer one that cannot.

    None where there is no run at all.
    """
    notes: list[str] = []
    for folder in sorted(_run_folders(root), key=lambda folder: -(folder / MANIFEST).stat().st_mtime_ns):
        try:
            return Run.open(folder), notes
        except RunError as error:
            notes.append(str(error))
    if notes:
        raise RunError(notes[0])
    return None, []


def _run_folders(root: str | os.PathLike[str]) -> list[Path]:
    found = []
    for folder, inner, files in os.walk(root):
        if MANIFEST in files:
            found.append(Path(folder))
            inner.clear()
    return sorted(found)
