"""What the commands print: tables for people, JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

console = Console(highlight=False)


def say(text: str, style: str = "") -> None:
    """A line of plain text, never read as markup and never broken."""
    console.print(escape(text), style=style, soft_wrap=True)


def note(text: str) -> None:
    """A line beside the output proper: on stderr, so that --json stays clean."""
    print(f"note: {text}", file=sys.stderr)


def print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=2, allow_nan=False) + "\n")


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], caption: str | None = None) -> Table:
    """The first column is a name, the widest, which wraps first on a narrow screen; the others are numbers, set right."""
    out = Table(
        title=escape(title),
        caption=caption and escape(caption),
        title_justify="left",
        caption_justify="left",
        header_style="bold",
        box=SIMPLE_HEAD,
    )
    for i, column in enumerate(columns):
        out.add_column(escape(column), justify="left" if i == 0 else "right", overflow="fold")
    for row in rows:
        out.add_row(*(escape(str(cell)) for cell in row))
    return out


def print_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], caption: str | None = None
) -> None:
    console.print(table(title, columns, rows, caption))
