"""A sweep: a table of settings times seeds. Each cell is one model, whose result does not depend on the other cells."""

from __future__ import annotations

import io
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from assignadd.config import Config, ConfigError, Member
from assignadd.config.errors import RunError
from assignadd.config.member import SHORT_NAMES
from assignadd.runs.config_json import exact_value, parse
from assignadd.runs.files import read_input
from assignadd.runs.tables import decode_foreign
from assignadd.task.arithmetic import operation_settings

# Close together where the paper sees accuracy rise (f about 0.25, r about 0.2; figure generalization_combined).
FRACTIONS = (0.05, 0.10, 0.15, 0.19, 0.21, 0.23, 0.25, 0.27, 0.29, 0.31, 0.33, 0.36, 0.40, 0.50, 0.70, 0.90)
RATIOS = (
    0.0, 0.02, 0.05, 0.08, 0.10, 0.12, 0.14, 0.16, 0.18, 0.20, 0.22, 0.25, 0.30, 0.35, 0.40, 0.50, 0.65,
    10 / 12, 1.25,
)  # fmt: skip
GRIDS: dict[str, tuple[str, tuple[float, ...]]] = {
    "fraction": ("seen_fraction", FRACTIONS),
    "two-var": ("two_var_ratio", RATIOS),
}
NAMES = (*GRIDS, "seeds")
# Sections of the settings that a sweep may vary; how models are recorded is the same for all.
SECTIONS = ("task", "model", "optim", "seed", "numerics", "start")
MOST_CELLS = 1_000_000
MOST_BYTES = 64 << 20


@dataclass(frozen=True)
class Sweep:
    """Models to be trained: a configuration, and a seed and settings of its own for each of them."""

    name: str
    config: Config
    """What cells have where they say nothing else."""
    cells: tuple[Member, ...]
    """Their settings may be any; `jobs` puts cells whose tensors have the same shapes into one stack."""
    observe: Callable[..., Any] | None = None
    """What measures the models during training (`training.trainer.Observer`); if None, as `jobs.SweepObserver` does."""

    def __post_init__(self) -> None:
        if not 1 <= len(self.cells) <= MOST_CELLS:
            raise ConfigError("cells", len(self.cells), f"1 to {MOST_CELLS} cells")
        for cell in self.cells:
            cell.config(self.config)  # refuses a value out of range before anything is trained
        if len(set(self.cells)) < len(self.cells):
            twice = Counter(self.cells).most_common(1)[0][0]
            raise ConfigError("cells", twice, "every combination of settings and seed once")

    @property
    def varied(self) -> tuple[str, ...]:
        """The dotted names of the settings that cells give, in alphabetical order."""
        return tuple(sorted({name for cell in self.cells for name, _ in cell.own}))


def named_sweep(name: str, config: Config, seeds: Sequence[int]) -> Sweep:
    """`fraction` and `two-var` are the paper's two figures, `seeds` is nothing but seeds."""
    if name == "seeds":
        return Sweep(name, config, tuple(Member(seed) for seed in seeds))
    field, values = GRIDS[name]
    return Sweep(name, config, grid({field: values}, seeds))


def grid(values: Mapping[str, Sequence[Any]], seeds: Sequence[int]) -> tuple[Member, ...]:
    """Every combination of the settings' values with every seed."""
    return tuple(Member(seed, row) for row in _combinations(values) for seed in seeds)


def _combinations(values: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(values, row, strict=True)) for row in product(*values.values())]


def sweep_from_file(path: Path, config: Config, seeds: Sequence[int]) -> Sweep:
    """The rows of settings in a file; with the seeds given, unless they have one (`seed`) of their own.

    Settings go by their dotted names (`optim.lr`, `model.n_heads`). A CSV or Parquet file has a row per line, a JSON
    file a list of rows [{"optim.lr": 0.001}, ...] or the values of a grid {"optim.lr": [0.001, 0.003],
    "model.n_heads": [1, 2]}, of which every combination is a row. A list, such as model.d_mlp, is JSON text in CSV.
    """
    rows = _rows_of(path)
    given = [any("seed" in row for row in rows), all(row.get("seed") is not None for row in rows)]
    if any(given) and not all(given):
        raise ConfigError(f"{path.name}: seed", None, "a seed in every row")
    if len(rows) * (1 if given[0] else len(seeds)) > MOST_CELLS:
        raise ConfigError(f"{path.name}: rows", len(rows), f"at most {MOST_CELLS} cells")
    cells = []
    for row in rows:
        own: dict[str, Any] = {}
        for name, value in row.items():
            if name != "seed":
                own |= _settings(path, SHORT_NAMES.get(name, name), value)
        seed = row.get("seed", 0)
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise ConfigError(f"{path.name}: seed", seed, "whole numbers")
        cells += [Member(s, own) for s in ([seed] if given[0] else seeds)]
    return Sweep(path.stem, config, tuple(cells))


def _settings(path: Path, name: str, value: Any) -> dict[str, Any]:
    """The settings that an entry of a file stands for: one, or those of the operation whose answers a file has."""
    if name.partition(".")[0] not in SECTIONS or "." not in name:
        raise ConfigError(f"{path.name}: column", name, "seed, or a setting such as optim.lr or model.n_heads")
    if name == "task.operation" and isinstance(value, str):
        return {f"task.{field}": setting for field, setting in operation_settings(value).items()}
    if isinstance(value, str) and value.startswith("["):
        value = parse(value.encode(), f"{path.name}: {name}")
    return {name: exact_value(name, value)}


def _rows_of(path: Path) -> list[dict[str, Any]]:
    """The rows of a file, as they stand there."""
    import polars

    try:
        data = read_input(path, MOST_BYTES)
        if path.suffix == ".csv":
            return polars.read_csv(io.BytesIO(data), n_rows=MOST_CELLS + 1).to_dicts()
        if path.suffix != ".json":
            return decode_foreign(data, path.name, MOST_CELLS + 1).to_dicts()
        found = parse(data, path.name)
        if isinstance(found, dict) and _are(list, found.values()):
            if (n_rows := math.prod(map(len, found.values()))) > MOST_CELLS:
                raise ValueError(f"{n_rows} rows instead of at most {MOST_CELLS}")
            return _combinations(found)
        if not isinstance(found, list) or not _are(dict, found):
            raise ValueError("neither a list of rows nor lists of values")
        return found
    except (OSError, ValueError, RecursionError, RunError, polars.exceptions.PolarsError) as error:
        files = f"a CSV, Parquet or JSON file of settings ({' '.join(str(error).split())[:80]})"
        raise ConfigError("sweep", str(path), f"{', '.join(NAMES)}, or {files}") from error


def _are(kind: type, values: Iterable[Any]) -> bool:
    return all(isinstance(value, kind) for value in values)
