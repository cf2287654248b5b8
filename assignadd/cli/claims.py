"""assignadd claims"""

from __future__ import annotations

import dataclasses
import os
import shlex
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from assignadd.cli import options
from assignadd.cli.measure import measured_table, read_networks, with_seeds
from assignadd.cli.options import Measuring, positional
from assignadd.cli.screen import Column, Output, Printing, Table, columns, console
from assignadd.config.errors import UsageError
from assignadd.dynamics.trajectory import binds
from assignadd.runs import atomic
from assignadd.stats import BROKEN, FAILS, HOLDS, NOT_APPLICABLE, SOME_SEEDS, UNDECIDED, UNMEASURED, UNTESTABLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assignadd.ledger.claim import Claim, Record
    from assignadd.network import Network
    from assignadd.sweeps.population import Populations

COLOURS = {HOLDS: "green", FAILS: "red", BROKEN: "red", UNDECIDED: "yellow"} | dict.fromkeys(
    (UNTESTABLE, NOT_APPLICABLE, UNMEASURED), "dim"
)


@dataclass(frozen=True, kw_only=True)
class Judging(Measuring):
    """The networks and populations on which a command judges the claims."""

    runs: tuple[str, ...] = positional()
    """Run folders, or their names under runs/."""
    step: int | None = None
    """The checkpoint. If None, each run's last one."""
    census: Path | None = None
    """The folder of your own `assignadd sweep seeds`, for the claims about all seeds. If None, the package's,
    where the task is the same."""
    fraction: Path | None = None
    """The folder of your own `assignadd sweep fraction`."""
    two_var: Path | None = None
    """The folder of your own `assignadd sweep two-var`."""
    with_: tuple[Path, ...] = ()
    """Files of Python with `CLAIMS`, a tuple of assignadd.ledger.Claim, which are tested too; they are executed."""

    @property
    def populations(self) -> tuple[Path | None, ...]:
        return self.census, self.fraction, self.two_var


@dataclass(frozen=True, kw_only=True)
class Claims(Judging, Printing):
    """Every claim of the paper against trained models: value, 95 % interval, verdict.

    Without --only the verdicts are counted; --all shows every claim. --csv has a row for each claim
    and each further reading; --json prints a list of {"id", "label", "claim", "paper", "value", "low", "high", "n",
    "seeds", "verdict", ...}.
    """

    runs: tuple[str, ...] = positional(())
    """Run folders, or their names under runs/. Without one, seed 0 of census-six, which comes with
    the package; but only what concerns many seeds and the theory where a population of your own is given."""
    only: str | None = None
    """The id or the paper's label of a claim, or how several ids begin: late-variable, circuit."""
    seeds: str | None = None
    """Only the models with these seeds, such as 0 or 0..3."""
    out: Path | None = None
    """Also write the records of these networks here, as JSON with the command, the commit and the hashes of imported
    files."""

    def main(self) -> Output:
        from assignadd.network import runs_of
        from assignadd.paper.ledger import ledger, ledger_document

        claims = [claim for file in self.with_ for claim in stated_in(file, "CLAIMS")["CLAIMS"]]
        args = self._with_shipped_run(claims)
        if self.out is not None:
            from assignadd.runs.files import claim_file

            claim_file(self.out, lambda data: b'"records"' in data and b'"sources"' in data)
        processes = self.cores
        seeds = options.parse_seeds(args.seeds) if args.seeds else None
        networks = with_seeds(read_networks(args.runs, self.step, self.n), seeds)
        populations = read_populations(networks, self)
        for run in runs_of(networks):
            if self.only is None and len(run.steps) > 1 and os.access(run.path, os.W_OK):
                measured_table(run, processes)
        command = asked(args)
        with console.status("measuring") as status:
            records = ledger(
                networks, command, self.only, lambda claim: status.update(f"measuring {claim}"), populations, processes,
                claims,
            )  # fmt: skip
        if self.out is not None:
            atomic.write(self.out, ledger_document(records, networks, command))
        broken = any(line.verdict == BROKEN for record in records for line in (record, *record.readings))
        lines = lines_of(records)
        shown = _by_label(records) if self.only is None and not self.all else [lines]
        documents = [dataclasses.asdict(record) for record in records]
        return Output([*shown, *_tally(records, networks)], documents, lines, int(broken))

    def _with_shipped_run(self, claims: Sequence[Claim]) -> Claims:
        """These arguments, with a network of the package where one is needed and none is given."""
        from assignadd.paper.ledger import chosen

        wanted = chosen(self.only, claims)  # refuses a name before anything is measured
        if self.runs or all(claim.measure is None for claim in wanted):
            return self
        if not any(self.populations):
            # One of its six networks: all claims about one take a minute or two.
            return dataclasses.replace(self, runs=(options.shipped_run().name,), seeds=self.seeds or "0")
        if all(claim.measure is not None for claim in wanted):
            raise UsageError(f"{self.only} is about trained networks: assignadd claims RUN --only {self.only}")
        return self


def stated_in(path: Path, *names: Literal["CLAIMS", "FIGURES"]) -> dict[str, tuple[Any, ...]]:
    """The claims or figures, by name, of a file that the user names, which is executed; it has one of them at least."""
    from assignadd.paper.ledger import CLAIMS
    from assignadd.user_file import user_module

    module = user_module(path)
    stated: dict[str, tuple[Any, ...]] = {}
    for name in names:
        kind, public = _kind_of(name)
        stated[name] = getattr(module, name, ())
        wrong = not isinstance(stated[name], tuple) or not all(isinstance(one, kind) for one in stated[name])
        if wrong or not any(hasattr(module, name) for name in names):
            raise UsageError(f"{path}: expected {name}, a tuple of {public}")
    if known := {claim.id for claim in CLAIMS} & {claim.id for claim in stated.get("CLAIMS", ())}:
        raise UsageError(f"the paper's claims have one called {min(known)} already: give yours another id")
    return stated


def _kind_of(name: str) -> tuple[type, str]:
    """The type of what a file states under a name, and where people import it from."""
    if name == "FIGURES":
        from assignadd.figure.record import FigureRecord

        return FigureRecord, "assignadd.figure.FigureRecord"
    from assignadd.ledger.claim import Claim

    return Claim, "assignadd.ledger.Claim"


def asked(args: Judging) -> str:
    """The command line that asks for the same ledger again."""
    options_given: dict[str, object] = {"--step": args.step, "--n": None if args.n == Judging.n else args.n}
    if isinstance(args, Claims):
        options_given["--seeds"] = args.seeds
    options_given["--with"] = shlex.join(map(str, args.with_)) or None
    options_given |= {"--census": args.census, "--fraction": args.fraction, "--two-var": args.two_var}
    words = ["assignadd", "claims", *args.runs]
    for option, value in options_given.items():
        if value is not None:
            words += [option, str(value)]
    return shlex.join(words)


def read_populations(networks: Sequence[Network], args: Judging) -> Populations:
    """The populations of seeds that the flags name, else the package's where they are of the same task."""
    from assignadd.sweeps.population import populations_for

    return populations_for([network.config for network in networks], *args.populations)


def lines_of(records: Sequence[Record]) -> Table:
    """A row for each claim, and one for each further reading of it."""
    table_columns = [
        Column("id"),
        Column("verdict", style=lambda verdict: COLOURS.get(verdict, "yellow")),
        Column("label", only="data"),
        Column("value", form=".4f"),
        Column("low", only="data"),
        Column("high", only="data"),
        Column("interval", "95 % interval", only="people"),
        Column("n", only="data"),
        Column("unit", only="data"),
        Column("sample", "over", only="people"),
        Column("paper", "paper", only="detail"),
        Column("claim", only="detail"),
        Column("comment", only="detail"),
    ]
    rows: list[tuple[Any, ...]] = []
    for r in records:
        lines = [(r.id, r.paper, r.claim, r.comment, r)]
        lines += [(f"{r.id}:{reading.id}", None, reading.says, None, reading) for reading in r.readings]
        for id, paper, claim, comment, line in lines:
            interval = f"{line.low:.4f} to {line.high:.4f}" if line.low is not None and line.low != line.high else None
            sample = line.sample if line.value is not None else None
            numbers = (line.value, line.low, line.high, interval, line.n or None, line.unit or None, sample)
            rows.append((id, line.verdict, r.label, *numbers, paper, claim, comment or None))
    return Table("", table_columns, rows)


def _verdict(record: Record) -> str:
    """The verdict for counting: "holds in 3 of 5 seeds", "holds in 4 of 5 seeds" and so on are one."""
    return record.verdict if record.verdict in COLOURS else SOME_SEEDS


def _by_label(records: Sequence[Record]) -> list[Table | str]:
    """A row for each label of the paper with its verdicts counted, and the claims that do not hold by name."""
    verdicts = [verdict for verdict in (*COLOURS, SOME_SEEDS) if any(_verdict(r) == verdict for r in records)]
    labels = dict.fromkeys(r.label for r in records)
    counts = {label: Counter(_verdict(r) for r in records if r.label == label) for label in labels}
    rows = [(label, counts[label].total(), *(counts[label][v] or None for v in verdicts)) for label in labels]
    failing = [record.id for record in records if _verdict(record) in (FAILS, BROKEN)]
    caption = "`--only ID` or `--only LABEL` shows some of the claims, --all every one in full"
    return [
        Table("claims by the paper's figure or section", columns("label", "claims", *verdicts), rows, caption),
        *([f"do not hold: {', '.join(failing)}"] if failing else []),
    ]


def _tally(records: Sequence[Record], networks: Sequence[Network]) -> list[str]:
    counts = Counter(_verdict(record) for record in records)
    lines = [
        f"{len(records)} claim{'s' * (len(records) != 1)}: "
        + ", ".join(f"{n} {verdict}" for verdict, n in counts.items())
    ]
    if not_binding := [f"seed {network.seed} of {network.name}" for network in networks if not binds(network)]:
        lines.append(
            f"{len(not_binding)} of {len(networks)} networks do not bind ({', '.join(not_binding)}): claims about "
            "binding are judged on the others"
        )
    return lines
