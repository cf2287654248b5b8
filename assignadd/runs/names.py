"""The folders of runs: the name of one where none is given, those under a folder, and the newest.

`assignadd train` and `assignadd.train` name folders by one scheme:

    paper-seed-0            the settings of a preset, one seed
    paper-seeds-0-31        consecutive seeds
    tiny-seeds-0+4+7        up to six other seeds; more are counted, and the hash below tells them apart
    paper-seed-0-1f3a9c     other settings: the preset they differ from in the fewest fields, and six digits of a hash

The name depends on the settings and seeds alone, not on how they were given: the same settings give the same folder.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from assignadd.config import PRESETS, Config, Member
from assignadd.config.errors import RunError
from assignadd.runs.config_json import read_run_document, run_document
from assignadd.runs.folder import Run
from assignadd.runs.manifest import MANIFEST

MOST_LISTED = 6


def default_folder(config: Config, members: Sequence[Member], root: Path = Path("runs")) -> Path:
    """The folder under `root` for a run of these settings."""
    config, members = read_run_document(run_document(config, members))  # lr = 1 and lr = 1.0 are one setting
    preset = min(PRESETS, key=lambda name: _n_differences(config, PRESETS[name]))
    seeds = [member.seed for member in members]
    listed = len(seeds) <= MOST_LISTED or _consecutive(seeds)
    if list(members) != [Member(seed) for seed in seeds] or not listed:
        hashed: object = (config, members)
    else:
        hashed = None if config == PRESETS[preset] else config
    label = _seeds_label(seeds) if listed else f"{len(seeds)}-seeds"
    digits = [] if hashed is None else [hashlib.sha256(repr(hashed).encode()).hexdigest()[:6]]
    return root / "-".join([preset, label, *digits])


def _seeds_label(seeds: Sequence[int]) -> str:
    if len(seeds) == 1:
        return f"seed-{seeds[0]}"
    return f"seeds-{seeds[0]}-{seeds[-1]}" if _consecutive(seeds) else "seeds-" + "+".join(map(str, seeds))


def _consecutive(seeds: Sequence[int]) -> bool:
    return list(seeds) == list(range(seeds[0], seeds[0] + len(seeds)))


def _n_differences(config: Config, preset: Config) -> int:
    """How many fields of the two configurations differ."""
    pairs = [(getattr(config, f.name), getattr(preset, f.name)) for f in dataclasses.fields(Config)]
    return sum(getattr(a, f.name) != getattr(b, f.name) for a, b in pairs for f in dataclasses.fields(a))


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
