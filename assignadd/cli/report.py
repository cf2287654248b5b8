"""assignadd report, assignadd reproduce"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from assignadd.cli import options
from assignadd.cli.claims import Claims, asked, read_networks, read_populations
from assignadd.cli.screen import console, say
from assignadd.config import Member
from assignadd.dynamics.of_network import binds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assignadd.network import Network
    from assignadd.sweeps.population import Populations

SEEDS_PER_ROUND = 2
MOST_SEEDS = 6


@dataclass(frozen=True)
class Report:
    """The claims and every figure for trained runs, as one self-contained page.

    What is measured along training is stored in the run folder (measures.parquet), where it is found again.
    """

    runs: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN ...")]
    """Run folders, or their names under runs/."""
    out: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("report")
    """Where index.html and the figures go."""
    step: int | None = None
    """The checkpoint. If None, each run's last one."""
    n: int = 20_000
    """Sequences per evaluation set and per type of sequence."""
    census: Path | None = None
    """The folder of your own `assignadd sweep seeds`, for what is said about all seeds. If None, the package's,
    where the task is the same."""
    fraction: Path | None = None
    """The folder of your own `assignadd sweep fraction`."""
    two_var: Path | None = None
    """The folder of your own `assignadd sweep two-var`."""
    threads: int | None = None
    """Processes that measure side by side. If None, one for each core."""


def main(arguments: list[str]) -> None:
    args = options.read(Report, arguments, "report")
    processes = options.resolve_threads(args.threads)
    networks = read_networks(args.runs, args.step, args.n)
    claims = Claims(args.runs, args.step, args.n, census=args.census, fraction=args.fraction, two_var=args.two_var)
    populations = read_populations(networks, claims)
    from assignadd.report.reproduction import claim_report

    claim_report(args.out)
    command = asked(claims)
    report = command.replace("assignadd claims", "assignadd report", 1)
    report_on_screen(networks, populations, args.out, command, report, processes)


def report_on_screen(
    networks: Sequence[Network], populations: Populations, out: Path, claims: str, command: str, processes: int
) -> None:
    """Measures what is missing (trajectories are stored beside their runs), draws while it judges every claim, and
    writes the page.

    The time that each takes is said on the screen alone: the same inputs give a page of the same bytes.
    """
    from assignadd.cli.measure import measure_on_screen
    from assignadd.network import measure_ahead, runs_of
    from assignadd.paper.ledger import ledger
    from assignadd.paper.theory.claims import THEORY
    from assignadd.report.reproduction import drawing_pictures, write_page

    started = time.monotonic()
    for run in runs_of(networks):
        measure_on_screen(run, processes)
    with console.status("measuring") as status:
        measure_ahead(networks, processes, lambda name: status.update(f"measuring {name}"), [THEORY])
        measured = time.monotonic()
        with drawing_pictures(out, networks, populations, processes) as n:
            records = ledger(
                networks, claims, None, lambda claim: status.update(f"drawing, judging {claim}"), populations
            )
            status.update("drawing")
    drawn = time.monotonic()
    index = write_page(out, networks, records, command)
    bound = sum(binds(e) for e in networks)
    say(f"{index}: {len(records)} claims, {bound} of {len(networks)} seeds bind variables in the end")
    say(
        f"measured in {measured - started:.1f} s, judged and drew {n} figures in {drawn - measured:.1f} s, "
        f"wrote the page in {time.monotonic() - drawn:.2f} s",
        "dim",
    )


@dataclass(frozen=True)
class Reproduce:
    """Train what is missing, evaluate, and write the reproduction page.

    Two seeds train side by side, and their checkpoints are measured meanwhile. About a quarter of all seeds never
    learn to bind variables: further seeds follow until enough have learned it, six at the most, and all of them are
    shown.
    """

    preset: str = "paper"
    """paper, authors, tiny or smoke."""
    out: Path = Path("reproduction")
    """Where index.html and the figures go."""
    runs: Path = Path("runs")
    """Where the run folders are."""
    wanted: int = 2
    """Further seeds are trained until this many have learned binding, six at the most."""
    n: int = 20_000
    """Sequences per evaluation set at the end."""
    device: str = "auto"
    """auto, cpu or cuda."""
    threads: int | None = None
    """CPU threads that train, and processes that measure and draw. If None, every core."""


def reproduce_main(arguments: list[str]) -> None:
    args = options.read(Reproduce, arguments, "reproduce")
    config = options.base_config(arguments)
    device, threads = options.resolve_device(args.device), options.resolve_threads(args.threads)
    options.check_count("n", args.n)
    options.within("wanted", args.wanted, 1, MOST_SEEDS)
    from assignadd.cli.measure import measured_table
    from assignadd.cli.train import train_on_screen
    from assignadd.dynamics.trajectory import accuracy_curves
    from assignadd.network import networks_of
    from assignadd.report.reproduction import claim_report
    from assignadd.runs.folder import default_folder, open_run
    from assignadd.training.trainer import prepare

    claim_report(args.out)  # better to fail now than after the training
    trained, learned = [], 0
    for first in range(0, MOST_SEEDS, SEEDS_PER_ROUND):
        seeds = list(range(first, first + SEEDS_PER_ROUND))
        folder = default_folder(config, [Member(seed) for seed in seeds], args.runs)
        train_on_screen(config, seeds, folder, device, threads)
        trained.append(open_run(folder))
        measured_table(trained[-1], threads)
        learned += sum(accuracy_curves(trained[-1], i).binds for i in range(len(seeds)))
        if learned >= args.wanted:
            break
        say(f"{learned} of {first + SEEDS_PER_ROUND} seeds have learned binding so far")
    prepare("cpu", 1, config)  # each process that measures has one thread
    networks = [e for run in trained for e in networks_of(run, n=args.n)[0]]
    wanted = "" if args.wanted == Reproduce.wanted else f" --wanted {args.wanted}"
    command = f"assignadd reproduce --preset {args.preset}{wanted}"
    claims = Claims(tuple(str(run.path) for run in trained), n=args.n)
    report_on_screen(networks, read_populations(networks, claims), args.out, asked(claims), command, threads)
