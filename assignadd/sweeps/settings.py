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

from assignadd.config import SHORT_NAMES, Config, ConfigError, Member
from assignadd.runs.config_json import exact_settings, parse, with_operation
from assignadd.runs.files import read_input

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
    """The rows of settings in a file, each with every seed of `seeds` unless the rows have a column `seed`.

    Settings go by their dotted names (`optim.lr`, `model.n_heads`). A CSV file has a row per line, a JSON
    file a list of rows [{"optim.lr": 0.001}, ...] or the values of a grid {"optim.lr": [0.001, 0.003],
    "model.n_heads": [1, 2]}, of which every combination is a row. A list, such as model.d_mlp, is JSON text in CSV.
    """
    rows = _rows_of(path)
    with_seeds = any("seed" in row for row in rows)
    if with_seeds and any(row.get("seed") is None for row in rows):
        raise ConfigError(f"{path.name}: seed", None, "a seed in every row")
    if len(rows) * (1 if with_seeds else len(seeds)) > MOST_CELLS:
        raise ConfigError(f"{path.name}: rows", len(rows), f"at most {MOST_CELLS} cells")
    cells = []
    for row in rows:
        seed = row.pop("seed", 0)
        if type(seed) is not int:
            raise ConfigError(f"{path.name}: seed", seed, "whole numbers")
        settings = _settings(path, row)
        cells += [Member(s, settings) for s in ([seed] if with_seeds else seeds)]
    return Sweep(path.stem, config, tuple(cells))


def _settings(path: Path, row: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a row, by their dotted names; an operation may be a file of answers, which is read."""
    settings = {}
    for column, value in row.items():
        name = SHORT_NAMES.get(column, column)
        if name.partition(".")[0] not in SECTIONS or "." not in name:
            raise ConfigError(f"{path.name}: column", column, "seed, or a setting such as optim.lr or model.n_heads")
        is_list = isinstance(value, str) and value.startswith("[")
        settings[name] = parse(value.encode(), f"{path.name}: {column}") if is_list else value
    return exact_settings(with_operation(settings))


def _rows_of(path: Path) -> list[dict[str, Any]]:
    """The rows of a file, as they stand there."""
    import polars

    try:
        data = read_input(path, MOST_BYTES)
        if path.suffix == ".csv":
            return polars.read_csv(io.BytesIO(data), n_rows=MOST_CELLS + 1).to_dicts()
        content = parse(data, path.name)
        if isinstance(content, dict) and _all_are(list, content.values()):
            if (n_rows := math.prod(map(len, content.values()))) > MOST_CELLS:
                raise ValueError(f"{n_rows} rows instead of at most {MOST_CELLS}")
            return _combinations(content)
        if not isinstance(content, list) or not _all_are(dict, content):
            raise ValueError("neither a list of rows nor lists of values")
        return content
    except (OSError, ValueError, RecursionError, polars.exceptions.PolarsError) as error:
        files = f"a CSV or JSON file of settings ({' '.join(str(error).split())[:80]})"
        raise ConfigError("sweep", str(path), f"{', '.join(NAMES)}, or {files}") from error


def _all_are(kind: type, values: Iterable[Any]) -> bool:
    """Whether all values have this type."""
    return all(isinstance(value, kind) for value in values)
