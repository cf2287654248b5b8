"""assignadd bench"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from assignadd.cli import options
from assignadd.cli.options import FromPreset
from assignadd.cli.screen import Column, Output, Printing, Table, columns, console
from assignadd.config import Config, ConfigError

# How many models are in the stacks that are timed.
CUDA_STACKS = (1, 8, 32, 128)
CPU_STACKS = (1, 2, 8)


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
    """What --json prints on a CPU: a training step on one and two threads, and stacks."""
    from assignadd.runs.manifest import cpu_model
    from assignadd.training import speed

    cores = options.resolve_threads(None)
    thread_counts = range(1, min(cores, 2) + 1)
    with console.status("measuring"):
        return {
            "machine": cpu_model(),
            "backend": _backend(config, "cpu"),
            "threads": {str(n): speed.on_threads(config, n, args.seconds) for n in thread_counts},
            # by the number of models, milliseconds per model and step
            "stacks": {str(n): speed.stack_step_ms(config, n, cores) / n for n in CPU_STACKS},
            "gflop_per_step": speed.flops(config) / 1e9,
        }


def _backend(config: Config, device: str) -> str:
    """The name of the kernels that train this architecture on a device; autograd where we have none for it."""
    import torch

    from assignadd.model.kernels import kernels_for
    from assignadd.model.table import covers

    if not covers(config):
        return "autograd"
    return kernels_for(config, torch.device(device), stacked=True).name


def _cuda(config: Config, args: Bench) -> dict[str, Any]:
    """What --json prints on a GPU: microseconds per model and step, for stacks of several sizes."""
    import torch

    from assignadd.runs.manifest import cpu_model
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
    """The tables and lines that people read of the result of `_cpu`."""
    labels = {
        "sgemm_gflops": "matrix products, GFLOP/s",
        "step_ms": "training step, ms",
        "floor_ms": "matrix products alone, ms",
        "step_over_floor": "step / matrix products",
    }
    by_threads = result["threads"]  # for each number of threads, as text, its measurements by name
    step_columns = [Column(f"one model, batch {config.optim.batch}")]
    step_columns += [Column(f"{n} thread{'s' * (n != '1')}", form=".2f") for n in by_threads]
    step_rows = [
        (label, *(measurements[name] for measurements in by_threads.values())) for name, label in labels.items()
    ]
    stacks = result["stacks"]
    stack_columns = [
        Column("models"),
        Column("ms per model and step", form=".2f"),
        Column("times one model", form=".2f"),
    ]
    stack_rows = [(n, ms, stacks["1"] / ms) for n, ms in stacks.items()]
    return [
        Table("training step", step_columns, step_rows),
        f"{result['machine']}; kernels: {result['backend']}. {_advice(result)}",
        Table("stacks on all cores", stack_columns, stack_rows),
        f"{result['gflop_per_step']:.3f} GFLOP a step",
    ]


def _advice(result: dict[str, Any]) -> str:
    """A sentence that says what to give `assignadd train --threads`: the number with the fastest step."""
    step_ms = {n: measurements["step_ms"] for n, measurements in result["threads"].items()}
    fastest = min(step_ms, key=step_ms.__getitem__)
    return f"One model trains fastest with --threads {fastest}; several train in parallel, each on one thread."


def _cuda_table(result: dict[str, Any], config: Config) -> Table:
    """The table that people read of the result of `_cuda`: a row for each size of stack."""
    rows = [(int(n), microseconds, 1e6 / microseconds) for n, microseconds in result["us_per_model_step"].items()]
    table_columns = [
        *columns("models"),
        Column("us per model and step", form=".1f"),
        Column("model-steps a second", form=",.0f"),
    ]
    title = f"{result['device']}, {'TF32' if result['tf32'] else 'fp32'}, batch {config.optim.batch}"
    caption = f"{result['backend']} kernels; {result['peak_memory_mb']:,.0f} MB at the peak"
    return Table(title, table_columns, rows, caption)
