"""The progress of training: on a terminal lines that are replaced, elsewhere (a log) some lines every half minute."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.text import Text

from assignadd.cli.screen import console, say

if TYPE_CHECKING:
    from assignadd.config import Task
    from assignadd.sweeps.plan import Job
    from assignadd.training.loop import TrainingProgress

# The least time between two reports: on a terminal, and elsewhere.
SCREEN_SECONDS, LOG_SECONDS = 0.25, 30.0
# The accuracies of at most this many models are shown while they train.
MOST_MODELS = 8


class TrainingScreen:
    """Shows how many of `total` updates are made, how fast, and lines of details."""

    def __init__(self, title: str, total: int, unit: str):
        self.title = title
        self.total = total
        self.unit = unit
        self.status = console.status(Text(title))
        self.first_done: int | None = None
        """How many updates were made at the first report: a run that is continued does not begin at 0."""
        self.first_time = 0.0
        """When that report was made, in seconds."""
        self.shown_at = 0.0
        """When the last report was shown, in seconds."""

    def show(self, done: int, details: Callable[[], Iterable[str]]) -> None:
        """Shows that `done` updates are made, unless the last report was shown just before and more will follow.

        `details` is called for the lines of details only if they are shown.
        """
        now = time.monotonic()
        if self.first_done is None:
            self.first_done = done
            self.first_time = now
        seconds_between = SCREEN_SECONDS if console.is_terminal else LOG_SECONDS
        if now - self.shown_at < seconds_between and done < self.total:
            return
        self.shown_at = now
        seconds = max(now - self.first_time, 1e-9)  # not 0 at the first report
        rate = (done - self.first_done) / seconds
        line = f"{self.title}: {done:,} of {self.total:,} {self.unit}"
        if rate > 0:
            minutes_left = (self.total - done) / rate / 60
            line += f", {rate:,.1f} {self.unit}/s, {minutes_left:.1f} min left"
        lines = [line, *(f"  {detail}" for detail in details())]
        if console.is_terminal:
            self.status.start()  # here, as training forks its processes before its first report
            self.status.update(Text("\n".join(lines)))
        else:
            for line in lines:
                say(line)


@contextmanager
def showing_training(title: str, steps: int, task: Task) -> Iterator[Callable[[TrainingProgress], None]]:
    """A listener for training, which shows the steps of a run, and the losses and accuracies of its first models.

    The accuracies are those on the sets that are drawn as in training, "0-var train" and so on.
    """
    from assignadd.task.evalsets import all_sets

    # By the name of a set the first part of its label, such as "literals alone"; of a task of the user's own all sets.
    shown = [s for s in all_sets(task) if task.file is not None or s.name.endswith(" train")]
    short_labels = {s.name: s.label.split(",")[0] for s in shown}
    screen = TrainingScreen(title, steps, "steps")

    def listener(progress: TrainingProgress) -> None:
        for text in progress.notes:
            say(f"note: {text}", "yellow")
        screen.show(progress.step, lambda: _model_lines(progress, short_labels))

    try:
        yield listener
    finally:
        screen.status.stop()


def _model_lines(progress: TrainingProgress, labels: dict[str, str]) -> Iterator[str]:
    """A line for each of the first models: its loss, and its last accuracy on the sets that have labels here.

    There are no lines before the first evaluation: `progress.rows` is empty then.
    """
    rows = progress.rows[:MOST_MODELS]
    for row, loss in zip(rows, progress.losses, strict=False):
        accuracies = [f"{label} {row['accuracy'][name]:.2f}" for name, label in labels.items()]
        shown_loss = "" if math.isnan(loss) else f"loss {loss:.3f}; "
        yield f"seed {row['seed']}: {shown_loss}accuracy at step {row['step']:,}: {', '.join(accuracies)}"


@contextmanager
def showing_sweep(title: str, jobs: Sequence[Job], quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """A listener to call with (index of a job, its step), which shows the progress of all jobs together.

    A job trains a stack of models. Shown are the updates, counted once for each model, and how many stacks are
    finished; nothing if `quiet`.
    """
    steps = [job.done for job in jobs]  # of each job, the last step that was reported
    updates_in_all = sum(job.config.optim.steps * len(job.members) for job in jobs)
    screen = TrainingScreen(title, updates_in_all, "model-steps")

    def finished_line() -> list[str]:
        n_finished = sum(step >= job.config.optim.steps for step, job in zip(steps, jobs, strict=True))
        return [f"{n_finished} of {len(jobs)} stacks finished"]

    def listener(index: int, step: int) -> None:
        steps[index] = max(step, steps[index])
        if not quiet:
            updates = sum(done * len(job.members) for done, job in zip(steps, jobs, strict=True))
            screen.show(updates, finished_line)

    try:
        yield listener
    finally:
        screen.status.stop()
