"""assignadd zoom"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from assignadd.cli import options


@dataclass(frozen=True)
class Zoom:
    """Train a part of a run again, on the same path to the bit, with checkpoints closer together."""

    run: Annotated[str, tyro.conf.Positional]
    """A run folder, or its name under runs/."""
    around: int
    """The step in the middle."""
    every: int = 10
    """Steps between checkpoints."""
    within: int = 200
    """How far to go before and after the middle."""
    out: Path | None = None
    """The new run folder; RUN-zoom-STEP beside the run unless given."""


def main(arguments: list[str]) -> int:
    args = options.read(Zoom, arguments, "zoom")
    from assignadd.cli.progress import TrainingScreen
    from assignadd.cli.screen import note, say
    from assignadd.runs.folder import open_run
    from assignadd.training.zoom import zoom

    run = open_run(args.run)
    out = args.out or run.path.with_name(f"{run.name}-zoom-{args.around}")
    with TrainingScreen(out.name, min(run.step, args.around + args.within)) as screen:
        made, differing = zoom(run, out, args.around, args.every, args.within, screen)
    if differing:
        note(f"the weights differ from those of {run.name} from step {differing[0]} on: this machine rounds otherwise")
    say(f"{made.path}: {len(made.steps)} checkpoints from step {made.steps[0]:,} to {made.steps[-1]:,}")
    return 0
