"""assignadd sweep"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from assignadd.cli import options
from assignadd.cli.screen import SweepScreen, print_json, print_table, say
from assignadd.config import Config, ConfigError

if TYPE_CHECKING:
    from assignadd.sweeps.engine import Plan
    from assignadd.sweeps.settings import Sweep as SweepTable

# The census wants to see when a circuit forms; of a sweep's point, where it ends is what counts.
EVERY = {"seeds": 250}
USUALLY_EVERY = 1000


@dataclass(frozen=True)
class Sweep:
    """Train many models, a grid of settings times seeds, in stacks as large as the device's memory allows.

    The same command continues an interrupted sweep, and trains nothing that is finished. OUT/table.parquet has a row
    per model and evaluation; OUT/table.json says how it was made.
    """

    what: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="WHAT")]
    """fraction (16 values of f), two-var (19 values of r), seeds, or a file with a row of settings per model: any field
    of task, model, optim, seed, numerics and start by its dotted name (optim.lr, model.n_heads), and seed: CSV,
    a JSON list of rows, or a JSON grid {"optim.lr": [0.001, 0.003], "model.n_heads": [1, 2]}."""
    seeds: int = 10
    """Models per row of settings, with consecutive seeds."""
    first_seed: int = 0
    """The first of these seeds."""
    steps: int | None = None
    """Updates. If None, the preset's (30,000 for paper)."""
    preset: str = "paper"
    """Where the other settings start from: paper, authors, tiny or smoke."""
    config: Path | None = None
    """A JSON file of settings on top of the preset."""
    every: int | None = None
    """Steps between evaluations and measures; 250 for seeds, else 1000."""
    final_sequences: int = 20_000
    """Sequences per evaluation set in the last evaluation of every model; 0 for none."""
    save_every: int = 5000
    """Steps between checkpoints: the most that an interruption costs."""
    tf32: bool = False
    """Round matrix-product inputs to TF32 on a GPU; kept in the results."""
    device: str = "auto"
    """auto, cpu or cuda (every GPU of this machine, or with --engine ray of the cluster)."""
    threads: int | None = None
    """Models at a time on a CPU, one thread each. If None, every core."""
    per_gpu: int = 1
    """Stacks at a time on each GPU of this machine: small stacks leave parts of a GPU unused."""
    engine: str = "local"
    """local, or ray (pip install 'assignadd[ray]')."""
    address: str | None = None
    """The Ray cluster: auto for the one on this machine (make ray-up), else HOST:PORT. If None, one is started for this
    sweep."""
    out: Path | None = None
    """Where the run folders and the table go. If None, runs/sweeps/WHAT-PRESET."""
    dry_run: bool = False
    """Print cells, stacks, memory and an estimate of the time, and train nothing."""
    json: bool = False
    """Print JSON: the plan for --dry-run, else {"models", "diverged", "bind", "do_not_bind", "table"}."""


def main(arguments: list[str]) -> None:
    args = options.read(Sweep, arguments, "sweep")
    base = options.base_config(arguments)
    options.within("seeds", args.seeds, 1, options.MOST_MODELS)
    threads = options.resolve_threads(args.threads)
    device = resolve_device(args.engine, args.device)
    options.within("per_gpu", args.per_gpu, 1, 64)
    table = cells(args, base)
    out = args.out or Path("runs") / "sweeps" / f"{table.name}-{args.preset}"
    from assignadd.sweeps.engine import plan

    planned = plan(table, out, device, threads, per_gpu=args.per_gpu)
    if args.dry_run:
        print_plan("sweep", planned.summary(table) | {"engine": args.engine, "out": str(out)}, args.json)
        return
    return _run(args, table, out, planned, threads, shlex.join(["assignadd", "sweep", *arguments]))


def resolve_device(engine: str, device: str) -> str:
    """The device to train on; on a cluster it is the workers', which this machine need not have."""
    if engine not in ("local", "ray"):
        raise ConfigError("engine", engine, "local or ray")
    return device if engine == "ray" and device in ("cpu", "cuda") else options.resolve_device(device)


def cells(args: Sweep, base: Config) -> SweepTable:
    """The sweep that the flags ask for."""
    from assignadd.sweeps.settings import NAMES, named_sweep, sweep_from_file

    every = EVERY.get(args.what, USUALLY_EVERY) if args.every is None else args.every
    record = replace(
        base.record, eval_every=every, measure_every=every, checkpoint_every=args.save_every, state_every=1 << 31,
        final_sequences=args.final_sequences,
    )  # fmt: skip
    optim = base.optim if args.steps is None else replace(base.optim, steps=args.steps)
    config = replace(base, optim=optim, record=record, numerics=replace(base.numerics, tf32=args.tf32))
    seeds = list(range(args.first_seed, args.first_seed + args.seeds))
    return (
        named_sweep(args.what, config, seeds) if args.what in NAMES else sweep_from_file(Path(args.what), config, seeds)
    )


def _run(args: Sweep, table: SweepTable, out: Path, planned: Plan, threads: int, command: str) -> None:
    from assignadd.cli.measure import note_not_defined
    from assignadd.sweeps.engine import run_sweep
    from assignadd.sweeps.results import TABLE, tally

    note_not_defined(table.config)
    with SweepScreen(out.name, planned.jobs, quiet=args.json) as screen:
        how: dict[str, Any] = {"command": command, "per_gpu": args.per_gpu}
        results = run_sweep(table, out, planned.device, threads, args.engine, args.address, screen, **how)
    found: dict[str, Any] = tally(results, table) | {"table": str(out / TABLE)}
    if args.json:
        return print_json(found)
    say(f"{found['table']}: {found['models']} models, {results.height:,} rows")
    say(f"{found['bind']} learned to bind variables, {found['do_not_bind']} did not, {found['diverged']} diverged")


def print_plan(title: str, planned: dict[str, Any], as_json: bool = False) -> None:
    """Prints what would be trained, and about how long it would take."""
    if as_json:
        return print_json(planned)
    sizes = planned["stacks"]
    stacks = f"{len(sizes)} of {min(sizes)} to {max(sizes)} models, {planned['finished_stacks']} finished"
    seconds = planned["estimated_seconds"]
    rows = [
        ("models", planned["cells"]),
        ("steps each", f"{planned['steps']:,}"),
        ("updates to make", f"{planned['model_steps']:,}"),
        ("stacks", stacks),
        ("at a time", f"{planned['at_a_time']} on {planned['device']}"),
        ("memory of a stack", f"{planned['mib_per_stack']:,} MiB"),
        ("estimated time", f"{seconds / 3600:.1f} h" if seconds > 5400 else f"{seconds / 60:.1f} min"),
        ("into", planned["out"]),
    ]
    note = "the estimate is from times on one H200 and on one ARM core; see docs/scale.md"
    print_table(title, ("what", "value"), rows, note)
