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
from assignadd.cli.screen import Column, Output, Printing, Table, columns, console
from assignadd.stats import FAILS, HOLDS, UNDECIDED

if TYPE_CHECKING:
    from assignadd.ledger.claim import Record
    from assignadd.network import Network
    from assignadd.paper.theory.composition import BetaPoint
    from assignadd.paper.theory.setting import Setting


@dataclass(frozen=True, kw_only=True)
class Theory(Parallel, Printing):
    """Check the paper's theory (section 7, appendix C): theorem, parameter beta, gradient step, proof, training.

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
        from assignadd.paper.theory.claims import all_statements, training_records
        from assignadd.paper.theory.composition import beta_points, required_balance
        from assignadd.paper.theory.setting import Setting
        from assignadd.runs.files import claim_folder
        from assignadd.runs.folder import open_run
        from assignadd.training.trainer import prepare

        s = Setting(self.N, self.T, self.V, self.alpha, self.beta)
        required_balance(s)  # refuses a beta so small that no step balances the operands
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
            records = all_statements(s)
            points = beta_points(s)
            prepare("cpu", threads, config)
            records += training_records([network] if network else [])
            if self.out is not None:
                _write(self.out, s, network, records)
        document = {
            "setting": asdict(s),
            "verdicts": msgspec.to_builtins(records),
            "beta": [_beta_record(point) for point in points],
        }
        verdicts = _verdict_table(s, records)
        parts = [*_beta_parts(points), *([verdicts] if self.all else []), *_conclusion(self, records)]
        return Output(parts, document, verdicts)


def _write(folder: Path, s: Setting, network: Network | None, records: Sequence[Record]) -> None:
    """Writes the figures, with a run two and without one, each as .svg, .png and its data as .npz; verdicts.json."""
    from assignadd.paper.theory import figures
    from assignadd.paper.theory.composition import beta_points
    from assignadd.runs import atomic

    figures.THEORY_BETA_FIGURE.save(figures.theory_beta_data(beta_points(s)), folder / "theory_beta")
    if network is not None:
        figures.THEORY_REAL_GRADIENT_FIGURE.save(figures.real_gradient_of(network), folder / "theory_real_gradient")
    verdicts = json.dumps(msgspec.to_builtins(records), indent=2) + "\n"
    atomic.write(folder / "verdicts.json", verdicts.encode())


def _beta_record(point: BetaPoint) -> dict[str, Any]:
    """The theorem's numbers and accuracies at one beta; None for the step that balances the attention where there is
    none."""
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


def _beta_parts(points: Sequence[BetaPoint]) -> Iterator[Table | str]:
    """The theorem's conditions and bound, and the accuracies of its step and of the balancing one, for some beta."""
    from assignadd.paper.theory.composition import beta_in_words, most_assignments
    from assignadd.paper.theory.setting import FACTOR

    s = points[0].s
    most = most_assignments(s)
    wanted = (0.5, 1, 1.5, math.log(s.T), 4, 8, s.V + 3, s.V + 4, points[-1].beta)
    nearest = {min(points, key=lambda p: abs(p.beta - beta)).beta for beta in wanted}
    rows = [
        (p.beta, p.s.rho_1, p.s.T * p.s.rho_2, p.check.constant, p.check.remainder, *p.stated, p.length, *p.balanced)
        for p in points
        if p.beta in nearest
    ]
    names = ("beta", "rho_1", "T rho_2", "const", "rest", "step, 1", f"step, {most}", "share", "then, 1",
             f"then, {most}")  # fmt: skip
    caption = (
        "rest: norm of the remainder (the memory's is 2); const: rest over V (1/N + 1/T + T alpha). step: accuracy "
        f"after the theorem's step with 1 and {most} assignments; share: the part of it after which the operands "
        "get equal attention; then: accuracy after that part"
    )
    of_rows = [Column(name, form=".1g" if name == "T rho_2" else ".2f") for name in names]
    yield Table("the theorem and its step against beta", of_rows, rows, caption)
    conditions = beta_in_words(points, [p.s.meets_conditions for p in points])
    yield f"conditions (within a factor {FACTOR:g}) hold for beta {conditions}"
    composing = beta_in_words(points, [p.composes for p in points])
    yield f"the stated step adds one variable and one number for beta {composing}"


def _verdict_table(s: Setting, records: Sequence[Record]) -> Table:
    """Every statement with its value and verdict."""
    of_rows = [*columns("statement"), Column("value", form=".3g"), *columns("verdict"), Column("claim", only="detail")]
    rows = [(_name(record), record.value, record.verdict, record.claim) for record in records]
    return Table(f"theory at N = {s.N}, T = {s.T}, V = {s.V}, alpha = {s.alpha:g}", of_rows, rows)


def _name(record: Record) -> str:
    """The id of a statement without the beginning that all have."""
    return record.id.removeprefix("theory-")


def _conclusion(args: Theory, records: Sequence[Record]) -> Iterator[str]:
    """How many statements hold, and which do not or are undecided."""
    tested = [record for record in records if record.verdict in (HOLDS, FAILS, UNDECIDED)]
    for record in tested:
        if record.verdict != HOLDS and not args.all:  # which prints all of them
            yield f"{_name(record)}, {record.verdict}: {record.claim}"
    holding = sum(record.verdict == HOLDS for record in tested)
    yield f"{holding} of {len(tested)} statements hold{'' if args.run else '; name a run to test real training'}"
    if not args.all:
        yield "--all prints every statement"
    if args.out is not None:
        yield f"figures, their data and verdicts.json are in {args.out}"
