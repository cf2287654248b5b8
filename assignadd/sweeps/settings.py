"""A sweep: a table of settings times seeds. Each cell is one model, whose result does not depend on the other cells."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import msgspec

from assignadd.config import Config, ConfigError, Member
from assignadd.errors import RunError
from assignadd.runs.config_json import parse
from assignadd.runs.files import read_input
from assignadd.runs.tables import decode_foreign

# Close together where the paper sees accuracy rise (f about 0.25, r about 0.2; figure generalization_combined).
FRACTIONS = (0.05, 0.10, 0.15, 0.19, 0.21, 0.23, 0.25, 0.27, 0.29, 0.31, 0.33, 0.36, 0.40, 0.50, 0.70, 0.90)
RATIOS = (
    0.0,
    0.02,
    0.05,
    0.08,
    0.10,
    0.12,
    0.14,
    0.16,
    0.18,
    0.20,
    0.22,
    0.25,
    0.30,
    0.35,
    0.40,
    0.50,
    0.65,
    10 / 12,
    1.25,
)
GRIDS: dict[str, tuple[str, tuple[float, ...]]] = {
    "fraction": ("seen_fraction", FRACTIONS),
    "two-var": ("two_var_ratio", RATIOS),
}
NAMES = (*GRIDS, "seeds")
# Settings in which the models of a stack may differ: those that change no tensor's shape.
OWN = tuple(f.name for f in dataclasses.fields(Member) if f.name != "seed")
MOST_CELLS = 1_000_000
MOST_BYTES = 64 << 20
Number = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)] | float | None


@dataclass(frozen=True)
class Sweep:
    name: str
    config: Config
    """What all cells share."""
    cells: tuple[Member, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.cells) <= MOST_CELLS:
            raise ConfigError("cells", len(self.cells), f"1 to {MOST_CELLS} cells")
        if len(set(self.cells)) < len(self.cells):
            twice = Counter(self.cells).most_common(1)[0][0]
            raise ConfigError("cells", twice, "every combination of settings and seed once")
        for cell in self.cells:
            cell.config(self.config)  # refuses a value out of range before anything is trained


def named_sweep(name: str, config: Config, seeds: Sequence[int]) -> Sweep:
    """`fraction` and `two-var` are the paper's two figures, `seeds` is nothing but seeds."""
    if name == "seeds":
        return Sweep(name, config, tuple(Member(seed) for seed in seeds))
    field, values = GRIDS[name]
    return Sweep(name, config, grid({field: values}, seeds))


def grid(values: dict[str, Sequence[float]], seeds: Sequence[int]) -> tuple[Member, ...]:
    """Every combination of the settings' values with every seed."""
    return tuple(Member(seed, **row) for row in _combinations(values) for seed in seeds)


def _combinations(values: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(values, row, strict=True)) for row in product(*values.values())]


def sweep_from_file(path: Path, config: Config, seeds: Sequence[int]) -> Sweep:
    """The rows of settings in a file; with the seeds given, unless they have one (`seed`) of their own.

    A Parquet file has a row per line, a JSON file a list of rows [{"lr": 0.001}, ...] or the values of a grid
    {"lr": [0.001, 0.003], "two_var_ratio": [0.2, 0.8]}, of which every combination is a row.
    """
    import polars

    try:
        if path.suffix == ".json":
            values = parse(read_input(path, MOST_BYTES), path.name)
            read = msgspec.convert(values, type=list[dict[str, Number]] | dict[str, list[Number]])
            n_rows = len(read) if isinstance(read, list) else math.prod(map(len, read.values()))
            if not 1 <= n_rows <= MOST_CELLS:
                raise ValueError(f"{n_rows} rows instead of 1 to {MOST_CELLS}")
            rows = read if isinstance(read, list) else _combinations(read)
            table = polars.DataFrame(rows, infer_schema_length=None)
        else:
            table = decode_foreign(read_input(path, MOST_BYTES), path.name, MOST_CELLS + 1)
    except (OSError, ValueError, RunError, msgspec.MsgspecError, polars.exceptions.PolarsError) as error:
        accepted = f"{', '.join(NAMES)}, or a Parquet or JSON file of settings ({' '.join(str(error).split())[:80]})"
        raise ConfigError("sweep", str(path), accepted) from error
    known = ("seed", *OWN)
    for column, dtype in table.schema.items():
        if column not in known:
            raise ConfigError(f"{path.name}: column", column, "one of " + ", ".join(known))
        if not dtype.is_numeric() or (column == "seed" and not dtype.is_integer()):
            raise ConfigError(f"{path.name}: {column}", str(dtype), "whole numbers" if column == "seed" else "numbers")
    if "seed" in table.columns and table["seed"].null_count():
        raise ConfigError(f"{path.name}: seed", None, "a seed in every row")
    if table.height * (1 if "seed" in table.columns else len(seeds)) > MOST_CELLS:
        raise ConfigError(f"{path.name}: rows", table.height, f"at most {MOST_CELLS} cells")
    cells: list[dict[str, Any]] = [
        {name: v if name == "seed" or v is None else float(v) for name, v in row.items()}
        for row in table.iter_rows(named=True)
    ]
    if "seed" in table.columns:
        return Sweep(path.stem, config, tuple(Member(**row) for row in cells))
    return Sweep(path.stem, config, tuple(Member(seed, **row) for row in cells for seed in seeds))
