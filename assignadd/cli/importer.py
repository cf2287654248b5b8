"""assignadd import"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from assignadd.cli import options


@dataclass(frozen=True)
class Import:
    """Read TransformerLens 2.x state dicts (FILE.pth) into one run, a checkpoint each.

    Only tensors are read (weights_only); shapes, names and zero biases are checked.
    """

    files: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """checkpoint_step_N.pth holds the weights after N updates; model_state_dict.pth the last ones, after 40,000."""
    preset: str = "authors"
    """The configuration the weights belong to."""
    out: Path | None = None
    """The run folder; runs/imported-PRESET unless given."""


def main(arguments: list[str]) -> int:
    args = options.read(Import, arguments, "import")
    config = options.base_config(["--preset", args.preset])
    from assignadd.cli.screen import say
    from assignadd.runs.tlens import import_state_dicts

    run = import_state_dicts(list(args.files), config, args.out or Path("runs") / f"imported-{args.preset}")
    say(f"{run.path}: checkpoints at {', '.join(f'{s:,}' for s in run.steps)}")
    return 0
