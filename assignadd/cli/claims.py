"""assignadd claims"""

from __future__ import annotations

import dataclasses
import os
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assignadd.cli import options
from assignadd.cli.measure import measured_table, read_networks, with_seeds
from assignadd.cli.options import ManyRuns, Measuring, positional
from assignadd.cli.screen import Column, Output, Printing, Table, columns, console
from assignadd.config.errors import UsageError
from assignadd.dynamics.trajectory import binds
from assignadd.ledger.claim import Claim, Line, Record, is_about_networks
from assignadd.network import Network, runs_of
from assignadd.report.claims_table import verdict_group
from assignadd.runs import atomic
from assignadd.runs.files import claim_file
from assignadd.stats import BROKEN, FAILS, HOLDS, NOT_APPLICABLE, SOME_SEEDS, UNDECIDED, UNMEASURED, UNTESTABLE
from assignadd.sweeps.population import Populations, populations_for
from assignadd.user_file import user_module

if TYPE_CHECKING:
    from assignadd.figure.record import FigureRecord

COLOURS = {HOLDS: "green", FAILS: "red", BROKEN: "red", UNDECIDED: "yellow"} | dict.fromkeys(
    (UNTESTABLE, NOT_APPLICABLE, UNMEASURED), "dim"
)


@dataclass(frozen=True, kw_only=True)
class Judging(ManyRuns, Measuring):
    """The networks and populations on which a command judges the claims."""

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
    """Files of Python with `CLAIMS` (assignadd.ledger.Claim) and, for a report, `FIGURES`
    (assignadd.figure.FigureRecord), in tuples. They are executed."""

    def populations(self, networks: Sequence[Network]) -> Populations:
        """The populations of seeds that the options name; else the package's, if the networks have the paper's task."""
        return populations_for([network.config for network in networks], self.census, self.fraction, self.two_var)

    @property
    def command(self) -> str:
        """The command line of `assignadd claims` that judges the same claims on the same networks and populations."""
        words = ["assignadd", "claims", *self.runs]
        for name in ("step", "n", "seeds", "with_", "census", "fraction", "two_var"):
            value = getattr(self, name)
            default = getattr(Claims, name)  # a dataclass has the default of a field as an attribute of the class
            if value != default:
                option = "--" + name.rstrip("_").replace("_", "-")
                values = value if isinstance(value, tuple) else [value]
                words += [option, *map(str, values)]
        return shlex.join(words)


@dataclass(frozen=True, kw_only=True)
class Claims(Judging, Printing):
    """Every claim of the paper against trained models: value, 95 % interval, verdict.

    Without --only the verdicts are counted; --all shows every claim. --csv has a row for each claim
    and each further reading; --json prints a list of {"id", "label", "claim", "paper", "value", "low", "high", "n",
    "seeds", "verdict", ...}.
    """

    runs: tuple[str, ...] = positional(())
    """Run folders, their names under runs/, or hf://OWNER/NAME. Without one, seed 0 of census-six, which comes with
    the package; but only what concerns many seeds and the theory where a population of your own is given."""
    only: str | None = None
    """The id or the paper's label of a claim, or how several ids begin: late-variable, circuit."""
    out: Path | None = None
    """Also write the records of these networks here, as JSON with the command, the commit and the hashes of imported
    files."""

    def main(self) -> Output:
        """The verdicts, counted by label or listed one by one; exit code 1 if a measure failed."""
        from assignadd.paper.ledger import ledger, ledger_document

        users_claims = stated_in(self.with_)[0] if self.with_ else []  # figures are for a report
        args = self._with_shipped_run(users_claims)
        if self.out is not None:
            # A file that is there is replaced only if it has the keys of what this command writes.
            claim_file(self.out, lambda data: b'"records"' in data and b'"sources"' in data)
        processes = self.cores
        seeds = args.wanted_seeds
        networks = with_seeds(read_networks(args.runs, self.step, self.n), seeds)
        populations = self.populations(networks)
        if self.only is None:
            for run in runs_of(networks):
                # What is measured at every checkpoint is stored beside the run, for the next command too.
                if len(run.steps) > 1 and os.access(run.path, os.W_OK):
                    measured_table(run, processes)
        with console.status("measuring") as status:
            records = ledger(
                networks, args.command, self.only, lambda claim: status.update(f"measuring {claim}"), populations,
                processes, users_claims,
            )  # fmt: skip
        if self.out is not None:
            atomic.write(self.out, ledger_document(records, networks, args.command))
        every_line = record_table(records)
        is_broken = any(line["verdict"] == BROKEN for line in every_line.records)
        parts = _by_label(records) if self.only is None and not self.all else [every_line]
        documents = [dataclasses.asdict(record) for record in records]
        return Output([*parts, *_tally(records, networks)], documents, csv=every_line, code=int(is_broken))

    def _with_shipped_run(self, users_claims: Sequence[Claim]) -> Claims:
        """These arguments, with a network of the package as the run if the claims need one and the user names none.

        Raises an error if --only fits no claim, or needs a network where the user names only populations.
        """
        from assignadd.paper.ledger import chosen_claims

        need_network = [is_about_networks(claim) for claim in chosen_claims(self.only, users_claims)]
        if self.runs or not any(need_network):
            return self
        if not (self.census or self.fraction or self.two_var):
            # Seed 0 alone of its six networks: to judge all claims takes a minute or two for each.
            return dataclasses.replace(self, runs=(options.shipped_run().name,), seeds=self.seeds or "0")
        # With a population of the user's own only the claims about many seeds are judged, if there are any.
        if all(need_network):
            raise UsageError(f"{self.only} is about trained networks: assignadd claims RUN --only {self.only}")
        return self


def stated_in(files: Sequence[Path]) -> tuple[list[Claim], list[FigureRecord]]:
    """The claims and figures that the user's files state as CLAIMS and FIGURES, in tuples; the files are executed."""
    from assignadd.figure.record import FigureRecord
    from assignadd.paper.ledger import CLAIMS

    claims: list[Claim] = []
    figures: list[FigureRecord] = []
    for file in files:
        module = user_module(file)
        claims_of_file, figures_of_file = getattr(module, "CLAIMS", ()), getattr(module, "FIGURES", ())
        if not _is_tuple_of(Claim, claims_of_file) or not (claims_of_file or figures_of_file):
            raise UsageError(f"{file}: expected CLAIMS, a tuple of assignadd.ledger.Claim")
        if not _is_tuple_of(FigureRecord, figures_of_file):
            raise UsageError(f"{file}: expected FIGURES, a tuple of assignadd.figure.FigureRecord")
        claims += claims_of_file
        figures += figures_of_file
    if known := {claim.id for claim in CLAIMS} & {claim.id for claim in claims}:
        raise UsageError(f"the paper's claims have one called {min(known)} already: give yours another id")
    return claims, figures


def _is_tuple_of(kind: type, values: object) -> bool:
    """Whether `values` is a tuple of objects of this type."""
    return isinstance(values, tuple) and all(isinstance(value, kind) for value in values)


def record_table(records: Sequence[Record]) -> Table:
    """The table of the records: a row for each claim, and below it a row for each further reading of it."""
    table_columns = [
        Column("id"), Column("verdict", style=lambda verdict: COLOURS.get(verdict, "yellow")),
        Column("label", only="data"), Column("value", form=".4f"), Column("low", only="data"),
        Column("high", only="data"), Column("interval", "95 % interval", only="people"), Column("n", only="data"),
        Column("unit", only="data"), Column("sample", "over", only="people"), Column("paper", "paper", only="detail"),
        Column("claim", only="detail"), Column("comment", only="detail"),
    ]  # fmt: skip
    rows: list[tuple[Any, ...]] = []
    for record in records:
        cells = _measured_cells(record.label, record)
        rows.append((record.id, *cells, record.paper, record.claim, record.comment or None))
        for reading in record.readings:
            cells = _measured_cells(record.label, reading)
            rows.append((f"{record.id}:{reading.id}", *cells, None, reading.says, None))
    return Table("", table_columns, rows)


def _measured_cells(label: str, line: Line) -> tuple[Any, ...]:
    """The cells of a claim or a further reading in the columns from `verdict` to `sample`; `label` is the claim's."""
    has_interval = line.low is not None and line.low != line.high
    interval = f"{line.low:.4f} to {line.high:.4f}" if has_interval else None
    sample = None if line.value is None else line.sample
    return line.verdict, label, line.value, line.low, line.high, interval, line.n or None, line.unit or None, sample


def _by_label(records: Sequence[Record]) -> list[Table | str]:
    """A table with a row for each label, which counts its claims by verdict; and a line with those that do not hold."""
    counts = Counter((record.label, verdict_group(record.verdict)) for record in records)
    n_claims = Counter(record.label for record in records)
    present = {verdict for _, verdict in counts}
    verdicts = [verdict for verdict in (*COLOURS, SOME_SEEDS) if verdict in present]  # the columns, in this order
    rows = []
    for label, n in n_claims.items():
        rows.append((label, n, *[counts[label, verdict] or None for verdict in verdicts]))  # None is shown as "-"
    caption = "`--only ID` or `--only LABEL` shows some of the claims, --all every one in full"
    title = "claims by the paper's figure or section"
    failing = ", ".join(record.id for record in records if verdict_group(record.verdict) in (FAILS, BROKEN))
    lines = [f"do not hold: {failing}"] if failing else []
    return [Table(title, columns("label", "claims", *verdicts), rows, caption), *lines]


def _tally(records: Sequence[Record], networks: Sequence[Network]) -> list[str]:
    """The last lines: how many claims have each verdict, and which networks do not bind."""
    counts = Counter(verdict_group(record.verdict) for record in records)
    counted = ", ".join(f"{n} {verdict}" for verdict, n in counts.items())
    lines = [f"{len(records)} claim{'s' * (len(records) != 1)}: {counted}"]
    if not_binding := [f"seed {network.seed} of {network.name}" for network in networks if not binds(network)]:
        names = ", ".join(not_binding)
        subject = f"{len(not_binding)} of {len(networks)} networks do not bind ({names})"
        lines.append(f"{subject}: claims about binding are judged on the others")
    return lines
