"""assignadd theory"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assignadd.cli import options
from assignadd.cli.options import Parallel, positional
from assignadd.cli.screen import Column, Output, Printing, Table, columns, console
from assignadd.stats import FAILS, HOLDS, UNDECIDED, UNTESTABLE

if TYPE_CHECKING:
    from assignadd.paper.theory.claims import TheoryNumbers
    from assignadd.paper.theory.composition import BetaScan, StepNumbers
    from assignadd.paper.theory.real_gradient import TheoryGradient
    from assignadd.runs.folder import Run
    from assignadd.stats import Statement


@dataclass(frozen=True, kw_only=True)
class Theory(Parallel, Printing):
    """Check the paper's theory (section 7, appendix C): theorem, parameter beta, gradient step, proof, training.

    docs/theory.md explains the numbers and verdicts.

    --json prints {"setting", "verdicts": [{"id", "claim", "value", "verdict", ...}], "step": {...}, "beta": [...]}.
    """

    run: str | None = positional(None)
    """A run folder, or its name under runs/, whose training is compared with the theory; omit it to skip that part."""
    seed: int | None = None
    """Which model of the run. If None, the first."""
    sequences: int = 2048
    """One-variable sequences for the run's gradient."""
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
        options.check_count("sequences", self.sequences)
        options.check_seed("seed", self.seed)
        threads = self.cores
        from assignadd.config import Config
        from assignadd.paper.theory.claims import statements, theory_numbers
        from assignadd.paper.theory.composition import required_balance
        from assignadd.paper.theory.real_gradient import real_statements
        from assignadd.paper.theory.setting import Setting
        from assignadd.runs.files import claim_folder
        from assignadd.runs.folder import open_run
        from assignadd.training.trainer import prepare

        s = Setting(self.N, self.T, self.V, self.alpha, self.beta)
        required_balance(s)  # refuses a beta so small that no step balances the operands
        run = None if self.run is None else open_run(self.run)
        if run is not None:
            run.model_at(None, run.index_of(self.seed))  # refuses a model that diverged
        if self.out is not None:
            claim_folder(self.out, "theory")  # an unwritable folder fails before the computation
        prepare("cpu", threads, Config() if run is None else run.config)
        with console.status("checking the theory"):
            gradient, name = (None, "") if run is None else _gradient(run, self)
            numbers = theory_numbers(s)
            verdicts = [*statements(numbers), *real_statements(gradient, name)]
            if self.out is not None:
                _write(self.out, numbers, gradient, name, verdicts)
        document = {
            "setting": asdict(s), "verdicts": [v.record() for v in verdicts], "step": _step(numbers.step),
            "beta": _beta(numbers.scan),
        }  # fmt: skip
        statements_table = _verdict_table(self, verdicts)
        details = [_step_table(numbers.step), statements_table] if self.all else []
        return Output([*_beta_parts(numbers.scan), *details, *_conclusion(self, verdicts)], document, statements_table)


def _gradient(run: Run, args: Theory) -> tuple[TheoryGradient, str]:
    """The gradient of one model of the run along its training, and the model's name."""
    from assignadd.paper.theory.real_gradient import informative_steps, one_variable_batch, theory_gradient

    model = run.index_of(args.seed)
    steps = informative_steps(run.steps, [row for row in run.metrics() if row["model"] == model])
    batch = one_variable_batch(run.configs[model], run.seen[model], args.sequences)
    return theory_gradient(run.trajectory(steps, model), steps, batch), f"{run.name}, seed {run.members[model].seed}"


def _write(
    folder: Path, numbers: TheoryNumbers, gradient: TheoryGradient | None, name: str, verdicts: list[Statement]
) -> None:
    """Writes the figures, with a run four and without three, each as .svg, .png and its data as .npz; verdicts.json."""
    from assignadd.paper.theory import figures
    from assignadd.runs import atomic

    figures_and_data = [
        (figures.THEORY_REMAINDER_FIGURE, figures.theory_remainder_data(numbers.grid, numbers.at)),
        (figures.THEORY_BETA_FIGURE, figures.theory_beta_data(numbers.scan)),
        (figures.THEORY_ATTENTION_FIGURE, figures.theory_attention_data(numbers.step)),
    ]
    if gradient is not None:
        figures_and_data.append(
            (figures.THEORY_REAL_GRADIENT_FIGURE, figures.theory_real_gradient_data(gradient, name))
        )
    for record, data in figures_and_data:
        record.save(data, folder / record.label)
    atomic.write(folder / "verdicts.json", (json.dumps([v.record() for v in verdicts], indent=2) + "\n").encode())


def _step(step: StepNumbers) -> dict[str, Any]:
    """Attention and accuracy after each step, for each number of assignments."""
    return {name: [asdict(c) for c in getattr(step, name)] for name in ("before", "stated", "shorter")}


def _beta(scan: BetaScan) -> list[dict[str, Any]]:
    """The theorem's numbers and accuracies over beta; None for the step that balances the attention where there is
    none."""
    return [
        {
            "beta": p.beta, "rho_1": p.check.s.rho_1, "T_rho_2": p.check.s.T * p.check.s.rho_2,
            "theta_factor": p.check.s.theta_factor, "stated": p.stated, "remainder": p.check.remainder,
            "attenuation": p.check.attenuation, "constant": p.check.constant, "balancing_length": p.length,
            "balanced": None if p.length is None else p.balanced,
        }
        for p in scan.points
    ]  # fmt: skip


def _beta_parts(scan: BetaScan) -> Iterator[Table | str]:
    """The theorem's conditions and bound, and the accuracies of its step and of the balancing one, for some beta."""
    from assignadd.paper.theory.composition import FACTOR, listed

    middles = [(low + high) / 2 for low, high in scan.composing]
    wanted = [0.5, 1, math.log(scan.s.T), 4, 8, *middles, scan.points[-1].beta]
    nearest = [min(scan.points, key=lambda p: abs(p.beta - beta)) for beta in wanted]
    rows = []
    for p in sorted(set(nearest), key=lambda p: p.beta):
        s, length = p.check.s, "none" if p.length is None else f"{p.length:.2f}"
        sizes = f"{s.rho_1:.3f}", f"{s.T * s.rho_2:.1g}", f"{p.check.constant:.2f}", f"{p.check.remainder:.2f}"
        balanced = ["-" if p.length is None else f"{x:.2f}" for x in p.balanced]
        rows.append((f"{p.beta:.2f}", *sizes, *(f"{x:.2f}" for x in p.stated), length, *balanced))
    names = ("beta", "rho_1", "T rho_2", "const", "rest", "step, 1", f"step, {scan.most}", "share", "then, 1",
               f"then, {scan.most}")  # fmt: skip
    caption = (
        "rest: norm of the remainder (the memory's is 2); const: rest over V (1/N + 1/T + T alpha). step: accuracy "
        f"after the theorem's step with 1 and {scan.most} assignments; share: the part of it after which the operands "
        "get equal attention; then: accuracy after that part"
    )
    yield Table("the theorem and its step against beta", columns(*names), rows, caption)
    yield f"conditions (within a factor {FACTOR:g}) hold for beta {listed(scan.conditions)}"
    yield f"the stated step adds one variable and one number for beta {listed(scan.composing)}"


def _step_table(step: StepNumbers) -> Table:
    """Attention and accuracy after the theorem's step and after the shorter one."""
    kinds = (("stated eta", step.stated), (f"{step.balanced:.3f} eta", step.shorter))
    rows = [
        (f"{kind}, {c.K}", *(f"{x:.3f}" for x in (c.target, c.distractor, c.second, c.accuracy)))
        for kind, results in kinds
        for c in results
    ]
    names = ("step, |tau|", "right one", "each other", "operand m", "accuracy")
    return Table(f"attention and accuracy after one step, beta = {step.s.actual_beta:.3g}", columns(*names), rows)


def _verdict_table(args: Theory, verdicts: list[Statement]) -> Table:
    """Every statement with its value and verdict."""
    rows = [(v.id.removeprefix("theory."), v.value, v.verdict, v.claim) for v in verdicts]
    table_columns = [
        Column("statement"),
        Column("value", form=".3g"),
        Column("verdict"),
        Column("claim", only="detail"),
    ]
    return Table(f"theory at N = {args.N}, T = {args.T}, V = {args.V}, alpha = {args.alpha:g}", table_columns, rows)


def _conclusion(args: Theory, verdicts: list[Statement]) -> Iterator[str]:
    """How many statements hold, and which do not or are undecided."""
    for v in verdicts:
        if v.verdict in (FAILS, UNDECIDED) and not args.all:  # which prints all of them
            yield (f"{v.id.removeprefix('theory.')}, {v.verdict}: {v.claim}.")
    tested = [v for v in verdicts if v.verdict != UNTESTABLE]
    holding = sum(v.verdict == HOLDS for v in tested)
    yield f"{holding} of {len(tested)} statements hold{'' if args.run else '; name a run to test real training'}"
    if not args.all:
        yield "--all prints every statement, and attention and accuracy after one step"
    if args.out is not None:
        yield f"figures, their data and verdicts.json are in {args.out}"
