"""What the commands print: tables for people, JSON for programs, and progress while they work."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape as escape_markup
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from assignadd.config.errors import LONGEST_LINE, printable, shortened

if TYPE_CHECKING:
    from assignadd.sweeps.jobs import Job
    from assignadd.training.loop import TrainingProgress

T = TypeVar("T")


def escape(text: str) -> str:
    """Plain text for the console: neither markup nor control characters in it have an effect."""
    return escape_markup("\n".join(map(printable, text.split("\n"))))


console = Console(highlight=False)
SCREEN_SECONDS, LOG_SECONDS = 0.25, 30.0


def say(text: str, style: str = "") -> None:
    """A line of plain text, never read as markup and never broken."""
    console.print(escape(text), style=style, soft_wrap=True)


def note(*texts: str) -> None:
    """Lines beside the output proper: on stderr, so that --json stays clean."""
    for text in texts:
        print(f"note: {shortened(printable(text), LONGEST_LINE)}", file=sys.stderr)


def print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=2, allow_nan=False) + "\n")


def show(found: T, as_json: bool, for_people: Callable[[T], object]) -> None:
    """Prints what a command found, as JSON or for people."""
    (print_json if as_json else for_people)(found)


# Cells up to this many characters stay on one line.
LONGEST_UNSPLIT = 16


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], caption: str | None = None) -> Table:
    """A table with names in the first column and numbers, which are never split, or texts in the others.

    On a narrow screen headers and long texts wrap.
    """
    out = Table(
        title=escape(title),
        caption=caption and escape(caption),
        title_justify="left",
        caption_justify="left",
        header_style="bold",
        box=SIMPLE_HEAD,
    )
    for i, column in enumerate(columns):
        longest = max((len(str(row[i])) for row in rows), default=0)
        short = longest <= LONGEST_UNSPLIT
        out.add_column(
            escape(column),
            justify="right" if i and short else "left",
            overflow="fold",
            no_wrap=i == 0 and short,
            min_width=longest if i and short else None,
        )
    for row in rows:
        out.add_row(*(escape(str(cell)) for cell in row))
    return out


def print_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], caption: str | None = None
) -> None:
    console.print(table(title, columns, rows, caption))


def _progress(*columns: str) -> Progress:
    """A bar with these columns of text, and the time that has passed and that is left."""
    title, bar = TextColumn("{task.description}", markup=False), BarColumn(bar_width=None)
    times = TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn()
    return Progress(SpinnerColumn(), title, bar, *columns, *times, console=console, transient=True)


@contextmanager
def counting(title: str, things: str) -> Iterator[Callable[[int, int], None]]:
    """A bar for work that counts what it has done; the listener takes (done, total). Nothing is shown in a log."""
    with _progress("{task.completed:,.0f} / {task.total:,.0f} " + things) as bar:
        task = bar.add_task(title, total=1)
        yield lambda done, total: bar.update(task, completed=done, total=total)


class TrainingScreen:
    """A listener for the training loop: a live screen on a terminal, a line now and then in a log."""

    def __init__(self, title: str, steps: int):
        self.title, self.steps = title, steps
        self.bar = _progress("{task.completed:>6,.0f} / {task.total:,.0f}", "{task.fields[rate]:5.1f} steps/s")
        self.task = self.bar.add_task(title, total=steps, rate=0.0)
        self.live = Live(self.bar, console=console, refresh_per_second=4, transient=True)
        self._first: tuple[float, int] | None = None
        self._shown = 0.0

    def __enter__(self) -> TrainingScreen:
        return self  # the screen's thread starts with the first report, after training has forked its processes

    def __exit__(self, *_: object) -> None:
        self.live.stop()

    def __call__(self, progress: TrainingProgress) -> None:
        now = time.monotonic()
        for note in progress.notes:
            say(f"note: {note}", "yellow")
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
            self.live.update(Group(self.bar, self._accuracies(progress)))
        else:
            say(self._line(progress, rate))

    def _line(self, progress: TrainingProgress, rate: float) -> str:
        to_go = (self.steps - progress.step) / rate if rate > 0 else 0.0
        loss = " ".join(f"{x:.3f}" for x in progress.losses[:8])
        text = f"{self.title}: step {progress.step:,} / {self.steps:,}"
        if rate > 0:
            text += f", {rate:.1f} steps/s, {to_go / 60:.1f} min left, loss {loss}"
        for row in progress.rows[:8]:
            scores = " ".join(f"{row['accuracy'][name]:.2f}" for name in _shown(row))
            text += f"\n  seed {row['seed']} at {row['step']:,}: {scores}"
        return text

    def _accuracies(self, progress: TrainingProgress) -> Table:
        out = Table(box=None, padding=(0, 1), header_style="dim")
        out.add_column("seed", justify="right")
        out.add_column("loss", justify="right")
        names = list(dict.fromkeys(name for row in progress.rows for name in _shown(row)))
        for name in names:
            out.add_column(name.replace("-restricted", "").replace("-var ", "v "), justify="right")
        for row, loss in list(zip(progress.rows, progress.losses, strict=False))[:16]:
            cells = [_shaded(row["accuracy"].get(name)) for name in names]
            out.add_row(str(row["seed"]), "diverged" if row["diverged_at"] is not None else f"{loss:.3f}", *cells)
        return out


def _shown(row: Mapping[str, Any]) -> list[str]:
    """The evaluation sets of a row for the screen: all but those that are held out in two ways."""
    return [name for name in row["accuracy"] if "doubly" not in name]


def _shaded(accuracy: float | None) -> str:
    if accuracy is None:
        return "[dim]-"
    colour = "green" if accuracy >= 0.98 else "yellow" if accuracy >= 0.5 else "dim"
    return f"[{colour}]{accuracy:.3f}"


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
        return (
            f"{sum(s >= job.config.optim.steps for s, job in zip(self.steps, self.jobs, strict=True))}/{len(self.jobs)}"
        )

    def __enter__(self) -> SweepScreen:
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar.live.is_started:
            self.bar.stop()

    def __call__(self, job: int, step: int) -> None:
        self.steps[job] = max(step, self.steps[job])
        now, made = time.monotonic(), self._made
        rate = (made - self._first[1]) / max(now - self._first[0], 1e-9)
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
                f"{rate:,.0f} a second, {left:.1f} min left"
            )
