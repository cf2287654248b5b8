"""assignadd train; and the progress of training, also that of sweeps

On a terminal the lines are replaced; in a log new lines are added every half minute.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from assignadd.cli import options
from assignadd.cli.options import FromPreset, OnDevice, OwnFiles
from assignadd.cli.screen import console, note, say
from assignadd.config import Config, Member, Model, Task
from assignadd.config.errors import UsageError

if TYPE_CHECKING:
    from assignadd.sweeps.plan import Job
    from assignadd.training.loop import TrainingProgress


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
        seeds = options.parse_seeds(self.seeds)
        device = options.resolve_device(self.device)
        threads = self.cores
        from assignadd.runs.config_json import with_files
        from assignadd.runs.naming import default_folder

        base = options.base_config(self.preset, self.config)
        if self.task_ is not None and self.settings.task not in (base.task, Task()):
            raise UsageError(f"settings of assign-and-add, --task.NAME, do not go with --task {self.task_}")
        if self.network is not None and self.settings.model not in (base.model, Model()):
            raise UsageError(f"settings of the transformer, --model.NAME, do not go with --network {self.network}")
        settings = with_files(self.settings, self.task_, self.network)
        out = self.out or default_folder(settings, [Member(seed) for seed in seeds])
        train_on_screen(settings, seeds, out, device, threads, self.observe)


def train_on_screen(
    config: Config, seeds: list[int], out: Path, device: str, threads: int, observe: str | None = None
) -> None:
    """Trains a model for each seed, showing the progress; `observe` names a function in a file of the user's."""
    from assignadd import api
    from assignadd.measures.own import function_named

    if config.record.measure_every:  # 0: nothing is measured in training
        note_undefined_measures(config)
    function = None if observe is None else function_named(observe)[0]  # without its file
    with showing_training(out.name, config.optim.steps, config.task) as listener:
        run = api.train(config, seeds, out, device, threads, listener, observe=function)
    for member, step in zip(run.members, run.diverged_at, strict=True):
        if step is not None:
            say(f"seed {member.seed} diverged at step {step}: its loss was not finite; it stopped there")
    say(f"{out}: {len(seeds)} model{'s' * (len(seeds) > 1)} at step {run.step:,}")


def note_undefined_measures(config: Config) -> None:
    """Notes which measures are not defined for this architecture: a line for each reason, with their names."""
    from assignadd.measures.columns import not_defined

    by_reason: dict[str, list[str]] = {}
    for name, reason in not_defined(config).items():
        by_reason.setdefault(reason, []).append(name)
    for reason, names in by_reason.items():
        note(f"not defined for this network, and left out: {', '.join(names)} ({reason})")


# The least seconds between two reports: on a terminal, and in a log.
SCREEN_SECONDS = 0.25
LOG_SECONDS = 30.0
# The accuracies of at most this many models are shown while they train.
MOST_MODELS = 8


@contextmanager
def _training_screen(title: str, total: int, unit: str) -> Iterator[Callable[[int, Callable[[], list[str]]], None]]:
    """A context with a function `show(done, details)`, which reports that `done` of `total` updates are made.

    The report says how fast, and has the further lines that `details` returns. Nothing is shown if the last report was
    shown just before and more will follow.
    """
    status = console.status(Text(title))
    calls = 0  # of `show`
    first_done = 0  # updates at the second call: what is done before it may have waited for a compiler
    started = shown_at = 0.0  # the times of the second call and of the last report, in seconds

    def show(done: int, details: Callable[[], list[str]]) -> None:
        nonlocal calls, first_done, started, shown_at
        now = time.monotonic()
        calls += 1
        if calls <= 2:
            first_done, started = done, now
        seconds_between = SCREEN_SECONDS if console.is_terminal else LOG_SECONDS
        if now - shown_at < seconds_between and done < total:
            return
        shown_at = now
        line = f"{title}: {done:,} of {total:,} {unit}"
        if done > first_done:
            rate = (done - first_done) / (now - started)
            line += f", {rate:,.1f} {unit}/s, {(total - done) / rate / 60:.1f} min left"
        lines = [line, *(f"  {detail}" for detail in details())]
        if console.is_terminal:
            status.start()  # not earlier: it starts a thread, and training forks before its first report
            status.update(Text("\n".join(lines)))
        else:
            for line in lines:
                say(line)

    try:
        yield show
    finally:
        status.stop()


@contextmanager
def showing_training(title: str, steps: int, task: Task) -> Iterator[Callable[[TrainingProgress], None]]:
    """A context with a listener for training: it shows the step, and losses and accuracies of the first models."""
    from assignadd.task.evalsets import all_sets

    # The sets that are drawn as in training; of a task of the user's own, all sets.
    shown = [evalset for evalset in all_sets(task) if task.file is not None or evalset.name.endswith(" train")]
    labels = {evalset.name: evalset.label.split(",")[0] for evalset in shown}  # such as "literals alone"
    with _training_screen(title, steps, "steps") as show:

        def listener(progress: TrainingProgress) -> None:
            for text in progress.notes:
                say(f"note: {text}", "yellow")
            show(progress.step, lambda: _model_lines(progress, labels))

        yield listener


def _model_lines(progress: TrainingProgress, labels: dict[str, str]) -> list[str]:
    """A line for each of the first models: its loss, and its last accuracies. `labels` has the sets that are shown."""
    lines = []
    # There is a loss of every model, and a row of the last evaluation (none at first) of those that are shown.
    for row, loss in zip(progress.rows[:MOST_MODELS], progress.losses, strict=False):
        accuracies = ", ".join(f"{label} {row['accuracy'][name]:.2f}" for name, label in labels.items())
        shown_loss = "" if math.isnan(loss) else f"loss {loss:.3f}; "
        lines.append(f"seed {row['seed']}: {shown_loss}accuracy at step {row['step']:,}: {accuracies}")
    return lines


@contextmanager
def showing_sweep(title: str, jobs: Sequence[Job], quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """A context with a listener, called with the index of a job and its step; it shows the progress of all jobs.

    A job trains a stack of models. Updates are counted once for each model; nothing is shown if `quiet`.
    """
    last_steps = [job.done for job in jobs]  # that each job reported
    updates = sum(job.done * len(job.members) for job in jobs)
    total = sum(job.config.optim.steps * len(job.members) for job in jobs)

    def details() -> list[str]:
        n_finished = sum(step >= job.config.optim.steps for step, job in zip(last_steps, jobs, strict=True))
        return [f"{n_finished} of {len(jobs)} stacks finished"]

    with _training_screen(title, total, "model-steps") as show:

        def listener(index: int, step: int) -> None:
            nonlocal updates
            if step > last_steps[index]:
                updates += (step - last_steps[index]) * len(jobs[index].members)
                last_steps[index] = step
            if not quiet:
                show(updates, details)

        yield listener
