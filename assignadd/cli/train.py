"""assignadd train, assignadd zoom"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from assignadd.cli import options
from assignadd.cli.screen import TrainingScreen, note, say
from assignadd.config import Config, Member

if TYPE_CHECKING:
    from assignadd.runs.folder import Run


@dataclass(frozen=True)
class Train:
    """Train a stack of models, one per seed, into a run folder.

    The same command continues an interrupted run. SIGTERM and Ctrl-C save the run first; exit codes 143 and 130.
    """

    settings: Annotated[Config, tyro.conf.arg(name="")] = field(default_factory=Config)
    preset: str = "paper"
    """The settings to start from: paper, authors, tiny or smoke."""
    config: Path | None = None
    """A JSON file of settings that replace the preset's; flags replace both."""
    seeds: str = "0"
    """One model per seed: 3, 0..31 or 0,4,7."""
    device: str = "auto"
    """auto, cpu or cuda."""
    threads: int | None = None
    """CPU threads. If None, every core. Several models train in parallel, one thread each; a single model uses all,
    which rounds differently."""
    measure_every: int | None = None
    """Steps between progress measures recorded during training (short for --record.measure-every)."""
    out: Path | None = None
    """The run folder. If None, runs/PRESET-SEEDS, and six digits of a hash where settings differ from the preset."""


def main(arguments: list[str]) -> None:
    base = options.base_config(arguments)
    args = options.read(Train, options.without_files(arguments), "train", default=Train(settings=base))
    seeds = options.parse_seeds(args.seeds)
    device, threads = options.resolve_device(args.device), options.resolve_threads(args.threads)
    settings = args.settings
    if args.measure_every is not None:
        settings = replace(settings, record=replace(settings.record, measure_every=args.measure_every))
    from assignadd.runs.folder import default_folder

    out = args.out or default_folder(settings, [Member(seed) for seed in seeds])
    train_on_screen(settings, seeds, out, device, threads)


def train_on_screen(config: Config, seeds: list[int], out: Path, device: str, threads: int) -> None:
    """Trains with a screen."""
    from assignadd.api import train
    from assignadd.cli.measure import note_not_defined

    if config.record.measure_every:
        note_not_defined(config)
    with TrainingScreen(out.name, config.optim.steps) as screen:
        run = train(config, seeds, out, device, threads, screen)
    _say_diverged(run)
    say(f"{out}: {len(seeds)} model{'s' * (len(seeds) > 1)} at step {run.step:,}")


def _say_diverged(run: Run) -> None:
    for member, step in zip(run.members, run.diverged_at, strict=True):
        if step is not None:
            say(f"seed {member.seed} diverged at step {step}: its loss was not finite; it stopped there")


@dataclass(frozen=True)
class Zoom:
    """Train a part of a run again, bit for bit the same, with checkpoints closer together."""

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """A run folder, or its name under runs/."""
    around: int
    """The step in the middle."""
    every: int = 10
    """Steps between checkpoints."""
    within: int = 200
    """Steps before and after the middle."""
    out: Path | None = None
    """The new run folder. If None, RUN-zoom-STEP beside the run."""


def zoom_main(arguments: list[str]) -> None:
    args = options.read(Zoom, arguments, "zoom")
    from assignadd.runs.folder import open_run
    from assignadd.training.loop import zoom

    run = open_run(args.run)
    out = args.out or run.path.with_name(f"{run.name}-zoom-{args.around}")
    with TrainingScreen(out.name, min(run.step, args.around + args.within)) as screen:
        made, differing = zoom(run, out, args.around, args.every, args.within, screen)
    if differing:
        note(f"the weights differ from those of {run.name} from step {differing[0]} on: this machine rounds otherwise")
    _say_diverged(made)
    say(f"{made.path}: {len(made.steps)} checkpoints from step {made.steps[0]:,} to {made.steps[-1]:,}")
