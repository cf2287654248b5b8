"""assignadd explore"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from assignadd.cli import options
from assignadd.cli.screen import console, note, say


@dataclass(frozen=True)
class Explore:
    """Write an interactive page of trained models: open its index.html, from disk or from any web host."""

    runs: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[RUN ...]")] = ()
    """Run folders, or their names under runs/. Without one, the newest run, or census-six of the package, with
    small-trajectory, a network whose training can be played."""
    out: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("explorer")
    """The folder of the page."""
    checkpoints: int = 60
    """Checkpoints of each model: both sides of every spike, more of the early ones, then evenly."""
    ledger: bool = True
    """Measure the claims that the story quotes."""
    census: Path | None = None
    """The folder of your own `assignadd sweep seeds`, for what the story says about all seeds. If None, the package's,
    where the task is the same."""
    threads: int | None = None
    """CPU threads. If None, every core."""
    serve: bool = False
    """Serve the page on this machine until stopped; without runs, the one that is in the folder, if there is one."""
    port: int = 8000
    """For --serve; 0 takes any that is free."""


def main(arguments: list[str]) -> None:
    args = options.read(Explore, arguments, "explore")
    options.within("checkpoints", args.checkpoints, 2, 100_000)
    options.within("port", args.port, 0, 65535)
    if args.runs or not (args.serve and (args.out / "index.html").exists()):
        _export(args)
    if args.serve:
        from assignadd.page.serve import serve

        serve(args.out, args.port, lambda address: say(f"{address} (stop with Ctrl-C)"))


def _export(args: Explore) -> None:
    from assignadd.page.export import Settings, export
    from assignadd.runs.folder import Run, shipped
    from assignadd.training.trainer import prepare

    runs = [options.run_or_newest(name) for name in args.runs or (None,)]
    if not args.runs and runs[0].path == shipped(options.SHIPPED):
        runs.append(Run.open(shipped(options.TRAJECTORY)))
    for run in runs:
        prepare("cpu", options.resolve_threads(args.threads), run.config)
        at, stack, _ = run.at()
        for why in run.unsound(at, stack).values():
            note(f"{why}; it is left out")
    settings = Settings(checkpoints=args.checkpoints, ledger=args.ledger, census=args.census)
    with console.status("reading") as status:

        def listener(what: str, done: int, total: int) -> None:
            status.update(f"{what} ({done} of {total})" if total > 1 else what)

        command = " ".join(["assignadd claims", *(args.runs or [runs[0].name])])
        page = export(runs, args.out, settings, command, listener)
    if len({run.config.task for run in runs}) > 1:
        names = " and ".join(run.name for run in runs)
        say(f"{names} have different tasks: the page never compares or swaps networks of different tasks")
    size = sum(file.stat().st_size for file in args.out.rglob("*") if file.is_file())
    say(f"{page}: {size / 1e6:.1f} MB in all")
