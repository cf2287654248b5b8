"""What the commands print: tables for people, as JSON and as CSV; and progress while they work."""

from __future__ import annotations

import csv
import json
import math
import statistics
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape as escape_markup
from rich.padding import Padding
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.segment import Segment, Segments
from rich.style import Style
from rich.table import Table as RichTable
from rich.text import Text

from assignadd.config.errors import LONGEST_LINE, printable, shortened

if TYPE_CHECKING:
    from assignadd.config import Task
    from assignadd.sweeps.jobs import Job
    from assignadd.training.loop import TrainingProgress

console = Console(highlight=False)
SCREEN_SECONDS, LOG_SECONDS = 0.25, 30.0
# The lines that people see unless they ask for all, and the rows that a table keeps where it is cut to fit them.
MOST_LINES, LEAST_ROWS = 40, 3
# Tables up to so many rows are shown with their details.
FEW_ROWS = 8
# As many models have a column each; of more, the lowest, the median and the highest number are shown.
MOST_COLUMNS = 5
# In a crowded table the headings of numbers are wrapped to this many characters.
LONGEST_HEADING = 10
# Texts up to this many characters stay on one line.
SHORT = 18
# Of longer texts, words up to this many characters do.
LONGEST_WORD = 24
Line = list[Segment]


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

    def text(self, value: Any) -> str:
        """A value as people read it."""
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return "-"
        if isinstance(value, bool):
            return "yes" if value else "no"
        return format(value, self.form or ",") if isinstance(value, int | float) else escape(str(value))

    def cell(self, value: Any) -> str:
        style = self.style(value) if self.style and value is not None else ""
        return f"[{style}]{self.text(value)}[/]" if style else self.text(value)


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
    """What a command found: lines and tables in the order in which people read them."""

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


def print_output(output: Output, options: Printing) -> None:
    """Prints what a command found, for people unless its options say otherwise."""
    table = output.csv or next((part for part in output.parts if isinstance(part, Table)), None)
    if options.json:
        document = table.records if output.json is None and isinstance(table, Table) else output.json
        sys.stdout.write(json.dumps(document, indent=2, allow_nan=False) + "\n")
    elif options.csv and isinstance(table, Table):
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(table.records[0] if table.rows else [c.name for c in table.columns if c.only != "people"])
        writer.writerows(record.values() for record in table.records)
    elif options.csv:
        sys.stdout.write(str(table or ""))
    else:
        for line in screen_lines(output.parts, options.all):
            console.print(Segments([*line, Segment.line()]), soft_wrap=True, end="")


def screen_lines(parts: Sequence[Table | str | Text], everything: bool) -> list[Line]:
    """The lines of an output for people; unless they ask for everything, the longest tables are cut to one screen."""
    blocks = [_lines(part, everything) for part in parts]
    tables = [i for i, part in enumerate(parts) if isinstance(part, Table)]
    for i in sorted(tables, key=lambda i: len(blocks[i]), reverse=True):
        excess = sum(map(len, blocks)) + len(tables) - MOST_LINES
        if excess > 0 and not everything:
            blocks[i] = _cut_lines(parts[i], len(blocks[i]) - excess)  # type: ignore[arg-type]
    lines: list[Line] = []
    for part, block in zip(parts, blocks, strict=True):
        if isinstance(part, Table) and lines and _is_text(lines[-1]):
            lines.append([])
        lines += block
    return lines


def _is_text(line: Line) -> bool:
    return any(segment.text.strip() for segment in line)


def _lines(part: Table | str | Text, everything: bool) -> list[Line]:
    """The lines of one part of an output, all of them; a table of few rows is shown with its details."""
    if isinstance(part, str):
        return _paragraph(part)
    if isinstance(part, Text):
        return console.render_lines(part, pad=False)
    has_details = any(column.only == "detail" for column in part.columns)
    if has_details and (everything or len(part.rows) <= FEW_ROWS):
        lines = [line for row in part.rows for line in _row_with_details(part, row)]
    else:
        lines = console.render_lines(rich_table(part), pad=False)
    return lines + _paragraph(part.caption)


def _cut_lines(table: Table, most: int) -> list[Line]:
    """The lines of a table without its details, and with as many of its rows as fit into so many lines (or three)."""
    for n in range(len(table.rows), 0, -1):
        left_out = f"... {n:,} of {len(table.rows):,} rows"
        if n == len(table.rows):
            left_out = "... without their details"
        rows = console.render_lines(rich_table(replace(table, rows=table.rows[:n])), pad=False)
        hint = [Segment(f"{left_out}: --all prints everything, --csv and --json too", Style(dim=True))]
        lines = [*rows[:-1], hint, *_paragraph(table.caption)]
        if len(lines) <= most or n <= LEAST_ROWS:
            return lines
    return _lines(table, False)


def _row_with_details(table: Table, row: Sequence[Any]) -> list[Line]:
    """A row as a paragraph: the first two cells are its heading, then the numbers, then the texts."""
    shown = [(c, value) for c, value in zip(table.columns, row, strict=True) if c.only != "data" and value is not None]
    heading = ": ".join(f"[bold]{c.cell(value)}[/]" for c, value in shown[:2])
    lines = [list(Text.from_markup(heading, end="").render(console))]  # an id is never broken
    numbers = [f"{c.label or c.name}: {c.cell(value)}" for c, value in shown[2:] if c.only != "detail" and value != ""]
    texts = [(f"{c.label}: " if c.label else "") + c.cell(value) for c, value in shown[2:] if c.only == "detail"]
    for text in (", ".join(numbers), *texts):
        if text:
            lines += console.render_lines(Padding(text, (0, 0, 0, 4)), pad=False)
    return lines


def rich_table(table: Table) -> RichTable:
    """The table for a terminal: numbers are never split, texts wrap between words."""
    shown = [(i, column) for i, column in enumerate(table.columns) if column.only in ("", "people")]
    crowded = sum(len(column.label or column.name) + 3 for _, column in shown) > console.width
    texts = {i: [column.text(row[i]) for row in table.rows] for i, column in shown}
    is_number = {i: all(row[i] is None or isinstance(row[i], int | float) for row in table.rows) for i, _ in shown}
    headings = {i: escape(column.label or column.name) for i, column in shown}
    widths = {}
    for i, _ in shown:
        widths[i] = max(map(len, texts[i]), default=0)
        if not is_number[i] and widths[i] > SHORT:
            widths[i] = min(max(len(word) for text in texts[i] for word in text.split()), LONGEST_WORD)
        if is_number[i] and crowded:
            wrapped = textwrap.wrap(headings[i], max(widths[i], LONGEST_HEADING), break_on_hyphens=False)
            headings[i] = "\n".join(wrapped) or " "
    needed = sum(max(widths[i], *map(len, headings[i].split())) for i in widths if headings[i].strip())
    narrow = needed + 2 * len(shown) + 1 > console.width
    excess = needed + len(shown) + 1 - console.width
    if excess > 0:  # the widest column breaks its words too
        widest = max(widths, key=lambda i: widths[i])
        widths[widest] = max(widths[widest] - excess, 1)
    out = RichTable(
        title=escape(table.title) or None,
        title_justify="left",
        title_style="bold",
        box=SIMPLE_HEAD,
        padding=(0, 0) if narrow else (0, 1, 0, 0),
    )
    for i, column in shown:
        justify: Literal["right", "left"] = "right" if is_number[i] or column.only == "people" else "left"
        out.add_column(headings[i], justify=justify, no_wrap=is_number[i], overflow="fold", min_width=widths[i])
    for row in table.rows:
        out.add_row(*(column.cell(row[i]) for i, column in shown))
    return out


def by_model(title: str, rows: Mapping[str, Sequence[float | None]], seeds: Sequence[int], caption: str = "") -> Table:
    """A table with a row for each quantity, and a column for each model or for their range if they are many."""
    if len(seeds) <= MOST_COLUMNS:
        names = [Column(f"seed {seed}", form=".3f") for seed in seeds]
        return Table(title, [Column("quantity", " "), *names], [(k, *values) for k, values in rows.items()], caption)
    ranges: list[tuple[Any, ...]] = []
    for name, values in rows.items():
        present = [value for value in values if value is not None and not math.isnan(value)]
        if present:
            ranges.append((name, min(present), statistics.median(present), max(present)))
        else:
            ranges.append((name, None, None, None))
    names = [Column(name, form=".3f") for name in ("lowest", "median", "highest")]
    return Table(f"{title}, {len(seeds)} models", [Column("quantity", " "), *names], ranges, caption)


def escape(text: str) -> str:
    """Plain text for the console: neither markup nor control characters in it have an effect."""
    return escape_markup("\n".join(map(printable, text.split("\n"))))


def say(text: str, style: str = "") -> None:
    """A line of plain text, never read as markup and never broken."""
    console.print(escape(text), style=style, soft_wrap=True)


def _paragraph(text: str) -> list[Line]:
    """Plain text in lines that fit the screen; a path is never broken."""
    lines: list[Line] = []
    for line in text.splitlines():
        indent = " " * (len(line) - len(line.lstrip()))
        wrapped = textwrap.wrap(
            line, console.width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )
        lines += [[Segment(printable(piece))] for piece in wrapped or [""]]
    return lines


def note(*texts: str) -> None:
    """Lines beside the output proper: on stderr, so that --json stays clean."""
    for text in texts:
        print(f"note: {shortened(printable(text), LONGEST_LINE)}", file=sys.stderr)


def _progress(*texts: str) -> Progress:
    """A bar with these columns of text, and the time that has passed and that is left."""
    title, bar = TextColumn("{task.description}", markup=False), BarColumn(bar_width=None)
    times = TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn()
    return Progress(SpinnerColumn(), title, bar, *texts, *times, console=console, transient=True)


@contextmanager
def counting(title: str, things: str) -> Iterator[Callable[[int, int], None]]:
    """A bar for work that counts what it has done; the listener takes (done, total). Nothing is shown in a log."""
    with _progress("{task.completed:,.0f} / {task.total:,.0f} " + things) as bar:
        task = bar.add_task(title, total=1)
        yield lambda done, total: bar.update(task, completed=done, total=total)


class TrainingScreen:
    """The progress of a run: on a terminal a bar and the accuracies, in a log a line now and then."""

    def __init__(self, title: str, steps: int, task: Task):
        from assignadd.task.evalsets import all_sets

        self.title, self.steps = title, steps
        # Sets that are held out in two ways are left out.
        self.labels = {s.name: s.label for s in all_sets(task) if "doubly" not in s.name}
        self.bar = _progress("{task.completed:,.0f} / {task.total:,.0f} steps", "{task.fields[rate]:,.1f} steps/s")
        self.task = self.bar.add_task(title, total=steps, rate=0.0)
        self.live = Live(console=console, refresh_per_second=4, transient=True)
        self._first: tuple[float, int] | None = None
        self._shown = 0.0

    def __enter__(self) -> TrainingScreen:
        return self  # the screen's thread starts with the first report, after training has forked its processes

    def __exit__(self, *_: object) -> None:
        self.live.stop()

    def __call__(self, progress: TrainingProgress) -> None:
        now = time.monotonic()
        for text in progress.notes:
            say(f"note: {text}", "yellow")
        if self._first is None:
            self._first = now, progress.step
            self.bar.reset(self.task, completed=progress.step, total=self.steps, rate=0.0)
        start, first_step = self._first
        rate = (progress.step - first_step) / max(now - start, 1e-9)
        self.bar.update(self.task, completed=progress.step, rate=rate)
        if now - self._shown < (SCREEN_SECONDS if console.is_terminal else LOG_SECONDS) and progress.step < self.steps:
            return
        self._shown = now
        if console.is_terminal:
            self.live.start()
            self.live.update(Group(self.bar, *self._accuracies(progress)))
        else:
            for line in self._lines(progress, rate):
                say(line)

    def _lines(self, progress: TrainingProgress, rate: float) -> Iterator[str]:
        """A line for the run, and one for each of its first models."""
        speed = f", {rate:.1f} steps/s, {(self.steps - progress.step) / rate / 60:.1f} min left" if rate > 0 else ""
        at = f"; accuracies at step {progress.rows[0]['step']:,}" if progress.rows else ""
        yield f"{self.title}: step {progress.step:,} of {self.steps:,}{speed}{at}"
        trained = {name: label for name, label in self.labels.items() if name.endswith(" train")}
        for row, loss in list(zip(progress.rows, progress.losses, strict=False))[:8]:
            scores = [f"{label.split(',')[0]} {row['accuracy'][name]:.2f}" for name, label in trained.items()]
            yield f"  seed {row['seed']}: " + ", ".join([*([] if math.isnan(loss) else [f"loss {loss:.3f}"]), *scores])

    def _accuracies(self, progress: TrainingProgress) -> Iterator[RenderableType]:
        """The loss and the accuracies of each model, if there is an evaluation yet."""
        if progress.rows:
            pairs = list(zip(progress.rows, progress.losses, strict=False))
            losses = [None if row["diverged_at"] is not None else loss for row, loss in pairs]
            rows = {label: [row["accuracy"].get(name) for row, _ in pairs] for name, label in self.labels.items()}
            title = f"accuracy at step {progress.rows[0]['step']:,}"
            yield rich_table(by_model(title, {"loss": losses} | rows, [row["seed"] for row, _ in pairs]))


class SweepScreen:
    """The progress of a sweep: updates made over all models, and stacks finished."""

    def __init__(self, title: str, jobs: Sequence[Job], quiet: bool = False):
        self.title, self.jobs, self.quiet = title, jobs, quiet
        self.steps = [job.done for job in jobs]
        self.total = sum(job.config.optim.steps * len(job.members) for job in jobs)
        self.bar = _progress("{task.fields[stacks]} stacks", "{task.fields[rate]:,.0f} model-steps/s")
        self.task = self.bar.add_task(title, total=self.total, completed=self._made, stacks=self._stacks, rate=0.0)
        self._first, self._shown = (time.monotonic(), self._made), time.monotonic()

    @property
    def _made(self) -> int:
        return sum(step * len(job.members) for step, job in zip(self.steps, self.jobs, strict=True))

    @property
    def _stacks(self) -> str:
        finished = sum(s >= job.config.optim.steps for s, job in zip(self.steps, self.jobs, strict=True))
        return f"{finished}/{len(self.jobs)}"

    def __enter__(self) -> SweepScreen:
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar.live.is_started:
            self.bar.stop()

    def __call__(self, job: int, step: int) -> None:
        self.steps[job] = max(step, self.steps[job])
        now, made = time.monotonic(), self._made
        first_time, made_before = self._first
        rate = (made - made_before) / max(now - first_time, 1e-9)
        if self.quiet:
            return
        self.bar.update(self.task, completed=made, stacks=self._stacks, rate=rate)
        if console.is_terminal:
            self.bar.start()
        elif now - self._shown > LOG_SECONDS:
            self._shown = now
            left = (self.total - made) / rate / 60 if rate > 0 else 0.0
            say(
                f"{self.title}: {made:,} of {self.total:,} model-steps, {self._stacks} stacks, "
                f"{rate:,.0f} model-steps a second, {left:.1f} min left"
            )
