"""assignadd report"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from assignadd.cli import options
from assignadd.cli.claims import read_evidence
from assignadd.cli.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from assignadd.claims.evidence import Evidence


@dataclass(frozen=True)
class Report:
    """The claims and every figure for trained runs, as one self-contained page.

    What is measured along training is stored in the run folder (measures.parquet), where it is found again.
    """

    runs: Annotated[tuple[str, ...], tyro.conf.Positional]
    """Run folders, or their names under runs/."""
    out: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("report")
    """Where index.html and the figures go."""
    step: int | None = None
    """The checkpoint; each run's last one unless given."""
    n: int = 4000
    """Sequences per evaluation set and per type of sequence."""
    threads: int | None = None
    """CPU threads; every core unless given."""


def main(arguments: list[str]) -> int:
    args = options.read(Report, arguments, "report")
    if not args.runs:
        raise UsageError("no run given; `assignadd runs list` shows what there is")
    evidences = read_evidence(args.runs, args.step, args.n, args.threads)
    args.out.mkdir(parents=True, exist_ok=True)
    report_on_screen(
        evidences, args.out, " ".join(args.runs), f"assignadd report {' '.join(args.runs)}", options.resolve_threads(args.threads)
    )
    return 0


def report_on_screen(evidences: Sequence[Evidence], out: Path, claims: str, command: str, threads: int) -> Path:
    """Measures what is missing (trajectories are stored beside their runs), judges every claim, draws, writes the page.

    And says what each took: on the screen alone, as the page is to be the same bytes again.
    """
    from assignadd.claims.ledger import ledger
    from assignadd.cli.measure import measure_on_screen
    from assignadd.cli.screen import console, say
    from assignadd.report.reproduction import draw_pictures, write_page

    lap = _laps()
    for run in {e.run.path: e.run for e in evidences}.values():
        measure_on_screen(run, threads)
    with console.status("judging") as status:
        records = ledger(evidences, claims, listener=lambda claim: status.update(f"judging {claim}"))
    measuring = lap()
    with console.status("drawing") as status:
        drawn = draw_pictures(out, evidences, lambda label: status.update(f"drawing {label}"))
    drawing = lap()
    index = write_page(out, evidences, records, command)
    bound = sum(e.learned_binding for e in evidences)
    say(f"{index}: {len(records)} claims, {bound} of {len(evidences)} seeds learned to bind variables")
    say(f"measured in {measuring:.1f} s, drew {drawn} figures in {drawing:.1f} s, wrote the page in {lap():.2f} s", "dim")
    return index


def _laps() -> Callable[[], float]:
    """Seconds since the last call."""
    last = time.monotonic()

    def lap() -> float:
        nonlocal last
        before, last = last, time.monotonic()
        return last - before

    return lap
