"""Populations of seeds: the tables of sweeps, the package's or a user's, read one trained network at a time."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from torch import Tensor

from assignadd.config import PRESETS, SHORT_NAMES, Config, Task, UserError
from assignadd.config.errors import RunError
from assignadd.dynamics.phases import Curves, LateVariable, Phases, find_phases, late_variable
from assignadd.measures.routing import TRAINING_LAW
from assignadd.model.accuracy import end_of_training
from assignadd.runs.config_json import config_from
from assignadd.sweeps.final_tests import end_column, final_column
from assignadd.sweeps.results import TABLE, by_network, column_of, read_results
from assignadd.sweeps.shipped import shipped_table
from assignadd.task.evalsets import PairKind
from assignadd.task.splits import distinct_sums, pair_split

if TYPE_CHECKING:
    import polars

NAMES = ("census", "authors", "fraction", "two-var")


class SeedCurves:
    """One network of a census: what was recorded of it while it trained, and in its final exam."""

    def __init__(self, population: Population, seed: int, columns: Mapping[str, np.ndarray]):
        self.seed, self.columns = seed, columns
        self.population = population.name
        self._provenance, self.task = population.provenance, population.task

    @cached_property
    def curves(self) -> Curves:
        return Curves.of_columns(self.columns, self._provenance["sequences_per_set"])

    @cached_property
    def phases(self) -> Phases:
        return find_phases(self.curves)

    @property
    def banned(self) -> dict[str, str]:
        """The letters banned from each operand slot."""
        return {"first": self.task.banned_first, "second": self.task.banned_second}

    @cached_property
    def late_variable(self) -> LateVariable | None:
        spike = self.phases.first_spike
        return late_variable(self.columns, self.banned, spike.after) if spike else None

    @cached_property
    def binds(self) -> bool:
        return self.curves.binds

    def along_the_end(self, name: str) -> tuple[list[float], int]:
        """An accuracy at each of the last evaluations, and how many sequences each was counted on.

        From the exams of the last evaluations; tables of an earlier version have the recorded accuracies alone, and for
        sets that were not recorded the final exam.
        """
        about = self._provenance
        if (column := end_column(name)) in self.columns:
            values = self.columns[column]
            return values[np.isfinite(values)].tolist(), int(about["sequences_in_end_exams"])
        if name in self.columns:
            end = np.isin(self.columns["step"], end_of_training(self.columns["step"].tolist()))
            return self.columns[name][end].tolist(), int(about["sequences_per_set"])
        return [self.final(name)], self.n_final(name)

    def final(self, name: str) -> float:
        """An accuracy or a measure at the end of training; from the final exam where that has it."""
        return float(self.columns[self._final(name)][-1])

    def has(self, name: str) -> bool:
        """Whether an accuracy or a measure was recorded."""
        return self._final(name) in self.columns and bool(np.isfinite(self.final(name)))

    def n_final(self, name: str) -> int:
        """How many sequences `final` was counted on."""
        in_final_exam = self._final(name) != name
        n = int(self._provenance["sequences_in_final_exam" if in_final_exam else "sequences_per_set"])
        # Half of the sequences or more are such as training could show; a third is on the safe side.
        return n // 3 if TRAINING_LAW in name else n

    def _final(self, name: str) -> str:
        """The column of an accuracy or a measure at the end: that of the final exam where there is one."""
        return final_column(name) if final_column(name) in self.columns else name

    def n_pairs(self, kind: PairKind) -> int:
        """How many pairs of numbers of one kind this seed has; n + m and m + n count once if both are held out."""
        return distinct_sums(self._seen, kind)

    @cached_property
    def _seen(self) -> Tensor:
        fixed = self._provenance["config"].get("seed", {}).get("split")
        return pair_split(self.task, self.seed if fixed is None else fixed)


@dataclass(frozen=True, eq=False)
class Population:
    """A sweep's table and where it comes from."""

    name: str
    table: polars.DataFrame
    provenance: Mapping[str, Any]

    @cached_property
    def task(self) -> Task:
        return _task_of(self.provenance["config"])

    @cached_property
    def networks(self) -> list[dict[str, np.ndarray]]:
        """The columns of each network, an entry for each evaluation in the order of the steps."""
        varied = {*SHORT_NAMES, *map(column_of, self.provenance.get("varied", ()))}
        return by_network(self.table, [name for name in self.table.columns if name in varied])

    @cached_property
    def seeds(self) -> Sequence[SeedCurves]:
        """The seeds of a sweep over seeds only."""
        return [SeedCurves(self, int(columns["seed"][0]), columns) for columns in self.networks]

    def finals(self, setting: str, column: str) -> tuple[np.ndarray, np.ndarray]:
        """A sweep over a setting: its values (settings,), and every seed's number at the end (settings, seeds).

        A model that diverged counts as 0; NaN stands where a seed has no model at a setting, or a model no such test.
        """
        last = self.last
        values, seeds = np.unique(last[setting]), np.unique(last["seed"])
        finals = np.full((len(values), len(seeds)), np.nan)
        diverged = np.isfinite(last["diverged_at"]) if "diverged_at" in last else False
        places = np.searchsorted(values, last[setting]), np.searchsorted(seeds, last["seed"])
        finals[places] = np.where(diverged, 0.0, last[column])
        return values, finals

    @cached_property
    def last(self) -> dict[str, np.ndarray]:
        """Every model at the last step: all columns of numbers, NaN where there is none."""
        last = self.table.filter(self.table["step"] == self.table["step"].max())
        numbers = [c for c, kind in last.schema.items() if not kind.is_nested()]
        return {c: last[c].cast(float, strict=False).to_numpy() for c in numbers}

    def binds(self, setting: str) -> np.ndarray:
        """Which models of a sweep over a setting bind in the end, (settings, seeds)."""
        values, seeds = np.unique(self.last[setting]), np.unique(self.last["seed"])
        binds = np.zeros((len(values), len(seeds)), dtype=bool)
        for columns in self.networks:
            place = np.searchsorted(values, columns[setting][0]), np.searchsorted(seeds, columns["seed"][0])
            binds[place] = Curves.of_columns(columns, self.provenance["sequences_per_set"]).binds
        return binds


@dataclass(frozen=True, eq=False)
class Populations:
    """Many seeds of one task: a census (several sweeps over seeds are one population) and the sweeps of section 4."""

    census: tuple[Population, ...] = ()
    fraction: Population | None = None
    two_var: Population | None = None

    @cached_property
    def seeds(self) -> list[SeedCurves]:
        return [seed for part in self.census for seed in part.seeds]

    def load(self) -> None:
        """Reads the tables into arrays: Polars cannot be used in a forked process."""
        for part in (self.fraction, self.two_var):
            if part is not None:
                part.last, part.networks  # noqa: B018 (cached)
        self.seeds  # noqa: B018 (cached)

    @property
    def census_name(self) -> str:
        return " and ".join(part.name for part in self.census)

    def name(self, sweep: str) -> str:
        """The name of the population of a sweep over a setting (`fraction`, `two_var`), or of the census for ""."""
        return getattr(self, sweep).name if sweep else self.census_name

    def there(self, sweep: str) -> bool:
        """Whether there is a sweep over a setting (`fraction`, `two_var`), or for "" a census."""
        return getattr(self, sweep) is not None if sweep else bool(self.census)

    @cached_property
    def as_in_the_paper(self) -> bool:
        """Whether all of them are of the paper's task and network, but for the setting that a sweep varies."""
        populations = [part for part in (*self.census, self.fraction, self.two_var) if part is not None]
        model = json.loads(msgspec.json.encode(PRESETS["paper"].model))
        for config in (part.provenance["config"] for part in populations):
            # Tables of an earlier version do not have every field.
            if not _is_the_papers(_task_of(config)) or model | config.get("model", {}) != model:
                return False
        return True


NO_POPULATIONS = Populations()


@lru_cache(maxsize=len(NAMES))
def shipped_population(name: str) -> Population:
    """One of the sweeps that come with the package."""
    table = shipped_table(name)
    return Population(f"shipped {name}", table.frame(), table.document)


@lru_cache(maxsize=1)
def shipped_populations() -> Populations:
    """The census of the paper's task in both readings of its banned slots (a renaming), and both sweeps."""
    census, authors, fraction, two_var = map(shipped_population, NAMES)
    return Populations((census, authors), fraction, two_var)


def read_population(folder: Path, varies: Sequence[str] = ()) -> Population:
    """The table of a user's sweep over these settings and seeds, from the folder of `assignadd sweep --out`."""
    try:
        population = Population(str(folder), *read_results(folder / TABLE))
        population.task  # noqa: B018 (refuses a table that is not one of ours)
    except (OSError, ValueError, KeyError, TypeError, RunError) as error:
        raise UserError(f"{folder}: no table of an `assignadd sweep` ({' '.join(str(error).split())[:80]})") from error
    named = {*SHORT_NAMES, *map(column_of, population.provenance.get("varied", ()))}
    settings = [name for name in population.table.columns if name in named and population.table[name].n_unique() > 1]
    if settings != list(varies):
        expected, actual = " and ".join([*varies, "seed"]), " and ".join([*settings, "seed"])
        raise UserError(f"{folder}: expected a sweep over {expected}, got one over {actual}")
    return population


def populations_for(
    configs: Sequence[Config], census: Path | None = None, fraction: Path | None = None, two_var: Path | None = None
) -> Populations:
    """The populations to hold networks of these settings against: those in the folders, else those of the package.

    The package's are of the paper's task and network; others are not compared with them.
    """
    comparable = all(_is_the_papers(c.task) and c.model == PRESETS["paper"].model for c in configs)
    populations = shipped_populations() if comparable else NO_POPULATIONS
    if census is not None:
        populations = replace(populations, census=(read_population(census),))
    if fraction is not None:
        populations = replace(populations, fraction=read_population(fraction, ["seen_fraction"]))
    if two_var is not None:
        populations = replace(populations, two_var=read_population(two_var, ["two_var_ratio"]))
    return populations


def _task_of(config: Mapping[str, Any]) -> Task:
    """The task in the settings of a table; what an earlier version did not have is as in the paper."""
    return config_from({"task": config["task"]}).task


def _is_the_papers(task: Task) -> bool:
    return task in (PRESETS["paper"].task, PRESETS["authors"].task)
