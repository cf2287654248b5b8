"""assignadd claims"""

from __future__ import annotations

import dataclasses
import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from assignadd.cli import options
from assignadd.cli.screen import console, escape, note, print_json, say
from assignadd.config.errors import UsageError
from assignadd.dynamics.of_network import binds
from assignadd.runs import atomic
from assignadd.stats import BROKEN, FAILS, HOLDS, NOT_APPLICABLE, SOME_SEEDS, UNDECIDED, UNMEASURED, UNTESTABLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assignadd.ledger.claim import Claim, Line, Record
    from assignadd.network import Network
    from assignadd.sweeps.population import Populations

COLOURS = {HOLDS: "green", FAILS: "red", BROKEN: "red", UNDECIDED: "yellow"} | dict.fromkeys(
    (UNTESTABLE, NOT_APPLICABLE, UNMEASURED), "dim"
)


@dataclass(frozen=True)
class Claims:
    """Every claim of the paper against trained models: value, 95 % interval, verdict."""

    runs: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[RUN ...]")] = ()
    """Run folders, or their names under runs/. Without one, seed 0 of census-six, which comes with
    the package; but only what concerns many seeds and the theory where a population of your own is given."""
    step: int | None = None
    """The checkpoint. If None, each run's last one."""
    n: int = 20_000
    """Sequences per evaluation set and per type of sequence; some measures take the same time whatever n is."""
    only: str | None = None
    """The id or the paper's label of a claim, or how several ids begin: late-variable, circuit."""
    census: Path | None = None
    """The folder of your own `assignadd sweep seeds`, for the claims about all seeds. If None, the package's,
    where the task is the same."""
    fraction: Path | None = None
    """The folder of your own `assignadd sweep fraction`."""
    two_var: Path | None = None
    """The folder of your own `assignadd sweep two-var`."""
    with_: Annotated[tuple[Path, ...], tyro.conf.arg(name="with")] = ()
    """Files of Python with `CLAIMS`, a tuple of assignadd.ledger.Claim, which are tested too; they are executed."""
    seeds: str | None = None
    """Only the models with these seeds, such as 0 or 0..3."""
    threads: int | None = None
    """Processes that measure side by side. If None, one for each core."""
    out: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """Also write the records of these networks here, as JSON with the command, the commit and the hashes of imported
    files."""
    json: bool = False
    """Print a list of {"id", "label", "claim", "paper", "value", "low", "high", "n", "seeds", "verdict", ...}."""


def main(arguments: list[str]) -> int:
    args = options.read(Claims, arguments, "claims")
    from assignadd.paper.ledger import CLAIMS, chosen, ledger

    more = [claim for file in args.with_ for claim in claims_in(file)]
    if known := {claim.id for claim in CLAIMS} & {claim.id for claim in more}:
        raise UsageError(f"the paper's claims have one called {min(known)} already: give yours another id")
    wanted = chosen(args.only, more)  # refuses a name before anything is measured
    if not args.runs and any(claim.measure is not None for claim in wanted):
        if not any((args.census, args.fraction, args.two_var)):
            # One of its six networks: all claims about one take a minute or two.
            args = dataclasses.replace(args, runs=(options.shipped_run().name,), seeds=args.seeds or "0")
        elif all(claim.measure is not None for claim in wanted):
            raise UsageError(f"{args.only} is about trained networks: assignadd claims RUN --only {args.only}")
    if args.out is not None:
        from assignadd.runs.files import claim_file

        claim_file(args.out, lambda data: b'"records"' in data and b'"sources"' in data)
    processes = options.resolve_threads(args.threads)
    seeds = options.parse_seeds(args.seeds) if args.seeds else None
    networks = with_seeds(read_networks(args.runs, args.step, args.n), seeds)
    populations = read_populations(networks, args)
    from assignadd.cli.measure import measured_table
    from assignadd.network import runs_of

    for run in runs_of(networks):
        if args.only is None and len(run.steps) > 1 and os.access(run.path, os.W_OK):
            measured_table(run, processes)

    with console.status("measuring") as status:
        command = asked(args)
        records = ledger(
            networks, command, args.only, lambda claim: status.update(f"measuring {claim}"), populations, processes,
            more,
        )  # fmt: skip
    if args.out is not None:
        from assignadd.paper.ledger import ledger_document

        atomic.write(args.out, ledger_document(records, networks, command))
    if args.json:
        print_json([dataclasses.asdict(record) for record in records])
    else:
        print_records(records, networks)
    return int(any(line.verdict == BROKEN for record in records for line in (record, *record.readings)))


def claims_in(path: Path) -> tuple[Claim, ...]:
    """The claims of a file that the user names, which is executed."""
    from assignadd.ledger.claim import Claim
    from assignadd.user_file import user_module

    found = getattr(user_module(path), "CLAIMS", None)
    if not isinstance(found, tuple) or not all(isinstance(claim, Claim) for claim in found):
        raise UsageError(f"{path}: expected CLAIMS, a tuple of assignadd.ledger.Claim")
    return found


def asked(args: Claims) -> str:
    """The command line that asks for the same ledger again."""
    flags: dict[str, object] = {"--step": args.step, "--n": None if args.n == Claims.n else args.n}
    flags |= {"--seeds": args.seeds, "--with": shlex.join(map(str, args.with_)) or None}
    flags |= {"--census": args.census, "--fraction": args.fraction, "--two-var": args.two_var}
    more = [word for flag, value in flags.items() if value is not None for word in (flag, str(value))]
    return shlex.join(["assignadd", "claims", *args.runs, *more])


def read_populations(networks: Sequence[Network], args: Claims) -> Populations:
    """The populations of seeds that the flags name, else the package's where they are of the same task."""
    from assignadd.sweeps.population import populations_for

    return populations_for([e.config for e in networks], args.census, args.fraction, args.two_var)


def read_networks(runs: Sequence[str], step: int | None, n: int, threads: int = 1) -> list[Network]:
    """Every model of these runs, ready to be measured; notes on damaged checkpoints go to stderr.

    Processes that measure side by side have one thread each, so that their number changes no digit.
    """
    options.check_count("n", n)
    from assignadd.network import networks_of
    from assignadd.runs.folder import open_run
    from assignadd.training.trainer import prepare

    found: list[Network] = []
    for run in [open_run(name) for name in runs]:
        prepare("cpu", threads, run.config)
        models, notes = networks_of(run, step, n)
        note(*notes)
        found += models
    return found


def with_seeds(networks: Sequence[Network], seeds: Sequence[int] | None) -> list[Network]:
    """The models with these seeds, of whichever run."""
    have = sorted({e.seed for e in networks})
    if missing := [s for s in seeds or () if s not in have]:
        raise UsageError(f"no seed {missing[0]} there; there are {', '.join(map(str, have))}")
    return [e for e in networks if seeds is None or e.seed in seeds]


def print_records(records: Sequence[Record], networks: Sequence[Network]) -> None:
    """Under the paper's labels a few lines for each claim: verdict and numbers, then what is claimed."""
    from collections import Counter
    from itertools import groupby

    from rich.padding import Padding
    from rich.rule import Rule

    for label, group in groupby(records, key=lambda r: r.label):
        console.print(Rule(escape(label), align="left", style="dim"))
        for r in group:
            colour = COLOURS.get(r.verdict, "yellow")
            console.print(f"[bold]{escape(r.id)}[/]: [{colour}]{escape(r.verdict)}[/]")
            text = f"{_measured(r)}paper: {escape(r.paper)}\n{escape(r.claim)} [dim]{escape(r.comment)}[/]"
            console.print(Padding(text, (0, 0, 0, 4)))
            for reading in r.readings:
                colour = COLOURS.get(reading.verdict, "yellow")
                line = f"[{colour}]{escape(reading.verdict)}[/]: {_measured(reading)}{escape(reading.says)}"
                console.print(Padding(line, (0, 0, 0, 6)))
    counts = Counter(r.verdict if r.verdict in COLOURS else SOME_SEEDS for r in records)
    say(f"\n{len(records)} claims: " + ", ".join(f"{n} {v}" for v, n in counts.items()))
    if others := [f"seed {e.seed} of {e.name}" for e in networks if not binds(e)]:
        say(
            f"{len(others)} of {len(networks)} networks do not bind ({', '.join(others)}): claims about binding are "
            "judged on the others"
        )


def _measured(r: Line) -> str:
    if r.value is None:
        return ""
    interval = f" ({r.low:.4f} to {r.high:.4f})" if r.low is not None and r.low != r.high else ""
    return f"{r.value:.4f}{interval}, {r.sample}; "
