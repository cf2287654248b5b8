"""Figures of many models: a census, sweeps over the amount of data, and the cost of a step."""

from dataclasses import replace

import numpy as np
import polars
import pytest

from assignadd.config import PRESETS, UserError
from assignadd.figure.style import figure
from assignadd.paper.generalisation.figures import (
    NEVER,
    PARTS,
    census_data,
    draw_census,
    draw_generalization,
    generalization_caption,
    generalization_data,
)
from assignadd.sweeps.engine import run_sweep
from assignadd.sweeps.plan import named_sweep
from assignadd.sweeps.population import Population, Populations, populations_for, shipped_populations
from assignadd.task.evalsets import EVAL_SETS
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
    assert seed.n_doubles == sum(not seen[n, n] for n in range(59))


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
    assert [s.seed for s in found.seeds] == [0, 1] and found.name() == str(tmp_path / "mine")
    assert not found.as_in_the_paper and found.fraction is None
    assert populations_for([PRESETS["tiny"]], fraction=tmp_path / "fractions").fraction.finals(
        "seen_fraction", "1-var train"
    )[1].shape == (
        2,
        2,
    )
    with pytest.raises(UserError, match="expected a sweep over seed, got one over seen_fraction and seed"):
        populations_for([PRESETS["tiny"]], census=tmp_path / "fractions")
