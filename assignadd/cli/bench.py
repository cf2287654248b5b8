"""assignadd bench"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from assignadd.cli import options
from assignadd.cli.options import FromPreset, Parallel
from assignadd.cli.screen import Column, Output, Printing, Table, columns, console, facts
from assignadd.config import Config, ConfigError

# The numbers of models in the stacks that are timed.
CUDA_STACKS = (1, 8, 32, 128)
CPU_STACKS = (1, 2, 8)


@dataclass(frozen=True, kw_only=True)
class Bench(FromPreset, Printing):
    """Time training on this machine beside its matrix products and, on a CPU, a step in plain PyTorch.

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
        config = options.base_config(self.preset, self.config)
        if options.resolve_device(self.device) == "cuda":
            stacks = CUDA_STACKS if self.models is None else (options.within("models", self.models),)
            return _on_cuda(replace(config, numerics=replace(config.numerics, tf32=self.tf32)), stacks)
        return _on_cpu(config, self.seconds)


def _on_cpu(config: Config, seconds: float) -> Output:
    """The times on a CPU: of a step on one and two threads, the sampler, the evaluation, and steps of stacks."""
    from assignadd.runs.manifest import cpu_model
    from assignadd.training import speed

    cores = Parallel().cores  # all of them, as the command has no --threads
    with console.status("measuring"):
        result: dict[str, Any] = {
            "machine": cpu_model(),
            "backend": _backend(config, "cpu"),
            "threads": {str(n): speed.on_threads(config, n, seconds) for n in range(1, min(cores, 2) + 1)},
            "sampler_per_second": speed.sampler_rate(config, seconds),
            **speed.evaluation_rate(config, seconds),
            # milliseconds per model and step, by the number of models in the stack
            "stacks": {str(n): speed.stack_step_ms(config, n, cores) / n for n in CPU_STACKS},
            "peak_memory_mb": speed.peak_memory_mb(),
            "gflop_per_step": speed.flops(config) / 1e9,
        }
    labels = {  # the headings of the measurements of a step, by their keys
        "sgemm_gflops": "products, GFLOP/s", "step_ms": "step, ms", "floor_ms": "products alone, ms",
        "step_over_floor": "step / products", "plain_ms": "plain PyTorch, ms", "plain_over_step": "plain / step",
    }  # fmt: skip
    step_columns = [Column("threads"), *(Column(name, label, ".2f") for name, label in labels.items())]
    step_rows = []
    for n_threads, measured in result["threads"].items():
        step_rows.append((n_threads, *[measured[name] for name in labels]))
    stack_columns = [Column("models"), Column("ms per model and step", form=".2f")]
    numbers = {name: value for name, value in result.items() if name not in ("threads", "stacks")}
    parts = [
        Table(f"training step of one model, batch {config.optim.batch}", step_columns, step_rows),
        Table("stacks on all cores", stack_columns, list(result["stacks"].items())),
        facts("this machine", numbers),
    ]
    return Output(parts, result)


def _on_cuda(config: Config, stacks: tuple[int, ...]) -> Output:
    """The times on a GPU: microseconds per model and step, for stacks of these sizes."""
    import torch

    from assignadd.runs.manifest import cpu_model
    from assignadd.training import speed

    result: dict[str, Any] = {
        "device": torch.cuda.get_device_name(),
        "machine": cpu_model(),
        "backend": _backend(config, "cuda"),
        "tf32": config.numerics.tf32,
        "us_per_model_step": {str(n_models): speed.cuda_microseconds(config, n_models) for n_models in stacks},
        "peak_memory_mb": torch.cuda.max_memory_allocated() / 2**20,
    }
    rows = [(int(n_models), microseconds) for n_models, microseconds in result["us_per_model_step"].items()]
    title = f"{result['device']}, {'TF32' if result['tf32'] else 'fp32'}, batch {config.optim.batch}"
    caption = f"{result['backend']} kernels; {result['peak_memory_mb']:,.0f} MB at the peak"
    table_columns = [*columns("models"), Column("us per model and step", form=".1f")]
    return Output([Table(title, table_columns, rows, caption)], result)


def _backend(config: Config, device: str) -> str:
    """The name of the kernels that train this architecture on a device; autograd where we have none for it."""
    import torch

    from assignadd.model.kernels import has_step, kernels_for
    from assignadd.model.table import covers

    if not covers(config):
        return "autograd"
    if has_step(config, torch.device(device)):
        return "numba"
    return kernels_for(config, torch.device(device), stacked=True).name
