"""assignadd theory"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from assignadd.cli import options
from assignadd.cli.options import Parallel, positional
from assignadd.cli.screen import Column, Output, Printing, Table, console
from assignadd.stats import FAILS, HOLDS, UNDECIDED

if TYPE_CHECKING:
    from assignadd.ledger.claim import Record
    from assignadd.network import Network
    from assignadd.paper.theory.composition import BetaPoint
    from assignadd.paper.theory.setting import Setting


@dataclass(frozen=True, kw_only=True)
class Theory(Parallel, Printing):
    """Check the paper's theory (section 7, appendix C): theorem, parameter beta, gradient step, training.

    docs/theory.md explains the numbers and verdicts.

    --json prints {"setting", "verdicts": [{"id", "claim", "value", "verdict", ...}], "beta": [...]}.
    """

    run: str | None = positional(None)
    """A run folder, or its name under runs/, whose training is compared with the theory; omit it to skip that part."""
    seed: int | None = None
    """Which model of the run. If None, the first."""
    N: int = 59
    """Numbers."""
    T: int = 16
    """Positions."""
    V: int = 12
    """Variables, at most N."""
    alpha: float = 1e-3
    """Scale of the final logits."""
    beta: float | None = None
    """Strength of the initial attention. If None, log T."""
    out: Path | None = None
    """A folder for the figures, their data and verdicts.json."""

    def main(self) -> Output:
        options.check_seed("seed", self.seed)
        threads = self.cores
        from assignadd.config import Config, require_built_in
        from assignadd.network import Network
        from assignadd.paper.theory.claims import paper_statements, training_records
        from assignadd.paper.theory.composition import beta_points, required_balance
        from assignadd.paper.theory.setting import Setting
        from assignadd.runs.files import claim_folder
        from assignadd.runs.folder import open_run
        from assignadd.training.trainer import prepare

        s = Setting(self.N, self.T, self.V, self.alpha, self.beta)
        required_balance(s)  # for its error: a beta so small that no step balances the operands is refused
        network: Network | None = None
        if self.run is not None:
            run = open_run(self.run)
            require_built_in(run.config, "theory")
            index = run.index_of(self.seed)
            network = Network.of_run(run, index, *run.model_at(None, index))
        if self.out is not None:
            claim_folder(self.out, "theory")  # an unwritable folder fails before the computation
        config = Config() if network is None else network.config
        with console.status("checking the theory"):
            prepare("cpu", 1, config)  # the statements take many small products, slower on several threads
            records = paper_statements(s)
            points = beta_points(s)
            prepare("cpu", threads, config)
            records += training_records([] if network is None else [network])
            if self.out is not None:
                _write(self.out, s, network, records)
        document = {
            "setting": asdict(s),
            "verdicts": msgspec.to_builtins(records),
            "beta": [_beta_record(point) for point in points],
        }
        verdicts = _verdict_table(s, records)
        parts: list[Table | str] = [_beta_table(points), *_beta_ranges(points)]
        if self.all:
            parts.append(verdicts)
        parts += _conclusion(self, records)
        return Output(parts, document, verdicts)


def _write(folder: Path, s: Setting, network: Network | None, records: Sequence[Record]) -> None:
    """Writes the figure over beta, that of a network's gradient if there is a network, and verdicts.json.

    A figure is three files: .svg, .png, and its data as .npz.
    """
    from assignadd.paper.theory import figures
    from assignadd.paper.theory.composition import beta_points
    from assignadd.runs import atomic

    figures.THEORY_BETA_FIGURE.save(figures.theory_beta_data(beta_points(s)), folder / "theory_beta")
    if network is not None:
        figures.THEORY_REAL_GRADIENT_FIGURE.save(figures.real_gradient_of(network), folder / "theory_real_gradient")
    verdicts = json.dumps(msgspec.to_builtins(records), indent=2) + "\n"
    atomic.write(folder / "verdicts.json", verdicts.encode())


def _beta_record(point: BetaPoint) -> dict[str, Any]:
    """The theorem's numbers and accuracies at one beta, as --json prints them.

    A step whose length gives both operands the same attention need not exist: None stands for its numbers then.
    """
    return {
        "beta": point.beta,
        "rho_1": point.s.rho_1,
        "T_rho_2": point.s.T * point.s.rho_2,
        "meets_conditions": point.s.meets_conditions,
        "remainder": point.check.remainder,
        "attenuation": point.check.attenuation,
        "constant": point.check.constant,
        "stated": point.stated,
        "balancing_length": point.length,
        "balanced": None if point.length is None else point.balanced,
    }


def _beta_table(points: Sequence[BetaPoint]) -> Table:
    """A row for each of some beta: the theorem's conditions and bound, and the accuracies after two steps.

    The steps are the one that the theorem states, and the part of it after which both operands get the same attention.
    """
    from assignadd.paper.theory.composition import most_assignments

    s = points[0].s  # N, T, V and alpha are the same at all points
    most = most_assignments(s)
    # Small ones, log T as in the theorem, and around V + 3, near which the step composes.
    listed = (0.5, 1, 1.5, math.log(s.T), 4, 8, s.V + 3, s.V + 4, points[-1].beta)
    nearest = {min(points, key=lambda point: abs(point.beta - beta)).beta for beta in listed}
    names = (
        "beta", "rho_1", "T rho_2", "const", "rest", "step, 1", f"step, {most}", "share", "then, 1", f"then, {most}",
    )  # fmt: skip
    table_columns = [Column(name, form=".1g" if name == "T rho_2" else ".2f") for name in names]
    rows: list[tuple[Any, ...]] = []
    for point in points:
        if point.beta in nearest:
            conditions = (point.s.rho_1, point.s.T * point.s.rho_2)
            bound = (point.check.constant, point.check.remainder)
            rows.append((point.beta, *conditions, *bound, *point.stated, point.length, *point.balanced))
    caption = (
        "rest: norm of the remainder (the memory's is 2); const: rest over V (1/N + 1/T + T alpha). step: accuracy "
        f"after the theorem's step with 1 and {most} assignments; share: the part of it after which the operands "
        "get equal attention; then: accuracy after that part"
    )
    return Table("the theorem and its step against beta", table_columns, rows, caption)


def _beta_ranges(points: Sequence[BetaPoint]) -> list[str]:
    """Two lines: for which beta the theorem's conditions hold, and for which its step leads to the right sums."""
    from assignadd.paper.theory.composition import beta_in_words
    from assignadd.paper.theory.setting import FACTOR

    meets_conditions = beta_in_words(points, [point.s.meets_conditions for point in points])
    composes = beta_in_words(points, [point.composes for point in points])
    return [
        f"conditions (within a factor {FACTOR:g}) hold for beta {meets_conditions}",
        f"the stated step adds one variable and one number for beta {composes}",
    ]


def _verdict_table(s: Setting, records: Sequence[Record]) -> Table:
    """A row for each statement of the theory, with its value and verdict."""
    table_columns = [
        Column("statement"),
        Column("value", form=".3g"),
        Column("verdict"),
        Column("claim", only="detail"),
    ]
    rows = [(_name(record), record.value, record.verdict, record.claim) for record in records]
    return Table(f"theory at N = {s.N}, T = {s.T}, V = {s.V}, alpha = {s.alpha:g}", table_columns, rows)


def _name(record: Record) -> str:
    """The id of a statement without the beginning that all have."""
    return record.id.removeprefix("theory-")


def _conclusion(args: Theory, records: Sequence[Record]) -> Iterator[str]:
    """The last lines: which statements do not hold or are undecided, how many hold, and where more is to be seen."""
    tested = [record for record in records if record.verdict in (HOLDS, FAILS, UNDECIDED)]
    if not args.all:  # --all prints every statement in a table
        for record in tested:
            if record.verdict != HOLDS:
                yield f"{_name(record)}, {record.verdict}: {record.claim}"
    n_holding = sum(record.verdict == HOLDS for record in tested)
    hint = "" if args.run else "; name a run to test real training"
    yield f"{n_holding} of {len(tested)} statements hold{hint}"
    if not args.all:
        yield "--all prints every statement"
    if args.out is not None:
        yield f"figures, their data and verdicts.json are in {args.out}"
