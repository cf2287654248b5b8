"""Evidence on weights that come from no run: the same numbers as from a run folder with the same checkpoints."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from assignadd.claims.evidence import Evidence, evidence, runs_of
from assignadd.claims.ledger import CLAIMS, OF_FINDINGS
from assignadd.claims.record import judge
from assignadd.config import PRESETS, Member
from assignadd.model.stack import initial_stack
from assignadd.task.splits import pair_split
from assignadd.training.loop import train_run

SMOKE, MEMBERS = PRESETS["smoke"], [Member(3), Member(4)]
CONFIG = replace(SMOKE, record=replace(SMOKE.record, checkpoint_every=6))
SPLITS = [pair_split(CONFIG.task, m.seed) for m in MEMBERS]
N = 80


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """The second of two models from its run, and again from the checkpoints alone."""
    run = train_run(tmp_path_factory.mktemp("evidence") / "run", CONFIG, MEMBERS, torch.stack(SPLITS))
    of_run = evidence(run, n=N)[0][1]
    checkpoints = {step: run.checkpoint(step).models(1) for step in run.steps}
    alone = Evidence(
        checkpoints.pop(run.step),
        MEMBERS[1].config(CONFIG),
        SPLITS[1],
        N,
        step=run.step,
        seed=4,
        checkpoints=checkpoints,
    )
    return of_run, alone


def test_the_last_network_is_measured_alike(both):
    of_run, alone = both
    assert (of_run.seed, of_run.step, of_run.steps) == (alone.seed, alone.step, alone.steps)
    assert of_run.accuracies == alone.accuracies and of_run.learned_binding == alone.learned_binding
    assert of_run.causal.interchange["sum"].accuracy() == alone.causal.interchange["sum"].accuracy()
    assert (of_run.pair_accuracy[2] == alone.pair_accuracy[2]).all()


def test_the_end_of_training_is_measured_alike(both):
    of_run, alone = both
    assert of_run.end_steps == alone.end_steps == [54, 60]  # the checkpoints in the last tenth of 60 steps
    assert {len(a.shares) for a in alone.end_accuracies.values()} == {2}
    assert of_run.end_accuracies == alone.end_accuracies and of_run.in_banned_slots == alone.in_banned_slots
    earlier = evidence(of_run.run, alone.steps[1], n=N)[0][1]
    assert earlier.end_steps == [alone.steps[1]]  # the one that was asked for
    assert earlier.curves.steps.max() <= alone.steps[1]


def test_checkpoints_are_measured_alike(both):
    of_run, alone = both
    for mine, theirs in ((of_run.trajectory, alone.trajectory), (of_run.causal.over_time, alone.causal.over_time)):
        assert mine.keys() == theirs.keys() and len(mine["step"]) == len(of_run.steps)
        assert all(np.array_equal(mine[name], theirs[name], equal_nan=True) for name in mine)
    assert (of_run.stack_at(1).flat == alone.stack_at(1).flat).all() and (
        alone.stack_at(1).flat != alone.stack.flat
    ).any()


def test_curves_come_from_the_checkpoints_where_nothing_was_recorded(both):
    of_run, alone = both
    assert alone.rows == [] and of_run.rows and alone.curves.steps.tolist() == alone.steps and alone.followed
    last = {name: values[-1] for name, values in alone.curves.accuracy.items()}
    assert last == {name: pytest.approx(alone.accuracies[name].accuracy) for name in last}


def test_only_runs_are_listed(both):
    of_run, alone = both
    assert runs_of([of_run, alone, of_run]) == [of_run.run] and not alone.imported and alone.name == "weights"


def test_every_claim_can_be_asked_of_bare_weights():
    alone = Evidence(initial_stack(CONFIG, [5]), Member(5).config(CONFIG), pair_split(CONFIG.task, 5), N)
    assert alone.theory_gradient is None and alone.onsets and not alone.followed and not alone.learned_binding
    asked = [c for c in (*CLAIMS, *OF_FINDINGS) if c.measure is not None]
    few = [judge(c, [alone], "") for c in asked]
    alone.learned_binding = True  # as if it bound: claims about binding are asked of no other network
    many = [judge(c, [alone], "") for c in asked]
    assert {r.by_seed[0].run for r in (*few, *many) if r.by_seed} == {"weights"}
    assert 0 < sum(bool(r.by_seed) for r in few) < 10 and sum(bool(r.by_seed) for r in many) > 60


def test_a_whole_stack_is_not_one_model():
    with pytest.raises(ValueError, match=r"expected a stack of one model .* got 2 models"):
        Evidence(initial_stack(CONFIG, [0, 1]), Member(0).config(CONFIG), SPLITS[0])
