"""assignadd report, assignadd reproduce"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from assignadd.cli import options
from assignadd.cli.claims import Judging, claims_command, read_populations, stated_in
from assignadd.cli.measure import measured_table, read_networks
from assignadd.cli.options import Measuring, OnDevice
from assignadd.cli.screen import console, say
from assignadd.cli.train import note_not_defined, train_on_screen
from assignadd.config import Member, UserError
from assignadd.dynamics.trajectory import binds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assignadd.ledger.claim import Claim
    from assignadd.network import Network
    from assignadd.report.sections import OwnSection
    from assignadd.sweeps.population import Populations

# `reproduce` trains this many seeds at a time, and at most this many in all.
SEEDS_PER_ROUND = 2
MOST_SEEDS = 6


@dataclass(frozen=True, kw_only=True)
class Report(Judging):
    """The claims and every figure for trained runs, as one self-contained page.

    What is measured along training is stored in the run folder (measures.parquet), where it is found again.
    """

    out: Path = Path("report")
    """Where index.html and the figures go."""
    with_: tuple[Path, ...] = ()
    """Files of Python with `FIGURES` (assignadd.figure.FigureRecord), `CLAIMS` (assignadd.ledger.Claim) or both, in
    tuples. They are executed; what they state has a section at the end."""

    def main(self) -> None:
        processes = self.cores
        stated = [stated_in(file, "CLAIMS", "FIGURES") for file in self.with_]
        claims = [claim for of_file in stated for claim in of_file["CLAIMS"]]
        figures = [record for of_file in stated for record in of_file["FIGURES"]]
        networks = read_networks(self.runs, self.step, self.n, command="report")
        populations = read_populations(networks, self)
        from assignadd.report.reproduction import claim_report
        from assignadd.report.sections import own_section

        own = own_section(self.with_, claims, figures) if self.with_ else None  # refuses a label
        claim_report(self.out)
        judging = claims_command(self)
        reporting = judging.replace("assignadd claims", "assignadd report", 1)
        report_on_screen(networks, populations, self.out, judging, reporting, processes, claims, own)


def report_on_screen(
    networks: Sequence[Network],
    populations: Populations,
    out: Path,
    claims_command: str,
    page_command: str,
    processes: int,
    users_claims: Sequence[Claim] = (),
    own: OwnSection | None = None,
) -> None:
    """Measures what is missing, judges every claim, draws every figure and writes the page into `out`.

    `users_claims` and `own` are the claims of a user's files and the section that these files add.

    The page has the commands that would judge the same claims and make the same page again. The time that each part
    takes is said on the screen alone: the same inputs give a page of the same bytes.
    """
    from assignadd.network import measure_ahead, runs_of
    from assignadd.paper.ledger import ledger
    from assignadd.report.reproduction import drawing_pictures, not_drawn, write_page

    start = time.monotonic()
    for run in runs_of(networks):
        note_not_defined(run.config)
        measured_table(run, processes)  # stored beside the run
    with console.status("measuring") as status:

        def listener(claim: str) -> None:
            status.update(f"drawing, judging {claim}")

        measure_ahead(networks, processes, lambda name: status.update(f"measuring {name}"))
        end_of_measuring = time.monotonic()
        with drawing_pictures(out, networks, populations, processes, own) as n_figures:  # in other processes, meanwhile
            records = ledger(networks, claims_command, listener=listener, populations=populations, more=users_claims)
            status.update("drawing")
    end_of_drawing = time.monotonic()
    index = write_page(out, networks, records, page_command, own)
    end = time.monotonic()
    n_binding = sum(binds(network) for network in networks)
    say(f"{index}: {len(records)} claims, {n_binding} of {len(networks)} seeds bind variables in the end")
    say(
        f"measured in {end_of_measuring - start:.1f} s, "
        f"judged and drew {n_figures} figures in {end_of_drawing - end_of_measuring:.1f} s, "
        f"wrote the page in {end - end_of_drawing:.2f} s",
        "dim",
    )
    if own and (problems := not_drawn(out, own)):
        raise NotDrawn(f"{'; '.join(problems)}; the page has everything else")


class NotDrawn(UserError):
    """A figure of a user's file failed."""

    exit_code = 1


@dataclass(frozen=True, kw_only=True)
class Reproduce(OnDevice, Measuring):
    """Train what is missing, evaluate, and write the reproduction page.

    Two seeds train side by side, and their checkpoints are measured meanwhile. About a quarter of all seeds never
    learn to bind variables: further seeds follow until enough have learned it, six at the most, and all of them are
    shown.
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
        options.check_count("n", self.n)
        options.within("wanted", self.wanted, 1, MOST_SEEDS)
        from assignadd.dynamics.trajectory import accuracy_curves
        from assignadd.network import networks_of
        from assignadd.report.reproduction import claim_report
        from assignadd.runs.folder import default_folder, open_run
        from assignadd.training.trainer import prepare

        claim_report(self.out)  # better to fail now than after the training
        runs = []
        n_binding = 0
        for first_seed in range(0, MOST_SEEDS, SEEDS_PER_ROUND):
            seeds = list(range(first_seed, first_seed + SEEDS_PER_ROUND))
            folder = default_folder(config, [Member(seed) for seed in seeds])
            train_on_screen(config, seeds, folder, device, threads)
            run = open_run(folder)
            runs.append(run)
            measured_table(run, threads)
            n_binding += sum(accuracy_curves(run, i).binds for i in range(len(seeds)))
            if n_binding >= self.wanted:
                break
            say(f"{n_binding} of {first_seed + SEEDS_PER_ROUND} seeds have learned binding so far")
        prepare("cpu", 1, config)  # each process that measures has one thread
        networks = [network for run in runs for network in networks_of(run, n=self.n)[0]]
        command = f"assignadd reproduce --preset {self.preset}"
        if self.wanted != Reproduce.wanted:  # the default
            command += f" --wanted {self.wanted}"
        judging = Judging(runs=tuple(str(run.path) for run in runs), n=self.n)
        populations = read_populations(networks, judging)
        report_on_screen(networks, populations, self.out, claims_command(judging), command, threads)
