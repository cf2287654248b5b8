"""assignadd eval"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import tyro

from assignadd.cli import options
from assignadd.config import ConfigError


@dataclass(frozen=True)
class Eval:
    """Accuracy of every model of a run on every evaluation set, with 95 % Wilson intervals."""

    run: Annotated[str, tyro.conf.Positional]
    """A run folder, or its name under runs/."""
    step: int | None = None
    """The checkpoint; the last one unless given."""
    seeds: str | None = None
    """Only these seeds."""
    n: int = 4000
    """Sequences per set, drawn afresh from the evaluation stream."""
    threads: int | None = None
    json: bool = False
    """Print {"models": [{"seed", "step", "sets": {...}}]}."""


def main(arguments: list[str]) -> int:
    args = options.read(Eval, arguments, "eval")
    if not 1 <= args.n <= 1_000_000:
        raise ConfigError("n", args.n, "a whole number from 1 to 1000000")
    wanted = options.parse_seeds(args.seeds) if args.seeds else None
    threads = options.resolve_threads(args.threads)
    from assignadd.api import evaluate, open_run
    from assignadd.cli.screen import print_json, print_table
    from assignadd.training.trainer import prepare

    run = open_run(args.run)
    prepare("cpu", threads, run.config)
    step = run.steps[-1] if args.step is None else args.step
    seeds = [m.seed for m in run.members]
    for seed in wanted or ():
        run.index_of(seed)
    results = [(seed, r) for seed, r in zip(seeds, evaluate(run, step, args.n), strict=True) if wanted is None or seed in wanted]
    if args.json:
        models = [
            {
                "seed": seed,
                "step": step,
                "sets": {
                    name: {"accuracy": a.accuracy, "n": a.n, "low": a.interval.low, "high": a.interval.high} for name, a in sets.items()
                },
            }
            for seed, sets in results
        ]
        print_json({"models": models})
        return 0
    for seed, sets in results:
        rows = [(name, f"{a.accuracy:.4f}", f"{a.interval.low:.4f} - {a.interval.high:.4f}") for name, a in sets.items()]
        print_table(f"{run.name}, seed {seed}, step {step:,}", ("set", "accuracy", "95 % interval"), rows, f"n = {args.n} a set")
    return 0
