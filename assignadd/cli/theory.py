"""assignadd theory"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assignadd.cli import options
from assignadd.cli.options import positional
from assignadd.cli.screen import Column, Output, Printing, Table, columns, console
from assignadd.stats import FAILS, HOLDS, UNDECIDED, UNTESTABLE

if TYPE_CHECKING:
    from assignadd.paper.theory.claims import TheoryNumbers
    from assignadd.paper.theory.composition import BetaScan, StepNumbers
    from assignadd.paper.theory.real_gradient import TheoryGradient
    from assignadd.runs.folder import Run
    from assignadd.stats import Statement


@dataclass(frozen=True, kw_only=True)
class Theory(Printing):
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
    threads: int | None = None
    """CPU threads. If None, every core."""

    def main(self) -> Output:
        return theory(self)


def theory(args: Theory) -> Output:
    """The verdicts on the theory, with its numbers over beta and after one step."""
    options.check_count("sequences", args.sequences)
    options.check_seed("seed", args.seed)
    threads = options.resolve_threads(args.threads)
    from assignadd.config import Config
    from assignadd.paper.theory.claims import statements, theory_numbers
    from assignadd.paper.theory.composition import required_balance
    from assignadd.paper.theory.real_gradient import real_statements
    from assignadd.paper.theory.setting import Setting
    from assignadd.runs.files import claim_folder
    from assignadd.runs.folder import open_run
    from assignadd.training.trainer import prepare

    s = Setting(args.N, args.T, args.V, args.alpha, args.beta)
    required_balance(s)  # refuses a beta so small that no step balances the operands
    run = None if args.run is None else open_run(args.run)
    if run is not None:
        run.model_at(None, run.index_of(args.seed))  # refuses a model that diverged
    if args.out is not None:
        claim_folder(args.out, "theory")  # an unwritable folder fails before the computation
    prepare("cpu", threads, Config() if run is None else run.config)
    with console.status("checking the theory"):
        gradient, name = (None, "") if run is None else _gradient(run, args)
        numbers = theory_numbers(s)
        verdicts = [*statements(numbers), *real_statements(gradient, name)]
        if args.out is not None:
            _write(args.out, numbers, gradient, name, verdicts)
    document = {
        "setting": vars(s), "verdicts": [v.record() for v in verdicts], "step": _step(numbers.step),
        "beta": _beta(numbers.scan),
    }  # fmt: skip
    parts = [*_beta_parts(numbers.scan), _step_table(numbers.step), *_verdict_parts(args, verdicts)]
    return Output(parts, document, _verdict_table(args, verdicts))


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

    made = [
        (figures.THEORY_REMAINDER_FIGURE, figures.theory_remainder_data(numbers.grid, numbers.at)),
        (figures.THEORY_BETA_FIGURE, figures.theory_beta_data(numbers.scan)),
        (figures.THEORY_ATTENTION_FIGURE, figures.theory_attention_data(numbers.step)),
    ]
    if gradient is not None:
        made.append((figures.THEORY_REAL_GRADIENT_FIGURE, figures.theory_real_gradient_data(gradient, name)))
    for record, data in made:
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
    yield (f"conditions (within a factor {FACTOR:g}) hold for beta {listed(scan.conditions)}")
    yield (f"the stated step adds one variable and one number for beta {listed(scan.composing)}")


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
    named = [Column("statement"), Column("value", form=".3g"), Column("verdict"), Column("claim", only="detail")]
    return Table(f"theory at N = {args.N}, T = {args.T}, V = {args.V}, alpha = {args.alpha:g}", named, rows)


def _verdict_parts(args: Theory, verdicts: list[Statement]) -> Iterator[Table | str]:
    """The table, and the sentences of the statements that do not hold or are undecided."""
    yield _verdict_table(args, verdicts)
    for v in verdicts:
        if v.verdict in (FAILS, UNDECIDED):
            yield (f"{v.id.removeprefix('theory.')}, {v.verdict}: {v.claim}.")
    tested = [v for v in verdicts if v.verdict != UNTESTABLE]
    holding = sum(v.verdict == HOLDS for v in tested)
    yield (f"{holding} of {len(tested)} statements hold{'' if args.run else '; name a run to test real training'}")
    if args.out is not None:
        yield (f"figures, their data and verdicts.json are in {args.out}")
