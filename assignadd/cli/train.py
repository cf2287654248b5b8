"""assignadd train, assignadd train zoom"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from assignadd.cli import options
from assignadd.cli.options import FromPreset, OnDevice, OneRun, OwnFiles
from assignadd.cli.progress import showing_training
from assignadd.cli.screen import note, say
from assignadd.config import Config, Member, Model, Task
from assignadd.config.errors import UsageError

if TYPE_CHECKING:
    from assignadd.runs.folder import Run
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
        seeds = options.parse_seeds(self.seeds)
        device = options.resolve_device(self.device)
        threads = self.cores
        from assignadd.runs.config_json import with_files
        from assignadd.runs.folder import default_folder

        settings = self.settings
        if self.task_ is not None and settings.task not in (self.base.task, Task()):
            raise UsageError(f"settings of assign-and-add, --task.NAME, do not go with --task {self.task_}")
        if self.network is not None and settings.model not in (self.base.model, Model()):
            raise UsageError(f"settings of the transformer, --model.NAME, do not go with --network {self.network}")
        settings = with_files(settings, self.task_, self.network)
        out = self.out or default_folder(settings, [Member(seed) for seed in seeds])
        train_on_screen(settings, seeds, out, device, threads, self.observe)


def train_on_screen(
    config: Config, seeds: list[int], out: Path, device: str, threads: int, observe: str | None = None
) -> None:
    """Trains a model of each seed into the folder `out`, shows the progress, and says what came out.

    `observe` names a function in a file of the user's.
    """
    from assignadd.measures.columns import ProgressObserver
    from assignadd.task.splits import splits_of
    from assignadd.training.loop import train_run

    members = [Member(seed) for seed in seeds]
    # The progress measures are about the paper's task and transformer.
    observer: Observer | None = None if config.task.file or config.model.file else ProgressObserver
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
    """The observer of a function FILE.py:NAME beside another observer."""
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
