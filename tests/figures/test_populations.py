"""Figures of many models: a census, sweeps over the amount of data, and the cost of a step."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars
import pytest

from assignadd.config import PRESETS, UserError
from assignadd.figures.census import (
    NEVER,
    census_data,
    census_doubles_caption,
    census_doubles_data,
    draw_census,
    draw_census_doubles,
)
from assignadd.figures.style import figure
from assignadd.figures.sweeps import (
    PARTS,
    SETTINGS,
    draw_generalization,
    draw_scaling,
    generalization_caption,
    generalization_data,
    scaling_data,
)
from assignadd.palette import BLUE, ORANGE
from assignadd.sweeps.engine import run_sweep
from assignadd.sweeps.population import Population, Populations, populations_for, shipped_populations
from assignadd.sweeps.settings import named_sweep
from assignadd.task.evalsets import CLASS_SETS, EVAL_SETS
from assignadd.task.splits import pair_split
from tests.sweeps.small import SWEEP

STEPS = np.arange(0, 20_001, 250)


def seed_rows(seed: int, binds_at: int | None, refines_at: int | None) -> list[dict]:
    """Addition at 1,000, other skills as given; `a` comes with refinement in its banned slot, all else with binding."""
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
    return Population(
        "census", table, {"sequences_per_set": 512, "config": {"task": {"banned_first": "a", "banned_second": "c"}}}
    )


def test_every_seeds_onsets_and_late_variable():
    data = census_data(Populations((made_up((5000, 12_000), (8000, None), (None, None)),)))
    assert data.onsets.tolist() == [[1000, 1000, 1000], [5000, 8000, NEVER], [12_000, NEVER, NEVER]]
    assert data.binds.tolist() == [True, True, False] and data.final.shape == (9, 3)
    assert data.late == ["a first", "a first"] and data.banned == ["a first"]
    with figure() as made:
        draw_census(data, made)
        words = [t.get_text() for t in made.axes[0].get_legend().get_texts()]
    assert words == ["addition: 3 of 3", "binding: 2 of 3", "refinement: 1 of 3"]


def census_at_the_end(*seeds: tuple[bool, float]) -> Populations:
    """Seeds at their last step that bind or not, with this accuracy on held-out doubles of literals, 1 elsewhere."""
    rows = []
    for seed, (binds, doubles) in enumerate(seeds):
        last = {s.name: float(binds or s.n_vars == 0) for s in (*EVAL_SETS, *CLASS_SETS)} | {"0-var doubles": doubles}
        recorded = {s.name: last[s.name] for s in EVAL_SETS}  # which say whether it binds
        rows.append({"seed": seed, "step": 100} | recorded | {f"{name} (final)": v for name, v in last.items()})
    about = {"sequences_per_set": 512, "sequences_in_final_exam": 20_000, "config": {"task": {}}}
    return Populations((Population("made", polars.DataFrame(rows), about),))


def test_the_classes_of_every_seed_by_whether_it_binds():
    data = census_doubles_data(census_at_the_end((True, 0.2), (True, 0.5), (True, 0.6), (False, 0.9), (False, 1.0)))
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
        assert [t.get_text() for t in made.legends[0].get_texts()] == [
            "seeds that bind (3)",
            "seeds that do not (2)",
            "median",
        ]


def test_a_census_in_which_every_seed_binds_has_one_group():
    caption = census_doubles_caption(census_doubles_data(census_at_the_end((True, 0.25))))
    assert "medians of seeds that bind (1) are" in caption and caption.endswith("n + n: 0.250.")


def test_thresholds_are_where_half_of_the_seeds_succeed():
    tests = [name for name, _, _ in PARTS] + ["2-var test", "0-var held out"]
    rows = [
        {"two_var_ratio": x, "seen_fraction": x, "seed": seed, "step": 100, "1-var train": 1.0}
        | dict.fromkeys(tests, 0.99 if x >= 0.3 + 0.01 * seed else 0.2)
        for x in (0.1, 0.2, 0.3, 0.4, 0.5)
        for seed in range(10)
    ]
    made = Population("x", polars.DataFrame(rows), {"sequences_per_set": 512})
    data = generalization_data(Populations((), made, made))
    # At 0.3 one seed of ten succeeds, at 0.4 all do.
    assert 0.3 < data.ratio_threshold[0] == data.fraction_threshold[0] < 0.4
    assert data.ratio_threshold[1] <= data.ratio_threshold[0] <= data.ratio_threshold[2]
    assert data.two_var.shape == (5, 10) and data.parts[:, 0].tolist() == [0.2] * 3
    assert "r = 0.3" in generalization_caption(data)
    with figure() as drawn:
        draw_generalization(data, drawn)
        assert len(drawn.axes) == 2


def test_the_packages_populations_are_what_they_say():
    shipped = shipped_populations()
    assert len(shipped.seeds) == 160 and sorted(s.seed for s in shipped.seeds) == list(range(160))  # no seed twice
    assert all(np.array_equal(s.curves.steps, np.arange(0, 50_001, 250)) for s in shipped.seeds)
    for part, setting in ((shipped.fraction, "seen_fraction"), (shipped.two_var, "two_var_ratio")):
        values, finals = part.finals(setting, "2-var test")
        assert finals.shape == (len(values), 24) and np.isfinite(finals).all()
    for part in (*shipped.census, shipped.fraction, shipped.two_var):
        assert (
            part.provenance["command"].startswith("assignadd sweep")
            and len(part.provenance["made_with"][0]["commit"]) == 40
        )
        assert part.provenance["sequences_in_final_exam"] == 20_000


def test_a_final_number_is_the_exams():
    seed = shipped_populations().seeds[0]
    assert (
        seed.final("1-var train") == seed.columns["1-var train (final)"][-1] and seed.n_final("1-var train") == 20_000
    )
    assert seed.final("ov2_mlp2_accuracy") == seed.columns["ov2_mlp2_accuracy"][-1]
    seen = pair_split(PRESETS["paper"].task, seed.seed)
    assert seed.n_pairs("doubles") == sum(not seen[n, n] for n in range(59))


def test_networks_of_another_task_are_not_held_against_the_papers_census(tmp_path):
    assert (
        populations_for([PRESETS["authors"]]).seeds and not populations_for([PRESETS["paper"], PRESETS["tiny"]]).seeds
    )
    assert populations_for([]).as_in_the_paper
    with pytest.raises(UserError, match="no table of an `assignadd sweep`"):
        populations_for([PRESETS["tiny"]], census=tmp_path)
    name, other = PRESETS["paper"], replace(PRESETS["paper"], model=replace(PRESETS["paper"].model, d_mlp=(None, 256)))
    assert populations_for([name]).two_var is not None and populations_for([other]).two_var is None


def test_a_users_own_census_is_read_from_its_folder(tmp_path):
    run_sweep(named_sweep("seeds", SWEEP.config, [0, 1]), tmp_path / "mine")
    run_sweep(SWEEP, tmp_path / "fractions")
    found = populations_for([PRESETS["tiny"]], census=tmp_path / "mine")
    assert [s.seed for s in found.seeds] == [0, 1] and found.census_name == str(tmp_path / "mine")
    assert not found.as_in_the_paper and found.fraction is None
    assert populations_for([PRESETS["tiny"]], fraction=tmp_path / "fractions").fraction.finals(
        "seen_fraction", "1-var train"
    )[1].shape == (
        2,
        2,
    )
    with pytest.raises(UserError, match="expected a sweep over seed, got one over seen_fraction and seed"):
        populations_for([PRESETS["tiny"]], census=tmp_path / "fractions")


RESULTS = Path(__file__).parents[2] / "assignadd" / "results"


def test_every_measured_point_is_drawn():
    files = [json.loads((RESULTS / f"scaling-{name}.json").read_text()) for name in ("fp32", "tf32")]
    assert [file["tf32"] for file in files] == [False, True]
    with figure(7.5, 4.2) as made:
        draw_scaling(scaling_data(), made)
        assert {ax.get_title(loc="left") for ax in made.axes} == set(SETTINGS.values())
        for ax in made.axes:
            setting = next(s for s, label in SETTINGS.items() if label == ax.get_title(loc="left"))
            for line, file in zip(ax.get_lines(), files, strict=True):
                expected = [(p["value"], p["us"]) for p in file["points"] if p["setting"] == setting]
                assert list(zip(line.get_xdata(), line.get_ydata(), strict=True)) == expected and len(expected) > 2


def test_what_the_documentation_says_of_128_models():
    files = [json.loads((RESULTS / f"scaling-{name}.json").read_text()) for name in ("fp32", "tf32")]
    at_128 = [p["us"] for file in files for p in file["points"] if (p["setting"], p["value"]) == ("M", 128)]
    said = (RESULTS.parents[1] / "docs" / "scale.md").read_text()
    assert len(at_128) == 2 and all(f"**{us:.1f}**" in said for us in at_128)


def test_the_measurements_say_what_made_them():
    for name in ("fp32", "tf32"):
        made_with = json.loads((RESULTS / f"scaling-{name}.json").read_text())["made_with"]
        assert len(made_with["commit"]) == 40 and made_with["dirty"] is False and "H200" in made_with["device"]
