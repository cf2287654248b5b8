"""assignadd theory"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from assignadd.cli.options import Parallel, positional
from assignadd.cli.screen import Column, Output, Printing, Table, columns, console
from assignadd.config import Config, require_built_in
from assignadd.stats import FAILS, HOLDS, UNDECIDED

if TYPE_CHECKING:
    from assignadd.ledger.claim import Record
    from assignadd.network import Network
    from assignadd.paper.theory.composition import BetaPoint


@dataclass(frozen=True, kw_only=True)
class Theory(Parallel, Printing):
    """Check the paper's theory (section 7, appendix C): theorem, parameter beta, gradient step, training.

    docs/theory.md explains the numbers and verdicts.

    --json prints {"setting", "verdicts": [{"id", "claim", "value", "verdict", ...}], "beta": [...]}.
    """

    run: str | None = positional(None)
    """A run folder, its name under runs/ or hf://OWNER/NAME, whose training is compared with the theory; omit it to
    skip that part."""
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
        """The verdicts on the statements of the theory, and its numbers over beta."""
        threads = self.cores
        from assignadd.paper.theory.claims import paper_statements, training_records
        from assignadd.paper.theory.composition import beta_points, required_balance
        from assignadd.paper.theory.theorem import Setting
        from assignadd.runs.files import claim_folder
        from assignadd.training.trainer import prepare

        s = Setting(self.N, self.T, self.V, self.alpha, self.beta)
        required_balance(s)  # for its error: a beta so small that no step balances the operands is refused
        networks = [] if self.run is None else [_network(self.run, self.seed)]
        if self.out is not None:
            claim_folder(self.out, "theory")  # an unwritable folder fails before the computation
        config = networks[0].config if networks else Config()
        with console.status("checking the theory"):
            prepare("cpu", 1, config)  # the statements take many small products, slower on several threads
            records = paper_statements(s)
            points = beta_points(s)
            prepare("cpu", threads, config)
            records += training_records(networks)
            if self.out is not None:
                _write_figures_and_verdicts(self.out, points, networks, records)
        document = {
            "setting": asdict(s),
            "verdicts": msgspec.to_builtins(records),
            "beta": [_beta_record(point) for point in points],
        }
        title = f"theory at N = {s.N}, T = {s.T}, V = {s.V}, alpha = {s.alpha:g}"
        table_columns = [
            *columns("statement"), Column("value", form=".3g"), *columns("verdict"), Column("claim", only="detail")
        ]  # fmt: skip
        rows = [(_name(record), record.value, record.verdict, record.claim) for record in records]
        verdicts = Table(title, table_columns, rows)
        parts: list[Table | str] = [*_beta_parts(points), *([verdicts] if self.all else []), *self._conclusion(records)]
        return Output(parts, document, verdicts)

    def _conclusion(self, records: Sequence[Record]) -> list[str]:
        """The last lines: the statements that do not hold, unless a table shows all; how many hold; how to see more."""
        tested = [record for record in records if record.verdict in (HOLDS, FAILS, UNDECIDED)]
        not_holding = [record for record in tested if record.verdict != HOLDS]
        lines = [f"{_name(record)}, {record.verdict}: {record.claim}" for record in not_holding if not self.all]
        hint = "" if self.run else "; name a run to test real training"
        lines.append(f"{len(tested) - len(not_holding)} of {len(tested)} statements hold{hint}")
        if not self.all:
            lines.append("--all prints every statement")
        if self.out is not None:
            lines.append(f"figures, their data and verdicts.json are in {self.out}")
        return lines


def _network(name: str, seed: int | None) -> Network:
    """The network of a run with this seed, at the last step."""
    from assignadd.network import Network
    from assignadd.runs.folder import open_run

    run = open_run(name)
    require_built_in(run.config, "theory")
    index = run.index_of(seed)
    return Network.of_run(run, index, *run.model_at(None, index))


def _write_figures_and_verdicts(
    folder: Path, points: list[BetaPoint], networks: Sequence[Network], records: Sequence[Record]
) -> None:
    """Writes the figure over beta, the figure of the network's gradient if there is a network, and verdicts.json."""
    from assignadd.paper.theory import figures
    from assignadd.runs import atomic

    figures.THEORY_BETA_FIGURE.save(figures.theory_beta_data(points), folder / "theory_beta")
    for network in networks:  # none or one
        figures.THEORY_REAL_GRADIENT_FIGURE.save(figures.real_gradient_of(network), folder / "theory_real_gradient")
    verdicts = json.dumps(msgspec.to_builtins(records), indent=2) + "\n"
    atomic.write(folder / "verdicts.json", verdicts.encode())


def _beta_record(point: BetaPoint) -> dict[str, Any]:
    """The theorem's numbers and accuracies at one beta, as --json prints them.

    If no length of the step gives both operands the same attention, the numbers of the balancing step are None.
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


def _beta_parts(points: Sequence[BetaPoint]) -> list[Table | str]:
    """A table with a row for each of a few beta, and two lines: where the conditions hold, and where the step composes.

    A row has the theorem's conditions and bound, and two accuracies: after the step that the theorem states, and after
    that step shortened so that both operands get the same attention.
    """
    from assignadd.paper.theory.composition import beta_in_words, most_assignments
    from assignadd.paper.theory.theorem import FACTOR

    s = points[0].s  # N, T, V and alpha are the same at all points
    most = most_assignments(s)
    # Small ones, log T as in the theorem, and around V + 3, near which the step composes.
    listed = (0.5, 1, 1.5, math.log(s.T), 4, 8, s.V + 3, s.V + 4, points[-1].beta)
    nearest = {min(points, key=lambda point: abs(point.beta - beta)).beta for beta in listed}
    names = (
        "beta", "rho_1", "T rho_2", "const", "rest", "step, 1", f"step, {most}", "share", "then, 1", f"then, {most}",
    )  # fmt: skip
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
    table_columns = [Column(name, form=".1g" if name == "T rho_2" else ".2f") for name in names]
    meets_conditions = beta_in_words(points, [point.s.meets_conditions for point in points])
    composes = beta_in_words(points, [point.composes for point in points])
    return [
        Table("the theorem and its step against beta", table_columns, rows, caption),
        f"conditions (within a factor {FACTOR:g}) hold for beta {meets_conditions}",
        f"the stated step adds one variable and one number for beta {composes}",
    ]


def _name(record: Record) -> str:
    """The id of a statement without the beginning that all have."""
    return record.id.removeprefix("theory-")
