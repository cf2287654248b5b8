"""Parts of stuck networks that are reset or frozen: which networks they start from, and what counts as one network."""

from pathlib import Path

import polars
import pytest

from assignadd import open_run
from assignadd.stats import wilson
from assignadd.study import StudyTable, share
from assignadd.study.files import read_study
from assignadd.study.table import study_records
from assignadd.training.start import check_start
from assignadd.user_file import user_module

FOLDER = Path(__file__).parents[2] / "findings" / "stuck_parts"
study = user_module(FOLDER)


def test_networks_with_a_part_frozen_as_it_is_never_bound():
    six = open_run("census-six")
    bind = {row["seed"] for row in six.metrics()[-6:] if row["accuracy"]["1-var train"] >= 0.95}
    assert {model["seed.split"] for model in study.OF_SIX} == {member.seed for member in six.members} - bind
    check_start([member.config(study.AS_TRAINED.config) for member in study.AS_TRAINED.sweep(seeds=1).cells])


def test_data_and_initial_weights_are_those_of_other_seeds():
    for cell in study.STUDY.cells:
        assert [model["start.network"] for model in cell.models] == [f"before-stuck-parts:{s}" for s in study.STUCK]
        assert not {model["seed.data"] for model in cell.models} & set(range(21_000, 21_160))


def test_networks_that_are_trained_several_times_are_the_units():
    """Three networks, the first trained four times and the others twice: their shares are 3/4, 1/2 and 0."""
    binds = [True, True, True, False, True, False, False, False]
    cell = study.AS_TRAINED.cells[0].label
    rows = {"cell": cell, "seed.split": [1, 1, 1, 1, 2, 2, 15, 15], "binds": binds}
    found = StudyTable(study.AS_TRAINED, polars.DataFrame(rows), {}).measured(share("binds"), cell)
    ends = wilson(1.25, 3)
    assert (found.value, found.low, found.high, found.n) == (pytest.approx(1.25 / 3), ends.low, ends.high, 3)
    records = study_records(read_study(study.AS_TRAINED, FOLDER))
    assert {(r.value, r.n, r.verdict) for r in records} == {(0, 3, "undecided")}
