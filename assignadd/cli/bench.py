"""assignadd bench"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from assignadd.cli import options
from assignadd.cli.options import FromPreset
from assignadd.cli.screen import Column, Output, Printing, Table, columns, console
from assignadd.config import Config, ConfigError

CUDA_STACKS = (1, 8, 32, 128)


@dataclass(frozen=True, kw_only=True)
class Bench(FromPreset, Printing):
    """Time training on this machine beside the time of its matrix products. benchmarks/ compares with other code.

    --json prints {"machine", "backend", "threads": {"1": {"step_ms", "floor_ms", "step_over_floor", ...}}, ...};
    on a GPU {"device", "us_per_model_step", ...}.
    """

    models: int | None = None
    """On a GPU, time stacks of this many models only. If None, of 1, 8, 32 and 128."""
    device: str = "cpu"
    """cpu or cuda."""
    seconds: float = 4.0
    """About how long each measurement on a CPU takes."""
    tf32: bool = False
    """Round matrix-product inputs to TF32 on a GPU."""

    def main(self) -> Output:
        if not 0.01 <= self.seconds <= 600:
            raise ConfigError("seconds", self.seconds, "a number from 0.01 to 600")
        config = self.base
        if options.resolve_device(self.device) == "cuda":
            result = _cuda(config, self)
            return Output([_cuda_table(result, config)], result)
        result = _cpu(config, self)
        return Output(_cpu_parts(result, config), result)


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
            "evaluation_per_second": speed.evaluation_rate(config, args.seconds),
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


def _cpu_parts(result: dict[str, Any], config: Config) -> list[Table | str]:
    names = {
        "sgemm_gflops": "matrix products, GFLOP/s",
        "step_ms": "training step, ms",
        "floor_ms": "matrix products alone, ms",
        "step_over_floor": "step / matrix products",
    }
    threads = [Column(f"{n} thread{'s' * (n != '1')}", form=".2f") for n in result["threads"]]
    rows = [(label, *(times[key] for times in result["threads"].values())) for key, label in names.items()]
    return [
        Table("training step", [Column(f"one model, batch {config.optim.batch}"), *threads], rows),
        f"{result['machine']}; kernels: {result['backend']}. {_advice(result)}",
        f"sampler: {result['sampler_per_second']:,.0f} sequences/s on one thread",
        f"evaluation: {result['evaluation_per_second']:,.0f} sequences/s on one thread",
        f"matrix products: {result['gflop_per_step']:.3f} GFLOP a step",
    ]


def _advice(result: dict[str, Any]) -> str:
    """What to give `assignadd train --threads`."""
    times = {n: t["step_ms"] for n, t in result["threads"].items()}
    best = min(times, key=lambda n: times[n])
    return f"One model trains fastest with --threads {best}; several train in parallel, each on one thread."


def _cuda_table(result: dict[str, Any], config: Config) -> Table:
    rows = [(int(n), us, 1e6 / us) for n, us in result["us_per_model_step"].items()]
    table_columns = [
        *columns("models"),
        Column("us per model and step", form=".1f"),
        Column("model-steps a second", form=",.0f"),
    ]
    title = f"{result['device']}, {'TF32' if result['tf32'] else 'fp32'}, batch {config.optim.batch}"
    return Table(
        title, table_columns, rows, f"{result['backend']} kernels; {result['peak_memory_mb']:,.0f} MB at the peak"
    )
