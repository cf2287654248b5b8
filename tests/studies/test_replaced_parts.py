"""The studies of parts that are frozen or replaced: whom each model starts from, and what is counted of it."""

import polars
import pytest

from assignadd.studies.doubles import learned_column
from assignadd.studies.frozen import bound_columns
from assignadd.studies.replaced import BIND, PLATEAU_STUDY, RESET_COMMAND, RESET_STUDY, STUCK, TRAINED_ON, binding
from assignadd.studies.table import StudyTable
from assignadd.training.start import check_start


def test_stuck_networks_keep_get_or_lose_a_part_that_is_frozen_to_the_end():
    cells = {cell.label: cell for cell in PLATEAU_STUDY.cells}
    frozen = {"optim.frozen": "OV1", "optim.frozen_until": PLATEAU_STUDY.base.optim.steps}
    own, reset, given = (cells[f"stuck, OV1 {how}, frozen"] for how in ("its own", "reset", "given"))
    assert own.settings == frozen and reset.settings == given.settings == {"start.part": "OV1", **frozen}
    stuck = sorted(f"census-six:{seed}" for seed in STUCK for _ in range(6))
    for cell in (own, reset, given):
        assert sorted(model["start.network"] for model in cell.models) == stuck
    assert len({model["start.part_from"] for model in reset.models}) == 18  # no initial weights twice
    assert {model["start.part_from"] for model in given.models} == {f"census-six:{seed}" for seed in BIND}
    sweep = PLATEAU_STUDY.sweep(seeds=1)
    check_start([member.config(sweep.config) for member in sweep.cells])


def test_a_network_counts_by_whether_it_binds_as_it_is():
    bind_as_they_are, with_a_part_reset = [True, True, True, False, False], [True, False, False, True, None]
    rows = [
        {"cell": cell, "seed": 8000 + i, "binds": binds}
        for cell, outcomes in ((TRAINED_ON, bind_as_they_are), ("OV1 reset, frozen", with_a_part_reset))
        for i, binds in enumerate(outcomes) if binds is not None
    ]  # fmt: skip
    table = StudyTable(RESET_STUDY, polars.DataFrame(rows), {})
    kept = binding("OV1", as_it_is=True, frozen=True, table=table)
    assert (kept.value, kept.n) == (pytest.approx(1 / 3), 3)
    assert binding("OV1", as_it_is=False, frozen=True, table=table) is None  # one network is too few


def test_every_network_of_the_first_run_is_in_every_cell_with_data_of_its_own():
    first, last = RESET_STUDY.first_seed, RESET_STUDY.first_seed + RESET_STUDY.seeds - 1
    assert (
        f"--seeds {first}..{last} " in RESET_COMMAND
        and f"--optim.steps {RESET_STUDY.base.optim.steps} " in RESET_COMMAND
    )
    run = RESET_COMMAND.rpartition("runs/")[2]
    for cell in RESET_STUDY.cells:
        assert [model["start.network"] for model in cell.models] == [f"{run}:{s}" for s in range(first, last + 1)]
        assert not {model["seed.data"] for model in cell.models} & set(range(first, last + 1))


def test_whether_a_network_binds_is_read_at_the_step():
    rows = polars.DataFrame({"step": [7750, 8000, 8250, 9000], "1-var train": [0.99, 0.94, 0.97, 0.95]})
    assert bound_columns(rows, 512) == {"binds at 8000": False, "binds at 9000": True}
    assert bound_columns(rows[:1], 512) == {"binds at 8000": None, "binds at 9000": None}


@pytest.mark.parametrize(("one", "two", "learned"), [(0.96, 0.96, True), (0.99, 0.94, False), (0.94, 0.99, False)])
def test_trained_sums_are_those_of_one_and_of_two_variables_at_the_end(one, two, learned):
    final = {"1-var train (final)": [None, one], "2-var train (final)": [None, two]}
    rows = polars.DataFrame({"step": [20, 40], **final}, schema_overrides=dict.fromkeys(final, polars.Float32))
    assert learned_column(rows, 512)["answers trained sums"] is learned
