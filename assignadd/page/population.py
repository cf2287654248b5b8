"""Many seeds on the page: how many bind, when each skill comes, how much data it needs (section 4)."""

from __future__ import annotations

from typing import Any

import numpy as np

from assignadd.page.history import DIGITS
from assignadd.palette import BLUE, GREEN
from assignadd.paper.generalisation.census_figures import NEVER, SKILLS, census_data
from assignadd.paper.generalisation.seeds import SWEEPS, sweep_threshold
from assignadd.paper.generalisation.sweep_figures import TWO_VAR, ZERO_VAR
from assignadd.stats.intervals import median_interval, wilson
from assignadd.sweeps.population import Populations

# For each sweep: its panel's title, the axis, the final test that is drawn, and the colour.
PANELS = {
    "fraction": ("Pairs of numbers in training", "share of all pairs in training, f", ZERO_VAR, BLUE),
    "two_var": ("Sums of two variables in training", "two-variable sums for each literal one, r", TWO_VAR, GREEN),
}
TESTS = {ZERO_VAR: "literal sums held out from training", TWO_VAR: "two-variable sums not seen in training"}


def population_data(populations: Populations) -> dict[str, Any] | None:
    """The census and the sweeps that there are; None without any."""
    census = _census(populations) if populations.census else None
    sweeps = [_sweep(populations, name) for name in PANELS if populations.there(name)]
    return {"census": census, "sweeps": sweeps} if census or sweeps else None


def _census(populations: Populations) -> dict[str, Any]:
    data = census_data(populations)
    n, bind = len(data.binds), int(data.binds.sum())
    interval = wilson(bind, n)
    skills = [
        {"name": name, "colour": colour, "steps": sorted(int(s) for s in onsets if s != NEVER)}
        for (name, colour, _), onsets in zip(SKILLS, data.onsets, strict=True)
    ]
    doubles = {
        name: _median([s.final("0-var doubles") for s in populations.seeds if s.binds == binding])
        for name, binding in (("binding", True), ("others", False))
        if all(s.has("0-var doubles") for s in populations.seeds)
    }
    return {
        "name": data.name, "n": n, "bind": bind, "low": interval.low, "high": interval.high, "steps": data.steps,
        "skills": skills, "doubles": doubles,
    }  # fmt: skip


def _sweep(populations: Populations, name: str) -> dict[str, Any]:
    """One sweep: the final accuracies of its seeds at each setting, and the setting at which half of them succeed."""
    title, axis, test, colour = PANELS[name]
    population = getattr(populations, name)
    settings, accuracy = population.finals(SWEEPS[name], test)
    binds = population.binds(SWEEPS[name])
    found = sweep_threshold(populations, name, test, binding=True)
    return {
        "name": population.name, "title": title, "axis": axis, "test": TESTS[test], "colour": colour,
        "steps": int(population.table["step"].to_numpy().max()),
        "settings": settings.round(DIGITS).tolist(),
        "accuracies": [[round(float(v), DIGITS) for v in row if np.isfinite(v)] for row in accuracy],
        "medians": [_median(row[np.isfinite(row)].tolist()) for row in accuracy],
        "binding": [[int(row.sum()), len(row)] for row in binds],
        "threshold": found and [found.value, found.interval.low, found.interval.high],
    }  # fmt: skip


def _median(values: list[float]) -> list[float]:
    """The median with the ends of its 95 % interval; the median three times where there are too few values for one."""
    if not values:
        return []
    median, interval = median_interval(values)
    low, high = (interval.low, interval.high) if interval else (median, median)
    return [round(float(v), DIGITS) for v in (median, low, high)]
