"""assignadd publish"""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from assignadd.cli import options
from assignadd.cli.screen import console, note, say
from assignadd.config import ConfigError

if TYPE_CHECKING:
    from assignadd.claims.record import Record
    from assignadd.runs.folder import Run


@dataclass(frozen=True)
class Publish:
    """Publish a run on the Hugging Face Hub: weights, settings, claims, and a card that says how to load them.

    Needs `pip install 'assignadd[hub]'` and a login (`hf auth login`, or HF_TOKEN); --dry-run needs neither.
    """

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """A run folder, or its name under runs/."""
    repo: str
    """The repository, OWNER/NAME; it is made where it does not exist."""
    steps: tuple[str, ...] = ()
    """Which checkpoints, such as 0 1000 20000, or all. If none are given, the last."""
    dry_run: bool = False
    """Write the folder and upload nothing."""
    out: Path | None = None
    """Where --dry-run writes the folder. If None, published/RUN."""
    private: bool = False
    """Make the repository private where it does not exist."""
    license: str = "mit"
    """The licence that the card names, by its identifier on the Hub."""
    claims: bool = True
    """Test the claims on these networks and put them into the card."""
    n: int = 20_000
    """Sequences per evaluation set for the claims."""
    threads: int | None = None
    """Processes that measure side by side. If None, one for each core."""


def main(arguments: list[str]) -> None:
    args = options.read(Publish, arguments, "publish")
    from assignadd.report.hub_folder import write_hub_folder
    from assignadd.runs.folder import open_run
    from assignadd.runs.hub import check_client, check_repository, upload

    check_repository(args.repo)
    if not re.fullmatch("[a-z0-9.-]+", args.license):
        raise ConfigError("license", args.license, "an identifier such as mit, apache-2.0 or cc-by-4.0")
    if not args.dry_run:
        check_client()
    run = open_run(args.run)
    steps = _steps(run, args.steps)
    for why in run.unsound(steps[-1], run.checkpoint(steps[-1])).values():
        note(f"{why}; it is published as it is, and the card says so")
    records = _records(args, steps[-1]) if args.claims else []
    with tempfile.TemporaryDirectory() as scratch:
        folder = (args.out or Path("published") / run.name) if args.dry_run else Path(scratch) / "repository"
        index = write_hub_folder(run, folder, args.repo, steps, records, args.license)
        size = sum(blob.size for blob in index.files.values()) / 1e6
        if args.dry_run:
            say(f"{folder}: {len(index.files) + 1} files, {size:.1f} MB; nothing was uploaded")
        else:
            address = upload(folder, args.repo, args.private, f"assignadd publish {run.name}")
            say(f"{address}: {len(index.files) + 1} files, {size:.1f} MB")


def _steps(run: Run, asked: tuple[str, ...]) -> list[int]:
    """The steps to publish, in order; the last is that of the newest intact checkpoint unless others are given."""
    if not asked:
        return [run.newest_checkpoint()[0]]
    if asked == ("all",):
        return run.steps
    if wrong := [text for text in asked if not re.fullmatch(r"\d{1,18}", text) or int(text) not in run.steps]:
        raise ConfigError("steps", wrong[0], f"all, or steps of the {len(run.steps)} checkpoints of {run.name}")
    return sorted({int(text) for text in asked})


def _records(args: Publish, step: int) -> list[Record]:
    """Every claim about one trained network, tested on those of the run."""
    from assignadd.claims.ahead import measure_ahead
    from assignadd.claims.ledger import CLAIMS
    from assignadd.claims.record import judge
    from assignadd.cli.claims import read_evidence

    evidences, records = read_evidence((args.run,), step, args.n), []
    with console.status("measuring") as status:
        measure_ahead(evidences, options.resolve_threads(args.threads))
        for claim in CLAIMS:
            if claim.measure is not None:
                status.update(f"measuring {claim.id}")
                records.append(judge(claim, evidences, f"assignadd claims {args.run} --only {claim.id}"))
    return records
