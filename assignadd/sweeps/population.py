"""Populations of seeds: the tables of sweeps, the package's or a user's, read one trained network at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from assignadd.config import PRESETS, SHORT_NAMES, Config, UserError
from assignadd.config.errors import RunError
from assignadd.dynamics.phases import Curves, LateVariable, Phases, late_variable
from assignadd.measures.routing import TRAINING_LAW
from assignadd.model.accuracy import end_of_training
from assignadd.runs.config_json import config_from
from assignadd.sweeps.final_tests import end_column, final_column
from assignadd.sweeps.results import TABLE, by_network, column_of, read_results, shipped_table
from assignadd.task.splits import pair_mask, pair_split

if TYPE_CHECKING:
    import polars


class SeedCurves:
    """One network of a census: what was recorded of it while it trained, and in its final exam."""

    def __init__(self, population: Population, seed: int, columns: Mapping[str, np.ndarray]):
        self.seed = seed
        self.columns = columns
        """Those of the population's table, an entry for each evaluation of this network."""
        self.population = population.name
        self.task = population.config.task
        self._provenance = population.provenance

    @cached_property
    def curves(self) -> Curves:
        """Its accuracies over training."""
        return Curves.of_columns(self.columns, self._provenance["sequences_per_set"])

    @cached_property
    def phases(self) -> Phases:
        """The phases of its training."""
        return self.curves.phases

    @cached_property
    def late_variable(self) -> LateVariable | None:
        """The variable that is looked up last, if that is after the first spike; None otherwise, or without a spike."""
        spike = self.phases.first_spike
        if spike is None:
            return None
        banned = {"first": self.task.banned_first, "second": self.task.banned_second}
        return late_variable(self.columns, banned, spike.after)

    @cached_property
    def binds(self) -> bool:
        """Whether it binds variables at the end of training."""
        return self.curves.binds

    def along_the_end(self, name: str) -> tuple[list[float], int]:
        """The accuracies on a set at the last evaluations, and the number of sequences that each was counted on.

        They are those of the exams at the end of training, or of the recorded evaluations where there are no exams.
        """
        if end_column(name) in self.columns:
            values = self.columns[end_column(name)]  # NaN at all evaluations before the last ones
            stored = values[np.isfinite(values)]
            n = int(self._provenance["sequences_in_end_exams"])
        else:
            steps = self.columns["step"]
            stored = self.columns[name][np.isin(steps, end_of_training(steps.tolist()))]
            n = int(self._provenance["sequences_per_set"])
        # As whole counts divided by n: in the single precision of tables 1,900 / 2,000 would be below .95.
        counts = np.round(stored.astype(float) * n)
        return (counts / n).tolist(), n

    def final(self, name: str) -> float:
        """An accuracy or a measure at the end of training; from the final exam where that has it."""
        return float(self.columns[self._column_at_the_end(name)][-1])

    def has(self, name: str) -> bool:
        """Whether `final` has a number for an accuracy or a measure."""
        return self._column_at_the_end(name) in self.columns and bool(np.isfinite(self.final(name)))

    def n_final(self, name: str) -> int:
        """How many sequences `final` was counted on."""
        in_final_exam = self._column_at_the_end(name) != name  # the columns of the final exam have names of their own
        n = int(self._provenance["sequences_in_final_exam" if in_final_exam else "sequences_per_set"])
        # A rate over sequences as in training is over those that training could show: at least a third of all.
        return n // 3 if TRAINING_LAW in name else n

    def _column_at_the_end(self, name: str) -> str:
        """The column that `final` reads: that of the final exam if there is one, or else that of the evaluations."""
        return final_column(name) if final_column(name) in self.columns else name

    @property
    def n_doubles(self) -> int:
        """How many pairs (n, n) this seed holds out."""
        split_seed = self._provenance["config"].get("seed", {}).get("split")  # one split for all seeds, if it is set
        seen = pair_split(self.task, self.seed if split_seed is None else split_seed)  # drawn again
        return int(pair_mask(seen, "doubles").sum())


@dataclass(frozen=True, eq=False)
class Population:
    """A sweep's table and where it comes from."""

    name: str
    table: polars.DataFrame
    provenance: Mapping[str, Any]

    @cached_property
    def config(self) -> Config:
        """Task and network of all cells, but for what the sweep varies; what earlier tables lack is the paper's."""
        settings = self.provenance["config"]
        return config_from({"task": settings["task"], "model": settings.get("model", {})})

    @cached_property
    def networks(self) -> list[dict[str, np.ndarray]]:
        """The columns of each network, an entry for each evaluation."""
        return by_network(self.table, self.setting_columns)

    @property
    def setting_columns(self) -> list[str]:
        """The columns of the table that are settings."""
        settings = {*SHORT_NAMES, *map(column_of, self.provenance.get("varied", ()))}
        return [name for name in self.table.columns if name in settings]

    @cached_property
    def seeds(self) -> Sequence[SeedCurves]:
        """The seeds of a sweep over seeds only."""
        return [SeedCurves(self, int(columns["seed"][0]), columns) for columns in self.networks]

    def finals(self, setting: str, column: str) -> tuple[np.ndarray, np.ndarray]:
        """A sweep over a setting: its values (settings,), and every seed's number at the end (settings, seeds).

        A model that diverged counts as 0; NaN stands where a seed has no model at a setting, or a model no such test.
        """
        last = self.last  # columns with an entry per model
        values, row_of_model = np.unique(last[setting], return_inverse=True)
        seeds, column_of_model = np.unique(last["seed"], return_inverse=True)
        has_diverged = np.isfinite(last["diverged_at"]) if "diverged_at" in last else False
        finals = np.full((len(values), len(seeds)), np.nan)
        finals[row_of_model, column_of_model] = np.where(has_diverged, 0.0, last[column])
        return values, finals

    @cached_property
    def last(self) -> dict[str, np.ndarray]:
        """All columns of numbers, with an entry for every model at the last step; NaN where it has no number."""
        last = self.table.filter(self.table["step"] == self.table["step"].max())
        names = [name for name, kind in last.schema.items() if not kind.is_nested()]  # a list is no number
        return {name: last[name].cast(float, strict=False).to_numpy() for name in names}

    def binds(self, setting: str) -> np.ndarray:
        """Which models of a sweep over a setting bind in the end, (settings, seeds)."""
        values, seeds = np.unique(self.last[setting]), np.unique(self.last["seed"])
        binds = np.zeros((len(values), len(seeds)), dtype=bool)
        for columns in self.networks:
            # Setting and seed of a network are the same at all its evaluations.
            row = np.searchsorted(values, columns[setting][0])
            column = np.searchsorted(seeds, columns["seed"][0])
            binds[row, column] = Curves.of_columns(columns, self.provenance["sequences_per_set"]).binds
        return binds


@dataclass(frozen=True, eq=False)
class Populations:
    """Many seeds of one task: a census (several sweeps over seeds are one population) and the sweeps of section 4."""

    census: tuple[Population, ...] = ()
    fraction: Population | None = None
    two_var: Population | None = None

    @cached_property
    def seeds(self) -> list[SeedCurves]:
        """The networks of the census."""
        return [seed for part in self.census for seed in part.seeds]

    def of(self, sweep: str = "") -> tuple[Population, ...]:
        """The population of a sweep over a setting (`fraction`, `two_var`), if there is one; by default the census."""
        populations = (getattr(self, sweep),) if sweep else self.census  # an attribute, which may be None
        return tuple(population for population in populations if population is not None)

    def name(self, sweep: str = "") -> str:
        """The names of the populations that `of` returns, such as "census and two-var"."""
        return " and ".join(population.name for population in self.of(sweep))

    def load(self) -> None:
        """Reads the tables into arrays, which are kept: Polars cannot be used in a forked process."""
        for population in (*self.of("fraction"), *self.of("two_var")):
            population.last, population.networks  # noqa: B018 (cached)
        self.seeds  # noqa: B018 (cached)

    @cached_property
    def as_in_the_paper(self) -> bool:
        """Whether census and sweeps are of the paper's task and network, whatever values the varied setting has."""
        populations = (*self.of(), *self.of("fraction"), *self.of("two_var"))
        return all(_is_the_papers(population.config) for population in populations)


NO_POPULATIONS = Populations()


@lru_cache(maxsize=4)
def shipped_population(name: str) -> Population:
    """One of the sweeps that come with the package."""
    table = shipped_table(name)
    return Population(f"shipped {name}", table.frame(), table.document)


@lru_cache(maxsize=1)
def shipped_populations() -> Populations:
    """The populations of the package: a census in two parts, which differ in variables' names, and both sweeps."""
    census = (shipped_population("census"), shipped_population("authors"))
    return Populations(census, shipped_population("fraction"), shipped_population("two-var"))


def read_population(folder: Path, varies: Sequence[str] = ()) -> Population:
    """The table of a user's sweep over these settings and seeds, from the folder of `assignadd sweep --out`.

    A UserError where there is no such table, or where the sweep varies other settings.
    """
    try:
        population = Population(str(folder), *read_results(folder / TABLE))
        population.config  # noqa: B018 (refuses a table that is not one of ours)
    except (OSError, ValueError, KeyError, TypeError, RunError) as error:
        problem = " ".join(str(error).split())[:80]
        raise UserError(f"{folder}: no table of an `assignadd sweep` ({problem})") from error
    varied = [name for name in population.setting_columns if population.table[name].n_unique() > 1]
    if varied != list(varies):
        expected, actual = " and ".join([*varies, "seed"]), " and ".join([*varied, "seed"])
        raise UserError(f"{folder}: expected a sweep over {expected}, got one over {actual}")
    return population


def populations_for(
    configs: Sequence[Config], census: Path | None = None, fraction: Path | None = None, two_var: Path | None = None
) -> Populations:
    """The populations to compare networks of these settings with.

    They are those in the folders `census`, `fraction` and `two_var`. Where no folder is named, it is the package's, if
    all settings have the paper's task and network; networks of another task are not compared with the package's.
    """
    populations = shipped_populations() if all(map(_is_the_papers, configs)) else NO_POPULATIONS
    if census is not None:
        populations = replace(populations, census=(read_population(census),))
    if fraction is not None:
        populations = replace(populations, fraction=read_population(fraction, ["seen_fraction"]))
    if two_var is not None:
        populations = replace(populations, two_var=read_population(two_var, ["two_var_ratio"]))
    return populations


def _is_the_papers(config: Config) -> bool:
    """Whether the task is that of the paper's text or of the authors' code, and the network the paper's."""
    return config.task in (PRESETS["paper"].task, PRESETS["authors"].task) and config.model == PRESETS["paper"].model
