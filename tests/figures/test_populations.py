"""The figures of populations on made-up seeds whose curves are known."""

import numpy as np
import polars
import pytest

from assignadd.figures.census import NEVER, census_data, draw_census
from assignadd.figures.generalization_combined import PARTS, draw_generalization, generalization_data
from assignadd.figures.style import figure
from assignadd.sweeps.population import Population, population
from assignadd.task.evalsets import EVAL_SETS

STEPS = np.arange(0, 20_001, 250)


def seed_rows(seed: int, binds_at: int | None, refines_at: int | None) -> list[dict]:
    """Addition at 1,000, the other skills as given; `a` comes with refinement in its banned slot, all else with binding."""
    rows = []
    for step in STEPS:
        binds, refines = binds_at is not None and step >= binds_at, refines_at is not None and step >= refines_at
        row = {"seed": seed, "step": int(step)}
        for s in EVAL_SETS:
            skill = step >= 1000 if s.n_vars == 0 else refines if s.n_banned else binds
            row[s.name] = 0.99 if skill else 0.3 if step >= 1000 else 0.02
        for v in "abc":
            for slot in ("first", "second"):
                row[f"accuracy {v} {slot}"] = 1.0 if (refines if (v, slot) == ("a", "first") else binds) else 0.1
        rows.append(row)
    return rows


def made_up(*skills) -> Population:
    table = polars.DataFrame([row for seed, (b, r) in enumerate(skills) for row in seed_rows(seed, b, r)])
    return Population("census", table, {"sequences_per_set": 512, "config": {"task": {"banned_first": "a", "banned_second": "c"}}})


def test_every_seeds_onsets_and_late_variable():
    data = census_data(made_up((5000, 12_000), (8000, None), (None, None)).seeds)
    assert data.onsets.tolist() == [[1000, 1000, 1000], [5000, 8000, NEVER], [12_000, NEVER, NEVER]]
    assert data.binds.tolist() == [True, True, False] and data.final.shape == (9, 3)
    assert data.late == ["a first", "a first"] and data.banned == ["a first", "c second"]
    with figure() as made:
        draw_census(data, made)
        words = [t.get_text() for t in made.axes[0].get_legend().get_texts()]
    assert words == ["addition: 3 of 3", "binding: 2 of 3", "refinement: 1 of 3"]


def test_thresholds_are_where_half_of_the_seeds_succeed():
    tests = [name for name, _, _ in PARTS] + ["2-var test", "0-var held out"]
    rows = [
        {"two_var_ratio": x, "seen_fraction": x, "seed": seed, "step": 100} | dict.fromkeys(tests, 0.99 if x >= 0.3 + 0.01 * seed else 0.2)
        for x in (0.1, 0.2, 0.3, 0.4, 0.5)
        for seed in range(10)
    ]
    made = Population("x", polars.DataFrame(rows), {})
    data = generalization_data(made, made)
    # At 0.3 one seed of ten succeeds, at 0.4 all do: half at 0.3 + 0.1 * 0.4 / 0.9.
    assert data.ratio_threshold[0] == pytest.approx(0.3 + 0.1 * 0.4 / 0.9) == data.fraction_threshold[0]
    assert data.ratio_threshold[1] <= data.ratio_threshold[0] <= data.ratio_threshold[2]
    assert data.two_var.shape == (5, 10) and data.parts[:, 0].tolist() == [0.2] * 3
    with figure() as drawn:
        draw_generalization(data, drawn)
        assert len(drawn.axes) == 2


def test_the_packages_populations_are_what_they_say():
    census = population("census")
    assert len(census.seeds) == 128 and census.table["step"].max() == 50_000 and census.provenance["cells"] == 128
    assert all(np.array_equal(s.curves.steps, np.arange(0, 50_001, 250)) for s in census.seeds)
    for name, setting in (("fraction", "seen_fraction"), ("two-var", "two_var_ratio")):
        values, finals = population(name).finals(setting, "2-var test")
        assert len(values) == 20 and {len(some) for some in finals} == {10}
    assert len(population("authors").seeds) == 32
    for name in ("census", "fraction", "two-var", "authors"):
        about = population(name).provenance
        assert about["command"].startswith("assignadd sweep") and len(about["made_with"][0]["commit"]) == 40
