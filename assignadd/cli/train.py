"""assignadd train"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from assignadd.cli import options
from assignadd.config import Config


@dataclass(frozen=True)
class Train:
    """Train a stack of models, one per seed, into a run folder.

    The same command goes on where an interrupted one stopped. SIGTERM and Ctrl-C save first and exit with
    143 and 130.
    """

    settings: Annotated[Config, tyro.conf.arg(name="")] = field(default_factory=Config)
    preset: str = "paper"
    """Where settings start from: paper, authors, tiny or smoke."""
    config: Path | None = None
    """A JSON file of settings on top of the preset; flags come on top of both."""
    seeds: str = "0"
    """One model per seed: 3, 0..31 or 0,4,7."""
    device: str = "auto"
    """auto, cpu or cuda."""
    threads: int | None = None
    """CPU threads in all; models train side by side on them. All cores unless given."""
    out: Path | None = None
    """The run folder; runs/PRESET-SEEDS unless given."""


def main(arguments: list[str]) -> int:
    name, base = options.base_config(arguments)
    args = options.read(Train, arguments, "train", default=Train(settings=base))
    seeds = options.parse_seeds(args.seeds)
    device, threads = options.resolve_device(args.device), options.resolve_threads(args.threads)
    train_on_screen(args.settings, seeds, args.out or Path("runs") / f"{name}-{options.seeds_label(seeds)}", device, threads)
    return 0


def train_on_screen(config: Config, seeds: list[int], out: Path, device: str, threads: int) -> None:
    from assignadd.api import train
    from assignadd.cli.progress import TrainingScreen
    from assignadd.cli.screen import console

    with TrainingScreen(out.name, config.optim.steps, len(seeds)) as screen:
        run = train(config, seeds, out, device, threads, screen)
    for seed, step in zip(seeds, run.diverged_at, strict=True):
        if step is not None:
            console.print(f"seed {seed} diverged at step {step}: its loss was not finite; it stopped there")
    console.print(f"{out}: {len(seeds)} model{'s' * (len(seeds) > 1)} at step {run.step:,}")
