"""What the commands print: tables for people, as JSON and as CSV."""

from __future__ import annotations

import csv
import json
import math
import statistics
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rich.console import Console
from rich.text import Text

from assignadd.config.errors import LONGEST_LINE, printable, shortened

console = Console(highlight=False)
LONGEST_CELL = 4000  # characters, such as of the files that a run was imported from
MOST_LINES = 40  # that people see unless they ask for all
LEAST_ROWS = 3  # that a table keeps when rows are left out
FEW_ROWS = 8  # tables of at most this many rows are shown with their details
# Up to this many models have a column each; of more, the lowest, the median and the highest number are shown.
MOST_COLUMNS = 5
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
    form: str = ","
    """How a number is written for people, such as ".3f"."""
    only: Literal["", "data", "people", "detail"] = ""
    """Where it is shown, if not everywhere: `data` in --json and --csv alone, `people` on the screen alone, `detail` in
    --json and --csv, and on the screen if the table has few rows."""
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
        if isinstance(value, int | float):
            is_large = self.form.endswith("g") and abs(value) >= 1000  # otherwise 5,000 would be 5e+03
            return format(value, ",.0f" if is_large else self.form)
        return shortened(printable(str(value)), LONGEST_CELL)

    def style_of(self, value: Any) -> str:
        """The style of a cell with this value, in the words of `rich`; empty for none."""
        return "" if self.style is None or value is None else self.style(value)


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
        index_of = {column.name: i for i, column in enumerate(self.columns) if column.only != "people"}
        return [{name: row[i] for name, i in index_of.items()} for row in self.rows]


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


def facts(title: str, values: Mapping[str, Any]) -> Table:
    """A table with two columns: the names and the values of a mapping."""
    return Table(title, columns("name", "value"), list(values.items()))


def by_model(title: str, rows: Mapping[str, Sequence[float | None]], seeds: Sequence[int], caption: str = "") -> Table:
    """A row for each quantity, a column for each model; of more than MOST_COLUMNS the lowest, median and highest."""
    headings = [f"seed {seed}" for seed in seeds]
    cells = [(quantity, *values) for quantity, values in rows.items()]
    if len(seeds) > MOST_COLUMNS:
        title = f"{title}, {len(seeds)} models"
        headings = ["lowest", "median", "highest"]
        cells = [(quantity, *_range(values)) for quantity, values in rows.items()]
    return Table(title, [Column("quantity", " "), *(Column(text, form=".3f") for text in headings)], cells, caption)


def _range(values: Sequence[float | None]) -> tuple[float | None, float | None, float | None]:
    """The lowest, the median and the highest of the values that are not None or NaN; three None if there are none."""
    present = [value for value in values if value is not None and not math.isnan(value)]
    if not present:
        return None, None, None
    return min(present), statistics.median(present), max(present)


def print_output(output: Output, options: Printing) -> None:
    """Prints the result of a command: as JSON, as CSV or for people, as its options say."""
    first_table = next((part for part in output.parts if isinstance(part, Table)), "")  # "": no table, an empty CSV
    table = output.csv or first_table  # where it is a text, the CSV itself
    if options.json:
        document = table.records if output.json is None and isinstance(table, Table) else output.json
        sys.stdout.write(json.dumps(document, indent=2, allow_nan=False) + "\n")
    elif not options.csv:
        for line in screen_lines(output.parts, options.all):
            console.print(line, soft_wrap=True)
    elif isinstance(table, str):
        sys.stdout.write(table)
    else:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(column.name for column in table.columns if column.only != "people")
        writer.writerows(record.values() for record in table.records)


def screen_lines(parts: Sequence[Table | str | Text], everything: bool) -> list[Text]:
    """The lines of an output for people: all with `everything`, otherwise as many as fit one screen.

    To make them fit, details are left out, and then a fifth of the rows of the longest table, again and again.
    """
    n_rows = [len(part.rows) if isinstance(part, Table) else 0 for part in parts]  # that are shown of each part
    lines = _all_lines(parts, n_rows, sys.maxsize if everything else FEW_ROWS)
    while len(lines) > MOST_LINES and max(n_rows) > LEAST_ROWS and not everything:
        lines = _all_lines(parts, n_rows, 0)  # without details; at first with all rows
        longest = n_rows.index(max(n_rows))
        n_rows[longest] = min(MOST_LINES, n_rows[longest] * 4 // 5)
    return lines


def _all_lines(parts: Sequence[Table | str | Text], n_rows: Sequence[int], most_detailed: int) -> list[Text]:
    """The lines of an output: `n_rows` rows of each part, and details of tables with at most `most_detailed` rows."""
    lines: list[Text] = []
    for i, part in enumerate(parts):
        if i > 0 and (isinstance(part, Table) or isinstance(parts[i - 1], Table)):
            lines.append(Text())
        if isinstance(part, Table):
            lines += _table_lines(part, n_rows[i], most_detailed)
        elif isinstance(part, Text):
            lines += part.wrap(console, console.width)
        else:
            lines += _paragraph(part)
    return lines


def _table_lines(table: Table, n_rows: int, most_detailed: int) -> list[Text]:
    """The lines of a table: with its details if it has at most `most_detailed` rows, else its first `n_rows` rows."""
    hint = []
    n_in_all = len(table.rows)
    has_details = any(column.only == "detail" for column in table.columns)
    if has_details and n_in_all <= most_detailed:
        rows = [line for row in table.rows for line in _row_as_paragraph(table.columns, row)]
    else:
        rows = _side_by_side(table, n_rows)
        if n_in_all > n_rows or has_details:
            left_out = f"{n_rows:,} of {n_in_all:,} rows" if n_in_all > n_rows else "without details"
            hint = [Text(f"... {left_out}: {HINT}", "dim")]
    return [*_paragraph(table.title, "bold"), *rows, *hint, *_paragraph(table.caption)]


def _side_by_side(table: Table, n_rows: int) -> list[Text]:
    """The lines of the headings and of the first rows of a table, without its columns of details."""
    indices = [i for i, column in enumerate(table.columns) if column.only not in ("data", "detail")]  # of columns
    shown = [table.columns[i] for i in indices]
    rows = [[row[i] for i in indices] for row in table.rows[:n_rows]]
    headings: list[Text] = []
    cells_of_columns: list[list[Text]] = []
    for k, column in enumerate(shown):
        values = [row[k] for row in rows]
        has_numbers = all(value is None or isinstance(value, int | float) for value in values)
        is_right = has_numbers or column.only == "people"  # columns for people alone have numbers as texts
        side: Literal["left", "right"] = "right" if is_right else "left"
        headings.append(Text(column.heading, "bold", justify=side))
        cells = [Text(column.text(value), column.style_of(value), justify=side) for value in values]
        cells_of_columns.append(cells)
    columns_of_texts = [[heading, *cells] for heading, cells in zip(headings, cells_of_columns, strict=True)]
    widths, gap = _widths_and_gap([[text.plain for text in texts] for texts in columns_of_texts])
    lines = _row_in_lines(headings, widths, gap, at_bottom=True)
    lines.append(Text("─" * (sum(widths) + gap * (len(widths) - 1)), "dim"))
    for cells_of_row in zip(*cells_of_columns, strict=True):
        lines += _row_in_lines(cells_of_row, widths, gap)
    return lines


def _row_in_lines(cells: Sequence[Text], widths: Sequence[int], gap: int, at_bottom: bool = False) -> list[Text]:
    """The lines of a row of cells; those of fewer lines begin at the first line, or end at the last if `at_bottom`."""
    pieces = [list(cell.wrap(console, width, overflow="fold")) for cell, width in zip(cells, widths, strict=True)]
    height = max(map(len, pieces))
    for lines_of_cell, width in zip(pieces, widths, strict=True):
        place = 0 if at_bottom else len(lines_of_cell)
        lines_of_cell[place:place] = [Text(" " * width)] * (height - len(lines_of_cell))
    lines = [Text(" " * gap).join(parts) for parts in zip(*pieces, strict=True)]
    for line in lines:
        line.rstrip()
    return lines


def _widths_and_gap(texts: Sequence[Sequence[str]]) -> tuple[list[int], int]:
    """The width of each column, so that all fit the screen, and the number of spaces between two columns.

    `texts` has for each column its heading and its cells. The widest column is made narrower first; a word is broken
    only if the columns do not fit otherwise.
    """
    widths = [max(map(len, column)) for column in texts]
    narrowest = [max(map(len, " ".join(column).split()), default=0) for column in texts]  # the longest words
    n_gaps = len(texts) - 1
    gap = 2 if sum(widths) + 2 * n_gaps <= console.width else 1
    while sum(widths) + gap * n_gaps > console.width and max(widths) > 1:
        breaks_no_word = [i for i, width in enumerate(widths) if width > narrowest[i]]
        can_shrink = breaks_no_word or range(len(widths))
        widest = max(can_shrink, key=widths.__getitem__)
        widths[widest] -= 1
    return widths, gap


def _row_as_paragraph(row_columns: Sequence[Column], row: Sequence[Any]) -> list[Text]:
    """A row as a paragraph: the first two cells as its heading, a line with the other cells, a line for each detail."""
    cells = zip(row_columns, row, strict=True)
    shown = [(column, value) for column, value in cells if column.only != "data" and value is not None]
    heading = [Text(column.text(value), f"bold {column.style_of(value)}") for column, value in shown[:2]]
    others: list[str] = []
    details: list[str] = []
    for column, value in shown[2:]:
        if column.only == "detail":
            details.append(f"{column.label}: {column.text(value)}" if column.label else column.text(value))
        elif value != "":
            others.append(f"{column.heading}: {column.text(value)}")
    lines = [Text(": ").join(heading)]
    for text in (", ".join(others), *details):
        if text:
            lines += _paragraph("    " + text)
    return lines


def _paragraph(text: str, style: str = "") -> list[Text]:
    """Plain text in lines that fit the screen; a line that is wrapped keeps its indent in each of its pieces."""
    pieces: list[str] = []
    for line in text.splitlines():
        words = line.lstrip()
        indent = " " * (len(line) - len(words))
        # A word that is longer than the screen, such as a path, is not broken.
        pieces += textwrap.wrap(
            printable(words), console.width, initial_indent=indent, subsequent_indent=indent, break_long_words=False,
            break_on_hyphens=False,
        ) or [""]  # fmt: skip
    return [Text(piece, style) for piece in pieces]


def say(text: str, style: str = "") -> None:
    """Prints a line of plain text, which is not wrapped."""
    console.print(Text(printable(text), style), soft_wrap=True)


def note(*texts: str) -> None:
    """Prints each text as a line on stderr, so that it is no part of the output of --json or --csv."""
    for text in texts:
        print(f"note: {shortened(printable(text), LONGEST_LINE)}", file=sys.stderr)
