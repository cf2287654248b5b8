"""docs/reliability.md: a row for each promise of `make chaos`, and one for `make sabotage`."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

from assignadd.runs.manifest import cpu_model

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
SABOTAGE = "sabotage"
TABLE = re.compile(r"(\| (promise|patches) \|.*\n\|[-|]+\|\n)((?:\|.*\n?)*)")


def write_row(name: str, row: str, promises: Iterable[str]) -> None:
    """Puts a row into a table of the page, in the place of the earlier one of this name; all else stays."""
    page = PAGE.read_text()
    rows = {found[1]: found[0] for found in re.finditer(r"^\| .*\(`([\w-]+)`\) \|.*$", page, re.MULTILINE)}
    rows[name] = row
    for head, kind, old in TABLE.findall(page):
        names = [SABOTAGE] if kind == "patches" else promises
        page = page.replace(head + old, head + "".join(f"{rows[name]}\n" for name in names if name in rows))
    PAGE.write_text(page)


def here() -> str:
    """The commit and the machine, as the last two cells of a row."""
    git = ["git", "-C", str(PAGE.parent), "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(git, capture_output=True, text=True).stdout.strip() or "unknown"
    maker = "ARM " if platform.machine() == "aarch64" else ""
    return f"{commit} | {maker}{cpu_model()}, {os.cpu_count()} cores"
