"""assignadd eval"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import tyro

from assignadd.cli import options
from assignadd.cli.screen import note, print_json, print_table
from assignadd.errors import RunError

if TYPE_CHECKING:
    from assignadd.measures.accuracies import Accuracy


@dataclass(frozen=True)
class Eval:
    """Accuracy of every model of a run on every evaluation set, with 95 % Wilson intervals.

    The intervals of the classes of held-out pairs are over the pairs of a class, the others over sequences.
    """

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """A run folder, or its name under runs/."""
    step: int | None = None
    """The checkpoint. If None, the last one."""
    seeds: str | None = None
    """Only these seeds."""
    n: int = 4000
    """Sequences per set, drawn afresh from the evaluation stream."""
    threads: int | None = None
    """CPU threads. If None, every core."""
    json: bool = False
    """Print {"models": [{"seed", "step", "sets": {...}}]}."""


def main(arguments: list[str]) -> None:
    args = options.read(Eval, arguments, "eval")
    options.check_count("n", args.n)
    wanted = options.parse_seeds(args.seeds) if args.seeds else None
    threads = options.resolve_threads(args.threads)
    from assignadd.measures.accuracies import set_accuracies
    from assignadd.runs.folder import open_run
    from assignadd.task.evalsets import all_sets
    from assignadd.training.trainer import prepare

    run = open_run(args.run)
    prepare("cpu", threads, run.config)
    step, stack, notes = run.at(args.step)
    note(*notes)
    indices = list(range(len(run.members)) if wanted is None else map(run.index_of, wanted))
    unsound = {i: why for i, why in run.unsound(step, stack).items() if i in indices}
    for why in unsound.values():
        note(f"{why}; it is left out")
    indices = [i for i in indices if i not in unsound]
    if not indices:
        raise RunError(f"{run.name} has no model left to evaluate at step {step}")
    configs = [run.configs[i] for i in indices]
    found = set_accuracies(stack.models(indices), configs, run.seen[indices], args.n)
    results = [(run.members[i].seed, sets) for i, sets in zip(indices, found, strict=True)]
    if args.json:
        models = [
            {"seed": seed, "step": step, "sets": {name: _facts(a) for name, a in sets.items()}}
            for seed, sets in results
        ]
        return print_json({"models": models})
    labels = {s.name: s.label for s in all_sets(run.config.task)}
    columns, caption = ("set", "accuracy", "95 % interval", "over"), f"{args.n:,} sequences a set"
    for seed, sets in results:
        rows = [(labels[name], *_cells(a)) for name, a in sets.items()]
        print_table(f"{run.name}, seed {seed}, step {step:,}", columns, rows, caption)


def _facts(a: Accuracy) -> dict[str, float | None]:
    ends = {"low": a.interval.low, "high": a.interval.high}
    return {"accuracy": a.accuracy, "n": a.n, "pairs": a.pairs} | ends


def _cells(a: Accuracy) -> tuple[str, str, str]:
    interval = f"{a.interval.low:.4f} - {a.interval.high:.4f}"
    return f"{a.accuracy:.4f}", interval, f"{a.pairs:,} pairs" if a.pairs else "sequences"
