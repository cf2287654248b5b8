"""The progress of training: on a terminal lines that are replaced, in a log some lines every half minute."""

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
    from assignadd.sweeps.jobs import Job
    from assignadd.training.loop import TrainingProgress

SCREEN_SECONDS, LOG_SECONDS = 0.25, 30.0
# Of so many models the accuracies are shown while they train.
MOST_MODELS = 8


class TrainingScreen:
    """How many of a number of updates are made, how fast, and lines of details."""

    def __init__(self, title: str, total: int, unit: str):
        self.title, self.total, self.unit = title, total, unit
        self.status = console.status(Text(title))
        self.first_done: int | None = None
        self.first_time = 0.0
        self.shown_at = 0.0

    def show(self, done: int, details: Callable[[], Iterable[str]]) -> None:
        """Shows how many updates are made; `details` are computed when it is time to show them."""
        now = time.monotonic()
        if self.first_done is None:
            self.first_done, self.first_time = done, now
        seconds = SCREEN_SECONDS if console.is_terminal else LOG_SECONDS
        if now - self.shown_at < seconds and done < self.total:
            return
        self.shown_at = now
        rate = (done - self.first_done) / max(now - self.first_time, 1e-9)
        left = f", {rate:,.1f} {self.unit}/s, {(self.total - done) / rate / 60:.1f} min left" if rate > 0 else ""
        lines = [f"{self.title}: {done:,} of {self.total:,} {self.unit}{left}", *(f"  {line}" for line in details())]
        if console.is_terminal:
            self.status.start()  # here, as training forks its processes before its first report
            self.status.update(Text("\n".join(lines)))
        else:
            for line in lines:
                say(line)


@contextmanager
def showing_training(title: str, steps: int, task: Task) -> Iterator[Callable[[TrainingProgress], None]]:
    """A listener that shows the steps of a run, and the losses and accuracies of its first models."""
    from assignadd.task.evalsets import all_sets

    labels = {s.name: s.label.split(",")[0] for s in all_sets(task) if task.file or s.name.endswith(" train")}
    screen = TrainingScreen(title, steps, "steps")

    def listener(progress: TrainingProgress) -> None:
        for text in progress.notes:
            say(f"note: {text}", "yellow")
        screen.show(progress.step, lambda: _of_models(progress, labels))

    try:
        yield listener
    finally:
        screen.status.stop()


def _of_models(progress: TrainingProgress, labels: dict[str, str]) -> Iterator[str]:
    """A line for each of the first models, if there is an evaluation yet."""
    for row, loss in list(zip(progress.rows, progress.losses, strict=False))[:MOST_MODELS]:
        scores = [f"{label} {row['accuracy'][name]:.2f}" for name, label in labels.items()]
        shown_loss = "" if math.isnan(loss) else f"loss {loss:.3f}; "
        yield f"seed {row['seed']}: {shown_loss}accuracy at step {row['step']:,}: {', '.join(scores)}"


@contextmanager
def showing_sweep(title: str, jobs: Sequence[Job], quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """A listener that takes (job, step), and shows the updates made over all models and the stacks finished."""
    steps = [job.done for job in jobs]
    screen = TrainingScreen(title, sum(job.config.optim.steps * len(job.members) for job in jobs), "model-steps")

    def finished() -> list[str]:
        n = sum(step >= job.config.optim.steps for step, job in zip(steps, jobs, strict=True))
        return [f"{n} of {len(jobs)} stacks finished"]

    def listener(job: int, step: int) -> None:
        steps[job] = max(step, steps[job])
        if not quiet:
            screen.show(sum(s * len(j.members) for s, j in zip(steps, jobs, strict=True)), finished)

    try:
        yield listener
    finally:
        screen.status.stop()
