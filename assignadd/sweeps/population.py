"""Populations of seeds: the sweeps that come with the package, read back one trained network at a time."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from assignadd.config import UserError
from assignadd.dynamics.binding import learned_binding
from assignadd.dynamics.late import LateVariable, late_variable
from assignadd.dynamics.phases import Curves, Phases, find_phases
from assignadd.task.evalsets import EVAL_SETS

if TYPE_CHECKING:
    import polars

NAMES = ("census", "fraction", "two-var", "authors")


class SeedCurves:
    """One network of a census: what was recorded of it while it trained."""

    def __init__(self, seed: int, columns: Mapping[str, np.ndarray], banned: Mapping[str, str], n: int):
        self.seed, self.columns, self.banned, self.n = seed, columns, banned, n

    @cached_property
    def curves(self) -> Curves:
        return Curves(self.columns["step"], {s.name: self.columns[s.name] for s in EVAL_SETS if s.name in self.columns}, self.n)

    @cached_property
    def phases(self) -> Phases:
        return find_phases(self.curves)

    @cached_property
    def late_variable(self) -> LateVariable | None:
        spike = self.phases.first_spike
        return late_variable(self.columns, self.banned, spike.after) if spike else None

    @property
    def learned_binding(self) -> bool:
        return learned_binding({"accuracy": {name: float(curve[-1]) for name, curve in self.curves.accuracy.items()}})

    def final(self, column: str) -> float:
        return float(self.columns[column][-1])


@dataclass(frozen=True)
class Population:
    """A sweep's table and where it comes from."""

    name: str
    table: polars.DataFrame
    provenance: Mapping[str, Any]

    @property
    def task(self) -> Mapping[str, Any]:
        return self.provenance["config"]["task"]

    @cached_property
    def seeds(self) -> Sequence[SeedCurves]:
        """Of a sweep over nothing but seeds."""
        banned = {"first": self.task["banned_first"], "second": self.task["banned_second"]}
        parts = self.table.sort("seed", "step").partition_by("seed", maintain_order=True)
        n = self.provenance["sequences_per_set"]
        return [SeedCurves(part["seed"][0], {c: part[c].to_numpy() for c in part.columns}, banned, n) for part in parts]

    def outcomes(self, setting: str, test: str, at_least: float) -> tuple[list[float], list[list[bool]]]:
        """Of a sweep over a setting: its values, and for each whether every seed reached that accuracy on a test at the end."""
        values, accuracies = self.finals(setting, test)
        return values, [[a >= at_least for a in some] for some in accuracies]

    def finals(self, setting: str, test: str) -> tuple[list[float], list[list[float]]]:
        """Of a sweep over a setting: its values, and every seed's accuracy on a test at the end. A diverged model counts as 0."""
        last = self.table.filter(self.table["step"] == self.table["step"].max()).sort(setting, "seed")
        parts = last.partition_by(setting, maintain_order=True)
        return [part[setting][0] for part in parts], [[0.0 if a is None else float(a) for a in part[test]] for part in parts]


@lru_cache(maxsize=len(NAMES))
def population(name: str) -> Population:
    """One of the sweeps that come with the package."""
    import polars

    folder = files("assignadd") / "results"
    try:
        about = json.loads((folder / f"{name}.json").read_text())
        with (folder / f"{name}.parquet").open("rb") as file:
            return Population(name, polars.read_parquet(file), about)
    except FileNotFoundError:
        raise UserError(f"the package has no results called {name}; it has {', '.join(NAMES)}") from None
