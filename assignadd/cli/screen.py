"""What the commands print: tables for people, as JSON and as CSV."""

from __future__ import annotations

import csv
import json
import math
import statistics
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Literal

from rich.console import Console
from rich.text import Text

from assignadd.config.errors import LONGEST_LINE, printable, shortened

console = Console(highlight=False)
# The lines that people see unless they ask for all, and the rows that a table keeps where it is cut to fit them.
MOST_LINES, LEAST_ROWS = 40, 3
# Tables up to so many rows are shown with their details.
FEW_ROWS = 8
# As many models have a column each; of more, the lowest, the median and the highest number are shown.
MOST_COLUMNS = 5
# Texts of a cell up to this many characters stay on one line.
SHORT = 18
HINT = "--all prints everything, --csv and --json too"


@dataclass(frozen=True, kw_only=True)
class Printing:
    """The options of a command that prints a table."""

    json: bool = False
    """Print everything as JSON."""
    csv: bool = False
    """Print the table as CSV, with every column."""
    all: bool = False
    """Print every row and every detail, however long that is."""


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    name: str
    """Its name in --json and --csv."""
    label: str = ""
    """Its heading for people, with the unit; the name unless given."""
    form: str = ""
    """How a number is written for people, such as ".3f"."""
    only: Literal["", "data", "people", "detail"] = ""
    """Where it is shown: `data` in --json and --csv alone, `people` not there, `detail` to people if rows are few."""
    style: Callable[[Any], str] | None = None
    """The style of a cell by its value, in the words of `rich`."""
    none: str = "-"
    """What people read where there is no value."""

    @property
    def heading(self) -> str:
        return printable(self.label or self.name)

    def text(self, value: Any) -> str:
        """A value as people read it."""
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return self.none
        if isinstance(value, bool):
            return "yes" if value else "no"
        return format(value, self.form or ",") if isinstance(value, int | float) else printable(str(value))

    def style_of(self, value: Any) -> str:
        return self.style(value) if self.style and value is not None else ""


@dataclass(frozen=True)
class Table:
    """Rows with named columns."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    caption: str = ""

    @property
    def records(self) -> list[dict[str, Any]]:
        """The rows by the names of the columns."""
        names = [(i, column.name) for i, column in enumerate(self.columns) if column.only != "people"]
        return [{name: row[i] for i, name in names} for row in self.rows]


@dataclass(frozen=True)
class Output:
    """The result of a command: lines and tables in the order in which people read them."""

    parts: Sequence[Table | str | Text]
    json: Any = None
    """What --json prints; the rows of the CSV table unless given."""
    csv: Table | str | None = None
    """What --csv prints; the first of the tables unless given."""
    code: int = 0
    """The exit code of the command."""


def columns(*names: str) -> list[Column]:
    """Columns that need no more than a name."""
    return [Column(name) for name in names]


def facts(title: str, values: Mapping[str, Any], caption: str = "") -> Table:
    """A table with a row for each named value."""
    return Table(title, columns("what", "value"), list(values.items()), caption)


def by_model(title: str, rows: Mapping[str, Sequence[float | None]], seeds: Sequence[int], caption: str = "") -> Table:
    """A table with a row for each quantity, and a column for each model or for their range if they are many."""
    if len(seeds) <= MOST_COLUMNS:
        names = [f"seed {seed}" for seed in seeds]
        cells = [(name, *values) for name, values in rows.items()]
    else:
        title = f"{title}, {len(seeds)} models"
        names = ["lowest", "median", "highest"]
        cells = [(name, *_range(values)) for name, values in rows.items()]
    return Table(title, [Column("quantity", " "), *(Column(name, form=".3f") for name in names)], cells, caption)


def _range(values: Sequence[float | None]) -> tuple[float | None, float | None, float | None]:
    """The lowest, the median and the highest of the numbers that there are."""
    present = [value for value in values if value is not None and not math.isnan(value)]
    return (min(present), statistics.median(present), max(present)) if present else (None, None, None)


def print_output(output: Output, options: Printing) -> None:
    """Prints the result of a command, for people unless its options say otherwise."""
    table = output.csv or next((part for part in output.parts if isinstance(part, Table)), None)
    if options.json:
        document = table.records if output.json is None and isinstance(table, Table) else output.json
        sys.stdout.write(json.dumps(document, indent=2, allow_nan=False) + "\n")
    elif options.csv and isinstance(table, Table):
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(column.name for column in table.columns if column.only != "people")
        writer.writerows(record.values() for record in table.records)
    elif options.csv:
        sys.stdout.write(str(table or ""))
    else:
        for line in screen_lines(output.parts, options.all):
            console.print(line, soft_wrap=True)


def screen_lines(parts: Sequence[Table | str | Text], everything: bool) -> list[Text]:
    """The lines of an output for people; unless they ask for everything, the longest tables are cut to one screen."""
    blocks = [_lines(part, everything) for part in parts]
    tables = [i for i, part in enumerate(parts) if isinstance(part, Table)]
    for i in sorted(tables, key=lambda i: len(blocks[i]), reverse=True):
        excess = sum(map(len, blocks)) + 2 * len(tables) - MOST_LINES
        if excess > 0 and not everything:
            blocks[i] = _cut_lines(parts[i], len(blocks[i]) - excess)  # type: ignore[arg-type]
    lines: list[Text] = []
    for i, block in enumerate(blocks):
        if i > 0 and (i in tables or i - 1 in tables):
            lines.append(Text())
        lines += block
    return lines


def _lines(part: Table | str | Text, everything: bool) -> list[Text]:
    """The lines of one part of an output, all of them; a table of few rows is shown with its details."""
    if isinstance(part, str):
        return _paragraph(part)
    if isinstance(part, Text):
        return list(part.wrap(console, console.width))
    has_details = any(column.only == "detail" for column in part.columns)
    if has_details and (everything or len(part.rows) <= FEW_ROWS):
        blocks = [_row_as_paragraph(part.columns, row) for row in part.rows]
    else:
        blocks = _row_blocks(part)
    return [*_title(part), *(line for block in blocks for line in block), *_paragraph(part.caption)]


def _cut_lines(table: Table, most: int) -> list[Text]:
    """The lines of a table without its details, and with as many of its rows as fit into so many lines (or three)."""
    headings, *rows = _row_blocks(table)
    caption = _paragraph(table.caption)
    n = len(rows)
    fixed = len(_title(table)) + len(headings) + 1 + len(caption)
    while n > LEAST_ROWS and fixed + sum(map(len, rows[:n])) > most:
        n -= 1
    left_out = "... without their details" if n == len(rows) else f"... {n:,} of {len(rows):,} rows"
    lines = [line for block in rows[:n] for line in block]
    return [*_title(table), *headings, *lines, Text(f"{left_out}: {HINT}", "dim"), *caption]


def _title(table: Table) -> list[Text]:
    lines = _paragraph(table.title)
    for line in lines:
        line.stylize("bold")
    return lines


class _Cells:
    """The cells of a column as text, and the fewest and the most characters that they need side by side."""

    def __init__(self, column: Column, values: Sequence[Any]):
        self.column, self.values = column, values
        self.texts = [column.text(value) for value in values]
        self.is_number = all(value is None or isinstance(value, int | float) for value in values)
        self.widest = max(map(len, [column.heading, *self.texts]))
        words = column.heading.split()
        for text in self.texts:
            words += [text] if self.is_number or len(text) <= SHORT else text.split()
        self.narrowest = max(map(len, words), default=0)


def _row_blocks(table: Table) -> list[list[Text]]:
    """The lines of the headings and then of each row: cells side by side where no word has to be broken for it."""
    shown = [
        _Cells(column, [row[i] for row in table.rows])
        for i, column in enumerate(table.columns)
        if column.only in ("", "people")
    ]
    for gap in (2, 1):
        widths = _widths(shown, console.width - gap * (len(shown) - 1))
        if widths is not None:
            headings = [cells.column.heading for cells in shown]
            blocks = [_side_by_side(shown, headings, widths, gap)]
            blocks[0].append(Text("─" * (sum(widths) + gap * (len(shown) - 1)), "dim"))
            for row in range(len(table.rows)):
                blocks.append(_side_by_side(shown, [cells.texts[row] for cells in shown], widths, gap, row))
            return blocks
    without_details = [cells.column for cells in shown]
    rows = zip(*(cells.values for cells in shown), strict=True)
    return [[], *(_row_as_paragraph(without_details, row) for row in rows)]


def _widths(shown: Sequence[_Cells], total: int) -> list[int] | None:
    """The width of each column so that all fit into `total`; None where they do not.

    Columns that need little have all of it, the others equal shares of what is left.
    """
    widths = [cells.narrowest for cells in shown]
    left = total - sum(widths)
    if left < 0:
        return None
    columns_left = len(shown)
    for i in sorted(range(len(shown)), key=lambda i: shown[i].widest - widths[i]):
        more = min(shown[i].widest - widths[i], left // columns_left)
        columns_left -= 1
        widths[i] += more
        left -= more
    return widths


def _side_by_side(
    shown: Sequence[_Cells], texts: Sequence[str], widths: Sequence[int], gap: int, row: int | None = None
) -> list[Text]:
    """The lines of a row of texts, each wrapped between words to the width of its column."""
    wrapped = [_wrapped(text, width) for text, width in zip(texts, widths, strict=True)]
    lines = []
    for pieces in zip_longest(*wrapped, fillvalue=""):
        line = Text()
        for cells, piece, width in zip(shown, pieces, widths, strict=True):
            to_the_right = cells.is_number or cells.column.only == "people"
            style = "bold" if row is None else cells.column.style_of(cells.values[row])
            line.append(" " * gap if line else "")
            line.append(piece.rjust(width) if to_the_right else piece.ljust(width), style)
        line.rstrip()
        lines.append(line)
    return lines


def _row_as_paragraph(row_columns: Sequence[Column], row: Sequence[Any]) -> list[Text]:
    """A row as a paragraph: the first two cells are its heading, then the numbers, then each detail on its own line."""
    shown = [(c, value) for c, value in zip(row_columns, row, strict=True) if c.only != "data" and value is not None]
    heading = Text(": ").join(Text(c.text(value), f"bold {c.style_of(value)}") for c, value in shown[:2])
    numbers = [f"{c.heading}: {c.text(value)}" for c, value in shown[2:] if c.only != "detail" and value != ""]
    details = [(f"{c.label}: " if c.label else "") + c.text(value) for c, value in shown[2:] if c.only == "detail"]
    lines = [heading]
    for text in (", ".join(numbers), *details):
        lines += _paragraph("    " + text) if text else []
    return lines


def _paragraph(text: str) -> list[Text]:
    """Plain text in lines that fit the screen, indented as its own lines are; a path is never broken."""
    lines: list[Text] = []
    for line in text.splitlines():
        indent = " " * (len(line) - len(line.lstrip()))
        lines += [Text(indent + piece) for piece in _wrapped(printable(line.lstrip()), console.width - len(indent))]
    return lines


def _wrapped(text: str, width: int) -> list[str]:
    """A text in pieces of so many characters, or longer where a word is."""
    if len(text) <= width:
        return [text]
    return textwrap.wrap(text, max(width, 1), break_long_words=False, break_on_hyphens=False) or [""]


def say(text: str, style: str = "") -> None:
    """Prints a line of plain text, never broken."""
    console.print(Text(printable(text), style), soft_wrap=True)


def note(*texts: str) -> None:
    """Prints lines beside the output proper: on stderr, so that --json stays clean."""
    for text in texts:
        print(f"note: {shortened(printable(text), LONGEST_LINE)}", file=sys.stderr)


@contextmanager
def counting(title: str, things: str) -> Iterator[Callable[[int, int], None]]:
    """A listener that takes (done, total) and shows both on a terminal. Nothing is shown in a log."""
    with console.status(Text(title)) as status:
        yield lambda done, total: status.update(Text(f"{title}: {done:,} of {total:,} {things}"))
