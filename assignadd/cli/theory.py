"""assignadd theory"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec

from assignadd.cli.options import Parallel, positional
from assignadd.cli.screen import Column, Output, Printing, Table, columns, console
from assignadd.config import Config, require_built_in
from assignadd.stats import FAILS, HOLDS, UNDECIDED


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
    """A folder for the figures and their data."""

    def main(self) -> Output:
        threads = self.cores
        from assignadd.network import Network
        from assignadd.paper.theory import figures
        from assignadd.paper.theory.claims import paper_statements, training_records
        from assignadd.paper.theory.composition import beta_points, required_balance
        from assignadd.paper.theory.theorem import Setting
        from assignadd.runs.files import claim_folder
        from assignadd.runs.folder import open_run
        from assignadd.training.trainer import prepare

        s = Setting(self.N, self.T, self.V, self.alpha, self.beta)
        # Called for its error: a beta so small that no step balances the operands is refused.
        required_balance(s)
        networks = []
        if self.run is not None:
            run = open_run(self.run)
            require_built_in(run.config, "theory")
            index = run.index_of(self.seed)
            step, stack = run.model_at(None, index)
            networks = [Network.of_run(run, index, step, stack)]
        if self.out is not None:
            claim_folder(self.out, "theory")  # an unwritable folder fails before the computation
        config = networks[0].config if networks else Config()
        with console.status("checking the theory"):
            prepare("cpu", 1, config)  # the statements take many small products, slower on several threads
            records = paper_statements(s)
            prepare("cpu", threads, config)
            records += training_records(networks)
            if self.out is not None:
                figures.THEORY_BETA_FIGURE.save(figures.theory_beta_data(beta_points(s)), self.out / "theory_beta")
                for network in networks:  # none or one
                    data = figures.real_gradient_of(network)
                    figures.THEORY_REAL_GRADIENT_FIGURE.save(data, self.out / "theory_real_gradient")
        table_columns = [
            *columns("statement", "verdict"), Column("value", form=".3g"), Column("claim", only="detail")
        ]  # fmt: skip
        rows = [(record.id.removeprefix("theory-"), record.verdict, record.value, record.claim) for record in records]
        title = f"theory at N = {s.N}, T = {s.T}, V = {s.V}, alpha = {s.alpha:g}"
        hint = "" if self.run else "; name a run to test real training"
        n_tested = sum(record.verdict in (HOLDS, FAILS, UNDECIDED) for record in records)
        n_holding = sum(record.verdict == HOLDS for record in records)
        caption = f"{n_holding} of the {n_tested} statements that can be tested hold{hint}"
        document = {"setting": asdict(s), "verdicts": msgspec.to_builtins(records)}
        parts: list[Table | str] = [Table(title, table_columns, rows, caption)]
        if self.out is not None:
            parts.append(f"the figures and their data are in {self.out}")
        return Output(parts, document)
