"""assignadd bench"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from assignadd.cli import options
from assignadd.cli.screen import console, print_table, show
from assignadd.config import Config, ConfigError

CUDA_STACKS = (1, 8, 32, 128)
CPU_STACKS = (1, 2, 8)


@dataclass(frozen=True)
class Bench:
    """Time training on this machine beside the time of its matrix products. benchmarks/ compares with other code."""

    preset: str = "paper"
    """Whose task and model: paper, authors, tiny or smoke."""
    config: Path | None = None
    """A JSON file of settings on top of the preset, such as {"model": {"n_heads": 2, "d_head": 64}}."""
    models: int | None = None
    """On a GPU, time stacks of this many models only. If None, of 1, 8, 32 and 128."""
    device: str = "cpu"
    """cpu or cuda."""
    seconds: float = 4.0
    """About how long each measurement on a CPU takes."""
    tf32: bool = False
    """Round matrix-product inputs to TF32 on a GPU."""
    json: bool = False
    """Print {"machine", "backend", "threads": {"1": {"step_ms", "floor_ms", "step_over_floor", ...}}, ...};
    on a GPU {"device", "us_per_model_step", ...}."""


def main(arguments: list[str]) -> None:
    args = options.read(Bench, arguments, "bench")
    if not 0.01 <= args.seconds <= 600:
        raise ConfigError("seconds", args.seconds, "a number from 0.01 to 600")
    config = options.base_config(arguments)
    on_cuda = options.resolve_device(args.device) == "cuda"
    result = _cuda(config, args) if on_cuda else _cpu(config, args)
    show(result, args.json, lambda found: (_print_cuda if on_cuda else _print_cpu)(found, config))


def _cpu(config: Config, args: Bench) -> dict[str, Any]:
    from assignadd.runs.environment import cpu_model
    from assignadd.training import speed

    cores = options.resolve_threads(None)
    with console.status("measuring"):
        counts = range(1, min(cores, 2) + 1)
        return {
            "machine": cpu_model(),
            "backend": _backend(config, "cpu"),
            "threads": {str(n): speed.on_threads(config, n, args.seconds) for n in counts},
            "sampler_per_second": speed.sampler_rate(config, args.seconds),
            **speed.evaluation(config, args.seconds),
            "stacks": {str(n): speed.stack_step_ms(config, n, cores) / n for n in CPU_STACKS},
            "peak_memory_mb": speed.peak_memory_mb(),
            "gflop_per_step": speed.flops(config) / 1e9,
        }


def _backend(config: Config, device: str) -> str:
    """Which kernels train this architecture there; autograd where the tables do not cover it."""
    import torch

    from assignadd.model.kernels import kernels_for
    from assignadd.model.table import covers

    return kernels_for(config, torch.device(device), stacked=True).name if covers(config) else "autograd"


def _cuda(config: Config, args: Bench) -> dict[str, Any]:
    import torch

    from assignadd.runs.environment import cpu_model
    from assignadd.training import speed

    config = replace(config, numerics=replace(config.numerics, tf32=args.tf32))
    stacks = CUDA_STACKS if args.models is None else (options.check_count("models", args.models),)
    return {
        "device": torch.cuda.get_device_name(),
        "machine": cpu_model(),
        "backend": _backend(config, "cuda"),
        "tf32": args.tf32,
        "us_per_model_step": {str(n): speed.cuda_microseconds(config, n) for n in stacks},
        "peak_memory_mb": torch.cuda.max_memory_allocated() / 2**20,
    }


def _print_cpu(result: dict[str, Any], config: Config) -> None:
    names = {
        "sgemm_gflops": "matrix products, GFLOP/s",
        "step_ms": "training step, ms",
        "floor_ms": "matrix products alone, ms",
        "step_over_floor": "step / matrix products",
    }
    counts = [f"{n} thread{'s' * (n != '1')}" for n in result["threads"]]
    rows = [[label, *[f"{t[key]:.2f}" for t in result["threads"].values()]] for key, label in names.items()]
    print_table("training step", (f"one model, batch {config.optim.batch}", *counts), rows)
    console.print(f"{result['machine']}; kernels: {result['backend']}. {_advice(result)}")
    stacks = result["stacks"]
    rows = [[n, f"{ms:.2f}", f"{stacks['1'] / ms:.2f}"] for n, ms in stacks.items()]
    print_table("stacks on all cores", ("models", "ms per model and step", "times one model"), rows)
    console.print(f"sampler     {result['sampler_per_second']:>12,.0f} sequences/s on one thread")
    console.print(
        f"evaluation  {result['evaluation_per_second']:>12,.0f} sequences/s on one thread, "
        f"{result['evaluation_over_floor']:.2f} times matrix products alone"
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
    rows = [(f"{n} models", f"{us:.1f}", f"{1e6 / us:,.0f}") for n, us in result["us_per_model_step"].items()]
    title = f"{result['device']}, {'TF32' if result['tf32'] else 'fp32'}, batch {config.optim.batch}"
    columns = ("training", "us per model and step", "model-steps a second")
    print_table(title, columns, rows, f"{result['backend']} kernels; {result['peak_memory_mb']:,.0f} MB at the peak")
