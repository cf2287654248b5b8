"""assignadd bench"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from assignadd.cli import options
from assignadd.cli.screen import console, print_json, print_table, show
from assignadd.config import Config, ConfigError
from assignadd.errors import UsageError

CUDA_STACKS = (1, 8, 32, 128)
CPU_STACKS = (1, 2, 8)
# With --profile: calls of a smaller share of a step are not shown one by one.
LEAST_SHOWN = 0.005


@dataclass(frozen=True)
class Bench:
    """Time this machine: each time beside its lower bound and beside other implementations, as ratios."""

    preset: str = "paper"
    """Whose task and model: paper, authors, tiny or smoke."""
    config: Path | None = None
    """A JSON file of settings on top of the preset, such as {"model": {"n_heads": 2, "d_head": 64}}."""
    models: int | None = None
    """On a GPU, time stacks of this many models only. If None, of 1, 8, 32 and 128."""
    device: str = "cpu"
    """cpu or cuda."""
    seconds: float = 4.0
    """About how long each measurement on a CPU takes; that of a training step takes longer, 30 s for paper."""
    lens: bool = True
    """Time TransformerLens too, where it is installed (pip install 'assignadd[lens]')."""
    peers: bool = True
    """On a GPU, time what one would write instead: vmap of the plain transformer, also compiled and as a CUDA graph."""
    tf32: bool = False
    """Round matrix-product inputs to TF32 on a GPU."""
    scaling: bool = False
    """Instead, the cost of a training step against N, V, T, width, batch and, on a GPU, models (docs/scale.md)."""
    profile: bool = False
    """Instead, where the time of a training step on one thread of a CPU goes, call by call of compiled code."""
    run: str | None = None
    """Instead, the measures of the mechanism on a stack of this run's networks, on one thread."""
    networks: int = 100
    """With --run, how many: its models' last checkpoints."""
    json: bool = False
    """Print {"machine", "backend", "threads": {"1": {"step_ms", "floor_ms", "plain_ms", "lens_ms", ...}}, ...};
    on a GPU {"device", "us_per_model_step", "peers_us", ...};
    with --scaling {"tf32", "made_with", "points"}; with --profile {"machine", "step_us", "calls"};
    with --run {"networks", "seconds"}."""


def main(arguments: list[str]) -> None:
    args = options.read(Bench, arguments, "bench")
    if not 0.01 <= args.seconds <= 600:
        raise ConfigError("seconds", args.seconds, "a number from 0.01 to 600")
    config = options.base_config(arguments)
    on_cuda = options.resolve_device(args.device) == "cuda"
    if args.run is not None and (args.scaling or args.profile or on_cuda):
        raise UsageError("--run times measures on one CPU thread: it takes no --scaling, --profile or --device cuda")
    if args.profile and (args.scaling or on_cuda):
        raise UsageError("--profile is of a step on one CPU thread: it takes neither --scaling nor --device cuda")
    if args.run is not None:
        return _mechanism(args.run, args)
    if args.scaling:
        return _scaling(config, args, on_cuda)
    if args.profile:
        return show(_profile(config, args), args.json, _print_profile)
    result = _cuda(config, args) if on_cuda else _cpu(config, args)
    show(result, args.json, lambda found: (_print_cuda if on_cuda else _print_cpu)(found, config))


def _cpu(config: Config, args: Bench) -> dict[str, Any]:
    from assignadd.benchmark import speed
    from assignadd.benchmark.measures import checkpoint_ms
    from assignadd.model.table import covers
    from assignadd.runs.environment import cpu_model

    cores = options.resolve_threads(None)
    with console.status("measuring"):
        ours = {
            "sampler_per_second": speed.sampler_rate(config, args.seconds),
            **speed.evaluation(config, args.seconds),
            "stacks": {str(n): speed.stack_step_ms(config, n, cores) / n for n in CPU_STACKS},
            "peak_memory_mb": speed.peak_memory_mb(),  # before the peers add theirs
            "gflop_per_step": speed.flops(config) / 1e9,
            "measures": checkpoint_ms(config, args.seconds) if covers(config) else None,
        }
        counts = range(1, min(cores, 2) + 1)
        threads = {str(n): speed.on_threads(config, n, args.seconds, args.lens) for n in counts}
        return {"machine": cpu_model(), "backend": _backend(config, "cpu"), "threads": threads} | ours


def _backend(config: Config, device: str) -> str:
    """Which kernels train this architecture there; autograd where the tables do not cover it."""
    import torch

    from assignadd.model.kernels import kernels_for
    from assignadd.model.table import covers

    return kernels_for(config, torch.device(device), stacked=True).name if covers(config) else "autograd"


def _cuda(config: Config, args: Bench) -> dict[str, Any]:
    import torch

    from assignadd.benchmark import speed
    from assignadd.runs.environment import cpu_model

    config = replace(config, numerics=replace(config.numerics, tf32=args.tf32))
    stacks = CUDA_STACKS if args.models is None else (options.check_count("models", args.models),)
    return {
        "device": torch.cuda.get_device_name(),
        "machine": cpu_model(),
        "backend": _backend(config, "cuda"),
        "tf32": args.tf32,
        "us_per_model_step": {str(n): speed.cuda_microseconds(config, n) for n in stacks},
        "peak_memory_mb": torch.cuda.max_memory_allocated() / 2**20,  # before the peers add theirs
        "peers_us": speed.cuda_peers(config, stacks[-1]) if args.peers else None,
    }


def _scaling(config: Config, args: Bench, on_cuda: bool) -> None:
    from msgspec import to_builtins

    from assignadd.benchmark.speed import scaling
    from assignadd.runs.environment import Environment

    config = replace(config, numerics=replace(config.numerics, tf32=args.tf32))
    made_with = Environment.here("cuda" if on_cuda else "cpu", 1)
    points = scaling(config, on_cuda, args.seconds)
    if args.json:
        return print_json({"tf32": args.tf32, "made_with": to_builtins(made_with), "points": points})
    rows = [
        (f"{p['setting']} = {p['value']}", p["models"], f"{p['gflop']:.3f}", f"{p['us']:.1f}", f"{p['tflops']:.2f}")
        for p in points
    ]
    columns = ("setting", "models", "GFLOP a step", "us per model-step", "TFLOP/s")
    print_table(f"{made_with.device}, {'TF32' if args.tf32 else 'fp32'}", columns, rows, "all else as in the preset")


def _profile(config: Config, args: Bench) -> dict[str, Any]:
    from assignadd.benchmark.profile import step_profile
    from assignadd.runs.environment import cpu_model

    with console.status("measuring"):
        return {"machine": cpu_model(), **step_profile(config, args.seconds)}


def _print_profile(result: dict[str, Any]) -> None:
    step_us, calls = result["step_us"], result["calls"]
    kinds = {name: [c for c in calls if c["call"] == name] for name in dict.fromkeys(c["call"] for c in calls)}
    sums = {name: {key: sum(c[key] for c in some) for key in ("times", "us", "gflop")} for name, some in kinds.items()}

    def row(entry: dict[str, Any], *names: str) -> tuple[str, ...]:
        rate = f"{1e6 * entry['gflop'] / entry['us']:.0f}" if entry["gflop"] else ""
        return *names, str(entry["times"]), f"{entry['us']:.0f}", f"{entry['us'] / step_us:.1%}", rate

    def longest_first(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return sorted(entries, key=lambda entry: -entry["us"])

    columns = "times", "us", "of a step", "GFLOP/s"
    shown = [entry for entry in longest_first(calls) if entry["us"] >= LEAST_SHOWN * step_us]
    rows = [row(entry, entry["call"], entry["operands"]) for entry in shown]
    others = f"{len(calls) - len(shown)} others take less than {LEAST_SHOWN:.1%} each (--json has all)"
    print_table("calls of a training step", ("call", "operands", *columns), rows, others)
    within = sum(entry["us"] for entry in calls)
    rest = "drawing sequences, and Python", "", f"{step_us - within:.0f}", f"{1 - within / step_us:.1%}", ""
    rows = [row(entry, entry["call"]) for entry in longest_first([s | {"call": n} for n, s in sums.items()])]
    caption = (
        f"{result['machine']}, one thread: {step_us:.0f} us a step, of which the last line is what the calls leave"
    )
    print_table("by function", ("call", *columns), [*rows, rest], caption)


def _mechanism(name: str, args: Bench) -> None:
    from assignadd.benchmark.measures import mechanism_seconds
    from assignadd.claims.evidence import CONTEXTS, SEQUENCES
    from assignadd.model.architecture import PAPER_NEEDS, require
    from assignadd.model.stack import concatenate
    from assignadd.runs.folder import open_run

    options.within("networks", args.networks, 1, 10_000)
    run = open_run(name)
    require(run.config, "the time of the measures", *PAPER_NEEDS)
    each = -(-args.networks // len(run.members))
    models = [i for i in range(len(run.members)) for _ in run.steps[-each:]][: args.networks]
    stack = concatenate([run.trajectory(run.steps[-each:], i) for i in range(len(run.members))]).models(
        slice(len(models))
    )
    with console.status(f"measuring {len(models)} networks"):
        seconds = mechanism_seconds(stack, [run.configs[i] for i in models], run.seen[models], SEQUENCES, CONTEXTS)
    seconds["all"] = sum(seconds.values())
    if args.json:
        return print_json({"networks": len(models), "seconds": seconds})
    rows = [(what, f"{s:.1f}", f"{s / len(models):.3f}") for what, s in seconds.items()]
    note = f"one thread; {SEQUENCES:,} sequences of each type, {CONTEXTS:,} for the similarities"
    title = f"measures of the mechanism on {len(models)} networks of {run.name}"
    print_table(title, ("measures", "seconds", "a network"), rows, note)


def _print_cpu(result: dict[str, Any], config: Config) -> None:
    def shown(value: float | None) -> str:
        return "not timed" if value is None else f"{value:.2f}"

    names = {
        "sgemm_gflops": "matrix products, GFLOP/s",
        "step_ms": "training step, ms",
        "floor_ms": "matrix products alone, ms",
        "step_over_floor": "step / floor",
        "plain_ms": "plain all-position PyTorch step, ms",
        "plain_over_step": "plain / step",
        "lens_ms": "TransformerLens step, ms",
        "lens_over_step": "TransformerLens / step",
    }
    counts = [f"{n} thread{'s' * (n != '1')}" for n in result["threads"]]
    rows = [[label, *[shown(t[key]) for t in result["threads"].values()]] for key, label in names.items()]
    print_table("training step", (f"one model, batch {config.optim.batch}", *counts), rows)
    console.print(f"{result['machine']}; kernels: {result['backend']}. {_advice(result)}")
    stacks = result["stacks"]
    on_one = result["threads"]["1"]["step_ms"]
    rows = [[n, f"{ms:.2f}", f"{stacks['1'] / ms:.2f}", f"{on_one / ms:.2f}"] for n, ms in stacks.items()]
    columns = ("models", "ms per model and step", "times one model", "times one model on one thread")
    print_table("stacks on all cores", columns, rows)
    console.print(f"sampler     {result['sampler_per_second']:>12,.0f} sequences/s on one thread")
    console.print(
        f"evaluation  {result['evaluation_per_second']:>12,.0f} sequences/s on one thread, "
        f"{result['evaluation_over_floor']:.2f} times matrix products alone"
    )
    if measures := result["measures"]:
        ours, plain = measures["progress_ms"], measures["plain_ms"]
        console.print(
            f"measures    {ours:>12,.0f} ms a checkpoint on one thread; "
            f"a plain loop takes {plain:,.0f} ({plain / ours:.1f} times)"
        )
    console.print(
        f"memory      {result['peak_memory_mb']:>12,.0f} MB at the peak; {result['gflop_per_step']:.3f} GFLOP a step"
    )


def _advice(result: dict[str, Any]) -> str:
    """What to give `assignadd train --threads`."""
    times = {n: t["step_ms"] for n, t in result["threads"].items()}
    best = min(times, key=lambda n: times[n])
    return f"One model trains fastest with --threads {best}; several train in parallel, each on one thread."


def _print_cuda(result: dict[str, Any], config: Config) -> None:
    ours = result["us_per_model_step"]
    rows = [(f"{n} models", f"{us:.1f}", f"{1e6 / us:,.0f}", "") for n, us in ours.items()]
    largest, best = list(ours.items())[-1]
    rows += [
        (f"{largest} models, {name}", f"{us:.1f}", f"{1e6 / us:,.0f}", f"{us / best:.1f}")
        for name, us in (result["peers_us"] or {}).items()
    ]
    title = f"{result['device']}, {'TF32' if result['tf32'] else 'fp32'}, batch {config.optim.batch}"
    columns = ("training", "us per model and step", "model-steps a second", "times ours")
    print_table(title, columns, rows, f"{result['backend']} kernels; {result['peak_memory_mb']:,.0f} MB at the peak")
