"""The data of the page about many seeds: how many bind, when each skill comes, how much data it needs (section 4)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from assignadd.page.data import DIGITS
from assignadd.palette import BLUE, GREEN
from assignadd.paper.generalisation.figures import NEVER, SKILLS, TWO_VAR, ZERO_VAR, census_data
from assignadd.paper.generalisation.seeds import SWEEPS, achieved, sweep_threshold
from assignadd.stats import median_interval, wilson
from assignadd.sweeps.population import Populations


class Panel(NamedTuple):
    """How the page shows a sweep."""

    title: str
    axis: str
    test: str
    """The evaluation set of the final test whose accuracies are drawn."""
    colour: str


# By the name of the sweep.
PANELS = {
    "fraction": Panel("Pairs of numbers in training", "share of all pairs in training, f", ZERO_VAR, BLUE),
    "two_var": Panel("Sums of two variables in training", "two-variable sums for each literal one, r", TWO_VAR, GREEN),
}
TESTS = {ZERO_VAR: "literal sums held out from training", TWO_VAR: "two-variable sums not seen in training"}
DOUBLES = "0-var doubles"


def population_data(populations: Populations) -> dict[str, Any] | None:
    """The census and the sweeps of these populations, as the page reads them; None if there are neither."""
    census = _census(populations) if populations.census else None
    sweeps = [_sweep(populations, name) for name in PANELS if populations.of(name)]
    if census is None and not sweeps:
        return None
    return {"census": census, "sweeps": sweeps}


def _census(populations: Populations) -> dict[str, Any]:
    """How many seeds bind; when each learned each skill; median accuracies on held-out doubles, if measured."""
    data = census_data(populations)
    n_seeds = len(data.binds)
    n_binding = int(data.binds.sum())
    interval = wilson(n_binding, n_seeds)
    skills = []
    for (name, colour), onsets in zip(SKILLS, data.onsets, strict=True):  # `onsets` has the step of each seed
        skills.append({"name": name, "colour": colour, "steps": sorted(onsets[onsets != NEVER].tolist())})
    doubles = {}
    if all(seed.has(DOUBLES) for seed in populations.seeds):
        doubles["binding"] = _median([achieved(seed, DOUBLES).value for seed in populations.seeds if seed.binds])
        doubles["others"] = _median([achieved(seed, DOUBLES).value for seed in populations.seeds if not seed.binds])
    return {
        "name": data.name, "n": n_seeds, "bind": n_binding, "low": interval.low, "high": interval.high,
        "steps": data.steps, "skills": skills, "doubles": doubles,
    }  # fmt: skip


def _sweep(populations: Populations, name: str) -> dict[str, Any]:
    """A sweep as the page reads it: all accuracies at the end, and the value from which half of seeds generalise."""
    panel = PANELS[name]
    population = getattr(populations, name)
    settings, accuracy = population.finals(SWEEPS[name], panel.test)  # (settings,), (settings, seeds); NaN for no model
    binds = population.binds(SWEEPS[name])  # (settings, seeds)
    threshold = sweep_threshold(populations, name, panel.test, only_binding=True)
    measured = [row[np.isfinite(row)].tolist() for row in accuracy]  # for each setting, the accuracies that are there
    return {
        "name": population.name,
        "title": panel.title,
        "axis": panel.axis,
        "test": TESTS[panel.test],
        "colour": panel.colour,
        "steps": int(population.table["step"].to_numpy().max()),
        "settings": settings.round(DIGITS).tolist(),
        "accuracies": [[round(share, DIGITS) for share in shares] for shares in measured],
        "medians": [_median(shares) for shares in measured],
        "binding": [[int(row.sum()), len(row)] for row in binds],  # of each setting: how many bind, of how many
        "threshold": None if threshold is None else [threshold.value, threshold.low, threshold.high],
    }


def _median(values: list[float]) -> list[float]:
    """The median and the ends of its 95 % interval (the median again if values are too few); empty without values."""
    if not values:
        return []
    median, interval = median_interval(values)
    low, high = (median, median) if interval is None else (interval.low, interval.high)
    return [round(number, DIGITS) for number in (median, low, high)]
