"""A sweep: a table of settings times seeds, each cell one model; and the stacks in which its models train."""

from __future__ import annotations

import hashlib
import io
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import torch

from assignadd.config import SHORT_NAMES, Config, ConfigError, Member, Start, check_members, with_settings
from assignadd.config.errors import RunError
from assignadd.runs.config_json import parse, run_document, with_declared_types, with_operation
from assignadd.runs.files import read_input
from assignadd.runs.folder import find_runs
from assignadd.runs.writer import check_observed
from assignadd.sweeps.cost import SECONDS_OF_STACK, bytes_per_model, operations, seconds_on_cpu
from assignadd.training.start import check_start

# Close together where the paper sees accuracy rise (f about 0.25, r about 0.2; figure generalization_combined).
FRACTIONS = (0.05, 0.10, 0.15, 0.19, 0.21, 0.23, 0.25, 0.27, 0.29, 0.31, 0.33, 0.36, 0.40, 0.50, 0.70, 0.90)
RATIOS = (
    0.0, 0.02, 0.05, 0.08, 0.10, 0.12, 0.14, 0.16, 0.18, 0.20, 0.22, 0.25, 0.30, 0.35, 0.40, 0.50, 0.65,
    10 / 12, 1.25,
)  # fmt: skip
# The values of settings in each sweep that has a name.
GRIDS: dict[str, dict[str, tuple[float, ...]]] = {
    "fraction": {"seen_fraction": FRACTIONS},
    "two-var": {"two_var_ratio": RATIOS},
    "seeds": {},
}
NAMES = tuple(GRIDS)
# Sections of the settings that a sweep may vary; how models are recorded is the same for all.
SECTIONS = ("task", "model", "optim", "seed", "numerics", "start")
MOST_CELLS = 1_000_000
MOST_BYTES = 64 << 20  # of a file of settings
# Beyond this many models a step on an H200 costs the same per model (docs/scale.md), and an interruption costs more.
MOST_TOGETHER = 256
# Floating-point operations of the models that share a process on a CPU: some seconds of small products.
OPERATIONS_TOGETHER = 1e10
# The share of a GPU's memory that stacks may fill, and the memory of a GPU where this machine has none to ask.
SHARE_OF_MEMORY = 0.8
MEMORY_ELSEWHERE = 40 * 2**30


@dataclass(frozen=True)
class Sweep:
    """Models to be trained: a configuration, and for each model a seed and settings that differ."""

    name: str
    config: Config
    """The settings of all models, before those of their cells are added."""
    cells: tuple[Member, ...]
    observe: Callable[..., Any] | None = None
    """The observer of the models in training (`training.trainer.Observer`); if None, `final_tests.SweepObserver`."""

    def __post_init__(self) -> None:
        """Checks the number of cells, the settings of each, and that no cell occurs twice."""
        if not 1 <= len(self.cells) <= MOST_CELLS:
            raise ConfigError("cells", len(self.cells), f"1 to {MOST_CELLS} cells")
        check_members(self.config, self.cells)  # before anything is trained
        if len(set(self.cells)) < len(self.cells):
            [(twice, _)] = Counter(self.cells).most_common(1)
            raise ConfigError("cells", twice, "every combination of settings and seed once")

    @property
    def varied(self) -> tuple[str, ...]:
        """The dotted names of the settings that cells give, in alphabetical order."""
        return tuple(sorted({name for cell in self.cells for name, _ in cell.settings}))

    @cached_property
    def members(self) -> dict[Config, list[Member]]:
        """By the configuration of a stack, the cells that can train in such stacks, as members of them."""
        members_by_settings: dict[tuple[tuple[str, Any], ...], list[Member]] = {}
        for cell in self.cells:
            settings_of_stack, member = cell.divided()  # the member has the rest of the cell's settings
            members_by_settings.setdefault(settings_of_stack, []).append(member)
        members_by_config: dict[Config, list[Member]] = {}
        for settings_of_stack, members in members_by_settings.items():
            config = with_settings(self.config, dict(settings_of_stack))
            members_by_config.setdefault(config, []).extend(members)  # different settings may mean the same one
        return members_by_config


def named_sweep(name: str, config: Config, seeds: Sequence[int]) -> Sweep:
    """The sweep `fraction` or `two-var` of the paper's figures, or `seeds`, which varies nothing but the seed."""
    return Sweep(name, config, grid(GRIDS[name], seeds))


def grid(values: Mapping[str, Sequence[Any]], seeds: Sequence[int]) -> tuple[Member, ...]:
    """A model for every combination of the settings' values and every seed."""
    return tuple(Member(seed, settings) for settings in _combinations(values) for seed in seeds)


def _combinations(values: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Every combination of these values of settings, each by the names of the settings."""
    return [dict(zip(values, row, strict=True)) for row in product(*values.values())]


def sweep_from_file(path: Path, config: Config, seeds: Sequence[int]) -> Sweep:
    """The rows of settings in a file, each with every seed of `seeds` unless the rows have a column `seed`.

    Settings go by their dotted names (`optim.lr`, `model.n_heads`). A CSV file has a row per line, a JSON
    file a list of rows [{"optim.lr": 0.001}, ...] or the values of a grid {"optim.lr": [0.001, 0.003],
    "model.n_heads": [1, 2]}, of which every combination is a row. A list, such as model.d_mlp, is JSON text in CSV.
    """
    rows = _read_rows(path)
    have_seeds = any("seed" in row for row in rows)
    if have_seeds and any(row.get("seed") is None for row in rows):
        raise ConfigError(f"{path.name}: seed", None, "a seed in every row")
    if len(rows) * (1 if have_seeds else len(seeds)) > MOST_CELLS:
        raise ConfigError(f"{path.name}: rows", len(rows), f"at most {MOST_CELLS} cells")
    cells = []
    for row in rows:
        if have_seeds and type(row["seed"]) is not int:
            raise ConfigError(f"{path.name}: seed", row["seed"], "whole numbers")
        seeds_of_row = [row.pop("seed")] if have_seeds else seeds
        settings = _settings(path, row)
        cells += [Member(seed, settings) for seed in seeds_of_row]
    return Sweep(path.stem, config, tuple(cells))


def _settings(path: Path, row: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a row of a file by their dotted names, with values of the types that the settings declare.

    An operation may be a file of answers, which is read.
    """
    settings = {}
    for column, value in row.items():
        name = SHORT_NAMES.get(column, column)
        section, dot, _ = name.partition(".")
        if not dot or section not in SECTIONS:
            raise ConfigError(f"{path.name}: column", column, "seed, or a setting such as optim.lr or model.n_heads")
        is_list = isinstance(value, str) and value.startswith("[")  # as JSON text, from a CSV file
        settings[name] = parse(value.encode(), f"{path.name}: {column}") if is_list else value
    return with_declared_types(with_operation(settings))


def _read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a CSV or JSON file of settings, each by column; a ConfigError where it cannot be read."""
    import polars

    try:
        data = read_input(path, MOST_BYTES)
        if path.suffix == ".csv":
            return polars.read_csv(io.BytesIO(data), n_rows=MOST_CELLS + 1).to_dicts()
        return _rows_of_json(parse(data, path.name))
    except (OSError, ValueError, RecursionError, polars.exceptions.PolarsError) as error:
        reason = getattr(error, "strerror", None) or error  # of an OSError without its path
        problem = " ".join(str(reason).split())[:80]
        files = f"a CSV or JSON file of settings ({problem})"
        raise ConfigError("sweep", str(path), f"{', '.join(NAMES)}, or {files}") from error


def _rows_of_json(content: Any) -> list[dict[str, Any]]:
    """The rows of parsed JSON: a list of rows, or every combination of the values in a grid."""
    if isinstance(content, list) and all(isinstance(row, dict) for row in content):
        return content
    if isinstance(content, dict) and all(isinstance(values, list) for values in content.values()):
        n_rows = math.prod(len(values) for values in content.values())
        if n_rows > MOST_CELLS:
            raise ValueError(f"{n_rows} rows instead of at most {MOST_CELLS}")
        return _combinations(content)
    raise ValueError("neither a list of rows nor lists of values")


@dataclass(frozen=True)
class Machines:
    """Where the models of a sweep train, and how many at a time."""

    device: str = "cpu"
    cores: int = 1
    """Stacks at a time on a CPU."""
    per_gpu: int = 1
    """Stacks at a time on each GPU of this machine."""
    engine: str = "local"
    """`local`, or `ray` for the cluster at `address`."""
    address: str | None = None
    most_together: int | None = None
    """Models in a stack at most; if None, as many as the device holds."""

    @property
    def slots(self) -> int:
        """Stacks at a time on this machine."""
        return max(1, torch.cuda.device_count() * self.per_gpu if self.device == "cuda" else self.cores)


@dataclass(frozen=True)
class Job:
    """One run folder to be made: a stack of cells that train together."""

    out: Path
    """The folder of the sweep."""
    config: Config
    members: tuple[Member, ...]
    done: int = 0
    """The step the run is at."""
    observe: Callable[..., Any] | None = None
    """As in `Sweep`."""
    run: Path | None = None
    """The folder of the run, where there is one."""

    @cached_property
    def path(self) -> Path:
        """The folder of the run; a new one is named after its settings."""
        return self.run or self.out / _folder_name(self.config, self.members)

    @property
    def is_finished(self) -> bool:
        """Whether its models are trained; without a run they are not, even if they are trained for no step."""
        return self.run is not None and not self.model_steps

    @property
    def model_steps(self) -> int:
        """Updates still to be made, over all models."""
        return (self.config.optim.steps - self.done) * len(self.members)


def jobs_of(sweep: Sweep, out: Path, machines: Machines) -> list[Job]:
    """The runs under `out` that hold cells of the sweep, unchanged, and stacks of all other cells.

    Cells whose tensors have the same shapes share stacks. What a folder holds already does not change which cells share
    a stack, so processes that begin at different times plan the same stacks.
    """
    runs, problems = find_runs(out)
    if problems:
        raise RunError(f"{problems[0]}; remove that folder to train its models again")
    # The cells that no run has, as the keys of dicts, which keep their order.
    untrained = {config: dict.fromkeys(cells) for config, cells in sweep.members.items()}
    jobs = []
    for run in runs:
        cells = untrained.get(run.config, {})
        cells_of_run = [member for member in run.members if member in cells]
        if cells_of_run:
            check_observed(run, getattr(sweep.observe, "observed", None))
            jobs.append(Job(out, run.config, run.members, run.step, sweep.observe, run.path))
        for member in cells_of_run:
            del cells[member]
    varies_start = any(name.startswith("start.") for name in sweep.varied)
    for config, cells in untrained.items():
        if varies_start or config.start != Start():
            check_start([cell.config(config) for cell in cells])
        together = machines.most_together or models_together(config, machines)
        for stack in stacks(sweep.members[config], together):  # of all cells, also those that a run has
            if members := tuple(member for member in stack if member in cells):
                jobs.append(Job(out, config, members, observe=sweep.observe))
    return jobs


def _folder_name(config: Config, members: Sequence[Member]) -> str:
    """The name of the folder of a new run, with a hash of its settings."""
    return f"stack-{hashlib.sha256(run_document(config, members)).hexdigest()[:12]}"


def stacks(cells: Sequence[Member], together: int) -> list[tuple[Member, ...]]:
    """The cells, in order, in the fewest stacks of at most `together` models, of nearly equal size."""
    n_stacks = math.ceil(len(cells) / together)  # 0 without cells
    bounds = [round(i * len(cells) / max(n_stacks, 1)) for i in range(n_stacks + 1)]  # 10 cells in 3: 0, 3, 7, 10
    return [tuple(cells[start:end]) for start, end in pairwise(bounds)]


def models_together(config: Config, machines: Machines, memory: int | None = None) -> int:
    """How many models a stack may have: on a GPU what its memory holds, on a CPU as many as train in a few seconds.

    On a CPU each trains alone, and small ones share a process and a folder, as it takes longer to make these than to
    train them. `memory` is in bytes; if None, it is that of this machine's GPU.
    """
    if machines.device == "cpu":
        return max(1, min(MOST_TOGETHER, int(OPERATIONS_TOGETHER / operations(config))))
    if memory is None:
        # mem_get_info returns the free memory and all memory.
        memory = int(torch.cuda.mem_get_info()[1]) if torch.cuda.is_available() else MEMORY_ELSEWHERE
    n_models = int(SHARE_OF_MEMORY * memory / machines.per_gpu / bytes_per_model(config))
    return max(1, min(MOST_TOGETHER, n_models))


@dataclass(frozen=True)
class Plan:
    """The stacks that a sweep has to train, and where it trains them."""

    sweep: Sweep
    machines: Machines
    jobs: list[Job]

    def dry_run(self) -> dict[str, Any]:
        """The numbers of the plan by name, as --dry-run prints them."""
        return {
            "cells": len(self.sweep.cells),
            "steps": self.sweep.config.optim.steps,
            "stacks": [len(job.members) for job in self.jobs],
            "finished_stacks": sum(job.is_finished for job in self.jobs),
            "device": self.machines.device,
            "at_a_time": self.machines.slots,
            "model_steps": sum(job.model_steps for job in self.jobs),
            "engine": self.machines.engine,
            "seconds": self.seconds(),
        }

    def seconds(self) -> float | None:
        """About how long training takes on the CPU of this machine if nothing else runs; None on other devices."""
        jobs = [job for job in self.jobs if not job.is_finished]
        if not jobs:
            return 0.0
        if self.machines.device != "cpu" or self.machines.engine != "local":
            return None
        example = max(jobs, key=lambda job: len(job.members))
        seconds_of_model = seconds_on_cpu(example.config, example.members, example.observe)
        operations_of = {config: operations(config) for config in {job.config for job in jobs}}
        seconds = len(jobs) * SECONDS_OF_STACK
        for job in jobs:
            n_models = job.model_steps / max(1, job.config.optim.steps)  # of an interrupted run, what remains
            ratio = operations_of[job.config] / operations_of[example.config]  # 0, inf or NaN with code of the user's
            seconds += seconds_of_model * n_models * (ratio if 0 < ratio < math.inf else 1.0)
        return round(seconds / min(self.machines.slots, len(jobs)), 1)


def plan(sweep: Sweep, out: Path, machines: Machines) -> Plan:
    """Which stacks to train, and how many at a time; looks at the folder and trains nothing."""
    return Plan(sweep, machines, jobs_of(sweep, out, machines))
