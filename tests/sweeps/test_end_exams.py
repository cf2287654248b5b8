"""The exams of the last evaluations of a sweep: when they are taken, on which sequences, and who reads them."""

import json
from dataclasses import replace

import numpy as np
import polars
import pytest
import torch

from assignadd.config import PRESETS, Member, Optim, Recording
from assignadd.model.accuracy import Exam
from assignadd.model.stack import initial_stack
from assignadd.runs.folder import Run
from assignadd.sweeps.engine import run_sweep
from assignadd.sweeps.final_tests import end_column, end_exams, final_column
from assignadd.sweeps.plan import Machines, Sweep, grid, plan
from assignadd.sweeps.population import Population, Populations, shipped_populations
from assignadd.sweeps.results import by_network, tally
from assignadd.task.evalsets import ALL_SETS
from assignadd.task.randomness import EvalSteps
from assignadd.task.splits import pair_split
from assignadd.training.loop import is_measurement, last_evaluations

torch.set_num_threads(1)
STEPS = 200
RECORD = Recording(eval_every=2, eval_sequences=8, checkpoint_every=2, measure_every=40, final_sequences=300)
CONFIG = replace(PRESETS["smoke"], optim=Optim(batch=8, steps=STEPS), record=RECORD)
# With every pair in training there is no held-out one.
SWEEP = Sweep("end", CONFIG, grid({"seen_fraction": (0.5, 1.0)}, (0,)))
LAST_TEN = list(range(182, 201, 2))


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    out = tmp_path_factory.mktemp("sweep") / "out"
    return run_sweep(SWEEP, out).collect(), [Run.open(job.path) for job in plan(SWEEP, out, Machines()).jobs], out


def test_end_columns_are_there_at_exactly_the_last_ten_evaluations(swept):
    table = swept[0]
    ends = [name for name in table.columns if name.endswith(end_column(""))]
    assert set(ends) == {end_column(s.name) for s in ALL_SETS}
    for name in ends:
        held_out = next(s for s in ALL_SETS if end_column(s.name) == name).pair != "seen"
        for fraction, part in table.partition_by("seen_fraction", as_dict=True).items():
            there = part.filter(polars.col(name).is_not_null())["step"].to_list()
            assert there == ([] if held_out and fraction == (1.0,) else LAST_TEN), (name, fraction)
    assert table.filter(polars.col(final_column("1-var train")).is_not_null())["step"].to_list() == [STEPS] * 2


def test_measures_are_still_taken_when_they_are_due_and_no_more_often(swept):
    run = swept[1][0]
    rows = {row["step"]: row.get("measures", {}) for row in run.metrics() if row["model"] == 0}
    assert [step for step, measures in rows.items() if "qk2_ov1_var_identity" in measures] == [*range(0, 201, 40)]
    assert [step for step, measures in rows.items() if "tests" in measures] == LAST_TEN
    assert not any(final_column("1-var train") in rows[step]["tests"] for step in LAST_TEN[:-1])


def test_each_end_exam_is_of_the_network_at_that_step_on_sequences_of_its_own(swept):
    """Asked again of the checkpoints, with 100 steps of the evaluation stream for each evaluation from the last on."""
    for run in swept[1]:
        rows = {row["step"]: row for row in run.metrics() if row["model"] == 0}
        for back, step in enumerate(reversed(LAST_TEN)):
            for place, s in enumerate(ALL_SETS):
                if end_column(s.name) in rows[step]["measures"]["tests"]:
                    first = EvalSteps.END_EXAMS.start + 100 * back + place
                    (marks,) = Exam(run.configs[:1], run.seen[:1], [s], 30, first_step=first).accuracies(
                        run.checkpoint(step).models(0)
                    )
                    assert rows[step]["measures"]["tests"][end_column(s.name)] == pytest.approx(marks[s.name]), step


def test_the_provenance_has_the_number_of_sequences(swept):
    about = json.loads((swept[2] / "table.json").read_text())
    assert (about["sequences_in_final_exam"], about["sequences_in_end_exams"]) == (300, 30)
    values = swept[0][end_column("1-var train")].drop_nulls() * 30
    assert (values - values.round()).abs().max() < 1e-4 and values.n_unique() > 2


@pytest.mark.parametrize(
    ("every", "steps", "last"),
    [(250, 50_000, list(range(47_750, 50_001, 250))), (1000, 30_000, [27_000, 28_000, 29_000, 30_000]),
     (100, 550, [500, 550]), (100, 50, [50])],
)  # fmt: skip
def test_the_last_evaluations_are_in_the_last_tenth_of_the_training(every, steps, last):
    record = replace(RECORD, eval_every=every, measure_every=0, final_sequences=100)
    config = replace(CONFIG, optim=replace(CONFIG.optim, steps=steps), record=record)
    assert last_evaluations(config) == last
    assert [step for step in range(0, steps + 1, 50) if is_measurement(config, step)] == last
    none = replace(config, record=replace(record, final_sequences=0))
    assert last_evaluations(none) == [] and not is_measurement(none, steps)


def test_none_is_taken_where_no_final_exam_is_asked_for():
    config = replace(CONFIG, record=replace(RECORD, final_sequences=0))
    own = Member(0).config(config)
    assert end_exams(initial_stack(config, [0]), [own], pair_split(own.task, 0)[None], 0) == [{}]


def test_by_network_keeps_the_networks_of_a_sweep_apart(swept):
    table = swept[0]
    networks = by_network(table.sample(fraction=1.0, shuffle=True, seed=0), ["seen_fraction"])
    assert [(n["seen_fraction"][0], n["seed"][0]) for n in networks] == [(0.5, 0), (1.0, 0)]
    assert all(n["step"].tolist() == list(range(0, STEPS + 1, 2)) for n in networks)
    assert tally(table.lazy(), SWEEP) == {"models": 2, "diverged": 0, "bind": 0, "do_not_bind": 2}


def test_a_seed_is_judged_by_its_end_exams_or_else_by_what_was_recorded():
    steps = np.arange(0, 50_001, 250)
    accuracy = np.where(steps >= 40_000, 492 / 512, 0.5)
    accuracy[-1] = 461 / 512  # a dip
    columns = {"seed": np.zeros(len(steps), int), "step": steps, "1-var train": accuracy, "0-var train": accuracy}
    about = {"sequences_per_set": 512, "sequences_in_final_exam": 20_000, "config": {"task": {}}}
    exam = [None] * (len(steps) - 10) + [0.97] * 9 + [0.91]
    table = polars.DataFrame(columns).with_columns(
        polars.Series("1-var train (end)", exam), polars.lit(0.7).alias("1-var doubles (final)")
    )
    (seed,) = Populations((Population("made", table, about | {"sequences_in_end_exams": 2000}),)).seeds
    assert seed.along_the_end("1-var train") == ([0.97] * 9 + [0.91], 2000)
    assert seed.along_the_end("0-var train") == ([492 / 512] * 9 + [461 / 512], 512)  # no such exam: as recorded
    assert seed.binds and seed.curves.binding.step == 40_000


def test_every_seed_of_the_census_has_ten_exams():
    for seed in shipped_populations().seeds:
        shares, n = seed.along_the_end("1-var train")
        assert len(shares) == 10 and n == 2000 and min(shares) >= 0
        assert abs(shares[-1] - seed.final("1-var train")) < 0.06  # the last is of the same network as the final exam
