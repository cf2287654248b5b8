"""The figures of populations on made-up seeds whose curves are known."""

import numpy as np
import polars
import pytest

from assignadd.figures.census import NEVER, census_data, draw_census
from assignadd.figures.census_doubles import census_doubles_caption, census_doubles_data, draw_census_doubles
from assignadd.figures.generalization_combined import PARTS, draw_generalization, generalization_data
from assignadd.figures.style import BLUE, ORANGE, figure
from assignadd.sweeps.population import Population, SeedCurves, population
from assignadd.task.evalsets import CLASS_SETS, EVAL_SETS

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


def seed_at_the_end(seed: int, binds: bool, doubles: float) -> SeedCurves:
    """The last row of a seed that has, on literals, `doubles` of the held-out doubles and all the rest right."""
    last = {s.name: float(binds or s.n_vars == 0) for s in (*EVAL_SETS, *CLASS_SETS)} | {"0-var doubles": doubles}
    columns = {"step": np.array([100]), **{s.name: np.array([last[s.name]]) for s in EVAL_SETS}}
    return SeedCurves(seed, columns | {f"{name} (final)": np.array([value]) for name, value in last.items()}, {}, 512)


def test_the_classes_of_every_seed_by_whether_it_binds():
    doubles = [(True, 0.2), (True, 0.5), (True, 0.6), (False, 0.9), (False, 1.0)]
    data = census_doubles_data([seed_at_the_end(i, *one) for i, one in enumerate(doubles)])
    assert data.accuracy.shape == (3, 4, 5) and data.binds.tolist() == [True, True, True, False, False]
    assert data.accuracy[0, 3].tolist() == [0.2, 0.5, 0.6, 0.9, 1.0] and data.accuracy[1, 3].tolist() == [1, 1, 1, 0, 0]
    caption = census_doubles_caption(data)
    assert "seeds that bind (3) and seeds that do not (2) are" in caption and "n + n: 0.500 and 0.950." in caption
    with figure() as made:
        draw_census_doubles(data, made)
        dots = {
            (line.get_color(), round(float(np.mean(line.get_ydata())))): line.get_xdata()
            for line in made.axes[0].lines
            if len(line.get_xdata()) != 2 or line.get_marker() == "o"
        }
        assert dots[BLUE, 3].tolist() == [0.2, 0.5, 0.6] and dots[ORANGE, 3].tolist() == [0.9, 1.0]
        assert [t.get_text() for t in made.legends[0].get_texts()] == ["seeds that bind (3)", "seeds that do not (2)", "median"]


def test_a_census_in_which_every_seed_binds_has_one_group():
    caption = census_doubles_caption(census_doubles_data([seed_at_the_end(0, True, 0.25)]))
    assert "medians of seeds that bind (1) are" in caption and caption.endswith("n + n: 0.250.")


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
