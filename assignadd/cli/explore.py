"""assignadd explore"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from assignadd.cli import options
from assignadd.cli.options import Parallel, positional
from assignadd.cli.screen import console, note, say


@dataclass(frozen=True, kw_only=True)
class Explore(Parallel):
    """Write an interactive page of trained models: open its index.html, from disk or from any web host.

    Without arguments and without runs of yours, the page of the package's networks is there in two seconds.
    """

    runs: tuple[str, ...] = positional(())
    """Run folders, their names under runs/, or hf://OWNER/NAME. Without one, the newest run, or census-six of the
    package, with small-trajectory, a network whose training can be played."""
    out: Path = Path("explorer")
    """The folder of the page."""
    checkpoints: int = 60
    """Checkpoints of each model: both sides of every spike, more of the early ones, then evenly."""
    ledger: bool = True
    """Measure the claims that the story quotes."""
    census: Path | None = None
    """The folder of your own `assignadd sweep seeds`, for what the story says about all seeds. If None, the package's,
    where the task is the same."""

    def main(self) -> None:
        options.within("checkpoints", self.checkpoints, 2, 100_000)
        # Whether all options have their defaults, but --out and --threads, which change nothing on the page.
        has_defaults = self == Explore(out=self.out, threads=self.threads)
        if has_defaults and not any(Path("runs").rglob("manifest.json")):
            from assignadd.page.ready import unpack

            note(options.NO_RUN_GIVEN)
            page = unpack(self.out)
        else:
            page = self._exported()
        size = sum(file.stat().st_size for file in self.out.rglob("*") if file.is_file())
        say(f"{page}: {size / 1e6:.1f} MB in all")

    def _exported(self) -> Path:
        """Measures the networks of the runs, writes their page, and returns the path of its index.html."""
        from assignadd.cli.measure import read_networks
        from assignadd.network import SEQUENCES
        from assignadd.page.export import export
        from assignadd.runs.folder import Run, shipped
        from assignadd.training.trainer import prepare

        runs = [options.run_or_newest(name) for name in self.runs]
        if not runs:
            runs = [options.run_or_newest(None)]
            if runs[0].path == shipped(options.SHIPPED):
                runs.append(Run.open(shipped(options.TRAJECTORY)))
        networks = read_networks(runs, None, SEQUENCES, "explore")
        # On all cores, as no other process measures beside this one. On a CPU the result is the same for every run.
        prepare("cpu", self.cores, runs[-1].config)
        command = " ".join(["assignadd claims", *(self.runs or [runs[0].name])])
        with console.status("reading") as status:
            page = export(networks, self.out, command, status.update, self.checkpoints, self.ledger, self.census)
        if len({run.config.task for run in runs}) > 1:
            names = " and ".join(run.name for run in runs)
            say(f"{names} have different tasks: the page never compares or swaps networks of different tasks")
        return page
