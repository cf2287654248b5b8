"""A sweep: a table of settings times seeds. Each cell is one model, whose result does not depend on the other cells."""

from __future__ import annotations

import io
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from assignadd.config import SHORT_NAMES, Config, ConfigError, Member
from assignadd.runs.config_json import exact_settings, parse, with_operation
from assignadd.runs.files import read_input

# Close together where the paper sees accuracy rise (f about 0.25, r about 0.2; figure generalization_combined).
FRACTIONS = (0.05, 0.10, 0.15, 0.19, 0.21, 0.23, 0.25, 0.27, 0.29, 0.31, 0.33, 0.36, 0.40, 0.50, 0.70, 0.90)
RATIOS = (
    0.0, 0.02, 0.05, 0.08, 0.10, 0.12, 0.14, 0.16, 0.18, 0.20, 0.22, 0.25, 0.30, 0.35, 0.40, 0.50, 0.65,
    10 / 12, 1.25,
)  # fmt: skip
# The sweeps over one setting by name: the setting and its values.
GRIDS: dict[str, tuple[str, tuple[float, ...]]] = {
    "fraction": ("seen_fraction", FRACTIONS),
    "two-var": ("two_var_ratio", RATIOS),
}
NAMES = (*GRIDS, "seeds")
# Sections of the settings that a sweep may vary; how models are recorded is the same for all.
SECTIONS = ("task", "model", "optim", "seed", "numerics", "start")
MOST_CELLS = 1_000_000
MOST_BYTES = 64 << 20  # of a file of settings


@dataclass(frozen=True)
class Sweep:
    """Models to be trained: a configuration, and for each model a seed and settings that differ."""

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
        return tuple(sorted({name for cell in self.cells for name, _ in cell.settings}))


def named_sweep(name: str, config: Config, seeds: Sequence[int]) -> Sweep:
    """The sweep `fraction` or `two-var` of the paper's figures, or `seeds`, which varies nothing but the seed."""
    if name == "seeds":
        return Sweep(name, config, tuple(Member(seed) for seed in seeds))
    setting, values = GRIDS[name]
    return Sweep(name, config, grid({setting: values}, seeds))


def grid(values: Mapping[str, Sequence[Any]], seeds: Sequence[int]) -> tuple[Member, ...]:
    """A model for every combination of the settings' values and every seed."""
    return tuple(Member(seed, settings) for settings in _combinations(values) for seed in seeds)


def _combinations(values: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Every combination of one value of each setting: {"a": [1, 2], "b": [3]} is [{a: 1, b: 3}, {a: 2, b: 3}]."""
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
    seeds_per_row = 1 if have_seeds else len(seeds)
    if len(rows) * seeds_per_row > MOST_CELLS:
        raise ConfigError(f"{path.name}: rows", len(rows), f"at most {MOST_CELLS} cells")
    cells = []
    for row in rows:
        if have_seeds and type(row["seed"]) is not int:
            raise ConfigError(f"{path.name}: seed", row["seed"], "whole numbers")
        seeds_of_row = [row["seed"]] if have_seeds else seeds
        settings = _settings(path, {column: value for column, value in row.items() if column != "seed"})
        cells += [Member(seed, settings) for seed in seeds_of_row]
    return Sweep(path.stem, config, tuple(cells))


def _settings(path: Path, row: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a row, by their dotted names; an operation may be a file of answers, which is read.

    `path` is the file of the row, for errors.
    """
    settings = {}
    for column, value in row.items():
        name = SHORT_NAMES.get(column, column)
        section, dot, _ = name.partition(".")
        if not dot or section not in SECTIONS:
            raise ConfigError(f"{path.name}: column", column, "seed, or a setting such as optim.lr or model.n_heads")
        is_list = isinstance(value, str) and value.startswith("[")  # as JSON text, from a CSV file
        settings[name] = parse(value.encode(), f"{path.name}: {column}") if is_list else value
    return exact_settings(with_operation(settings))


def _read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a CSV or JSON file, values by column, as they stand there; those of a grid are its combinations."""
    import polars

    try:
        data = read_input(path, MOST_BYTES)
        if path.suffix == ".csv":
            return polars.read_csv(io.BytesIO(data), n_rows=MOST_CELLS + 1).to_dicts()
        return _rows_of_json(parse(data, path.name))
    except (OSError, ValueError, RecursionError, polars.exceptions.PolarsError) as error:
        problem = " ".join(str(error).split())[:80]
        files = f"a CSV or JSON file of settings ({problem})"
        raise ConfigError("sweep", str(path), f"{', '.join(NAMES)}, or {files}") from error


def _rows_of_json(content: Any) -> list[dict[str, Any]]:
    """The rows in a list of them, or the combinations of a grid's values; a ValueError for anything else."""
    if isinstance(content, list) and all(isinstance(row, dict) for row in content):
        return content
    if isinstance(content, dict) and all(isinstance(values, list) for values in content.values()):
        n_rows = math.prod(len(values) for values in content.values())
        if n_rows > MOST_CELLS:
            raise ValueError(f"{n_rows} rows instead of at most {MOST_CELLS}")
        return _combinations(content)
    raise ValueError("neither a list of rows nor lists of values")
