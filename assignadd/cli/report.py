"""assignadd report, assignadd reproduce"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from assignadd.cli import options
from assignadd.cli.claims import Judging, stated_in
from assignadd.cli.measure import measured_table, read_networks, with_seeds
from assignadd.cli.options import Measuring, OnDevice
from assignadd.cli.screen import console, say
from assignadd.cli.train import note_undefined_measures, train_on_screen
from assignadd.config import Member, UserError
from assignadd.dynamics.trajectory import binds
from assignadd.network import Network, networks_of, runs_of
from assignadd.runs.folder import Run, open_run
from assignadd.runs.naming import default_folder

# `reproduce` trains this many seeds at a time, and at most this many in all.
SEEDS_PER_ROUND = 2
MOST_SEEDS = 6


@dataclass(frozen=True, kw_only=True)
class Report(Judging):
    """The claims and every figure for trained runs, as one self-contained page.

    What is measured along training is stored in the run folder (measures.parquet), where it is found again. What files
    of yours state (--with) has a section at the end.
    """

    out: Path = Path("report")
    """Where index.html and the figures go."""

    def main(self) -> None:
        processes = self.cores
        networks = with_seeds(read_networks(self.runs, self.step, self.n, "report"), self.wanted_seeds)
        command = self.command.replace("assignadd claims", "assignadd report", 1)
        report_on_screen(networks, self, self.out, command, processes)


def report_on_screen(networks: Sequence[Network], judging: Judging, out: Path, command: str, processes: int) -> None:
    """Measures the networks, judges every claim, draws every figure, writes the page into `out`, and prints its path.

    `command` is the command line that makes the page. Raises `NotDrawn` after all that if figures of the user failed.
    """
    from assignadd.network import measure_ahead
    from assignadd.paper.ledger import ledger
    from assignadd.report.reproduction import (
        drawing_pictures,
        make_report_folder,
        not_drawn,
        section_of_user,
        write_page,
    )

    users_claims, users_figures = stated_in(judging.with_)
    of_user = section_of_user(judging.with_, users_figures) if judging.with_ else None
    populations = judging.populations(networks)
    make_report_folder(out)  # better to fail now than after measuring
    for run in runs_of(networks):
        note_undefined_measures(run.config)
        measured_table(run, processes)  # stored beside the run
    with console.status("measuring") as status:
        measure_ahead(networks, processes, lambda name: status.update(f"measuring {name}"))
        status.update("drawing and judging")
        # Other processes draw in this context, while this process judges.
        with drawing_pictures(out, networks, populations, processes, of_user) as n_figures:
            records = ledger(networks, judging.command, populations=populations, more=users_claims)
    index = write_page(out, networks, records, command, of_user)
    n_binding = sum(binds(network) for network in networks)
    contents = f"{len(records)} claims, {n_figures} figures"
    say(f"{index}: {contents}, {n_binding} of {len(networks)} seeds bind variables in the end")
    if of_user and (problems := not_drawn(out, of_user)):
        raise NotDrawn(f"{'; '.join(problems)}; the page has everything else")


class NotDrawn(UserError):
    """Figures of a user's file could not be drawn."""

    exit_code = 1


@dataclass(frozen=True, kw_only=True)
class Reproduce(OnDevice, Measuring):
    """Train what is missing, evaluate, and write the reproduction page.

    Two seeds train side by side. About a quarter of all seeds never learn to bind variables: further seeds follow until
    enough have learned it, six at the most, and all of them are shown.
    """

    preset: str = "paper"
    """paper, authors, tiny or smoke."""
    out: Path = Path("reproduction")
    """Where index.html and the figures go."""
    wanted: int = 2
    """Further seeds are trained until this many have learned binding, six at the most."""

    def main(self) -> None:
        config = options.base_config(self.preset)
        device = options.resolve_device(self.device)
        threads = self.cores
        options.within("n", self.n)
        options.within("wanted", self.wanted, 1, MOST_SEEDS)
        from assignadd.report.reproduction import make_report_folder

        make_report_folder(self.out)  # better to fail now than after the training
        runs: list[Run] = []
        n_binding = 0
        for first_seed in range(0, MOST_SEEDS, SEEDS_PER_ROUND):
            seeds = list(range(first_seed, first_seed + SEEDS_PER_ROUND))
            folder = default_folder(config, [Member(seed) for seed in seeds])
            train_on_screen(config, seeds, folder, device, threads)
            run = open_run(folder)
            runs.append(run)
            measured_table(run, threads)
            n_binding += sum(binds(network) for network in networks_of(run)[0])
            if n_binding >= self.wanted:
                break
            say(f"{n_binding} of {first_seed + SEEDS_PER_ROUND} seeds have learned binding so far")
        networks = read_networks(runs, None, self.n, "reproduce")
        judging = Judging(runs=tuple(str(run.path) for run in runs), n=self.n)
        wanted = "" if self.wanted == Reproduce.wanted else f" --wanted {self.wanted}"
        command = f"assignadd reproduce --preset {self.preset}{wanted}"
        report_on_screen(networks, judging, self.out, command, threads)
