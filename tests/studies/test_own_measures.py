"""Studies with measures of their own: what they observe during training comes into the table of the study."""

from dataclasses import replace

import polars
import pytest
import torch

from assignadd.claims.statements import study_records
from assignadd.config import PRESETS
from assignadd.measures.doubles import VOTE_SEEN, doubles_columns
from assignadd.model.handmade import handmade
from assignadd.runs.names import find_runs
from assignadd.studies.cues import LATER, OTHER_NAME, OWN_PLACE, cue_columns
from assignadd.studies.doubles import AS_IN_THE_PAPER, DOUBLES
from assignadd.studies.doubles_causes import DOUBLES_CAUSES, rank_correlation
from assignadd.studies.registry import run_study
from assignadd.studies.spikes import (
    DOUBLE,
    QK2_RISE,
    SATURATED_BEFORE,
    SATURATED_BURST,
    SATURATED_BURST_NEARBY,
    SATURATED_RISE,
    SPIKES_STUDY,
    late_columns,
    spike_columns,
)
from assignadd.studies.table import StudyTable
from assignadd.sweeps.final_tests import final_column
from assignadd.task.evalsets import RECORDED_SETS
from assignadd.task.splits import pair_split
from tests.studies.small import BASE

torch.set_num_threads(1)


def run(study, out, measure_every=0):
    base = replace(BASE, record=replace(BASE.record, measure_every=measure_every))
    study = replace(study, base=base, seeds=1)
    return run_study(study, study.sweep(), out, "", lambda job, step: None)


def test_votes_are_those_of_the_last_checkpoint(tmp_path):
    table = run(DOUBLES, tmp_path)
    found = {}
    for made in find_runs(tmp_path)[0]:
        for config, row in zip(made.configs, doubles_columns(made.at(None)[1], made.configs, made.seen), strict=True):
            found[config] = row
    assert len(found) == len(DOUBLES.cells) == table.frame.height
    paper = next(row for config, row in found.items() if config.task == BASE.task)
    assert table.cells[AS_IN_THE_PAPER][final_column(VOTE_SEEN)].item() == pytest.approx(paper[VOTE_SEEN], rel=1e-5)
    assert {r.verdict for r in study_records(table)} == {"cannot be tested"}  # one seed, and it does not bind


def test_every_precision_is_trained_and_has_its_numbers(tmp_path):
    table = run(SPIKES_STUDY, tmp_path, measure_every=20)
    assert table.frame["spikes"].to_list() == [0.0] * 3 and table.frame["sharp rise"].dtype == polars.Boolean
    kinds = {(made.config.numerics.dtype, made.config.numerics.loss_in_float64) for made in find_runs(tmp_path)[0]}
    assert kinds == {("float32", False), ("float32", True), ("float64", False)}
    losses = table.frame["loss"].to_list()
    assert losses == pytest.approx([losses[0]] * 3, rel=1e-3) and table.is_outcome("sharp rise")
    assert table.cells[DOUBLE].height == 1


def test_numbers_around_the_first_spike_are_those_of_the_curves():
    steps = list(range(0, 8001, 25))
    late = [step >= 4000 for step in steps]
    rows = {"step": steps, "saturated": [0.1 + 0.4 * (3800 <= s < 4000) for s in steps], "reference loss": [0.5] * 321}
    rows |= {"qk2_ov1_var_identity": [0.25 + 0.5 * x for x in late], "qk2_ov1_var_margin": [2.0 + x for x in late]}
    rows |= {s.name: [1.0 if s.n_vars == 0 else 0.3 + 0.7 * x for x in late] for s in RECORDED_SETS}
    found = spike_columns(polars.DataFrame(rows), 256)
    assert (found["spikes"], found["spike steps"], found["loss bursts"]) == (1, [3900], 0)
    assert found["first spike at"] == 4000 and found[QK2_RISE] == pytest.approx(0.5)
    assert found[SATURATED_BEFORE] == pytest.approx(0.5, abs=0.05)
    assert found[SATURATED_RISE] == pytest.approx(0.4, abs=0.06)


def test_saturation_that_only_rises_with_time_is_not_higher_before_bursts_than_nearby():
    """One burst at step 7,000 of 8,000; saturation is step / 10,000, then .2 more just before the burst."""
    steps = list(range(0, 8001, 25))
    rows = {"step": steps, "reference loss": [1.0 if s == 7000 else 0.1 for s in steps]}
    rows |= dict.fromkeys(("qk2_ov1_var_identity", "qk2_ov1_var_margin"), [0.0] * len(steps))
    rows |= {s.name: [1.0] * len(steps) for s in RECORDED_SETS}
    slow = spike_columns(polars.DataFrame(rows | {"saturated": [s / 10_000 for s in steps]}), 256)
    assert slow["burst steps"] == [7000] and slow[SATURATED_BURST] == pytest.approx(0.69 - 0.4)
    assert slow[SATURATED_BURST_NEARBY] == pytest.approx(0.69 - 0.7)
    fast = [s / 10_000 + 0.2 * (6800 <= s <= 7000) for s in steps]
    assert spike_columns(polars.DataFrame(rows | {"saturated": fast}), 256)[SATURATED_BURST_NEARBY] > 0.15


def test_only_bursts_after_step_8000_are_late():
    steps = list(range(0, 12_001, 25))
    rows = {"step": steps, "reference loss": [1.0 if s in (7000, 9000, 11_000) else 0.1 for s in steps]}
    rows |= dict.fromkeys(("qk2_ov1_var_identity", "qk2_ov1_var_margin", "saturated"), [0.0] * len(steps))
    rows |= {s.name: [1.0] * len(steps) for s in RECORDED_SETS}
    found = late_columns(polars.DataFrame(rows), 256)
    assert (found["loss bursts"], found["late bursts"]) == (3, 2)


def test_a_network_made_by_hand_binds_by_name_with_any_number_of_assignments():
    """It tags numbers with names alone, and adds without errors."""
    config = replace(PRESETS["tiny"], task=replace(PRESETS["tiny"].task, max_assignments=2))
    stack = handmade(config)
    found = cue_columns(stack, [stack.config], pair_split(stack.config.task, 0)[None])[0]
    assert found[OTHER_NAME] == found[OWN_PLACE] == found["v x, x"] == 1
    assert [found[f"{k} assignments"] for k in range(1, config.task.prefix // 2 + 1)] == [1] * (config.task.prefix // 2)
    assert found[LATER] == pytest.approx(found["v x | v y, y"] - found["v x | v y, x"])


def test_the_correlation_is_that_of_ranks_among_networks_that_bind():
    """Ranks 1 2 3 4 5 6 against 2 1 4 3 6 5: 1 - 6 * 6 / (6 * 35). A seventh network does not bind."""
    values = {"difference of the operands (final)": [0.1, 0.2, 0.3, 0.4, 0.5, 60.0, 0.0]}
    values |= {"0-var doubles (final)": [0.2, 0.1, 0.4, 0.3, 0.9, 0.8, 1.0], "binds": [True] * 6 + [False]}
    frame = polars.DataFrame(values | {"cell": ["the paper's"] * 7})
    found = rank_correlation("the paper's", StudyTable(DOUBLES_CAUSES, frame, {}))
    assert found.value == pytest.approx(1 - 36 / 210) and found.n == 6
    assert -1 < found.low < found.value < found.high < 1
    assert rank_correlation("the paper's", StudyTable(DOUBLES_CAUSES, frame.head(4), {})) is None
