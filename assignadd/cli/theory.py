"""assignadd theory"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from assignadd.cli import options
from assignadd.cli.screen import console, print_json, print_table, say, table
from assignadd.stats.verdicts import FAILS, HOLDS, UNDECIDED, UNTESTABLE

if TYPE_CHECKING:
    from assignadd.figure.record import FigureData, FigureRecord
    from assignadd.paper.theory.numbers import TheoryNumbers
    from assignadd.paper.theory.real_gradient import TheoryGradient
    from assignadd.paper.theory.setting import Setting
    from assignadd.runs.folder import Run
    from assignadd.stats.verdicts import Statement

Say = Callable[[str], object]


@dataclass(frozen=True)
class Theory:
    """Check the paper's theory (section 7, appendix C): theorem, parameter beta, gradient step, proof, training."""

    run: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="[RUN]")] = None
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
    out: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """A folder for the figures, their data and verdicts.json."""
    threads: int | None = None
    """CPU threads. If None, every core."""
    json: bool = False
    """Print {"setting", "verdicts": [{"id", "claim", "value", "verdict", ...}], "step": {...}, "beta": [...]}."""


def main(arguments: list[str]) -> None:
    args = options.read(Theory, arguments, "theory")
    options.check_count("sequences", args.sequences)
    options.check_seed("seed", args.seed)
    threads = options.resolve_threads(args.threads)
    from assignadd.paper.theory.composition import required_balance
    from assignadd.paper.theory.setting import Setting
    from assignadd.runs.folder import open_run

    s = Setting(args.N, args.T, args.V, args.alpha, args.beta)
    required_balance(s)  # refuses a beta so small that no step balances the operands
    run = None if args.run is None else open_run(args.run)
    if run is not None:
        run.model_at(None, run.index_of(args.seed))  # refuses a model that diverged
    if args.out is not None:
        _claim(args.out)  # an unwritable folder fails before the computation
    with console.status("checking the theory") as status:
        study, real, name, verdicts = _found(args, s, run, threads, status.update)
        if args.out is not None:
            _write(args.out, study, real, name, verdicts)
    if args.json:
        steps = {"before": study.step.before, "stated": study.step.stated, "shorter": study.step.shorter}
        by_step = {kind: [asdict(c) for c in found] for kind, found in steps.items()}
        records = [v.record() for v in verdicts]
        print_json({"setting": vars(s), "verdicts": records, "step": by_step, "beta": _beta_rows(study)})
    else:
        _print_beta(study)
        _print_step(study)
        _print(args, verdicts)


def _claim(folder: Path) -> None:
    from assignadd.runs.destination import claim_folder

    def is_theory(folder: Path) -> bool:
        """Whether a folder holds what this command wrote before there were marks, and nothing else."""
        names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
        ours = re.compile(r"verdicts\.json|theory_\w+\.(svg|png|npz)")
        return "verdicts.json" in names and all(map(ours.fullmatch, names))

    claim_folder(folder, "theory", is_theory)


def _found(
    args: Theory, s: Setting, run: Run | None, threads: int, say: Say
) -> tuple[TheoryNumbers, TheoryGradient | None, str, list[Statement]]:
    from assignadd.config import Config
    from assignadd.paper.theory.numbers import statements, theory_numbers
    from assignadd.paper.theory.real_gradient import real_statements
    from assignadd.training.trainer import prepare

    prepare("cpu", threads, Config() if run is None else run.config)
    real, name = (None, "") if run is None else _real(args, run, say)
    study = theory_numbers(s, say)
    return study, real, name, [*statements(study), *real_statements(real, name)]


def _real(args: Theory, run: Run, say: Say) -> tuple[TheoryGradient, str]:
    from assignadd.paper.theory.real_gradient import informative_steps, one_variable_batch, theory_gradient

    say(f"the gradients of {run.name}")
    model = run.index_of(args.seed)
    steps = informative_steps(run.steps, [row for row in run.metrics() if row["model"] == model])
    batch = one_variable_batch(run.configs[model], run.seen[model], args.sequences)
    return theory_gradient(run.trajectory(steps, model), steps, batch), f"{run.name}, seed {run.members[model].seed}"


def _write(
    folder: Path, study: TheoryNumbers, real: TheoryGradient | None, name: str, verdicts: list[Statement]
) -> None:
    """Writes theory_beta, theory_remainder, theory_attention and, with a run, theory_real_gradient; verdicts.json.

    Each figure is an .svg, a .png and its data as .npz.
    """
    from assignadd.paper.theory import figures as theory
    from assignadd.paper.theory import real_gradient_figures as theory_real_gradient
    from assignadd.runs import atomic

    figures: list[tuple[FigureRecord, FigureData]] = [
        (theory.THEORY_REMAINDER_FIGURE, theory.theory_remainder_data(study.grid, study.at)),
        (theory.THEORY_BETA_FIGURE, theory.theory_beta_data(study.scan)),
        (theory.THEORY_ATTENTION_FIGURE, theory.theory_attention_data(study.step)),
    ]
    if real is not None:
        cosines = theory_real_gradient.theory_real_gradient_data(real, name)
        figures.append((theory_real_gradient.THEORY_REAL_GRADIENT_FIGURE, cosines))
    for record, data in figures:
        record.save(data, folder / record.label)
    atomic.write(folder / "verdicts.json", (json.dumps([v.record() for v in verdicts], indent=2) + "\n").encode())


def _beta_rows(study: TheoryNumbers) -> list[dict[str, Any]]:
    """The scan over beta as plain numbers; None for the step that balances the attention where there is none."""
    rows = []
    for p in study.scan.points:
        s, check = p.check.s, p.check
        rows.append({
            "beta": p.beta, "rho_1": s.rho_1, "T_rho_2": s.T * s.rho_2, "theta_factor": s.theta_factor,
            "stated": p.stated, "remainder": check.remainder, "attenuation": check.attenuation,
            "constant": check.constant, "balancing_length": p.length,
            "balanced": None if p.length is None else p.balanced,
        })  # fmt: skip
    return rows


def _print_beta(study: TheoryNumbers) -> None:
    """The theorem's conditions and bound, and the accuracies of its step and of the balancing one, for some beta."""
    from assignadd.paper.theory.beta import FACTOR, listed

    scan = study.scan
    middles = [(low + high) / 2 for low, high in scan.composing]
    wanted = [0.5, 1, math.log(scan.s.T), 4, 8, *middles, scan.points[-1].beta]
    chosen = {min(range(len(scan.points)), key=lambda i: abs(scan.points[i].beta - beta)) for beta in wanted}
    rows = []
    for i in sorted(chosen):
        p = scan.points[i]
        s, length = p.check.s, "none" if p.length is None else f"{p.length:.2f}"
        after = ["-", "-"] if p.length is None else [f"{x:.2f}" for x in p.balanced]
        sizes = [f"{s.rho_1:.3f}", f"{s.T * s.rho_2:.1g}", f"{p.check.constant:.2f}", f"{p.check.remainder:.2f}"]
        rows.append((f"{p.beta:.2f}", *sizes, *[f"{x:.2f}" for x in p.stated], length, *after))
    bound, steps = ("const", "rest"), ("step, 1", f"step, {scan.most}", "share", "then, 1", f"then, {scan.most}")
    columns = ("beta", "rho_1", "T rho_2", *bound, *steps)
    caption = (
        "rest: the theorem's remainder (the memory's norm is 2); const: that over V (1/N + 1/T + T alpha). step: "
        "accuracy after the theorem's step with so many assignments. share: that part of eta at which the operands get "
        "equal attention; then: accuracy after that step"
    )
    print_table("the theorem and its step against beta", columns, rows, caption)
    say(f"conditions (within a factor {FACTOR:g}) hold for beta {listed(scan.conditions)}")
    say(f"the stated step adds one variable and one number for beta {listed(scan.composing)}")


def _print_step(study: TheoryNumbers) -> None:
    """Attention, accuracy and sharpened answers after the theorem's step and after the shorter one."""
    step, rows = study.step, []
    for kind, found in (("stated eta", step.stated), (f"{step.balanced:.3f} eta", step.shorter)):
        for c in found:
            numbers = (c.target, c.distractor, c.second, c.accuracy, c.chance[10.0], c.chance[1000.0])
            rows.append((f"{kind}, {c.K}", *[f"{x:.3f}" for x in numbers]))
    columns = ("step, |tau|", "right one", "each other", "operand m", "accuracy", "p at alpha 10", "at 1000")
    print_table(f"attention and answers after one step, beta = {step.s.actual_beta:.3g}", columns, rows)


def _print(args: Theory, verdicts: list[Statement]) -> None:
    rows = [
        (v.id.removeprefix("theory."), "-" if v.value is None else f"{v.value:.3g}", v.verdict, v.claim)
        for v in verdicts
    ]
    title = f"theory at N = {args.N}, T = {args.T}, V = {args.V}, alpha = {args.alpha:g}"
    made = table(title, ("", "found", "verdict", "claim"), rows)
    for column in made.columns[2:]:
        column.justify = "left"
    made.columns[2].no_wrap = True
    console.print(made)
    for v in verdicts:
        if v.verdict in (FAILS, UNDECIDED):
            say(f"{v.id.removeprefix('theory.')}: {v.detail}.")
    tested = [v for v in verdicts if v.verdict != UNTESTABLE]
    holding = sum(v.verdict == HOLDS for v in tested)
    say(f"{holding} of {len(tested)} statements hold{'' if args.run else '; name a run to test real training'}")
    if args.out is not None:
        say(f"figures, their data and verdicts.json are in {args.out}")
