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
# How many lines people see unless they ask for all.
MOST_LINES = 40
# How many rows a table keeps at least when it is cut to fit them.
LEAST_ROWS = 3
# Tables of at most this many rows are shown with their details.
FEW_ROWS = 8
# Up to this many models have a column each; of more, the lowest, the median and the highest number are shown.
MOST_COLUMNS = 5
# A text of at most this many characters stays on one line of its cell.
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
        """What people read above the column."""
        return printable(self.label or self.name)

    def text(self, value: Any) -> str:
        """A value as people read it."""
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return self.none
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, int | float):
            return format(value, self.form or ",")
        return printable(str(value))

    def style_of(self, value: Any) -> str:
        """The style in which a value is printed; empty for plain text."""
        if self.style is None or value is None:
            return ""
        return self.style(value)


@dataclass(frozen=True)
class Table:
    """Rows with named columns."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    caption: str = ""

    @property
    def records(self) -> list[dict[str, Any]]:
        """The rows as --json and --csv have them: for each row its values by the names of the columns."""
        return [
            {column.name: value for column, value in zip(self.columns, row, strict=True) if column.only != "people"}
            for row in self.rows
        ]


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
    """A column for each name, with that name as its heading."""
    return [Column(name) for name in names]


def facts(title: str, values: Mapping[str, Any], caption: str = "") -> Table:
    """A table with two columns: the names and the values of a mapping."""
    return Table(title, columns("what", "value"), list(values.items()), caption)


def by_model(title: str, rows: Mapping[str, Sequence[float | None]], seeds: Sequence[int], caption: str = "") -> Table:
    """A table with a row for each quantity, whose values are one per model, in the order of `seeds`.

    It has a column for each model; if they are many, columns for the lowest, the median and the highest value instead.
    """
    if len(seeds) <= MOST_COLUMNS:
        headings = [f"seed {seed}" for seed in seeds]
        cells = [(quantity, *values) for quantity, values in rows.items()]
    else:
        title = f"{title}, {len(seeds)} models"
        headings = ["lowest", "median", "highest"]
        cells = [(quantity, *_range(values)) for quantity, values in rows.items()]
    table_columns = [Column("quantity", " "), *(Column(heading, form=".3f") for heading in headings)]
    return Table(title, table_columns, cells, caption)


def _range(values: Sequence[float | None]) -> tuple[float | None, float | None, float | None]:
    """The lowest, the median and the highest value; None and NaN are left out, and three None stand for no value."""
    present = [value for value in values if value is not None and not math.isnan(value)]
    if not present:
        return None, None, None
    return min(present), statistics.median(present), max(present)


def print_output(output: Output, options: Printing) -> None:
    """Prints the result of a command: as JSON, as CSV or for people, as its options say."""
    first_table = next((part for part in output.parts if isinstance(part, Table)), None)
    table = output.csv or first_table
    if options.json:
        document = output.json
        if document is None and isinstance(table, Table):
            document = table.records
        sys.stdout.write(json.dumps(document, indent=2, allow_nan=False) + "\n")
    elif options.csv and isinstance(table, Table):
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(column.name for column in table.columns if column.only != "people")
        writer.writerows(record.values() for record in table.records)
    elif options.csv:
        sys.stdout.write(str(table or ""))  # a CSV that the command has written itself
    else:
        for line in screen_lines(output.parts, options.all):
            console.print(line, soft_wrap=True)


def screen_lines(parts: Sequence[Table | str | Text], everything: bool) -> list[Text]:
    """The lines of an output for people, with an empty line before and after each table.

    Unless they ask for everything, tables are cut until all fits one screen, the longest table first.
    """
    blocks = [_lines(part, everything) for part in parts]  # the lines of each part
    tables = {i: part for i, part in enumerate(parts) if isinstance(part, Table)}
    if not everything:
        for i in sorted(tables, key=lambda i: len(blocks[i]), reverse=True):
            empty_lines = 2 * len(tables)
            excess = sum(map(len, blocks)) + empty_lines - MOST_LINES
            if excess > 0:
                blocks[i] = _cut_lines(tables[i], len(blocks[i]) - excess)
    lines: list[Text] = []
    for i, block in enumerate(blocks):
        if i > 0 and (i in tables or i - 1 in tables):
            lines.append(Text())
        lines += block
    return lines


def _lines(part: Table | str | Text, everything: bool) -> list[Text]:
    """All lines of one part of an output.

    A row is a paragraph if the table has details and is short (or everything is asked for), else a line of cells.
    """
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
    """The lines of a table without its details, and with as many of its first rows as fit into `most` lines.

    At least three rows are shown, and a line that says how to see the rest.
    """
    headings, *rows = _row_blocks(table)  # the lines of the headings, then those of each row
    title = _title(table)
    caption = _paragraph(table.caption)
    n_shown = len(rows)
    lines_around_rows = len(title) + len(headings) + 1 + len(caption)  # 1 for the line with the hint
    while n_shown > LEAST_ROWS and lines_around_rows + sum(map(len, rows[:n_shown])) > most:
        n_shown -= 1
    left_out = "... without their details" if n_shown == len(rows) else f"... {n_shown:,} of {len(rows):,} rows"
    row_lines = [line for row in rows[:n_shown] for line in row]
    return [*title, *headings, *row_lines, Text(f"{left_out}: {HINT}", "dim"), *caption]


def _title(table: Table) -> list[Text]:
    """The lines of a table's title, in bold."""
    lines = _paragraph(table.title)
    for line in lines:
        line.stylize("bold")
    return lines


class _Cells:
    """The cells of a column as text, and how narrow and how wide the column may become without breaking a word."""

    def __init__(self, column: Column, values: Sequence[Any]):
        self.column = column
        self.values = values
        self.texts = [column.text(value) for value in values]
        self.is_number = all(value is None or isinstance(value, int | float) for value in values)
        self.widest = max(map(len, [column.heading, *self.texts]))
        unbroken = column.heading.split()  # the pieces of text that stay on one line
        for text in self.texts:
            if self.is_number or len(text) <= SHORT:
                unbroken.append(text)
            else:
                unbroken += text.split()
        self.narrowest = max(map(len, unbroken), default=0)


def _row_blocks(table: Table) -> list[list[Text]]:
    """The lines of the headings (the first entry) and of each row, without details.

    Cells stand side by side if the screen is wide enough for it; else a row is a paragraph, and there are no headings.
    """
    shown = [
        _Cells(column, [row[i] for row in table.rows])
        for i, column in enumerate(table.columns)
        if column.only in ("", "people")
    ]
    for gap in (2, 1):  # spaces between two columns
        gaps = gap * (len(shown) - 1)
        widths = _widths(shown, console.width - gaps)
        if widths is not None:
            headings = _side_by_side(shown, [cells.column.heading for cells in shown], widths, gap)
            headings.append(Text("─" * (sum(widths) + gaps), "dim"))
            blocks = [headings]
            for row in range(len(table.rows)):
                blocks.append(_side_by_side(shown, [cells.texts[row] for cells in shown], widths, gap, row))
            return blocks
    without_details = [cells.column for cells in shown]
    rows = zip(*(cells.values for cells in shown), strict=True)
    return [[], *(_row_as_paragraph(without_details, row) for row in rows)]


def _widths(shown: Sequence[_Cells], total: int) -> list[int] | None:
    """The width of each column, at most `total` characters in all; None where even the narrowest do not fit.

    Each column begins with its narrowest width, and those that need the fewest characters more are served first: each
    has what it needs, but at most an equal share of what is left for it and the columns after it.
    """
    widths = [cells.narrowest for cells in shown]
    wishes = [cells.widest - cells.narrowest for cells in shown]
    left = total - sum(widths)
    if left < 0:
        return None
    columns_left = len(shown)
    for i in sorted(range(len(shown)), key=lambda i: wishes[i]):
        extra = min(wishes[i], left // columns_left)
        widths[i] += extra
        left -= extra
        columns_left -= 1
    return widths


def _side_by_side(
    shown: Sequence[_Cells], texts: Sequence[str], widths: Sequence[int], gap: int, row: int | None = None
) -> list[Text]:
    """The lines of one row of a table: a text for each column, wrapped between words to the width of that column.

    `row` is the index of the row, whose values give the styles; without it the texts are headings, in bold.
    """
    wrapped = [_wrapped(text, width) for text, width in zip(texts, widths, strict=True)]
    lines = []
    for pieces in zip_longest(*wrapped, fillvalue=""):  # the pieces of all cells that stand on one line
        line = Text()
        for cells, piece, width in zip(shown, pieces, widths, strict=True):
            if line:
                line.append(" " * gap)
            to_the_right = cells.is_number or cells.column.only == "people"
            padded = piece.rjust(width) if to_the_right else piece.ljust(width)
            style = "bold" if row is None else cells.column.style_of(cells.values[row])
            line.append(padded, style)
        line.rstrip()
        lines.append(line)
    return lines


def _row_as_paragraph(row_columns: Sequence[Column], row: Sequence[Any]) -> list[Text]:
    """A row as a paragraph: the first two cells are its heading, then the numbers, then each detail on its own line."""
    cells = list(zip(row_columns, row, strict=True))
    shown = [(column, value) for column, value in cells if column.only != "data" and value is not None]
    heading = [Text(column.text(value), f"bold {column.style_of(value)}") for column, value in shown[:2]]
    numbers: list[str] = []
    details: list[str] = []
    for column, value in shown[2:]:
        if column.only == "detail":
            prefix = f"{column.label}: " if column.label else ""
            details.append(prefix + column.text(value))
        elif value != "":
            numbers.append(f"{column.heading}: {column.text(value)}")
    lines = [Text(": ").join(heading)]
    for text in (", ".join(numbers), *details):
        if text:
            lines += _paragraph("    " + text)
    return lines


def _paragraph(text: str) -> list[Text]:
    """Plain text in lines that fit the screen; the pieces of a line that is wrapped have its indent."""
    lines: list[Text] = []
    for line in text.splitlines():
        words = line.lstrip()
        indent = " " * (len(line) - len(words))
        for piece in _wrapped(printable(words), console.width - len(indent)):
            lines.append(Text(indent + piece))
    return lines


def _wrapped(text: str, width: int) -> list[str]:
    """A text in pieces of at most `width` characters, broken between words alone: a longer word is a longer piece."""
    if len(text) <= width:
        return [text]
    return textwrap.wrap(text, max(width, 1), break_long_words=False, break_on_hyphens=False) or [""]


def say(text: str, style: str = "") -> None:
    """Prints a line of plain text, which is not wrapped."""
    console.print(Text(printable(text), style), soft_wrap=True)


def note(*texts: str) -> None:
    """Prints each text as a line on stderr, so that it is no part of the output of --json or --csv."""
    for text in texts:
        print(f"note: {shortened(printable(text), LONGEST_LINE)}", file=sys.stderr)


@contextmanager
def counting(title: str, things: str) -> Iterator[Callable[[int, int], None]]:
    """A listener to call with (done, total), which shows both on a terminal, as in "measuring: 3 of 40 checkpoints".

    Nothing is shown where the output is not a terminal.
    """
    with console.status(Text(title)) as status:

        def listener(done: int, total: int) -> None:
            status.update(Text(f"{title}: {done:,} of {total:,} {things}"))

        yield listener
