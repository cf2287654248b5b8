"""assignadd theory"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from assignadd.cli.options import Parallel, positional
from assignadd.cli.screen import Column, Output, Printing, Table, columns, console
from assignadd.config import Config, require_built_in
from assignadd.stats import FAILS, HOLDS, UNDECIDED

if TYPE_CHECKING:
    from assignadd.ledger.claim import Record
    from assignadd.network import Network
    from assignadd.paper.theory.theorem import Setting


@dataclass(frozen=True, kw_only=True)
class Theory(Parallel, Printing):
    """Check the paper's theory (section 7, appendix C): theorem, parameter beta, gradient step, training.

    docs/theory.md explains the numbers and verdicts.

    --json prints {"setting", "verdicts": [{"id", "claim", "value", "verdict", ...}]}.
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
        """A table of the statements of the theory with their values and verdicts."""
        threads = self.cores
        from assignadd.paper.theory.claims import paper_statements, training_records
        from assignadd.paper.theory.composition import required_balance
        from assignadd.paper.theory.theorem import Setting
        from assignadd.runs.files import claim_folder
        from assignadd.training.trainer import prepare

        s = Setting(self.N, self.T, self.V, self.alpha, self.beta)
        # Called for its error: a beta so small that no step balances the operands is refused.
        required_balance(s)
        networks = [] if self.run is None else [_network(self.run, self.seed)]
        if self.out is not None:
            claim_folder(self.out, "theory")  # an unwritable folder fails before the computation
        config = networks[0].config if networks else Config()
        with console.status("checking the theory"):
            prepare("cpu", 1, config)  # the statements take many small products, slower on several threads
            records = paper_statements(s)
            prepare("cpu", threads, config)
            records += training_records(networks)
            if self.out is not None:
                _write_figures_and_verdicts(self.out, s, networks, records)
        table_columns = [
            *columns("statement", "verdict"), Column("value", form=".3g"), Column("claim", only="detail")
        ]  # fmt: skip
        rows = [(record.id.removeprefix("theory-"), record.verdict, record.value, record.claim) for record in records]
        title = f"theory at N = {s.N}, T = {s.T}, V = {s.V}, alpha = {s.alpha:g}"
        hint = "" if self.run else "; name a run to test real training"
        n_tested = sum(record.verdict in (HOLDS, FAILS, UNDECIDED) for record in records)
        n_holding = sum(record.verdict == HOLDS for record in records)
        caption = f"{n_holding} of the {n_tested} statements that can be tested hold{hint}"
        parts: list[Table | str] = [Table(title, table_columns, rows, caption)]
        if self.out is not None:
            parts.append(f"figures, their data and verdicts.json are in {self.out}")
        return Output(parts, {"setting": asdict(s), "verdicts": msgspec.to_builtins(records)})


def _network(name: str, seed: int | None) -> Network:
    """The network of a run with this seed, at the last step."""
    from assignadd.network import Network
    from assignadd.runs.folder import open_run

    run = open_run(name)
    require_built_in(run.config, "theory")
    index = run.index_of(seed)
    step, stack = run.model_at(None, index)
    return Network.of_run(run, index, step, stack)


def _write_figures_and_verdicts(
    folder: Path, s: Setting, networks: Sequence[Network], records: Sequence[Record]
) -> None:
    """Writes the figure over beta, the figure of the network's gradient if there is a network, and verdicts.json."""
    from assignadd.paper.theory import figures
    from assignadd.paper.theory.composition import beta_points
    from assignadd.runs import atomic

    figures.THEORY_BETA_FIGURE.save(figures.theory_beta_data(beta_points(s)), folder / "theory_beta")
    for network in networks:  # none or one
        figures.THEORY_REAL_GRADIENT_FIGURE.save(figures.real_gradient_of(network), folder / "theory_real_gradient")
    verdicts = json.dumps(msgspec.to_builtins(records), indent=2) + "\n"
    atomic.write(folder / "verdicts.json", verdicts.encode())
