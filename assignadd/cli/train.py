"""assignadd train, assignadd train zoom; and the progress of training, also that of sweeps

On a terminal the lines are replaced; in a log new lines are added every half minute.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from assignadd.cli import options
from assignadd.cli.options import FromPreset, OnDevice, OneRun, OwnFiles
from assignadd.cli.screen import console, note, say
from assignadd.config import Config, Member, Model, Task, has_code_of_user
from assignadd.config.errors import UsageError

if TYPE_CHECKING:
    from assignadd.runs.folder import Run
    from assignadd.sweeps.plan import Job
    from assignadd.training.loop import TrainingProgress
    from assignadd.training.trainer import Observer


@dataclass(frozen=True, kw_only=True)
class Train(FromPreset, OwnFiles, OnDevice):
    """Train a stack of models, one per seed, into a run folder.

    Several models train in parallel, with one thread each; a single model uses all threads, which rounds differently.
    The same command continues an interrupted run. SIGTERM and Ctrl-C save the run first; exit codes 143 and 130.
    """

    settings: Config = field(default_factory=Config)
    seeds: str = "0"
    """One model per seed: 3, 0..31 or 0,4,7."""
    out: Path | None = None
    """The run folder. If None, runs/PRESET-SEEDS, and six digits of a hash where settings differ from the preset."""
    observe: str | None = None
    """FILE.py:FUNCTION, a measure of yours: its columns stand in the metrics. The file is executed (docs/extend.md)."""

    def main(self) -> None:
        """Trains the models into the run folder, and shows how far they are."""
        seeds = options.parse_seeds(self.seeds)
        device = options.resolve_device(self.device)
        threads = self.cores
        from assignadd.runs.config_json import with_files
        from assignadd.runs.naming import default_folder

        settings = self.settings
        base = options.base_config(self.preset, self.config)
        if self.task_ is not None and settings.task not in (base.task, Task()):
            raise UsageError(f"settings of assign-and-add, --task.NAME, do not go with --task {self.task_}")
        if self.network is not None and settings.model not in (base.model, Model()):
            raise UsageError(f"settings of the transformer, --model.NAME, do not go with --network {self.network}")
        settings = with_files(settings, self.task_, self.network)
        out = self.out or default_folder(settings, [Member(seed) for seed in seeds])
        train_on_screen(settings, seeds, out, device, threads, self.observe)


def train_on_screen(
    config: Config, seeds: list[int], out: Path, device: str, threads: int, observe: str | None = None
) -> None:
    """Trains a model for each seed, showing the progress; `observe` names a function in a file of the user's."""
    from assignadd.measures.columns import ProgressObserver
    from assignadd.task.splits import splits_of
    from assignadd.training.loop import train_run

    members = [Member(seed) for seed in seeds]
    # The progress measures are about the paper's task and transformer.
    observer: Observer | None = None if has_code_of_user(config) else ProgressObserver
    if observe is not None:
        observer = named_measure(observe, config, members[0], observer)
    seen = splits_of([member.config(config) for member in members])  # (M, N, N): the pairs that training may add
    if config.record.measure_every:  # 0: nothing is measured in training
        note_not_defined(config)
    with showing_training(out.name, config.optim.steps, config.task) as listener:
        run = train_run(out, config, members, seen, device, threads, listener, observe=observer)
    _say_diverged(run)
    say(f"{out}: {len(seeds)} model{'s' * (len(seeds) > 1)} at step {run.step:,}")


def named_measure(text: str, config: Config, member: Member, base: Observer | None) -> Observer:
    """An observer that calls the function FILE.py:NAME of the user's, after the observer `base` if there is one."""
    from assignadd.measures.own import function_named, own_measure

    function, path = function_named(text)
    return own_measure(function, config, member, base, path)


def note_not_defined(config: Config) -> None:
    """Notes which measures are not defined for this architecture: a line for each reason, with their names."""
    from assignadd.measures.columns import not_defined

    by_reason: dict[str, list[str]] = {}
    for name, reason in not_defined(config).items():
        by_reason.setdefault(reason, []).append(name)
    for reason, names in by_reason.items():
        note(f"not defined for this network, and left out: {', '.join(names)} ({reason})")


def _say_diverged(run: Run) -> None:
    """Prints a line for each model of a run that diverged."""
    for member, step in zip(run.members, run.diverged_at, strict=True):
        if step is not None:
            say(f"seed {member.seed} diverged at step {step}: its loss was not finite; it stopped there")


@dataclass(frozen=True, kw_only=True)
class Zoom(OneRun, OwnFiles):
    """Train a part of a run again, bit for bit the same, with checkpoints closer together."""

    around: int
    """The step in the middle."""
    every: int = 10
    """Steps between checkpoints."""
    within: int = 200
    """Steps before and after the middle."""
    out: Path | None = None
    """The new run folder. If None, RUN-zoom-STEP beside the run."""

    def main(self) -> None:
        """Trains the steps again into a new run folder, and prints where it is."""
        from assignadd.runs.folder import check_files, open_run
        from assignadd.training.loop import zoom

        run = open_run(self.run)
        check_files(run, self.task_, self.network)
        folder = Path(os.path.abspath(run.path))  # absolute, as the path "." has no name
        out = self.out or folder.with_name(f"{run.name}-zoom-{self.around}")
        with showing_training(out.name, min(run.step, self.around + self.within), run.config.task) as listener:
            zoomed, differing = zoom(run, out, self.around, self.every, self.within, listener)
        if differing:
            note(f"the weights differ from those of {run.name} from step {differing[0]} on: other rounding here")
        _say_diverged(zoomed)
        say(f"{zoomed.path}: {len(zoomed.steps)} checkpoints from step {zoomed.steps[0]:,} to {zoomed.steps[-1]:,}")


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
        self.first: tuple[int, float] | None = None  # updates and time at the first report: a run may be continued
        self.shown_at = 0.0  # when the last report was shown, in seconds

    def show(self, done: int, details: Callable[[], list[str]]) -> None:
        """Shows that `done` updates are made, unless the last report was shown just before and more will follow."""
        now = time.monotonic()
        self.first = self.first or (done, now)
        seconds_between = SCREEN_SECONDS if console.is_terminal else LOG_SECONDS
        if now - self.shown_at < seconds_between and done < self.total:
            return
        self.shown_at = now
        first_done, first_time = self.first
        line = f"{self.title}: {done:,} of {self.total:,} {self.unit}"
        if done > first_done:
            rate = (done - first_done) / (now - first_time)
            line += f", {rate:,.1f} {self.unit}/s, {(self.total - done) / rate / 60:.1f} min left"
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

    The accuracies are those on the sets that are drawn as in training; of a task of the user's own, on all sets.
    """
    from assignadd.task.evalsets import all_sets

    shown = [evalset for evalset in all_sets(task) if task.file is not None or evalset.name.endswith(" train")]
    labels = {evalset.name: evalset.label.split(",")[0] for evalset in shown}  # such as "literals alone"
    screen = TrainingScreen(title, steps, "steps")

    def listener(progress: TrainingProgress) -> None:
        for text in progress.notes:
            say(f"note: {text}", "yellow")
        screen.show(progress.step, lambda: _model_lines(progress, labels))

    try:
        yield listener
    finally:
        screen.status.stop()


def _model_lines(progress: TrainingProgress, labels: dict[str, str]) -> list[str]:
    """A line for each of the first models: its loss, and its last accuracies; none before the first evaluation."""
    lines = []
    for row, loss in zip(progress.rows[:MOST_MODELS], progress.losses, strict=False):
        accuracies = ", ".join(f"{label} {row['accuracy'][name]:.2f}" for name, label in labels.items())
        shown_loss = "" if math.isnan(loss) else f"loss {loss:.3f}; "
        lines.append(f"seed {row['seed']}: {shown_loss}accuracy at step {row['step']:,}: {accuracies}")
    return lines


@contextmanager
def showing_sweep(title: str, jobs: Sequence[Job], quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """A listener to call with (index of a job, its step), which shows the progress of all jobs together.

    A job trains a stack of models. Updates are counted once for each model; nothing is shown if `quiet`.
    """
    steps = [job.done for job in jobs]  # of each job, the last step that was reported
    screen = TrainingScreen(title, sum(job.config.optim.steps * len(job.members) for job in jobs), "model-steps")

    def details() -> list[str]:
        n_finished = sum(step >= job.config.optim.steps for step, job in zip(steps, jobs, strict=True))
        return [f"{n_finished} of {len(jobs)} stacks finished"]

    updates = sum(done * len(job.members) for done, job in zip(steps, jobs, strict=True))

    def listener(index: int, step: int) -> None:
        nonlocal updates
        if step > steps[index]:
            updates += (step - steps[index]) * len(jobs[index].members)
            steps[index] = step
        if not quiet:
            screen.show(updates, details)

    try:
        yield listener
    finally:
        screen.status.stop()
