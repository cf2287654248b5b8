"""assignadd reproduce"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from assignadd.cli import options
from assignadd.cli.screen import say
from assignadd.config import Member

SEEDS_PER_ROUND = 2
WANTED = 2
MOST_SEEDS = 6


@dataclass(frozen=True)
class Reproduce:
    """Train what is missing, evaluate, and write the reproduction page.

    Two seeds train side by side, and their checkpoints are measured meanwhile. About a quarter of all seeds never
    learn to bind variables: further seeds follow until two have learned it, six at the most, and all of them are shown.
    """

    preset: str = "paper"
    """paper, authors, tiny or smoke."""
    out: Path = Path("reproduction")
    """Where index.html and the figures go."""
    runs: Path = Path("runs")
    """Where the run folders are."""
    n: int = 20_000
    """Sequences per evaluation set at the end."""
    device: str = "auto"
    """auto, cpu or cuda."""
    threads: int | None = None
    """CPU threads that train, and processes that measure and draw; if more than one, another process measures during
    training. If None, every core."""


def main(arguments: list[str]) -> None:
    args = options.read(Reproduce, arguments, "reproduce")
    config = options.base_config(arguments)
    device, threads = options.resolve_device(args.device), options.resolve_threads(args.threads)
    options.check_count("n", args.n)
    from assignadd.claims.evidence import evidence
    from assignadd.cli.claims import Claims, asked, read_populations
    from assignadd.cli.measure import measured_table
    from assignadd.cli.report import report_on_screen
    from assignadd.cli.train import train_on_screen
    from assignadd.dynamics.phases import learned_binding
    from assignadd.dynamics.trajectory import AlongTraining
    from assignadd.report.reproduction import claim_report
    from assignadd.runs.folder import open_run
    from assignadd.runs.names import default_folder
    from assignadd.training.trainer import prepare

    claim_report(args.out)  # better to fail now than after the training
    trained, learned = [], 0
    for first in range(0, MOST_SEEDS, SEEDS_PER_ROUND):
        seeds = list(range(first, first + SEEDS_PER_ROUND))
        folder = default_folder(config, [Member(seed) for seed in seeds], args.runs)
        with AlongTraining(folder, config.record.checkpoint_every, wanted=threads > 1) as along:
            train_on_screen(config, seeds, folder, device, threads, along)
        trained.append(open_run(folder))
        measured_table(trained[-1], threads, known=along.found)
        learned += sum(
            learned_binding(row["accuracy"]) for row in trained[-1].metrics() if row["step"] == config.optim.steps
        )
        if learned >= WANTED:
            break
        say(f"{learned} of {first + SEEDS_PER_ROUND} seeds have learned binding so far")
    prepare("cpu", 1, config)  # each process that measures has one thread
    evidences = [e for run in trained for e in evidence(run, n=args.n)[0]]
    command = f"assignadd reproduce --preset {args.preset}"
    claims = Claims(tuple(str(run.path) for run in trained), n=args.n)
    report_on_screen(evidences, read_populations(evidences, claims), args.out, asked(claims), command, threads)
