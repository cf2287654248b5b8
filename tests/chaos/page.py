"""docs/reliability.md: a row for each promise of `make chaos`, and one for `make sabotage`."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

from assignadd.runs.environment import cpu_model

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
SABOTAGE = "sabotage"
TEXT = """# Reliability: promises, and how often they held

Written by `make chaos`. Every trial is a function of its number: `python -m tests.chaos --only PROMISE --trial N`
repeats one. A few trials of most promises are part of `make test`; a full `make chaos` has as many as the column
"of" says, and `--share` or `--only` run fewer. Each row is of the commit that it names; the machine did other work at
the same time. Not covered here: CUDA (`tests/training/test_cuda.py`, where there is a GPU).

Damage is named and refused, never repaired by training again: a finished run is left unchanged whatever is damaged in
it, and its other files can be read. An unfinished run goes on from its newest intact state; checkpoints of later steps
stay until training comes to them, and what it makes otherwise, or stands in its way, is renamed NAME.aside. Settings
and splits that are damaged are written again, as the command has them.

| promise | trials | held | of | commit | machine |
|---|---|---|---|---|---|
{promises}

## The tests can fail

Written by `make sabotage`, which breaks the code in one place at a time (`tests/sabotage.py`) and runs the test file
that has to notice. The same tests pass without the patch: that is tried first.

| patches | noticed | of | commit | machine |
|---|---|---|---|---|
{sabotage}
"""


def write_row(name: str, row: str, promises: Iterable[str]) -> None:
    """Puts a row into the page, in the place of the earlier one of this name; the others stay."""
    before = PAGE.read_text() if PAGE.exists() else ""
    rows = {found[1]: found[0] for found in re.finditer(r"^\| .*\(`([\w-]+)`\) \|.*$", before, re.MULTILINE)}
    rows[name] = row
    listed = "\n".join(rows[promise] for promise in promises if promise in rows)
    PAGE.write_text(TEXT.format(promises=listed, sabotage=rows.get(SABOTAGE, "")).rstrip("\n") + "\n")


def here() -> str:
    """The commit and the machine, as the last two cells of a row."""
    git = ["git", "-C", str(PAGE.parent), "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(git, capture_output=True, text=True).stdout.strip() or "unknown"
    maker = "ARM " if platform.machine() == "aarch64" else ""
    return f"{commit} | {maker}{cpu_model()}, {os.cpu_count()} cores"
