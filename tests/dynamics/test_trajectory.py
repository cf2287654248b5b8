"""Every column is the measure on that checkpoint alone, and stored tables are read only for their own run."""

import random
import re

import numpy as np
import polars
import pytest
import torch

from assignadd.api import train
from assignadd.config import PRESETS
from assignadd.config.errors import RunError
from assignadd.dynamics import trajectory
from assignadd.dynamics.trajectory import CHUNK, curves_of, measured_at, trajectory_of
from assignadd.measures.accuracies import variable_accuracies, variable_exam, variable_sets
from assignadd.measures.columns import ProgressMeasures
from assignadd.measures.scores import qk1_equals_to_variables
from assignadd.model.handmade import handmade
from assignadd.network import networks_of
from assignadd.runs.encoding import encode_table
from assignadd.runs.manifest import MEASURES
from assignadd.task.evalsets import count_banned
from assignadd.task.positions import roles
from assignadd.task.vocabulary import Vocabulary


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return train(PRESETS["smoke"], [0, 1], tmp_path_factory.mktemp("trajectory") / "run", threads=1)


def test_chunks_change_nothing(run):
    steps = run.steps
    assert len(steps) > CHUNK
    network = networks_of(run)[0][1]
    whole = trajectory_of(network)
    progress = ProgressMeasures([network.config], network.seen[None])
    alone = measured_at(progress, steps[-1:], network.checkpoints)
    assert list(whole["step"]) == steps
    for name, values in whole.items():
        np.testing.assert_allclose(values[-1], alone[name][0], rtol=1e-5, atol=1e-6, err_msg=name)


def test_curves_are_those_that_training_recorded(run):
    recorded = curves_of(networks_of(run)[0][0])
    rows = [row for row in run.metrics() if row["model"] == 0]
    assert list(recorded.steps) == [row["step"] for row in rows]
    assert list(recorded.accuracy["0-var train"]) == [row["accuracy"]["0-var train"] for row in rows]
    earlier = run.steps[1]
    until = curves_of(networks_of(run, step=earlier)[0][0])
    assert list(until.steps) == [row["step"] for row in rows if row["step"] <= earlier] != list(recorded.steps)


def usable_table(run):
    """The stored table of measures; None where there is none or it cannot be used."""
    try:
        return trajectory.stored_measures(run)
    except RunError:
        return None


def test_a_stored_table_counts_for_its_own_checkpoints_alone(run, tmp_path):
    assert usable_table(run) is None
    table = trajectory.measured_run(run)
    assert trajectory.measured_run(run, processes=2).equals(table)
    assert table.height == 2 * len(run.steps) and table["seed"].unique().to_list() == [0, 1]
    trajectory.write_measures(run, table)
    assert usable_table(run).equals(table)
    one = trajectory_of(networks_of(run)[0][1])
    assert "seed" not in one and np.array_equal(
        one["qk2_ov1_var_margin"], table.filter(table["model"] == 1)["qk2_ov1_var_margin"]
    )
    trajectory.write_measures(run, table.with_columns(qk2_ov1_var_margin=polars.col("model") + 7.0))
    assert (trajectory_of(networks_of(run)[0][1])["qk2_ov1_var_margin"] == 8).all()  # is read, the rows of this model
    trajectory.write_measures(run, table)
    other = train(PRESETS["smoke"], [2], tmp_path / "other", threads=1)
    trajectory.write_measures(other, table)
    assert usable_table(run) is not None
    (run.path / MEASURES).write_bytes((other.path / MEASURES).read_bytes())
    assert usable_table(run) is None
    (run.path / MEASURES).write_bytes(b"no table")
    assert usable_table(run) is None


def test_a_damaged_table_is_never_read_as_other_numbers(run):
    path, rng = run.path / MEASURES, random.Random(5)
    table = trajectory.measured_run(run)
    whole = trajectory.write_measures(run, table).read_bytes()
    assert run.verify() == []
    for at in [rng.randrange(len(whole)) for _ in range(60)]:
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << rng.randrange(8)]) + whole[at + 1 :])
        assert usable_table(run) is None
        with pytest.raises(RunError, match=re.escape(str(path))):
            trajectory.stored_measures(run)
        (line,) = run.verify()
        assert str(path) in line
    for size in (0, 4, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        assert usable_table(run) is None
    # Sealed by somebody, but not the rows of this run, or by other code.
    origin = trajectory._origin(run)
    for wrong, about in (
        (table.head(3), origin),
        (table.select(table.columns[:1]), origin),
        (table, origin | {"code": "0"}),
    ):
        path.write_bytes(encode_table(wrong, about))
        assert usable_table(run) is None
    path.write_bytes(whole[: len(whole) // 2])
    measured_now = trajectory_of(networks_of(run)[0][0])
    of_model = table.filter(table["model"] == 0)["qk2_ov1_var_margin"]
    np.testing.assert_allclose(measured_now["qk2_ov1_var_margin"], of_model, rtol=1e-5, atol=1e-6)
    path.write_bytes(whole)
    assert usable_table(run).equals(table)
    path.unlink()


@pytest.mark.parametrize("part", ["measures", "model", "task"])
def test_measures_of_another_definition_are_not_taken(part, tmp_path, monkeypatch):
    (tmp_path / part).mkdir()
    monkeypatch.setattr(trajectory, "__file__", str(tmp_path / "dynamics" / "trajectory.py"))
    versions = set()
    for definition in ("x @ y", "x @ y.mT"):
        (tmp_path / part / "file.py").write_text(definition)
        versions.add(trajectory._code_version.__wrapped__())
    assert len(versions) == 2


HANDMADE = handmade(PRESETS["paper"])


def exam(n=40):
    from assignadd.config import Member
    from assignadd.task.splits import pair_split

    config = Member(0).config(PRESETS["paper"])
    return variable_exam([config], pair_split(config.task, 0)[None], n)


def test_every_variable_stands_where_its_set_says():
    task, found = PRESETS["paper"].task, exam()
    of = roles(task, found.tokens[0])
    operands = found.tokens[0, :, 13:15] - Vocabulary(task).first_variable
    for i, evalset in enumerate(variable_sets(task)):
        rows = slice(i * found.n, (i + 1) * found.n)
        slot, wanted = len(evalset.in_slots) - 1, evalset.in_slots[-1]
        assert (operands[rows, slot] == wanted).all() and of.is_variable[rows].all()
        assert {count_banned(task, *pair) for pair in operands[rows].tolist()} == {evalset.n_banned}
        assert evalset.n_banned == (task.variables[wanted] in (task.banned_first, task.banned_second)[slot])


def test_a_variable_that_cannot_be_told_is_the_one_that_fails():
    assert all(accuracy == 1 for accuracy in variable_accuracies(HANDMADE, exam()).values())
    blind = HANDMADE.clone()
    blind["embed.W_E"][0, Vocabulary(HANDMADE.config.task).variable("c")] = 0
    found = variable_accuracies(blind, exam())
    assert len(found) == 2 * 12
    assert all(accuracy < 0.2 if " c " in name else accuracy > 0.8 for name, accuracy in found.items())


def test_what_equals_asks_for_by_name():
    asking = HANDMADE.clone()
    equals, d = asking.W_E[0, Vocabulary(asking.config.task).equals], asking.config.model.d_head
    asking["blocks.0.attn.W_Q"][0, 0] += (
        3 * d**0.5 * torch.outer(equals, asking.W_E[0, Vocabulary(asking.config.task).variable("e")])
    )
    found = qk1_equals_to_variables(asking)[0]
    assert found[4].item() == pytest.approx(3, abs=1e-4) and found.abs().sum().item() == pytest.approx(3, abs=1e-3)


def test_the_hand_made_model_scores_one_on_the_papers_seven():
    from assignadd.config import Member
    from assignadd.task.splits import pair_split

    config = Member(0).config(PRESETS["paper"])
    columns = ProgressMeasures([config], pair_split(config.task, 0)[None], 200, 20)(HANDMADE)
    for name in ("ov2_mlp2_accuracy", "qk1_num_to_prev_var", "qk2_ov1_var_identity", "probe_l1_var_from_num"):
        assert columns[name].item() == 1.0, name
    for measure in ("attn_l1_equal_to_operands", "attn_l1_num_to_prev", "attn_l2_equal_to_values"):
        assert all(columns[f"{measure} ({n}-var)"].item() == 1.0 for n in (0, 1, 2)), measure
    assert columns["norm embed.W_E"].item() == pytest.approx(74**0.5)
